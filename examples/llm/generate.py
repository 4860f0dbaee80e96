"""Exports a small decoder whose KV cache stays in the delegate, and generates with it.

python generate.py [--program decoder.pte] [--tokens 64] [--prompt 100] [--device cpu|cuda]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from model import Config, Decoder
from torch import nn

import executorch_tensorrt as ett

LONGEST_PROMPT = 256
TOLERANCE = 1e-2  # of logits; float32 products are computed in TF32 on a GPU that has it
Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def make_model(config: Config) -> Decoder:
    torch.manual_seed(0)
    return Decoder(config).eval()


def export(model: nn.Module, path: Path, *caches: torch.Tensor, cpu_fallback: bool = True) -> None:
    """A program with one method of two profiles, for tokens, their positions and maybe caches."""
    program = ett.export(
        model,
        (torch.zeros(1, 8, dtype=torch.int64), torch.arange(8), *caches),
        profiles=[
            ett.OptimizationProfile(name, {"tokens": (1, sizes), "positions": (sizes,)})
            for name, sizes in (("decode", 1), ("prefill", (2, 128, LONGEST_PROMPT)))
        ],
        # Positions always count up here, so TensorRT writes the cache in place.
        options=ett.CompileOptions(cpu_fallback=cpu_fallback, contiguous_positions=True),
    )
    program.save(str(path))


def generate(step: Step, prompt: torch.Tensor, count: int) -> tuple[list[int], float, float]:
    """Greedy tokens after a prompt [1, S], and the seconds of prefill and of the decode steps."""
    position = prompt.shape[1]
    started = time.perf_counter()
    token = step(prompt, torch.arange(position)).argmax(-1)
    tokens = [int(token)]
    prefilled = time.perf_counter()
    for _ in range(count - 1):
        token = step(token.view(1, 1), torch.tensor([position])).argmax(-1)
        position += 1
        tokens.append(int(token))
    return tokens, prefilled - started, time.perf_counter() - prefilled


def shortfall(model: Decoder, prompt: torch.Tensor, tokens: list[int]) -> float:
    """By how much eager PyTorch's logit of a token is below its best, at most; 0: it is its own."""
    worst = 0.0
    step_inputs = [(prompt, torch.arange(prompt.shape[1]))]
    for index, token in enumerate(tokens[:-1]):
        step_inputs.append((torch.tensor([[token]]), torch.tensor([prompt.shape[1] + index])))
    with torch.no_grad():
        for inputs, token in zip(step_inputs, tokens, strict=True):
            [logits] = model(*inputs)
            worst = max(worst, (logits.max() - logits[token]).item())
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=Path("decoder.pte"))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=100, help="tokens of the prompt")
    parser.add_argument("--device", help="cpu, cuda, cuda:N; default: a GPU where there is one")
    arguments = parser.parse_args()
    config = Config()
    if not 1 <= arguments.prompt <= LONGEST_PROMPT:
        parser.error(f"--prompt must be 1 to {LONGEST_PROMPT}, not {arguments.prompt}")
    if not 2 <= arguments.tokens <= config.rows - arguments.prompt + 1:
        most = config.rows - arguments.prompt + 1
        parser.error(f"--tokens must be 2 to {most} after that prompt, not {arguments.tokens}")
    model = make_model(config)
    if not arguments.program.exists():
        export(model, arguments.program)
    method = ett.load(arguments.program, device=arguments.device)["forward"]

    def step(tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return method(tokens, positions)[0]

    prompt = torch.randint(0, config.vocabulary, (1, arguments.prompt))
    generate(step, prompt, 2)  # what is done once
    method.state.reset()
    tokens, prefill, decode = generate(step, prompt, arguments.tokens)
    [stats] = method.stats()
    print(f"{stats['engine']} on {stats['device']}, {len(method.state.names)} states")
    print(f"prefill: {arguments.prompt} tokens, {arguments.prompt / prefill:.0f} tokens/s")
    print(f"decode:  {len(tokens)} tokens, {(len(tokens) - 1) / decode:.0f} tokens/s")
    worst = shortfall(model, prompt, tokens)
    if worst == 0:
        print("the same tokens as eager PyTorch")
    elif worst <= TOLERANCE:
        print(f"eager PyTorch's tokens, or as good: at most {worst:.0e} below its best logit")
    else:
        sys.exit(f"NOT eager PyTorch's tokens: up to {worst:.0e} below its best logit")


if __name__ == "__main__":
    main()
