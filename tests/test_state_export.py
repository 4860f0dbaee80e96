"""What an exported program holds of its states."""

from __future__ import annotations

import torch
from models import blobs
from torch import nn

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions


class Sums(nn.Module):
    """[256, 256] to its sum with all before and a first value, times a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.randn(256, 256))
        self.register_buffer("zeros", torch.zeros(1024, 1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.zeros.add_(1)
        return self.total * self.zeros.mean()


def test_a_program_holds_an_initial_value_once_and_zeros_not_at_all() -> None:
    torch.manual_seed(0)
    model = Sums()
    first = model.total.numpy().tobytes()
    program = ett.export(model, (torch.zeros(256, 256),), options=CompileOptions(cpu_fallback=True))
    data = bytes(program.buffer)
    assert data.count(first[:256]) == 1
    assert first in data
    assert len(data) < len(first) + 1024 * 1024
    [blob] = blobs(program)
    assert [state.name for state in blob.states] == ["total", "zeros"]
    assert bytes(blob.states[0].initial or b"") == first
    assert blob.states[1].initial is None


def test_a_method_whose_buffers_all_are_states_takes_its_tensors_where_they_are() -> None:
    program = ett.export(Sums(), (torch.zeros(256, 256),))
    [plan] = program.executorch_program.execution_plan
    [delegate] = plan.delegates
    assert [spec.key for spec in delegate.compile_specs].count("whole_method") == 1
    assert len(plan.inputs) == 1
    assert len(plan.chains[0].instructions) == 1
    assert len(plan.chains[0].instructions[0].instr_args.args) == 2
