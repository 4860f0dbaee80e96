"""Which nodes TensorRT takes, and what profiles mean for a program's symbols."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import sympy
import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.utils import get_delegates
from models import GraphBreak, Mlp, Transformer, Unsupported, seeded
from torch.export import Dim, ExportedProgram
from torch.utils._sympy.functions import FloorDiv

from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.delegate_blob import DelegateBlob, ShapeRange
from executorch_tensorrt.backend.symbol_ranges import (
    ProfileSymbols,
    symbols_from_json,
    symbols_to_json,
)
from executorch_tensorrt.partitioner import TensorRTPartitioner
from executorch_tensorrt.partitioner.profile_ranges import resolve_profiles, warn_uncovered_sizes
from executorch_tensorrt.profiles import DimRange, OptimizationProfile


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


class Sizes(torch.nn.Module):
    """Inputs whose dims are b, 2*h and h, k."""

    def forward(self, q: torch.Tensor, half: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
        return q + torch.cat([half, half], 1) + fixed


@pytest.fixture(scope="module")
def sizes() -> ExportedProgram:
    batch, half = Dim("batch", min=1, max=8), Dim("half", min=1, max=16)
    inputs = (torch.zeros(2, 6, 4), torch.zeros(2, 3, 4), torch.zeros(4))
    return torch.export.export(
        Sizes(), inputs, dynamic_shapes=({0: batch, 1: 2 * half}, {0: batch, 1: half}, None)
    )


def profile(q: Any, half: Any, **more: Any) -> OptimizationProfile:
    return OptimizationProfile("p", {"q": q, "half": half, **more})


def ranges_by_expression(program: ExportedProgram, resolved: ProfileSymbols) -> dict[str, DimRange]:
    shapes = {
        node.name: node.meta["val"].shape
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in ("q", "half")
    }
    return {
        "batch": resolved.bound(shapes["q"][0]),
        "whole": resolved.bound(shapes["q"][1]),
        "half": resolved.bound(shapes["half"][1]),
    }


# --- Profiles against a program ------------------------------------------------------------------


def test_a_profile_binds_every_symbol_of_the_inputs(sizes: ExportedProgram) -> None:
    given = profile([(1, 4, 8), (2, 16, 32), 4], [(1, 4, 8), (1, 8, 16), 4])
    [resolved] = resolve_profiles(sizes, [given])
    assert resolved.name == "p"
    assert ranges_by_expression(sizes, resolved) == {
        "batch": DimRange(1, 4, 8),
        "whole": DimRange(2, 16, 32),
        "half": DimRange(1, 8, 16),
    }


def test_a_static_input_may_be_given_with_its_size(sizes: ExportedProgram) -> None:
    resolve_profiles(sizes, [profile([1, 2, 4], [1, 1, 4], fixed=[4])])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            profile([1, 2, 4], [1, 1, 4], other=[1]),
            (
                "profile 'p', input 'other': the program has no such tensor input; "
                "it has q, half, fixed"
            ),
        ),
        (profile([1, 2], [1, 1, 4]), "input 'q': has 2 dims, the program's input has 3"),
        (
            profile([1, 2, 5], [1, 1, 4]),
            (
                "input 'q', dim 2: is min 5, opt 5, max 5, but the program was exported "
                "with the fixed size 4 there"
            ),
        ),
        (profile([1, 2, 4], [1, 1, 4], fixed=[(3, 4, 4)]), "input 'fixed', dim 0: is min 3"),
        (
            profile([(1, 1, 9), 2, 4], [(1, 1, 9), 1, 4]),
            (
                "input 'q', dim 0: min 1, opt 1, max 9 is outside what the program was "
                "exported for, 1..8"
            ),
        ),
        (
            profile([(0, 1, 8), 2, 4], [(0, 1, 8), 1, 4]),
            "input 'q', dim 0: min 0, opt 1, max 8 is outside .* 1..8",
        ),
        (
            OptimizationProfile("p", {"q": [1, 2, 4]}),
            "profile 'p', input 'half': has a dynamic dim 0 and no range",
        ),
        (
            profile([(1, 2, 8), 2, 4], [(1, 2, 7), 1, 4]),
            (
                "input 'half', dim 0: min 1, opt 2, max 7 contradicts input 'q', dim 0 .* "
                "is min 1, opt 2, max 8"
            ),
        ),
        (
            profile([1, (2, 6, 10), 4], [1, (1, 3, 4), 4]),
            (
                "input 'q', dim 1: min 2, opt 6, max 10 contradicts input 'half', dim 1 .* "
                "is min 2, opt 6, max 8"
            ),
        ),
    ],
)
def test_a_profile_that_does_not_fit_the_program_is_refused(
    sizes: ExportedProgram, given: OptimizationProfile, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_profiles(sizes, [given])


def test_a_dynamic_program_needs_a_profile(sizes: ExportedProgram) -> None:
    with pytest.raises(ValueError, match=r"input 'q', dim 0; .* is dynamic, so it needs at least"):
        resolve_profiles(sizes, [])


def test_a_static_program_has_one_profile_named_default() -> None:
    program = torch.export.export(Mlp(), (torch.zeros(2, 8),))
    assert resolve_profiles(program, []) == (ProfileSymbols("default", {}),)


def derived(expression: str) -> ExportedProgram:
    """A program whose only dynamic input has a derived dim."""
    s = Dim("s", min=1, max=16)
    dim = {"2*s": 2 * s, "s + 1": s + 1, "3*s + 2": 3 * s + 2}[expression]
    size = {"2*s": 8, "s + 1": 5, "3*s + 2": 14}[expression]

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    return torch.export.export(Add(), (torch.zeros(size, 2),), dynamic_shapes=({0: dim},))


@pytest.mark.parametrize(
    ("expression", "given", "symbol"),
    [
        ("2*s", (2, 8, 32), (1, 4, 16)),
        ("s + 1", (2, 5, 17), (1, 4, 16)),
        ("3*s + 2", (5, 14, 50), (1, 4, 16)),
    ],
)
def test_a_derived_dim_is_solved_for_its_symbol(
    expression: str, given: tuple[int, int, int], symbol: tuple[int, int, int]
) -> None:
    program = derived(expression)
    [resolved] = resolve_profiles(program, [OptimizationProfile("p", {"x": [given, 2]})])
    assert list(resolved.symbols.values()) == [DimRange(*symbol)]
    shape = next(iter(program.graph.find_nodes(op="placeholder"))).meta["val"].shape
    assert resolved.bound(shape[0]) == DimRange(*given)


def test_a_size_that_a_derived_dim_cannot_have_is_refused_with_its_neighbours() -> None:
    given = OptimizationProfile("p", {"x": [(2, 7, 32), 2]})
    with pytest.raises(ValueError, match=r"'x', dim 0: 7 is not 2\*.*; nearby sizes are 6, 8"):
        resolve_profiles(derived("2*s"), [given])


def test_a_derived_dim_past_its_symbol_s_range_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"'x', dim 0: 34 is not 2\*.* for any integer .* 1..16; nearby .* 32"
    ):
        resolve_profiles(derived("2*s"), [OptimizationProfile("p", {"x": [(2, 8, 34), 2]})])


def test_sizes_that_no_profile_covers_are_warned_of(sizes: ExportedProgram) -> None:
    few = [
        OptimizationProfile("a", {"q": [1, 4, 4], "half": [1, 2, 4]}),
        OptimizationProfile("b", {"q": [(3, 4, 8), 32, 4], "half": [(3, 4, 8), 16, 4]}),
    ]
    with pytest.warns(UserWarning, match="no optimization profile covers them") as caught:
        warn_uncovered_sizes(sizes, resolve_profiles(sizes, few))
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "input 'q', dim 0: the program was exported for sizes 2 too" in messages[0]
    assert "input 'half', dim 1: the program was exported for sizes 1, 3..15 too" in messages[1]


def test_profiles_that_cover_everything_are_not_warned_of(sizes: ExportedProgram) -> None:
    both = [
        profile([1, (2, 2, 8), 4], [1, (1, 1, 4), 4]),
        OptimizationProfile(
            "b", {"q": [(2, 2, 8), (10, 12, 32), 4], "half": [(2, 2, 8), (5, 6, 16), 4]}
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_uncovered_sizes(sizes, resolve_profiles(sizes, both))


# --- Ranges of expressions -----------------------------------------------------------------------

S, T = (
    sympy.Symbol("s", integer=True, positive=True),
    sympy.Symbol("t", integer=True, positive=True),
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (S, (1, 4, 10)),
        (2 * S + 1, (3, 9, 21)),
        (FloorDiv(S, 2), (0, 2, 5)),
        (S * T, (2, 12, 50)),
        (S + T - 1, (2, 6, 14)),
        (S**2, (1, 16, 100)),
        (FloorDiv(S * T, 3), (0, 4, 16)),
        (sympy.Integer(7), (7, 7, 7)),
    ],
)
def test_a_rising_expression_is_bounded_exactly_by_its_corners(
    expression: sympy.Expr, expected: tuple[int, int, int]
) -> None:
    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10), "t": DimRange(2, 3, 5)})
    assert symbols.bound_expr(expression) == DimRange(*expected)


def test_a_falling_expression_is_bounded_the_right_way_round() -> None:
    assert ProfileSymbols("p", {"s": DimRange(1, 4, 10)}).bound_expr(20 - S) == DimRange(10, 16, 19)


def test_an_expression_that_is_not_monotone_is_bounded_exactly_over_one_symbol() -> None:
    from torch.utils._sympy.functions import PythonMod

    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10)})
    assert symbols.bound_expr(PythonMod(S, 4)) == DimRange(0, 0, 3)
    assert symbols.bound_expr((S - 5) ** 2) == DimRange(0, 1, 25)


def test_bounds_over_several_symbols_hold_every_value_of_the_expression() -> None:
    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10), "t": DimRange(2, 3, 5)})
    bounds = symbols.bound_expr(S * (20 - S - T))
    values = [s * (20 - s - t) for s in range(1, 11) for t in range(2, 6)]
    assert bounds.min <= min(values)
    assert max(values) <= bounds.max
    assert bounds.opt == 4 * 13


def test_a_symbol_without_a_range_is_named() -> None:
    with pytest.raises(ValueError, match=r"profile 'p' gives no range to \['t'\] of size s\*t"):
        ProfileSymbols("p", {"s": DimRange(1, 4, 10)}).bound_expr(S * T)


def test_profile_symbols_survive_their_compile_spec() -> None:
    profiles = (ProfileSymbols("ä", {"s": DimRange(1, 2, 3)}), ProfileSymbols("b", {}))
    assert symbols_from_json(symbols_to_json(profiles)) == profiles


# --- Partitions ----------------------------------------------------------------------------------


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
