"""The Python blocks of a Markdown page, run as a reader pastes them: one after the other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTS = re.compile(r"^# prints: (.*)$", re.MULTILINE)


def run_as_pasted(page: Path, folder: Path) -> None:
    """Runs the page's blocks in `folder`; they print what their comments say, in that order."""
    script = folder / "snippets.py"
    script.write_text("\n".join(BLOCK.findall(page.read_text())))
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    missing = [said for said in PRINTS.findall(script.read_text()) if said not in lines]
    assert missing == [], f"{page.name} printed\n{done.stdout}"
