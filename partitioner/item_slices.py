"""Slices that start at a number read from a tensor, as slices at positions in a tensor.

`cache[:, start : start + n] = rows` with `start = position.item()` makes the size of everything
that depends on the number unknown, so TensorRT could take none of it. Where the slice's length is
known, positions `position + arange(n)` do the same.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from executorch_tensorrt.backend.aten_graph import insert_call
from executorch_tensorrt.backend.symbol_ranges import size_expr

aten = torch.ops.aten

_ITEMS = {aten.item.default, aten._local_scalar_dense.default}
_CHECKS = {
    aten._assert_scalar.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
    torch._check,
}
_INTEGERS = (torch.int32, torch.int64)


def replace_item_slices(program: ExportedProgram) -> ExportedProgram:
    """A program without slices from a number that `.item()` gives, and without its checks.

    What the checks of such a number said goes with them, where nothing else uses it: positions of
    writes to a delegate's state are checked when it runs. A program without such slices is given
    back as it is.
    """
    if not any(node.target in _ITEMS for node in program.graph.nodes):
        return program
    changed = program.run_decompositions({})  # in-place writes become slice_scatter
    graph, signature = changed.graph, changed.graph_signature
    replaced = False
    for rewrite in (_source_of_whole_copy, _at_positions):
        for node in list(graph.nodes):
            new = rewrite(node) if node.op == "call_function" else None
            if new is not None:
                signature.replace_all_uses(node.name, new.name)
                node.replace_all_uses_with(new)
                graph.erase_node(node)
                replaced = True
        graph.eliminate_dead_code()
    if not replaced:
        return program
    for node in list(graph.nodes):
        if node.target in _ITEMS:
            _erase_unless_computed_with(graph, node)
    graph.eliminate_dead_code()
    changed.graph_module.recompile()
    return changed


def _at_positions(node: Node) -> Node | None:
    """A slice, its counterpart for writing or an arange from a number, by positions instead."""
    graph = node.graph
    if node.target is aten.slice_scatter.default:
        arguments = _named(node, ("self", "src", "dim", "start", "end", "step"))
        source = arguments["src"]
        positions = _positions(graph, node, arguments, _length_of(source, arguments.get("dim", 0)))
        if positions is None:
            return None
        dim = arguments.get("dim", 0) % source.meta["val"].dim()
        # Like a slice's start it has no rows counted from the end, which an index_put has.
        with graph.inserting_before(node):
            return insert_call(
                graph, aten.index_copy.default, (node.args[0], dim, positions, source)
            )
    if node.target is aten.slice.Tensor:
        arguments = _named(node, ("self", "dim", "start", "end", "step"))
        dim = arguments.get("dim", 0)
        positions = _positions(graph, node, arguments, _length_of(node, dim))
        if positions is None:
            return None
        with graph.inserting_before(node):
            return insert_call(graph, aten.index_select.default, (node.args[0], dim, positions))
    return None


def _source_of_whole_copy(node: Node) -> Node | None:
    """What is copied to all of a slice from a number."""
    if node.target is not aten.copy.default or not _starts_at_item(node.args[0]):
        return None
    into, source = node.args[0], node.args[1]
    left, right = into.meta["val"], source.meta["val"]
    sizes = zip(left.shape, right.shape, strict=False)
    same = left.dim() == right.dim() and all(_equal(a, b) for a, b in sizes)
    found: Node | None = source if same and left.dtype == right.dtype else None
    return found


def _starts_at_item(node: Any) -> bool:
    if not isinstance(node, Node) or node.target is not aten.slice.Tensor:
        return False
    return _item_of(_named(node, ("self", "dim", "start", "end", "step")).get("start")) is not None


def _named(node: Node, names: tuple[str, ...]) -> dict[str, Any]:
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _item_of(start: Any) -> Node | None:
    """The tensor that a number was read from."""
    if not isinstance(start, Node) or start.target not in _ITEMS:
        return None
    tensor: Node = start.args[0]
    return tensor if tensor.meta["val"].dtype in _INTEGERS else None


def _length_of(node: Node, dim: int) -> Any:
    return node.meta["val"].shape[dim]


def _equal(left: Any, right: Any) -> bool:
    return bool(sympy.simplify(size_expr(left) - size_expr(right)) == 0)


def _positions(graph: Graph, node: Node, arguments: Mapping[str, Any], length: Any) -> Node | None:
    """position + arange(end - start), if that is `length` and known without the number."""
    tensor = _item_of(arguments.get("start"))
    end = arguments.get("end")
    if tensor is None or arguments.get("step", 1) != 1 or not isinstance(end, Node):
        return None
    span = sympy.simplify(size_expr(end.meta["val"]) - size_expr(arguments["start"].meta["val"]))
    if sympy.simplify(span - size_expr(length)) != 0:
        return None
    source = _rows_node(graph, node, end, arguments["start"], span)
    if source is None:
        return None
    with graph.inserting_before(node):
        counting = insert_call(
            graph,
            aten.arange.default,
            (source,),
            dtype=torch.int64,
            device=torch.device("cpu"),
            pin_memory=False,
        )
        start = insert_call(graph, aten.view.default, (tensor, [1]))
        if start.meta["val"].dtype != torch.int64:
            start = insert_call(graph, aten._to_copy.default, (start,), dtype=torch.int64)
        return insert_call(graph, aten.add.Tensor, (counting, start))


def _rows_node(graph: Graph, node: Node, end: Node, start: Node, span: sympy.Expr) -> Any:
    """A number or a node that gives how many rows there are, without the number read."""
    if span.is_Integer:
        return int(span)
    if end.target is operator.add and start in end.args:
        other = end.args[0] if end.args[1] is start else end.args[1]
        if isinstance(other, int | Node):
            return other
    for candidate in graph.nodes:
        if candidate is node:
            return None
        value = candidate.meta.get("val")
        if candidate.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            if size_expr(size) == span:
                with graph.inserting_before(node):
                    return insert_call(graph, aten.sym_size.int, (candidate, dim))
    return None


def _erase_unless_computed_with(graph: Graph, item: Node) -> None:
    """Erases a number that is left to its own checks, with them."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    reached: set[Node] = set()
    waiting = [item]
    while waiting:
        for user in waiting.pop().users:
            if user not in reached:
                reached.add(user)
                waiting.append(user)
    for node in reached:
        is_size = not isinstance(node.meta.get("val"), torch.Tensor | list | tuple)
        if node.op != "call_function" or not (node.target in _CHECKS or is_size):
            return
    for node in sorted(reached, key=order.__getitem__, reverse=True):
        graph.erase_node(node)
    graph.erase_node(item)
