"""PyTorch's operators between floats and quantized values, and which of them TensorRT has."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from .aten_graph import raw_target

decomposed = torch.ops.quantized_decomposed

QUANTIZED_DTYPES = (torch.int8, torch.float8_e4m3fn)
QUANTIZE = {
    decomposed.quantize_per_tensor.default,
    decomposed.quantize_per_tensor.tensor,
    decomposed.quantize_per_channel.default,
}
DEQUANTIZE = {
    decomposed.dequantize_per_tensor.default,
    decomposed.dequantize_per_tensor.tensor,
    decomposed.dequantize_per_channel.default,
}
PER_CHANNEL = {
    decomposed.quantize_per_channel.default,
    decomposed.dequantize_per_channel.default,
}


def refusal(node: Node) -> str | None:
    """Why TensorRT has no layer for such a node, as far as its arguments tell; None if it has."""
    dtype = node.args[-1]
    if dtype not in QUANTIZED_DTYPES:
        return f"quantized as {dtype}; TensorRT has {', '.join(map(str, QUANTIZED_DTYPES))}"
    if isinstance(node.args[2], int) and node.args[2] != 0:
        return f"zero point {node.args[2]}; TensorRT quantizes symmetrically, around 0"
    limits = node.args[-3:-1]
    saturates = raw_target(node.target) in QUANTIZE
    if saturates and dtype == torch.int8 and limits != (-128, 127):
        return f"saturates at {limits}; TensorRT's int8 does at (-128, 127)"
    return None
