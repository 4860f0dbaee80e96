"""torch.export's dynamic shapes from profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _combine_args
from torch.utils import _pytree as pytree

from executorch_tensorrt.profiles import OptimizationProfile


@dataclass(frozen=True)
class TraceInputs:
    """What to trace a model with.

    Attributes:
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        dynamic_shapes: As torch.export takes them, by argument name. The dims are `Dim.AUTO` with
            the least and the greatest size of any profile, so that torch.export finds which of them
            are equal; two dims with the same numbers need not be.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: dict[str, Any]


def inputs_apart(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example inputs, with a copy where one tensor is given twice.

    torch.export takes two inputs that are one tensor for one, and the program then computes both
    with the values of the first.
    """
    seen: set[int] = set()

    def apart(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return leaf.detach().clone()

    together: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(apart, (args, kwargs))
    return together


def derive_dynamic_shapes(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    profiles: Sequence[OptimizationProfile],
) -> TraceInputs:
    """Makes every dim dynamic that is not one fixed size in all profiles.

    torch.export takes a dim for a constant if its example has size 1, so an example with such a dim
    is repeated to size 2 there.

    Raises:
        ValueError: A profile names an input that the model does not have, gives it another rank,
            or does not let a dim be what the example has.
    """
    inputs = _combine_args(model, args, dict(kwargs))
    examples = {
        _input_name(path): value
        for path, value in pytree.tree_flatten_with_path(inputs)[0]
        if isinstance(value, torch.Tensor)
    }
    for profile in profiles:
        for name in profile.ranges:
            if name not in examples:
                raise ValueError(
                    f"profile '{profile.name}', input '{name}': the model has no such tensor "
                    f"input; it has {', '.join(examples) or 'none'}"
                )
    varying = {name: _varying(name, value, profiles) for name, value in examples.items()}

    def dims(path: tuple[Any, ...], _: Any) -> dict[int, Any] | None:
        own = varying.get(_input_name(path), {})
        return {dim: Dim.AUTO(min=low, max=high) for dim, (low, high) in own.items()} or None

    units = {
        id(value): [dim for dim in varying[name] if value.shape[dim] == 1]
        for name, value in examples.items()
    }

    def repeated(value: Any) -> Any:
        for dim in units.get(id(value), ()):
            value = value.repeat_interleave(2, dim)
        return value

    return TraceInputs(
        args=pytree.tree_map(repeated, args),
        kwargs=pytree.tree_map(repeated, dict(kwargs)),
        dynamic_shapes=dict(pytree.tree_map_with_path(dims, inputs)),
    )


def _varying(
    name: str, example: torch.Tensor, profiles: Sequence[OptimizationProfile]
) -> dict[int, tuple[int, int]]:
    """The dims that the profiles let vary, with the least and the greatest size of any profile."""
    given = [profile.ranges[name] for profile in profiles if name in profile.ranges]
    for profile in profiles:
        rank = len(profile.ranges.get(name, example.shape))
        if rank != example.dim():
            raise ValueError(
                f"profile '{profile.name}', input '{name}': has {rank} dims, the example input "
                f"has {example.dim()}: {list(example.shape)}"
            )
    varying = {}
    for dim, size in enumerate(example.shape):
        low = min((ranges[dim].min for ranges in given), default=size)
        high = max((ranges[dim].max for ranges in given), default=size)
        if not low <= size <= high:
            raise ValueError(
                f"input '{name}', dim {dim}: the example input has size {size}, the profiles "
                f"allow {low}..{high}; give an example inside"
            )
        if low != high:
            varying[dim] = (low, high)
    return varying


def _input_name(path: tuple[Any, ...]) -> str:
    """The name torch.export gives to the input at a path, such as `d_a_0` for `d["a"][0]`."""
    parts = []
    for key in path:
        if isinstance(key, pytree.MappingKey):
            parts.append(re.sub(r"[^a-zA-Z0-9]", "_", str(key.key)))
        elif isinstance(key, pytree.SequenceKey):
            parts.append(str(key.idx))
        else:
            parts.append(str(key.name))
    return "_".join(parts).lower()
