"""Semantic search with all-MiniLM-L6-v2, exported once with two optimization profiles.

Run it with `make demo`, or `python examples/minilm/demo.py` where the package is installed with
its extras `rtx` (or `tensorrt`) and `demo`. Uses the GPU where there is one, else the CPU fallback
that the exported program carries.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from model import SentenceEncoder, load_model
from torch import Tensor

import executorch_tensorrt as ett

PASSAGES = [
    "The Danube rises in the Black Forest and reaches the Black Sea after 2,850 kilometres.",
    "Photosynthesis turns carbon dioxide and water into sugar, driven by sunlight.",
    "A suspension bridge hangs its deck from cables that run over two towers.",
    "Sourdough bread is leavened by wild yeast and lactic acid bacteria instead of baker's yeast.",
    "In 1969, Apollo 11 landed the first two people on the Moon.",
    "An octopus has three hearts; two pump blood through the gills, one through the body.",
    "Compound interest is interest paid on the principal and on the interest it has earned.",
    "Glaciers carve U-shaped valleys as they grind their way downhill.",
]
QUERIES = [
    "How do plants make their food?",
    "who first walked on the moon",
    "bread without yeast from the shop",
    "Which animal has more than one heart?",
]
PROFILES = [
    # One short question, answered at once; the first that fits wins where both do.
    ett.OptimizationProfile(
        "query",
        {"input_ids": [1, (1, 16, 32)], "attention_mask": [1, (1, 16, 32)]},
    ),
    # Documents, indexed in batches.
    ett.OptimizationProfile(
        "passage",
        {
            "input_ids": [(1, 8, 16), (1, 64, 256)],
            "attention_mask": [(1, 8, 16), (1, 64, 256)],
        },
    ),
]
# torch tells of its own deprecations while transformers is imported.
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
LARGEST_DIFFERENCE = 1e-2  # of unit-length embeddings; fp32 engines may compute in TF32


@contextmanager
def step(what: str) -> Iterator[None]:
    """A line when it starts and one when it is done; libraries may log their own between."""
    print(f"{what} ...", flush=True)
    start = time.perf_counter()
    yield
    print(f"  done in {time.perf_counter() - start:.1f} s", flush=True)


def export(model: SentenceEncoder, path: Path) -> None:
    """Exports the encoder with both profiles, and with a CPU fallback, to `path`."""
    batch = torch.export.Dim("batch", min=1, max=16)
    tokens = torch.export.Dim("tokens", min=1, max=256)
    ids, mask = torch.ones(2, 2, 8, dtype=torch.int64)
    program = ett.export(
        model,
        (ids, mask),
        dynamic_shapes={
            "input_ids": {0: batch, 1: tokens},
            "attention_mask": {0: batch, 1: tokens},
        },
        profiles=PROFILES,
        options=ett.CompileOptions(cpu_fallback=True),
    )
    program.save(str(path))


class Embedder:
    """Embeds sentences through the exported program, printing a line for each call."""

    def __init__(self, method: Any, tokenizer: Any) -> None:
        self.method = method
        self.tokenizer = tokenizer
        self.inputs: list[tuple[Tensor, Tensor]] = []

    def __call__(self, sentences: list[str], asked: str) -> Tensor:
        batch = self.tokenizer(
            sentences, padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        ids, mask = batch["input_ids"], batch["attention_mask"]
        start = time.perf_counter()
        (embeddings,) = self.method(ids, mask)
        milliseconds = (time.perf_counter() - start) * 1e3
        shape = "x".join(map(str, ids.shape))
        print(f"  {shape:>7}  {asked:16} {self.method.last_profile:8} {milliseconds:8.1f} ms")
        self.inputs.append((ids, mask))
        return embeddings.clone()


def print_similarities(similarities: Tensor) -> None:
    """One row a query: its cosine with every passage, the best one marked, then the text."""
    print("\nCosine similarity of each query (row) with each passage (column):\n")
    print("      " + "".join(f"{f'P{column} ':>7}" for column in range(len(PASSAGES))))
    for row, scores in enumerate(similarities):
        best = int(scores.argmax())
        cells = [f"{float(s):.2f}" + ("*" if i == best else " ") for i, s in enumerate(scores)]
        print(f"  Q{row}  " + "".join(f"{cell:>7}" for cell in cells))
    print()
    for row, scores in enumerate(similarities):
        print(f"  Q{row}: {QUERIES[row]}\n      -> {PASSAGES[int(scores.argmax())]}")


def main() -> int:
    """Exports, loads, embeds and compares; 0 if the embeddings equal eager PyTorch's."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--pte", type=Path, default=Path("build/minilm.pte"), help="where to save")
    path: Path = parser.parse_args().pte
    path.parent.mkdir(parents=True, exist_ok=True)

    with step("Loading all-MiniLM-L6-v2"):
        model, tokenizer = load_model()
    with step("Exporting: two TensorRT profiles and a CPU fallback"):
        export(model, path)
    print(f"  {path}: {path.stat().st_size / 1e6:.0f} MB")
    with step("Loading the program"):
        method = ett.load(path)["forward"]
    print(f"  profiles: {', '.join(method.profiles)}\n")

    print(f"  {'shape':>7}  {'asked for':16} {'used':8} {'time':>11}")
    embed = Embedder(method, tokenizer)
    passages = embed(PASSAGES, "automatic")
    queries = []
    with ett.optimization_profile("query"):
        queries += [embed([text], "pinned: query") for text in QUERIES]
    # Automatic selection keeps the profile in use while the inputs fit it.
    embed(QUERIES[:1], "automatic")
    embed(PASSAGES[:2], "automatic")
    embed(PASSAGES[:1], "automatic")

    similarities = torch.cat(queries) @ passages.T
    print_similarities(similarities)

    eager = [model(*inputs) for inputs in embed.inputs[: 1 + len(QUERIES)]]
    pairs = zip([passages, *queries], eager, strict=True)
    difference = max(float((got - want).abs().max()) for got, want in pairs)
    print(f"\nLargest difference from eager PyTorch: {difference:.1e}")
    if difference > LARGEST_DIFFERENCE:
        print(f"That is more than {LARGEST_DIFFERENCE}: the answers are wrong.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
