"""Attention under masks that are hard for an engine."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from model_case import ROWS, Case, Mask, Range, Values
from torch import nn


def attention() -> Case:
    class Attends(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            split = x.view(x.shape[0], 6, 2, 4).transpose(1, 2)
            mask = torch.ones(6, 6, dtype=torch.bool).tril()
            attend = F.scaled_dot_product_attention
            return (
                attend(split, split, split),
                attend(split, split, split, is_causal=True),
                attend(split, split, split, attn_mask=mask),
                attend(split, split, split, attn_mask=torch.zeros(6, 6), scale=0.5),
                attend(x, x, x),
            )

    return Case(Attends().eval(), {"x": Values(("b", 6, 8))}, ROWS)


class PaddedAttention(nn.Module):
    """Two layers of attention under a mask that leaves some queries no key."""

    def __init__(self, *, additive: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.additive = additive

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        near = (places - places.unsqueeze(1)).abs() < 4
        mask = near & kept.bool()[:, None, None, :]
        if self.additive:
            mask = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
        for layer in self.layers:
            heads = layer(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(*heads, attn_mask=mask)
            x = x + mixed.transpose(1, 2).flatten(2)
        return x


PADDED = {"x": Values(("b", "s", 16)), "kept": Mask(("b", "s"))}
LENGTHS: dict[str, dict[str, Range]] = {
    "short": {"b": (1, 2, 4), "s": (1, 4, 8)},
    "long": {"b": (1, 2, 4), "s": (8, 16, 32)},
}


def queries_without_keys() -> Case:
    return Case(PaddedAttention().eval(), PADDED, LENGTHS)


def queries_without_keys_in_an_additive_mask() -> Case:
    return Case(PaddedAttention(additive=True).eval(), PADDED, LENGTHS)


def causal_over_more_keys() -> Case:
    class Causal(nn.Module):
        def forward(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(query, keys, keys, is_causal=True)

    inputs = {"query": Values(("b", 2, "s", 8)), "keys": Values(("b", 2, (2, "s"), 8))}
    return Case(Causal().eval(), inputs, LENGTHS)


class OneQuery(nn.Module):
    """Queries of a text and of an image, as image prompts for diffusion are attended to."""

    def forward(
        self, query: torch.Tensor, text: torch.Tensor, image: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        attend = F.scaled_dot_product_attention
        parts = [value.transpose(1, 2) for value in (query, text, image)]
        query, text, image = parts
        mixed = attend(query, text, text) + attend(query, image, image, scale=0.3)
        return mixed, attend(query, text * 2, image[:, :, :7])


QUERY_TEXT_IMAGE = {
    "query": Values(("b", "s", 2, 16)),
    "text": Values(("b", 7, 2, 16)),
    "image": Values(("b", 9, 2, 16)),
}


def one_query_of_several_attentions() -> Case:
    return Case(OneQuery().eval(), QUERY_TEXT_IMAGE, LENGTHS)


class QueryThatIsKeys(nn.Module):
    def forward(self, query: torch.Tensor, text: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        query, text, image = (value.transpose(1, 2) for value in (query, text, image))
        attend = F.scaled_dot_product_attention
        mixed = attend(query, text, text) + attend(query, image, image)
        return mixed + attend(query, query, query * 1.3)


def query_that_is_keys() -> Case:
    return Case(QueryThatIsKeys().eval(), QUERY_TEXT_IMAGE, LENGTHS)
