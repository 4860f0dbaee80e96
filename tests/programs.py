"""Programs that tests of the runtime share, with CPU fallbacks."""

from __future__ import annotations

from typing import Any

import torch
from models import Mlp, Transformer, seeded
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile, RuntimeOptions

WITH_FALLBACK = CompileOptions(cpu_fallback=True)
DECODE_AND_PREFILL = (
    OptimizationProfile("decode", {"tokens": ((1, 1, 2), 1)}),
    OptimizationProfile("prefill", {"tokens": ((1, 1, 2), (4, 16, 32))}),
)
OVERLAPPING = (
    OptimizationProfile("small", {"x": ((1, 1, 4), 8)}),
    OptimizationProfile("middle", {"x": ((3, 4, 8), 8)}),
    OptimizationProfile("all", {"x": ((1, 4, 16), 8)}),
)


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, Transformer.VOCABULARY, (batch, length))


def exported(model: nn.Module, inputs: tuple[Any, ...], dynamic: Any, profiles: Any) -> bytes:
    program = ett.export(
        model, inputs, dynamic_shapes=dynamic, profiles=profiles, options=WITH_FALLBACK
    )
    return bytes(program.buffer)


def forward(pte: bytes, **options: Any) -> ett.Method:
    return ett.load(pte, device="cpu", options=RuntimeOptions(**options))["forward"]


def transformer_pte(model: nn.Module) -> bytes:
    dynamic = {"tokens": {0: Dim("batch", min=1, max=2), 1: Dim("length", min=1, max=32)}}
    return exported(model, (tokens(2, 16),), dynamic, DECODE_AND_PREFILL)


def mlp_pte() -> bytes:
    dynamic = {"x": {0: Dim("batch", min=1, max=16)}}
    return exported(seeded(Mlp), (torch.randn(4, 8),), dynamic, OVERLAPPING)
