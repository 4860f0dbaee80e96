"""A partition of an edge program, as its engine and its blob need it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from .aten_graph import aten_graph
from .attention import answer_masked_queries, separate_queries
from .compile_options import CompileOptions
from .compile_specs import read_specs
from .delegate_blob import ScalarType, ShapeRange
from .engine_builder import distinct_ranges
from .gated_activations import spell_out_gates
from .in_place_writes import write_in_place
from .size_inputs import replace_size_inputs
from .state import OwnedState, owned_states, put_states_last, user_inputs, user_outputs
from .state_writes import WritePlan, add_guard, of_originals, plan_writes
from .symbol_ranges import ProfileSymbols

logger = logging.getLogger("executorch_tensorrt")

SCALAR_TYPES = {
    torch.uint8: ScalarType.UINT8,
    torch.int8: ScalarType.INT8,
    torch.int32: ScalarType.INT32,
    torch.int64: ScalarType.INT64,
    torch.float16: ScalarType.FLOAT16,
    torch.float32: ScalarType.FLOAT32,
    torch.bool: ScalarType.BOOL,
    torch.bfloat16: ScalarType.BFLOAT16,
}


@dataclass(frozen=True)
class Partition:
    """A partition and what its engine and its blob are made of.

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


def read_partition(where: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> Partition:
    """The partition of a program; `where` is how errors call it.

    Raises:
        ValueError: A compile spec is missing, or an input or output is no tensor, or of a dtype
            that an engine cannot have.
    """
    profiles, options = read_specs(specs)
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
    return Partition(
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
            if value.dtype not in SCALAR_TYPES:
                raise ValueError(
                    f"{kind} '{node.name}' of the partition has dtype {value.dtype}; an engine has "
                    f"{', '.join(str(dtype) for dtype in SCALAR_TYPES)}"
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


def engine_graph(partition: Partition) -> GraphModule:
    """The graph that an engine is built of: inputs and outputs of the call, then of the states."""
    module, nodes, plan = _planned_graph(partition.program, partition.profiles, partition.options)
    if partition.writes.guarded:
        add_guard(module, partition.writes.guarded, nodes)
    write_in_place(module, [nodes[state.input] for state in partition.states], plan.in_place)
    separate_queries(module)
    answer_masked_queries(module)
    spell_out_gates(module)
    return module


def engine_ranges(partition: Partition) -> list[tuple[ShapeRange, ...]]:
    """For each engine profile, the ranges of the inputs and then of the states."""
    static = []
    for index, state in enumerate(partition.states):
        write = partition.writes.in_place.get(index)
        shape = tuple(state.initial.shape)
        shape = shape if write is None else write.cache_shape(shape)
        static.append(ShapeRange(shape, shape, shape))
    return [(*profile, *static) for profile in partition.ranges]
