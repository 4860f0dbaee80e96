"""The CPU fallback's own program."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from models import FallbackProgram, Mlp, blobs, seeded
from torch import nn
from torch.nn import functional

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, export
from executorch_tensorrt.backend.fallback_program import FallbackBuildError


class Gates(nn.Module):
    """Numbers that become constants before the partition is made, and in the fallback again.

    Of the norm's three buffers the partition has two, so that the fallback counts from a name that
    is taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.hardswish(self.norm(x))
        return functional.hardsigmoid(x)


def test_numbers_of_the_fallback_are_kept_apart_from_those_of_the_partition() -> None:
    x = torch.linspace(-8, 8, 32).reshape(8, 4)
    model = seeded(Gates)
    program = export(model, (x,), options=CompileOptions(cpu_fallback=True))
    [y] = ett.load(program.buffer, device="cpu")["forward"](x)
    torch.testing.assert_close(torch.as_tensor(y), model(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
def test_remainders_have_the_sign_of_the_divisor(dtype: torch.dtype) -> None:
    class Remainders(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x % 7, x % -3, torch.remainder(x, y)

    x = torch.arange(-12, 13).to(dtype)
    y = torch.where(x % 2 == 0, torch.tensor(5), torch.tensor(-5)).to(dtype)
    program = export(Remainders(), (x, y), options=CompileOptions(cpu_fallback=True))
    answers = ett.load(program.buffer, device="cpu")["forward"](x, y)
    for answer, right in zip(answers, Remainders()(x, y), strict=True):
        torch.testing.assert_close(torch.as_tensor(answer), right)


def test_branches_stay_outside_and_their_program_executes() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x * 2,)) * 3

    x = torch.randn(4, 8)
    program = export(Branches(), (x,), options=CompileOptions(cpu_fallback=True))
    forward = ett.load(program.buffer, device="cpu")["forward"]
    for inputs in (x.abs(), -x.abs()):
        torch.testing.assert_close(torch.as_tensor(forward(inputs)[0]), Branches()(inputs))


def test_a_convolution_along_three_dims_is_refused_when_the_fallback_is_built() -> None:
    model, x = nn.Sequential(nn.Conv3d(2, 2, 1)), torch.zeros(1, 2, 3, 3, 3)
    with pytest.raises(FallbackBuildError, match="'aten_convolution_default' does along three"):
        export(model.eval(), (x,), options=CompileOptions(cpu_fallback=True))


def test_an_operator_without_a_cpu_kernel_is_named_when_a_fallback_is_asked_for() -> None:
    class Sorts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(x * 2, dim=1)[0]

    with pytest.raises(FallbackBuildError, match=r"kernel for aten::sort\.values"):
        export(Sorts(), (torch.zeros(2, 8),), options=CompileOptions(cpu_fallback=True))
    [blob] = blobs(export(Sorts(), (torch.zeros(2, 8),)))
    assert blob.fallback is None


def test_portable_kernels_take_over_where_xnnpack_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    def fail(self: Any, program: Any) -> Any:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(XnnpackPartitioner, "partition", fail)
    model, x = seeded(Mlp), torch.randn(2, 8)
    with caplog.at_level(logging.WARNING, "executorch_tensorrt"):
        program = export(model, (x,), options=CompileOptions(cpu_fallback=True))
    assert "XNNPACK cannot lower the CPU fallback (no such thing)" in caplog.text
    [y] = ett.load(program.buffer, device="cpu")["forward"](x)
    torch.testing.assert_close(torch.as_tensor(y), model(x).detach())


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(512)
        self.group_norm = nn.GroupNorm(4, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        normed = self.layer_norm(x)
        return normed, self.group_norm(x.view(1, 8, -1)), x.var(-1)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 2e-2), (torch.bfloat16, 1e-1), (torch.float32, 1e-4)]
)
def test_the_fallback_adds_up_half_precision_as_pytorch_does(
    dtype: torch.dtype, tolerance: float
) -> None:
    """ExecuTorch's own kernels lose it over rows as long as real models have."""
    model = seeded(Norms).to(dtype)
    x = (torch.randn(1, 16, 512) + 2).to(dtype)
    [blob] = blobs(export(model, (x,), options=CompileOptions(cpu_fallback=True)))
    outputs = FallbackProgram(blob)(x)
    for output, right in zip(outputs, model(x), strict=True):
        assert output.dtype == dtype
        torch.testing.assert_close(output, right, atol=tolerance, rtol=tolerance)
