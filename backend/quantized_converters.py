"""Converters of PyTorch's quantized programs: Q/DQ layers, between which TensorRT picks kernels.

TensorRT's int8 and fp8 are symmetric: the zero point is 0, and they saturate at the type's limits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from .converters import get_trt_tensor, tensorrt, trt_dtype
from .delegate_blob import Flavour
from .network_layers import constant
from .quantization import DEQUANTIZE, QUANTIZE, refusal


def quantize(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Floats to int8 or fp8, with one scale for the tensor or one for each channel of an axis."""
    tensor = get_trt_tensor(ctx, args[0], f"{name}_input")
    scale, axis, dtype = _scale(ctx, args), _axis(args), args[-1]
    layer = ctx.net.add_quantize(tensor, scale, trt_dtype(dtype))
    if axis is not None:
        layer.axis = axis
    return layer.get_output(0)


def dequantize(
    ctx: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """And back."""
    tensor = args[0]
    if isinstance(tensor, torch.Tensor):
        tensor = get_trt_tensor(ctx, tensor, f"{name}_values")
    dtype = ctx.current_node.meta["val"].dtype
    layer = ctx.net.add_dequantize(tensor, _scale(ctx, args), trt_dtype(dtype))
    axis = _axis(args)
    if axis is not None:
        layer.axis = axis
    return layer.get_output(0)


def _is_per_channel(args: tuple[Any, ...]) -> bool:
    """tensor, scales, zero points, axis, least, greatest, dtype; else there is no axis."""
    return len(args) == 7


def _axis(args: tuple[Any, ...]) -> int | None:
    return int(args[3]) if _is_per_channel(args) else None


def _scale(ctx: Any, args: tuple[Any, ...]) -> Any:
    _require_symmetric(args[2])
    scale = torch.as_tensor(args[1], dtype=torch.float32).detach()
    if not _is_per_channel(args):
        scale = scale.reshape(())
    return constant(ctx.net, scale.contiguous())


def _require_symmetric(zero_point: Any) -> None:
    if zero_point is None:
        return
    values = torch.as_tensor(zero_point)
    if bool((values != 0).any()):
        raise ValueError(
            f"zero point {values.reshape(-1)[values.reshape(-1) != 0][0].item()}; TensorRT "
            "quantizes symmetrically, around 0"
        )


def keep_quantized(module: torch.fx.GraphModule) -> None:
    """Has Torch-TensorRT's folding of constants leave quantized weights as they are.

    What TensorRT has no layer for becomes floats.
    """
    from torch_tensorrt.dynamo.lowering.constant_fold_exclusions import (
        CONSTANT_FOLD_EXCLUSION_META_KEY,
    )

    for node in module.graph.nodes:
        if node.target not in CONVERTERS or _is_int8_kernel_for_rtx(node):
            continue
        if refusal(node) is None and _is_symmetric(module, node):
            node.meta[CONSTANT_FOLD_EXCLUSION_META_KEY] = {"executorch_tensorrt"}


def _is_int8_kernel_for_rtx(node: Node) -> bool:
    """Whether an int8 weight is convolved with; TensorRT-RTX 1.6 may fail to build with those.

    The convolution then computes in floats, from the same quantized values.
    """
    convolves = any(user.target is torch.ops.aten.convolution.default for user in node.users)
    rtx = tensorrt.flavour is Flavour.TENSORRT_RTX
    return rtx and convolves and node.args[-1] == torch.int8 and node.target in DEQUANTIZE


def _is_symmetric(module: torch.fx.GraphModule, node: Node) -> bool:
    zero_point = node.args[2]
    if isinstance(zero_point, Node):
        zero_point = (
            getattr(module, str(zero_point.target), 1) if zero_point.op == "get_attr" else 1
        )
    return zero_point is None or not bool((torch.as_tensor(zero_point) != 0).any())


CONVERTERS = {
    **dict.fromkeys(QUANTIZE, quantize),
    **dict.fromkeys(DEQUANTIZE, dequantize),
}
