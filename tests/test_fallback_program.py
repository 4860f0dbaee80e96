"""The CPU fallback's own program, whose constants must not be taken for one another."""

from __future__ import annotations

import torch
from models import seeded
from torch import nn
from torch.nn import functional

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, export


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
