"""The mutable buffers that a partition owns, and its graph with them as inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch._export.utils import get_buffer
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node

from .aten_graph import is_constant


@dataclass(frozen=True)
class OwnedState:
    """A mutated buffer that a partition owns.

    Attributes:
        name: Its fully qualified name in the module.
        input: The partition's placeholder that holds the old value.
        output: The partition's node that computes the new value.
        initial: The first value, on the CPU and contiguous.
    """

    name: str
    input: Node
    output: Node
    initial: torch.Tensor = field(repr=False)

    def initial_bytes(self) -> bytes | None:
        """The first value, row-major; None if every byte of it is zero."""
        data = self.initial.reshape(-1).view(torch.uint8)
        return data.numpy().tobytes() if bool(data.any()) else None


def owned_states(partition: ExportedProgram) -> tuple[OwnedState, ...]:
    """The states of a partition as ExecuTorch cut it out, in the order of its outputs.

    Raises:
        ValueError: A buffer has no value.
    """
    signature = partition.graph_signature
    nodes = {node.name: node for node in partition.graph.nodes}
    inputs = {fqn: nodes[name] for name, fqn in signature.inputs_to_buffers.items()}
    states = []
    for spec in signature.output_specs:
        if spec.kind is not OutputKind.BUFFER_MUTATION:
            continue
        name = str(spec.target)
        value = get_buffer(partition, inputs[name])
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"buffer '{name}' of the program has no value: {value!r}")
        initial = value.detach().cpu().contiguous()
        states.append(OwnedState(name, inputs[name], nodes[spec.arg.name], initial))
    return tuple(states)


def user_inputs(partition: ExportedProgram) -> list[Node]:
    """The delegate call's inputs: placeholders that are neither constants nor states."""
    owned = {state.input for state in owned_states(partition)}
    return [
        node
        for node in partition.graph.find_nodes(op="placeholder")
        if node not in owned and not is_constant(partition, node)
    ]


def user_outputs(partition: ExportedProgram) -> list[Node]:
    """The delegate call's outputs: what the partition gives that is no state's new value."""
    return [
        node
        for node, spec in zip(
            partition.graph.output_node().args[0],
            partition.graph_signature.output_specs,
            strict=True,
        )
        if spec.kind is not OutputKind.BUFFER_MUTATION
    ]


def put_states_last(
    partition: ExportedProgram, module: GraphModule, nodes: Mapping[Node, Node]
) -> None:
    """Orders a copy of the partition's graph: inputs, then states; outputs, then new values.

    Args:
        partition: The partition.
        module: An `aten_graph` of it.
        nodes: Its node for each node of the partition.
    """
    graph, states = module.graph, owned_states(partition)
    placeholders = list(graph.find_nodes(op="placeholder"))
    owned = [nodes[state.input] for state in states]
    _move_behind([node for node in placeholders if node not in owned], owned)
    results = [nodes[node] for node in user_outputs(partition)]
    new_values = [nodes[state.output] for state in states]
    graph.output_node().args = ([*results, *new_values],)
    module.recompile()


def _move_behind(first: Sequence[Node], moved: Sequence[Node]) -> None:
    if not first:
        return
    last = first[-1]
    for node in moved:
        last.append(node)
        last = node
