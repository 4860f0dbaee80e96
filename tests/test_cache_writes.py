"""Caches written in every way that models write them: delegates' states equal eager PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from cache_models import LAYOUTS, ROWS, WRITES, CachedDecoder, assignment, from_start, index_copy
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from models import seeded
from sessions import OutOfBounds, Session
from torch import nn
from torch.export import Dim

from executorch_tensorrt import CompileOptions, OptimizationProfile, TensorRTPartitioner
from executorch_tensorrt.backend.delegate_blob import DelegateBlob, StateMode

LONGEST = 8
DECODE_AND_PREFILL = (
    OptimizationProfile("decode", {"tokens": (1, 1), "positions": (1,)}),
    OptimizationProfile(
        "prefill", {"tokens": (1, (2, 4, LONGEST)), "positions": ((2, 4, LONGEST),)}
    ),
)
LENGTH = Dim("length", min=1, max=LONGEST)
FROM_END = ("assignment", "index_put")  # eager PyTorch counts negative positions from the end
each_write = pytest.mark.parametrize("write", WRITES)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def lower(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic: Any = None,
    profiles: Any = (),
    **options: Any,
) -> Session:
    partitioner = TensorRTPartitioner(
        profiles, options=CompileOptions(cpu_fallback=True, **options)
    )
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(model), inputs, dynamic_shapes=dynamic)
        edge = to_edge_transform_and_lower(
            program,
            partitioner=[partitioner],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    return Session(edge.exported_program())


def lower_decoder(model: nn.Module, **options: Any) -> Session:
    inputs = (torch.zeros(1, 4, dtype=torch.int64), torch.arange(4))
    dynamic = {"tokens": {1: LENGTH}, "positions": {0: LENGTH}}
    return lower(model, inputs, dynamic, DECODE_AND_PREFILL, **options)


def decoder(write: str, layout: str) -> nn.Module:
    return seeded(CachedDecoder, WRITES[write], layout)


def only_blob(session: Session) -> DelegateBlob:
    [blob] = session.blobs
    return blob


@torch.no_grad()
def assert_generates_as_eager(model: nn.Module, session: Session, prefill: int) -> None:
    """A prefill, then steps up to the last row; logits in each, the whole cache after the last."""
    session.reset()
    eager, at = copy.deepcopy(model), 0
    for length in [prefill] + [1] * (ROWS - prefill):
        tokens = torch.randint(0, CachedDecoder.VOCABULARY, (1, length))
        positions = torch.arange(at, at + length)
        at += length
        [logits] = session(tokens, positions)
        torch.testing.assert_close(logits, eager(tokens, positions), rtol=1e-5, atol=1e-5)
    for name, value in session.states.items():
        torch.testing.assert_close(value, eager.get_buffer(name), rtol=1e-5, atol=1e-5)


@each_layout
@each_write
def test_a_cache_written_in_any_way_is_a_state_and_generates_as_eager(
    write: str, layout: str
) -> None:
    model = decoder(write, layout)
    session = lower_decoder(model)
    blob = only_blob(session)
    assert [state.name for state in blob.states] == ["key_0", "value_0"]
    for prefill in (1, 3, LONGEST):
        assert_generates_as_eager(model, session, prefill)


@each_layout
@each_write
def test_a_cache_is_written_in_place_where_positions_are_said_to_count_up(
    write: str, layout: str
) -> None:
    if write == "index_put":
        pytest.skip("positions in two dims at once are no rows of one")
    model = decoder(write, layout)
    session = lower_decoder(model, contiguous_positions=True)
    blob = only_blob(session)
    assert {state.mode for state in blob.states} == {StateMode.ALIAS}
    assert blob.guard is None
    assert_generates_as_eager(model, session, 3)
    [check] = blob.index_checks
    assert (check.least, check.greatest, check.contiguous) == (0, ROWS - 1, True)
    for positions in ([0, 2], [1, 0], [-2, -1], [ROWS - 1, ROWS]):
        with pytest.raises(OutOfBounds):
            session(torch.zeros(1, 2, dtype=torch.int64), torch.tensor(positions))


@torch.no_grad()
@each_layout
@pytest.mark.parametrize("write", ["index_copy", "assignment", "index_put", "scatter"])
def test_positions_in_any_order_are_written_where_they_say(write: str, layout: str) -> None:
    model = decoder(write, layout)
    session, eager = lower_decoder(model), copy.deepcopy(model)
    calls = [[0, 2, 4], [5], [9, 1, 8, 3], [ROWS - 1]]
    if write in FROM_END:
        calls.append([-1, -ROWS, 4])
    for positions in map(torch.tensor, calls):
        tokens = torch.randint(0, CachedDecoder.VOCABULARY, (1, len(positions)))
        [logits] = session(tokens, positions)
        torch.testing.assert_close(logits, eager(tokens, positions))


@torch.no_grad()
@each_layout
@each_write
def test_a_write_past_the_end_is_refused_and_writes_nothing(write: str, layout: str) -> None:
    session = lower_decoder(decoder(write, layout))
    session(torch.ones(1, 3, dtype=torch.int64), torch.arange(3))
    before = {name: value.clone() for name, value in session.states.items()}
    refused = [[ROWS - 1, ROWS], [ROWS], [-ROWS - 1]]
    if write not in FROM_END:
        refused.append([-1])
    for positions in refused:
        with pytest.raises(OutOfBounds):
            session(torch.zeros(1, len(positions), dtype=torch.int64), torch.tensor(positions))
    assert session.states.keys() == before.keys()
    for name, value in session.states.items():
        assert torch.equal(value, before[name])


class Started(nn.Module):
    """Rows [1, S, 4] and the position [1] of the first to what is in a cache [1, 16, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.randn(1, ROWS, 4))

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        from_start(self.cache, 1, start, x)
        return self.cache * 2


@torch.no_grad()
def test_rows_from_a_start_are_written_in_place_unasked() -> None:
    model = seeded(Started)
    profiles = (OptimizationProfile("p", {"x": (1, (1, 4, 8), 4)}),)
    inputs = (torch.randn(1, 4, 4), torch.tensor([0]))
    session = lower(model, inputs, {"x": {1: LENGTH}, "start": None}, profiles)
    blob = only_blob(session)
    assert [state.mode for state in blob.states] == [StateMode.ALIAS]
    [check] = blob.index_checks
    assert (check.least, check.greatest, check.extent) == (0, ROWS - 1, (0, 1))
    eager = copy.deepcopy(model)
    for start, rows in ((0, 8), (8, 1), (13, 3), (2, 5)):
        x = torch.randn(1, rows, 4)
        torch.testing.assert_close(
            session(x, torch.tensor([start])), [eager(x, torch.tensor([start]))]
        )
    for start in (-1, 14, ROWS):
        with pytest.raises(OutOfBounds):
            session(torch.randn(1, 3, 4), torch.tensor([start]))


@torch.no_grad()
def test_a_single_row_is_written_in_place_unasked_and_may_count_from_the_end() -> None:
    model = seeded(CachedDecoder, assignment, "BTHD")
    inputs = (torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]))
    session, eager = lower(model, inputs), copy.deepcopy(model)
    assert {state.mode for state in only_blob(session).states} == {StateMode.ALIAS}
    for position in (0, 1, 7, ROWS - 1, -1, -ROWS):
        tokens = torch.randint(0, CachedDecoder.VOCABULARY, (1, 1))
        positions = torch.tensor([position])
        torch.testing.assert_close(session(tokens, positions), [eager(tokens, positions)])
    for position in (ROWS, -ROWS - 1):
        with pytest.raises(OutOfBounds):
            session(inputs[0], torch.tensor([position]))


def test_a_single_row_of_index_copy_does_not_count_from_the_end() -> None:
    inputs = (torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]))
    session = lower(seeded(CachedDecoder, index_copy, "BTHD"), inputs)
    assert {state.mode for state in only_blob(session).states} == {StateMode.ALIAS}
    session(inputs[0], torch.tensor([ROWS - 1]))
    with pytest.raises(OutOfBounds):
        session(inputs[0], torch.tensor([-1]))


class Counted(nn.Module):
    """Rows [2, 4] behind those of the calls before, by a counter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(7, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, torch.arange(2) + self.count, x)
        self.count.add_(2)
        return self.cache + 1


@torch.no_grad()
def test_positions_that_a_state_counts_are_guarded_by_the_engine() -> None:
    model = seeded(Counted)
    session, eager = lower(model, (torch.randn(2, 4),)), copy.deepcopy(model)
    blob = only_blob(session)
    assert blob.guard is not None
    assert {state.mode for state in blob.states} == {StateMode.PING_PONG}
    for _ in range(3):
        x = torch.randn(2, 4)
        torch.testing.assert_close(session(x), [eager(x)])
    with pytest.raises(OutOfBounds):
        session(torch.randn(2, 4))
    assert session.states["count"].item() == 6
    assert torch.equal(session.states["cache"], eager.cache)


class Ring(nn.Module):
    """The last 7 rows of all that were given, each at its position's remainder."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(7, 4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.ring[position % 7] = x
        return self.ring + 1


@torch.no_grad()
def test_a_ring_buffer_s_positions_need_no_check() -> None:
    model = seeded(Ring)
    session = lower(model, (torch.randn(2, 4), torch.arange(2)))
    eager, blob = copy.deepcopy(model), only_blob(session)
    assert (blob.guard, blob.index_checks) == (None, ())
    for first in range(0, 20, 2):
        x, position = torch.randn(2, 4), torch.arange(first, first + 2)
        torch.testing.assert_close(session(x, position), [eager(x, position)])
