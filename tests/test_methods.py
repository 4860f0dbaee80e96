"""Programs of several methods: traced, stored and run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from models import GraphBreak, Mlp, Transformer, blobs, seeded
from programs import DECODE_AND_PREFILL, WITH_FALLBACK, tokens
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile, RuntimeOptions, TensorRTPartitioner, export
from executorch_tensorrt.backend.engine_builder import EngineBuild
from executorch_tensorrt.runtime import InvalidArgument

ROWS = [OptimizationProfile("rows", {"x": [(1, 2, 8), 8]})]


def segments_of_delegates(pte: bytes) -> list[int]:
    """The segment that each delegate of each method lies in."""
    plans = _flatbuffer_to_program(pte).execution_plan
    return [delegate.processed.index for plan in plans for delegate in plan.delegates]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each engine that TensorRT builds."""
    counts: list[int] = []
    run = EngineBuild.run

    def counted(self: EngineBuild) -> Any:
        counts.append(1)
        return run(self)

    monkeypatch.setattr(EngineBuild, "run", counted)
    return counts


@pytest.fixture(scope="module")
def prefill_and_decode() -> tuple[torch.nn.Module, bytes]:
    """One transformer as two methods, named like its profiles."""
    model = seeded(Transformer)
    program = export(
        {"prefill": model, "decode": model},
        {"prefill": (tokens(2, 16),), "decode": (tokens(2, 1),)},
        profiles=DECODE_AND_PREFILL,
        options=WITH_FALLBACK,
    )
    return model, bytes(program.buffer)


# --- One engine for the same partitions ----------------------------------------------------------


def test_the_same_engine_in_two_methods_is_built_and_stored_once(built: list[int]) -> None:
    model = seeded(Transformer)
    inputs = {"prefill": (tokens(2, 16),), "decode": (tokens(2, 1),)}
    one = export(model, inputs["prefill"], profiles=DECODE_AND_PREFILL, options=WITH_FALLBACK)
    assert len(built) == 1
    two = export(
        {"prefill": model, "decode": model},
        inputs,
        profiles=DECODE_AND_PREFILL,
        options=WITH_FALLBACK,
    )
    assert len(built) == 2
    assert len(set(segments_of_delegates(two.buffer))) == 1
    assert len(segments_of_delegates(two.buffer)) == 2
    [blob] = blobs(one)
    assert len(two.buffer) - len(one.buffer) < len(blob.engine)
    assert blobs(two, "prefill") == blobs(two, "decode") == [blob]


def test_methods_with_other_weights_have_engines_of_their_own(built: list[int]) -> None:
    torch.manual_seed(1)
    program = export(
        {"a": seeded(Mlp), "b": Mlp().eval()}, (torch.zeros(2, 8),), options=WITH_FALLBACK
    )
    assert len(built) == 2
    assert len(set(segments_of_delegates(program.buffer))) == 2


# --- What each method is made from ---------------------------------------------------------------


def test_each_method_may_have_inputs_kwargs_shapes_and_profiles_of_its_own() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, y: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
            return y * by

    program = export(
        {"mlp": seeded(Mlp), "scaled": Scaled()},
        {"mlp": (torch.zeros(2, 8),), "scaled": (torch.zeros(3, 5),)},
        example_kwargs={"mlp": {}, "scaled": {"by": torch.zeros(5)}},
        dynamic_shapes={"mlp": {"x": {0: Dim("B", min=1, max=8)}}, "scaled": None},
        profiles={"mlp": ROWS, "scaled": ()},
        options=WITH_FALLBACK,
    )
    loaded = ett.load(bytes(program.buffer), device="cpu")
    assert (loaded["mlp"].profiles, loaded["scaled"].profiles) == (["rows"], ["default"])
    x, y, by = torch.randn(5, 8), torch.randn(3, 5), torch.randn(5)
    torch.testing.assert_close(loaded["mlp"](x)[0], seeded(Mlp)(x).detach())
    torch.testing.assert_close(loaded["scaled"](y, by)[0], y * by)


def test_programs_that_were_exported_already_become_methods() -> None:
    exported = torch.export.export(seeded(Mlp), (torch.zeros(2, 8),))
    program = export({"a": exported, "b": seeded(Mlp)}, {"a": (), "b": (torch.zeros(2, 8),)})
    assert program.methods == {"a", "b"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": {}}, ValueError, "model is an empty mapping"),
        ({"model": {3: Mlp()}}, TypeError, "a method's name must be a str .* got 3"),
        ({"example_inputs": {"a": ()}}, ValueError, "example_inputs leaves out 'b'; .* are a, b"),
        (
            {"profiles": {"a": ROWS, "b": ROWS, "c": ROWS}},
            ValueError,
            "profiles names 'c'; the methods are a, b",
        ),
        ({"default_profiles": {"c": "rows"}}, ValueError, "default_profiles names method 'c'"),
        (
            {"default_profiles": {"b": "row"}, "profiles": ROWS},
            ValueError,
            "method 'b': default_profile 'row' is no profile's name; the profiles are rows",
        ),
        ({"model": {"a": Mlp().eval(), "b": 1}}, TypeError, "method 'b': model must be a torch"),
        ({"example_inputs": torch.zeros(2, 8)}, TypeError, "method 'a': example_inputs must be"),
    ],
)
def test_what_fits_no_method_is_refused_by_name(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"model": {"a": seeded(Mlp), "b": seeded(Mlp)}, "example_inputs": (torch.zeros(2, 8),)}
    with pytest.raises(error, match=message):
        export(**{**given, **arguments})


# --- Default profiles ----------------------------------------------------------------------------


def test_a_method_named_like_a_profile_uses_it_by_default(
    prefill_and_decode: tuple[torch.nn.Module, bytes],
) -> None:
    model, pte = prefill_and_decode
    program = ett.load(pte, device="cpu")
    for name, length in (("decode", 1), ("prefill", 7)):
        given = tokens(2, length)
        torch.testing.assert_close(program[name](given)[0], model(given).detach())
        assert program[name].last_profile == name
    with pytest.raises(InvalidArgument, match="decode"):
        program["decode"](tokens(2, 7))


def test_pins_and_runtime_options_count_before_a_method_s_default(
    prefill_and_decode: tuple[torch.nn.Module, bytes],
) -> None:
    _, pte = prefill_and_decode
    program = ett.load(pte, device="cpu")
    program["decode"](tokens(2, 7), profile="prefill")
    with ett.optimization_profile(None):
        program["decode"](tokens(2, 7))
    assert program["decode"].last_profile == "prefill"
    by_shape = RuntimeOptions(default_profile={"decode": None})
    program = ett.load(pte, device="cpu", options=by_shape)
    program["decode"](tokens(2, 7))
    assert program["decode"].last_profile == "prefill"
    with pytest.raises(InvalidArgument, match="prefill"):
        program["prefill"](tokens(2, 1))


def test_default_profiles_can_be_said_for_each_method() -> None:
    profiles = [OptimizationProfile(name, {"x": [(1, 2, 8), 8]}) for name in ("a", "b", "c")]
    arguments: Any = {"profiles": profiles, "options": WITH_FALLBACK}
    models = {"a": seeded(Mlp), "b": seeded(Mlp)}
    program = export(models, (torch.zeros(2, 8),), default_profiles={"a": "c"}, **arguments)
    loaded = ett.load(bytes(program.buffer), device="cpu")
    for name in models:
        loaded[name](torch.zeros(2, 8))
    assert [loaded[name].last_profile for name in models] == ["c", "a"]
    one = export(seeded(Mlp), (torch.zeros(2, 8),), default_profiles={"forward": "b"}, **arguments)
    forward = ett.load(bytes(one.buffer), device="cpu")["forward"]
    forward(torch.zeros(2, 8))
    assert forward.last_profile == "b"


# --- ExecuTorch's own way ------------------------------------------------------------------------


def test_methods_lower_through_execu_torch_s_own_call_too() -> None:
    mlp, halves = seeded(Mlp), seeded(GraphBreak)
    rows = {"x": {0: Dim("B", min=1, max=8)}}
    edge = to_edge_transform_and_lower(
        {
            "mlp": torch.export.export(mlp, (torch.zeros(2, 8),), dynamic_shapes=rows),
            "halves": torch.export.export(halves, (torch.zeros(2, 8),), dynamic_shapes=rows),
        },
        partitioner={
            "mlp": [TensorRTPartitioner(ROWS, options=WITH_FALLBACK, default_profile="rows")],
            "halves": [TensorRTPartitioner(ROWS, options=WITH_FALLBACK)],
        },
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    program = edge.to_executorch()
    assert [len(blobs(program, name)) for name in ("mlp", "halves")] == [1, 2]
    loaded = ett.load(bytes(program.buffer), device="cpu")
    x = torch.randn(5, 8)
    for name, model in (("mlp", mlp), ("halves", halves)):
        torch.testing.assert_close(loaded[name](x)[0], model(x).detach())
