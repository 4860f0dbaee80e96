"""Converts one node alone in a network that is thrown away, to see what its converter makes of it.

Converters assert, raise, or give a tensor of another rank than the graph's for arguments that
their own validators let through. A node that does so here is left outside, with the reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily
from torch.fx import Node

from .compile_options import CompileOptions

Signature: TypeAlias = tuple[Any, ...]

_MAX_REASON_LETTERS = 200
_MAX_HASHED_ELEMENTS = 1024

# Differences of dtype that lose nothing; the interpreter casts back.
_RESTORED = {
    (torch.int32, torch.int64),
    (torch.int64, torch.int32),
    (torch.float32, torch.float16),
    (torch.float32, torch.bfloat16),
}

# What converting a node of a signature led to; nodes repeat, from layer to layer and method to
# method. TensorRT's builder is made once: that takes longer than all the rest.
_verdicts: dict[Signature, str | None] = {}
_lock = threading.Lock()
_builder: list[Any] = []


def dry_run(node: Node, converter: Any, options: CompileOptions) -> str | None:
    """Why an engine could not have this node's result; None if it can.

    Args:
        node: A `call_function` node of an `aten_graph` with constants as attributes.
        converter: What the converter registry gives for it.
        options: How the engine will be built.
    """
    signature = (converter, *_signature(node))
    with _lock:
        if signature not in _verdicts:
            _verdicts[signature] = _convert(node, converter, options)
        return _verdicts[signature]


def _convert(node: Node, converter: Any, options: CompileOptions) -> str | None:
    from .converters import ConversionContext, settings, trt
    from .engine_builder import collected_errors

    with collected_errors() as errors, unset_fake_temporarily(), torch.no_grad():
        try:
            network = _new_builder().create_network(_network_flags())
            context = ConversionContext(network, settings(options))
            context.current_node = node
            arguments = _Arguments(context)
            args, kwargs = arguments.of(node.args), arguments.of(dict(node.kwargs))
            result = converter(context, node.target, args, kwargs, node.name)
            _infer_shapes(network)
            reason = None if errors else _difference(result, node, trt)
        except Exception as error:  # whatever a converter trips over
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if reason is None and not errors:
        return None
    said = f"; TensorRT said: {errors[0]}" if errors else ""
    text = " ".join(f"{reason or 'TensorRT refuses its layers'}{said}".split())
    return text if len(text) <= _MAX_REASON_LETTERS else text[:_MAX_REASON_LETTERS] + "..."


def _infer_shapes(network: Any) -> None:
    """Has TensorRT look at each layer, which it does no sooner than somebody asks for a shape."""
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        for output in range(layer.num_outputs):
            tensor = layer.get_output(output)
            if tensor is not None:
                with contextlib.suppress(ValueError):  # it says in its log what is wrong
                    tuple(tensor.shape)


def _new_builder() -> Any:
    from .converters import TRT_LOGGER, trt

    if not _builder:
        _builder.append(trt.Builder(TRT_LOGGER))
    return _builder[0]


def _network_flags() -> int:
    """As Torch-TensorRT's interpreter creates its network."""
    from .converters import tensorrt, trt
    from .delegate_blob import Flavour

    if tensorrt.flavour is Flavour.TENSORRT_RTX:
        return 0  # always strongly typed
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


class _Arguments:
    """What a converter gets for a node's arguments: inputs of the network, constants, numbers."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._made: dict[Node, Any] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, Node):
            if value not in self._made:
                self._made[value] = self._of_node(value)
            return self._made[value]
        if isinstance(value, list | tuple):
            return type(value)(self.of(item) for item in value)
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        return value

    def _of_node(self, node: Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            if node.op == "get_attr":
                return _constant(node)
            return self._input(value, node.name)
        if isinstance(value, list | tuple):
            return type(value)(
                self._input(item, f"{node.name}_{index}")
                if isinstance(item, torch.Tensor)
                else item
                for index, item in enumerate(value)
            )
        if isinstance(value, torch.SymInt):
            return self._size(node.name)
        return value

    def _input(self, value: torch.Tensor, name: str) -> Any:
        from .converters import trt_dtype

        shape = tuple(-1 if isinstance(size, torch.SymInt) else size for size in value.shape)
        return self._context.net.add_input(name, trt_dtype(value.dtype), shape)

    def _size(self, name: str) -> Any:
        """A size that is known only when the engine runs, as the converter of sym_size gives it."""
        from .converters import trt

        network = self._context.net
        tensor = network.add_input(f"{name}_of", trt.float32, (-1,))
        return network.add_cast(network.add_shape(tensor).get_output(0), trt.int32).get_output(0)


def _constant(node: Node) -> torch.Tensor:
    """A constant's value; zeros for weights, of which ExecuTorch shows shapes alone."""
    constant: torch.Tensor = getattr(node.graph.owning_module, str(node.target))
    if is_fake(constant):
        return torch.zeros(constant.shape, dtype=constant.dtype)
    return constant


def _used(node: Node) -> list[int]:
    """Which elements of a node's tuple anything reads."""
    return sorted({user.args[1] for user in node.users if user.target is operator.getitem})


def _difference(result: Any, node: Node, trt: Any) -> str | None:
    """How a converter's result differs from the graph's value, where anything reads it."""
    value = node.meta.get("val")
    several = isinstance(value, list | tuple)
    values: Sequence[Any] = value if several else [value]
    results: Sequence[Any] = list(result) if isinstance(result, list | tuple) else [result]
    if several and len(results) < len(values):
        return f"the converter gives {len(results)} tensors, not {len(values)}"
    used = _used(node) if several else [0]
    for index, (made, right) in enumerate(zip(results, values, strict=False)):
        if index not in used or not isinstance(right, torch.Tensor):
            continue
        if not isinstance(made, trt.ITensor | torch.Tensor | np.ndarray | int | float):
            return f"the converter gives a {type(made).__name__}, not a tensor"
        if isinstance(made, trt.ITensor):
            reason = _tensor_difference(made, right)
            if reason is not None:
                return reason
    return None


def _tensor_difference(made: Any, right: torch.Tensor) -> str | None:
    shape = tuple(made.shape)  # raises where TensorRT could not infer it
    if len(shape) != right.dim():
        # The interpreter gives a rank-0 tensor back its rank.
        if right.dim() == 0 and shape in ((1,), (-1,)):
            return None
        return f"the converter gives a tensor of rank {len(shape)}, not {right.dim()}"
    for size, expected in zip(shape, right.shape, strict=True):
        if not isinstance(expected, torch.SymInt) and size not in (-1, expected):
            return f"the converter gives a tensor of shape {shape}, not {tuple(right.shape)}"
    return _dtype_difference(made, right)


def _dtype_difference(made: Any, right: torch.Tensor) -> str | None:
    from .converters import torch_dtype

    dtype = torch_dtype(made.dtype)
    if dtype == right.dtype or (dtype, right.dtype) in _RESTORED:
        return None
    return f"the converter gives a tensor of {dtype}, not {right.dtype}"


# --- Signatures ----------------------------------------------------------------------------------


def _signature(node: Node) -> Signature:
    value, used = node.meta.get("val"), tuple(_used(node))
    return node.target, _part(node.args), _part(dict(node.kwargs)), _value_part(value), used


def _part(value: Any) -> Any:
    if isinstance(value, Node):
        if value.op == "get_attr":
            constant = getattr(value.graph.owning_module, str(value.target))
            return "constant", _value_part(value.meta.get("val")), _digest(constant)
        return "value", _value_part(value.meta.get("val"))
    if isinstance(value, list | tuple):
        return tuple(_part(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _part(item)) for key, item in sorted(value.items()))
    return type(value).__name__, repr(value)  # 1, 1.0 and True are equal, and not the same


def _value_part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes = tuple("?" if isinstance(size, torch.SymInt) else size for size in value.shape)
        return sizes, str(value.dtype)
    if isinstance(value, list | tuple):
        return tuple(_value_part(item) for item in value)
    return type(value).__name__ if isinstance(value, torch.SymInt) else repr(value)


def _digest(constant: torch.Tensor) -> str | None:
    """Small integer constants are sizes and indices, on whose values converters depend."""
    if (
        is_fake(constant)
        or constant.dtype.is_floating_point
        or constant.numel() > _MAX_HASHED_ELEMENTS
    ):
        return None
    return hashlib.sha256(repr(constant.tolist()).encode()).hexdigest()
