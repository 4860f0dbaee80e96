"""Profiles and options from arguments and from a TOML file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.profiles import OptimizationProfile, check_profiles

from .errors import BadArgument

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_GRAMMAR = "NAME:INPUT=SHAPE[,INPUT=SHAPE...], such as prefill:input_ids=1x2..128..512"
_SHAPE = "sizes joined by x, each a number or MIN..OPT..MAX, such as 1x2..128..512"


@dataclass(frozen=True)
class Settings:
    """What a TOML file says."""

    profiles: tuple[OptimizationProfile, ...] = ()
    options: Mapping[str, Any] | None = None


def parse_shape(text: str, where: str) -> list[int | tuple[int, int, int]]:
    """A shape such as `1x2..128..512`.

    Raises:
        BadArgument: It is none; the message names `where` and the part.
    """
    dims: list[int | tuple[int, int, int]] = []
    for part in text.split("x"):
        if not re.fullmatch(r"\d+|\d+\.\.\d+\.\.\d+", part):
            raise BadArgument(f"{where}: '{part}' in '{text}' is no size; a shape is {_SHAPE}")
        numbers = [int(number) for number in part.split("..")]
        dims.append((numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else numbers[0])
    return dims


def parse_profile(text: str) -> OptimizationProfile:
    """A profile such as `prefill:input_ids=1x2..128..512,mask=1x2..128..512`.

    Raises:
        BadArgument: It is none; the message names the part.
    """
    where = f"--profile {text}"
    name, colon, rest = text.partition(":")
    if not colon or not name:
        raise BadArgument(f"{where}: a profile is {_GRAMMAR}")
    shapes: dict[str, Any] = {}
    for entry in rest.split(",") if rest else ():
        key, equals, shape = entry.partition("=")
        if not equals or not key:
            raise BadArgument(f"{where}: '{entry}' is no INPUT=SHAPE; a profile is {_GRAMMAR}")
        if key in shapes:
            raise BadArgument(f"{where}: input '{key}' is there twice")
        shapes[key] = parse_shape(shape, where)
    return _profile(name, shapes, where)


def parse_profiles(texts: tuple[str, ...]) -> tuple[OptimizationProfile, ...]:
    """Several profiles, in order.

    Raises:
        BadArgument: One is none, or two have one name.
    """
    profiles = tuple(parse_profile(text) for text in texts)
    try:
        return check_profiles(profiles)
    except ValueError as error:
        raise BadArgument(f"--profile: {error}") from error


def read_settings(path: Path) -> Settings:
    """Profiles and options of a TOML file.

    ```toml
    [profiles.decode]
    input_ids = [1, 1]

    [profiles.prefill]
    input_ids = [1, [2, 128, 512]]

    [options]
    cpu_fallback = true
    ```

    Raises:
        BadArgument: The file is no TOML or says something else; the message names the entry.
    """
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadArgument(f"--config {path}: {error}") from error
    unknown = sorted(set(values) - {"profiles", "options"})
    if unknown:
        raise BadArgument(f"--config {path}: '{unknown[0]}' is not known; it has profiles, options")
    for table in ("profiles", "options"):
        if not isinstance(values.get(table, {}), dict):
            raise BadArgument(f"--config {path}: {table} must be a table, not {values[table]!r}")
    profiles = []
    for name, shapes in values.get("profiles", {}).items():
        where = f"--config {path}: profiles.{name}"
        if not isinstance(shapes, dict):
            raise BadArgument(f"{where} must be a table of shapes, not {shapes!r}")
        profiles.append(
            _profile(
                name,
                {
                    key: parse_shape(shape, f"{where}.{key}") if isinstance(shape, str) else shape
                    for key, shape in shapes.items()
                },
                where,
            )
        )
    options = values.get("options", {})
    known = [option.name for option in fields(CompileOptions)]
    for key in options:
        if key not in known:
            raise BadArgument(
                f"--config {path}: options.{key} is not known; {', '.join(known)} are"
            )
    return Settings(tuple(profiles), options)


def _profile(name: str, shapes: Mapping[str, Any], where: str) -> OptimizationProfile:
    try:
        return OptimizationProfile(name, shapes)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"{where}: {error}") from error
