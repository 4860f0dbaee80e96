"""Tables and lines on the terminal, in pipes and in CI logs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_OF_PIPES = 140


def console() -> Console:
    """Where results go: standard output as it is now; markup in names means nothing."""
    # A test or a notebook may have put another file there since the last call.
    width = None if sys.stdout.isatty() else WIDTH_OF_PIPES
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def line(text: str = "", style: str = "") -> None:
    """Prints one line, longer than the terminal if need be."""
    console().print(Text(clean(text), style=style), soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Prints a table; numbers align to the right."""
    made = Table(title=title or None, title_justify="left", title_style="bold")
    contents = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numbers = contents and all(isinstance(row[index], int | float) for row in contents)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in contents:
        made.add_row(*(Text(clean(str(cell))) for cell in row))
    console().print(made)


def print_json(value: Any) -> None:
    """Prints JSON alone, as other programs read it."""
    print(json.dumps(value, indent=1))


def clean(text: str) -> str:
    """The text with control characters as escapes: a file's names must not drive the terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


class _StandardError(logging.Handler):
    """Writes to whatever standard error is at the time, which a progress bar may redirect."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def show_log(*, quiet: bool) -> None:
    """Shows what the package logs while a command works, on standard error."""
    logger = logging.getLogger("executorch_tensorrt")
    for handler in [one for one in logger.handlers if isinstance(one, _StandardError)]:
        logger.removeHandler(handler)
    logger.addHandler(_StandardError())
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
