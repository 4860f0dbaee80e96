"""The delegate blob of a partition and its engine."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from .builder_config import hardware_compatibility
from .delegate_blob import (
    Binding,
    DelegateBlob,
    IndexCheck,
    Profile,
    State,
    StateMode,
)
from .delegate_blob import max_bytes as max_input_bytes
from .engine import Engine
from .engine_builder import output_bytes
from .fallback_program import build_fallback_program
from .partition import SCALAR_TYPES, Partition
from .state import user_inputs
from .symbol_ranges import ProfileSymbols
from .tensorrt_import import import_tensorrt


def partition_blob(partition: Partition, engine: Engine, engine_id: bytes) -> DelegateBlob:
    """Engine, bindings, profiles and, if asked for, the CPU fallback of a partition.

    `engine_id` is needed only of an engine that is to lie outside.
    """
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


def _states(partition: Partition, engine: Engine) -> tuple[State, ...]:
    first_input, first_output = len(partition.inputs), len(partition.outputs)
    in_place = partition.writes.in_place
    return tuple(
        State(
            name=state.name,
            dtype=SCALAR_TYPES[state.initial.dtype],
            shape=tuple(state.initial.shape),
            input=engine.input_names[first_input + index],
            output=engine.output_names[first_output + index],
            mode=StateMode.ALIAS if index in in_place else StateMode.PING_PONG,
            initial=state.initial_bytes(),
        )
        for index, state in enumerate(partition.states)
    )


def _bindings(partition: Partition, engine: Engine) -> tuple[Binding, ...]:
    bindings = []
    for position, (name, (argument, node)) in enumerate(
        zip(engine.input_names[: len(partition.inputs)], partition.inputs, strict=True)
    ):
        dtype = SCALAR_TYPES[node.meta["val"].dtype]
        size = max_input_bytes(dtype, [profile[position].max for profile in partition.ranges])
        dims = _dims(node.meta["val"], partition.profiles)
        bindings.append(Binding(name, dtype, True, argument, dims, size))
    for name, (argument, node) in zip(
        engine.output_names[: len(partition.outputs)], partition.outputs, strict=True
    ):
        value = node.meta["val"]
        size = output_bytes(value, partition.profiles)
        dims = _dims(value, partition.profiles)
        dtype = SCALAR_TYPES[value.dtype]
        bindings.append(Binding(name, dtype, False, argument, dims, size))
    return tuple(bindings)


def _dims(value: torch.Tensor, profiles: Sequence[ProfileSymbols]) -> tuple[int, ...]:
    """Each dim's size where it is the same under every profile, else -1."""
    dims = []
    for size in value.shape:
        bounds = {n for profile in profiles for n in profile.bound(size)}
        dims.append(bounds.pop() if len(bounds) == 1 else -1)
    return tuple(dims)
