"""Which mutated buffers a partition can own, and keep in the delegate from call to call."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node


def own_mutated_buffers(program: ExportedProgram) -> dict[str, str]:
    """Tags the mutated buffers that one partition can own with its tag.

    Call it when the partitions' nodes and constants are tagged. A buffer that isn't tagged stays
    with the caller: the delegate takes its value as an input and gives the new one as an output,
    which ExecuTorch copies to it.

    Returns:
        For the name of each buffer that stays with the caller, why.
    """
    signature = program.graph_signature
    by_name = {node.name: node for node in program.graph.nodes}
    placeholders = {
        fqn: by_name[name]
        for name, fqn in signature.inputs_to_buffers.items()
        if fqn in signature.buffers_to_mutate.values()
    }
    left: dict[str, str] = {}
    for value_name, fqn in signature.buffers_to_mutate.items():
        buffer, value = placeholders[fqn], by_name[value_name]
        reason = _why_not(program, buffer, value)
        if reason is None:
            buffer.meta["delegation_tag"] = _tag(value)
        else:
            buffer.meta.pop("delegation_tag", None)
            left[fqn] = reason
    return left


def _why_not(program: ExportedProgram, buffer: Node, value: Node) -> str | None:
    """Why no partition can own a buffer whose new value is `value`; None if one can."""
    if value is buffer:
        return "it is never given a new value"
    tag, output = _tag(value), program.graph.output_node()
    if tag is None:
        return "its new value is not computed in a partition"
    if not buffer.users:
        return "its old value is never read"
    if output in buffer.users:
        return "its old value is an output of the program"
    if {_tag(user) for user in buffer.users} != {tag}:
        return "it is read outside the partition that writes it"
    if sum(result is value for result in output.args[0]) != 1:
        return "its new value is also another output of the program"
    if any(_tag(user) != tag for user in value.users if user is not output):
        return "its new value is used outside the partition that writes it"
    old, new = buffer.meta["val"], value.meta["val"]
    if not isinstance(new, torch.Tensor) or (old.dtype, old.shape) != (new.dtype, new.shape):
        return f"its new value has another dtype or shape: {_described(new)}, not {_described(old)}"
    if old.numel() == 0:
        return "it has no elements"
    return None


def _tag(node: Node) -> str | None:
    tag: str | None = node.meta.get("delegation_tag")
    return tag if node.op == "call_function" else None


def _described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__
