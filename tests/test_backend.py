"""One partition to one delegate blob: engine, bindings, profiles and the CPU fallback."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.utils import get_delegates
from models import FallbackProgram, Mlp, Transformer, run_with_fallbacks, seeded
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, GraphModule

from executorch_tensorrt.backend import engine_builder, tensorrt_import
from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.delegate_blob import (
    DelegateBlob,
    ScalarType,
    ShapeRange,
    StateMode,
)
from executorch_tensorrt.backend.engine_builder import (
    EngineBuild,
    EngineBuildError,
)
from executorch_tensorrt.backend.size_inputs import replace_size_inputs
from executorch_tensorrt.backend.tensorrt_backend import TensorRTBackend
from executorch_tensorrt.partitioner import TensorRTPartitioner
from executorch_tensorrt.profiles import OptimizationProfile

PLAIN, WITH_FALLBACK = CompileOptions(), CompileOptions(cpu_fallback=True)


def lower(
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    dynamic_shapes: Any = None,
    profiles: tuple[OptimizationProfile, ...] = (),
    options: CompileOptions = PLAIN,
) -> ExportedProgram:
    with torch.no_grad():
        manager = to_edge_transform_and_lower(
            torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes),
            partitioner=[TensorRTPartitioner(profiles, options=options)],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    return manager.exported_program()


def blobs_of(edge: ExportedProgram) -> list[DelegateBlob]:
    return [
        DelegateBlob.from_bytes(getattr(edge.graph_module, node.name).processed_bytes)
        for node in get_delegates(edge.graph)
    ]


def only_blob(edge: ExportedProgram) -> DelegateBlob:
    [blob] = blobs_of(edge)
    return blob


PROFILES = (
    OptimizationProfile("decode", {"tokens": [1, 1]}),
    OptimizationProfile("prefill", {"tokens": [1, (4, 16, 64)]}),
)
SEQUENCE = ({1: Dim("S", min=1, max=64)},)
TOKENS = torch.zeros(1, 8, dtype=torch.long)


# --- Engines and blobs ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[torch.float32, torch.float16], ids=["fp32", "fp16"])
def transformer(request: pytest.FixtureRequest) -> tuple[torch.nn.Module, DelegateBlob, list[int]]:
    """A transformer, its only delegate's blob, and the builder's profile count of each engine."""
    counts: list[int] = []
    build = EngineBuild.run

    def counted(self: EngineBuild) -> Any:
        engine = build(self)
        counts.append(engine.num_profiles)
        return engine

    model = seeded(Transformer).to(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineBuild, "run", counted)
        blob = only_blob(lower(model, (TOKENS,), SEQUENCE, PROFILES, WITH_FALLBACK))
    return model, blob, counts


def test_two_profiles_make_an_engine_of_two_tensorrt_profiles(transformer: Any) -> None:
    _, blob, counts = transformer
    assert counts == [2]
    assert [(p.name, p.engine_profile) for p in blob.profiles] == [("decode", 0), ("prefill", 1)]
    assert [p.inputs for p in blob.profiles] == [
        (ShapeRange((1, 1), (1, 1), (1, 1)),),
        (ShapeRange((1, 4), (1, 16), (1, 64)),),
    ]


def test_the_blob_says_what_the_engine_is(transformer: Any) -> None:
    model, blob, _ = transformer
    tensorrt = tensorrt_import.import_tensorrt()
    assert blob.engine_id == hashlib.sha256(blob.engine).digest()
    assert (blob.flavour, blob.version) == (tensorrt.flavour, tensorrt.version)
    assert blob.build_options["tf32"] == "False"
    tokens, logits = blob.bindings
    assert (tokens.dtype, tokens.dims, tokens.is_input, tokens.argument, tokens.max_bytes) == (
        ScalarType.INT64,
        (1, -1),
        True,
        0,
        64 * 8,
    )
    element = next(model.parameters()).dtype
    assert logits.dtype == {torch.float32: 6, torch.float16: 5}[element]
    assert (logits.dims, logits.is_input, logits.argument) == ((1, -1, 50), False, 1)
    assert logits.max_bytes == 64 * 50 * element.itemsize
    assert blob.num_arguments == 2


@pytest.mark.parametrize("length", [1, 4, 17, 64, 2])
def test_the_fallback_equals_eager_at_inside_and_between_bounds(
    transformer: Any, length: int
) -> None:
    model, blob, _ = transformer
    tokens = torch.randint(0, Transformer.VOCABULARY, (1, length))
    with torch.no_grad():
        expected = model(tokens)
    [answer] = FallbackProgram(blob)(tokens)
    assert answer.dtype == expected.dtype
    tolerance = 1e-4 if answer.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(answer, expected, rtol=0, atol=tolerance)


def test_profiles_with_the_same_ranges_share_an_engine_profile() -> None:
    shapes = {"x": [(1, 2, 4), 8]}
    profiles = tuple(OptimizationProfile(name, shapes) for name in ("a", "b"))
    profiles += (OptimizationProfile("c", {"x": [(5, 6, 8), 8]}), OptimizationProfile("d", shapes))
    edge = lower(seeded(Mlp), (torch.zeros(3, 8),), ({0: Dim("B", min=1, max=8)},), profiles)
    names = [(p.name, p.engine_profile) for p in only_blob(edge).profiles]
    assert names == [("a", 0), ("b", 0), ("c", 1), ("d", 0)]


def test_a_static_program_has_the_default_profile_and_no_fallback_unless_asked() -> None:
    blob = only_blob(lower(seeded(Mlp), (torch.zeros(2, 8),)))
    assert [(p.name, p.engine_profile) for p in blob.profiles] == [("default", 0)]
    assert blob.bindings[0].dims == (2, 8)
    assert blob.fallback is None


def test_one_profile_of_one_size_makes_static_bindings_of_a_dynamic_program() -> None:
    profiles = (OptimizationProfile("p", {"x": [4, 8]}),)
    with pytest.warns(UserWarning, match="sizes 1..3, 5..8 too"):
        edge = lower(seeded(Mlp), (torch.zeros(3, 8),), ({0: Dim("B", min=1, max=8)},), profiles)
    assert [binding.dims for binding in only_blob(edge).bindings] == [(4, 8), (4, 8)]


def test_options_reach_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch_tensorrt.backend.converters import Interpreter, trt

    configs = []
    populate = Interpreter._populate_trt_builder_config

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        configs.append(populate(self, *args, **kwargs))
        return configs[-1]

    monkeypatch.setattr(Interpreter, "_populate_trt_builder_config", recorded)
    lower(seeded(Mlp), (torch.zeros(2, 8),))
    options = CompileOptions(optimization_level=1, workspace_bytes=1 << 28, tf32=True)
    lower(seeded(Mlp), (torch.zeros(2, 8),), options=options)
    plain, asked = configs
    assert not plain.get_flag(trt.BuilderFlag.TF32)
    assert asked.get_flag(trt.BuilderFlag.TF32)
    assert asked.builder_optimization_level == 1
    assert asked.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 1 << 28


# --- Outputs and inputs that need care -----------------------------------------------------------


class Outputs(torch.nn.Module):
    """An input as output, one value twice, a rank-0 sum, a constant, a comparison, an int64."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2 + self.bias
        return y.clone(), y, y.sum(), y > 3, y.argmax(1), (y * 0.5).to(torch.float16)


def test_every_output_is_a_tensor_of_its_own_with_rank_and_dtype_of_the_graph() -> None:
    model, x = Outputs().eval(), torch.randn(3, 8)
    edge = lower(model, (x,), options=WITH_FALLBACK)
    outputs = [binding for binding in only_blob(edge).bindings if not binding.is_input]
    expected = model(x)
    by_argument = {binding.argument: binding for binding in outputs}
    assert len({binding.name for binding in outputs}) == len(outputs)
    assert all(by_argument[b.argument].dims in {tuple(e.shape) for e in expected} for b in outputs)
    assert () in [binding.dims for binding in outputs]
    for answer, right in zip(run_with_fallbacks(edge, x), expected, strict=True):
        torch.testing.assert_close(answer, right)


class Mixed(torch.nn.Module):
    """Numbers of another kind than the tensor's: float16 with Python floats, int64 with ints."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * 0.125 + 1.5) / 3.0, n * 3 + 2**40


def test_python_numbers_take_the_tensor_s_dtype_and_large_ones_stay_whole() -> None:
    model, inputs = Mixed(), (torch.randn(4).to(torch.float16), torch.arange(4))
    edge = lower(model, inputs, options=WITH_FALLBACK)
    for answer, right in zip(run_with_fallbacks(edge, *inputs), model(*inputs), strict=True):
        torch.testing.assert_close(answer, right, rtol=0, atol=2e-3)


def test_a_written_buffer_is_a_state_of_the_delegate_and_no_argument() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.arange(4.0))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            self.count.add_(1)
            return self.total * self.count

    blob = only_blob(lower(Counter(), (torch.zeros(4),), options=WITH_FALLBACK))
    assert [binding.is_input for binding in blob.bindings] == [True, False]
    assert blob.num_arguments == 2
    total, count = blob.states
    assert (total.name, total.dtype, total.shape) == ("total", ScalarType.FLOAT32, (4,))
    assert bytes(total.initial or b"") == torch.arange(4.0).numpy().tobytes()
    assert (count.name, count.dtype, count.shape) == ("count", ScalarType.INT64, ())
    assert count.initial is None  # zeros
    assert {total.mode, count.mode} == {StateMode.PING_PONG}
    x, values = torch.ones(4), (torch.full((4,), 3.0), torch.tensor(6))
    answer, *new_values = FallbackProgram(blob)(x, *values)
    torch.testing.assert_close(answer, torch.full((4,), 28.0))
    torch.testing.assert_close(new_values, [torch.full((4,), 4.0), torch.tensor(7)])


class Broken(torch.nn.Module):
    """A size crosses from the first half to the second, in which a tensor input has the dim."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = torch.cumsum((x * 2).to(torch.float64), 0).to(torch.float32)
        return (middle + 1).reshape(x.shape[0] * 2, 4) * x.shape[0]


def test_a_size_from_outside_is_computed_from_the_partition_s_own_inputs() -> None:
    profiles = (OptimizationProfile("p", {"x": [(1, 3, 8), 8]}),)
    model, x = Broken(), torch.randn(3, 8)
    edge = lower(model, (x,), ({0: Dim("B", min=1, max=8)},), profiles, WITH_FALLBACK)
    blob = blobs_of(edge)[-1]
    assert [binding.dims for binding in blob.bindings] == [(-1, 8), (-1, 4)]
    for rows in (1, 3, 8):
        x = torch.randn(rows, 8)
        [answer] = run_with_fallbacks(edge, x)
        torch.testing.assert_close(answer, model(x))


def graph_with_a_size(expression: str) -> GraphModule:
    """A graph with a tensor of a derived size and a size input that a tensor's dim gives or not."""
    s = Dim("s", min=2, max=16)

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum() + y.sum()

    program = torch.export.export(
        Two(),
        (torch.zeros(9), torch.zeros(5)),
        dynamic_shapes=({0: 2 * s + 1}, {0: Dim("t", min=2, max=8)}),
    )
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    size = {"s": (values["x"].shape[0] - 1) // 2, "t": values["y"].shape[0]}[expression]
    graph = Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    x.meta["val"], n.meta["val"] = values["x"], size
    graph.output((graph.call_function(torch.ops.aten.mul.Tensor, (x, n)),))
    return GraphModule(torch.nn.Module(), graph)


def test_a_derived_dim_gives_its_symbol_back() -> None:
    module = graph_with_a_size("s")
    replace_size_inputs(module)
    assert [node.name for node in module.graph.find_nodes(op="placeholder")] == ["x"]
    [answer] = module(torch.ones(9))
    assert answer[0] == 4


def test_a_size_that_no_tensor_input_gives_is_named() -> None:
    with pytest.raises(ValueError, match=r"input 'n' of the partition is the size s\d+, which can"):
        replace_size_inputs(graph_with_a_size("t"))


# --- Refusals ------------------------------------------------------------------------------------


def test_what_tensorrt_says_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch_tensorrt.backend.converters import Interpreter, trt

    populate = Interpreter._populate_trt_builder_config

    def inverted(self: Any, *args: Any, **kwargs: Any) -> Any:
        profile = self.builder.create_optimization_profile()
        config = populate(self, *args, **kwargs)
        config.add_optimization_profile(profile)  # without the input's shape: TensorRT refuses
        return config

    assert trt is not None
    monkeypatch.setattr(Interpreter, "_populate_trt_builder_config", inverted)
    profiles = (OptimizationProfile("p", {"x": [(1, 2, 8), 8]}),)
    with pytest.raises(EngineBuildError, match=r"TensorRT said: .*profile"):
        lower(seeded(Mlp), (torch.zeros(3, 8),), ({0: Dim("B", min=1, max=8)},), profiles)


def test_tensorrt_without_a_gpu_names_the_flavour_that_needs_none() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(EngineBuildError, match=r"pip install 'executorch-tensorrt\[rtx\]'"):
        engine_builder._require_gpu(is_rtx=False)


def test_a_missing_compile_spec_is_named() -> None:
    program = torch.export.export(Mlp(), (torch.zeros(2, 8),))
    with pytest.raises(ValueError, match="compile spec 'profiles' is missing"):
        TensorRTBackend.preprocess(program, [CompileSpec("compile_options", b"{}")])


def test_long_steps_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "executorch_tensorrt"):
        lower(seeded(Mlp), (torch.zeros(2, 8),), options=WITH_FALLBACK)
    for words in ("TensorRT takes", "building an engine of", "built an engine of", "CPU fallback"):
        assert words in caplog.text
