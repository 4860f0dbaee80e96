"""Runs commands as a user would: in this process, or in one of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from executorch_tensorrt._export.cli.main import commands

ROOT = Path(__file__).parents[1]
QUICKSTART = f"{ROOT}/examples/quickstart/model.py:tiny_transformer"


def invoke(*arguments: object) -> Result:
    """Runs a command in this process; an exception that it lets through fails the test."""
    result = CliRunner().invoke(commands, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(code: int, *arguments: object) -> str:
    """What a command says that must end with this exit code, and without a traceback."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def succeeds(*arguments: object) -> str:
    """What a command prints to standard output that must succeed."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def in_process(
    *arguments: object, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "executorch_tensorrt", *map(str, arguments)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
