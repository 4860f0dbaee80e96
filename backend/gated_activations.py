"""Linear layers gated by GELU or ReLU, whose bias TensorRT-RTX 1.6 leaves out."""

from __future__ import annotations

import math
import operator
import re

import torch
from torch.fx import GraphModule, Node

from .aten_graph import VIEWS, insert_call
from .delegate_blob import Flavour
from .engine import EngineBuildError
from .tensorrt_import import import_tensorrt

aten = torch.ops.aten

_ACTIVATIONS = {aten.gelu.default, aten.relu.default}
_LINEAR = {
    aten.linear.default,
    aten.addmm.default,
    aten.mm.default,
    aten.bmm.default,
    aten.matmul.default,
}
# A gate is often a part of one linear layer's result, and the bias may be added on its own.
_PASSED = VIEWS | {
    aten.add.Tensor,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.chunk.default,
    aten.squeeze.dims,
    aten._to_copy.default,
}

# TensorRT-RTX writes a description of its kernels into the engine. Of a matrix product whose bias
# is its own, rather than an addition that is fused to it, the answers lack the bias.
_LOST_BIAS = re.compile(rb"fully_connected=\{ name=\"([^\"\n]*)\"[^\n]* bias=true")
_LOSES_BIASES = (1, 6)  # up to this version; newer ones are not known to
_BLOCK_BYTES = 1 << 24
_OVERLAP_BYTES = 1 << 16


def spell_out_gates(module: GraphModule) -> None:
    """Computes gates of linear layers from smaller operators, with the same result.

    Of `value * gelu(gate)`, both with a bias, TensorRT-RTX 1.6 makes a matrix product that is to
    add the bias itself; its answers lacked it on a GPU of compute capability 9.0. Of ReLU likewise.
    Of a product with smaller operators, as with SiLU, it makes an addition that is fused to the
    matrix product, whose answers were right. They are computed in float32.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.target in _ACTIVATIONS and _multiplies(node) and _comes_from_linear(node.args[0]):
            with graph.inserting_before(node):
                gate = _spelled_out(graph, node)
            node.replace_all_uses_with(gate)
            graph.erase_node(node)
    module.recompile()


def refuse_lost_bias(plan: memoryview) -> None:
    """Refuses an engine that leaves out a bias all the same.

    Raises:
        EngineBuildError: The engine does; the message names the layer.
    """
    tensorrt = import_tensorrt()
    if tensorrt.flavour is not Flavour.TENSORRT_RTX or tensorrt.version[:2] > _LOSES_BIASES:
        return
    for start in range(0, len(plan), _BLOCK_BYTES):
        block = bytes(plan[start : start + _BLOCK_BYTES + _OVERLAP_BYTES])
        if b" bias=true" in block and (found := _LOST_BIAS.search(block)):
            raise EngineBuildError(
                f"TensorRT-RTX {'.'.join(map(str, tensorrt.version))} made an engine that leaves "
                f"out the bias of '{found.group(1).decode(errors='replace')}', a fault of its own: "
                "keep the activation behind it on the CPU (CompileOptions.cpu_operators)"
            )


def _multiplies(node: Node) -> bool:
    return any(
        (user.target is aten.mul.Tensor and all(isinstance(arg, Node) for arg in user.args))
        or (user.target in _PASSED and user.target is not aten.add.Tensor and _multiplies(user))
        for user in node.users
    )


def _comes_from_linear(node: Node) -> bool:
    while node.op == "call_function" and node.target not in _LINEAR:
        if node.target not in _PASSED and node.target is not operator.getitem:
            return False
        node = node.args[0]
    return bool(node.op == "call_function")


def _spelled_out(graph: torch.fx.Graph, node: Node) -> Node:
    given, dtype = node.args[0], node.meta["val"].dtype

    def call(target: torch._ops.OpOverload, *args: object, **kwargs: object) -> Node:
        return insert_call(graph, target, args, **kwargs)

    x = given
    if dtype != torch.float32:
        x = call(aten._to_copy.default, given, dtype=torch.float32)
    if node.target is aten.relu.default:
        negative = call(aten.lt.Scalar, x, 0.0)
        result = call(aten.where.self, negative, call(aten.full_like.default, x, 0.0), x)
    else:
        if node.kwargs.get("approximate", "none") == "tanh":
            cube = call(aten.mul.Tensor, call(aten.mul.Tensor, x, x), x)
            inner = call(aten.add.Tensor, x, call(aten.mul.Tensor, cube, 0.044715))
            part = call(aten.tanh.default, call(aten.mul.Tensor, inner, math.sqrt(2 / math.pi)))
        else:
            part = call(aten.erf.default, call(aten.mul.Tensor, x, math.sqrt(0.5)))
        weight = call(aten.mul.Tensor, call(aten.add.Tensor, part, 1.0), 0.5)
        result = call(aten.mul.Tensor, x, weight)
    if dtype != torch.float32:
        result = call(aten._to_copy.default, result, dtype=dtype)
    return result
