"""A method's partitions, and the reasons of what is outside, as a report."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from torch.export import ExportedProgram
from torch.fx import Node

from executorch_tensorrt.backend.aten_graph import target_name
from executorch_tensorrt.backend.partition_report import MethodReport, Outside

from .node_support import is_computation

_FRAME = re.compile(r'File "([^"]*)", line (\d+)')


def method_report(
    program: ExportedProgram,
    partitions: Sequence[Sequence[Node]],
    reasons: Mapping[Node, str],
) -> MethodReport:
    """The report of an edge program that is partitioned so."""
    inside = {node for nodes in partitions for node in nodes}
    groups: dict[tuple[str, str, bool], list[Node]] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or node in inside or node.target is operator.getitem:
            continue
        key = (target_name(node.target), reasons.get(node, ""), not is_computation(node))
        groups.setdefault(key, []).append(node)
    outside = [
        Outside(name, reason, tuple(node.name for node in nodes), _sources(nodes), is_size)
        for (name, reason, is_size), nodes in groups.items()
    ]
    return MethodReport(
        partitions=tuple(
            dict(Counter(target_name(node.target) for node in nodes if is_computation(node)))
            for nodes in partitions
        ),
        outside=tuple(sorted(outside, key=lambda item: (item.is_size, -item.count))),
    )


def _sources(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(_source, nodes))))


def _source(node: Node) -> str:
    """Where the model called it: the submodule, and the file's name (no folder) and line."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    line = "{}:{}".format(frames[-1][0].rsplit("/", 1)[-1], frames[-1][1]) if frames else ""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = str(stack[-1][0]) if stack else ""
    return f"{module} ({line})" if module and line else module or line
