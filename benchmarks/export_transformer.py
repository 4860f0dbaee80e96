"""Exports the decoder that the benchmarks run: profiles decode (1 token) and prefill (128 of 512).

python benchmarks/export_transformer.py --width 256 --layers 12 model.pte
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett

VOCABULARY = 8192


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        normed = self.norm1(x)
        split = [
            part(normed).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        ]
        mixed = F.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Token ids [1, length] int64 to logits [1, length, VOCABULARY]; no cache."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=positive, default=256, help="a multiple of 64")
    parser.add_argument("--layers", type=positive, default=12)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    if arguments.width % 64:
        parser.error(f"--width must be a multiple of 64, not {arguments.width}")
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("executorch_tensorrt").setLevel(logging.INFO)
    torch.manual_seed(0)
    program = ett.export(
        Decoder(arguments.layers, arguments.width).eval().half(),
        (torch.zeros(1, 128, dtype=torch.int64),),
        dynamic_shapes={"ids": {1: Dim("length", min=1, max=512)}},
        profiles=[
            ett.OptimizationProfile("decode", {"ids": (1, 1)}),
            ett.OptimizationProfile("prefill", {"ids": (1, (2, 128, 512))}),
        ],
    )
    arguments.path.write_bytes(program.buffer)
    print(f"{arguments.path}: {arguments.path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
