"""Corner cases: operators and borders that are hard, and what no engine can have."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from attention_models import (
    attention,
    causal_over_more_keys,
    one_query_of_several_attentions,
    queries_without_keys,
    queries_without_keys_in_an_additive_mask,
    query_that_is_keys,
)
from model_case import ROWS, Case, Range, Values, named, planes
from torch import nn


class Function(nn.Module):
    """A function as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def _function(function: Any, *sizes: Any, **values: Any) -> Case:
    inputs = {"x": Values(("b", *sizes), **values)}
    return Case(Function(function).eval(), inputs, ROWS)


def every_dtype() -> Case:
    class Dtypes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8).bfloat16()

        def forward(
            self,
            i8: torch.Tensor,
            flag: torch.Tensor,
            bf: torch.Tensor,
            half: torch.Tensor,
            i32: torch.Tensor,
            u8: torch.Tensor,
        ) -> tuple[torch.Tensor, ...]:
            y = bf * flag.to(torch.bfloat16) + 0.5
            narrow = (y.to(torch.int8), (y.float() * 10).abs().to(torch.uint8))
            integers = (i32 // 2, i32 % 3, i32.to(torch.int64) + 1, i8 + 1)
            floats = (i8.to(torch.float32) * 2, half * 2.0 + 1, y.float(), u8.float() / 255.0)
            return (*floats, *integers, *narrow, y, self.linear(y), ~flag, y > 0, flag & (i32 > 0))

    dtypes = (torch.int8, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.uint8)
    names = ("i8", "flag", "bf", "half", "i32", "u8")
    inputs = {name: Values(("b", 8), dtype) for name, dtype in zip(names, dtypes, strict=True)}
    return Case(Dtypes().eval(), inputs, ROWS)


def numbers_and_nested_outputs() -> Case:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(8, 4), nn.Parameter(torch.tensor(2.0))

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            y = self.linear(x) * self.scale
            inner = [y, (y.sum(), y.argmax())]
            return {"mean": y.mean(), "max": y.max(), "inner": inner, "any": (y > 0).any()}

    return Case(Nested().eval(), {"x": Values(("b", 8))}, ROWS)


def dims_in_proportion() -> Case:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, q: torch.Tensor, kv: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
            mixed = (self.linear(q) @ kv.transpose(1, 2)).softmax(-1) @ kv
            return mixed + torch.cat([half, half], 1)

    inputs = {
        "q": Values(("b", (2, "h"), 8)),
        "kv": Values(("b", "k", 8)),
        "half": Values(("b", "h", 8)),
    }
    profiles: dict[str, dict[str, Range]] = {
        "one": {"b": 1, "h": 1, "k": 4},
        "many": {"b": (1, 4, 8), "h": (1, 8, 16), "k": (1, 8, 32)},
    }
    return Case(Shared().eval(), inputs, profiles)


def inputs_and_aliases_as_outputs() -> Case:
    class Through(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.linear(x)
            views = (y.view(-1), z.view(-1), z.expand(z.shape[0], 8), z.detach())
            return (y, y, z.clone(), z.to(torch.float32), *views, x.contiguous())

    values = Values(("b", 8))
    return Case(Through().eval(), {"x": values, "z": values}, ROWS)


def sizes_known_when_it_runs() -> Case:
    class Nonzero(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.linear(x).relu()
            where = torch.nonzero(y > 0.1)
            return y[where[:, 0], where[:, 1]] * 2, self.linear(y), y.sum(0)

    return Case(Nonzero().eval(), {"x": Values(("b", 8))}, ROWS)


def double_precision() -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        exact = torch.cumsum(torch.sin(x * 2 + 1).to(torch.float64), 0)
        return exact.to(torch.float32) * 2

    return _function(function, 8)


def branches() -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        def left(y: torch.Tensor) -> torch.Tensor:
            return y.sin() * 2

        def right(y: torch.Tensor) -> torch.Tensor:
            return y.cos() + 1

        return torch.cond(x.sum() > 0, left, right, (x * 2,)) * 3

    return _function(function, 8)


def norms() -> Case:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.group, self.rms = nn.GroupNorm(2, 8), nn.RMSNorm(6)
            self.layer, self.batch = nn.LayerNorm(6), nn.BatchNorm1d(8)
            self.instance, self.plain = nn.InstanceNorm1d(8, affine=True), nn.InstanceNorm1d(8)
            self.plane = nn.InstanceNorm2d(2, affine=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            flat = (self.group(x), self.rms(x), self.layer(x), self.batch(x))
            planes = self.plane(x.reshape(-1, 2, 4, 6))
            lengths = (F.normalize(x), x.norm(dim=-1), F.local_response_norm(x, 2))
            return (*flat, self.instance(x), self.plain(x), planes, *lengths)

    return Case(Norms().eval(), {"x": Values(("b", 8, 6))}, ROWS)


def instance_norm() -> Case:
    """Style transfer's block, on planes of any size."""

    class Style(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.norm(self.conv(F.pad(x, (1, 1, 1, 1), mode="reflect"))))

    return planes(Style(), 16)


def resizes() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = (x.shape[-2] * 3 // 2, x.shape[-1])
        return (
            F.interpolate(x, size=size, mode="bilinear"),
            F.interpolate(x, size=size, mode="bilinear", align_corners=True),
            F.interpolate(x, size=size, mode="nearest"),
            F.interpolate(x, scale_factor=2.0, mode="bilinear"),
            F.interpolate(x, scale_factor=1.5, mode="nearest"),
            F.interpolate(x, size=(20, 24), mode="bicubic"),
            F.interpolate(x.flatten(2), scale_factor=2.0, mode="linear"),
        )

    return planes(Function(function), 16)


def convolutions() -> Case:
    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Conv1d(4, 6, 3, padding="same", dilation=2)
            self.depth = nn.Conv2d(4, 8, 3, groups=4, stride=2)
            self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1, dilation=1)
            self.volume, self.prelu = nn.Conv3d(4, 2, (1, 3, 3)), nn.PReLU(8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            line = self.line(x.flatten(2))
            deep = self.prelu(self.depth(x))
            return line, self.up(deep), self.volume(x.unsqueeze(2)), F.max_pool2d(x, 3, 2, 1)

    return Case(Convolutions().eval(), {"x": Values(("b", 4, 9, 9))}, ROWS)


def indexing() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = torch.tensor([3, 1, 2])
        values, where = x.topk(3, -1)
        return (
            x[:, 1:5:2],
            x[..., -1],
            x[:, order],
            x.gather(1, x.argsort(1)[:, :2].clamp(max=5)),
            values,
            where,
            x.scatter(1, torch.zeros(1, 1, 8, dtype=torch.int64).expand(x.shape[0], 1, 8), 1.0),
            x.index_select(1, order),
            x.flip(1),
            x.roll(1, 2),
            torch.where(x > 0, x, 0.0),
            x.masked_fill(x < 0, -1e4),
            x.repeat_interleave(2, 2),
            x.unfold(2, 4, 2),
            x.diagonal(0, 1, 2),
        )

    return _function(function, 6, 8)


def reductions() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.std(-1),
            x.var(1, correction=0),
            torch.logsumexp(x, -1),
            x.amax(1),
            x.amin((0, 1)),
            x.prod(-1),
            x.cumsum(1).diff(dim=1),
            x.argmin(-1),
            (x > 1).all(1),
            (x > 1).any(),
            x.median(-1)[0],
            x.isnan().any(),
        )

    return _function(function, 6, 8)


def activations() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.glu(x),
            F.elu(x),
            F.mish(x),
            F.gelu(x, approximate="tanh"),
            F.hardswish(x),
            F.softplus(x),
            F.softmax(x.half(), -1),
            F.log_softmax(x, 1),
            F.leaky_relu(x, 0.2),
            F.selu(x),
            x.clamp(-1, 1),
            x.round() + x.floor() + x.trunc() + x.sign(),
            torch.erf(x) + x.abs().log1p() + x.tanh() + torch.atan2(x, x + 4),
            x.abs().pow(0.3) + x.exp().rsqrt(),
        )

    return _function(function, 6, 8)


def products() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.transpose(1, 2)
        return (
            torch.einsum("btc,bsc->bts", x, x),
            torch.baddbmm(x @ y, x, y),
            torch.outer(x[0, :, 0], x[0, 0]),
            x.triu(),
            torch.cdist(x, x + 1),
            F.cosine_similarity(x, x + 1, -1),
            F.one_hot(x.argmax(-1), 8),
            torch.meshgrid(x[0, :, 0], x[0, 0], indexing="ij")[0],
            torch.kron(x[0], torch.eye(2)),
        )

    return _function(function, 6, 8)


def wide_integers() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 2**40, x * 3 - 5, x // 7, x % 7, x.cumsum(1), x.sum(1), x.abs().max(1)[0]

    return _function(function, 8, dtype=torch.int64, low=-(2**20), high=2**20)


def pixels() -> Case:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        step = torch.linspace(-1, 1, 8)
        grid = torch.stack(torch.meshgrid(step, step, indexing="xy"), -1)
        return (
            F.pixel_shuffle(x, 2),
            F.pixel_unshuffle(x, 2),
            F.grid_sample(x, grid.expand(x.shape[0], 8, 8, 2), align_corners=False),
            F.pad(x, (2, 1, 1, 2), mode="replicate"),
            F.pad(x, (1, 1, 2, 2), value=3.0),
            F.unfold(x, 3, padding=1),
            F.adaptive_avg_pool2d(x, (4, 2)),
            F.adaptive_max_pool2d(x, 4),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        )

    return _function(function, 4, 8, 8)


def random_numbers() -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (torch.rand_like(x) * 0 + x).sin() * 2

    return _function(function, 8)


def bags_of_embeddings() -> Case:
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum, self.mean = (nn.EmbeddingBag(32, 8, mode=mode) for mode in ("sum", "mean"))
            self.out = nn.Linear(16, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.out(torch.cat([self.sum(ids), self.mean(ids)], 1))

    return Case(Bags().eval(), {"ids": Values(("b", 5), torch.int64, 0, 32)}, ROWS)


def written_buffer() -> Case:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.mul_(0).add_(1)  # the same in every call, as cases are called in any order
            return self.linear(x) * self.calls

    return Case(Counting().eval(), {"x": Values(("b", 8))}, ROWS)


def converters_of_our_own() -> Case:
    class Own(nn.Module):
        """What Torch-TensorRT has no converter for, or one that is wrong."""

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (
                torch.cumsum(n, 1),
                torch.cumsum(n > 2, 0),
                torch.cumsum(x, -1),
                F.log_softmax(x, -1),
                F.log_softmax(x * 100, 0).to(torch.float16),
                x.var(0),
                x.var((0, 1)),
                x.var(1, correction=0, keepdim=True),
                x.std(-1),
                torch.full_like(x, 2.5),
                torch.full_like(n, 7) + n,
                torch.full_like(x, float("-inf")).to(torch.float16),
                x.argmax(1) + 1,
            )

    inputs = {"x": Values(("b", 8)), "n": Values(("b", 8), torch.int64, 0, 5)}
    profiles: dict[str, dict[str, Range]] = {"two": {"b": 2}, "many": {"b": (2, 3, 8)}}
    return Case(Own().eval(), inputs, profiles)


CASES = named(
    converters_of_our_own,
    every_dtype,
    numbers_and_nested_outputs,
    dims_in_proportion,
    inputs_and_aliases_as_outputs,
    sizes_known_when_it_runs,
    double_precision,
    branches,
    norms,
    instance_norm,
    resizes,
    convolutions,
    attention,
    queries_without_keys,
    queries_without_keys_in_an_additive_mask,
    causal_over_more_keys,
    one_query_of_several_attentions,
    query_that_is_keys,
    indexing,
    reductions,
    activations,
    products,
    wide_integers,
    pixels,
    random_numbers,
    bags_of_embeddings,
    written_buffer,
)
