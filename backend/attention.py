"""Attention where TensorRT's layer is not what PyTorch's operator is."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .aten_graph import VIEWS, insert_call, insert_constant, raw_target

aten = torch.ops.aten

# How much of the scale each attention of one query, but for the first, puts on its keys.
_ON_KEYS = (2.0, 0.5, 4.0, 0.25, -1.0, -2.0, -0.5)


def separate_queries(module: GraphModule) -> None:
    """Gives attentions of one query different multiples of it.

    TensorRT-RTX 1.6 crashes while it builds an engine in which two share a query of dynamic size,
    as where one looks at a text and one at an image. Part of the scale, a power of two or a sign,
    goes to the keys, which changes no answer. `is_own_keys_of_shared_query` is where it crashes
    even so.
    """
    graph = module.graph
    sharing: dict[Any, list[Node]] = defaultdict(list)
    for attention in _attentions(graph):
        sharing[_value(attention.args[0])].append(attention)
    for attentions in sharing.values():
        for factor, attention in zip(_ON_KEYS, attentions[1:], strict=False):
            size = attention.args[0].meta["val"].shape[-1]
            scale = attention.kwargs.get("scale")
            scale = 1 / math.sqrt(size) if scale is None else scale
            with graph.inserting_before(attention):
                keys = insert_call(graph, aten.mul.Tensor, (attention.args[1], factor))
            attention.update_arg(1, keys)
            attention.update_kwarg("scale", scale / factor)
    module.recompile()


def is_own_keys_of_shared_query(attention: Node) -> bool:
    """Whether the query of an attention, of dynamic length, is its keys and another one's query."""
    query, keys = attention.args[:2]
    if _value(query) != _value(keys) or isinstance(query.meta["val"].shape[-2], int):
        return False
    return any(
        other is not attention and _value(other.args[0]) == _value(query)
        for other in _attentions(attention.graph)
    )


def _attentions(graph: Graph) -> list[Node]:
    """Those of an ATen or edge graph, in its order."""
    target = aten.scaled_dot_product_attention.default
    return [node for node in graph.nodes if raw_target(node.target) is target]


def _value(node: Any) -> Any:
    """Something that two nodes have in common which give the same view of the same tensor."""
    if not isinstance(node, Node) or raw_target(node.target) not in VIEWS:
        return node
    return (raw_target(node.target), _value(node.args[0]), str(node.args[1:]), str(node.kwargs))


def answer_masked_queries(module: GraphModule) -> None:
    """Has attention answer zero to queries that its mask leaves no key.

    So does PyTorch (`torch._safe_softmax`). A softmax over nothing is NaN, and spreads in the next
    layer to every query, as it is no number however little it weighs. Such queries are the padding
    of a batch: those before a short sequence under a causal mask, or those that a sliding window
    keeps from it.

    Args:
        module: An ATen graph with constants as attributes.
    """
    graph = module.graph
    answered: dict[Node, Node] = {}
    zeros: dict[torch.dtype, Node] = {}
    for attention in _attentions(graph):
        mask = attention.args[3] if len(attention.args) > 3 else None
        if mask is None or _leaves_keys_to_all(module, mask):
            continue
        dtype = attention.meta["val"].dtype
        with graph.inserting_before(attention):
            if mask not in answered:
                answered[mask] = _leaves_keys(module, mask)
            if dtype not in zeros:
                name = f"zero_of_{str(dtype).removeprefix('torch.')}"
                zeros[dtype] = insert_constant(module, name, torch.zeros(1, 1, 1, 1, dtype=dtype))
        with graph.inserting_after(attention):
            answer = insert_call(graph, aten.where.self, (answered[mask], attention, zeros[dtype]))
        attention.replace_all_uses_with(answer, delete_user_cb=lambda user, own=answer: user != own)
    module.recompile()


def _leaves_keys_to_all(module: GraphModule, mask: Node) -> bool:
    """Whether that is known of a mask."""
    if mask.op != "get_attr":
        return False
    value = getattr(module, str(mask.target))
    keys = value if value.dtype == torch.bool else value > float("-inf")
    return bool(keys.any(-1).all())


def _leaves_keys(module: GraphModule, mask: Node) -> Node:
    """For each query, whether it has a key."""
    graph, dtype = module.graph, mask.meta["val"].dtype
    if dtype == torch.bool:
        return insert_call(graph, aten.any.dim, (mask, -1, True))
    greatest = insert_call(graph, aten.amax.default, (mask, [-1], True))
    none = insert_call(graph, aten.lt.Scalar, (greatest, torch.finfo(dtype).min))
    return insert_call(graph, aten.logical_not.default, (none,))
