"""Models quantized by PyTorch's pt2e become engines with Q/DQ layers and quantized weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from corner_models import Function
from model_case import Case, made
from models import blobs
from quantized_models import CASES
from test_dry_run import lowered
from torch import nn

from executorch_tensorrt import CompileOptions, export, load
from executorch_tensorrt.backend import converters
from executorch_tensorrt.backend.converters import Interpreter

ops = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def exported(case: Case, **options: Any) -> Any:
    profiles = case.optimization_profiles()
    return export(case.model, case.example(), profiles=profiles, options=CompileOptions(**options))


def layers(patch: pytest.MonkeyPatch) -> list[str]:
    """The types of all layers of the networks that are built from now on."""
    found: list[str] = []
    construct = Interpreter._construct_trt_network_def

    def recorded(self: Any) -> None:
        construct(self)
        network = self.ctx.net
        found.extend(network.get_layer(index).type.name for index in range(network.num_layers))

    patch.setattr(Interpreter, "_construct_trt_network_def", recorded)
    return found


@pytest.mark.parametrize("name", ["int8_convolutions", "int8_convolutions_per_tensor"])
def test_an_int8_model_is_one_engine_of_q_dq_layers_and_right_on_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, found = made(CASES[name]), layers(monkeypatch)
    program = exported(case, cpu_fallback=True)
    assert len(blobs(program)) == 1
    assert {"QUANTIZE", "DEQUANTIZE"} <= set(found)
    check_answers(case, program.buffer)


def test_int8_weights_stay_int8_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    case, found = made(CASES["int8_perceptron"]), layers(monkeypatch)
    program = exported(case, cpu_fallback=True)
    [blob] = blobs(program)
    assert found.count("DEQUANTIZE") > found.count("QUANTIZE") > 0  # the weights' too
    weights = 64 * 1024 + 1024 * 1984 + 1984 * 8
    # TensorRT-RTX packs them for each of the two profiles.
    assert weights <= len(blob.engine) <= 2.5 * weights
    check_answers(case, program.buffer)


def check_answers(case: Case, program: bytes) -> None:
    """A sum that lies between two quantized values may become either."""
    forward = load(program, device="cpu")["forward"]
    for profile in case.profiles:
        for index in range(4):
            inputs = case.inputs_of(profile, index)
            [answer], [right] = forward(*inputs, profile=profile), case.answers(inputs)
            step = float(right.unique().diff().min())
            torch.testing.assert_close(answer, right, rtol=0, atol=2.01 * step)


def test_fp8_values_and_weights_become_fp8_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = layers(monkeypatch)
    [blob] = blobs(exported(made(CASES["fp8_linear"])))
    assert (found.count("QUANTIZE"), found.count("DEQUANTIZE")) == (1, 2)
    assert len(blob.engine) > 0


class Product(nn.Module):
    """With a weight that is kept as int8, around a zero point."""

    def __init__(self, zero_point: int) -> None:
        super().__init__()
        self.zero_point = zero_point
        self.register_buffer("weight", torch.randint(-128, 127, (8, 8), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ ops.dequantize_per_tensor(self.weight, 0.1, self.zero_point, *INT8)


def test_weights_around_another_zero_point_become_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    found = layers(monkeypatch)
    blobs_, reasons, outside = lowered(Product(3), (torch.zeros(2, 8),))
    assert (len(blobs_), reasons, outside) == (1, [], set())
    assert "DEQUANTIZE" not in found
    lowered(Product(0), (torch.zeros(2, 8),))
    assert "DEQUANTIZE" in found


def rounded(x: torch.Tensor, zero_point: int, *limits: Any) -> torch.Tensor:
    values = ops.quantize_per_tensor(x * 2, 0.1, zero_point, *limits)
    return ops.dequantize_per_tensor(values, 0.1, zero_point, *limits) + 1


@pytest.mark.parametrize(
    ("zero_point", "limits", "reason"),
    [
        (5, INT8, "zero point 5; TensorRT quantizes symmetrically, around 0"),
        (0, (-127, 127, torch.int8), "saturates at (-127, 127); TensorRT's int8 does at"),
        (0, (0, 255, torch.uint8), "quantized as torch.uint8; TensorRT has torch.int8"),
    ],
    ids=["zero_point", "limits", "dtype"],
)
def test_what_tensorrt_cannot_quantize_stays_outside_with_the_reason(
    zero_point: int, limits: Any, reason: str
) -> None:
    model = Function(lambda x: rounded(x, zero_point, *limits))
    blobs_, reasons, outside = lowered(model, (torch.zeros(2, 8),))
    assert "quantized_decomposed.quantize_per_tensor.default" in outside
    assert len(blobs_) == 2
    assert any(reason in text for text in reasons), reasons


def test_a_scale_for_each_channel_of_values_is_taken() -> None:
    scales, zeros = torch.linspace(0.1, 0.2, 8), torch.zeros(8, dtype=torch.int64)

    def function(x: torch.Tensor) -> torch.Tensor:
        values = ops.quantize_per_channel(x * 2, scales, zeros, 1, *INT8)
        return ops.dequantize_per_channel(values, scales, zeros, 1, *INT8) + 1

    found = lowered(Function(function), (torch.zeros(2, 8),))
    assert (len(found[0]), found[1], found[2]) == (1, [], set())


def test_torch_tensorrt_knows_the_types() -> None:
    assert converters.trt_dtype(torch.float8_e4m3fn) == converters.trt.fp8
