"""Converters that fail or give something else are found out before a node is claimed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from corner_models import converters_of_our_own
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.utils import get_delegates
from model_case import made
from models import Mlp, Transformer, seeded
from torch.export import Dim

from executorch_tensorrt import CompileOptions, OptimizationProfile, TensorRTPartitioner
from executorch_tensorrt.backend.converters import (
    DYNAMO_ATEN_CONVERTERS,
    ConverterSupport,
    Interpreter,
    torch_dtype,
    trt,
)
from executorch_tensorrt.backend.delegate_blob import DelegateBlob

aten = torch.ops.aten

BATCH = ({0: Dim("B", min=1, max=8)},)
PROFILES = (OptimizationProfile("p", {"x": [(1, 2, 8), 8]}),)


def lowered(
    model: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic_shapes: Any = None,
    profiles: tuple[OptimizationProfile, ...] = (),
    options: CompileOptions = CompileOptions(),  # noqa: B008 (it is frozen)
) -> tuple[list[DelegateBlob], list[str], set[str]]:
    """The delegates' blobs, why nodes are outside, and the operators outside."""
    partitioner = TensorRTPartitioner(profiles, options=options)
    with torch.no_grad():
        program = to_edge_transform_and_lower(
            torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes),
            partitioner=[partitioner],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ).exported_program()
    blobs = [
        DelegateBlob.from_bytes(getattr(program.graph_module, node.name).processed_bytes)
        for node in get_delegates(program.graph)
    ]
    outside = {
        str(getattr(node.target, "_op", node.target))
        for node in program.graph.nodes
        if node.op == "call_function" and node.target not in _PLUMBING
    }
    return blobs, list(partitioner.reasons.values()), outside


_PLUMBING = {
    torch.ops.higher_order.executorch_call_delegate,
    operator.getitem,
}


class Relus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.relu(x * 2) - 1) * 3


def use_for_relu(patch: pytest.MonkeyPatch, convert: Callable[..., Any]) -> None:
    own = ConverterSupport(convert, supports_dynamic_shapes=True)
    patch.setitem(DYNAMO_ATEN_CONVERTERS, aten.relu.default, [own])


def raises(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    raise AssertionError("no relu\ntoday")


def gives_another_rank(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    return ctx.net.add_reduce(args[0], trt.ReduceOperation.SUM, 1, False).get_output(0)


def gives_another_shape(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    return ctx.net.add_slice(args[0], (0, 0), (1, 4), (1, 1)).get_output(0)


def gives_another_dtype(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    return ctx.net.add_cast(args[0], trt.float16).get_output(0)


def adds_a_layer_that_tensorrt_refuses(
    ctx: Any, target: Any, args: Any, kwargs: Any, name: str
) -> Any:
    ctx.net.add_concatenation([args[0], ctx.net.add_shape(args[0]).get_output(0)]).get_output(0)
    return args[0]


def gives_no_tensor(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
    return ctx.net.add_activation(args[0], trt.ActivationType.RELU)


@pytest.mark.parametrize(
    ("convert", "reason"),
    [
        (raises, "its converter fails: AssertionError: no relu today"),
        (gives_another_rank, "its converter fails: the converter gives a tensor of rank 1, not 2"),
        (gives_another_shape, "gives a tensor of shape (1, 4), not (2, 8)"),
        (gives_another_dtype, "gives a tensor of torch.float16, not torch.float32"),
        (adds_a_layer_that_tensorrt_refuses, "TensorRT said: "),
        (gives_no_tensor, "the converter gives a IActivationLayer, not a tensor"),
    ],
)
def test_a_node_whose_converter_fails_stays_outside_with_the_reason(
    convert: Callable[..., Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_for_relu(monkeypatch, convert)
    blobs, reasons, outside = lowered(Relus(), (torch.zeros(2, 8),))
    assert outside == {"aten.relu.default"}
    assert len(blobs) == 3
    assert len(reasons) == 2
    assert all(text.startswith("aten.relu.default") and reason in text for text in reasons), reasons


def test_a_dynamic_dim_may_be_anything_to_a_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    def clamps(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
        return ctx.net.add_activation(args[0], trt.ActivationType.RELU).get_output(0)

    use_for_relu(monkeypatch, clamps)
    blobs, reasons, outside = lowered(Relus(), (torch.zeros(3, 8),), BATCH, PROFILES)
    assert (len(blobs), reasons, outside) == (1, [], set())


def test_equal_nodes_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def counts(ctx: Any, target: Any, args: Any, kwargs: Any, name: str) -> Any:
        names.append(name)
        return ctx.net.add_activation(args[0], trt.ActivationType.RELU).get_output(0)

    use_for_relu(monkeypatch, counts)
    lowered(Relus(), (torch.zeros(2, 8),))
    assert len(names) == 1 + 2  # one dry run for both, and the engine's own two


def test_numbers_that_are_equal_and_not_the_same_are_tried_each() -> None:
    from executorch_tensorrt.backend.dry_run import _part

    assert len({_part(1), _part(1.0), _part(True)}) == 3


# --- Converters of our own, and tensors as the graph has them ------------------------------------


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_tensors_of_a_network_have_the_graph_s_rank_and_dtype(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors: dict[str, tuple[Any, Any]] = {}
    run_node = Interpreter.run_node

    def recorded(self: Any, node: Any) -> Any:
        result, value = run_node(self, node), node.meta.get("val")
        if isinstance(result, trt.ITensor) and isinstance(value, torch.Tensor):
            network = (torch_dtype(result.dtype), len(result.shape))
            tensors[node.name] = (network, (value.dtype, value.dim()))
        return result

    monkeypatch.setattr(Interpreter, "run_node", recorded)
    case, batch = made(converters_of_our_own), Dim("B", min=2, max=8)
    shapes = ({0: batch}, {0: batch}) if dynamic else None
    profiles = tuple(case.optimization_profiles()) if dynamic else ()
    blobs, reasons, outside = lowered(case.model, case.example(), shapes, profiles)
    assert (len(blobs), reasons, outside) == (1, [], set())
    assert len(tensors) > 20
    assert {name: both for name, both in tensors.items() if both[0] != both[1]} == {}


# --- Guards --------------------------------------------------------------------------------------


class Pooled(torch.nn.Module):
    """Two convolutions in channels-last format and, if asked for, what is between them."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 4, 3)
        self.both = both

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        middle = F.relu(self.first(x * 2))
        mean = self.second(middle).mean((2, 3))
        return (mean, middle) if self.both else (mean,)


def channels_last(both: bool) -> torch.nn.Module:
    return Pooled(both).to(memory_format=torch.channels_last).eval()


def test_a_model_in_channels_last_format_between_plain_inputs_and_outputs_is_taken() -> None:
    blobs, reasons, outside = lowered(channels_last(False), (torch.zeros(1, 3, 9, 9),))
    assert (len(blobs), reasons, outside) == (1, [], set())


def test_a_channels_last_tensor_does_not_cross_into_or_out_of_an_engine() -> None:
    blobs, reasons, outside = lowered(channels_last(True), (torch.zeros(1, 3, 9, 9),))
    assert {"aten.convolution.default", "aten.relu.default"} <= outside
    assert any("channels-last memory format at the partition's border" in r for r in reasons)
    for blob in blobs:
        assert all(binding.dims not in {(1, 8, 7, 7), (1, 4, 5, 5)} for binding in blob.bindings)


def test_weights_that_are_not_contiguous_reach_the_engine_as_they_read() -> None:
    class Product(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer("weight", weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    torch.manual_seed(0)
    transposed = torch.randn(64, 64).t()
    engines = [
        lowered(Product(weight), (torch.zeros(2, 64),))[0][0].engine
        for weight in (transposed, transposed.contiguous())
    ]
    assert engines[0] == engines[1]


def test_an_operator_that_would_be_kept_whole_and_then_left_outside_is_decomposed() -> None:
    class Positions(torch.nn.Module):
        """A product of constants that is an output of its own: no engine computes it."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("where", torch.arange(8.0).reshape(2, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.linear(self.where), x * 2

    blobs, _, outside = lowered(Positions().eval(), (torch.zeros(2, 4),))
    assert len(blobs) == 1
    assert "aten.linear.default" not in outside


# --- Options that say what stays outside ---------------------------------------------------------


@pytest.mark.parametrize(
    "kept",
    ["aten.relu", "aten.relu.default"],
)
def test_operators_can_be_kept_on_the_cpu(kept: str) -> None:
    options = CompileOptions(cpu_operators=(kept,))
    blobs, reasons, outside = lowered(Relus(), (torch.zeros(2, 8),), options=options)
    assert outside == {"aten.relu.default"}
    assert len(blobs) == 3
    assert all("cpu_operators keeps it on the CPU" in reason for reason in reasons)


def test_an_operator_s_name_is_no_prefix_of_another_s() -> None:
    options = CompileOptions(cpu_operators=("aten.rel",))
    assert lowered(Relus(), (torch.zeros(2, 8),), options=options)[2] == set()


def test_an_operator_is_known_by_its_name_without_copy_too() -> None:
    class Views(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).permute(1, 0) + 1

    options = CompileOptions(cpu_operators=("aten.permute",))
    outside = lowered(Views(), (torch.zeros(2, 8),), options=options)[2]
    assert outside == {"aten.permute_copy.default"}


def test_small_partitions_can_be_left_on_the_cpu() -> None:
    class Uneven(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            most = torch.sin(x * 2 + 1)
            return torch.cumsum(most.to(torch.float64), 0).to(torch.float32) * 2

    inputs = (torch.zeros(2, 8),)
    assert len(lowered(Uneven(), inputs)[0]) == 2
    blobs, reasons, _ = lowered(Uneven(), inputs, options=CompileOptions(min_partition_operators=3))
    assert len(blobs) == 1
    assert any("has 2 operators; min_partition_operators is 3" in reason for reason in reasons)


def test_what_a_small_partition_would_have_kept_whole_is_decomposed() -> None:
    tokens = torch.zeros(1, 8, dtype=torch.long)
    options = CompileOptions(min_partition_operators=10_000)
    with pytest.warns(UserWarning, match="TensorRT takes no node"):
        blobs, _, outside = lowered(seeded(Transformer), (tokens,), options=options)
    assert blobs == []
    assert not outside & {"aten.scaled_dot_product_attention.default", "aten.linear.default"}


def test_a_mlp_is_taken_whole() -> None:
    assert lowered(seeded(Mlp), (torch.zeros(2, 8),))[1:] == ([], set())
