"""Torch-TensorRT's converters: its settings, its interpreter and its registry, as used here.

Importing this module imports Torch-TensorRT.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .compile_options import CompileOptions
from .tensorrt_import import import_tensorrt

tensorrt = import_tensorrt()
trt = tensorrt.trt

from torch_tensorrt import Device, dtype  # noqa: E402
from torch_tensorrt.dynamo._settings import CompilationSettings  # noqa: E402
from torch_tensorrt.dynamo._SourceIR import SourceIR as SourceIR  # noqa: E402
from torch_tensorrt.dynamo.conversion import impl as impl  # noqa: E402
from torch_tensorrt.dynamo.conversion._ConversionContext import (  # noqa: E402
    ConversionContext as ConversionContext,
)
from torch_tensorrt.dynamo.conversion._ConverterRegistry import (  # noqa: E402
    DYNAMO_ATEN_CONVERTERS,
    DYNAMO_CONVERTERS,
    ConverterSupport,
)
from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter  # noqa: E402
from torch_tensorrt.dynamo.conversion.converter_utils import (  # noqa: E402
    get_trt_tensor as get_trt_tensor,
)
from torch_tensorrt.logging import TRT_LOGGER as TRT_LOGGER  # noqa: E402

aten = torch.ops.aten

# Registered for static shapes alone, but their converters do work with dynamic ones.
_ALSO_DYNAMIC = (
    aten.gather.default,
    aten.log1p.default,
    aten.clone.default,
    aten._to_copy.default,
)


@cache
def settings(options: CompileOptions) -> CompilationSettings:
    """Torch-TensorRT's settings for our options."""
    device = torch.cuda.current_device() if torch.cuda.is_available() else 0
    return CompilationSettings(
        min_block_size=1,
        truncate_double=True,
        device=Device(gpu_id=device),
        disable_tf32=not options.tf32,
        optimization_level=options.optimization_level,
        workspace_size=options.workspace_bytes or 0,
    )


@contextlib.contextmanager
def converter_registry(options: CompileOptions) -> Iterator[Any]:
    """The registry under our settings, with our own converters; undone afterwards."""
    from .own_converters import OWN_CONVERTERS, SHARED

    changed: dict[Any, Sequence[ConverterSupport]] = {}
    for target in _ALSO_DYNAMIC:
        changed[target] = [
            dataclasses.replace(converter, supports_dynamic_shapes=True)
            for converter in DYNAMO_ATEN_CONVERTERS.get(target, ())
        ]
    for target, (implementation, takes) in OWN_CONVERTERS.items():
        own = ConverterSupport(
            implementation,
            capability_validator=lambda node, settings, takes=takes: takes(node),
            supports_dynamic_shapes=True,
        )
        others = DYNAMO_ATEN_CONVERTERS.get(target, ()) if target in SHARED else ()
        changed[target] = [own, *others]
    before = {target: DYNAMO_ATEN_CONVERTERS.get(target) for target in changed}
    settings_before = DYNAMO_CONVERTERS.compilation_settings
    DYNAMO_ATEN_CONVERTERS.update(changed)
    DYNAMO_CONVERTERS.set_compilation_settings(settings(options))
    try:
        yield DYNAMO_CONVERTERS
    finally:
        for target, converters in before.items():
            if converters is None:
                del DYNAMO_ATEN_CONVERTERS[target]
            else:
                DYNAMO_ATEN_CONVERTERS[target] = converters
        if settings_before is not None:
            DYNAMO_CONVERTERS.set_compilation_settings(settings_before)


class Interpreter(TRTInterpreter):
    """Torch-TensorRT's interpreter, with tensors as the graph and ExecuTorch's call have them.

    Torch-TensorRT marks one tensor for two equal outputs, lets rank 0 become rank 1 and int64
    become int32. Here each output is a tensor of its own, no engine input, and every tensor has the
    graph's rank and dtype.
    """

    def __init__(
        self,
        module: GraphModule,
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor],
        compilation_settings: CompilationSettings,
    ) -> None:
        super().__init__(
            module,
            inputs,
            output_dtypes=[value.dtype for value in outputs],
            compilation_settings=compilation_settings,
        )
        self._output_values = outputs

    def run_node(self, n: Node) -> Any:
        """Converts one node, keeping rank 0 and the dtype."""
        result = super().run_node(n)
        value = n.meta.get("val")
        if n.op != "call_function" or not isinstance(value, torch.Tensor):
            return result
        if value.dim() == 0:
            result = self._with_rank(result, 0, n.name)
        if isinstance(result, trt.ITensor) and value.dtype != torch.float64:
            right = trt_dtype(value.dtype)
            if result.dtype != right:
                return self.ctx.net.add_cast(result, right).get_output(0)
        return result

    def output(self, target: Any, args: Any, kwargs: Any) -> list[Any]:
        """Marks the network's outputs."""
        net = self.ctx.net
        taken = {net.get_input(index).name for index in range(net.num_inputs)}
        tensors = []
        for index, (tensor, value) in enumerate(zip(args[0], self._output_values, strict=True)):
            if not isinstance(tensor, trt.ITensor):
                tensor = get_trt_tensor(self.ctx, tensor, f"constant_output{index}", min_rank=0)
            tensor = self._with_rank(tensor, value.dim(), f"output {index}")
            if tensor.name in taken:
                tensor = net.add_identity(tensor).get_output(0)
            taken.add(tensor.name)
            tensors.append(tensor)
        return list(super().output(target, (tuple(tensors),), kwargs))

    def _with_rank(self, tensor: Any, rank: int, what: str) -> Any:
        if not isinstance(tensor, trt.ITensor) or len(tensor.shape) == rank:
            return tensor
        if rank != 0:
            raise RuntimeError(
                f"{what}: the converter gave a tensor of rank {len(tensor.shape)}, expected {rank}"
            )
        layer = self.ctx.net.add_shuffle(tensor)
        layer.reshape_dims = trt.Dims()
        return layer.get_output(0)


def trt_dtype(element: torch.dtype) -> Any:
    """TensorRT's data type for a torch dtype."""
    return dtype._from(element).to(trt.DataType)


def torch_dtype(element: Any) -> torch.dtype:
    """The torch dtype of a TensorRT data type."""
    return dtype._from(element).to(torch.dtype)
