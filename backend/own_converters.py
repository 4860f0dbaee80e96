"""Converters that Torch-TensorRT lacks, or whose results are not what PyTorch's are.

Each takes what Torch-TensorRT's converters take: the conversion context, and the node's target,
arguments (TensorRT tensors, constants and numbers), keyword arguments and name.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch.fx import Node

from .converters import SourceIR, get_trt_tensor, impl, trt
from .division_converters import CONVERTERS as DIVISIONS
from .in_place_writes import kv_cache_update
from .network_layers import cast, combine, constant, count, reduce, size
from .quantized_converters import CONVERTERS as QUANTIZED
from .shape_converters import max_pool, pools_as_taken, repeat, resize
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
    tensor = cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), value.dtype)
    axis = constant(net, torch.tensor(args[1] % value.dim(), dtype=torch.int32))
    layer = net.add_cumulative(tensor, axis, trt.CumulativeOperation.SUM, False, False)
    return layer.get_output(0)


def log_softmax(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """x - max - log(sum(exp(x - max))), in float32."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    tensor = cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), torch.float32)
    axes = 1 << (args[1] % value.dim())
    greatest = reduce(net, tensor, trt.ReduceOperation.MAX, axes)
    shifted = combine(net, tensor, greatest, trt.ElementWiseOperation.SUB)
    powers = net.add_unary(shifted, trt.UnaryOperation.EXP).get_output(0)
    total = reduce(net, powers, trt.ReduceOperation.SUM, axes)
    log = net.add_unary(total, trt.UnaryOperation.LOG).get_output(0)
    return cast(net, combine(net, shifted, log, trt.ElementWiseOperation.SUB), value.dtype)


def var(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """The mean squared distance from the mean, of n - correction values, in float32."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    tensor = cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), torch.float32)
    rank = len(tensor.shape)
    given = args[1] if len(args) > 1 else kwargs.get("dim")
    dims = [dim % rank for dim in given] if given else list(range(rank))
    correction = kwargs.get("correction")
    axes = sum(1 << dim for dim in dims)
    mean = reduce(net, tensor, trt.ReduceOperation.AVG, axes)
    distance = combine(net, tensor, mean, trt.ElementWiseOperation.SUB)
    square = combine(net, distance, distance, trt.ElementWiseOperation.PROD)
    number = count(net, tensor, dims, 1 if correction is None else correction)
    part = combine(net, square, number, trt.ElementWiseOperation.DIV)
    keep = bool(kwargs.get("keepdim", False))
    total = net.add_reduce(part, trt.ReduceOperation.SUM, axes, keep).get_output(0)
    return cast(net, total, value.dtype)


def batch_norm(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> tuple[Any, None, None]:
    """By the mean and variance of the batch itself, in float32; instance norm is made of it.

    Torch-TensorRT's wants a static number of channels; there it is `batch * channels`.
    """
    net, value = ctx.net, ctx.current_node.args[0].meta["val"]
    tensor = cast(net, get_trt_tensor(ctx, args[0], f"{name}_input"), torch.float32)
    rank = value.dim()
    axes = sum(1 << dim for dim in range(rank) if dim != 1)
    mean = reduce(net, tensor, trt.ReduceOperation.AVG, axes)
    distance = combine(net, tensor, mean, trt.ElementWiseOperation.SUB)
    square = combine(net, distance, distance, trt.ElementWiseOperation.PROD)
    variance = reduce(net, square, trt.ReduceOperation.AVG, axes)
    least = constant(net, torch.full((1,) * rank, float(args[5])))
    raised = combine(net, variance, least, trt.ElementWiseOperation.SUM)
    deviation = net.add_unary(raised, trt.UnaryOperation.SQRT).get_output(0)
    result = combine(net, distance, deviation, trt.ElementWiseOperation.DIV)
    for given, operation in (
        (args[1], trt.ElementWiseOperation.PROD),
        (args[2], trt.ElementWiseOperation.SUM),
    ):
        if given is not None:
            layer = net.add_shuffle(cast(net, get_trt_tensor(ctx, given, name), torch.float32))
            layer.reshape_dims = (1, -1, *[1] * (rank - 2))
            result = combine(net, result, layer.get_output(0), operation)
    return cast(net, result, value.dtype), None, None


def full_like(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """One number, broadcast to the shape of a tensor."""
    net, value = ctx.net, ctx.current_node.meta["val"]
    rank = value.dim()
    number = constant(net, torch.full((1,) * rank, args[1], dtype=value.dtype))
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
    left, right = size(net, left), size(net, right)
    quotient = combine(net, left, right, trt.ElementWiseOperation.FLOOR_DIV)
    whole = combine(net, quotient, right, trt.ElementWiseOperation.PROD)
    return combine(net, left, whole, trt.ElementWiseOperation.SUB)


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


def _normalizes_alone(node: Node) -> bool:
    """Whether it is by the batch's own statistics, which nothing else reads."""
    read = {user.args[1] for user in node.users if user.target is operator.getitem}
    return bool(node.args[3]) and read <= {0}


def _is_number_of_its_tensor(node: Node) -> bool:
    return isinstance(node.args[1], int | float) and node.meta["val"].dtype not in (
        torch.uint8,
        torch.float64,
    )


# For each operator its converter, and which nodes of it the converter takes.
OWN_CONVERTERS: Mapping[Any, tuple[Converter, Callable[[Node], bool]]] = {
    **{target: (converter, lambda node: True) for target, converter in QUANTIZED.items()},
    **DIVISIONS,
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
    aten._native_batch_norm_legit.no_stats: (batch_norm, _normalizes_alone),
    aten.max_pool2d.default: (max_pool, pools_as_taken),
    aten.max_pool2d_with_indices.default: (max_pool, pools_as_taken),
    aten.repeat.default: (repeat, lambda node: True),
    aten.tile.default: (repeat, lambda node: True),
    aten.upsample_nearest1d.vec: (resize, lambda node: True),
    aten.upsample_nearest2d.vec: (resize, lambda node: True),
    aten.upsample_nearest3d.vec: (resize, lambda node: True),
    aten.upsample_linear1d.vec: (resize, lambda node: True),
    aten.upsample_bilinear2d.vec: (resize, lambda node: True),
    aten.upsample_trilinear3d.vec: (resize, lambda node: True),
    aten.upsample_bicubic2d.vec: (resize, lambda node: True),
}


# Where Torch-TensorRT's own converter takes the nodes that ours doesn't.
SHARED = {aten.add.Tensor, *DIVISIONS}
