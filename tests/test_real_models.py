"""Models that people use become one engine each, and compute what eager PyTorch does."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchProgramManager
from executorch.exir.backend.utils import get_delegates
from models import FallbackProgram, blobs
from real_models import CASES, Case

from executorch_tensorrt import CompileOptions, export

pytest.importorskip("transformers")
pytest.importorskip("torchvision")

# Slow to lower for the CPU too, and built of the same operators as others.
WITHOUT_FALLBACK = {"mobilenet", "swin"}

BATCHES = (1, 3)
LENGTHS = {"bert": (1, 13), "distilbert": (1, 13), "t5_encoder": (1, 13), "clip_text": (1, 13)}
LENGTHS.update({"gpt2": (1, 13), "llama": (1, 13), "qwen2": (1, 13)})


def exported(name: str, case: Case) -> ExecutorchProgramManager:
    options = CompileOptions(cpu_fallback=name not in WITHOUT_FALLBACK)
    return export(case.model, case.inputs, profiles=case.profiles, options=options)


def operators_outside(program: ExecutorchProgramManager) -> set[str]:
    graph = program.exported_program().graph
    targets = {str(node.target) for node in graph.nodes if node.op == "call_function"}
    return {name for name in targets if "delegate" not in name and "getitem" not in name}


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_one_engine_that_computes_all_of_it(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]()
    program = exported(name, case)
    assert len(get_delegates(program.exported_program().graph)) == 1
    assert operators_outside(program) <= {"aten::alloc", "<function alloc at 0x0>"}
    [blob] = blobs(program)
    assert [profile.name for profile in blob.profiles] == [p.name for p in case.profiles]
    assert len({profile.engine_profile for profile in blob.profiles}) == len(case.profiles)
    assert len(blob.engine) > 100_000
    if name in WITHOUT_FALLBACK:
        return
    run = FallbackProgram(blob)
    order = [b.argument for b in blob.bindings if b.is_input]
    for batch in BATCHES:
        for length in LENGTHS.get(name, (0,)):
            inputs = case.inputs_of({0: batch, 1: length} if length else {0: batch})
            with torch.no_grad():
                expected = case.model(*inputs)
            expected = expected if isinstance(expected, tuple) else (expected,)
            answers = run(*[inputs[argument] for argument in order])
            for answer, right in zip(answers, expected, strict=True):
                tolerance = 2e-2 if right.dtype == torch.float16 else 1e-3
                torch.testing.assert_close(answer, right, rtol=tolerance, atol=tolerance)
