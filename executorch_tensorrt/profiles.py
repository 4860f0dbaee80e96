"""Optimization profiles, as users declare them: the vocabulary that export and runtime share.

Imports neither torch nor TensorRT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

MAX_NAME_BYTES = 200
DEFAULT_PROFILE_NAME = "default"
"""Name of the only profile of a program that was exported without profiles."""


class DimRange(NamedTuple):
    """Sizes one dim may have under a profile; a static dim has three equal numbers."""

    min: int
    opt: int
    max: int

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}..{self.max}"


DimSpec: TypeAlias = int | tuple[int, int, int] | list[int]


@dataclass(frozen=True, eq=True)
class OptimizationProfile:
    """One named shape regime of a program: what shapes its inputs may have under it.

    Profiles are declared once, over the user's inputs. Every delegate of the exported method then
    has a profile of this name, its own ranges derived through the graph.

    Args:
        name: What callers pin it by. At most 200 bytes as UTF-8.
        shapes: For each input, by its name in the exported program, one entry a dim: a size, or
            `(min, opt, max)`, for whose `opt` TensorRT tunes. Nested inputs have the names that
            torch.export gives them, such as `d_a_0` for `d["a"][0]`. Static inputs may be left out.

    Raises:
        TypeError: A name is not a `str`, or a size not an `int`.
        ValueError: A name is empty or too long, an entry is not one or three numbers, or
            `0 <= min <= opt <= max` does not hold.

    Example:
        >>> OptimizationProfile("prefill", {"tokens": [1, (2, 128, 512)]})
        OptimizationProfile('prefill', {'tokens': [1, (2, 128, 512)]})
    """

    name: str
    shapes: Mapping[str, Sequence[DimSpec]]

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.shapes, Mapping):
            raise TypeError(
                f"profile '{self.name}': shapes must map input names to shapes, "
                f"got {type(self.shapes).__name__}"
            )
        ranges = {key: _shape(self.name, key, value) for key, value in self.shapes.items()}
        # Frozen: the normalised, read-only mapping takes the place of what the caller passed.
        object.__setattr__(self, "shapes", MappingProxyType(ranges))

    @property
    def ranges(self) -> Mapping[str, tuple[DimRange, ...]]:
        """`shapes`, with every dim as a `DimRange`."""
        return self.shapes  # type: ignore[return-value]

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.ranges.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return OptimizationProfile, (self.name, dict(self.ranges))

    def __repr__(self) -> str:
        shapes = {
            name: [dim.min if dim.min == dim.max else tuple(dim) for dim in dims]
            for name, dims in self.ranges.items()
        }
        return f"OptimizationProfile({self.name!r}, {shapes!r})"


def check_profiles(profiles: Sequence[OptimizationProfile]) -> tuple[OptimizationProfile, ...]:
    """The profiles as a tuple, once each is one and no name is there twice.

    Raises:
        TypeError: Not a sequence of `OptimizationProfile`.
        ValueError: Two profiles have one name.
    """
    if isinstance(profiles, OptimizationProfile) or not isinstance(profiles, Sequence):
        raise TypeError(
            "profiles must be a list of OptimizationProfile, "
            f"got one {type(profiles).__name__}; write [profile]"
        )
    seen: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        if not isinstance(profile, OptimizationProfile):
            raise TypeError(
                f"profiles[{index}] must be an OptimizationProfile, got {type(profile).__name__}"
            )
        if profile.name in seen:
            raise ValueError(
                f"profiles[{seen[profile.name]}] and profiles[{index}] are both named "
                f"'{profile.name}'; profile names must be unique"
            )
        seen[profile.name] = index
    return tuple(profiles)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a profile's name must be a str, got {name!r} ({type(name).__name__})")
    if not name:
        raise ValueError("a profile's name must not be empty")
    if "\0" in name:
        raise ValueError(f"profile name {name!r} holds a NUL character")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"profile name {name!r} is not valid Unicode text") from error
    if size > MAX_NAME_BYTES:
        raise ValueError(
            f"profile name '{name[:20]}...' has {size} bytes as UTF-8; at most {MAX_NAME_BYTES}"
        )


def _shape(profile: str, name: object, dims: object) -> tuple[DimRange, ...]:
    if not isinstance(name, str) or not name:
        raise TypeError(f"profile '{profile}': an input's name must be a str, got {name!r}")
    if isinstance(dims, str) or not isinstance(dims, Sequence):
        raise TypeError(
            f"profile '{profile}', input '{name}': a shape must be a list with one entry a dim, "
            f"got {dims!r}"
        )
    return tuple(
        _dim(f"profile '{profile}', input '{name}', dim {dim}", entry)
        for dim, entry in enumerate(dims)
    )


def _dim(where: str, entry: object) -> DimRange:
    if isinstance(entry, Sequence) and not isinstance(entry, str):
        if len(entry) != 3:
            raise ValueError(
                f"{where}: a range is (min, opt, max), got {len(entry)} numbers: {entry!r}"
            )
        sizes = tuple(entry)
    else:
        sizes = (entry,) * 3
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(
                f"{where}: a size must be an int or (min, opt, max), "
                f"got {size!r} ({type(size).__name__})"
            )
        if size < 0:
            raise ValueError(f"{where}: a size must be at least 0, got {size}")
    low, opt, high = sizes
    if low > opt:
        raise ValueError(f"{where}: min {low} is above opt {opt}")
    if opt > high:
        raise ValueError(f"{where}: opt {opt} is above max {high}")
    return DimRange(low, opt, high)
