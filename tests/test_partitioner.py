"""Which nodes TensorRT takes, and into which partitions."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.utils import get_delegates
from models import GraphBreak, Mlp, Transformer, Unsupported, seeded
from torch.export import Dim

from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.delegate_blob import DelegateBlob, ShapeRange
from executorch_tensorrt.partitioner import TensorRTPartitioner
from executorch_tensorrt.profiles import OptimizationProfile


def lowered(
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    dynamic_shapes: Any = None,
    profiles: tuple[OptimizationProfile, ...] = (),
) -> tuple[EdgeProgramManager, TensorRTPartitioner]:
    program = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    partitioner = TensorRTPartitioner(profiles)
    manager = to_edge_transform_and_lower(
        program,
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return manager, partitioner


def delegate_blobs(manager: EdgeProgramManager) -> list[DelegateBlob]:
    program = manager.exported_program()
    return [
        DelegateBlob.from_bytes(getattr(program.graph_module, node.name).processed_bytes)
        for node in get_delegates(program.graph)
    ]


def operators(manager: EdgeProgramManager) -> set[str]:
    nodes = manager.exported_program().graph.nodes
    return {
        str(getattr(node.target, "_op", node.target))
        for node in nodes
        if node.op == "call_function"
    }


def test_a_transformer_with_a_dynamic_sequence_is_one_partition() -> None:
    profiles = (
        OptimizationProfile("decode", {"tokens": [1, 1]}),
        OptimizationProfile("prefill", {"tokens": [1, (2, 16, 64)]}),
    )
    manager, partitioner = lowered(
        seeded(Transformer),
        (torch.zeros(1, 8, dtype=torch.long),),
        ({1: Dim("S", min=1, max=64)},),
        profiles,
    )
    assert operators(manager) == {"executorch_call_delegate", "<built-in function getitem>"}
    assert partitioner.reasons == {}
    [blob] = delegate_blobs(manager)
    assert [profile.name for profile in blob.profiles] == ["decode", "prefill"]


def test_a_graph_break_gives_two_delegates_with_the_same_names_and_derived_ranges() -> None:
    profiles = (
        OptimizationProfile("one", {"x": [1, 8]}),
        OptimizationProfile("many", {"x": [(2, 4, 8), 8]}),
    )
    manager, partitioner = lowered(
        seeded(GraphBreak), (torch.zeros(3, 8),), ({0: Dim("B", min=1, max=8)},), profiles
    )
    first, second = delegate_blobs(manager)
    assert [p.name for p in first.profiles] == [p.name for p in second.profiles] == ["one", "many"]
    assert [p.inputs for p in first.profiles] == [
        (ShapeRange((1, 8), (1, 8), (1, 8)),),
        (ShapeRange((2, 8), (4, 8), (8, 8)),),
    ]
    assert [p.inputs for p in second.profiles] == [
        (ShapeRange((2, 8), (2, 8), (2, 8)),),
        (ShapeRange((4, 8), (8, 8), (16, 8)),),
    ]
    assert "aten.cumsum.default" in operators(manager)
    assert any("dtype torch.float64" in reason for reason in partitioner.reasons.values())


def test_a_delegate_with_static_inputs_has_every_name_and_one_engine_profile() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            summed = torch.cumsum((y * 3).to(torch.float64), 0).to(torch.float32)
            return x + summed.sum()

    profiles = (
        OptimizationProfile("one", {"x": [1]}),
        OptimizationProfile("many", {"x": [(2, 4, 8)]}),
    )
    manager, _ = lowered(
        Two(), (torch.zeros(3), torch.zeros(5)), ({0: Dim("B", min=1, max=8)}, None), profiles
    )
    first, second = delegate_blobs(manager)
    assert first.bindings[0].dims == (5,)
    assert [(p.name, p.engine_profile) for p in first.profiles] == [("one", 0), ("many", 0)]
    assert [(p.name, p.engine_profile) for p in second.profiles] == [("one", 0), ("many", 1)]


def test_an_unsupported_operator_stays_outside_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "executorch_tensorrt"):
        manager, partitioner = lowered(seeded(GraphBreak), (torch.zeros(3, 8),))
    assert len(delegate_blobs(manager)) == 2
    [reason] = [text for text in partitioner.reasons.values() if "cumsum" in text]
    assert reason == "aten.cumsum.default (aten_cumsum_default): dtype torch.float64"
    assert f"outside TensorRT: {reason}" in caplog.text


def test_a_model_with_no_supported_node_warns_once_and_still_lowers() -> None:
    with pytest.warns(UserWarning, match="TensorRT takes no node of the program") as caught:
        manager, _ = lowered(Unsupported(), (torch.zeros(2, 8, dtype=torch.float64),))
    assert sum("TensorRT takes no node" in str(warning.message) for warning in caught) == 1
    assert delegate_blobs(manager) == []
    assert manager.to_executorch().buffer


class Draws(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + torch.rand(4)


class Bytes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(torch.int8) + 1).to(torch.float32) * 2


class Nonzero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x * 2) + 1


class ChannelsLast(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = x.reshape(1, 1, 2, 2).expand(1, 3, 2, 2) * 2
        return image.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("model", "operator", "reason"),
    [
        (Draws(), "aten.rand.default", "draws random numbers"),
        (Bytes(), "aten.add.Tensor", "arithmetic on torch.int8"),
        (Nonzero(), "aten.nonzero.default", "is known only when it runs"),
        (
            ChannelsLast(),
            "dim_order_ops._to_dim_order_copy.default",
            "channels-last memory format",
        ),
    ],
)
def test_what_an_engine_would_get_wrong_is_refused(
    model: torch.nn.Module, operator: str, reason: str
) -> None:
    manager, partitioner = lowered(model, (torch.arange(4.0),))
    assert operator in operators(manager)
    assert any(
        text.startswith(operator) and reason in text for text in partitioner.reasons.values()
    ), partitioner.reasons


def test_a_computation_of_constants_alone_makes_no_partition() -> None:
    class Constants(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.arange(4.0))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.a * 2 + 1, x.to(torch.float64) + 1

    with pytest.warns(UserWarning, match="TensorRT takes no node"):
        manager, partitioner = lowered(Constants(), (torch.zeros(4),))
    assert delegate_blobs(manager) == []
    assert any("constant" in reason for reason in partitioner.reasons.values())


def test_partitions_make_no_dependency_cycle_around_an_unsupported_operator() -> None:
    class Diamond(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left = x * 2
            right = torch.cumsum(left.to(torch.float64), 0).to(torch.float32)
            return left + right

    manager, _ = lowered(Diamond(), (torch.arange(4.0),))
    assert len(delegate_blobs(manager)) == 2
    manager.exported_program().graph.lint()


def test_sizes_do_not_cross_into_a_delegate_that_can_compute_them() -> None:
    class Flatten(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            summed = torch.cumsum(x.to(torch.float64), 0).to(torch.float32) * 2
            return summed.reshape(x.shape[0] * 4, 2) + 1

    profiles = (OptimizationProfile("p", {"x": [(1, 2, 8), 8]}),)
    manager, _ = lowered(Flatten(), (torch.zeros(3, 8),), ({0: Dim("B", min=1, max=8)},), profiles)
    blob = delegate_blobs(manager)[-1]
    inputs = [binding for binding in blob.bindings if binding.is_input]
    assert [binding.dims for binding in inputs] == [(-1, 8)]


def test_operators_kept_whole_are_those_that_are_taken_and_the_answer_is_stable() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.nn.functional.gelu(self.linear(x)), torch.nn.functional.glu(x.double())

    program = torch.export.export(Both(), (torch.zeros(2, 8),)).run_decompositions({})
    partitioner = TensorRTPartitioner()
    kept, check = partitioner.ops_to_not_decompose(program)
    assert kept == [torch.ops.aten.gelu.default, torch.ops.aten.linear.default]
    assert check is None
    assert partitioner.ops_to_not_decompose(program) == (kept, None)
    manager = to_edge_transform_and_lower(program, partitioner=[partitioner])
    assert partitioner.ops_to_not_decompose(manager.exported_program()) == ([], None)
    assert not operators(manager) & {"aten.linear.default", "aten.gelu.default"}


def test_a_wrong_profile_fails_before_anything_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        TensorRTPartitioner, "ops_to_not_decompose", lambda *_: pytest.fail("lowering began")
    )
    with pytest.raises(ValueError, match="profile 'p', input 'y': the program has no such"):
        lowered(Mlp(), (torch.zeros(2, 8),), None, (OptimizationProfile("p", {"y": [2, 8]}),))


def test_a_second_backend_of_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        __name__ = "TensorRTBackend"

    other = type("TensorRTBackend", (), {"__module__": "somewhere.else"})
    real = BackendDetails.__subclasses__()
    monkeypatch.setattr(
        "executorch_tensorrt.partitioner.tensorrt_partitioner.BackendDetails",
        type("Fake", (), {"__subclasses__": staticmethod(lambda: [*real, other])}),
    )
    program = torch.export.export(Mlp(), (torch.zeros(2, 8),))
    with pytest.raises(RuntimeError, match=r"'somewhere.else' defines a backend named"):
        TensorRTPartitioner().partition(program)


def test_a_partitioner_refuses_arguments_of_the_wrong_type() -> None:
    with pytest.raises(TypeError, match="options must be CompileOptions, got dict"):
        TensorRTPartitioner([], options={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="profiles must be a list"):
        TensorRTPartitioner(OptimizationProfile("p", {}))  # type: ignore[arg-type]
    assert TensorRTPartitioner().options == CompileOptions()
