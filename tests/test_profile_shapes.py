"""Every shape that a profile allows is in its range in each delegate, through any graph."""

from __future__ import annotations

import pytest
import torch
from models import blobs, seeded
from shape_models import CASES, Case, exported

from executorch_tensorrt import CompileOptions, load


def check_answers(case: Case, program: bytes, device: str, tolerance: float) -> None:
    model = seeded(case.model)
    forward = load(program, device=device)["forward"]
    for profile, sizes in case.sizes.items():
        for size in sizes:
            args, kwargs = case.inputs(*size)
            inputs = torch.utils._pytree.tree_leaves((args, dict(kwargs)))
            [answer] = forward(*inputs, profile=profile)
            right = model(*args, **kwargs)
            torch.testing.assert_close(answer.cpu(), right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_every_delegate_takes_what_its_profile_says(name: str) -> None:
    case = CASES[name]
    program = exported(case, CompileOptions(cpu_fallback=True))
    found = blobs(program)
    assert len(found) >= 2
    assert all([p.name for p in blob.profiles] == list(case.profiles) for blob in found)
    check_answers(case, program.buffer, "cpu", 1e-4)


@pytest.mark.parametrize(
    ("name", "profile", "low", "high"),
    [
        ("strided", "many", 16, 96),
        ("joined", "long", 3, 18),
        ("nested", "many", 4, 16),
        ("padded", "many", 8, 12),
        ("folded", "many", 2, 24),
    ],
)
def test_a_derived_size_has_the_range_of_its_values(
    name: str, profile: str, low: int, high: int
) -> None:
    case = CASES[name]
    last = blobs(exported(case, CompileOptions()))[-1]
    [ranges] = [item.inputs for item in last.profiles if item.name == profile]
    assert (low, high) in {
        bounds for item in ranges for bounds in zip(item.min, item.max, strict=True)
    }
