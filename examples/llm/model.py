"""A small decoder of Llama's kind, with a static KV cache in mutable buffers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Config:
    vocabulary: int = 512
    width: int = 256
    hidden: int = 688
    layers: int = 4
    heads: int = 8
    kv_heads: int = 2
    rows: int = 512  # of the cache: tokens of prompt and answer together


class Attention(nn.Module):
    """Grouped-query attention over all rows of the cache up to each token's own."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.head = config, config.width // config.heads
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, config.kv_heads * self.head, bias=False)
        self.value = nn.Linear(config.width, config.kv_heads * self.head, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        shape = (1, config.kv_heads, config.rows, self.head)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        _, length, _ = x.shape

        def heads(projected: torch.Tensor, count: int) -> torch.Tensor:
            return projected.view(1, length, count, self.head).transpose(1, 2)

        config = self.config
        query = rotated(heads(self.query(x), config.heads), *rotation)
        self.keys.index_copy_(2, positions, rotated(heads(self.key(x), config.kv_heads), *rotation))
        self.values.index_copy_(2, positions, heads(self.value(x), config.kv_heads))
        groups = config.heads // config.kv_heads
        seen = torch.arange(config.rows) <= positions.unsqueeze(1)
        mixed = F.scaled_dot_product_attention(
            query,
            self.keys.repeat_interleave(groups, dim=1),
            self.values.repeat_interleave(groups, dim=1),
            attn_mask=seen,
        )
        return self.out(mixed.transpose(1, 2).reshape(1, length, config.width))


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config)
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), positions, rotation)
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Tokens int64 [1, S] and positions int64 [S] to the last one's logits [1, vocabulary]."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        size = config.width // config.heads
        frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(config.rows), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        rotation = self.cos[positions], self.sin[positions]
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions, rotation)
        return self.head(self.norm(x[:, -1]))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al., 2021) of [1, heads, S, size]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
