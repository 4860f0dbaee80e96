"""Attention whose mask may leave a query no key: PyTorch's answer is zero, TensorRT's NaN."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from .aten_graph import add_tensor_metadata, insert_call

aten = torch.ops.aten


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
    for attention in graph.find_nodes(
        op="call_function", target=aten.scaled_dot_product_attention.default
    ):
        mask = attention.args[3] if len(attention.args) > 3 else None
        if mask is None or _leaves_keys_to_all(module, mask):
            continue
        dtype = attention.meta["val"].dtype
        with graph.inserting_before(attention):
            if mask not in answered:
                answered[mask] = _leaves_keys(module, mask)
            if dtype not in zeros:
                zeros[dtype] = _zero(module, attention)
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


def _zero(module: GraphModule, attention: Node) -> Node:
    dtype = attention.meta["val"].dtype
    name = f"zero_of_{str(dtype).removeprefix('torch.')}"
    module.register_buffer(name, torch.zeros(1, 1, 1, 1, dtype=dtype))
    node = module.graph.get_attr(name)
    node.meta["val"] = attention.meta["val"].fake_mode.from_tensor(getattr(module, name))
    add_tensor_metadata(node)
    return node
