"""What an engine is a function of, as one key: the same key, the same engine."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .aten_graph import target_name
from .compile_options import CompileOptions
from .delegate_blob import Flavour, ShapeRange
from .symbol_ranges import size_expr

# Options that say what becomes an engine, or what is done with it, but not how it is built.
_NOT_OF_THE_ENGINE = {
    "cpu_fallback",
    "cpu_operators",
    "contiguous_positions",
    "min_partition_operators",
    "engine_data_file",
}


def engine_fingerprint(
    module: GraphModule, ranges: Sequence[tuple[ShapeRange, ...]], options: CompileOptions
) -> str:
    """A SHA-256 over graph, weights, profiles, options, versions and GPU, in hex.

    Args:
        module: What `ready_module` gives.
        ranges: For each engine profile, one range for each placeholder.
        options: How it is built.
    """
    digest = hashlib.sha256()
    for part in (_environment(), _options(options), [_range(item) for item in ranges]):
        digest.update(json.dumps(part, sort_keys=True).encode())
    index: dict[Node, int] = {}
    symbols: dict[Any, Any] = {}
    for node in module.graph.nodes:
        # Names are of no account but for inputs, which the engine's bindings are named by.
        name = node.name if node.op == "placeholder" else ""
        target = "" if node.op == "get_attr" else target_name(node.target)
        arguments = _plain((node.args, node.kwargs), index)
        line = (node.op, name, target, arguments, _value(node.meta.get("val"), symbols))
        digest.update(repr(line).encode())
        if node.op == "get_attr":
            digest.update(_bytes(getattr(module, node.target)))
        index[node] = len(index)
    return digest.hexdigest()


def _environment() -> dict[str, Any]:
    from executorch_tensorrt import __version__

    from .converters import tensorrt

    tied = tensorrt.flavour is not Flavour.TENSORRT_RTX
    return {
        "executorch_tensorrt": __version__,
        "torch": torch.__version__,
        "torch_tensorrt": tensorrt.torch_tensorrt.__version__,
        "tensorrt": [int(tensorrt.flavour), *tensorrt.version],
        "gpu": [torch.cuda.get_device_name(), *torch.cuda.get_device_capability()] if tied else [],
        "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE"),  # TensorRT writes it into the engine
    }


def _options(options: CompileOptions) -> dict[str, Any]:
    return {
        name: value for name, value in options.described().items() if name not in _NOT_OF_THE_ENGINE
    }


def _range(bounds: Sequence[ShapeRange]) -> list[list[list[int]]]:
    return [[list(item.min), list(item.opt), list(item.max)] for item in bounds]


def _plain(value: Any, index: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return ("node", index[value])
    if isinstance(value, list | tuple):
        return [_plain(item, index) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, index) for key, item in value.items()}
    return (type(value).__name__, repr(value))


def _value(value: Any, symbols: dict[Any, Any]) -> Any:
    """A value's dtype and sizes, symbols numbered as they appear, not as this export named them."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), [_size(size, symbols) for size in value.shape]
    if isinstance(value, list | tuple):
        return [_value(item, symbols) for item in value]
    if isinstance(value, torch.SymInt):
        return _size(value, symbols)
    return type(value).__name__, repr(value)


def _size(size: Any, symbols: dict[Any, Any]) -> str:
    expr = size_expr(size)
    for symbol in sorted(expr.free_symbols, key=str):
        symbols.setdefault(symbol, type(symbol)(f"size{len(symbols)}", integer=True))
    return str(expr.xreplace(symbols))


def _bytes(constant: torch.Tensor) -> memoryview:
    plain = constant.detach().cpu().contiguous().reshape(-1)
    return memoryview(plain.view(torch.uint8).numpy())
