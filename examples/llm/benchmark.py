"""A decoder whose KV cache is a state, beside the same one whose caller passes the cache.

python benchmark.py [--folder programs] [--layers 12] [--rows 1024] [--device cuda] [--json FILE]

Exports the two programs where the folder has none; that needs no GPU, and running them needs no
TensorRT package for Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from generate import LONGEST_PROMPT, Step, export, make_model
from model import Config, Decoder
from torch import nn

import executorch_tensorrt as ett

OWNED, PASSED = "state.pte", "passed.pte"
FORCED = 16  # steps whose logits are compared before anything is timed
TOLERANCE = 2e-2  # of logits in float16


class PassedCache(nn.Module):
    """Tokens, positions and the caches to logits and the new caches; nothing is kept."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder
        self.names = [n for n, _ in decoder.named_buffers() if n.endswith((".keys", ".values"))]

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, *caches: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        new = {name: cache.clone() for name, cache in zip(self.names, caches, strict=True)}
        logits = torch.func.functional_call(self.decoder, new, (tokens, positions))
        return logits, *new.values()


def export_both(config: Config, folder: Path, cpu_fallback: bool) -> None:
    model = make_model(config).half()
    for parameter in model.parameters():
        # Few different values: the programs pack well, and take as long.
        parameter.data.mul_(64).round_().div_(64)
    passing = PassedCache(model)
    caches = [model.get_buffer(name) for name in passing.names]
    folder.mkdir(parents=True, exist_ok=True)
    export(model, folder / OWNED, cpu_fallback=cpu_fallback)
    export(passing, folder / PASSED, *caches, cpu_fallback=cpu_fallback)


class Conversation:
    """A decoder as its user has it, in which positions begin anew."""

    def __init__(self, method: ett.Method, place: str, caches: list[torch.Tensor]) -> None:
        self.method, self.place = method, place
        self._zeros = [cache.to(place) for cache in caches]

    def begin(self) -> Step:
        self.method.state.reset()
        caches = self._zeros

        def step(tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            nonlocal caches
            logits, *caches = self.method(tokens, positions, *caches)
            return logits

        return step

    def staged(self) -> int:
        """Bytes that went between host and device so far."""
        return int(self.method.stats()[0]["bytes_staged"])


def conversations(folder: Path, device: str | None) -> dict[str, Conversation]:
    """By what is printed of them; the first is what the others are compared with."""
    owned, passed = (ett.load(folder / name, device=device)["forward"] for name in (OWNED, PASSED))
    states = [owned.state[name] for name in owned.state.names]
    caches = [torch.zeros(state.shape, dtype=getattr(torch, state.dtype)) for state in states]
    device = owned.stats()[0]["device"]
    found = {}
    for place in ["cpu"] if device == "cpu" else [device, "cpu"]:
        where = "in host memory" if place == "cpu" else "on the GPU"
        found[f"a state, tokens {where}"] = Conversation(owned, place, [])
        found[f"passed, all {where}"] = Conversation(passed, place, caches)
    return found


def forced(conversation: Conversation, tokens: torch.Tensor, prompt: int) -> torch.Tensor:
    """The logits [FORCED, vocabulary] of given tokens after a prompt."""
    step, logits = conversation.begin(), []
    tokens = tokens.to(conversation.place)
    positions = torch.arange(tokens.shape[1], device=conversation.place)
    logits.append(step(tokens[:, :prompt], positions[:prompt]))
    for at in range(prompt, prompt + FORCED - 1):
        logits.append(step(tokens[:, at : at + 1], positions[at : at + 1]))
    return torch.cat(logits).cpu()


def generate(conversation: Conversation, prompt: torch.Tensor, count: int) -> dict[str, float]:
    """Seconds of the prefill and of the decode steps, and bytes that each of these staged."""
    device = conversation.place
    prompt, positions = prompt.to(device), torch.arange(prompt.shape[1], device=device)
    position = torch.tensor([prompt.shape[1]], device=device)
    wait: Callable[[], Any] = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    step = conversation.begin()
    wait()
    started = time.perf_counter()
    logits = step(prompt, positions)
    wait()
    prefilled, staged = time.perf_counter(), conversation.staged()
    for _ in range(count - 1):
        logits = step(logits.argmax(-1, keepdim=True), position)
        position += 1
    wait()
    return {
        "prefill": prefilled - started,
        "decode": (time.perf_counter() - prefilled) / (count - 1),
        "staged": (conversation.staged() - staged) / (count - 1),
    }


def rows_of(took: dict[str, list[dict[str, float]]], prompt: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for cache, rounds in took.items():
        prefill, decode, staged = (
            statistics.median(seconds[phase] for seconds in rounds)
            for phase in ("prefill", "decode", "staged")
        )
        rows.append(
            {
                "cache": cache,
                "prefill_tokens_per_s": round(prompt / prefill),
                "decode_tokens_per_s": round(1 / decode),
                "decode_us": round(decode * 1e6, 1),
                "staged_bytes_a_step": round(staged),
            }
        )
    for row in rows:
        row["decode_ratio"] = round(row["decode_us"] / rows[0]["decode_us"], 3)
    return rows


def count_of(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("programs"))
    parser.add_argument("--layers", type=count_of, default=12, help="of programs to export")
    parser.add_argument("--rows", type=count_of, default=1024, help="of the caches to export")
    parser.add_argument("--no-fallback", action="store_true", help="export for a GPU only")
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("--prompt", type=count_of, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=count_of, default=256, help="tokens to generate")
    parser.add_argument("--rounds", type=count_of, default=7)
    parser.add_argument("--device", help="cpu, cuda, cuda:N; default: a GPU where there is one")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder, prompt, tokens = arguments.folder, arguments.prompt, arguments.tokens
    if not all((folder / name).exists() for name in (OWNED, PASSED)):
        config = Config(layers=arguments.layers, kv_heads=8, rows=arguments.rows)
        export_both(config, folder, not arguments.no_fallback)
    if arguments.export_only:
        return
    found = conversations(folder, arguments.device)
    first = next(iter(found.values()))
    [rows] = {first.method.state[name].shape[2] for name in first.method.state.names}
    if prompt > LONGEST_PROMPT:
        parser.error(f"--prompt must be 1 to {LONGEST_PROMPT}, not {prompt}")
    if tokens < 2:
        parser.error(f"--tokens must be 2 or more, not {tokens}")
    if prompt + max(tokens - 1, FORCED) > rows:
        parser.error(f"{prompt} + {max(tokens, FORCED)} tokens are more than {rows} rows hold")

    given = torch.randint(0, Config.vocabulary, (1, prompt + FORCED))
    expected = forced(first, given, prompt)
    for name, conversation in found.items():
        error = (forced(conversation, given, prompt) - expected).abs().max().item()
        if not error <= TOLERANCE * max(1.0, expected.abs().max().item()):
            sys.exit(f"the logits with the cache {name} are {error:.1e} off those of a state")

    took: dict[str, list[dict[str, float]]] = {name: [] for name in found}
    for index in range(arguments.rounds + 2):
        for name, conversation in found.items():
            seconds = generate(conversation, given[:, :prompt], tokens)
            if index > 1:  # the first compile kernels and capture graphs
                took[name].append(seconds)
    table = rows_of(took, prompt)
    for row in table:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
