"""export(): from a module and profiles to a `.pte`."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from executorch.runtime import Runtime
from models import FallbackProgram, GraphBreak, Mlp, Transformer, Unsupported, blobs, seeded
from torch import nn
from torch.export import Dim

from executorch_tensorrt._export import export
from executorch_tensorrt._export.dynamic_shapes import derive_dynamic_shapes
from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.delegate_blob import ShapeRange
from executorch_tensorrt.profiles import OptimizationProfile
from executorch_tensorrt.runtime import load

DECODE = OptimizationProfile("decode", {"tokens": [1, 1]})
PREFILL = OptimizationProfile("prefill", {"tokens": [(1, 2, 4), (2, 16, 64)]})


def dims_of(shapes: Any) -> Any:
    """Dynamic shapes with each dim as its (min, max)."""
    if isinstance(shapes, dict):
        return {key: dims_of(value) for key, value in shapes.items()}
    if isinstance(shapes, list | tuple):
        return type(shapes)(dims_of(value) for value in shapes)
    return None if shapes is None else (shapes.min, shapes.max)


# --- From profiles to dynamic shapes -------------------------------------------------------------


class Nested(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, d: dict[str, list[torch.Tensor]], *, scale: torch.Tensor
    ) -> torch.Tensor:
        return (x + d["A-b"][0]) * scale


NESTED = ((torch.zeros(3, 4), {"A-b": [torch.zeros(3, 4)]}), {"scale": torch.zeros(())})


def test_a_dim_that_varies_within_or_across_profiles_is_dynamic_over_all_of_them() -> None:
    profiles = (
        OptimizationProfile("a", {"x": [1, 4], "d_a_b_0": [1, 4]}),
        OptimizationProfile("b", {"x": [(2, 3, 8), 4], "d_a_b_0": [5, 4]}),
    )
    shapes = derive_dynamic_shapes(Nested(), *NESTED, profiles).dynamic_shapes
    assert dims_of(shapes) == {"x": {0: (1, 8)}, "d": {"A-b": [{0: (1, 5)}]}, "scale": None}


def test_the_names_of_nested_inputs_are_torch_export_s() -> None:
    program = torch.export.export(Nested(), *NESTED)
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    profile = OptimizationProfile("p", {name: [] if name == "scale" else [3, 4] for name in names})
    derive_dynamic_shapes(Nested(), *NESTED, [profile])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"y": [3, 4]},
            "profile 'p', input 'y': the model has no such .* it has x, d_a_b_0, scale",
        ),
        ({"x": [3]}, r"profile 'p', input 'x': has 1 dims, the example input has 2: \[3, 4\]"),
        ({"x": [(4, 5, 6), 4]}, "input 'x', dim 0: the example input has size 3, .* allow 4..6"),
        ({"x": [3, 5]}, "input 'x', dim 1: the example input has size 4, .* allow 5..5"),
    ],
)
def test_a_profile_that_does_not_fit_the_examples_is_refused(
    shapes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        derive_dynamic_shapes(Nested(), *NESTED, [OptimizationProfile("p", shapes)])


def test_an_example_of_size_one_is_repeated_where_the_profiles_let_it_vary() -> None:
    tokens = torch.tensor([[7]])
    profile = OptimizationProfile("p", {"tokens": [1, (1, 4, 8)]})
    inputs = derive_dynamic_shapes(seeded(Transformer), (), {"tokens": tokens}, [profile])
    assert inputs.args == ()
    assert inputs.kwargs["tokens"].tolist() == [[7, 7]]


def test_keyword_inputs_are_exported() -> None:
    profile = OptimizationProfile("p", {"x": [(1, 2, 8), 4], "d_a_b_0": [(1, 2, 8), 4]})
    args, kwargs = NESTED
    [blob] = blobs(export(Nested(), args, example_kwargs=kwargs, profiles=[profile]))
    assert [b.dims for b in blob.bindings if b.is_input] == [(-1, 4), (-1, 4), ()]


# --- Programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", [(2, 8), (1, 1)], ids=["usual", "of size one"])
def test_a_module_and_two_profiles_make_one_delegate_with_both(example: tuple[int, int]) -> None:
    model, tokens = seeded(Transformer), torch.zeros(example, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*optimization profile covers.*")
        warnings.filterwarnings("error", message=".*training mode.*")
        program = export(model, (tokens,), profiles=[DECODE, PREFILL])
    [blob] = blobs(program)
    assert [(p.name, p.inputs) for p in blob.profiles] == [
        ("decode", (ShapeRange((1, 1), (1, 1), (1, 1)),)),
        ("prefill", (ShapeRange((1, 2), (2, 16), (4, 64)),)),
    ]


def test_equal_dims_are_found_and_unequal_ones_kept_apart() -> None:
    class Attend(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return (x * mask).sum(0) + other.sum(0)

    rows = [(1, 2, 8), 4]
    profile = OptimizationProfile("p", {"x": rows, "mask": rows, "other": rows})
    inputs = (torch.zeros(2, 4), torch.zeros(2, 4), torch.zeros(3, 4))
    export(Attend(), inputs, profiles=[profile])
    unequal = OptimizationProfile("p", {"x": rows, "mask": [(1, 2, 7), 4], "other": rows})
    with pytest.raises(ValueError, match="'mask', dim 0: min 1, opt 2, max 7 contradicts"):
        export(Attend(), inputs, profiles=[unequal])


def test_a_graph_break_gives_the_same_names_to_both_delegates() -> None:
    profiles = [
        OptimizationProfile("one", {"x": [1, 8]}),
        OptimizationProfile("many", {"x": [(2, 4, 8), 8]}),
    ]
    first, second = blobs(export(seeded(GraphBreak), (torch.zeros(3, 8),), profiles=profiles))
    assert [p.name for p in first.profiles] == [p.name for p in second.profiles] == ["one", "many"]
    assert [p.inputs[0].max for p in second.profiles] == [(2, 8), (16, 8)]


def test_an_exported_program_is_taken_as_it_is() -> None:
    exported = torch.export.export(
        seeded(Mlp), (torch.zeros(3, 8),), dynamic_shapes=({0: Dim("B", min=1, max=8)},)
    )
    profile = OptimizationProfile("p", {"x": [(1, 4, 8), 8]})
    [blob] = blobs(export(exported, profiles=[profile]))
    assert blob.bindings[0].dims == (-1, 8)
    with pytest.raises(ValueError, match="has its inputs and shapes already"):
        export(exported, (torch.zeros(3, 8),), profiles=[profile])


def test_given_dynamic_shapes_are_used() -> None:
    shapes = ({0: Dim("B", min=1, max=32)},)
    profile = OptimizationProfile("p", {"x": [(1, 4, 8), 8]})
    with pytest.warns(UserWarning, match="exported for sizes 9..32 too"):
        export(seeded(Mlp), (torch.zeros(3, 8),), dynamic_shapes=shapes, profiles=[profile])


def test_parameters_that_require_grad_do_not_matter() -> None:
    model, x = seeded(Mlp), torch.randn(2, 8)
    assert all(parameter.requires_grad for parameter in model.parameters())
    [blob] = blobs(export(model, (x,), options=CompileOptions(cpu_fallback=True)))
    torch.testing.assert_close(FallbackProgram(blob)(x)[0], model(x).detach())


class ReturnsInput(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x + 1


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        # TensorRT takes it whole: inputs and outputs are the caller's, on the GPU too.
        (Mlp, [False], [False]),
        # Part of it runs on the CPU.
        (GraphBreak, [False], [True]),
        # The input and the output are one value.
        (ReturnsInput, [True], [True, True]),
    ],
)
def test_memory_is_planned_only_for_what_is_not_the_callers(
    model: type[nn.Module], inputs: list[bool], outputs: list[bool]
) -> None:
    program = export(seeded(model), (torch.zeros(2, 8),))
    [plan] = program.executorch_program.execution_plan
    allocated = [
        [plan.values[index].val.allocation_info is not None for index in indices]
        for indices in (plan.inputs, plan.outputs)
    ]
    assert allocated == [inputs, outputs]


def test_a_written_buffer_starts_from_its_value() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.arange(4.0, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            return self.total * 1.0

    with pytest.warns(UserWarning, match="TensorRT takes no node"):
        data = export(Counter().eval(), (torch.zeros(4, dtype=torch.float64),)).buffer
    program = Runtime.get().load_program(data)
    method = program.load_method("forward")
    ones = torch.ones(4, dtype=torch.float64)
    assert method.execute([ones])[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert method.execute([ones])[0].tolist() == [2.0, 3.0, 4.0, 5.0]


def test_a_model_with_no_supported_node_warns_and_runs_on_the_cpu() -> None:
    model, x = Unsupported().eval(), torch.randn(2, 8, dtype=torch.float64)
    with pytest.warns(UserWarning, match="TensorRT takes no node of the program"):
        data = export(model, (x,)).buffer
    loaded = Runtime.get().load_program(data)
    [answer] = loaded.load_method("forward").execute([x])
    torch.testing.assert_close(answer, model(x))


def test_an_operator_outside_without_a_kernel_is_warned_of() -> None:
    class Sorts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(x.to(torch.float64), dim=1)[0].to(torch.float32) * 2

    with pytest.warns(UserWarning, match="aten::sort.values stays outside TensorRT"):
        export(Sorts(), (torch.zeros(2, 8),))


def test_a_module_in_training_mode_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"Mlp is in training mode.*call model.eval\(\)"):
        export(Mlp(), (torch.zeros(2, 8),))


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (
            lambda x: x,
            (torch.zeros(1),),
            "must be a torch.nn.Module or an ExportedProgram, got fun",
        ),
        (Mlp(), torch.zeros(2, 8), r"must be a tuple of inputs, got one Tensor; write \(input,\)"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(model: Any, inputs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        export(model, inputs)


def test_a_dynamic_program_without_profiles_is_refused() -> None:
    shapes = ({0: Dim("B", min=1, max=8)},)
    with pytest.raises(ValueError, match="input 'x', dim 0 is dynamic, so it needs at least one"):
        export(seeded(Mlp), (torch.zeros(3, 8),), dynamic_shapes=shapes)


def test_an_input_that_is_called_like_a_python_builtin_takes_its_profile() -> None:
    """torch.fx renames such inputs on the way; nn.Sequential's only one is called `input`."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    profiles = [OptimizationProfile("some", {"input": ((1, 4, 16), 8)})]
    program = export(model, (torch.randn(4, 8),), profiles=profiles)
    [blob] = blobs(program)
    assert blob.profiles[0].inputs[0].max == (16, 8)


class Difference(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 2 * a - b


def test_one_tensor_given_as_the_example_of_two_inputs_stands_for_two() -> None:
    example = torch.zeros(3)
    options = CompileOptions(cpu_fallback=True)
    program = export(Difference().eval(), (example, example), options=options)
    method = load(program.buffer, device="cpu")["forward"]
    (output,) = method(torch.ones(3), torch.full((3,), 5.0))
    torch.testing.assert_close(output, torch.full((3,), -3.0))
