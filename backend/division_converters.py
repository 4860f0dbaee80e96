"""Quotients and remainders: Torch-TensorRT's own multiply the operands, which overflows.

Arguments are as own_converters.py says. The results are those of C, to the last bit of integers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from .converters import SourceIR, impl
from .network_layers import cast

aten = torch.ops.aten

_WHOLE = (torch.int32, torch.int64)


def remainder(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """a - floor(a / b) * b, with the divisor's sign."""
    return _less_multiple(ctx, target, args, _floored(ctx, target, args, name), name)


def fmod(ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """a - trunc(a / b) * b, with the dividend's sign."""
    return _less_multiple(ctx, target, args, _truncated(ctx, target, args, name), name)


def truncated_quotient(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """a / b, rounded towards zero."""
    if is_whole(ctx.current_node):
        return _truncated(ctx, target, args, name)
    elementwise, unary = impl.elementwise, impl.unary
    quotient = elementwise.div(ctx, target, SourceIR.ATEN, f"{name}_quotient", *args)
    negative = elementwise.lt(ctx, target, SourceIR.ATEN, f"{name}_negative", quotient, 0.0)
    up = unary.ceil(ctx, target, SourceIR.ATEN, f"{name}_ceil", quotient)
    down = unary.floor(ctx, target, SourceIR.ATEN, f"{name}_floor", quotient)
    return ctx.net.add_select(negative, up, down).get_output(0)


def _floored(ctx: Any, target: Any, args: tuple[Any, ...], name: str) -> Any:
    return impl.elementwise.floor_divide(ctx, target, SourceIR.ATEN, f"{name}_floored", *args)


def _truncated(ctx: Any, target: Any, args: tuple[Any, ...], name: str) -> Any:
    """One more than the floor, where something is left and the signs differ."""
    source, elementwise = SourceIR.ATEN, impl.elementwise
    floored = _floored(ctx, target, args, name)
    rest = _less_multiple(ctx, target, args, floored, f"{name}_rest")
    some = elementwise.ne(ctx, target, source, f"{name}_some", rest, 0)
    # The rest has the divisor's sign.
    left = elementwise.lt(ctx, target, source, f"{name}_left", args[0], 0)
    right = elementwise.lt(ctx, target, source, f"{name}_right", rest, 0)
    differ = elementwise.logical_xor(ctx, target, source, f"{name}_differ", left, right)
    more = elementwise.logical_and(ctx, target, source, f"{name}_more", some, differ)
    one = cast(ctx.net, more, ctx.current_node.meta["val"].dtype)
    return elementwise.add(ctx, target, source, f"{name}_truncated", floored, one)


def _less_multiple(ctx: Any, target: Any, args: tuple[Any, ...], quotient: Any, name: str) -> Any:
    multiple = impl.elementwise.mul(
        ctx, target, SourceIR.ATEN, f"{name}_multiple", quotient, args[1]
    )
    return impl.elementwise.sub(ctx, target, SourceIR.ATEN, f"{name}_less", args[0], multiple)


def is_whole(node: Node) -> bool:
    """Whether a node computes 32-bit or 64-bit integers."""
    return node.meta["val"].dtype in _WHOLE


def truncates(node: Node) -> bool:
    """Whether a division rounds towards zero."""
    return bool(node.kwargs.get("rounding_mode") == "trunc")


CONVERTERS = {
    aten.remainder.Scalar: (remainder, is_whole),
    aten.remainder.Tensor: (remainder, is_whole),
    aten.fmod.Scalar: (fmod, is_whole),
    aten.fmod.Tensor: (fmod, is_whole),
    aten.div.Tensor_mode: (truncated_quotient, truncates),
    aten.div.Scalar_mode: (truncated_quotient, truncates),
}
