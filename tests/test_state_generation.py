"""Decoders whose cache is the delegate's state generate what eager PyTorch generates."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from cache_models import LAYOUTS, WRITES, CachedDecoder
from programs import exported, forward
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile
from executorch_tensorrt.runtime import InvalidArgument

ROWS, GENERATED, VOCABULARY = 80, 64, CachedDecoder.VOCABULARY
# Those whose positions are data; positions by .item() are shapes.
BY_POSITION = ("index_copy", "assignment", "scatter")


def decoder(write: str, layout: str, dtype: torch.dtype) -> CachedDecoder:
    torch.manual_seed(3)
    return CachedDecoder(WRITES[write], layout, rows=ROWS).to(dtype).eval()


def program(model: CachedDecoder) -> ett.Method:
    length = Dim("length", min=1, max=32)
    decode, prefill = (
        OptimizationProfile(name, {"tokens": (1, lengths), "positions": (lengths,)})
        for name, lengths in (("decode", 1), ("prefill", (2, 16, 32)))
    )
    inputs = (torch.zeros(1, 16, dtype=torch.long), torch.arange(16))
    dynamic = {"tokens": {1: length}, "positions": {0: length}}
    return forward(exported(copy.deepcopy(model), inputs, dynamic, (decode, prefill)))


def generate(step: Callable[..., torch.Tensor], prompt: torch.Tensor) -> list[int]:
    """Greedily, from the prompt on."""
    logits = step(prompt, torch.arange(prompt.shape[1]))
    tokens = [int(logits[0, -1].argmax())]
    for position in range(prompt.shape[1], prompt.shape[1] + GENERATED - 1):
        logits = step(torch.tensor([tokens[-1:]]), torch.tensor([position]))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("write", BY_POSITION)
class TestGeneration:
    def test_gives_the_tokens_of_eager_after_prompts_of_several_lengths(
        self, write: str, layout: str
    ) -> None:
        model = decoder(write, layout, torch.float32)
        method = program(model)
        assert sorted(method.state.names) == ["key_0", "value_0"]
        for length in (1, 7, ROWS - GENERATED + 1):  # the last writes the cache's last row
            prompt = torch.randint(0, VOCABULARY, (1, length))
            method.state.reset()
            with torch.no_grad():
                expected = generate(copy.deepcopy(model), prompt)
            assert generate(lambda *inputs: method(*inputs)[0], prompt) == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_logits_are_those_of_eager_within_the_dtype(dtype: torch.dtype) -> None:
    model = decoder("index_copy", "BHTD", dtype)
    method = program(model)
    for start, length in ((0, 9), (9, 1), (10, 1), (ROWS - 1, 1)):
        tokens = torch.randint(0, VOCABULARY, (1, length))
        positions = torch.arange(start, start + length)
        with torch.no_grad():
            expected = model(tokens, positions)
        torch.testing.assert_close(method(tokens, positions)[0], expected, atol=2e-2, rtol=2e-2)


def test_a_position_past_the_end_is_refused_and_generation_goes_on() -> None:
    model = decoder("index_copy", "BHTD", torch.float32)
    method = program(model)
    token = torch.zeros(1, 1, dtype=torch.long)
    with torch.no_grad():
        model(token, torch.tensor([0]))
    method(token, torch.tensor([0]))
    for position in (ROWS, -ROWS - 1, 2**40):
        with pytest.raises(InvalidArgument, match=f"(?s)positions.*{position}"):
            method(token, torch.tensor([position]))
    with torch.no_grad():
        expected = model(token, torch.tensor([1]))
    torch.testing.assert_close(method(token, torch.tensor([1]))[0], expected)


def test_positions_in_any_order_are_written_where_they_say() -> None:
    model = decoder("index_copy", "BHTD", torch.float32)
    method = program(model)
    tokens, positions = torch.tensor([[3, 1, 4, 1]]), torch.tensor([7, 2, 9, 0])
    with torch.no_grad():
        expected = model(tokens, positions)
    torch.testing.assert_close(method(tokens, positions)[0], expected)
    torch.testing.assert_close(torch.from_numpy(method.state.read("key_0").copy()), model.key_0)


def test_two_sessions_generate_in_turns() -> None:
    model = decoder("index_copy", "BHTD", torch.float32)
    method = program(model)
    models = [copy.deepcopy(model), copy.deepcopy(model)]
    states = [method.state, method.new_state()]
    with torch.no_grad():
        for position in range(24):
            for eager, state in zip(models, states, strict=True):
                token = torch.randint(0, VOCABULARY, (1, 1))
                inputs = (token, torch.tensor([position]))
                torch.testing.assert_close(method(*inputs, state=state)[0], eager(*inputs))
