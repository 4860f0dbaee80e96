"""Operators one by one, at the values where libraries differ: halves, signs, ties, infinities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from model_case import ROWS, Case, Values, named
from torch import nn

INFINITY = float("inf")
HALVES = (-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.0, -3.0, 7.0, -7.0)

Function = Callable[..., torch.Tensor]


class Each(nn.Module):
    """Every function of the input, [b, 32], with special values behind it."""

    def __init__(self, functions: Sequence[Function], special: Sequence[float]) -> None:
        super().__init__()
        self.functions = functions
        self.register_buffer("special", torch.tensor([special]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.cat([x, self.special.to(x.dtype).expand(x.shape[0], -1)], 1)
        return tuple(function(x) for function in self.functions)


def _each(*functions: Function, special: Sequence[float] = HALVES, **values: Any) -> Case:
    model = Each(functions, special).eval()
    return Case(model, {"x": Values(("b", 32), **values)}, ROWS)


def rounding() -> Case:
    return _each(
        torch.round,
        torch.floor,
        torch.ceil,
        torch.trunc,
        torch.frac,
        torch.sign,
        torch.abs,
        lambda x: x.to(torch.int32),
        lambda x: x.to(torch.int64) * 3,
        lambda x: x.to(torch.bool),
        lambda x: (x * 4).to(torch.int8),
        lambda x: (x.abs() * 4).to(torch.uint8),
        lambda x: x.half().round(),
        lambda x: x.bfloat16().floor(),
    )


def divisions() -> Case:
    return _each(
        lambda x: x.remainder(2),
        lambda x: x.remainder(-2.0),
        lambda x: x.fmod(2),
        lambda x: x % 1.5,
        lambda x: x // 2,
        lambda x: x // -2.0,
        lambda x: torch.div(x, 2, rounding_mode="trunc"),
        lambda x: torch.div(x, -2, rounding_mode="floor"),
        lambda x: torch.div(x * 1e-30, 1e-30, rounding_mode="trunc"),
        lambda x: x / 3,
        lambda x: 2 / (x + 10),
        lambda x: (x.abs() + 1).reciprocal(),
        lambda x: (x.abs() + 1).rsqrt(),
    )


def powers() -> Case:
    return _each(
        lambda x: x**2,
        lambda x: x**3,
        lambda x: x.abs() ** 0.5,
        lambda x: (x.abs() + 1) ** -1.5,
        lambda x: 2**x,
        lambda x: (x.abs() + 0.5) ** x,
        lambda x: x**0,
        torch.exp,
        torch.expm1,
        lambda x: torch.log(x.abs() + 1e-3),
        lambda x: torch.log1p(x.abs()),
        lambda x: torch.log2(x.abs() + 1),
        lambda x: torch.log10(x.abs() + 1),
        lambda x: torch.sqrt(x.abs()),
        torch.square,
    )


def trigonometry() -> Case:
    return _each(
        torch.sin,
        torch.cos,
        lambda x: torch.tan(x / 3),
        lambda x: torch.asin(x.clamp(-1, 1)),
        lambda x: torch.acos(x.clamp(-1, 1)),
        torch.atan,
        torch.sinh,
        torch.cosh,
        torch.tanh,
        torch.asinh,
        lambda x: torch.acosh(x.abs() + 1),
        lambda x: torch.atanh(x.clamp(-0.9, 0.9)),
        torch.erf,
        lambda x: torch.atan2(x + 0.1, x.flip(1)),  # no negative zero: see benchmarks/RESULTS.md
    )


def activations_at_their_corners() -> Case:
    return _each(
        F.relu,
        F.relu6,
        torch.sigmoid,
        F.gelu,
        lambda x: F.gelu(x, approximate="tanh"),
        F.silu,
        F.elu,
        F.selu,
        F.leaky_relu,
        F.hardtanh,
        F.hardsigmoid,
        F.softplus,
        lambda x: F.softplus(x, 2.0, 5.0),
        F.softsign,
        lambda x: F.threshold(x, 0.5, -7.0),
        lambda x: x.clamp(max=0.5),
        lambda x: x.clamp(-0.5),
        special=(*HALVES, 20.0, -20.0, 60.0, -60.0),
    )


def infinities() -> Case:
    special = (*HALVES, INFINITY, -INFINITY)
    return _each(
        torch.isinf,
        torch.isnan,
        torch.isfinite,
        lambda x: torch.isnan(x - x),
        lambda x: (x - x).isfinite(),
        lambda x: torch.where(x > 0, x, -1.0),
        lambda x: x.masked_fill(x < -1, -INFINITY),
        lambda x: torch.maximum(x, x.flip(1)),
        lambda x: torch.minimum(x, x.flip(1)),
        lambda x: torch.nan_to_num(x, 0.0, 5.0, -5.0),
        lambda x: torch.softmax(x.masked_fill(x < 0, -INFINITY).clamp(max=4), -1),
        lambda x: torch.log_softmax(x.clamp(-4, 4), -1),
        lambda x: torch.exp(-x.abs()),
        torch.tanh,
        torch.sigmoid,
        torch.relu,
        lambda x: x == x.flip(1),
        lambda x: (x > 0).logical_xor(x > 1),
        lambda x: torch.logical_not(x),
        lambda x: torch.logical_and(x, x.flip(1)),
        special=special,
    )


def whole_numbers() -> Case:
    wide = (2**31 - 1, -(2**31), 2**30, 46341, -46341, 7, -7, 0, 1, -1, 3, -3)
    return _each(
        lambda x: x + x,
        lambda x: x * x,
        lambda x: x - 1,
        lambda x: -x,
        torch.abs,
        lambda x: x // 4,
        lambda x: x // -4,
        lambda x: x % 5,
        lambda x: x % -5,
        lambda x: torch.div(x, 4, rounding_mode="trunc"),
        lambda x: x / 4,
        lambda x: x & 12,
        lambda x: x | 5,
        lambda x: x ^ 9,
        lambda x: ~x,
        lambda x: x.clamp(-5, 5),
        lambda x: x.clamp(-5, 5) ** 3,
        lambda x: torch.maximum(x, x.flip(1)),
        lambda x: x.fmod(5),
        lambda x: x.fmod(-5),
        lambda x: torch.div(x, -4, rounding_mode="trunc"),
        lambda x: x % (x.flip(1).clamp(-9, -2)),
        lambda x: torch.div(x, x.flip(1).clamp(-9, -2), rounding_mode="trunc"),
        lambda x: x.sum(1),
        lambda x: x.clamp(-5, 5).to(torch.int64).cumsum(1),
        lambda x: x.to(torch.int64) * 3_000_000_000,
        lambda x: x.to(torch.bool),
        lambda x: x.to(torch.float32),
        lambda x: x.to(torch.int16).to(torch.int32),
        lambda x: x.argmax(1),
        lambda x: x == 7,
        lambda x: x >= -7,
        special=wide,
        dtype=torch.int32,
        low=-20,
        high=20,
    )


def long_numbers() -> Case:
    wide = (2**62, -(2**62), 2**53 + 1, 2**31, -(2**31) - 1, 2**24 + 1, 7, -7, 0, 1, -1, 3)
    return _each(
        lambda x: x + x,
        lambda x: x * 3,
        lambda x: x - 1,
        torch.abs,
        lambda x: x // 4,
        lambda x: x % 1000,
        lambda x: torch.div(x, 1000, rounding_mode="trunc"),
        lambda x: torch.minimum(x, x.flip(1)),
        lambda x: x.sum(1),
        lambda x: x.amax(1),
        lambda x: x.argmin(1),
        lambda x: x.clamp(-5, 2**40),
        lambda x: x > 2**33,
        lambda x: x.to(torch.int32),
        special=wide,
        dtype=torch.int64,
        low=-20,
        high=20,
    )


def angles() -> Case:
    """Of positions as large as long contexts have, as products and as matrix products."""

    class Angles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", 10000 ** -(torch.arange(0, 16, 2) / 16))

        def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
            places = positions.to(torch.float32)
            products = places.unsqueeze(-1) * self.frequencies
            column = self.frequencies[None, :, None].expand(places.shape[0], -1, 1)
            matrix = (column @ places.unsqueeze(1)).transpose(1, 2)
            outer = torch.einsum("bs,f->bsf", places, self.frequencies)
            return products, matrix, outer, products.sin(), matrix.cos(), outer.sin()

    inputs = {"positions": Values(("b", 8), torch.int64, 0, 100_000)}
    return Case(Angles().eval(), inputs, ROWS)


def ties() -> Case:
    """Rows of few different values."""

    def coarse(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.5).round()

    return _each(
        lambda x: coarse(x).argmax(1),
        lambda x: coarse(x).argmin(1),
        lambda x: coarse(x).argmax(1, keepdim=True),
        lambda x: coarse(x).max(1).values,
        lambda x: coarse(x).max(1).indices,
        lambda x: coarse(x).min(1).indices,
        lambda x: coarse(x).topk(3, 1).values,
        lambda x: coarse(x).sort(1).values,
        lambda x: coarse(x).argmax(),
        lambda x: (coarse(x) == 0).sum(1),
        lambda x: (coarse(x) == 0).any(1),
        lambda x: (coarse(x) < 9).all(1),
        lambda x: (coarse(x) == 0).to(torch.float32).mean(1),
        lambda x: torch.count_nonzero(coarse(x), 1),
    )


def sums() -> Case:
    return _each(
        lambda x: x.sum(1),
        lambda x: x.mean(1, keepdim=True),
        lambda x: x.prod(1),
        lambda x: x.amax(1),
        lambda x: x.amin((0, 1)),
        lambda x: x.std(1),
        lambda x: x.var(1, unbiased=False),
        lambda x: x.norm(dim=1),
        lambda x: x.norm(p=1, dim=1),
        lambda x: x.norm(p=INFINITY, dim=1),
        lambda x: x.logsumexp(1),
        lambda x: x.cumsum(1),
        lambda x: x.half().sum(1),
        lambda x: x.softmax(1),
        lambda x: x.half().softmax(1),
        lambda x: x.log_softmax(1),
        lambda x: (x * 100).softmax(1),
        lambda x: (x + 1000).logsumexp(1),
        lambda x: (x + 1000).var(1),
        lambda x: F.normalize(x, dim=1),
        lambda x: F.cosine_similarity(x, x.flip(1), dim=1),
    )


class Gated(nn.Module):
    """value * activation(gate) of two linear layers, or of the halves of one."""

    def __init__(self, activation: Function, *, halves: bool, width: int = 64) -> None:
        super().__init__()
        self.activation, self.halves = activation, halves
        self.both = nn.Linear(32, 2 * width) if halves else nn.Linear(32, width)
        self.gate, self.out = nn.Linear(32, width), nn.Linear(width, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.both(x).chunk(2, -1) if self.halves else (self.both(x), self.gate(x))
        return self.out(value * self.activation(gate))


def gelu_by_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def gates() -> Case:
    class Gates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            activations = (F.gelu, gelu_by_tanh, F.relu, F.silu, torch.sigmoid, torch.tanh)
            self.layers = nn.ModuleList(
                Gated(activation, halves=halves)
                for activation in activations
                for halves in (True, False)
            )
            self.half = nn.ModuleList(
                Gated(activation, halves=True).half() for activation in (F.gelu, F.relu)
            )

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (
                *(layer(x) for layer in self.layers),
                *(layer(x.half()) for layer in self.half),
            )

    return Case(Gates().eval(), {"x": Values(("b", 32))}, ROWS)


CASES = named(
    gates,
    rounding,
    divisions,
    powers,
    trigonometry,
    activations_at_their_corners,
    infinities,
    whole_numbers,
    long_numbers,
    angles,
    ties,
    sums,
)
