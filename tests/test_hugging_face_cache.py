"""Hugging Face's StaticCache as docs/state.md wraps it: its tensors are states of the delegate."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from models import blobs
from snippets import BLOCK

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile
from executorch_tensorrt.backend.delegate_blob import StateMode
from executorch_tensorrt.runtime import InvalidArgument

PAGE = Path(__file__).parents[1] / "docs" / "state.md"
ROWS, GENERATED, VOCABULARY = 80, 64, 64


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    transformers = pytest.importorskip("transformers", minversion="5.24")
    names: dict[str, Any] = {}
    exec(BLOCK.search(PAGE.read_text())[1], names)  # type: ignore[index]
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=ROWS,
        initializer_range=0.5,  # varied tokens
    )
    wrapped: torch.nn.Module = names["WithStaticCache"](transformers.LlamaForCausalLM(config), ROWS)
    return wrapped.eval()


@pytest.fixture(scope="module")
def program(model: torch.nn.Module) -> Any:
    return ett.export(
        copy.deepcopy(model),
        (torch.zeros(1, 8, dtype=torch.int64), torch.tensor([0])),
        profiles=[
            OptimizationProfile("decode", {"tokens": (1, 1)}),
            OptimizationProfile("prefill", {"tokens": (1, (2, 16, 32))}),
        ],
        options=CompileOptions(cpu_fallback=True),
    )


@pytest.fixture
def method(program: Any) -> ett.Method:
    return ett.load(program.buffer, device="cpu")["forward"]


def generate(step: Any, prompt: torch.Tensor) -> list[int]:
    """Greedily, from the prompt on."""
    tokens, given, start = [], prompt, 0
    for _ in range(GENERATED):
        logits = step(given, torch.tensor([start]))
        start += given.shape[1]
        given = logits[:, -1:].argmax(-1)
        tokens.append(int(given))
    return tokens


def test_its_caches_are_written_in_place(program: Any) -> None:
    [blob] = blobs(program)
    assert {state.name: state.mode for state in blob.states} == dict.fromkeys(
        ("keys_0", "values_0", "keys_1", "values_1"), StateMode.ALIAS
    )


@torch.no_grad()
def test_it_generates_what_eager_does_after_prompts_of_several_lengths(
    model: torch.nn.Module, method: ett.Method
) -> None:
    for length in (1, 7, ROWS - GENERATED + 1):  # the last writes the cache's last row
        prompt = torch.randint(0, VOCABULARY, (1, length))
        method.state.reset()
        expected = generate(copy.deepcopy(model), prompt)
        assert len(set(expected)) > 10
        assert generate(lambda *inputs: method(*inputs)[0], prompt) == expected


def test_a_position_past_the_end_is_refused(method: ett.Method) -> None:
    for start in (ROWS - 1, -1):
        with pytest.raises(InvalidArgument, match=rf"start.* is {start} for 2 rows"):
            method(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([start]))
