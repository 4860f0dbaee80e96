"""Small pieces of a TensorRT network that converters are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .converters import trt, trt_dtype


def constant(net: Any, value: torch.Tensor) -> Any:
    """A constant of the value's shape and dtype."""
    array = value.numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
    tensor = net.add_constant(tuple(value.shape), array).get_output(0)
    return cast(net, tensor, value.dtype)


def size(net: Any, value: Any) -> Any:
    """A size as a tensor of one int32, as the converters of sizes give it."""
    if isinstance(value, int):
        return constant(net, torch.tensor([value], dtype=torch.int32))
    return cast(net, value, torch.int32)


def sizes(net: Any, values: Sequence[Any]) -> Any:
    """Sizes as one tensor of int32."""
    parts = []
    for value in values:
        part = size(net, value)
        if len(part.shape) != 1:
            layer = net.add_shuffle(part)
            layer.reshape_dims = (1,)
            part = layer.get_output(0)
        parts.append(part)
    layer = net.add_concatenation(parts)
    layer.axis = 0
    return layer.get_output(0)


def shape(net: Any, tensor: Any) -> Any:
    """A tensor's sizes, as one tensor of int32."""
    return cast(net, net.add_shape(tensor).get_output(0), torch.int32)


def cast(net: Any, tensor: Any, dtype: torch.dtype) -> Any:
    """The tensor itself, where it has the dtype."""
    if tensor.dtype == trt_dtype(dtype):
        return tensor
    return net.add_cast(tensor, trt_dtype(dtype)).get_output(0)


def combine(net: Any, left: Any, right: Any, operation: Any) -> Any:
    """An elementwise operation of two tensors."""
    return net.add_elementwise(left, right, operation).get_output(0)


def reduce(net: Any, tensor: Any, operation: Any, axes: int) -> Any:
    """A reduction over `axes`, a bit mask, that keeps the rank."""
    return net.add_reduce(tensor, operation, axes, True).get_output(0)


def count(net: Any, tensor: Any, dims: Sequence[int], correction: float) -> Any:
    """How many values are along `dims`, less `correction`, with the tensor's rank."""
    rank = len(tensor.shape)
    ones = (1,) * rank
    if all(tensor.shape[dim] >= 0 for dim in dims):
        number = 1.0
        for dim in dims:
            number *= tensor.shape[dim]
        return constant(net, torch.full(ones, max(number - correction, 0.0)))
    all_sizes = net.add_shape(tensor).get_output(0)
    chosen = net.add_gather(all_sizes, constant(net, torch.tensor(dims)), 0).get_output(0)
    product = net.add_reduce(chosen, trt.ReduceOperation.PROD, 1, True).get_output(0)
    layer = net.add_shuffle(cast(net, product, torch.float32))
    layer.reshape_dims = ones
    less = constant(net, torch.full(ones, float(correction)))
    number = combine(net, layer.get_output(0), less, trt.ElementWiseOperation.SUB)
    return combine(net, number, constant(net, torch.zeros(ones)), trt.ElementWiseOperation.MAX)
