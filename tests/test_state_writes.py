"""What is known of a write's positions: checked of an input, guarded, or in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from executorch_tensorrt.backend.aten_graph import insert_call
from executorch_tensorrt.backend.in_place_writes import kv_cache_update, write_in_place
from executorch_tensorrt.backend.state_writes import (
    PositionCheck,
    WritePlan,
    add_guard,
    plan_writes,
)

aten = torch.ops.aten


def written(
    inputs: dict[str, torch.Tensor], state: torch.Tensor, write: Callable[..., Any]
) -> tuple[GraphModule, list[Node]]:
    """A graph of inputs and one state, whose only output is what `write(graph, ...)` gives."""
    graph, mode, nodes = Graph(), FakeTensorMode(), []
    for name, value in {**inputs, "state": state}.items():
        node = graph.placeholder(name)
        node.meta["val"] = mode.from_tensor(value)
        nodes.append(node)
    graph.output([write(graph, *nodes)])
    return GraphModule(torch.nn.Module(), graph), nodes


def plan(module: GraphModule, *, contiguous: bool = False) -> WritePlan:
    return plan_writes(module, ["cache"], int, contiguous_positions=contiguous)


ROWS, CACHE = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 8, 4)
POSITIONS = torch.zeros(3, dtype=torch.int64)


def at_positions(graph: Graph, rows: Node, positions: Node, state: Node) -> Node:
    return insert_call(graph, aten.index_put.default, (state, [None, None, positions], rows))


def test_positions_that_are_an_input_are_checked_of_it() -> None:
    module, _ = written({"rows": ROWS, "positions": POSITIONS}, CACHE, at_positions)
    found = plan(module)
    assert dict(found.checks) == {PositionCheck(1, -8, 7): "cache"}
    assert not found.guarded
    assert not found.in_place


def test_positions_that_are_said_to_count_up_are_written_in_place() -> None:
    module, nodes = written({"rows": ROWS, "positions": POSITIONS}, CACHE, at_positions)
    found = plan(module, contiguous=True)
    assert dict(found.checks) == {PositionCheck(1, 0, 7, contiguous=True): "cache"}
    write_in_place(module, nodes[-1:], found.in_place)
    [layer] = module.graph.find_nodes(op="call_function", target=kv_cache_update)
    assert module.graph.output_node().args[0] == [layer]


def test_a_state_whose_old_value_is_read_is_not_written_in_place() -> None:
    def write(graph: Graph, rows: Node, positions: Node, state: Node) -> Node:
        old = insert_call(graph, aten.sum.default, (state,))
        new = at_positions(graph, rows, positions, state)
        return insert_call(graph, aten.add.Tensor, (new, old))

    module, _ = written({"rows": ROWS, "positions": POSITIONS}, CACHE, write)
    assert not plan(module, contiguous=True).in_place


def test_rows_from_a_start_are_written_in_place_with_a_last_start_for_all_of_them() -> None:
    def write(graph: Graph, rows: Node, start: Node, state: Node) -> Node:
        counting = insert_call(graph, aten.arange.default, (3,), dtype=torch.int64)
        positions = insert_call(graph, aten.add.Tensor, (counting, start))
        return insert_call(graph, aten.index_put.default, (state, [None, positions], rows))

    inputs = {"rows": torch.zeros(2, 3, 4), "start": torch.zeros(1, dtype=torch.int32)}
    module, nodes = written(inputs, torch.zeros(2, 8, 4), write)
    found = plan(module)
    assert dict(found.checks) == {PositionCheck(1, 0, 5): "cache"}
    write_in_place(module, nodes[-1:], found.in_place)
    # The layer's dim of positions is the third, and there are as many starts as the first has.
    assert tuple(nodes[-1].meta["val"].shape) == (2, 1, 8, 4)
    [layer] = module.graph.find_nodes(op="call_function", target=kv_cache_update)
    assert [tuple(arg.meta["val"].shape) for arg in layer.args[1:]] == [(2, 1, 3, 4), (2,)]


def test_positions_that_are_computed_are_guarded_and_clamped() -> None:
    def write(graph: Graph, rows: Node, positions: Node, state: Node) -> Node:
        twice = insert_call(graph, aten.mul.Tensor, (positions, positions))
        return at_positions(graph, rows, twice, state)

    module, _ = written({"rows": ROWS, "positions": POSITIONS}, CACHE, write)
    found = plan(module, contiguous=True)
    assert not found.checks
    assert not found.in_place
    add_guard(module, found.guarded, {node: node for node in module.graph.nodes})
    module.recompile()
    state = torch.zeros(1, 2, 8, 4)
    for positions, right in (([0, 1, 2], True), ([0, 2, 3], False), ([2, 2, -2], True)):
        _, guard = module(torch.ones(1, 2, 3, 4), torch.tensor(positions), state)
        assert guard.tolist() == [right]


def test_remainders_need_no_check() -> None:
    def write(graph: Graph, rows: Node, positions: Node, state: Node) -> Node:
        wrapped = insert_call(graph, aten.remainder.Scalar, (positions, 8))
        return at_positions(graph, rows, wrapped, state)

    module, _ = written({"rows": ROWS, "positions": POSITIONS}, CACHE, write)
    assert plan(module) == WritePlan()


def test_a_guard_and_writes_in_place_do_not_go_together() -> None:
    """A guard that says no would come too late for what was written in place."""

    def write(graph: Graph, rows: Node, positions: Node, other: Node, state: Node) -> Node:
        del other
        return at_positions(graph, rows, positions, state)

    module, nodes = written({"rows": ROWS, "positions": POSITIONS, "other": CACHE}, CACHE, write)
    graph, (rows, positions, other, _) = module.graph, nodes
    with graph.inserting_before(graph.output_node()):
        twice = insert_call(graph, aten.mul.Tensor, (positions, positions))
        new = at_positions(graph, rows, twice, other)
    # `other` becomes a second state, before the first.
    nodes[-1].prepend(other)
    graph.output_node().args = ([new, *graph.output_node().args[0]],)
    found = plan_writes(module, ["other", "cache"], int, contiguous_positions=True)
    assert found.guarded
    assert not found.in_place
    assert dict(found.checks) == {PositionCheck(1, -8, 7): "cache"}
