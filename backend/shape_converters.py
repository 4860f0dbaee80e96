"""Converters of operators whose result's sizes are computed when the engine runs.

Torch-TensorRT's ask `int()` of a size that is a tensor, or take it for one of another rank.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from .converters import get_trt_tensor, trt
from .network_layers import combine, constant, shape, sizes

aten = torch.ops.aten

_NEAREST = {
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.vec,
}


def resize(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Resizes the dims behind batch and channels, to sizes or by factors."""
    net = ctx.net
    tensor = get_trt_tensor(ctx, args[0], f"{name}_input")
    layer = net.add_resize(tensor)
    if args[1] is None:
        layer.scales = [1.0, 1.0, *args[-1]]
    else:
        batch_and_channels = net.add_slice(shape(net, tensor), (0,), (2,), (1,)).get_output(0)
        whole = net.add_concatenation([batch_and_channels, sizes(net, args[1])])
        layer.set_input(1, whole.get_output(0))
    transformation = trt.ResizeCoordinateTransformation
    if target in _NEAREST:
        layer.resize_mode = trt.InterpolationMode.NEAREST
        layer.coordinate_transformation = transformation.ASYMMETRIC
        return layer.get_output(0)
    cubic = target is aten.upsample_bicubic2d.vec
    layer.resize_mode = trt.InterpolationMode.CUBIC if cubic else trt.InterpolationMode.LINEAR
    aligned = args[2]
    layer.coordinate_transformation = (
        transformation.ALIGN_CORNERS if aligned else transformation.HALF_PIXEL
    )
    return layer.get_output(0)


def repeat(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """A tensor so often along each dim; counts for more dims than it has are of new, first ones."""
    net = ctx.net
    tensor = get_trt_tensor(ctx, args[0], f"{name}_input")
    counts = list(args[1])
    rank = len(tensor.shape)
    counts = [1] * (rank - len(counts)) + counts  # tile() may be given fewer
    whole = shape(net, tensor)
    new = len(counts) - rank
    if new:
        ones = constant(net, torch.ones(new, dtype=torch.int32))
        whole = net.add_concatenation([ones, whole]).get_output(0)
        raised = net.add_shuffle(tensor)
        raised.set_input(1, whole)
        tensor = raised.get_output(0)
    repeated = combine(net, whole, sizes(net, counts), trt.ElementWiseOperation.PROD)
    zeros = (0,) * len(counts)
    layer = net.add_slice(tensor, zeros, zeros, (1,) * len(counts))
    layer.mode = trt.SampleMode.WRAP
    layer.set_input(2, repeated)
    return layer.get_output(0)


def max_pool(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Greatest values of windows; without their indices, which TensorRT does not give."""
    kernel, stride, padding, _, ceil = _pooling(ctx.current_node)
    layer = ctx.net.add_pooling_nd(args[0], trt.PoolingType.MAX, kernel)
    layer.stride_nd = stride
    layer.padding_nd = padding
    if ceil:
        layer.padding_mode = trt.PaddingMode.EXPLICIT_ROUND_UP
    values = layer.get_output(0)
    return values if target is aten.max_pool2d.default else (values, None)


def pools_as_taken(node: Node) -> bool:
    """Whether nobody reads the indices, nothing is dilated, and rounding up is TensorRT's.

    PyTorch drops a last window that would begin behind the values, which TensorRT does not.
    """
    kernel, stride, padding, dilation, ceil = _pooling(node)
    read = {user.args[1] for user in node.users if user.target is operator.getitem}
    begins_inside = not any(padding) and all(k >= s for k, s in zip(kernel, stride, strict=True))
    batched = node.args[0].meta["val"].dim() == 4
    return 1 not in read and batched and set(dilation) == {1} and (begins_inside or not ceil)


def _pooling(node: Node) -> tuple[list[int], list[int], list[int], list[int], bool]:
    """Kernel, stride, padding and dilation of both dims, and whether sizes are rounded up."""
    given = [*node.args[1:], *[None] * 4][:5]

    def pair(value: Any, otherwise: list[int]) -> list[int]:
        if value is None or value == []:
            return otherwise
        values = [value] if isinstance(value, int) else list(value)
        return values * 2 if len(values) == 1 else values

    kernel = pair(given[0], [])
    return (
        kernel,
        pair(given[1], kernel),
        pair(given[2], [0, 0]),
        pair(given[3], [1, 1]),
        bool(given[4]),
    )
