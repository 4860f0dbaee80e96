"""Proposes partitions: which supported nodes can become one subgraph."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable

from torch.fx import Graph, Node


def propose_partitions(graph: Graph, is_supported: Callable[[Node], bool]) -> list[list[Node]]:
    """The supported nodes in as few partitions as there can be, each in the graph's order.

    A node's level is how often, at most, a path from it to the graph's end leaves supported nodes
    and comes back to some. The supported nodes of one level are a partition: a path that leaves it
    goes on to lower levels only, so that no two partitions need each other's results. Elements of
    a tuple are where it is made. Takes time in proportion to the graph, where torch.fx's
    CapabilityBasedPartitioner took minutes for a T5 of two layers.
    """
    level: dict[Node, int] = {}
    supported: set[Node] = set()
    for node in reversed(graph.nodes):
        if is_supported(node):
            supported.add(node)
            level[node] = max((level[user] for user in node.users), default=0)
        else:
            after = (level[user] + (user in supported) for user in node.users)
            level[node] = max(after, default=0)
    partitions: dict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        made = maker(node)
        if made in supported:
            partitions[level[made]].append(node)
    return list(partitions.values())


def maker(node: Node) -> Node:
    """Of an element, the node whose tuple it is from; any other node itself."""
    while node.target is operator.getitem:
        node = node.args[0]
    return node
