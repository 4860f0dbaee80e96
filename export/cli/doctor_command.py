"""`executorch-tensorrt doctor`: what is here, what is missing, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from .console import line, print_json
from .doctor_checks import Check, all_checks
from .errors import CommandError

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@click.command()
@click.option("--strict", is_flag=True, help="Warnings count as problems, as where a GPU must be.")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor(strict: bool, as_json: bool) -> None:
    """Look for all that exporting and running programs takes, and say how to get what is missing.

    Exits with 1 if there is a problem. That there is no GPU is a warning: exporting with
    TensorRT-RTX and running CPU fallbacks go without.
    """
    checks = list(all_checks())
    if as_json:
        print_json([check.as_dict() for check in checks])
    else:
        for check in checks:
            for text, style in _lines(check):
                line(text, style=style)
    bad = [
        check.what
        for check in checks
        if check.status == "problem" or (strict and check.status == "warning")
    ]
    if bad:
        raise CommandError(f"not as it should be: {', '.join(bad)}")


def _lines(check: Check) -> Iterator[tuple[str, str]]:
    yield f"{check.status:8} {check.what}: {check.found}", _STYLES[check.status]
    if check.fix:
        yield f"         -> {check.fix}", ""
