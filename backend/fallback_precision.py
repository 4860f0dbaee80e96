"""Half precision in the CPU fallback, where ExecuTorch's kernels would lose it."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule, Node

aten = torch.ops.aten

# ExecuTorch 1.5's CPU kernels for these add up many elements in the tensor's own dtype: a float16
# layer norm over 256 elements is off by more than the values themselves.
_ACCUMULATE_IN_OWN_DTYPE = {
    aten.native_layer_norm.default,
    aten.layer_norm.default,
    aten.native_group_norm.default,
    aten.group_norm.default,
    aten.var.correction,
    aten.var.dim,
    aten.var_mean.correction,
    aten.cumsum.default,
    aten.avg_pool1d.default,
    aten.avg_pool2d.default,
}
_HALF = (torch.float16, torch.bfloat16)


def accumulate_in_float32(module: GraphModule) -> None:
    """Has those operators compute in float32 where their input is of half precision, as PyTorch's.

    Results are rounded to the dtype that they had.
    """
    for node in list(module.graph.nodes):
        if node.target not in _ACCUMULATE_IN_OWN_DTYPE:
            continue
        if not any(_is_half(argument) for argument in node.all_input_nodes):
            continue
        was = node.meta["val"]
        widened = {arg: _cast(node.graph, arg, torch.float32, node) for arg in _halves(node)}
        for narrow, wide in widened.items():
            node.replace_input_with(narrow, wide)
        if isinstance(was, torch.Tensor):
            node.meta["val"] = was.to(torch.float32)
            _narrow(node, was.dtype)
            continue
        node.meta["val"] = tuple(value.to(torch.float32) for value in was)
        for item in [user for user in node.users if user.target is operator.getitem]:
            dtype = was[item.args[1]].dtype
            item.meta["val"] = item.meta["val"].to(torch.float32)
            _narrow(item, dtype)
    module.recompile()


def _is_half(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _HALF


def _halves(node: Node) -> list[Node]:
    return [argument for argument in node.all_input_nodes if _is_half(argument)]


def _cast(graph: Graph, value: Node, dtype: torch.dtype, before: Node) -> Node:
    with graph.inserting_before(before):
        cast = graph.call_function(aten._to_copy.default, (value,), {"dtype": dtype})
    cast.meta["val"] = value.meta["val"].to(dtype)
    return cast


def _narrow(node: Node, dtype: torch.dtype) -> None:
    if dtype == torch.float32:
        return
    narrowed = _cast(node.graph, node, dtype, node.next)
    node.replace_all_uses_with(narrowed, delete_user_cb=lambda user: user is not narrowed)
