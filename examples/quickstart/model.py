"""A model for `executorch-tensorrt export`: a small transformer over token ids."""

from __future__ import annotations

import torch
from torch import nn

VOCABULARY = 1000


class TinyTransformer(nn.Module):
    """Token ids [batch, sequence] int64 to logits [batch, sequence, vocabulary]."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(input_ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def tiny_transformer() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model, and the inputs that it is traced with."""
    torch.manual_seed(0)
    return TinyTransformer(), (torch.zeros(1, 16, dtype=torch.long),)
