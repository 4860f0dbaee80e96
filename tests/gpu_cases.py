"""What make_gpu_cases.py wrote: programs, and calls of them with eager PyTorch's answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import executorch_tensorrt as ett
from executorch_tensorrt import RuntimeOptions

FOLDER = os.environ.get("EXECUTORCH_TENSORRT_GPU_CASES")
# On compute capability 9.0 TensorRT-RTX computes float32 products in TF32 whatever it is told.
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float32: 2e-3}

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    path: Path
    calls: list[tuple[str, Tensors, Tensors]]  # profile, inputs, outputs

    def load(self, device: str | None = "cuda:0", **options: Any) -> ett.Method:
        return ett.load(self.path, device=device, options=RuntimeOptions(**options))["forward"]


def case(name: str) -> Case:
    folder = Path(FOLDER or "") / name
    if not folder.exists():
        pytest.skip(f"no case {name} in {FOLDER}")
    return Case(folder / "program.pte", torch.load(folder / "calls.pt"))


def on_gpu(tensors: Tensors, index: int = 0) -> Tensors:
    return tuple(tensor.to(f"cuda:{index}") for tensor in tensors)


def assert_right(outputs: tuple[Any, ...], expected: Tensors) -> None:
    assert len(outputs) == len(expected)
    for output, right in zip(outputs, expected, strict=True):
        tensor = torch.as_tensor(output)
        assert tensor.dtype == right.dtype
        tolerance = TOLERANCE.get(right.dtype, 0)
        torch.testing.assert_close(tensor.cpu(), right, atol=tolerance, rtol=tolerance)
