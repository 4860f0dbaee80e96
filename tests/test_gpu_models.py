"""Small models executed by TensorRT on a GPU, in all their profiles, against eager's answers.

They are exported elsewhere by make_model_cases.py, whose folder EXECUTORCH_TENSORRT_MODEL_CASES
names.
"""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import executorch_tensorrt as ett  # noqa: E402
from executorch_tensorrt.runtime import InvalidArgument  # noqa: E402

FOLDER = os.environ.get("EXECUTORCH_TENSORRT_MODEL_CASES")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOLDER is None, reason="EXECUTORCH_TENSORRT_MODEL_CASES names no folder"),
]
NAMES = sorted(path.name for path in Path(FOLDER).iterdir()) if FOLDER else []
# Of the greatest absolute value of an answer, at least 1. On compute capability 9.0 TensorRT-RTX
# computes float32 products in TF32 whatever it is told.
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float32: 1e-2}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_gives_eager_pytorchs_answers_in_every_profile(name: str) -> None:
    method = loaded(name)
    worst = check(method, name)
    assert {stats["device"] for stats in method.stats()} == {"cuda:0"}
    print(f"{name}: worst error {worst:.1e}")


def test_the_weights_of_an_engine_built_for_it_are_streamed() -> None:
    """With a budget of nothing each is brought to the GPU for every call."""
    if "streamed_llama" not in NAMES:
        pytest.skip(f"no case streamed_llama in {FOLDER}")
    with pytest.raises(InvalidArgument, match="weight_streaming=True"):
        loaded("llama", weight_streaming_budget=0)
    check(loaded("streamed_llama", weight_streaming_budget=0), "streamed_llama")


def loaded(name: str, **options: Any) -> ett.Method:
    program = lzma.decompress((Path(FOLDER or "") / name / "program.pte.xz").read_bytes())
    return ett.load(program, device="cuda:0", options=ett.RuntimeOptions(**options))["forward"]


def check(method: ett.Method, name: str) -> float:
    """The worst error of all calls, each made three times."""
    worst, profiles = 0.0, set()
    for profile, inputs, expected in torch.load(Path(FOLDER or "") / name / "calls.pt"):
        profiles.add(profile)
        on_gpu = [value.cuda() for value in inputs]
        for _ in range(3):  # the third replays a graph
            answers = method(*on_gpu, profile=profile)
            assert method.last_profile == profile
            assert len(answers) == len(expected)
            for number, (answer, right) in enumerate(zip(answers, expected, strict=True)):
                assert (answer.dtype, answer.shape) == (right.dtype, right.shape)
                error = difference(answer.cpu(), right)
                worst = max(worst, error)
                assert error <= TOLERANCE.get(right.dtype, 0), f"{profile}, output {number}"
    assert profiles == set(method.profiles)
    return worst


def difference(answer: torch.Tensor, right: torch.Tensor) -> float:
    if not right.numel():
        return 0.0
    answer, right = answer.double(), right.double()
    same = (answer == right) | (answer.isnan() & right.isnan())
    error = torch.where(same, 0.0, (answer - right).abs()).max().item()
    finite = right[right.isfinite()].abs()
    scale = max(1.0, finite.max().item() if finite.numel() else 1.0)
    return error / scale if error == error else float("inf")
