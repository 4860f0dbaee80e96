"""Which mutated buffers a delegate owns, and that all of them keep their values either way."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from sessions import Session
from torch import nn

from executorch_tensorrt import CompileOptions, TensorRTPartitioner


def outside(x: torch.Tensor) -> torch.Tensor:
    """What no partition takes."""
    return torch.cumsum(x.to(torch.float64), dim=1).to(x.dtype)


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("c", torch.arange(32.0).reshape(4, 8))
        self.register_buffer("d", torch.ones(4, 8))


class Counter(Buffers):
    """Owned: an accumulator that one partition reads and writes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.c.add_(x)
        return self.c * 2


class Swap(Buffers):
    """Owned: two states, each the other's new value, computed in one partition."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old_c, old_d = self.c + 0, self.d + 0
        self.c.copy_(old_d * 2)
        self.d.copy_(old_c)
        return old_c * x + old_d


class ReadOutsideBefore(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = outside(x) + outside(self.c)
        self.c.add_(x)
        return y + self.c


class ReadInTwoPartitions(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = outside(torch.tanh(x + self.c))
        z = y * self.c
        self.c.add_(z)
        return z * 2


class ComputedOutside(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.c
        self.c.copy_(outside(y))
        return y * 2


class PureOverwrite(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.c.copy_(x * 2)
        return x + 1


class OverwrittenByInput(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.c
        self.c.copy_(x)
        return y


class Returned(Buffers):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.c.add_(x)
        return self.c + 1, self.c


class OldValueReturned(Buffers):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = self.c
        new = old + x
        self.d.mul_(x)
        return new, self.d + 1


class UsedOutside(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.c.add_(x)
        return outside(self.c) * 2


class ReadByALaterPartition(Buffers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.c.add_(x)
        return outside(x * self.c) * self.c


class OneOfTwo(Buffers):
    """`c` is owned, `d` is not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.c.add_(x)
        self.d.mul_(2)
        return self.c + outside(self.d)


class IntegerCounter(nn.Module):
    """A position that counts up, non-persistent."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("position", torch.tensor([3]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.position
        self.position.add_(1)
        return y


class RunningMean(nn.Module):
    """Normalizes by a mean that follows the batches, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.batches.add_(1)
        return (x - self.mean) * self.batches


class BatchNorm(nn.Module):
    """Left: TensorRT has no converter for batch norm in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def lower(model: nn.Module, *inputs: Any) -> tuple[Any, TensorRTPartitioner]:
    partitioner = TensorRTPartitioner(options=CompileOptions(cpu_fallback=True))
    with torch.no_grad():
        edge = to_edge_transform_and_lower(
            torch.export.export(copy.deepcopy(model), inputs),
            partitioner=[partitioner],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    return edge, partitioner


def assert_equals_eager(model: nn.Module, edge: Any, x: torch.Tensor) -> Session:
    """Four calls in a row, outputs and every buffer."""
    session, eager = Session(edge.exported_program()), copy.deepcopy(model)
    for step in range(4):
        call = x + step
        expected = eager(call)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        torch.testing.assert_close(session(call), [item.detach() for item in expected])
        for name, value in {**session.buffers, **session.states}.items():
            if name in dict(eager.named_buffers()):
                torch.testing.assert_close(value, eager.get_buffer(name))
    return session


OWNED = {
    Counter: {"c"},
    Swap: {"c", "d"},
    IntegerCounter: {"position"},
    OldValueReturned: {"d"},
    OneOfTwo: {"c"},
    RunningMean: {"mean", "batches"},
}
LEFT = {
    ReadOutsideBefore: ("c", "it is read outside the partition that writes it"),
    ReadInTwoPartitions: ("c", "it is read outside the partition that writes it"),
    ComputedOutside: ("c", "its new value is not computed in a partition"),
    PureOverwrite: ("c", "its old value is never read"),
    OverwrittenByInput: ("c", "its new value is not computed in a partition"),
    Returned: ("c", "its new value is also another output of the program"),
    BatchNorm: ("norm.running_mean", "its new value is not computed in a partition"),
    UsedOutside: ("c", "its new value is used outside the partition that writes it"),
    ReadByALaterPartition: ("c", "its new value is used outside the partition that writes it"),
    OneOfTwo: ("d", "its new value is used outside the partition that writes it"),
}


@pytest.mark.parametrize("model", OWNED, ids=lambda model: model.__name__)
def test_a_buffer_that_one_partition_reads_and_writes_is_its_state(model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    instance, x = model(), torch.randn(4, 8)
    edge, _ = lower(instance, x)
    session = assert_equals_eager(instance, edge, x)
    assert set(session.states) == OWNED[model]


@pytest.mark.parametrize("model", LEFT, ids=lambda model: model.__name__)
def test_a_buffer_that_no_partition_can_own_stays_with_the_caller_and_is_right(
    model: type[nn.Module],
) -> None:
    torch.manual_seed(0)
    instance, x = model(), torch.randn(4, 8)
    edge, partitioner = lower(instance, x)
    session = assert_equals_eager(instance, edge, x)
    name, reason = LEFT[model]
    assert name not in session.states
    assert partitioner.reasons[name].startswith(f"buffer '{name}' stays with the caller: {reason}")
