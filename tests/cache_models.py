"""Small decoders whose key and value caches are written in every way that models write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 16

# A cache, its time dim, positions of the new rows, the rows; the whole cache after the write.
Write = Callable[[torch.Tensor, int, torch.Tensor, torch.Tensor], None]


def index_copy(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    cache.index_copy_(dim, positions, rows)


def assignment(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    if dim == 2:
        cache[:, :, positions] = rows
    else:
        cache[:, positions] = rows


def index_put(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    batch = torch.arange(cache.shape[0]).unsqueeze(1)
    if dim == 2:
        cache.transpose(1, 2).index_put_((batch, positions.unsqueeze(0)), rows.transpose(1, 2))
    else:
        cache.index_put_((batch, positions.unsqueeze(0)), rows)


def scatter(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    shape = [1, 1, 1, 1]
    shape[dim] = -1
    cache.scatter_(dim, positions.view(shape).expand(rows.shape), rows)


def item_slice(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    start = positions[0].item()
    torch._check(start >= 0)
    torch._check(start + rows.shape[dim] <= cache.shape[dim])
    cache.narrow(dim, start, rows.shape[dim]).copy_(rows)


def slice_scatter(
    cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor
) -> None:
    start = positions[0].item()
    torch._check(start >= 0)
    torch._check(start + rows.shape[dim] <= cache.shape[dim])
    cache.copy_(torch.slice_scatter(cache, rows, dim, start, start + rows.shape[dim]))


def from_start(cache: torch.Tensor, dim: int, positions: torch.Tensor, rows: torch.Tensor) -> None:
    """Of the positions, only the first: the caller's start."""
    assignment(cache, dim, positions[:1] + torch.arange(rows.shape[dim]), rows)


WRITES: dict[str, Write] = {
    write.__name__: write
    for write in (index_copy, assignment, index_put, scatter, item_slice, slice_scatter)
}
LAYOUTS = ("BHTD", "BTHD")


class CachedDecoder(nn.Module):
    """Tokens [1, S] and their positions [S] to logits [1, S, 20], over a cache of `rows` rows."""

    VOCABULARY, WIDTH, HEADS = 20, 16, 2

    def __init__(
        self, write: Write, layout: str, layers: int = 1, batch: int = 1, rows: int = ROWS
    ) -> None:
        super().__init__()
        self.write, self.dim, self.layers, self.rows = write, layout.index("T"), layers, rows
        width, heads = self.WIDTH, self.HEADS
        self.embedding = nn.Embedding(self.VOCABULARY, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.head = nn.Linear(width, self.VOCABULARY)
        size = {"B": batch, "H": heads, "T": rows, "D": width // heads}
        for layer in range(layers):
            for name in ("key", "value"):
                self.register_buffer(f"{name}_{layer}", torch.zeros([size[dim] for dim in layout]))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        batch, length, width = x.shape
        seen = torch.arange(self.rows) <= positions.unsqueeze(1)
        for layer in range(self.layers):
            query, key, value = (
                part.view(batch, length, self.HEADS, width // self.HEADS)
                for part in self.qkv[layer](x).chunk(3, dim=-1)
            )
            if self.dim == 2:
                key, value = key.transpose(1, 2), value.transpose(1, 2)
            keys, values = getattr(self, f"key_{layer}"), getattr(self, f"value_{layer}")
            self.write(keys, self.dim, positions, key)
            self.write(values, self.dim, positions, value)
            if self.dim == 1:
                keys, values = keys.transpose(1, 2), values.transpose(1, 2)
            mixed = F.scaled_dot_product_attention(
                query.transpose(1, 2), keys, values, attn_mask=seen
            )
            x = x + mixed.transpose(1, 2).reshape(batch, length, width)
        return self.head(x)
