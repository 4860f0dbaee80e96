"""Writes to a state that TensorRT's KV-cache layer does in place, and the rewrite to that layer.

The layer writes rows start, start + 1, ... of dim 2 of a cache [B, H, T, D] in the cache's own
memory. It checks neither that they are in bounds (it drops rows) nor that nothing else reads the
old cache. A cache of another layout is seen as [all before T, 1, T, all behind T], the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .aten_graph import add_tensor_metadata, insert_call, insert_constant
from .positions import Check, Positions, counts_from_end
from .symbol_ranges import size_expr

aten = torch.ops.aten

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

_library = torch.library.Library("executorch_tensorrt", "DEF")
_library.define("kv_cache_update(Tensor cache, Tensor rows, Tensor start) -> Tensor")


def _kv_cache_update(cache: torch.Tensor, rows: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(cache)


torch.library.register_fake("executorch_tensorrt::kv_cache_update", _kv_cache_update, lib=_library)


kv_cache_update = torch.ops.executorch_tensorrt.kv_cache_update.default


@dataclass(frozen=True)
class InPlaceWrite:
    """How a state is written in place.

    Attributes:
        write: The node that the layer takes the place of; it gives the state's new value.
        rows: What it writes.
        dim: The cache's dim that the positions are of.
        start: A node whose first element is the first position, or a number.
        from_end: Whether a negative start counts from the end.
        check: What is to be checked of an input; None: all is known.
    """

    write: Node
    rows: Node
    dim: int
    start: Node | int
    from_end: bool
    check: Check | None

    def cache_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape [B, H, T, D] in which the layer sees a state of some shape."""
        if len(shape) == 4 and self.dim == 2:
            return shape
        before, behind = shape[: self.dim], shape[self.dim + 1 :]
        return math.prod(before), 1, shape[self.dim], math.prod(behind)


def find_in_place_write(
    state: Node, value: Node, positions: Positions, contiguous_positions: bool
) -> InPlaceWrite | None:
    """How a state could be written in place; None unless every condition is known to hold."""
    if value.op != "call_function" or list(state.users) != [value]:
        return None
    if state.meta["val"].dtype not in _DTYPES:
        return None
    found = _rows_along_a_dim(state, value)
    if found is None:
        return None
    dim, index, rows = found
    shape = list(state.meta["val"].shape)
    given = list(rows.meta["val"].shape)
    full = [1] * (len(shape) - len(given)) + given
    if len(full) != len(shape):
        return None
    count = full[dim]
    if not all(_same(size, shape[axis]) for axis, size in enumerate(full) if axis != dim):
        return None
    first = index if isinstance(index, int) else 0
    if first + positions.max_size(count) > shape[dim]:
        return None
    last = shape[dim] - 1
    if isinstance(index, int):
        return InPlaceWrite(value, rows, dim, index, False, None)
    if not _same(index.meta["val"].shape[0], count):
        return None
    return _counting_up(value, rows, dim, index, count, last, positions, contiguous_positions)


def _counting_up(
    write: Node,
    rows: Node,
    dim: int,
    index: Node,
    count: Any,
    last: int,
    positions: Positions,
    asked: bool,
) -> InPlaceWrite | None:
    """The write, if its positions are known to count up by ones."""
    constant = positions.constant_start(index)
    if constant is not None and positions.are_within(index, 0, last):
        return InPlaceWrite(write, rows, dim, constant, False, None)
    given = positions.input_of(index)
    if given is not None and isinstance(count, int) and count == 1:
        negative = counts_from_end(write)
        check = (given, -last - 1 if negative else 0, last, None, False)
        return InPlaceWrite(write, rows, dim, index, negative, check)
    if given is not None and asked:
        return InPlaceWrite(write, rows, dim, index, False, (given, 0, last, None, True))
    found = positions.rows_from(index)
    if found is None or not _same(found[1], count):
        return None
    start = found[0]
    checked = positions.check_of_rows(start, count, last)
    if checked is None and asked:
        vector = positions.first_of(start)
        if vector is not None and _same(positions.input_node(vector).meta["val"].shape[0], count):
            checked = (vector, 0, last, None, True)
    return InPlaceWrite(write, rows, dim, start, False, checked) if checked is not None else None


def _rows_along_a_dim(state: Node, write: Node) -> tuple[int, Node | int, Node] | None:
    """Dim, positions (or the first of them) and rows of a write of whole rows along one dim."""
    from .write_converters import slice_of, takes_index_put, takes_slice

    if not write.args or write.args[0] is not state:
        return None
    if write.target is aten.index_put.default and takes_index_put(write):
        given = [(dim, index) for dim, index in enumerate(write.args[1]) if index is not None]
        [(dim, index), *others] = given
        if others or index.meta["val"].dim() != 1:
            return None
        return dim, index, write.args[2]
    if write.target is aten.slice_scatter.default and takes_slice(write):
        dim, start, step = slice_of(write)
        return (dim, start, write.args[1]) if step == 1 else None
    if write.target is aten.scatter.src:
        dim = write.args[1] % state.meta["val"].dim()
        index = _expanded_along(write.args[2], dim)
        same = [*map(size_expr, write.args[2].meta["val"].shape)] == [
            *map(size_expr, write.args[3].meta["val"].shape)
        ]
        return (dim, index, write.args[3]) if index is not None and same else None
    return None


def _expanded_along(node: Node, dim: int) -> Node | None:
    """The tensor of rank 1 that a node repeats in every other dim than `dim`."""
    if node.op != "call_function" or node.target is not aten.expand.default:
        return None
    node = node.args[0]
    sizes = node.meta["val"].shape
    if dim >= len(sizes) or any(size != 1 for axis, size in enumerate(sizes) if axis != dim):
        return None
    shaping = (aten.reshape.default, aten.view.default, aten.unsqueeze.default)
    while node.op == "call_function" and node.target in shaping:
        node = node.args[0]
    return node if node.meta["val"].dim() == 1 else None


def _same(left: Any, right: Any) -> bool:
    return bool(size_expr(left) == size_expr(right))


def write_in_place(
    module: GraphModule, states: Sequence[Node], writes: Mapping[int, InPlaceWrite]
) -> None:
    """Puts TensorRT's KV-cache layer in the place of writes.

    Args:
        module: The planned graph.
        states: The placeholders of all its states.
        writes: Of the plan.
    """
    graph = module.graph
    output = graph.output_node()
    for index, item in writes.items():
        state, write = states[index], item.write
        shape = tuple(state.meta["val"].shape)
        seen = item.cache_shape(shape)
        batch, _, size, _ = seen
        with graph.inserting_before(write):
            start = _start(module, item, index, size, batch)
            rows = insert_call(graph, aten.reshape.default, (item.rows, [*seen[:2], -1, seen[3]]))
            if seen != shape:
                state.meta["val"] = state.meta["val"].reshape(seen)
                add_tensor_metadata(state)
            updated = insert_call(graph, kv_cache_update, (state, rows, start))
            back = updated
            if seen != shape:
                back = insert_call(graph, aten.reshape.default, (updated, list(shape)))
        write.replace_all_uses_with(back, delete_user_cb=lambda user: user is not output)
        write.replace_all_uses_with(updated)
        graph.erase_node(write)
    module.recompile()


def _start(module: GraphModule, item: InPlaceWrite, index: int, size: int, batch: int) -> Node:
    graph = module.graph
    if isinstance(item.start, int):
        value = torch.full((batch,), item.start, dtype=torch.int32)
        return insert_constant(module, f"start_{index}", value)
    flat = insert_call(graph, aten.reshape.default, (item.start, [-1]))
    if flat.meta["val"].shape[0] != 1:
        flat = insert_call(graph, aten.slice.Tensor, (flat, 0, 0, 1))
    start = insert_call(graph, aten._to_copy.default, (flat,), dtype=torch.int32)
    if item.from_end:
        negative = insert_call(graph, aten.lt.Scalar, (start, 0))
        behind = insert_call(graph, aten.add.Tensor, (start, size))
        start = insert_call(graph, aten.where.self, (negative, behind, start))
    return insert_call(graph, aten.expand.default, (start, [batch])) if batch != 1 else start
