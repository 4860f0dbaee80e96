"""examples/llm, as it stands, through the CPU fallback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/llm/generate.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLE), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_it_generates_eager_pytorchs_tokens_and_says_how_fast(tmp_path: Path) -> None:
    done = run(tmp_path, "--device", "cpu", "--prompt", "20", "--tokens", "30")
    assert done.returncode == 0, done.stderr
    assert "8 states" in done.stdout
    assert "prefill: 20 tokens" in done.stdout
    assert "decode:  30 tokens" in done.stdout
    assert "the same tokens as eager PyTorch" in done.stdout
    again = run(tmp_path, "--device", "cpu", "--prompt", "0")
    assert again.returncode == 2
    assert "--prompt must be 1 to 256, not 0" in again.stderr
