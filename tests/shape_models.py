"""Models whose sizes follow from one another, each in two engines.

Between the engines is a float64 sum that TensorRT does not take, so that the second engine's inputs
have sizes that follow from the first's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from executorch.exir import ExecutorchProgramManager
from models import seeded
from torch import nn
from torch.export import Dim

from executorch_tensorrt import CompileOptions, OptimizationProfile, export
from executorch_tensorrt.profiles import DimSpec

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def between(x: torch.Tensor) -> torch.Tensor:
    """Stays outside TensorRT and changes no size."""
    return torch.cumsum(x.to(torch.float64), 0).to(torch.float32)


class Strided(nn.Module):
    """Quotients: (s - 1) // 2 + 1 rows, 32 at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(between(self.conv(x) * 2)).flatten(1) + 1


class Joined(nn.Module):
    """Sums of two inputs' sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return between(torch.cat([x * 2, y])) * 3 + 1


class Nested(nn.Module):
    """Inputs in a dict, a list and a keyword, one of them static."""

    def forward(
        self, parts: dict[str, list[torch.Tensor]], *, scale: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        first, second = parts["rows"]
        return between(torch.cat([first, first]) * scale) + second * bias


class Padded(nn.Module):
    """A size that is no monotone function of the input's: to the next multiple of four."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = F.pad(x * 2, (0, 0, 0, (4 - x.shape[0] % 4) % 4))
        return between(padded) * 3 + 1


class Negative(nn.Module):
    """The remainder of a negative number, which Python and C take to be different ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return between(x * 2) * 3 + F.pad(x, (0, 0, 0, -x.shape[0] % 4))[: x.shape[0]]


class Folded(nn.Module):
    """Products of sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return between((x * 2).flatten(0, 1)) * 3 + 1


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


@dataclass(frozen=True)
class Case:
    model: type[nn.Module]
    dynamic_shapes: Any
    profiles: dict[str, dict[str, list[DimSpec]]]
    inputs: Callable[..., Inputs]
    sizes: dict[str, list[tuple[int, ...]]]  # for each profile, sizes that `inputs` takes


S = Dim("s", min=1, max=6)
CASES = {
    "strided": Case(
        Strided,
        ({0: Dim("b", min=1, max=4), 2: 32 * S},),
        {
            "one": {"x": [1, 1, 32, 8]},
            "many": {"x": [(1, 2, 4), 1, (32, 64, 192), 8]},
        },
        lambda batch, high: ((rows(batch, 1, high, 8),), {}),
        {"one": [(1, 32)], "many": list(itertools.product((1, 4), (32, 96, 192)))},
    ),
    "joined": Case(
        Joined,
        ({0: Dim("a", min=1, max=9)}, {0: Dim("b", min=1, max=9)}),
        {
            "short": {"x": [1, 8], "y": [(1, 2, 3), 8]},
            "long": {"x": [(2, 4, 9), 8], "y": [(1, 5, 9), 8]},
        },
        lambda a, b: ((rows(a, 8), rows(b, 8)), {}),
        {"short": [(1, 1), (1, 3)], "long": [(2, 1), (9, 9), (2, 9)]},
    ),
    "nested": Case(
        Nested,
        {
            "parts": {"rows": [{0: Dim("n", min=1, max=8)}, {0: 2 * Dim("n", min=1, max=8)}]},
            "scale": None,
            "bias": None,
        },
        {
            "one": {"parts_rows_0": [1, 4], "parts_rows_1": [2, 4]},
            "many": {"parts_rows_0": [(2, 4, 8), 4], "parts_rows_1": [(4, 8, 16), 4]},
        },
        lambda n: (
            ({"rows": [rows(n, 4), rows(2 * n, 4)]},),
            {"bias": rows(4), "scale": rows(4)},
        ),
        {"one": [(1,)], "many": [(2,), (5,), (8,)]},
    ),
    "padded": Case(
        Padded,
        ({0: Dim("n", min=1, max=12)},),
        {"few": {"x": [(1, 3, 4), 8]}, "many": {"x": [(5, 6, 12), 8]}},
        lambda n: ((rows(n, 8),), {}),
        {"few": [(1,), (4,)], "many": [(5,), (8,), (9,), (12,)]},
    ),
    "negative": Case(
        Negative,
        ({0: Dim("n", min=1, max=12)},),
        {"few": {"x": [(1, 3, 4), 8]}, "many": {"x": [(5, 6, 12), 8]}},
        lambda n: ((rows(n, 8),), {}),
        {"few": [(1,), (4,)], "many": [(5,), (8,), (9,), (12,)]},
    ),
    "folded": Case(
        Folded,
        ({0: Dim("a", min=1, max=4), 1: Dim("b", min=1, max=6)},),
        {"one": {"x": [1, (1, 2, 6), 8]}, "many": {"x": [(1, 2, 4), (2, 3, 6), 8]}},
        lambda a, b: ((rows(a, b, 8),), {}),
        {"one": [(1, 1), (1, 6)], "many": [(1, 2), (4, 6), (3, 5)]},
    ),
}


def exported(case: Case, options: CompileOptions) -> ExecutorchProgramManager:
    model = seeded(case.model)
    args, kwargs = case.inputs(*case.sizes[list(case.sizes)[-1]][-1])
    return export(
        model,
        args,
        example_kwargs=kwargs,
        dynamic_shapes=case.dynamic_shapes,
        profiles=[OptimizationProfile(*item) for item in case.profiles.items()],
        options=options,
    )
