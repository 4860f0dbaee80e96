"""Every way of writing a cache, in every layout and dtype, on the GPU against eager PyTorch.

The programs are exported elsewhere by make_state_cases.py, whose folder
EXECUTORCH_TENSORRT_STATE_CASES names.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import state_cases
from state_cases import StateCase

FOLDER = os.environ.get("EXECUTORCH_TENSORRT_STATE_CASES")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOLDER is None, reason="EXECUTORCH_TENSORRT_STATE_CASES names no folder"),
]
NAMES = sorted(path.name for path in Path(FOLDER).iterdir()) if FOLDER else []


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> StateCase:
    return state_cases.load(Path(FOLDER or "") / request.param, "cuda:0")


def test_it_generates_what_eager_does(case: StateCase) -> None:
    [before] = case.method.stats()
    state_cases.generates_what_eager_does(case)
    [after] = case.method.stats()
    assert after["device"] == "cuda:0"
    assert after["graph_replays"] > before["graph_replays"]


def test_it_generates_what_eager_does_from_inputs_in_host_memory(case: StateCase) -> None:
    state_cases.generates_what_eager_does(replace(case, place="cpu"))


def test_no_byte_of_the_cache_crosses_to_the_host(case: StateCase) -> None:
    method, generation = case.method, case.generations[1]
    method.state.reset()
    before = method.stats()[0]["bytes_staged"]
    for _ in state_cases.generate(case, generation):
        pass
    assert method.stats()[0]["bytes_staged"] == before


@pytest.mark.parametrize("place", ["cuda:0", "cpu"])
def test_positions_past_the_end_are_refused_and_nothing_is_written(
    case: StateCase, place: str
) -> None:
    state_cases.refuses_positions_past_the_end(replace(case, place=place))


def test_positions_in_any_order_are_written_where_they_say_or_refused(case: StateCase) -> None:
    state_cases.takes_positions_in_any_order_or_refuses_them(case)


def test_sessions_in_turns_are_independent(case: StateCase) -> None:
    state_cases.keeps_sessions_apart(case)


def test_a_reset_state_is_as_new(case: StateCase) -> None:
    state_cases.resets_to_what_a_new_session_has(case)
