"""Whether TensorRT can take a node, and if not, why."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from executorch_tensorrt.backend.aten_graph import (
    aten_graph,
    is_constant,
    node_values,
    raw_target,
    target_name,
)
from executorch_tensorrt.backend.attention import is_own_keys_of_shared_query
from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.dry_run import dry_run
from executorch_tensorrt.backend.engine_builder import use_number_operands
from executorch_tensorrt.backend.quantization import (
    DEQUANTIZE,
    QUANTIZE,
    QUANTIZED_DTYPES,
    refusal,
)
from executorch_tensorrt.backend.symbol_ranges import free_symbols

aten = torch.ops.aten

MAX_RANK = 8

# Operators on sizes; they become part of an engine only together with what uses them.
SIZE_OPERATORS: Set[Any] = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.truediv,
    operator.mod,
    operator.neg,
    operator.pow,
    operator.eq,
    operator.ge,
    operator.gt,
    operator.le,
    operator.lt,
    operator.ne,
    torch.sym_max,
    torch.sym_min,
    torch.sym_not,
    torch.sym_ite,
    torch.sym_float,
    torch.sym_int,
    round,
    aten.sym_size.int,
    aten.sym_numel.default,
    aten.sym_stride.int,
}

_DTYPES = {
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.bool,
}

# A converter would bake one draw into the engine.
_RANDOM = {
    aten.rand.default,
    aten.randn.default,
    aten.randint.low,
    aten.randperm.default,
    aten.bernoulli.default,
    aten.multinomial.default,
    aten.native_dropout.default,
}


def _is_dynamic(size: Any) -> bool:
    return isinstance(size, torch.SymInt)


def _pools_dynamic_plane(dims: int) -> Callable[[Node], str | None]:
    def check(node: Node) -> str | None:
        if any(_is_dynamic(size) for size in node.args[0].meta["val"].shape[-dims:]):
            return "adaptive pooling of dims of dynamic size"
        return None

    return check


def _attention(node: Node) -> str | None:
    query, key = (node.args[index].meta["val"].shape for index in (0, 1))
    if len(query) != 4:
        return f"attention of rank {len(query)}; the converter takes rank 4"
    # PyTorch's causal mask begins at the first query and key, Torch-TensorRT's ends at the last.
    causal = len(node.args) > 5 and node.args[5]
    if causal and not statically_known_true(query[2] == key[2]):
        return f"causal attention of {query[2]} queries to {key[2]} keys"
    if is_own_keys_of_shared_query(node):
        return "attention whose query is its keys, and another attention's query"
    return None


def _strides_over_channels_last(node: Node) -> str | None:
    laid_out = is_channels_last(node.args[0].meta["val"])
    return "strides over a tensor in channels-last memory format" if laid_out else None


# What converters are known to fail on and their own validators let through.
_CHECKS: Mapping[Any, Callable[[Node], str | None]] = {
    aten.adaptive_avg_pool1d.default: _pools_dynamic_plane(1),
    aten.adaptive_avg_pool2d.default: _pools_dynamic_plane(2),
    aten._adaptive_avg_pool2d.default: _pools_dynamic_plane(2),
    aten.scaled_dot_product_attention.default: _attention,
    **dict.fromkeys(QUANTIZE | DEQUANTIZE, refusal),
    aten.as_strided.default: _strides_over_channels_last,
}


def is_size_node(node: Node) -> bool:
    """Whether a node computes a size (or a condition on sizes) and no tensor."""
    return node.op == "call_function" and raw_target(node.target) in SIZE_OPERATORS


def is_computation(node: Node) -> bool:
    """Whether a node computes a tensor: neither a size, nor an element of a tuple, nor a check."""
    if node.op != "call_function" or node.target is operator.getitem or is_size_node(node):
        return False
    return any(isinstance(value, torch.Tensor) for value in node_values(node))


class NodeSupport:
    """Torch-TensorRT's converter registry and validators, with guards of our own before them.

    Args:
        program: An edge or ATen program.
        symbols: Names of the sizes that profiles give a range to.
        options: How engines will be built.
        excluded: Nodes that are refused whatever a converter says, with the reason.
    """

    def __init__(
        self,
        program: ExportedProgram,
        symbols: Set[str],
        options: CompileOptions,
        excluded: Mapping[Node, str],
    ) -> None:
        self._program = program
        self._symbols = symbols
        self._options = options
        self._excluded = excluded
        # Validators look constants up in the module, so it must live as long as the nodes.
        self._module, self._aten_nodes = aten_graph(program, constants_as_attributes=True)
        use_number_operands(self._module)
        self._foldable: dict[Node, bool] = {}
        self._reasons: dict[Node, str | None] = {}

    def takes(self, node: Node) -> bool:
        """Whether TensorRT can take a node."""
        return node.op == "call_function" and self.reason(node) is None

    def reason(self, node: Node) -> str | None:
        """Why TensorRT cannot take a `call_function` node; None if it can."""
        if node in self._excluded:
            return self._excluded[node]
        if node.target is operator.getitem:
            return self.reason(node.args[0]) and "an element of what is not taken"
        if node not in self._reasons:
            self._reasons[node] = self._find_reason(node)
        return self._reasons[node]

    def is_foldable(self, node: Node) -> bool:
        """Whether a node has the same value in every call, so that it is computed when building."""
        if node not in self._foldable:
            if node.op == "placeholder":
                self._foldable[node] = is_constant(self._program, node)
            else:
                self._foldable[node] = (
                    node.op == "call_function"
                    and not free_symbols(node.meta.get("val"))
                    and all(isinstance(value, torch.Tensor) for value in node_values(node))
                    and all(self.is_foldable(arg) for arg in node.all_input_nodes)
                )
        return self._foldable[node]

    def is_kept_on_cpu(self, node: Node) -> bool:
        """Whether `CompileOptions.cpu_operators` names a node's operator, in edge or in ATen."""
        for target in (node.target, self._aten_nodes[node].target):
            name = target_name(target)
            for kept in self._options.cpu_operators:
                if name == kept or name.startswith(f"{kept}."):
                    return True
        return False

    def _find_reason(self, node: Node) -> str | None:
        if self.is_kept_on_cpu(node):
            return "cpu_operators keeps it on the CPU"
        if raw_target(node.target) in _RANDOM:
            return "draws random numbers, which an engine would do once"
        reason = self._value_reason(node)
        if reason is not None or self.is_foldable(node):
            return reason
        return self._converter_reason(node)

    def _value_reason(self, node: Node) -> str | None:
        target = self._aten_nodes[node].target
        quantizes = target in QUANTIZE | DEQUANTIZE
        converts = quantizes or target is aten._to_copy.default
        for neighbour in (node, *node.all_input_nodes):
            unknown = sorted(free_symbols(neighbour.meta.get("val")) - self._symbols)
            if unknown:
                return f"size {unknown[0]} is known only when it runs"
            constant = is_constant(self._program, neighbour)
            for value in node_values(neighbour):
                if not isinstance(value, torch.Tensor):
                    continue
                if quantizes and value.dtype in QUANTIZED_DTYPES:
                    continue
                reason = self._tensor_reason(value, constant, converts)
                if reason is not None:
                    return reason
        return None

    def _tensor_reason(self, value: torch.Tensor, constant: bool, converts: bool) -> str | None:
        number = constant and value.dim() == 0
        if value.dtype not in _DTYPES and not (number and value.dtype == torch.float64):
            return f"dtype {value.dtype}"
        if value.dtype in (torch.int8, torch.uint8) and not converts:
            return f"arithmetic on {value.dtype}"
        if value.dim() > MAX_RANK:
            return f"rank {value.dim()} is over {MAX_RANK}"
        return None

    def _converter_reason(self, node: Node) -> str | None:
        from executorch_tensorrt.backend.converters import converter_registry

        aten_node = self._aten_nodes[node]
        check = _CHECKS.get(aten_node.target)
        reason = check(node) if check is not None else None
        if reason is not None:
            return reason
        with converter_registry(self._options) as registry:
            if aten_node.target not in registry:
                return "no converter"
            try:
                converter = registry.get(aten_node)
            except Exception as error:  # A validator that trips over a node vouches for nothing.
                return f"its converter's validator failed: {type(error).__name__}: {error}"
        if converter is None:
            return "its converter refuses these arguments or dynamic shapes"
        if converter[2].get("requires_output_allocator", False):
            return "its output's size is known only when it runs"
        if is_size_node(node):
            return None
        with converter_registry(self._options):
            reason = dry_run(aten_node, converter[0], self._options)
        return f"its converter fails: {reason}" if reason is not None else None


def describe(node: Node) -> str:
    """A node for messages: its operator and name."""
    return f"{target_name(node.target)} ({node.name})"


def is_channels_last(value: Any) -> bool:
    """Whether a tensor isn't laid out as its sizes are; an engine's bindings always are."""
    if not isinstance(value, torch.Tensor) or value.dim() not in (4, 5):
        return False
    strides, sizes = value.stride(), value.shape
    last_is_unit = isinstance(strides[-1], int) and strides[-1] == 1
    second_is_unit = isinstance(strides[1], int) and strides[1] == 1
    return second_is_unit and not last_is_unit and sizes[1] != 1
