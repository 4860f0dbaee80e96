"""Exports decoders with caches, and what eager PyTorch generates, for test_gpu_state_cases.py.

    python tests/make_state_cases.py FOLDER [CASE ...]

Needs no GPU; what it writes is carried to a machine with one. There is a case for every way of
writing a cache, layout and dtype, with positions that may be any and with those that count up. It
is a folder: program.pte.xz, and answers.pt (see state_cases.py).
"""

from __future__ import annotations

import copy
import functools
import itertools
import lzma
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from cache_models import LAYOUTS, WRITES, CachedDecoder
from state_cases import Generation, Step
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile

ROWS, GENERATED, LONGEST = 80, 64, 32
LENGTHS = (1, 7, ROWS - GENERATED + 1)  # of prompts; the last generates up to the last row
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ANY, CONTIGUOUS = "any", "contiguous"
# Of the positions these take only the first.
FROM_FIRST = ("item_slice", "slice_scatter")
CASES = [
    "-".join(parts)
    for parts in itertools.product(WRITES, LAYOUTS, DTYPES, (ANY, CONTIGUOUS))
    # Positions in two dims at once are no rows of one.
    if parts[0] != "index_put" or parts[3] == ANY
]
# Its generations are varied, and their margins wide.
SEED, SHARPER, DISTINCT = 4, 1.5, 6
# By how much of the greatest absolute logit the best of each step is above the second. The error of
# TF32 is much below it, so that tokens are eager's on a GPU that computes float32 with it.
MARGIN = 0.05


def decoder(
    write: str, layout: str, dtype: torch.dtype = torch.float32, batch: int = 1
) -> CachedDecoder:
    """The same weights whatever the write and the layout are; caches that begin with values."""
    torch.manual_seed(SEED)
    model = CachedDecoder(WRITES[write], layout, batch=batch, rows=ROWS).eval()
    with torch.no_grad():
        model.qkv[0].weight.mul_(SHARPER)
        for buffer in model.buffers():
            buffer.normal_()
    return model.to(dtype)


@torch.no_grad()
def generate(model: CachedDecoder, prompts: torch.Tensor) -> torch.Tensor:
    """Greedily from prompts [batch, S]: the logits of each token, [batch, 64, vocabulary]."""
    logits = []
    tokens, positions = prompts, torch.arange(prompts.shape[1])
    for _ in range(GENERATED):
        logits.append(model(tokens, positions)[:, -1])
        tokens, positions = logits[-1].argmax(-1, keepdim=True), positions[-1:] + 1
    return torch.stack(logits, dim=1)


@functools.cache
def prompt_of(length: int) -> torch.Tensor:
    """The prompt [1, length] of many whose greedy choices are clearest, of those that vary."""
    vocabulary = CachedDecoder.VOCABULARY
    if length == 1:
        prompts = torch.arange(vocabulary).unsqueeze(1)
    else:
        prompts = torch.randint(
            0, vocabulary, (256, length), generator=torch.Generator().manual_seed(SEED)
        )
    logits = generate(decoder("index_copy", "BHTD", batch=len(prompts)), prompts)
    best, second = logits.topk(2).values.unbind(-1)
    margins = (best - second).amin(1) / logits.abs().amax((1, 2))
    varied = torch.tensor([len(row.unique()) >= DISTINCT for row in logits.argmax(-1)])
    margins[~varied] = 0
    assert margins.max() >= MARGIN, f"no prompt of {length} has clear choices: {margins.max()}"
    return prompts[margins.argmax()].unsqueeze(0)


def generation(model: CachedDecoder, prompt: torch.Tensor) -> Generation:
    [logits] = generate(model, prompt)
    return Generation(prompt, logits.argmax(-1), logits, dict(model.named_buffers()))


@torch.no_grad()
def scattered(model: CachedDecoder) -> tuple[list[Step], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(SEED)
    steps = []
    for positions in ([0, 2, 4], [5], [9, 1, 8, 3], [ROWS - 1], [2, 40, ROWS - 2, 41]):
        tokens = torch.randint(
            0, CachedDecoder.VOCABULARY, (1, len(positions)), generator=generator
        )
        steps.append((tokens, torch.tensor(positions), model(tokens, torch.tensor(positions))[0]))
    return steps, dict(model.named_buffers())


def export(model: CachedDecoder, contiguous: bool) -> bytes:
    length = Dim("length", min=1, max=LONGEST)
    program = ett.export(
        copy.deepcopy(model),
        (torch.zeros(1, 16, dtype=torch.long), torch.arange(16)),
        dynamic_shapes={"tokens": {1: length}, "positions": {0: length}},
        profiles=[
            OptimizationProfile(name, {"tokens": (1, lengths), "positions": (lengths,)})
            for name, lengths in (("decode", 1), ("prefill", (2, 16, LONGEST)))
        ],
        options=CompileOptions(cpu_fallback=True, contiguous_positions=contiguous),
    )
    return bytes(program.buffer)


def make(name: str, folder: Path) -> None:
    write, layout, dtype, positions = name.split("-")
    model = decoder(write, layout, DTYPES[dtype])
    answers = {
        "generations": [
            asdict(generation(copy.deepcopy(model), prompt_of(length))) for length in LENGTHS
        ],
        "scattered": None if write in FROM_FIRST else scattered(copy.deepcopy(model)),
        "contiguous": positions == CONTIGUOUS,
        "initial": dict(model.named_buffers()),
        "rows": ROWS,
    }
    folder.mkdir(parents=True, exist_ok=True)
    program = export(model, positions == CONTIGUOUS)
    (folder / "program.pte.xz").write_bytes(lzma.compress(program))
    torch.save(answers, folder / "answers.pt")


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or CASES
    for name in names:
        make(name, folder / name)
        size = sum(path.stat().st_size for path in (folder / name).iterdir())
        print(f"{name}: {size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
