"""Models that people use become one engine each, and compute what eager PyTorch does."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchProgramManager, memory
from executorch.exir.backend.utils import get_delegates
from models import blobs
from real_models import CASES, Case

from executorch_tensorrt import CompileOptions, export, load

pytest.importorskip("transformers")
pytest.importorskip("torchvision")


# Of each kind one is also lowered for the CPU, which takes as long again, and executed there.
WITH_FALLBACK = {"bert", "llama", "lstm", "convnext"}
SIZES = {
    "bert": [{0: 1, 1: 1}, {0: 3, 1: 13}],
    "llama": [{0: 1, 1: 1}, {0: 3, 1: 13}],
    "lstm": [{0: 1}, {0: 3}],
    "convnext": [{0: 1}, {0: 3}],
}


def operators_outside(program: ExecutorchProgramManager) -> set[str]:
    graph = program.exported_program().graph
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return {str(node.target) for node in nodes} - {
        "executorch_call_delegate",
        "<built-in function getitem>",
    }


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_one_engine_that_computes_all_of_it(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]()
    options = CompileOptions(cpu_fallback=name in WITH_FALLBACK)
    program = export(case.model, case.inputs, profiles=case.profiles, options=options)
    assert len(get_delegates(program.exported_program().graph)) == 1
    assert operators_outside(program) <= {str(memory.alloc)}
    [blob] = blobs(program)
    assert [profile.name for profile in blob.profiles] == [p.name for p in case.profiles]
    assert [profile.engine_profile for profile in blob.profiles] == [0, 1]
    if name in WITH_FALLBACK:
        check_answers(case, program.buffer, "cpu", SIZES[name], 1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_model_s_engine_gives_eager_s_answers(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]()
    program = export(case.model, case.inputs, profiles=case.profiles).buffer
    ranges = [profile.ranges["x"] for profile in case.profiles]
    sizes = [
        {dim: size[bound] for dim, size in enumerate(shape)} for shape in ranges for bound in (0, 1)
    ]
    check_answers(case, program, "cuda:0", sizes, 2e-2)


def check_answers(
    case: Case, program: bytes, device: str, sizes: list[dict[int, int]], tolerance: float
) -> None:
    forward = load(program, device=device)["forward"]
    for size in sizes:
        inputs = case.inputs_of(size)
        with torch.no_grad():
            expected = case.model(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for answer, right in zip(forward(*inputs), expected, strict=True):
            torch.testing.assert_close(answer.cpu(), right, rtol=tolerance, atol=tolerance)
