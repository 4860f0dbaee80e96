"""Exports a model to an ExecuTorch program whose delegates are TensorRT engines."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.backend.utils import get_delegates
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.export import ExportedProgram

from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.compile_specs import WHOLE_METHOD_KEY
from executorch_tensorrt.backend.fallback_program import missing_kernels
from executorch_tensorrt.partitioner import TensorRTPartitioner
from executorch_tensorrt.profiles import OptimizationProfile

from .dynamic_shapes import TraceInputs, derive_dynamic_shapes, inputs_apart
from .methods import MethodSource, Model, method_sources

logger = logging.getLogger("executorch_tensorrt")


def export(
    model: Model | Mapping[str, Model],
    example_inputs: Sequence[Any] | Mapping[str, Sequence[Any]] = (),
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    profiles: Sequence[OptimizationProfile] | Mapping[str, Sequence[OptimizationProfile]] = (),
    default_profiles: Mapping[str, str] | None = None,
    fallback_partitioners: Sequence[Partitioner] = (),
    options: CompileOptions = CompileOptions(),  # noqa: B008 (it is frozen)
    strict: bool = False,
    generate_etrecord: bool = False,
) -> ExecutorchProgramManager:
    """Exports a model, with each part that TensorRT can take as an engine.

    Args:
        model: A module in eval mode, or a program that torch.export already made; for a program the
            examples and `dynamic_shapes` are not to be given. It becomes the method "forward". A
            mapping from method names to such models makes a program of several methods; then
            `example_inputs`, `example_kwargs`, `dynamic_shapes` and `profiles` are each either a
            mapping from the same names, or the same for every method. Methods whose graphs,
            weights and profiles are the same have one engine, built and stored once.
        example_inputs: Positional inputs to trace with.
        example_kwargs: Keyword inputs to trace with.
        dynamic_shapes: As torch.export takes them. None: each dim that the profiles let vary is
            dynamic, over all sizes from the least to the greatest of any profile; torch.export
            finds out which dims are equal.
        profiles: Named shape regimes; at least one if an input is dynamic.
        default_profiles: For each method, the name of the profile that it uses where neither the
            call, a pin nor `RuntimeOptions.default_profile` names one; a method left out selects by
            shape. None: where `model` is a mapping, a method named like one of its profiles uses
            that one; the others select by shape.
        fallback_partitioners: Who is offered what TensorRT leaves, in this order, such as
            ExecuTorch's XnnpackPartitioner(). What is left then runs in ExecuTorch's own kernels.
        options: How the engines are built.
        strict: torch.export's tracing mode.
        generate_etrecord: Whether `.get_etrecord()` of the program is there, with which
            ExecuTorch's Inspector names the operators behind what a traced execution took.

    Returns:
        The program; `.buffer` are the bytes of a `.pte`, `.save(path)` writes them. Graph inputs
        have no memory of their own in it: the runtime uses the caller's. Neither have the outputs
        of a method that TensorRT takes whole: they are written to the memory that the caller sets,
        else to the delegate's, where they stay until the next call.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A profile does not fit the model; the message names profile, input, dim and
            numbers. Or a mapping does not have the methods' names.
        EngineBuildError: TensorRT built no engine; the message names the partition and holds what
            TensorRT said.
        ImportError: TensorRT is not installed.

    Example:
        >>> program = export(
        ...     model,
        ...     (torch.zeros(1, 16, dtype=torch.long),),
        ...     profiles=[
        ...         OptimizationProfile("decode", {"tokens": [1, 1]}),
        ...         OptimizationProfile("prefill", {"tokens": [1, (2, 128, 512)]}),
        ...     ],
        ... )
        >>> program.save("model.pte")
    """
    _check_partitioners(fallback_partitioners)
    sources = method_sources(
        model, example_inputs, example_kwargs, dynamic_shapes, profiles, default_profiles
    )
    partitioners: dict[str, list[Partitioner]] = {}
    for source in sources:
        with source.named_in_errors():
            own = TensorRTPartitioner(
                source.profiles, options=options, default_profile=source.default_profile
            )
        partitioners[source.name] = [own, *fallback_partitioners]
    programs = {}
    for source in sources:
        with source.named_in_errors():
            programs[source.name] = _exported(source, strict)
    started = time.perf_counter()
    logger.info("lowering to TensorRT")
    with torch.no_grad():
        # Not every operator that TensorRT takes is one that ExecuTorch's validity check knows.
        edge = to_edge_transform_and_lower(
            programs,
            partitioner=partitioners,
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            generate_etrecord=generate_etrecord,
        )
        result = _to_executorch(edge)
    _warn_of_missing_kernels(result)
    logger.info("lowered in %.1f s", time.perf_counter() - started)
    return result


def _check_partitioners(partitioners: object) -> None:
    if isinstance(partitioners, Partitioner) or not isinstance(partitioners, Sequence):
        raise TypeError(
            "fallback_partitioners must be a list of partitioners, got "
            f"{type(partitioners).__name__}; write [partitioner]"
        )
    for index, item in enumerate(partitioners):
        if not isinstance(item, Partitioner):
            raise TypeError(
                f"fallback_partitioners[{index}] must be an ExecuTorch Partitioner, got "
                f"{type(item).__name__}"
            )


def _exported(source: MethodSource, strict: bool) -> ExportedProgram:
    if not isinstance(source.model, ExportedProgram):
        return _traced(source, strict)
    if source.example_inputs or source.example_kwargs or source.dynamic_shapes is not None:
        raise ValueError(
            "model is an ExportedProgram, which has its inputs and shapes already; give no "
            "example_inputs, example_kwargs or dynamic_shapes with it"
        )
    return source.model


def _traced(source: MethodSource, strict: bool) -> ExportedProgram:
    model, args = source.model, source.example_inputs
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module or an ExportedProgram, got {type(model).__name__}"
        )
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence):
        raise TypeError(
            f"example_inputs must be a tuple of inputs, got one {type(args).__name__}; "
            "write (input,)"
        )
    # A program's module, as pt2e quantizes it, says it trains and has no eval().
    if model.training and not isinstance(model, torch.fx.GraphModule):
        warnings.warn(
            f"{type(model).__name__} is in training mode, so dropout and batch norm are exported "
            "as in training; call model.eval() first",
            stacklevel=4,
        )
    started = time.perf_counter()
    logger.info("tracing %s with torch.export", type(model).__name__)
    args, kwargs = inputs_apart(tuple(args), dict(source.example_kwargs))
    inputs = TraceInputs(args, kwargs, source.dynamic_shapes)
    if source.dynamic_shapes is None and source.profiles:
        inputs = derive_dynamic_shapes(model, inputs.args, inputs.kwargs, source.profiles)
    with torch.no_grad():
        program = torch.export.export(
            model,
            inputs.args,
            inputs.kwargs,
            dynamic_shapes=inputs.dynamic_shapes,
            strict=strict,
        )
    logger.info("traced in %.1f s", time.perf_counter() - started)
    return program


def _warn_of_missing_kernels(program: ExecutorchProgramManager) -> None:
    missing = missing_kernels(program)
    if missing:
        warnings.warn(
            f"{', '.join(missing)} stays outside TensorRT and ExecuTorch's runtime has no kernel "
            "for it; the program loads only where one is registered",
            stacklevel=3,
        )


def _is_one_delegate(program: ExportedProgram) -> bool:
    delegates = get_delegates(program.graph)
    if len(delegates) != 1:
        return False
    specs = getattr(program.graph_module, delegates[0].name).compile_specs
    return any(spec.key == WHOLE_METHOD_KEY for spec in specs)


def _returns_an_input(program: ExportedProgram) -> bool:
    signature = program.graph_signature
    return not set(signature.user_inputs).isdisjoint(signature.user_outputs)


def _written_buffers(program: ExportedProgram) -> list[str]:
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    return [name for name, fqn in signature.inputs_to_buffers.items() if fqn in written]


def _to_executorch(edge: EdgeProgramManager) -> ExecutorchProgramManager:
    programs = {name: edge.exported_program(name) for name in edge.methods}
    written = sorted({name for item in programs.values() for name in _written_buffers(item)})
    config = ExecutorchBackendConfig(
        # Without the pass a written buffer would start from zeros, not from its value here.
        passes=[InitializedMutableBufferPass(written)] if written else [],
        # The outputs of a method that is one delegate may be wanted on the GPU. An input that is
        # returned as it came is one value with an output: setting the one would set the other.
        memory_planning_pass={
            name: MemoryPlanningPass(
                alloc_graph_input=_returns_an_input(program),
                alloc_graph_output=not _is_one_delegate(program),
            )
            for name, program in programs.items()
        },
    )
    with warnings.catch_warnings():
        # Says what would happen without the pass, with or without it.
        warnings.filterwarnings("ignore", "Mutation on a buffer in the model is detected")
        return edge.to_executorch(config)
