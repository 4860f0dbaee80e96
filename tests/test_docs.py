"""The pages of docs/: their snippets run, and they say what the code says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import BLOCK, run_as_pasted

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
WITH_SNIPPETS = [page for page in PAGES if BLOCK.search(page.read_text())]
ERRORS = (ROOT / "docs" / "errors.md").read_text()


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run_as_pasted(page: Path, tmp_path: Path) -> None:
    run_as_pasted(page, tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None,
    reason="mkdocs is not installed: pip install .[docs]",
)
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {page.stem for page in PAGES} - {"index"} <= {path.name for path in tmp_path.iterdir()}


def literals(expression: str) -> list[str]:
    """The string literals of a C++ expression, neighbours joined as the compiler does."""
    joined = re.sub(r'(?<!\\)"\s*"', "", expression)
    return re.findall(r'"((?:[^"\\]|\\.)*)"', joined)


def reported_texts() -> dict[str, list[str]]:
    """For each call that reports an error in a text of its own: where, and its fixed parts."""
    texts = {}
    for source in sorted((ROOT / "runtime" / "cpp" / "src").glob("*.cpp")):
        code = re.sub(r"//[^\n]*", "", source.read_text())
        for call in re.finditer(r"\breport(?:_tensorrt)?\((?:[^;]*?)\);", code, re.DOTALL):
            line = code.count("\n", 0, call.start()) + 1
            parts = [part.strip() for part in literals(call[0])]
            if max(map(len, parts), default=0) > 2:  # not ": " alone
                texts[f"{source.name}:{line}"] = parts
    return texts


def test_every_error_that_the_runtime_reports_is_in_the_reference() -> None:
    texts = reported_texts()
    assert len(texts) > 40
    missing = {where: parts for where, parts in texts.items() if max(parts, key=len) not in ERRORS}
    assert missing == {}, "add them to docs/errors.md"


def test_every_text_in_the_reference_is_one_that_the_code_has() -> None:
    sources = [
        *ROOT.glob("runtime/cpp/*/*.cpp"),
        *ROOT.glob("runtime/cpp/src/*.h"),
        *ROOT.glob("*/*.py"),
        *ROOT.glob("export/*.py"),
    ]
    code = re.sub(r'(?<!\\)"\s*f?"', "", "\n".join(source.read_text() for source in sources))
    rows = re.findall(r"^\| (?:\w+ \| )?(`.*?)(?: \|)", ERRORS, re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 60
    wrong = [
        text for text in quoted if any(part.strip(" '()") not in code for part in text.split("…"))
    ]
    assert wrong == []
