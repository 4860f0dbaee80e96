"""Checks of a delegate blob's contents that its reader and its writer share.

runtime/cpp/src/delegate_blob.cpp makes the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .blob_types import (
    MAX_BINDINGS,
    MAX_BUILD_OPTIONS,
    MAX_INDEX_CHECKS,
    MAX_NAME_BYTES,
    MAX_PROFILES,
    MAX_RANK,
    MAX_STATES,
    Binding,
    IndexCheck,
    Profile,
    ScalarType,
    State,
    StateMode,
    max_bytes,
    refuse,
)


def check_contents(
    num_arguments: int,
    bindings: Sequence[Binding],
    profiles: Sequence[Profile],
    build_options: Mapping[str, str],
) -> None:
    """Raises BlobError unless bindings, profiles and build options agree with each other."""
    _check_count("binding", len(bindings), MAX_BINDINGS)
    _check_count("profile", len(profiles), MAX_PROFILES)
    _check_count("build option", len(build_options), MAX_BUILD_OPTIONS)
    _check_bindings(num_arguments, bindings)
    inputs = [binding for binding in bindings if binding.is_input]
    if not profiles:
        refuse("profiles", "are none; every blob has at least one")
    _check_names("profile", [profile.name for profile in profiles])
    for profile in profiles:
        _check_ranges(profile, inputs)
    _check_engine_profiles(profiles)
    for index, binding in enumerate(bindings):
        _check_max_bytes(binding, index, profiles)
    _check_names("build option", list(build_options))
    for key, value in build_options.items():
        _check_text(value, f"build option '{key}' value")


def check_states(
    bindings: Sequence[Binding],
    states: Sequence[State],
    guard: str | None,
    index_checks: Sequence[IndexCheck],
) -> None:
    """Raises BlobError unless states, guard and index checks agree with the bindings."""
    _check_count("state", len(states), MAX_STATES)
    _check_count("index check", len(index_checks), MAX_INDEX_CHECKS)
    _check_names("state", [state.name for state in states])
    tensors = {binding.name for binding in bindings}

    def check_tensor(name: str, what: str) -> None:
        _check_text(name, what, limit=MAX_NAME_BYTES)
        if name in tensors:
            refuse(what, f"'{name}' is another tensor of the engine already")
        tensors.add(name)

    for index, state in enumerate(states):
        what = f"state {index} '{state.name}'"
        _check_state(state, what)
        check_tensor(state.input, f"{what} input")
        check_tensor(state.output, f"{what} output")
    if guard is not None:
        check_tensor(guard, "guard")
        if not states:
            refuse("guard", f"is '{guard}', but there are no states")
    names = {state.name for state in states}
    for index, check in enumerate(index_checks):
        _check_index_check(check, f"index check {index}", bindings, names)


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        refuse(f"{what} count", f"is {count}; at most {most} may be")


def _check_state(state: State, what: str) -> None:
    if not isinstance(state.dtype, ScalarType):
        refuse(f"{what} dtype", f"{state.dtype!r} is not a ScalarType")
    if not isinstance(state.mode, StateMode):
        refuse(f"{what} mode", f"{state.mode!r} is not a StateMode")
    if len(state.shape) > MAX_RANK:
        refuse(f"{what} rank", f"{len(state.shape)} is over {MAX_RANK}")
    for dim, size in enumerate(state.shape):
        if size < 0:
            refuse(f"{what} dim {dim}", f"is {size}; a state's shape is static")
    if state.nbytes >= 1 << 64:
        refuse(f"{what} bytes", "do not fit in 64 bits")
    if state.initial is not None:
        size = memoryview(state.initial).nbytes
        if size not in (0, state.nbytes):
            refuse(f"{what} initial value", f"has {size} bytes, its shape takes {state.nbytes}")


def _check_index_check(
    check: IndexCheck, what: str, bindings: Sequence[Binding], states: set[str]
) -> None:
    def binding(position: int, field: str) -> Binding:
        if not 0 <= position < len(bindings) or not bindings[position].is_input:
            refuse(f"{what} {field}", f"{position} is no input among the bindings")
        return bindings[position]

    if binding(check.binding, "binding").dtype not in (ScalarType.INT32, ScalarType.INT64):
        name = bindings[check.binding].name
        refuse(f"{what} binding", f"'{name}' is {bindings[check.binding].dtype}, not an integer")
    if check.least > check.greatest:
        refuse(what, f"is of the range {check.least}..{check.greatest}, which is empty")
    if check.extent is not None:
        position, dim = check.extent
        rank = len(binding(position, "extent binding").dims)
        if not 0 <= dim < rank:
            refuse(f"{what} extent dim", f"{dim} is not below the rank, {rank}")
    if check.state not in states:
        refuse(f"{what} state", f"'{check.state}' is no state of the blob")


def _check_text(text: str, what: str, *, limit: int | None = None) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        refuse(what, f"{text!r} is not valid text")
    if "\0" in text:
        refuse(what, f"{text!r} holds a NUL")
    if limit is not None and not 1 <= size <= limit:
        refuse(what, f"has {size} bytes, it must have 1 to {limit}")


def _check_names(kind: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        _check_text(name, f"{kind} {index} name", limit=MAX_NAME_BYTES)
        if name in seen:
            refuse(f"{kind} {index} name", f"'{name}' is there twice")
        seen.add(name)


def _check_bindings(num_arguments: int, bindings: Sequence[Binding]) -> None:
    _check_names("binding", [binding.name for binding in bindings])
    for index, binding in enumerate(bindings):
        what = f"binding {index} '{binding.name}'"
        if not isinstance(binding.dtype, ScalarType):
            refuse(f"{what} dtype", f"{binding.dtype!r} is not a ScalarType")
        if len(binding.dims) > MAX_RANK:
            refuse(f"{what} rank", f"{len(binding.dims)} is over {MAX_RANK}")
        for dim, size in enumerate(binding.dims):
            if size < -1:
                refuse(f"{what} dim {dim}", f"is {size}, it must be -1 (dynamic) or a size")
        if binding.argument >= num_arguments:
            refuse(
                f"{what} argument", f"{binding.argument} is not below the count, {num_arguments}"
            )
        if index == 0:
            continue
        before = bindings[index - 1]
        if binding.is_input and not before.is_input:
            refuse(what, "is an input after an output; inputs come first")
        if binding.argument <= before.argument:
            refuse(f"{what} argument", f"{binding.argument} does not ascend from {before.argument}")


def _check_ranges(profile: Profile, inputs: Sequence[Binding]) -> None:
    what = f"profile '{profile.name}'"
    if len(profile.inputs) != len(inputs):
        refuse(what, f"has {len(profile.inputs)} input ranges for {len(inputs)} inputs")
    for binding, bounds in zip(inputs, profile.inputs, strict=True):
        where = f"{what} input '{binding.name}'"
        for bound in (bounds.min, bounds.opt, bounds.max):
            if len(bound) != len(binding.dims):
                refuse(where, f"has rank {len(bound)}, its binding has {len(binding.dims)}")
        for dim, (low, opt, high) in enumerate(
            zip(bounds.min, bounds.opt, bounds.max, strict=True)
        ):
            if not 0 <= low <= opt <= high:
                refuse(
                    f"{where} dim {dim}",
                    f"is min {low}, opt {opt}, max {high}; 0 <= min <= opt <= max must hold",
                )
            size = binding.dims[dim]
            if size >= 0 and not low == high == size:
                refuse(f"{where} dim {dim}", f"is {low}..{high}, but it is static with size {size}")


def _check_engine_profiles(profiles: Sequence[Profile]) -> None:
    """Indices contiguous from 0, and names that share one agree on its ranges."""
    first_with: dict[int, Profile] = {}
    for profile in profiles:
        first = first_with.setdefault(profile.engine_profile, profile)
        if first.inputs != profile.inputs:
            refuse(
                f"profile '{profile.name}'",
                f"shares engine profile {profile.engine_profile} with '{first.name}', "
                "but their ranges differ",
            )
    count = len(first_with)
    for profile in profiles:
        if not 0 <= profile.engine_profile < count:
            refuse(
                f"profile '{profile.name}' engine profile",
                f"{profile.engine_profile} leaves a gap; {count} are in use, so the last is "
                f"{count - 1}",
            )


def _check_max_bytes(binding: Binding, index: int, profiles: Sequence[Profile]) -> None:
    what = f"binding {index} '{binding.name}' max bytes"
    if binding.is_input:
        expected = max_bytes(binding.dtype, [profile.inputs[index].max for profile in profiles])
    else:
        expected = math.prod(size for size in binding.dims if size >= 0) * binding.dtype.itemsize
    if expected >= 1 << 64:
        refuse(what, "do not fit in 64 bits")
    if binding.is_input or -1 not in binding.dims:
        if binding.max_bytes != expected:
            refuse(what, f"are {binding.max_bytes}, its largest shape takes {expected}")
    elif binding.max_bytes != 0 and (expected == 0 or binding.max_bytes % expected != 0):
        # Profiles bound inputs alone, so of a dynamic output only the static part is known here.
        refuse(what, f"are {binding.max_bytes}, not a multiple of its static dims' {expected}")
