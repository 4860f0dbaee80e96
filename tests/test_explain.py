"""`explain`: what stays outside TensorRT and why, before and after lowering."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from models import GraphBreak, Mlp, Unsupported, seeded
from torch import nn
from torch.export import Dim, ExportedProgram

from executorch_tensorrt import (
    CompileOptions,
    OptimizationProfile,
    TensorRTPartitioner,
    explain,
    export,
)
from executorch_tensorrt.backend import engine_builder
from executorch_tensorrt.backend.partition_report import MethodReport, Outside

PROFILES = [OptimizationProfile("any", {"x": [(1, 4, 16), 8]})]


class Selected(nn.Module):
    """The rows over zero: how many is known only when it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x) + 1


@pytest.fixture
def graph_break() -> ExportedProgram:
    dynamic = {"x": {0: Dim("batch", min=1, max=16)}}
    return torch.export.export(seeded(GraphBreak), (torch.randn(4, 8),), dynamic_shapes=dynamic)


@pytest.fixture
def no_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("explain built an engine")

    monkeypatch.setattr(engine_builder.EngineBuild, "run", refuse)


@pytest.mark.usefixtures("no_builds")
def test_an_exported_program_is_explained_without_building(graph_break: ExportedProgram) -> None:
    before = str(graph_break.graph)
    report = explain(graph_break, TensorRTPartitioner(PROFILES))["forward"]
    assert len(report.partitions) == 2
    assert report.taken == sum(sum(operators.values()) for operators in report.partitions)
    (cumsum,) = [item for item in report.outside if item.operator == "aten.cumsum.default"]
    assert cumsum.count == 1
    assert cumsum.reason == "dtype torch.float64"
    assert "models.py:" in cumsum.sources[0]
    assert str(graph_break.graph) == before


def test_what_was_exported_says_the_same_as_before(graph_break: ExportedProgram) -> None:
    before = explain(graph_break, TensorRTPartitioner(PROFILES))
    program = export(graph_break, profiles=PROFILES)
    assert explain(program)["forward"].as_dict() == before["forward"].as_dict()
    assert explain(bytes(program.buffer))["forward"].as_dict() == before["forward"].as_dict()


def test_an_edge_program_is_explained_before_and_after_it_is_lowered(
    graph_break: ExportedProgram,
) -> None:
    config = EdgeCompileConfig(_check_ir_validity=False)
    partitioner = TensorRTPartitioner(PROFILES)
    before = explain(to_edge(graph_break, compile_config=config), partitioner)["forward"]
    lowered = to_edge_transform_and_lower(
        graph_break, partitioner=[partitioner], compile_config=config
    )
    after = explain(lowered)["forward"]
    assert len(before.partitions) == len(after.partitions) == 2
    assert before.reasons.keys() == after.reasons.keys()


@pytest.mark.usefixtures("no_builds")
@pytest.mark.parametrize(
    ("model", "inputs", "options", "operator", "reason"),
    [
        (Unsupported, (torch.randn(2, 8).double(),), {}, "aten.mul.Tensor", "dtype torch.float64"),
        (Selected, (torch.randn(2, 8),), {}, "aten.nonzero.default", "known only when it runs"),
        (Mlp, (torch.randn(2, 8),), {"cpu_operators": ("aten.relu",)}, "aten.relu.default", "cpu_"),
    ],
)
def test_each_reason_is_told_with_its_operator(
    model: type[nn.Module], inputs: Any, options: Any, operator: str, reason: str
) -> None:
    partitioner = TensorRTPartitioner(options=CompileOptions(**options))
    report = explain(torch.export.export(seeded(model), inputs), partitioner)["forward"]
    assert [item for item in report.outside if item.operator == operator and reason in item.reason]
    assert operator in str(report)


def test_several_methods_are_told_apart() -> None:
    programs = {
        "small": torch.export.export(seeded(Mlp), (torch.randn(2, 8),)),
        "broken": torch.export.export(seeded(GraphBreak), (torch.randn(2, 8),)),
    }
    report = explain(programs)
    assert list(report) == ["small", "broken"]
    assert report["small"].outside == ()
    assert report["broken"].left > 0


def test_reasons_are_counted_and_the_largest_partitions_come_first() -> None:
    report = MethodReport(
        partitions=({"a": 1}, {"a": 2, "b": 3}, {"c": 2}),
        outside=(
            Outside("x", "no converter", ("x", "x_1")),
            Outside("y", "no converter", ("y",)),
            Outside("sym_size", "its size is used outside", ("s",), is_size=True),
        ),
    )
    assert [index for index, _ in report.largest(2)] == [1, 2]
    assert (report.taken, report.left) == (8, 3)
    assert report.reasons == {"no converter": 3, "its size is used outside": 1}
    assert MethodReport.from_json(report.to_json()) == report


@pytest.mark.parametrize("text", [b"", b"[]", b'{"partitions": 3}', b'{"partitions": [1]}'])
def test_a_damaged_report_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"damaged|Expecting"):
        MethodReport.from_json(text)


def test_wrong_arguments_are_refused(graph_break: ExportedProgram) -> None:
    with pytest.raises(TypeError, match="got int"):
        explain(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="this is no ExecuTorch program"):
        explain(b"nothing")
    with pytest.raises(ValueError, match="give no partitioner"):
        explain(b"nothing", TensorRTPartitioner())
    with pytest.raises(ValueError, match="needs at least one OptimizationProfile"):
        explain(graph_break)
