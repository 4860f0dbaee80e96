"""Converters of writes into part of a tensor: index_put, index_copy, slice_scatter.

Torch-TensorRT's own take static positions alone, or put TensorRT's KV-cache layer where nobody has
shown that its conditions hold. These scatter; `state_writes` decides where that layer is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from .converters import get_trt_tensor, trt
from .network_layers import cast, combine, constant, sizes

Size = Any
"""A size: an int, or a tensor of shape [1] where it is known only when the engine runs."""


def index_put(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Writes at positions; negative ones count from the end."""
    net, node = ctx.net, ctx.current_node
    data = get_trt_tensor(ctx, args[0], f"{name}_data")
    values = get_trt_tensor(ctx, args[2], f"{name}_values")
    positions = {
        dim: _index(ctx, index, _size(net, data, dim), f"{name}_index{dim}")
        for dim, index in enumerate(args[1])
        if index is not None
    }
    [(dim, index), *others] = positions.items()
    if not others and len(index.shape) == 1:
        return _write_rows(net, data, dim, index, values, node.meta["val"].dtype)
    return _write_points(net, data, positions, values, node.meta["val"].dtype)


def index_copy(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Writes rows at positions along one dim."""
    net, node = ctx.net, ctx.current_node
    data = get_trt_tensor(ctx, args[0], f"{name}_data")
    dim = args[1] % len(data.shape)
    index = _index(ctx, args[2], None, f"{name}_index")
    values = get_trt_tensor(ctx, args[3], f"{name}_values")
    return _write_rows(net, data, dim, index, values, node.meta["val"].dtype)


def slice_scatter(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Writes every step-th row from a start on, as many as the source has."""
    net, node = ctx.net, ctx.current_node
    dim, start, step = slice_of(node)
    data = get_trt_tensor(ctx, args[0], f"{name}_data")
    source = get_trt_tensor(ctx, args[1], f"{name}_source")
    rows = _size(net, source, dim)
    if isinstance(rows, int):
        index = _integers(net, torch.arange(start, start + rows * step, step, dtype=torch.int32))
    else:
        index = _count_up(net, rows)
        index = combine(
            net, index, _integers(net, torch.tensor([step])), trt.ElementWiseOperation.PROD
        )
        index = combine(
            net, index, _integers(net, torch.tensor([start])), trt.ElementWiseOperation.SUM
        )
    return _write_rows(net, data, dim, index, source, node.meta["val"].dtype)


def update_kv_cache(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """TensorRT's KV-cache layer, whose output lies where the cache does."""
    cache, rows, start = (
        get_trt_tensor(ctx, arg, f"{name}_{index}") for index, arg in enumerate(args)
    )
    layer = ctx.net.add_kv_cache_update(cache, rows, start, trt.KVCacheMode.LINEAR)
    return layer.get_output(0)


def slice_of(node: Node) -> tuple[int, int, int]:
    """Dim, start and step of a slice_scatter node, the first two not negative."""
    value = node.args[0].meta["val"]
    arguments = dict(zip(("dim", "start", "end", "step"), node.args[2:], strict=False))
    arguments.update(node.kwargs)
    dim = arguments.get("dim", 0) % value.dim()
    start, step = arguments.get("start"), arguments.get("step", 1)
    start = 0 if start is None else start
    return dim, start + value.shape[dim] if start < 0 else start, step


def takes_index_put(node: Node) -> bool:
    """Whether an index_put sets elements, and its positions are integers."""
    accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    indices = [index for index in node.args[1] if index is not None]
    return (
        not accumulate
        and bool(indices)
        and all(index.meta["val"].dtype in (torch.int32, torch.int64) for index in indices)
    )


def takes_index_copy(node: Node) -> bool:
    """Whether an index_copy writes to a tensor with a rank, at a list of positions."""
    return bool(node.args[0].meta["val"].dim() > 0 and node.args[2].meta["val"].dim() == 1)


def takes_slice(node: Node) -> bool:
    """Whether a slice starts and steps by numbers, in a dim of static size."""
    value = node.args[0].meta["val"]
    arguments = dict(zip(("dim", "start", "end", "step"), node.args[2:], strict=False))
    arguments.update(node.kwargs)
    return (
        isinstance(value.shape[arguments.get("dim", 0)], int)
        and isinstance(arguments.get("start"), int | None)
        and isinstance(arguments.get("step", 1), int)
    )


# --- Two kinds of scatter ------------------------------------------------------------------------


def _write_rows(net: Any, data: Any, dim: int, index: Any, values: Any, dtype: torch.dtype) -> Any:
    """data with values[..., i, ...] at row index[i] of a dim."""
    rank = len(data.shape)
    shape = [_size(net, data, axis) for axis in range(rank)]
    shape[dim] = _size(net, index, 0)
    along = [-1 if axis == dim else 1 for axis in range(rank)]
    index = _broadcast(net, _reshape(net, index, along), shape)
    values = _broadcast(net, values, shape)
    data, values = _scattered(net, data, dtype), _scattered(net, values, dtype)
    layer = net.add_scatter(data, index, values, trt.ScatterMode.ELEMENT)
    layer.axis = dim
    return cast(net, layer.get_output(0), dtype)


def _write_points(
    net: Any, data: Any, positions: dict[int, Any], values: Any, dtype: torch.dtype
) -> Any:
    """data with values at the points that positions, broadcast together, name in their dims."""
    dims, rank = sorted(positions), len(data.shape)
    rest = [axis for axis in range(rank) if axis not in positions]
    shape = _common_shape(net, list(positions.values()))
    points = [_broadcast(net, positions[dim], shape) for dim in dims]
    columns = []
    for point in points:
        layer = net.add_unsqueeze(point, _integers(net, torch.tensor([len(shape)])))
        columns.append(layer.get_output(0))
    concatenated = net.add_concatenation(columns)
    concatenated.axis = len(shape)
    index = concatenated.get_output(0)

    # Where PyTorch has the points' dims among the others: at the first of adjacent ones, else first
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    before = [axis for axis in rest if axis < dims[0]] if adjacent else []
    after = rest[len(before) :]
    own = [_size(net, data, axis) for axis in range(rank)]
    full = [*(own[axis] for axis in before), *shape, *(own[axis] for axis in after)]
    values = _broadcast(net, values, full)
    first, count = len(before), len(shape)
    order = [*range(first, first + count), *range(first), *range(first + count, len(full))]
    values = _permute(net, values, order)
    data = _permute(net, _scattered(net, data, dtype), [*dims, *rest])
    layer = net.add_scatter(data, index, _scattered(net, values, dtype), trt.ScatterMode.ND)
    back = [[*dims, *rest].index(axis) for axis in range(rank)]
    return cast(net, _permute(net, layer.get_output(0), back), dtype)


# --- Layers --------------------------------------------------------------------------------------


def _index(ctx: Any, index: Any, size: Size | None, name: str) -> Any:
    """Positions as int32; where `size` is given, negative ones counted from the end."""
    net = ctx.net
    index = cast(net, get_trt_tensor(ctx, index, name, min_rank=0), torch.int32)
    if len(index.shape) == 0:
        index = _reshape(net, index, [1])
    if size is None:
        return index
    ones = [1] * len(index.shape)
    zero = _integers(net, torch.zeros(ones, dtype=torch.int32))
    if isinstance(size, int):
        size = _integers(net, torch.full(ones, size, dtype=torch.int32))
    else:
        size = _reshape(net, size, ones)
    negative = combine(net, index, zero, trt.ElementWiseOperation.LESS)
    from_end = combine(net, index, size, trt.ElementWiseOperation.SUM)
    return net.add_select(negative, from_end, index).get_output(0)


def _size(net: Any, tensor: Any, axis: int) -> Size:
    size = tensor.shape[axis]
    if size >= 0:
        return int(size)
    shape = net.add_shape(tensor).get_output(0)
    chosen = net.add_gather(shape, _integers(net, torch.tensor([axis])), 0).get_output(0)
    return cast(net, chosen, torch.int32)


def _common_shape(net: Any, tensors: Sequence[Any]) -> list[Size]:
    rank = max(len(tensor.shape) for tensor in tensors)
    shape: list[Size] = [1] * rank
    for tensor in tensors:
        offset = rank - len(tensor.shape)
        for axis in range(len(tensor.shape)):
            if tensor.shape[axis] != 1:
                shape[offset + axis] = _size(net, tensor, axis)
    return shape


def _broadcast(net: Any, tensor: Any, shape: Sequence[Size]) -> Any:
    """A tensor repeated to a shape, as PyTorch broadcasts."""
    rank, missing = len(shape), len(shape) - len(tensor.shape)
    if missing < 0:  # PyTorch drops a value's leading dims of size 1
        tensor = net.add_squeeze(tensor, _integers(net, torch.arange(-missing))).get_output(0)
    if missing > 0:
        layer = net.add_unsqueeze(tensor, _integers(net, torch.arange(missing)))
        tensor = layer.get_output(0)
    if all(isinstance(size, int) and tensor.shape[axis] == size for axis, size in enumerate(shape)):
        return tensor
    repeated = [
        tensor.shape[axis] == 1 and not (isinstance(size, int) and size == 1)
        for axis, size in enumerate(shape)
    ]
    if not any(repeated):
        return tensor
    stride = [0 if repeats else 1 for repeats in repeated]
    zeros = (0,) * rank
    if all(isinstance(size, int) for size in shape):
        return net.add_slice(tensor, zeros, tuple(shape), tuple(stride)).get_output(0)
    wanted = sizes(net, shape)
    layer = net.add_slice(tensor, zeros, (1,) * rank, tuple(stride))
    layer.set_input(2, wanted)
    return layer.get_output(0)


def _count_up(net: Any, count: Any) -> Any:
    """0, 1, 2, ... as int32, as many as a tensor of shape [1] says."""
    layer = net.add_fill((1,), trt.FillOperation.LINSPACE, trt.int32)
    layer.set_input(0, count)
    layer.set_input(1, _integers(net, torch.tensor(0, dtype=torch.int32)))
    layer.set_input(2, _integers(net, torch.tensor([1], dtype=torch.int32)))
    return layer.get_output(0)


def _scattered(net: Any, tensor: Any, dtype: torch.dtype) -> Any:
    """A tensor as the scatter layer takes it, which doesn't take truth values."""
    return cast(net, tensor, torch.int32 if dtype is torch.bool else dtype)


def _integers(net: Any, value: torch.Tensor) -> Any:
    return constant(net, value.to(torch.int32))


def _reshape(net: Any, tensor: Any, shape: Sequence[int]) -> Any:
    layer = net.add_shuffle(tensor)
    layer.reshape_dims = tuple(shape)
    return layer.get_output(0)


def _permute(net: Any, tensor: Any, order: Sequence[int]) -> Any:
    if list(order) == list(range(len(order))):
        return tensor
    layer = net.add_shuffle(tensor)
    layer.first_transpose = tuple(order)
    return layer.get_output(0)
