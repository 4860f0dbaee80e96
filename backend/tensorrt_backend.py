"""The ExecuTorch backend: a partition of an edge program to a delegate blob."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Sequence

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram
from torch.fx import Node

from .aten_graph import aten_graph, is_constant
from .builder_config import hardware_compatibility
from .compile_options import CompileOptions
from .delegate_blob import (
    Binding,
    DelegateBlob,
    Profile,
    ScalarType,
    ShapeRange,
)
from .delegate_blob import max_bytes as max_input_bytes
from .engine import Engine
from .engine_builder import build_engine, distinct_ranges, output_bytes
from .fallback_program import build_fallback_program
from .size_inputs import replace_size_inputs
from .symbol_ranges import ProfileSymbols, symbols_from_json, symbols_to_json
from .tensorrt_import import import_tensorrt

logger = logging.getLogger("executorch_tensorrt")

PROFILES_KEY = "profiles"
OPTIONS_KEY = "compile_options"
ENGINE_CACHE_KEY = "engine_cache"  # never in a program: `preprocess` takes it out
WHOLE_METHOD_KEY = "whole_method"  # read by the runtime too

_SCALAR_TYPES = {
    torch.uint8: ScalarType.UINT8,
    torch.int8: ScalarType.INT8,
    torch.int32: ScalarType.INT32,
    torch.int64: ScalarType.INT64,
    torch.float16: ScalarType.FLOAT16,
    torch.float32: ScalarType.FLOAT32,
    torch.bool: ScalarType.BOOL,
    torch.bfloat16: ScalarType.BFLOAT16,
}


def compile_specs(
    profiles: Sequence[ProfileSymbols], options: CompileOptions, *, whole_method: bool = False
) -> list[CompileSpec]:
    """What the partitioner tells `TensorRTBackend.preprocess`, and the runtime.

    `whole_method`: the method is this delegate alone, so that its inputs and outputs may be on the
    delegate's device.
    """
    specs = [
        CompileSpec(PROFILES_KEY, symbols_to_json(profiles)),
        CompileSpec(OPTIONS_KEY, options.to_json()),
    ]
    if options.engine_cache_dir is not None:
        cache = {"dir": options.engine_cache_dir, "bytes": options.engine_cache_bytes}
        specs.append(CompileSpec(ENGINE_CACHE_KEY, json.dumps(cache).encode()))
    return [*specs, CompileSpec(WHOLE_METHOD_KEY, b"")] if whole_method else specs


class TensorRTBackend(BackendDetails):
    """Builds a TensorRT engine of a partition; the class's name is the backend id in the `.pte`."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program itself: `preprocess` leaves it as it is, so its weights need no copy."""
        return edge_program

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Builds the delegate blob.

        Args:
            edge_program: The partition; its constants are baked into the engine.
            compile_specs: What `compile_specs()` gives. The place of the engine cache is taken out
                of the list, as ExecuTorch writes it into the program.

        Raises:
            EngineBuildError: No engine could be built; the message holds TensorRT's own.
            ImportError: TensorRT is not installed.
            ValueError: A compile spec is missing, or the partition has an input or output that an
                engine cannot have; the message names it.
        """
        profiles, options = _read_specs(compile_specs)
        compile_specs[:] = [spec for spec in compile_specs if spec.key != ENGINE_CACHE_KEY]
        blob = build_blob(edge_program, profiles, options)
        return PreprocessResult(processed_bytes=blob.to_bytes(), debug_handle_map={})


def build_blob(
    partition: ExportedProgram, profiles: Sequence[ProfileSymbols], options: CompileOptions
) -> DelegateBlob:
    """Engine, bindings, profiles and, if asked for, the CPU fallback of a partition."""
    inputs, outputs = _arguments(partition)
    logger.info(
        "partition of %d operators, %d inputs, %d outputs, profiles %s",
        sum(node.op == "call_function" for node in partition.graph.nodes),
        len(inputs),
        len(outputs),
        ", ".join(profile.name for profile in profiles),
    )
    values = [node.meta["val"] for _, node in inputs]
    ranges, engine_profiles = distinct_ranges(values, profiles)
    engine = _engine(partition, ranges, options)
    fallback = build_fallback_program(partition) if options.cpu_fallback else None
    tensorrt = import_tensorrt()
    return DelegateBlob(
        engine_id=hashlib.sha256(engine.plan).digest(),
        flavour=tensorrt.flavour,
        version=tensorrt.version,
        compute_capability=engine.compute_capability,
        hardware_compatibility=hardware_compatibility(options),
        version_compatible=options.version_compatible,
        num_arguments=len(_user_inputs(partition)) + len(outputs),
        bindings=_bindings(engine, inputs, outputs, ranges, profiles),
        profiles=tuple(
            Profile(profile.name, index, ranges[index])
            for profile, index in zip(profiles, engine_profiles, strict=True)
        ),
        build_options={
            **options.described(),
            "torch": torch.__version__,
            # TensorRT-RTX wants it to be the same where the engine runs.
            "nvidia_tf32_override": os.environ.get("NVIDIA_TF32_OVERRIDE", ""),
        },
        engine=engine.plan,
        fallback=fallback,
    )


def _read_specs(
    specs: Sequence[CompileSpec],
) -> tuple[tuple[ProfileSymbols, ...], CompileOptions]:
    values = {spec.key: spec.value for spec in specs}
    for key in (PROFILES_KEY, OPTIONS_KEY):
        if key not in values:
            raise ValueError(
                f"TensorRTBackend: compile spec '{key}' is missing; partition with "
                "executorch_tensorrt.TensorRTPartitioner, which sets it"
            )
    options = CompileOptions.from_json(values[OPTIONS_KEY])
    if ENGINE_CACHE_KEY in values:
        cache = json.loads(values[ENGINE_CACHE_KEY])
        options = dataclasses.replace(
            options, engine_cache_dir=cache["dir"], engine_cache_bytes=cache["bytes"]
        )
    return symbols_from_json(values[PROFILES_KEY]), options


def _user_inputs(partition: ExportedProgram) -> list[Node]:
    """The delegate call's inputs: what is left of the placeholders without the constants."""
    return [
        node
        for node in partition.graph.find_nodes(op="placeholder")
        if not is_constant(partition, node)
    ]


def _arguments(
    partition: ExportedProgram,
) -> tuple[list[tuple[int, Node]], list[tuple[int, Node]]]:
    """The call's tensors with their argument index: inputs, outputs. Sizes have no binding."""
    placeholders = _user_inputs(partition)
    inputs = [
        (index, node)
        for index, node in enumerate(placeholders)
        if isinstance(node.meta["val"], torch.Tensor)
    ]
    outputs = list(enumerate(partition.graph.output_node().args[0], len(placeholders)))
    if not inputs:
        raise ValueError("the partition has no tensor input; an engine needs one")
    for kind, arguments in (("input", inputs), ("output", outputs)):
        for _, node in arguments:
            value = node.meta["val"]
            if not isinstance(value, torch.Tensor):
                raise ValueError(
                    f"{kind} '{node.name}' of the partition is {value!r} ({type(value).__name__}); "
                    f"an engine's {kind}s are tensors"
                )
            if value.dtype not in _SCALAR_TYPES:
                raise ValueError(
                    f"{kind} '{node.name}' of the partition has dtype {value.dtype}; an engine has "
                    f"{', '.join(str(dtype) for dtype in _SCALAR_TYPES)}"
                )
    return inputs, outputs


def _engine(
    partition: ExportedProgram, ranges: Sequence[tuple[ShapeRange, ...]], options: CompileOptions
) -> Engine:
    module, _ = aten_graph(partition, constants_as_attributes=True)
    replace_size_inputs(module)
    return build_engine(module, ranges, options)


def _bindings(
    engine: Engine,
    inputs: Sequence[tuple[int, Node]],
    outputs: Sequence[tuple[int, Node]],
    ranges: Sequence[tuple[ShapeRange, ...]],
    profiles: Sequence[ProfileSymbols],
) -> tuple[Binding, ...]:
    bindings = []
    for position, (name, (argument, node)) in enumerate(
        zip(engine.input_names, inputs, strict=True)
    ):
        dtype = _SCALAR_TYPES[node.meta["val"].dtype]
        size = max_input_bytes(dtype, [profile[position].max for profile in ranges])
        dims = _dims(node.meta["val"], profiles)
        bindings.append(Binding(name, dtype, True, argument, dims, size))
    for name, (argument, node) in zip(engine.output_names, outputs, strict=True):
        value = node.meta["val"]
        size = output_bytes(value, profiles)
        dims = _dims(value, profiles)
        dtype = _SCALAR_TYPES[value.dtype]
        bindings.append(Binding(name, dtype, False, argument, dims, size))
    return tuple(bindings)


def _dims(value: torch.Tensor, profiles: Sequence[ProfileSymbols]) -> tuple[int, ...]:
    """Each dim's size where it is the same under every profile, else -1."""
    dims = []
    for size in value.shape:
        bounds = {n for profile in profiles for n in profile.bound(size)}
        dims.append(bounds.pop() if len(bounds) == 1 else -1)
    return tuple(dims)
