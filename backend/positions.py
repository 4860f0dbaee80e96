"""What is known of the positions of a write: bounds, and which of the call's inputs they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node

from .symbol_ranges import size_expr

aten = torch.ops.aten

Bounds: TypeAlias = tuple[int, int]
Check: TypeAlias = tuple[int, int, int, tuple[int, int] | None, bool]
"""Input, least, greatest, extent and contiguous, as of a `PositionCheck`."""

_INTEGERS = (torch.int32, torch.int64)

# Each element of the result is one of the first argument's, and each of those is in it.
_REARRANGING = {
    aten.reshape.default,
    aten.view.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.permute.default,
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
}
# Each element of the result is one of the first argument's.
_CHOOSING = {aten.slice.Tensor, aten.select.int, aten.index_select.default, aten.index.Tensor}
INDEX_PUTS = {aten.index_put.default, aten._unsafe_index_put.default}
# By name: what a node's meta tells of is a copy of the operator.
_INDEX_COPY = "aten.index_copy.default"
_SUMS = {aten.add.Tensor, aten.add.Scalar}
_REMAINDERS = {aten.remainder.Scalar, aten.remainder.Tensor}


class Positions:
    """What can be said of tensors of positions in a graph.

    Args:
        module: An ATen graph with constants as attributes.
        inputs: The placeholders of the call's inputs.
        max_size: The largest value of a size under any profile.
    """

    def __init__(
        self, module: GraphModule, inputs: Sequence[Node], max_size: Callable[[Any], int]
    ) -> None:
        self._module = module
        self._inputs = list(inputs)
        self.max_size = max_size

    def are_within(self, node: Node, least: int, greatest: int) -> bool:
        """Whether all positions are surely in a range."""
        bounds = self._bounds(node)
        return bounds is not None and least <= bounds[0] and bounds[1] <= greatest

    def check_of(self, node: Node, least: int, greatest: int) -> Check | None:
        """What to check of an input so that positions are in a range; None if it takes more."""
        index = self.input_of(node)
        if index is not None:
            return index, least, greatest, None, False
        rows = self.rows_from(node)
        return None if rows is None else self.check_of_rows(*rows, greatest)

    def check_of_rows(self, start: Node, count: Any, greatest: int) -> Check | None:
        """The same, of `count` positions that count up from a start, which is never negative."""
        index = self.input_of(start)
        if index is None or not _is_single(start.meta["val"]):
            return None
        if isinstance(count, int):
            last = greatest - count + 1
            return (index, 0, last, None, False) if last >= 0 else None
        for position, node in enumerate(self._inputs):
            for dim, size in enumerate(node.meta["val"].shape):
                if size_expr(size) == size_expr(count):
                    return index, 0, greatest, (position, dim), False
        return None

    def input_of(self, node: Node) -> int | None:
        """The input that has just these values, in whatever shape and integer dtype."""
        while node.op == "call_function" and _rearranges(node):
            node = node.args[0]
        if node in self._inputs and node.meta["val"].dtype in _INTEGERS:
            return self._inputs.index(node)
        return None

    def rows_from(self, node: Node) -> tuple[Node, Any] | None:
        """The start and the count of positions that count up by ones, as start + arange(count)."""
        while node.op == "call_function" and _rearranges(node):
            node = node.args[0]
        if node.op != "call_function" or node.target is not aten.add.Tensor:
            return None
        if node.kwargs.get("alpha", 1) != 1 or len(node.args) != 2:
            return None
        for counting, start in (node.args, node.args[::-1]):
            if not isinstance(counting, Node) or not isinstance(start, Node):
                continue
            while counting.op == "call_function" and _rearranges(counting):
                counting = counting.args[0]
            if self._first_of_arange(counting) == 0 and _is_single(start.meta["val"]):
                return start, counting.meta["val"].shape[0]
        return None

    def constant_start(self, node: Node) -> int | None:
        """The first of positions that count up by ones from a constant."""
        while node.op == "call_function" and _rearranges(node):
            node = node.args[0]
        return self._first_of_arange(node)

    def first_of(self, node: Node) -> int | None:
        """The input of rank 1 whose first element this is."""
        while node.op == "call_function" and _rearranges(node):
            node = node.args[0]
        if node.op != "call_function" or node.args[1:3] != (0, 0):
            return None
        is_select = node.target is aten.select.int
        if not is_select and not (node.target is aten.slice.Tensor and node.args[3:] == (1,)):
            return None
        index = self.input_of(node.args[0])
        return index if index is not None and self._inputs[index].meta["val"].dim() == 1 else None

    def input_node(self, index: int) -> Node:
        """The placeholder of an input."""
        return self._inputs[index]

    def _first_of_arange(self, node: Node) -> int | None:
        if node.op != "call_function" or node.meta["val"].dtype not in _INTEGERS:
            return None
        if node.target is aten.arange.default:
            return 0
        if node.target not in (aten.arange.start, aten.arange.start_step):
            return None
        step = node.args[2] if len(node.args) > 2 else 1
        first = node.args[0]
        return first if step == 1 and isinstance(first, int) else None

    def _bounds(self, node: Any) -> Bounds | None:
        """The least and the greatest value, or what surely lies outside of them."""
        if isinstance(node, bool) or not isinstance(node, Node):
            return (node, node) if type(node) is int else None
        if node.op == "get_attr":
            value = getattr(self._module, str(node.target))
            if value.dtype not in _INTEGERS or not value.numel():
                return None
            return int(value.min()), int(value.max())
        if node.op != "call_function":
            return None
        first = self._first_of_arange(node)
        if first is not None:
            return first, first + max(self.max_size(node.meta["val"].shape[0]) - 1, 0)
        if _rearranges(node) or node.target in _CHOOSING:
            return self._bounds(node.args[0])
        if node.target in _REMAINDERS:
            divisor = self._bounds(node.args[1])
            return (0, divisor[1] - 1) if divisor and divisor[0] > 0 else None
        if node.target is aten.clamp.default:
            low, high = (*node.args[1:], None, None)[:2]
            return (low, high) if type(low) is int and type(high) is int and low <= high else None
        if node.target in _SUMS and node.kwargs.get("alpha", 1) == 1:
            left, right = self._bounds(node.args[0]), self._bounds(node.args[1])
            return (left[0] + right[0], left[1] + right[1]) if left and right else None
        if node.target is aten.where.self:
            left, right = self._bounds(node.args[1]), self._bounds(node.args[2])
            return (min(left[0], right[0]), max(left[1], right[1])) if left and right else None
        return None


def counts_from_end(write: Node) -> bool:
    """Whether a write takes negative positions, as an index_put does that was one from the start.

    Eager PyTorch refuses them in index_copy, which is decomposed to an index_put.
    """
    return write.target in INDEX_PUTS and str(write.meta.get("original_aten")) != _INDEX_COPY


def _rearranges(node: Node) -> bool:
    if node.target is aten._to_copy.default:
        return node.meta["val"].dtype in _INTEGERS and node.args[0].meta["val"].dtype in _INTEGERS
    if node.target is aten.slice.Tensor:  # of all there is
        return _is_single(node.args[0].meta["val"]) and _is_single(node.meta["val"])
    return node.target in _REARRANGING


def _is_single(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) and size == 1 for size in value.shape)
