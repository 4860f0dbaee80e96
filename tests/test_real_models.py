"""Models that people use become one engine each, and compute what eager PyTorch does."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import ExecutorchProgramManager, memory
from executorch.exir.backend.utils import get_delegates
from model_case import Case, made
from models import blobs
from real_models import CASES

from executorch_tensorrt import CompileOptions, export, load

pytest.importorskip("transformers")
pytest.importorskip("torchvision")


# Of each kind one is also lowered for the CPU, which takes as long again, and executed there.
WITH_FALLBACK = {"bert", "llama", "lstm", "convnext", "unet"}
# The rest of CASES is in the table that tools/coverage.py makes.
LOWERED = (
    *("bert", "distilbert", "t5_encoder", "gpt2", "llama", "qwen2", "clip_text", "clip_vision"),
    *("whisper_encoder", "lstm", "resnet", "mobilenet", "vision_transformer", "convnext", "swin"),
    *("unet", "squeezenet", "deberta", "whisper_decoder"),
)


def operators_outside(program: ExecutorchProgramManager) -> set[str]:
    graph = program.exported_program().graph
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return {str(node.target) for node in nodes} - {
        "executorch_call_delegate",
        "<built-in function getitem>",
    }


@pytest.mark.parametrize("name", LOWERED)
def test_a_model_becomes_one_engine_that_computes_all_of_it(name: str) -> None:
    case = made(CASES[name])
    profiles = case.optimization_profiles()
    options = CompileOptions(cpu_fallback=name in WITH_FALLBACK)
    program = export(case.model, case.example(), profiles=profiles, options=options)
    assert len(get_delegates(program.exported_program().graph)) == 1
    assert operators_outside(program) <= {str(memory.alloc)}
    [blob] = blobs(program)
    assert [profile.name for profile in blob.profiles] == list(case.profiles)
    assert [profile.engine_profile for profile in blob.profiles] == [0, 1]
    if name in WITH_FALLBACK:
        check_answers(case, program.buffer)


def check_answers(case: Case, program: bytes) -> None:
    forward = load(program, device="cpu")["forward"]
    for profile in case.profiles:
        for index in range(3):
            inputs = case.inputs_of(profile, index)
            answers = forward(*inputs, profile=profile)
            for answer, right in zip(answers, case.answers(inputs), strict=True):
                torch.testing.assert_close(answer, right, rtol=1e-3, atol=1e-3)
