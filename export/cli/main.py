"""The program `executorch-tensorrt` and its commands."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from executorch_tensorrt import __version__

from .bench_command import bench
from .doctor_command import doctor
from .errors import INTERRUPTED, CommandError
from .export_command import export
from .inspect_command import inspect
from .run_command import run


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CommandError("interrupted", INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="executorch-tensorrt")
def commands() -> None:
    """TensorRT for ExecuTorch: export models to .pte files, look into them, run and measure them.

    With --cmake-dir alone: print the folder of the CMake package.

    Exit codes: 0 done, 1 failed, 2 a bad argument, 3 a file that is no program, damaged
    or newer than this build, 4 outputs differ from the expected ones, 130 interrupted.
    """


for command in (export, inspect, run, bench, doctor):
    commands.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    for stream in (sys.stdout, sys.stderr):
        # A name in a file may hold what the terminal's encoding does not have.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    commands(arguments, prog_name="executorch-tensorrt")
