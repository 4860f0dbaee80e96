"""Operators whose result's sizes are computed when the engine runs are taken, and built."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from corner_models import Function
from test_dry_run import lowered
from torch.export import Dim

from executorch_tensorrt import OptimizationProfile

DYNAMIC = ({0: Dim("B", min=1, max=4), 2: Dim("H", min=4, max=16)},)
# torch.export takes a pool whose sizes are rounded up for static planes alone.
BATCH = ({0: Dim("B", min=1, max=4)},)
BATCHES = (
    OptimizationProfile("one", {"x": [1, 4, 8, 8]}),
    OptimizationProfile("many", {"x": [(2, 3, 4), 4, 8, 8]}),
)
PROFILES = (
    OptimizationProfile("one", {"x": [1, 4, 8, 8]}),
    OptimizationProfile("many", {"x": [(2, 3, 4), 4, (4, 8, 16), 8]}),
)


def bilinear(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(2 * x.shape[-2] + 1, 5), mode="bilinear")


def aligned(x: torch.Tensor) -> torch.Tensor:
    size = (x.shape[-2] + 3, 9)
    return F.interpolate(x, size=size, mode="bilinear", align_corners=True)


def nearest(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(x.shape[-2] * 3, 4), mode="nearest")


def bicubic(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(x.shape[-2] + 1, 12), mode="bicubic")


def by_factors(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear")


def repeated_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(4.0).view(1, 4, 1, 1).repeat(x.shape[0], 1, 1, 1) * x


def repeated_with_new_dims(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(8.0).repeat(x.shape[0], 1, 1, 1) + x


def tiled(x: torch.Tensor) -> torch.Tensor:
    return torch.tile(x, (1, x.shape[0], 1, 2))


def instance_norm(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x, weight=torch.arange(4.0), bias=torch.ones(4))


def pool_that_rounds_up(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 3, 2, ceil_mode=True)


@pytest.mark.parametrize(
    "function",
    [
        *(bilinear, aligned, nearest, bicubic, by_factors),
        *(repeated_constant, repeated_with_new_dims, tiled, instance_norm),
    ],
)
def test_sizes_may_depend_on_the_input_s(function: Any) -> None:
    x = torch.zeros(3, 4, 8, 8)
    blobs, reasons, outside = lowered(Function(function), (x,), DYNAMIC, PROFILES)
    assert (len(blobs), reasons, outside) == (1, [], set())
    assert [profile.engine_profile for profile in blobs[0].profiles] == [0, 1]


def test_a_pool_may_round_sizes_up() -> None:
    x = torch.zeros(3, 4, 8, 8)
    blobs, reasons, outside = lowered(Function(pool_that_rounds_up), (x,), BATCH, BATCHES)
    assert (len(blobs), reasons, outside) == (1, [], set())


def pool_with_a_last_window_outside(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 2, 3, padding=1, ceil_mode=True)


def pool_with_indices(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 2, return_indices=True)[1]


@pytest.mark.parametrize(
    "function", [pool_with_a_last_window_outside, pool_with_indices], ids=["rounding", "indices"]
)
def test_pools_that_are_not_tensorrt_s_stay_outside(function: Any) -> None:
    model = Function(lambda x: (x * 2, function(x)))
    blobs, reasons, outside = lowered(model, (torch.zeros(3, 4, 8, 8),), BATCH, BATCHES)
    assert len(blobs) == 1
    assert outside == {"aten.max_pool2d_with_indices.default"}
    assert any("refuses these arguments" in reason for reason in reasons)
