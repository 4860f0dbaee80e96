"""The methods of a program: one model, or several by name, each with what it is traced with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram

from executorch_tensorrt.profiles import OptimizationProfile, check_profiles

Model: TypeAlias = torch.nn.Module | ExportedProgram


@dataclass(frozen=True)
class MethodSource:
    """What becomes one method; as the arguments of `export` of the same names."""

    name: str
    model: Model
    example_inputs: Sequence[Any]
    example_kwargs: Mapping[str, Any]
    dynamic_shapes: Any
    profiles: tuple[OptimizationProfile, ...]
    default_profile: str | None
    one_of_several: bool

    @contextlib.contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Puts the method's name, where there are several, in front of what is wrong with it."""
        try:
            yield
        except (TypeError, ValueError) as error:
            if self.one_of_several:
                error.args = (f"method '{self.name}': {error}",)
            raise


def method_sources(
    model: Model | Mapping[str, Model],
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    profiles: Any,
    default_profiles: Mapping[str, str] | None,
) -> list[MethodSource]:
    """One source a method, "forward" where there is one model.

    Raises:
        TypeError: `profiles` of a method are no list of OptimizationProfile.
        ValueError: A mapping names a method that there is not, or leaves one out.
    """
    several = isinstance(model, Mapping)
    models: Mapping[str, Model] = model if isinstance(model, Mapping) else {"forward": model}
    if not models:
        raise ValueError("model is an empty mapping; give one model a method")
    for name in models:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a method's name must be a str that is not empty, got {name!r}")
    inputs = _by_method("example_inputs", example_inputs, models, several)
    kwargs = _by_method("example_kwargs", example_kwargs, models, several)
    shapes = _by_method("dynamic_shapes", dynamic_shapes, models, several)
    own_profiles = {
        name: check_profiles(given)
        for name, given in _by_method("profiles", profiles, models, several).items()
    }
    defaults = _default_profiles(default_profiles, own_profiles, several)
    return [
        MethodSource(
            name,
            models[name],
            inputs[name],
            kwargs[name] or {},
            shapes[name],
            own_profiles[name],
            defaults.get(name),
            several,
        )
        for name in models
    ]


def _by_method(what: str, value: Any, models: Mapping[str, Model], several: bool) -> dict[str, Any]:
    """A value for each method: a mapping from all their names, or one value for all of them."""
    if several and isinstance(value, Mapping) and not set(models).isdisjoint(value):
        unknown = [name for name in value if name not in models]
        missing = [name for name in models if name not in value]
        if unknown or missing:
            wrong = unknown or missing
            raise ValueError(
                f"{what} {'names' if unknown else 'leaves out'} "
                f"{', '.join(map(repr, wrong))}; the methods are {', '.join(models)}"
            )
        return dict(value)
    return dict.fromkeys(models, value)


def _default_profiles(
    given: Mapping[str, str] | None,
    profiles: Mapping[str, Sequence[OptimizationProfile]],
    several: bool,
) -> dict[str, str]:
    """The default of each method that has one: as given, else the profile of its own name."""
    if given is None:
        own = {name: {item.name for item in profiles[name]} for name in profiles}
        return {name: name for name in profiles if several and name in own[name]}
    for name in given:
        if name not in profiles:
            raise ValueError(
                f"default_profiles names method {name!r}; the methods are {', '.join(profiles)}"
            )
    return dict(given)
