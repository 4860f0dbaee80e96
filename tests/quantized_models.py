"""Models quantized by PyTorch's own tools, after calibration with random inputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from model_case import ROWS, Case, Values, named
from torch import nn
from torch.export import Dim

from executorch_tensorrt import int8_quantizer


class Convolutions(nn.Module):
    """[b, 3, 12, 12] to [b, 8], with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = F.relu(self.first(x))
        return self.out((first + self.second(first)).mean((2, 3)))


class Perceptron(nn.Module):
    """[b, 64] to [b, 8] through two million weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1984), nn.ReLU(), nn.Linear(1984, 8))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def quantized(case: Case, quantizer: Any) -> Case:
    """The case with its model quantized, as pt2e does it."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    name = next(iter(case.inputs))
    dynamic = {name: {0: Dim("b", min=1, max=8)}}
    program = torch.export.export(case.model, case.example(), dynamic_shapes=dynamic)
    prepared = prepare_pt2e(program.module(), quantizer)
    for index in range(3):
        prepared(*case.inputs_of("many", index))
    return Case(convert_pt2e(prepared), case.inputs, case.profiles)


def _images() -> Case:
    return Case(Convolutions().eval(), {"x": Values(("b", 3, 12, 12))}, ROWS)


def _rows() -> Case:
    return Case(Perceptron().eval(), {"x": Values(("b", 64))}, ROWS)


def int8_convolutions() -> Case:
    return quantized(_images(), int8_quantizer())


def int8_convolutions_per_tensor() -> Case:
    return quantized(_images(), int8_quantizer(per_channel=False))


def int8_perceptron() -> Case:
    return quantized(_rows(), int8_quantizer())


class Fp8(nn.Module):
    """A linear layer whose input and weight are float8_e4m3fn, [b, 64] to [b, 1024].

    The input is made of whole scales that fp8 has, as eager PyTorch rounds to whole scales first.
    """

    LIMITS = (-448, 448, torch.float8_e4m3fn)

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        weight = torch.randn(1024, 64) / 8
        self.scale = float(weight.abs().max()) / 448
        self.register_buffer("weight", (weight / self.scale).to(torch.float8_e4m3fn))
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.quantized_decomposed
        x = (x * 8).round().clamp(-16, 16) * 0.01
        x = ops.quantize_per_tensor(x, 0.01, 0, *self.LIMITS)
        x = ops.dequantize_per_tensor(x, 0.01, 0, *self.LIMITS)
        weight = ops.dequantize_per_tensor(self.weight, self.scale, 0, *self.LIMITS)
        return x @ weight.t()


def fp8_linear() -> Case:
    return Case(Fp8().eval(), {"x": Values(("b", 64))}, ROWS)


CASES = named(int8_convolutions, int8_convolutions_per_tensor, int8_perceptron, fp8_linear)
