"""Converters that Torch-TensorRT lacks, or whose results are not what PyTorch's are.

Each takes what Torch-TensorRT's converters take: the conversion context, and the node's target,
arguments (TensorRT tensors, constants and numbers), keyword arguments and name.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import Node

from .converters import SourceIR, get_trt_tensor, impl, trt, trt_dtype
from .in_place_writes import kv_cache_update
from .write_converters import (
    index_copy,
    index_put,
    slice_scatter,
    takes_index_copy,
    takes_index_put,
    takes_slice,
    update_kv_cache,
)

aten = torch.ops.aten

Converter: TypeAlias = Callable[[Any, Any, tuple[Any, ...], dict[str, Any], str], Any]


def cumsum(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Torch-TensorRT's own loops in float32, where integers above 2**24 are no longer exact."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    tensor = _cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), value.dtype)
    axis = _constant(net, torch.tensor(args[1] % value.dim(), dtype=torch.int32))
    layer = net.add_cumulative(tensor, axis, trt.CumulativeOperation.SUM, False, False)
    return layer.get_output(0)


def log_softmax(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """x - max - log(sum(exp(x - max))), in float32."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    tensor = _cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), torch.float32)
    axes = 1 << (args[1] % value.dim())
    greatest = _reduce(net, tensor, trt.ReduceOperation.MAX, axes)
    shifted = _combine(net, tensor, greatest, trt.ElementWiseOperation.SUB)
    powers = net.add_unary(shifted, trt.UnaryOperation.EXP).get_output(0)
    total = _reduce(net, powers, trt.ReduceOperation.SUM, axes)
    log = net.add_unary(total, trt.UnaryOperation.LOG).get_output(0)
    return _cast(net, _combine(net, shifted, log, trt.ElementWiseOperation.SUB), value.dtype)


def var(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """The mean squared distance from the mean, of n - correction values, in float32."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    tensor = _cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), torch.float32)
    rank = len(tensor.shape)
    given = args[1] if len(args) > 1 else kwargs.get("dim")
    dims = [dim % rank for dim in given] if given else list(range(rank))
    correction = kwargs.get("correction")
    axes = sum(1 << dim for dim in dims)
    mean = _reduce(net, tensor, trt.ReduceOperation.AVG, axes)
    distance = _combine(net, tensor, mean, trt.ElementWiseOperation.SUB)
    square = _combine(net, distance, distance, trt.ElementWiseOperation.PROD)
    count = _count(net, tensor, dims, 1 if correction is None else correction)
    part = _combine(net, square, count, trt.ElementWiseOperation.DIV)
    keep = bool(kwargs.get("keepdim", False))
    total = net.add_reduce(part, trt.ReduceOperation.SUM, axes, keep).get_output(0)
    return _cast(net, total, value.dtype)


def full_like(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """One number, broadcast to the shape of a tensor."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    rank = value.dim()
    number = _constant(net, torch.full((1,) * rank, args[1], dtype=value.dtype))
    if rank == 0:
        return number
    shape = net.add_shape(get_trt_tensor(ctx, args[0], f"{name}_input")).get_output(0)
    layer = net.add_slice(number, (0,) * rank, (0,) * rank, (0,) * rank)
    layer.set_input(2, shape)
    return layer.get_output(0)


def size_remainder(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Torch-TensorRT's own has the sign of the dividend, as C's %; Python's has the divisor's."""
    left, right = args
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    net = ctx.net
    left, right = _size(net, left), _size(net, right)
    quotient = _combine(net, left, right, trt.ElementWiseOperation.FLOOR_DIV)
    whole = _combine(net, quotient, right, trt.ElementWiseOperation.PROD)
    return _combine(net, left, whole, trt.ElementWiseOperation.SUB)


def scaled_sum(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """a + alpha * b; Torch-TensorRT's own gives two layers one name."""
    scaled = impl.elementwise.mul(
        ctx, target, SourceIR.ATEN, f"{name}_scaled", args[1], kwargs["alpha"]
    )
    return impl.elementwise.add(ctx, target, SourceIR.ATEN, name, args[0], scaled)


def _is_scaled(node: Node) -> bool:
    return bool(node.kwargs.get("alpha", 1) != 1)


def _has_rank(node: Node) -> bool:
    return bool(node.args[0].meta["val"].dim() > 0)


def _is_number_of_its_tensor(node: Node) -> bool:
    return isinstance(node.args[1], int | float) and node.meta["val"].dtype not in (
        torch.uint8,
        torch.float64,
    )


# For each operator its converter, and which nodes of it the converter takes.
OWN_CONVERTERS: Mapping[Any, tuple[Converter, Callable[[Node], bool]]] = {
    operator.mod: (size_remainder, lambda node: True),
    aten.cumsum.default: (cumsum, _has_rank),
    aten._log_softmax.default: (log_softmax, _has_rank),
    aten.var.correction: (var, _has_rank),
    aten.full_like.default: (full_like, _is_number_of_its_tensor),
    aten.add.Tensor: (scaled_sum, _is_scaled),
    aten.index_put.default: (index_put, takes_index_put),
    aten.index_copy.default: (index_copy, takes_index_copy),
    aten.slice_scatter.default: (slice_scatter, takes_slice),
    kv_cache_update: (update_kv_cache, lambda node: True),
}


# Where Torch-TensorRT's own converter takes the nodes that ours doesn't.
SHARED = {aten.add.Tensor}


def _constant(net: Any, value: torch.Tensor) -> Any:
    array = value.numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
    tensor = net.add_constant(tuple(value.shape), array).get_output(0)
    return _cast(net, tensor, value.dtype)


def _size(net: Any, size: Any) -> Any:
    """A size as a tensor of one int32, as the converters of sizes give it."""
    if isinstance(size, int):
        return _constant(net, torch.tensor([size], dtype=torch.int32))
    return _cast(net, size, torch.int32)


def _cast(net: Any, tensor: Any, dtype: torch.dtype) -> Any:
    if tensor.dtype == trt_dtype(dtype):
        return tensor
    return net.add_cast(tensor, trt_dtype(dtype)).get_output(0)


def _combine(net: Any, left: Any, right: Any, operation: Any) -> Any:
    return net.add_elementwise(left, right, operation).get_output(0)


def _reduce(net: Any, tensor: Any, operation: Any, axes: int) -> Any:
    return net.add_reduce(tensor, operation, axes, True).get_output(0)


def _count(net: Any, tensor: Any, dims: Sequence[int], correction: float) -> Any:
    """How many values are along `dims`, less `correction`, with the tensor's rank."""
    rank = len(tensor.shape)
    ones = (1,) * rank
    if all(tensor.shape[dim] >= 0 for dim in dims):
        count = 1.0
        for dim in dims:
            count *= tensor.shape[dim]
        return _constant(net, torch.full(ones, max(count - correction, 0.0)))
    shape = net.add_shape(tensor).get_output(0)
    chosen = net.add_gather(shape, _constant(net, torch.tensor(dims)), 0).get_output(0)
    product = net.add_reduce(chosen, trt.ReduceOperation.PROD, 1, True).get_output(0)
    layer = net.add_shuffle(_cast(net, product, torch.float32))
    layer.reshape_dims = ones
    less = _constant(net, torch.full(ones, float(correction)))
    count = _combine(net, layer.get_output(0), less, trt.ElementWiseOperation.SUB)
    return _combine(net, count, _constant(net, torch.zeros(ones)), trt.ElementWiseOperation.MAX)
