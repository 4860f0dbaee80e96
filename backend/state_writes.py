"""Writes to states: where they may go, what keeps them in bounds, and which are done in place.

Eager PyTorch raises when a position is out of bounds; an engine would write nowhere or anywhere.
So of every position that a state's new value depends on it is shown that it is in bounds, or the
runtime checks it before the call (where it is an input), or the engine itself does: it clamps the
positions and gives a guard, by whose word the runtime takes or drops the new values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .aten_graph import insert_call
from .in_place_writes import InPlaceWrite, find_in_place_write
from .positions import INDEX_PUTS, Positions, counts_from_end

aten = torch.ops.aten

_SCATTERS = {
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter.reduce,
    aten.scatter.value_reduce,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
}
_INDEX_WRITES = {aten.index_copy.default, aten.index_add.default, aten.index_fill.int_Scalar}


@dataclass(frozen=True)
class PositionCheck:
    """As the delegate blob's `IndexCheck`, of the graph's tensor inputs."""

    input: int
    least: int
    greatest: int
    extent: tuple[int, int] | None = None
    contiguous: bool = False


@dataclass(frozen=True)
class Guarded:
    """A write's positions, by their place among its arguments, that the engine checks itself."""

    write: Node
    path: tuple[int, ...]
    least: int
    greatest: int


@dataclass(frozen=True)
class WritePlan:
    """What the writes to a partition's states need; nodes are those of the planned graph.

    Attributes:
        checks: What the runtime checks of inputs, with the state's name.
        guarded: What the guard is made of; empty: there is none.
        in_place: By the place of a state among the states, how it is written in place.
    """

    checks: Mapping[PositionCheck, str] = field(default_factory=dict)
    guarded: tuple[Guarded, ...] = ()
    in_place: Mapping[int, InPlaceWrite] = field(default_factory=dict)


def plan_writes(
    module: GraphModule,
    names: Sequence[str],
    max_size: Callable[[Any], int],
    *,
    contiguous_positions: bool,
) -> WritePlan:
    """Looks at every write that a state's new value depends on.

    Args:
        module: An ATen graph of tensor inputs, then states; of outputs, then new values.
        names: The states' names.
        max_size: The largest value of a size under any profile.
        contiguous_positions: The user says that positions given as an input count up by ones.
    """
    module.graph.eliminate_dead_code()
    placeholders = list(module.graph.find_nodes(op="placeholder"))
    first = len(placeholders) - len(names)
    results = module.graph.output_node().args[0]
    new_values = results[len(results) - len(names) :]
    positions = Positions(module, placeholders[:first], max_size)
    in_place = {
        index: write
        for index, (state, value) in enumerate(zip(placeholders[first:], new_values, strict=True))
        if (write := find_in_place_write(state, value, positions, contiguous_positions))
    }
    checks, guarded = _checks(module, names, new_values, positions, in_place)
    if guarded and in_place:
        # A false guard must leave every state as it was.
        in_place = {}
        checks, guarded = _checks(module, names, new_values, positions, in_place)
    return WritePlan(checks, tuple(guarded), in_place)


def _checks(
    module: GraphModule,
    names: Sequence[str],
    new_values: Sequence[Node],
    positions: Positions,
    in_place: Mapping[int, InPlaceWrite],
) -> tuple[dict[PositionCheck, str], list[Guarded]]:
    checks: dict[PositionCheck, str] = {}
    guarded: list[Guarded] = []
    seen: set[Node] = set()
    for index, (name, value) in enumerate(zip(names, new_values, strict=True)):
        if index in in_place:
            check = in_place[index].check
            if check is not None:
                checks.setdefault(PositionCheck(*check), name)
        for write in _ancestors(value):
            if write in seen or (index in in_place and write is value):
                continue
            seen.add(write)
            for path, least, greatest in _written_positions(write):
                node = _at(write, path)
                if positions.are_within(node, least, greatest):
                    continue
                found = positions.check_of(node, least, greatest)
                if found is None:
                    guarded.append(Guarded(write, path, least, greatest))
                else:
                    checks.setdefault(PositionCheck(*found), name)
    return checks, guarded


def _ancestors(node: Node) -> list[Node]:
    """A node and all that its value is computed from."""
    found, waiting = {node: None}, [node]
    while waiting:
        for arg in waiting.pop().all_input_nodes:
            if arg not in found:
                found[arg] = None
                waiting.append(arg)
    return list(found)


def _written_positions(node: Node) -> list[tuple[tuple[int, ...], int, int]]:
    """Of a write, the place of each tensor of positions, its least and its greatest position."""
    if node.op != "call_function":
        return []
    if node.target in INDEX_PUTS:
        sizes = node.args[0].meta["val"].shape
        return [
            ((1, dim), -sizes[dim] if counts_from_end(node) else 0, sizes[dim] - 1)
            for dim, index in enumerate(node.args[1])
            if index is not None and index.meta["val"].dtype in (torch.int32, torch.int64)
        ]
    if node.target in _SCATTERS or node.target in _INDEX_WRITES:
        shape = node.args[0].meta["val"].shape
        size = shape[node.args[1]] if len(shape) else 1
        return [((2,), 0, size - 1)]
    return []


def _at(node: Node, path: Sequence[int]) -> Node:
    value: Any = node.args
    for step in path:
        value = value[step]
    found: Node = value
    return found


def of_originals(guarded: Sequence[Guarded], nodes: Mapping[Node, Node]) -> tuple[Guarded, ...]:
    """What is guarded in a copied graph, by the nodes that were copied."""
    originals = {copied: node for node, copied in nodes.items()}
    return tuple(replace(item, write=originals[item.write]) for item in guarded)


def add_guard(module: GraphModule, guarded: Sequence[Guarded], nodes: Mapping[Node, Node]) -> None:
    """Clamps the positions of writes, and adds an output that says whether that changed any.

    Args:
        module: A copy of a partition's graph.
        guarded: Nodes of the partition.
        nodes: The copy of each of them.
    """
    graph = module.graph
    conditions: list[Node] = []
    clamped: dict[tuple[Node, int, int], Node] = {}
    for item in guarded:
        write = nodes[item.write]
        index = _at(write, item.path)
        key = (index, item.least, item.greatest)
        if key not in clamped:
            with graph.inserting_before(write):
                flat = insert_call(graph, aten.reshape.default, (index, [-1]))
                low = insert_call(graph, aten.amin.default, (flat, [0], True))
                high = insert_call(graph, aten.amax.default, (flat, [0], True))
                above = insert_call(graph, aten.ge.Scalar, (low, item.least))
                below = insert_call(graph, aten.le.Scalar, (high, item.greatest))
                conditions.append(insert_call(graph, aten.logical_and.default, (above, below)))
                clamped[key] = insert_call(
                    graph, aten.clamp.default, (index, item.least, item.greatest)
                )
        write.args = _replaced(write.args, item.path, clamped[key])
    output = graph.output_node()
    with graph.inserting_before(output):
        guard = conditions[0]
        for condition in conditions[1:]:
            guard = insert_call(graph, aten.logical_and.default, (guard, condition))
    output.args = ([*output.args[0], guard],)
    module.recompile()


def _replaced(arguments: Any, path: Sequence[int], value: Node) -> Any:
    items = list(arguments)
    items[path[0]] = _replaced(items[path[0]], path[1:], value) if len(path) > 1 else value
    return tuple(items) if isinstance(arguments, tuple) else items
