"""The README's example works as pasted, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import BLOCK, PRINTS, run_as_pasted

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs_as_pasted(tmp_path: Path) -> None:
    (example,) = BLOCK.findall(README)
    assert len(example.splitlines()) <= 25
    assert PRINTS.search(example)
    run_as_pasted(ROOT / "README.md", tmp_path)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)", README))))
def test_every_make_target_it_names_exists(target: str) -> None:
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_file_it_links_to_exists() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_commands_run_as_pasted(tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\n(executorch-tensorrt export.*?)```", README, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = f"set -e\nPATH={Path(sys.executable).parent}:$PATH\n{block}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    commands = re.findall(r"^executorch-tensorrt (\w+)", block, re.MULTILINE)
    assert commands == ["export", "inspect", "run", "bench"]
    (header,) = [line for line in done.stdout.splitlines() if "alternating" in line]
    assert "ratio" in header
