"""Decoders whose cache is the delegate's state generate what eager PyTorch generates.

Through the CPU fallback; test_gpu_state_cases.py checks the same on a GPU.
"""

from __future__ import annotations

import make_state_cases
import pytest
import state_cases
from state_cases import StateCase

# Every write, layout and dtype; positions that count up differ in the engine, not in the fallback.
NAMES = [
    *(name for name in make_state_cases.CASES if name.endswith(make_state_cases.ANY)),
    "index_copy-BHTD-fp32-contiguous",
    "slice_scatter-BTHD-bf16-contiguous",
]


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StateCase:
    folder = tmp_path_factory.mktemp("case")
    make_state_cases.make(request.param, folder)
    case = state_cases.load(folder, "cpu")
    assert sorted(case.method.state.names) == ["key_0", "value_0"]
    return case


def test_it_generates_what_eager_does_after_prompts_of_several_lengths(case: StateCase) -> None:
    state_cases.generates_what_eager_does(case)


def test_positions_past_the_end_are_refused_and_generation_goes_on(case: StateCase) -> None:
    state_cases.refuses_positions_past_the_end(case)


def test_positions_in_any_order_are_written_where_they_say_or_refused(case: StateCase) -> None:
    state_cases.takes_positions_in_any_order_or_refuses_them(case)


def test_sessions_in_turns_are_independent(case: StateCase) -> None:
    state_cases.keeps_sessions_apart(case)


def test_a_reset_state_is_as_new(case: StateCase) -> None:
    state_cases.resets_to_what_a_new_session_has(case)
