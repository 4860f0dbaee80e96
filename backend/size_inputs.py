"""Sizes that cross a partition's border as Int arguments, recomputed from its tensor inputs.

An engine takes tensors. A SymInt input of a partition is the size of some tensor outside; nearly
always it is also a dim of a tensor input, or follows from one, and can be had from that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import sympy
import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from .symbol_ranges import size_expr

Call: TypeAlias = Callable[[Any, tuple[Any, ...]], Any]
Sources: TypeAlias = Mapping[sympy.Expr, tuple[Node, int]]


def size_sources(tensors: Iterable[Node]) -> dict[sympy.Expr, tuple[Node, int]]:
    """For each symbolic size of these nodes' tensors, a node and dim that has it."""
    sources: dict[sympy.Expr, tuple[Node, int]] = {}
    for node in tensors:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    sources.setdefault(size_expr(size), (node, dim))
    return sources


def can_rebuild(expr: sympy.Expr, sources: Sources) -> bool:
    """Whether `expr` can be computed from the sizes in `sources`."""
    try:
        _rebuild(expr, sources, lambda target, args: 0)
    except _Unavailable:
        return False
    return True


def replace_size_inputs(module: GraphModule) -> None:
    """Removes SymInt placeholders, computing their values from tensor placeholders instead.

    Raises:
        ValueError: A size is no function of the tensor inputs' sizes; the message names it.
    """
    graph = module.graph
    placeholders = list(graph.find_nodes(op="placeholder"))
    sources = size_sources(placeholders)
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            continue
        if node.users:
            if not isinstance(value, torch.SymInt):
                raise ValueError(
                    f"input '{node.name}' of the partition is {value!r} "
                    f"({type(value).__name__}); an engine takes tensors and their sizes only"
                )
            with graph.inserting_before(placeholders[-1].next):
                node.replace_all_uses_with(_insert(graph, node, size_expr(value), sources))
    for node in placeholders:
        if not isinstance(node.meta.get("val"), torch.Tensor):
            graph.erase_node(node)
    module.recompile()


class _Unavailable(Exception):
    pass


def _insert(graph: Graph, node: Node, expr: sympy.Expr, sources: Sources) -> Any:
    fake_size = node.meta["val"]

    def call(target: Any, args: tuple[Any, ...]) -> Node:
        made = graph.call_function(target, args)
        if target is torch.ops.aten.sym_size.int:
            made.meta["val"] = args[0].meta["val"].shape[args[1]]
        else:
            values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
            made.meta["val"] = target(*values)
        return made

    try:
        return _rebuild(expr, sources, call)
    except _Unavailable as error:
        raise ValueError(
            f"input '{node.name}' of the partition is the size {fake_size}, which cannot be "
            f"computed from its tensor inputs' sizes {[str(size) for size in sources]}: {error}"
        ) from None


def _rebuild(expr: sympy.Expr, sources: Sources, call: Call) -> Any:
    """Computes `expr` by `call(target, args)`, which gives a node or a stand-in."""
    if expr in sources:
        return call(torch.ops.aten.sym_size.int, sources[expr])
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return _invert(expr, sources, call)
    targets = {FloorDiv: operator.floordiv, PythonMod: operator.mod, Mod: operator.mod}
    if expr.is_Add or expr.is_Mul:
        target = operator.add if expr.is_Add else operator.mul
        parts = [_rebuild(part, sources, call) for part in expr.args]
        return reduce(lambda left, right: call(target, (left, right)), parts)
    for kind, target in targets.items():
        if isinstance(expr, kind):
            return call(target, tuple(_rebuild(part, sources, call) for part in expr.args))
    raise _Unavailable(f"{expr} is no sum, product, quotient or remainder of them")


def _invert(symbol: sympy.Symbol, sources: Sources, call: Call) -> Any:
    """s from a size a*s + b: (size - b) // a."""
    for known, (node, dim) in sources.items():
        factor = known.coeff(symbol)
        rest = known - factor * symbol
        if known.free_symbols == {symbol} and factor.is_Integer and factor > 0 and rest.is_Integer:
            size = call(torch.ops.aten.sym_size.int, (node, dim))
            size = call(operator.sub, (size, int(rest))) if rest else size
            return call(operator.floordiv, (size, int(factor))) if factor != 1 else size
    raise _Unavailable(f"no tensor input has a dim that gives {symbol}")
