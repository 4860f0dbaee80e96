"""Decoders with caches that make_state_cases.py exported, against what eager PyTorch generates."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import executorch_tensorrt as ett
from executorch_tensorrt.runtime import InvalidArgument, StateSet

HALF = {torch.float16: 2e-2, torch.bfloat16: 5e-2}
# On compute capability 9.0 TensorRT-RTX computes float32 products in TF32 whatever it is told.
FLOAT32 = {"cpu": 1e-5, "cuda": 1e-2}
# By the runtime before the call, or by the engine's guard.
REFUSED = "nothing was written|would have written outside .* it is as it was before"

Tensors = dict[str, torch.Tensor]
# Tokens [1, S], their positions [S], logits [S, vocabulary].
Step = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Generation:
    """A prompt [1, S]; the greedy tokens [64] after it; the logits [64, vocabulary] that gave them.

    Attributes:
        caches: After the last call.
    """

    prompt: torch.Tensor
    tokens: torch.Tensor
    logits: torch.Tensor
    caches: Tensors


@dataclass(frozen=True)
class StateCase:
    """A loaded program; where its inputs lie; what eager answers.

    Attributes:
        place: Where the inputs are put, a device of PyTorch's.
        scattered: Calls with positions in any order, and the caches after the last; None where the
            write knows only a first position.
        contiguous: Whether positions that do not count up are refused.
        initial: The caches of a new session.
        rows: Of the caches.
    """

    method: ett.Method
    place: str
    generations: list[Generation]
    scattered: tuple[list[Step], Tensors] | None
    contiguous: bool
    initial: Tensors
    rows: int

    def call(self, tokens: torch.Tensor, positions: torch.Tensor, **options: Any) -> torch.Tensor:
        """Logits [S, vocabulary] on the host."""
        given = (value.to(self.place) for value in (tokens, positions))
        [logits] = self.method(*given, **options)
        return torch.as_tensor(logits).cpu()[0]

    def caches(self, state: StateSet | None = None) -> Tensors:
        state = state or self.method.state
        return {name: torch.from_dlpack(state.read(name)) for name in state.names}

    def assert_close(self, value: torch.Tensor, expected: torch.Tensor) -> None:
        device = self.method.stats()[0]["device"].split(":")[0]
        tolerance = HALF.get(expected.dtype, FLOAT32[device])
        torch.testing.assert_close(value, expected, atol=tolerance, rtol=tolerance)

    def assert_caches(self, expected: Tensors, state: StateSet | None = None) -> None:
        caches = self.caches(state)
        assert caches.keys() == expected.keys()
        for name, value in caches.items():
            self.assert_close(value, expected[name])


def load(folder: Path, device: str) -> StateCase:
    program = lzma.decompress((folder / "program.pte.xz").read_bytes())
    answers = torch.load(folder / "answers.pt")
    answers["generations"] = [Generation(**each) for each in answers["generations"]]
    return StateCase(ett.load(program, device=device)["forward"], device, **answers)


def generate(case: StateCase, generation: Generation, **options: Any) -> Iterator[None]:
    """One step a turn.

    In float32 the tokens are the method's own and must be eager's. In half precision, where the
    best may be another, they are eager's, and the logits are compared.
    """
    tokens, positions = generation.prompt, torch.arange(generation.prompt.shape[1])
    for token, expected in zip(generation.tokens, generation.logits, strict=True):
        logits = case.call(tokens, positions, **options)[-1]
        case.assert_close(logits, expected)
        if logits.dtype == torch.float32:
            assert logits.argmax() == token
        tokens, positions = token.view(1, 1), positions[-1:] + 1
        yield


def generates_what_eager_does(case: StateCase) -> None:
    for generation in case.generations:
        case.method.state.reset()
        for _ in generate(case, generation):
            pass
        case.assert_caches(generation.caches)


def refuses_positions_past_the_end(case: StateCase) -> None:
    """In the midst of a generation, which goes on as if nothing had been."""
    case.method.state.reset()
    for number, _ in enumerate(generate(case, case.generations[1])):
        if number not in (0, 20):
            continue
        before = case.caches()
        rows = case.rows
        for positions in ([rows], [rows - 1, rows], [-rows - 1], [2**40]):
            with pytest.raises(InvalidArgument, match=REFUSED):
                case.call(
                    torch.zeros(1, len(positions), dtype=torch.int64), torch.tensor(positions)
                )
        after = case.caches()
        assert all(torch.equal(after[name], before[name]) for name in before)
    case.assert_caches(case.generations[1].caches)


def takes_positions_in_any_order_or_refuses_them(case: StateCase) -> None:
    if case.scattered is None:
        pytest.skip("the write knows only a first position")
    case.method.state.reset()
    steps, caches = case.scattered
    for tokens, positions, expected in steps:
        if case.contiguous and bool((positions.diff() != 1).any()):
            before = case.caches()
            with pytest.raises(InvalidArgument, match=REFUSED):
                case.call(tokens, positions)
            after = case.caches()
            assert all(torch.equal(after[name], before[name]) for name in before)
        elif not case.contiguous:
            case.assert_close(case.call(tokens, positions), expected)
    if not case.contiguous:
        case.assert_caches(caches)


def keeps_sessions_apart(case: StateCase) -> None:
    """Generations of all prompts in turns, each in a session of its own."""
    case.method.state.reset()
    states = [case.method.state, *(case.method.new_state() for _ in case.generations[1:])]
    turns = [
        generate(case, generation, state=state)
        for generation, state in zip(case.generations, states, strict=True)
    ]
    for _ in zip(*turns, strict=True):
        pass
    for generation, state in zip(case.generations, states, strict=True):
        case.assert_caches(generation.caches, state)


def resets_to_what_a_new_session_has(case: StateCase) -> None:
    for _ in generate(case, case.generations[0], state=case.method.new_state()):
        pass
    case.method.state.reset()
    for state in (case.method.state, case.method.new_state()):
        caches = case.caches(state)
        assert caches.keys() == case.initial.keys()
        assert all(torch.equal(caches[name], case.initial[name]) for name in caches)
