"""TensorRT beside other backends: what it leaves, others take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchProgramManager, to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import nn

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile, TensorRTPartitioner, export

OPTIONS = CompileOptions(cpu_fallback=True, cpu_operators=("aten.sigmoid",))
PROFILES = [
    OptimizationProfile("one", {"x": [1, 8]}),
    OptimizationProfile("many", {"x": [(2, 4, 8), 8]}),
]


class Gated(nn.Module):
    """[batch, 8] to [batch, 8], with a sigmoid in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(torch.sigmoid(self.first(x))))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Gated().eval()


def backends(program: ExecutorchProgramManager) -> list[str]:
    """The backends of a program's delegates in the order that they run in."""
    [plan] = program.executorch_program.execution_plan
    calls: list[Any] = [item.instr_args for item in plan.chains[0].instructions]
    return [
        plan.delegates[call.delegate_index].id for call in calls if hasattr(call, "delegate_index")
    ]


def operators(program: ExecutorchProgramManager) -> list[str]:
    """What is left to ExecuTorch's own kernels."""
    [plan] = program.executorch_program.execution_plan
    return [operator.name for operator in plan.operators]


@pytest.fixture(scope="module")
def program(model: nn.Module) -> ExecutorchProgramManager:
    return export(
        model,
        (torch.zeros(2, 8),),
        profiles=PROFILES,
        fallback_partitioners=[XnnpackPartitioner()],
        options=OPTIONS,
    )


def test_a_fallback_partitioner_takes_what_tensorrt_leaves(
    model: nn.Module, program: ExecutorchProgramManager
) -> None:
    assert backends(program) == ["TensorRTBackend", "XnnpackBackend", "TensorRTBackend"]
    assert operators(program) == []
    alone = export(model, (torch.zeros(2, 8),), profiles=PROFILES, options=OPTIONS)
    assert backends(alone) == ["TensorRTBackend", "TensorRTBackend"]
    assert operators(alone) == ["aten::sigmoid"]


@pytest.mark.parametrize(("rows", "profile"), [(1, "one"), (2, "many"), (8, "many"), (5, "many")])
def test_both_backends_together_give_eager_s_answers(
    model: nn.Module, program: ExecutorchProgramManager, rows: int, profile: str
) -> None:
    x = torch.randn(rows, 8)
    forward = ett.load(bytes(program.buffer), device="cpu")["forward"]
    torch.testing.assert_close(forward(x)[0], model(x).detach(), rtol=0, atol=1e-5)
    assert [item["last_profile"] for item in forward.stats()] == [profile, profile]


def test_the_stock_runtime_runs_both(model: nn.Module, program: ExecutorchProgramManager) -> None:
    ett.register()
    data = bytes(program.buffer)
    x = torch.randn(3, 8)
    [answer] = Runtime.get().load_program(data).load_method("forward").execute([x])
    torch.testing.assert_close(answer, model(x).detach(), rtol=0, atol=1e-5)


def test_a_list_of_partitioners_works_in_execu_torch_s_own_call(model: nn.Module) -> None:
    edge = to_edge_transform_and_lower(
        torch.export.export(model, (torch.zeros(2, 8),)),
        partitioner=[TensorRTPartitioner(options=OPTIONS), XnnpackPartitioner()],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    program = edge.to_executorch()
    assert backends(program) == ["TensorRTBackend", "XnnpackBackend", "TensorRTBackend"]
    x = torch.randn(2, 8)
    [answer] = ett.load(bytes(program.buffer), device="cpu")["forward"](x)
    torch.testing.assert_close(answer, model(x).detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (XnnpackPartitioner(), r"must be a list of partitioners, got XnnpackPartitioner; write \["),
        (["xnnpack"], r"fallback_partitioners\[0\] must be an ExecuTorch Partitioner, got str"),
    ],
)
def test_what_is_no_list_of_partitioners_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        export(Gated().eval(), (torch.zeros(2, 8),), fallback_partitioners=given)
