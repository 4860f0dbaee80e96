"""CompileOptions as options of the command line: each field is one, with its own description."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import click

from executorch_tensorrt.backend.compile_options import CompileOptions

from .errors import BadArgument

_Command = TypeVar("_Command", bound=Callable[..., Any])

# How a field's annotation reads on the command line.
_KINDS: Mapping[str, dict[str, Any]] = {
    "bool": {"type": bool},
    "int": {"type": int, "metavar": "N"},
    "int | None": {"type": int, "metavar": "N"},
    "str | None": {"type": str, "metavar": "TEXT"},
    "tuple[str, ...]": {"type": str, "metavar": "TEXT", "multiple": True},
}


def compile_options(command: _Command) -> _Command:
    """Adds an option for each field; None or () is what was not given."""
    for option in reversed(fields(CompileOptions)):
        kind = _KINDS.get(str(option.type))
        if kind is None:  # one that takes more than a word: TOML has it
            continue
        name = option.name.replace("_", "-")
        flag = f"--{name}/--no-{name}" if option.type == "bool" else f"--{name}"
        text = _description(option.name)
        default = () if kind.get("multiple") else None
        command = click.option(flag, option.name, default=default, help=text, **kind)(command)
    return command


def make_options(given: Mapping[str, Any], configured: Mapping[str, Any]) -> CompileOptions:
    """The options given, over those of the TOML file.

    Raises:
        BadArgument: A value that the option can't have.
    """
    values = dict(configured)
    values.update({key: value for key, value in given.items() if value not in (None, ())})
    try:
        return CompileOptions(**values)
    except (TypeError, ValueError) as error:
        raise BadArgument(str(error)) from error


def _description(name: str) -> str:
    """The first sentence that CompileOptions's docstring has for a field."""
    text = CompileOptions.__doc__ or ""
    found = re.search(rf"^ +{name}: (.*?)(?=^ +\w+: |^ *$|\Z)", text, re.MULTILINE | re.DOTALL)
    words = " ".join(found[1].split()) if found else "See docs/compile_options.md."
    return re.split(r"(?<=\.) (?=[A-Z])", words.replace("`", ""))[0]
