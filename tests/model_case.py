"""A model with what calls of it look like: its inputs, and the profiles of their sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree

from executorch_tensorrt.profiles import OptimizationProfile

# A size is a number; the name of one that the profiles give; or that many times it.
Size: TypeAlias = int | str | tuple[int, str]
Range: TypeAlias = int | tuple[int, int, int]


@dataclass(frozen=True)
class Values:
    """A tensor input: its sizes, its dtype and, of integers, the range [low, high)."""

    sizes: tuple[Size, ...]
    dtype: torch.dtype = torch.float32
    low: int = 0
    high: int = 2

    def of(self, sizes: Mapping[str, int]) -> torch.Tensor:
        shape = [_size(size, sizes) for size in self.sizes]
        if self.dtype.is_floating_point:
            return torch.randn(shape).to(self.dtype)
        return torch.randint(self.low, self.high, shape).to(self.dtype)


@dataclass(frozen=True)
class Mask(Values):
    """An attention mask: ones, and zeros in the last (or first) third of every second row."""

    dtype: torch.dtype = torch.int64
    at_left: bool = False

    def of(self, sizes: Mapping[str, int]) -> torch.Tensor:
        mask = torch.ones([_size(size, sizes) for size in self.sizes], dtype=self.dtype)
        length = mask.shape[-1]
        padding = length // 3
        mask[1::2, slice(padding) if self.at_left else slice(length - padding, length)] = 0
        return mask


@dataclass(frozen=True)
class Case:
    """A model in eval mode, its inputs by name and, for each profile, the range of each size."""

    model: nn.Module
    inputs: Mapping[str, Values]
    profiles: Mapping[str, Mapping[str, Range]]

    def optimization_profiles(self) -> list[OptimizationProfile]:
        def spec(size: Size, ranges: Mapping[str, Range]) -> Range:
            if isinstance(size, int):
                return size
            factor, name = (1, size) if isinstance(size, str) else size
            given = ranges[name]
            if isinstance(given, int):
                return factor * given
            return factor * given[0], factor * given[1], factor * given[2]

        return [
            OptimizationProfile(
                name,
                {key: [spec(s, ranges) for s in values.sizes] for key, values in self._tensors()},
            )
            for name, ranges in self.profiles.items()
        ]

    def inputs_of(self, profile: str, index: int) -> tuple[torch.Tensor, ...]:
        """Inputs in a profile: of its least sizes, its greatest, its opt, then of random ones."""
        chosen = random.Random(f"{profile} {index}")
        sizes = {}
        for name, given in self.profiles[profile].items():
            low, opt, high = (given, given, given) if isinstance(given, int) else given
            sizes[name] = [low, high, opt][index] if index < 3 else chosen.randint(low, high)
        torch.manual_seed(index)
        return tuple(values.of(sizes) for values in self.inputs.values())

    def example(self) -> tuple[torch.Tensor, ...]:
        """Inputs to trace the model with: of the last profile's opt sizes."""
        return self.inputs_of(list(self.profiles)[-1], 2)

    def answers(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """What eager PyTorch gives, flat."""
        with torch.no_grad():
            return pytree.tree_leaves(self.model(*(value.clone() for value in inputs)))

    def _tensors(self) -> list[tuple[str, Values]]:
        return list(self.inputs.items())


CaseMaker: TypeAlias = Callable[[], Case]


def named(*makers: CaseMaker) -> dict[str, CaseMaker]:
    """The functions that make cases, by name."""
    return {maker.__name__: maker for maker in makers}


def made(maker: CaseMaker) -> Case:
    """A case with the same random weights every time."""
    torch.manual_seed(0)
    return maker()


def _size(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    factor, name = (1, size) if isinstance(size, str) else size
    return factor * sizes[name]


# --- Kinds of inputs that many models share ------------------------------------------------------

VOCABULARY = 64
ROWS: Mapping[str, Mapping[str, Range]] = {"one": {"b": 1}, "many": {"b": (2, 4, 8)}}
ONE_AND_MANY: Mapping[str, Mapping[str, Range]] = {"one": {"b": 1}, "many": {"b": (2, 3, 4)}}
DECODE_AND_PREFILL: Mapping[str, Mapping[str, Range]] = {
    "decode": {"b": (1, 1, 4), "s": 1},
    "prefill": {"b": (1, 2, 4), "s": (2, 16, 32)},
}


class Outputs(nn.Module):
    """A transformers model that takes tensors by position and gives a tuple of tensors."""

    def __init__(self, model: nn.Module, arguments: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.arguments, self.outputs = model, arguments, outputs

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**{self.arguments[0]: x})
        return tuple(result[name] for name in self.outputs)


class Masked(Outputs):
    """The same with an attention mask, [batch, sequence] int64 of ones and zeros."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**{self.arguments[0]: x, self.arguments[1]: mask})
        return tuple(result[name] for name in self.outputs)


def images(
    model: nn.Module,
    size: int = 32,
    *,
    channels: int = 3,
    profiles: Mapping[str, Mapping[str, Range]] = ONE_AND_MANY,
) -> Case:
    """Square images in batches."""
    return Case(model.eval(), {"x": Values(("b", channels, size, size))}, profiles)


def planes(model: nn.Module, step: int, channels: int = 3) -> Case:
    """Images whose height and width vary too, in steps."""
    profiles: dict[str, dict[str, Range]] = {
        "one": {"b": 1, "h": 64 // step, "w": 64 // step},
        "many": {"b": (1, 2, 2), "h": (64 // step, 64 // step, 96 // step)},
    }
    profiles["many"]["w"] = profiles["many"]["h"]
    sizes = ("b", channels, (step, "h"), (step, "w"))
    return Case(model.eval(), {"x": Values(sizes)}, profiles)


def tokens(
    model: nn.Module,
    *,
    masked: bool = False,
    at_left: bool = False,
    profiles: Mapping[str, Mapping[str, Range]] = DECODE_AND_PREFILL,
) -> Case:
    """Token ids in batches of sequences, with an attention mask if asked for."""
    inputs: dict[str, Values] = {"x": Values(("b", "s"), torch.int64, 3, VOCABULARY)}
    if masked:
        inputs["mask"] = Mask(("b", "s"), at_left=at_left)
    return Case(model.eval(), inputs, profiles)
