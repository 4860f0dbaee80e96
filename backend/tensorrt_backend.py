"""The ExecuTorch backend: a partition of an edge program to a delegate blob."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore, NamedDataStoreOutput
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.debug_handle_utils import DEBUG_HANDLE_KEY, UNSET_DEBUG_HANDLE
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from .aten_graph import aten_graph
from .builder_config import hardware_compatibility
from .compile_options import CompileOptions
from .delegate_blob import (
    SECTION_ALIGNMENT,
    Binding,
    DelegateBlob,
    IndexCheck,
    Profile,
    ScalarType,
    ShapeRange,
    State,
    StateMode,
    engine_key,
)
from .delegate_blob import max_bytes as max_input_bytes
from .engine import Engine
from .engine_builder import distinct_ranges, output_bytes
from .engine_builds import EngineRequest, build_engines, naming
from .fallback_program import build_fallback_program
from .in_place_writes import write_in_place
from .partition_report import PARTITION_REPORT_KEY, MethodReport
from .size_inputs import replace_size_inputs
from .state import OwnedState, owned_states, put_states_last, user_inputs, user_outputs
from .state_writes import WritePlan, add_guard, of_originals, plan_writes
from .symbol_ranges import ProfileSymbols, symbols_from_json, symbols_to_json
from .tensorrt_import import import_tensorrt

logger = logging.getLogger("executorch_tensorrt")

PROFILES_KEY = "profiles"
OPTIONS_KEY = "compile_options"
MACHINE_KEY = "compile_options_of_machine"  # never in a program: preprocessing takes it out
WHOLE_METHOD_KEY = "whole_method"  # read by the runtime too
DEFAULT_PROFILE_KEY = "default_profile"  # read by the runtime alone

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
    profiles: Sequence[ProfileSymbols],
    options: CompileOptions,
    *,
    whole_method: bool = False,
    default_profile: str | None = None,
    report: MethodReport | None = None,
) -> list[CompileSpec]:
    """What the partitioner tells `TensorRTBackend`, and the runtime.

    `whole_method`: the method is this delegate alone, so that its inputs and outputs may be on the
    delegate's device. `default_profile`: what is used where nothing else names a profile. `report`
    is for people who ask the `.pte` what stayed outside, and why.
    """
    specs = [
        CompileSpec(PROFILES_KEY, symbols_to_json(profiles)),
        CompileSpec(OPTIONS_KEY, options.to_json()),
        CompileSpec(MACHINE_KEY, options.machine_json()),
    ]
    if whole_method:
        specs.append(CompileSpec(WHOLE_METHOD_KEY, b""))
    if default_profile is not None:
        specs.append(CompileSpec(DEFAULT_PROFILE_KEY, default_profile.encode()))
    if report is not None:
        specs.append(CompileSpec(PARTITION_REPORT_KEY, report.to_json()))
    return specs


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
            compile_specs: What `compile_specs()` gives. What is of this machine alone is taken out
                of the list, as ExecuTorch writes it into the program.

        Raises:
            EngineBuildError: No engine could be built; the message holds TensorRT's own.
            ImportError: TensorRT is not installed.
            ValueError: A compile spec is missing, or the partition has an input or output that an
                engine cannot have; the message names it.
        """
        programs, specs = {"forward": [edge_program]}, {"forward": [compile_specs]}
        [result] = TensorRTBackend.preprocess_multimethod(programs, specs)["forward"]
        return result

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Builds the delegate blobs of all partitions of all methods, as `preprocess` does of one.

        Engines are built `CompileOptions.parallel_builds` at a time. Partitions that are the same,
        of one method or several, have one engine, built once; their blobs are the same bytes, which
        ExecuTorch writes once.

        Raises:
            EngineBuildError, ImportError, ValueError: As `preprocess`; the message begins with the
                partition.
        """
        partitions: list[_Partition] = []
        for method, programs in edge_programs.items():
            for index, program in enumerate(programs):
                where = _where(method, index, len(programs), program)
                specs = compile_specs[method][index]
                with naming(where):
                    partitions.append(_read_partition(where, program, specs))
                specs[:] = [spec for spec in specs if spec.key != MACHINE_KEY]
        results = iter(_results(partitions))
        return {
            method: [next(results) for _ in programs] for method, programs in edge_programs.items()
        }


def _debug_handles(
    partition: ExportedProgram, profiles: Sequence[ProfileSymbols]
) -> dict[int | str, tuple[int, ...]]:
    """The source nodes behind each event that the runtime traces: one a profile, by its name."""
    handles = {
        handle
        for node in partition.graph.nodes
        if node.op == "call_function"
        and (handle := node.meta.get(DEBUG_HANDLE_KEY, UNSET_DEBUG_HANDLE)) != UNSET_DEBUG_HANDLE
    }
    return {profile.name: tuple(sorted(handles)) for profile in profiles}


@dataclass(frozen=True)
class _Partition:
    """A partition and what its blob is made of besides the engine.

    `inputs` and `outputs` are the call's tensors with their argument index. `ranges` are the
    engine's profiles, `engine_profiles` the index of each of `profiles` in them. The nodes of
    `writes` are of an engine graph that is not kept, but what is guarded, which is of the program.
    """

    where: str
    program: ExportedProgram
    profiles: tuple[ProfileSymbols, ...]
    options: CompileOptions
    inputs: list[tuple[int, Node]]
    outputs: list[tuple[int, Node]]
    ranges: list[tuple[ShapeRange, ...]]
    engine_profiles: list[int]
    states: tuple[OwnedState, ...]
    writes: WritePlan


def _where(method: str, index: int, count: int, program: ExportedProgram) -> str:
    operators = [node.name for node in program.graph.nodes if node.op == "call_function"]
    operators = operators or ["none"]
    return (
        f"method '{method}', partition {index + 1} of {count} ({len(operators)} operators, "
        f"{operators[0]} to {operators[-1]})"
    )


def _read_partition(
    where: str, program: ExportedProgram, specs: Sequence[CompileSpec]
) -> _Partition:
    profiles, options = _read_specs(specs)
    inputs, outputs = _arguments(program)
    states = owned_states(program)
    logger.info(
        "%s: %d inputs, %d outputs, %d states, profiles %s",
        where,
        len(inputs),
        len(outputs),
        len(states),
        ", ".join(profile.name for profile in profiles),
    )
    values = [node.meta["val"] for _, node in inputs]
    ranges, engine_profiles = distinct_ranges(values, profiles)
    return _Partition(
        where,
        program,
        profiles,
        options,
        inputs,
        outputs,
        ranges,
        engine_profiles,
        states,
        _writes(program, profiles, options),
    )


def _results(partitions: Sequence[_Partition]) -> list[PreprocessResult]:
    """The partitions' blobs and, where those are to be outside, engines.

    Where two are the same bytes they are the same object.
    """
    engines = build_engines(
        [
            EngineRequest(
                partition.where,
                partial(_engine_graph, partition),
                _engine_ranges(partition),
                partition.options,
            )
            for partition in partitions
        ]
    )
    engines.reverse()
    plans: dict[bytes, bytes] = {}
    results: list[PreprocessResult] = []
    for partition in partitions:
        engine = engines.pop()  # none is kept longer than until its blob is there
        engine_id, store = b"", None
        if partition.options.engine_data_file is not None:
            engine_id = hashlib.sha256(engine.plan).digest()
            if engine_id not in plans:
                plans[engine_id] = bytes(engine.plan)
            store = _data_store(partition.options.engine_data_file, engine_id, plans[engine_id])
        with naming(partition.where):
            blob = _blob(partition, engine, engine_id).to_bytes()
        # Compared, not hashed: what differs does so in the header's sum.
        equal = (other.processed_bytes for other in results if other.processed_bytes == blob)
        results.append(
            PreprocessResult(
                processed_bytes=next(equal, blob),
                debug_handle_map=_debug_handles(partition.program, partition.profiles),
                data_store_output=store,
            )
        )
    return results


def _data_store(file: str, engine_id: bytes, plan: bytes) -> NamedDataStoreOutput:
    store = NamedDataStore()
    store.add_named_data(engine_key(engine_id), plan, SECTION_ALIGNMENT, external_tag=file)
    return store.get_named_data_store_output()


def _blob(partition: _Partition, engine: Engine, engine_id: bytes) -> DelegateBlob:
    """Engine, bindings, profiles and, if asked for, the CPU fallback of a partition."""
    options = partition.options
    fallback = None
    if options.cpu_fallback:
        fallback = build_fallback_program(partition.program, partition.writes.guarded)
    tensorrt = import_tensorrt()
    outside = options.engine_data_file is not None
    return DelegateBlob(
        engine_id=engine_id,
        flavour=tensorrt.flavour,
        version=tensorrt.version,
        compute_capability=engine.compute_capability,
        hardware_compatibility=hardware_compatibility(options),
        version_compatible=options.version_compatible,
        num_arguments=len(user_inputs(partition.program)) + len(partition.outputs),
        bindings=_bindings(partition, engine),
        profiles=tuple(
            Profile(profile.name, index, partition.ranges[index])
            for profile, index in zip(partition.profiles, partition.engine_profiles, strict=True)
        ),
        build_options={
            **options.described(),
            "torch": torch.__version__,
            # TensorRT-RTX wants it to be the same where the engine runs.
            "nvidia_tf32_override": os.environ.get("NVIDIA_TF32_OVERRIDE", ""),
        },
        engine=b"" if outside else engine.plan,
        fallback=fallback,
        external_engine_bytes=engine.plan.nbytes if outside else 0,
        states=_states(partition, engine),
        guard=engine.output_names[-1] if partition.writes.guarded else None,
        index_checks=tuple(
            IndexCheck(
                check.input, check.least, check.greatest, name, check.extent, check.contiguous
            )
            for check, name in partition.writes.checks.items()
        ),
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
    if MACHINE_KEY in values:
        options = dataclasses.replace(options, **json.loads(values[MACHINE_KEY]))
    return symbols_from_json(values[PROFILES_KEY]), options


def _arguments(
    partition: ExportedProgram,
) -> tuple[list[tuple[int, Node]], list[tuple[int, Node]]]:
    """The call's tensors with their argument index: inputs, outputs. Sizes have no binding."""
    placeholders = user_inputs(partition)
    inputs = [
        (index, node)
        for index, node in enumerate(placeholders)
        if isinstance(node.meta["val"], torch.Tensor)
    ]
    outputs = list(enumerate(user_outputs(partition), len(placeholders)))
    if not inputs and not owned_states(partition):
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


def _planned_graph(
    program: ExportedProgram, profiles: Sequence[ProfileSymbols], options: CompileOptions
) -> tuple[GraphModule, dict[Node, Node], WritePlan]:
    """The engine's graph before writes to states are changed, its nodes, and what is to change."""
    module, nodes = aten_graph(program, constants_as_attributes=True)
    replace_size_inputs(module)
    put_states_last(program, module, nodes)
    plan = plan_writes(
        module,
        [state.name for state in owned_states(program)],
        lambda size: max(profile.bound(size).max for profile in profiles),
        contiguous_positions=options.contiguous_positions,
    )
    return module, nodes, plan


def _writes(
    program: ExportedProgram, profiles: Sequence[ProfileSymbols], options: CompileOptions
) -> WritePlan:
    if not owned_states(program):
        return WritePlan()
    _, nodes, plan = _planned_graph(program, profiles, options)
    return dataclasses.replace(plan, guarded=of_originals(plan.guarded, nodes))


def _engine_graph(partition: _Partition) -> GraphModule:
    module, nodes, plan = _planned_graph(partition.program, partition.profiles, partition.options)
    if partition.writes.guarded:
        add_guard(module, partition.writes.guarded, nodes)
    write_in_place(module, [nodes[state.input] for state in partition.states], plan.in_place)
    return module


def _engine_ranges(partition: _Partition) -> list[tuple[ShapeRange, ...]]:
    """For each engine profile, the ranges of the inputs and then of the states."""
    static = []
    for index, state in enumerate(partition.states):
        write = partition.writes.in_place.get(index)
        shape = tuple(state.initial.shape)
        shape = shape if write is None else write.cache_shape(shape)
        static.append(ShapeRange(shape, shape, shape))
    return [(*profile, *static) for profile in partition.ranges]


def _states(partition: _Partition, engine: Engine) -> tuple[State, ...]:
    first_input, first_output = len(partition.inputs), len(partition.outputs)
    in_place = partition.writes.in_place
    return tuple(
        State(
            name=state.name,
            dtype=_SCALAR_TYPES[state.initial.dtype],
            shape=tuple(state.initial.shape),
            input=engine.input_names[first_input + index],
            output=engine.output_names[first_output + index],
            mode=StateMode.ALIAS if index in in_place else StateMode.PING_PONG,
            initial=state.initial_bytes(),
        )
        for index, state in enumerate(partition.states)
    )


def _bindings(partition: _Partition, engine: Engine) -> tuple[Binding, ...]:
    bindings = []
    for position, (name, (argument, node)) in enumerate(
        zip(engine.input_names[: len(partition.inputs)], partition.inputs, strict=True)
    ):
        dtype = _SCALAR_TYPES[node.meta["val"].dtype]
        size = max_input_bytes(dtype, [profile[position].max for profile in partition.ranges])
        dims = _dims(node.meta["val"], partition.profiles)
        bindings.append(Binding(name, dtype, True, argument, dims, size))
    for name, (argument, node) in zip(
        engine.output_names[: len(partition.outputs)], partition.outputs, strict=True
    ):
        value = node.meta["val"]
        size = output_bytes(value, partition.profiles)
        dims = _dims(value, partition.profiles)
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
