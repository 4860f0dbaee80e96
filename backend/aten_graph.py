"""Edge programs back to the ATen operators that Torch-TensorRT's converters and passes expect."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._export.utils import (
    get_buffer,
    get_lifted_tensor_constant,
    get_param,
    is_buffer,
    is_lifted_tensor_constant,
    is_param,
)
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from .symbol_ranges import size_expr

aten = torch.ops.aten

# Functional operators whose name ends in _copy but that copy nothing of a view.
_NOT_VIEW_COPIES = {"_to_copy", "index_copy", "_reshape_copy"}
# Other shapes of a tensor, or parts of it.
VIEWS = {
    aten.view.default,
    aten.reshape.default,
    aten.permute.default,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.clone.default,
}


def is_edge_program(program: ExportedProgram) -> bool:
    """Whether a program is past ExecuTorch's conversion to the edge dialect."""
    return bool(program.dialect == "EDGE")


def raw_target(target: Any) -> Any:
    """The operator inside an edge dialect operator; anything else as it is."""
    return target._op if isinstance(target, EdgeOpOverload) else target


def target_name(target: Any) -> str:
    """A target's name for messages, such as `aten.add.Tensor`."""
    target = raw_target(target)
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return str(getattr(target, "__name__", target))


def node_values(node: Node) -> list[Any]:
    """What a node gives, as a flat list of fake tensors, sizes or None."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, list | tuple) else [value]


def mutated_inputs(program: ExportedProgram) -> set[str]:
    """Names of placeholders whose buffer the program writes; they are no constants."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    return {name for name, fqn in signature.inputs_to_buffers.items() if fqn in mutated}


def is_constant(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a parameter, an unwritten buffer or a lifted constant of the program."""
    return node.op == "placeholder" and (
        is_param(program, node)
        or is_lifted_tensor_constant(program, node)
        or (is_buffer(program, node) and node.name not in mutated_inputs(program))
    )


def constant_value(program: ExportedProgram, node: Node) -> torch.Tensor:
    """The tensor behind a node for which `is_constant` holds, detached."""
    if is_param(program, node):
        value = get_param(program, node)
    elif is_buffer(program, node):
        value = get_buffer(program, node)
    else:
        value = get_lifted_tensor_constant(program, node)
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"constant '{node.name}' of the program has no value: {value!r}")
    return value.detach()


def aten_graph(
    program: ExportedProgram, *, constants_as_attributes: bool
) -> tuple[GraphModule, dict[Node, Node]]:
    """A copy of an edge or ATen program's graph in ATen operators, and its node for each node.

    Args:
        program: The program; its graph is left as it is.
        constants_as_attributes: Constants become attributes of the module; else they stay
            placeholders.
    """
    graph, root, env = Graph(), torch.nn.Module(), dict[Node, Node]()
    constants = (
        {node for node in program.graph.nodes if is_constant(program, node)}
        if constants_as_attributes
        else set()
    )
    for node in program.graph.nodes:
        if node in constants:
            name = f"constant_{len(root._buffers)}"
            root.register_buffer(name, constant_value(program, node))
            copy = graph.get_attr(name)
        elif node.op == "call_function":
            target, args, kwargs = _as_aten(node)
            copy = graph.create_node(
                "call_function",
                target,
                torch.fx.node.map_arg(args, lambda arg: env[arg]),
                torch.fx.node.map_arg(kwargs, lambda arg: env[arg]),
                node.name,
            )
        else:
            if node.op == "get_attr":  # a branch of control flow
                root.add_module(node.target, program.graph_module.get_submodule(node.target))
            copy = graph.node_copy(node, lambda arg: env[arg])
        copy.meta = dict(node.meta)
        copy.meta.pop("delegation_tag", None)
        add_tensor_metadata(copy)
        env[node] = copy
    return GraphModule(root, graph), env


def add_tensor_metadata(node: Node) -> None:
    """Sets `tensor_meta`, which some of Torch-TensorRT's passes read beside `val`."""
    values = node.meta.get("val")
    if isinstance(values, torch.Tensor):
        node.meta["tensor_meta"] = _extract_tensor_metadata(values)
    elif isinstance(values, list | tuple):
        node.meta["tensor_meta"] = tuple(
            _extract_tensor_metadata(value) if isinstance(value, torch.Tensor) else None
            for value in values
        )


def insert_call(graph: Any, target: Any, args: tuple[Any, ...], **kwargs: Any) -> Node:
    """Inserts a call, with the metadata that the passes and converters after this read."""
    node: Node = graph.call_function(target, args, kwargs)

    def value(arg: Any) -> Any:
        return arg.meta["val"] if isinstance(arg, Node) else arg

    with _fake_mode(graph, node):
        node.meta["val"] = target(
            *torch.fx.node.map_arg(args, value), **torch.fx.node.map_arg(kwargs, value)
        )
    add_tensor_metadata(node)
    return node


def insert_constant(module: GraphModule, name: str, value: torch.Tensor) -> Node:
    """Inserts a constant, with that metadata; `name` is the attribute that keeps it."""
    module.register_buffer(name, value)
    node = module.graph.get_attr(name)
    node.meta["val"] = _fake_mode(module.graph, node).from_tensor(value)
    add_tensor_metadata(node)
    return node


def _fake_mode(graph: Graph, node: Node) -> Any:
    """The mode that a node's value is computed in: its arguments', else some other node's."""
    for other in (*node.all_input_nodes, *graph.nodes):
        mode = getattr(other.meta.get("val"), "fake_mode", None)
        if mode is not None:
            return mode
    return contextlib.nullcontext()


def _as_aten(node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Target, args and kwargs for which a converter is registered, with the node's meaning."""
    target, args, kwargs = raw_target(node.target), node.args, dict(node.kwargs)
    name = str(target)
    if name.startswith("dim_order_ops."):
        kwargs.pop("dim_order", None)
        if "_to_dim_order_copy" in name:
            target = aten._to_copy.default
        elif "_clone_dim_order" in name:
            target = aten.clone.default
        elif "_empty_dim_order" in name:
            target = aten.empty.memory_format
    target = _without_copy(target)
    if target is aten._to_copy.default:
        # Device, layout and memory format mean nothing to an engine.
        kwargs = {"dtype": kwargs["dtype"]} if kwargs.get("dtype") is not None else {}
        target = target if kwargs else aten.clone.default
    if target in (aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default):
        target = aten.clone.default
    if target is aten.clone.default:
        return target, args[:1], {}
    if target is aten.view.default:
        return aten.reshape.default, args, kwargs
    if target in (aten.transpose.int, aten.t.default):
        return aten.permute.default, (args[0], _transposed(node, args)), {}
    if target is aten.squeeze.dim:
        return aten.squeeze.dims, (args[0], [args[1]]), {}
    if target in _GLOBAL_POOLS and all(size == 1 for size in args[1]):
        dims = list(range(-len(args[1]), 0))
        return aten.mean.dim, (args[0], dims, True), {}
    if target is aten.copy.default:
        return _copied(node, args) or (target, args, kwargs)
    return target, args, kwargs


_GLOBAL_POOLS = {
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool2d.default,
}


def _without_copy(target: Any) -> Any:
    """aten.view for aten.view_copy, and so on for every view operator's copying variant."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return target
    name = target._schema.name.removeprefix("aten::")
    if not name.endswith("_copy") or name in _NOT_VIEW_COPIES:
        return target
    packet = getattr(aten, name.removesuffix("_copy"), None)
    if packet is None or target._overloadname not in packet.overloads():
        return target
    return getattr(packet, target._overloadname)


def _transposed(node: Node, args: tuple[Any, ...]) -> list[int]:
    rank = node.meta["val"].dim()
    order = list(range(rank))
    first, second = (args[1] % rank, args[2] % rank) if len(args) == 3 else (0, rank - 1)
    if rank:
        order[first], order[second] = order[second], order[first]
    return order


def _copied(node: Node, args: tuple[Any, ...]) -> Any:
    """What a functional copy does to its source alone; None where that is two things at once."""
    into, source = node.args[0].meta["val"], node.args[1].meta["val"]
    same_shape = [*map(size_expr, into.shape)] == [*map(size_expr, source.shape)]
    if same_shape and into.dtype == source.dtype:
        return aten.clone.default, (args[1],), {}
    if same_shape:
        return aten._to_copy.default, (args[1],), {"dtype": into.dtype}
    static = not any(isinstance(size, torch.SymInt) for size in into.shape)
    if static and into.dtype == source.dtype:
        return aten.expand.default, (args[1], list(into.shape)), {}
    return None
