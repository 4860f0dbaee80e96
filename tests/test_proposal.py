"""Partitions as they are proposed: acyclic, and no more of them than torch.fx finds."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import blobs, seeded
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.nn import functional

from executorch_tensorrt import CompileOptions, export
from executorch_tensorrt.partitioner.proposal import propose_partitions


def supported(*inputs: Node) -> torch.Tensor:
    raise NotImplementedError


def unsupported(*inputs: Node) -> torch.Tensor:
    raise NotImplementedError


def is_supported(node: Node) -> bool:
    while node.target is operator.getitem:
        node = node.args[0]
    return node.target is supported


class Support(OperatorSupportBase):
    def is_node_supported(self, submodules: object, node: Node) -> bool:
        return is_supported(node)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes that take some of those before them; some give tuples, whose elements others take."""
    graph = Graph()
    values = [graph.placeholder("x")]
    for _ in range(draw(st.integers(1, 25))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        kind = draw(st.sampled_from([supported, supported, unsupported]))
        node = graph.call_function(kind, tuple(inputs))
        if draw(st.integers(0, 4)) == 0:
            values += [graph.call_function(operator.getitem, (node, i)) for i in range(2)]
        else:
            values.append(node)
    graph.output(tuple(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))))
    return graph


def has_cycle(graph: Graph, partitions: Sequence[Sequence[Node]]) -> bool:
    """Whether partitions, each taken as one node, need each other's results."""
    place: dict[Node, object] = {node: node for node in graph.nodes}
    for index, nodes in enumerate(partitions):
        place.update(dict.fromkeys(nodes, index))
    needs: dict[object, set[object]] = {where: set() for where in place.values()}
    for node in graph.nodes:
        needs[place[node]] |= {place[arg] for arg in node.all_input_nodes} - {place[node]}
    while free := [where for where, needed in needs.items() if not needed]:
        for where in free:
            del needs[where]
        for needed in needs.values():
            needed.difference_update(free)
    return bool(needs)


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_every_supported_node_is_in_one_partition_and_none_need_each_other(graph: Graph) -> None:
    partitions = propose_partitions(graph, is_supported)
    nodes = [node for partition in partitions for node in partition]
    assert sorted(nodes, key=str) == sorted(filter(is_supported, graph.nodes), key=str)
    assert not has_cycle(graph, partitions)
    order = list(graph.nodes)
    for partition in partitions:
        assert partition == sorted(partition, key=order.index)


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_there_are_no_more_than_torch_finds(graph: Graph) -> None:
    module = GraphModule(torch.nn.Module(), graph)
    found = CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True)
    assert len(propose_partitions(graph, is_supported)) <= len(found.propose_partitions())


def test_a_node_between_two_supported_ones_makes_two_partitions_and_one_beside_them_none() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(supported, (x,))
    between = graph.call_function(unsupported, (first,))
    beside = graph.call_function(unsupported, (x,))
    second = graph.call_function(supported, (first, between))
    graph.output((second, beside))
    assert propose_partitions(graph, is_supported) == [[first], [second]]
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(supported, (x,))
    beside = graph.call_function(unsupported, (x,))
    second = graph.call_function(supported, (first, beside))
    graph.output((second,))
    assert propose_partitions(graph, is_supported) == [[first, second]]


def test_a_thousand_branches_around_unsupported_nodes_take_no_thousand_times_as_long() -> None:
    """Measured in calls of `is_supported`, as a clock would tell of the machine."""
    graph = Graph()
    value = graph.placeholder("x")
    for _ in range(1000):
        left = graph.call_function(supported, (value,))
        right = graph.call_function(unsupported, (value,))
        value = graph.call_function(supported, (left, right))
    graph.output((value,))
    asked = 0

    def count(node: Node) -> bool:
        nonlocal asked
        asked += 1
        return is_supported(node)

    assert len(propose_partitions(graph, count)) == 1000
    assert asked == len(graph.nodes)


class StandardizedConvolution(nn.Module):
    """A convolution whose weight is normalized in each call, as in timm's ResNetV2; a linear layer.

    The normalization gives a tuple of constants, of which the convolution takes one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.convolution.weight
        flat = weight.reshape(1, 8, -1)
        normal = functional.batch_norm(flat, None, None, training=True, momentum=0.0)
        y = functional.conv2d(x, normal.reshape_as(weight), self.convolution.bias)
        return self.head(y.mean((2, 3)))


def test_the_search_ends_where_an_element_of_a_tuple_is_refused() -> None:
    """Before decomposition no converter takes the convolution, and its weight would cross over."""
    options = CompileOptions(cpu_fallback=True)
    program = export(seeded(StandardizedConvolution), (torch.zeros(1, 3, 8, 8),), options=options)
    assert len(blobs(program)) == 1
