"""`executorch-tensorrt inspect`: what is in a `.pte`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from executorch_tensorrt.backend.blob_types import StateMode
from executorch_tensorrt.backend.delegate_blob import DelegateBlob, Flavour, ShapeRange
from executorch_tensorrt.profiles import DimRange

from ..pte.program import BACKEND, Delegate, Method, Program, PteError, Value, read_program
from .console import line, print_json, size, table
from .errors import DAMAGED, BadArgument, CommandError
from .partition_table import show_outside


def open_program(path: Path) -> Program:
    """Reads a `.pte` for a command.

    Raises:
        BadArgument: There is no such file, or it can't be read.
        CommandError: It is no `.pte`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror}") from error
    try:
        return read_program(data)
    except PteError as error:
        raise CommandError(f"{path}: {error}", DAMAGED) from error


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def inspect(program: Path, as_json: bool) -> None:
    """Show what is in PROGRAM, a .pte: methods, engines, profiles, what runs outside TensorRT.

    Reads any .pte, with TensorRT engines or without. Exits with 3 if something in it is
    damaged, or newer than this build.
    """
    contents = open_program(program)
    if as_json:
        print_json(describe(contents))
    else:
        _show(program, contents)
    if contents.all_faults:
        raise CommandError(
            f"not all of {program} can be read: {'; '.join(contents.all_faults)}", DAMAGED
        )


def _show(path: Path, program: Program) -> None:
    line(f"{path}: {size(program.size)}, ExecuTorch program, schema version {program.version}")
    if program.constant_bytes:
        line(f"constants outside delegates: {size(program.constant_bytes)}")
    if program.named_data:
        line(f"named data: {', '.join(program.named_data)}")
    for method in program.methods:
        line()
        _show_method(method)


def _show_method(method: Method) -> None:
    line(f"method {method.name}", style="bold")
    rows = [
        (side, index, value.name, value.dtype or value.kind, _value_shape(value))
        for side, values in (("input", method.inputs), ("output", method.outputs))
        for index, value in enumerate(values)
    ]
    table(("", "index", "name", "dtype", "shape"), rows)
    for index, delegate in enumerate(method.delegates):
        _show_delegate(index, delegate)
    if not any(delegate.backend == BACKEND for delegate in method.delegates):
        line("no part of it runs in TensorRT", style="yellow")
    calls = sum(method.operators.values())
    if method.has_report:
        report = method.report
        line(
            f"TensorRT takes {report.taken} of {report.taken + report.left} operators; "
            f"{calls} operator calls run on the CPU"
        )
    elif calls:
        line(f"{calls} operator calls run on the CPU; why is not recorded in the program")
    if method.has_report or not calls:
        show_outside(method.report)
    if calls:
        counts = sorted(method.operators.items(), key=lambda item: -item[1])
        table(("runs on the CPU", "calls"), counts)


def _show_delegate(index: int, delegate: Delegate) -> None:
    whole = ", the whole method" if delegate.whole_method else ""
    line(f"delegate {index}: {delegate.backend}, {size(delegate.size)}{whole}")
    if delegate.fault:
        line(f"  {delegate.fault}", style="bold red")
    blob = delegate.blob
    if blob is None:
        return
    line(
        f"  engine: {_flavour(blob)} {_version(blob)}, {_engine_size(blob)}, {_gpus(blob)}, "
        f"id {blob.engine_id.hex()[:12]}"
    )
    if blob.fallback is not None:
        line(f"  CPU fallback: {size(len(blob.fallback))}")
    else:
        line("  no CPU fallback: runs on a GPU only")
    inputs = [binding for binding in blob.bindings if binding.is_input]
    table(
        ("profile", "engine profile", *(binding.name for binding in inputs)),
        [
            (profile.name, profile.engine_profile, *map(_range, profile.inputs))
            for profile in blob.profiles
        ],
    )
    if blob.states:
        table(
            ("state", "dtype", "shape", "written", "begins as"),
            [
                (
                    state.name,
                    state.dtype,
                    " x ".join(map(str, state.shape)) or "scalar",
                    _WRITTEN[state.mode],
                    "zeros" if state.initial is None else f"a value of {size(len(state.initial))}",
                )
                for state in blob.states
            ],
        )
    options = {key: value for key, value in blob.build_options.items() if value not in _PLAIN}
    if options:
        line(f"  built with: {', '.join(f'{key}={value}' for key, value in options.items())}")


_PLAIN = ("", "None", "False", "()")
_WRITTEN = {StateMode.ALIAS: "in place", StateMode.PING_PONG: "as a copy"}


def _engine_size(blob: DelegateBlob) -> str:
    if blob.external_engine_bytes:
        return f"{size(blob.external_engine_bytes)} in a .ptd file beside the program"
    return size(len(blob.engine))


def _flavour(blob: DelegateBlob) -> str:
    return "TensorRT-RTX" if blob.flavour is Flavour.TENSORRT_RTX else "TensorRT"


def _version(blob: DelegateBlob) -> str:
    return ".".join(str(number) for number in blob.version)


def _gpus(blob: DelegateBlob) -> str:
    if blob.hardware_compatibility:
        return f"for GPUs as {blob.hardware_compatibility.name.lower()} says"
    major, minor = blob.compute_capability
    if (major, minor) != (0, 0):
        return f"for compute capability {major}.{minor}"
    chosen = blob.build_options.get("compute_capabilities", "")
    return f"for compute capabilities {chosen}" if chosen else "for any GPU since Ampere"


def _range(bounds: ShapeRange) -> str:
    dims = (DimRange(*sizes) for sizes in zip(bounds.min, bounds.opt, bounds.max, strict=True))
    texts = [
        str(dim.min) if dim.min == dim.max else f"{dim.min}..{dim.opt}..{dim.max}" for dim in dims
    ]
    return " x ".join(texts) or "scalar"


def _value_shape(value: Value) -> str:
    if value.kind != "tensor":
        return "" if value.scalar is None else str(value.scalar)
    shape = " x ".join(str(dim) for dim in value.shape) or "scalar"
    return f"up to {shape}" if value.dynamic else shape


# --- As JSON --------------------------------------------------------------------------------------


def describe(program: Program) -> dict[str, Any]:
    """A program as JSON's types."""
    return {
        "bytes": program.size,
        "schema_version": program.version,
        "constant_bytes": program.constant_bytes,
        "named_data": list(program.named_data),
        "faults": program.all_faults,
        "methods": [_describe_method(method) for method in program.methods],
    }


def _describe_method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "inputs": [_describe_value(value) for value in method.inputs],
        "outputs": [_describe_value(value) for value in method.outputs],
        "profiles": list(method.profiles),
        "planned_bytes": method.planned_bytes,
        "delegates": [_describe_delegate(delegate) for delegate in method.delegates],
        "cpu_operators": dict(method.operators),
        "partition_report": json.loads(method.report.to_json()) if method.has_report else None,
    }


def _describe_value(value: Value) -> dict[str, Any]:
    described: dict[str, Any] = {"name": value.name or None, "kind": value.kind}
    if value.kind == "tensor":
        described |= {"dtype": value.dtype, "shape": value.shape, "dynamic": value.dynamic}
    if value.scalar is not None:
        described["value"] = value.scalar
    return described


def _describe_delegate(delegate: Delegate) -> dict[str, Any]:
    described: dict[str, Any] = {
        "backend": delegate.backend,
        "bytes": delegate.size,
        "whole_method": delegate.whole_method,
        "fault": delegate.fault or None,
    }
    blob = delegate.blob
    if blob is None:
        return described
    inputs = [binding.name for binding in blob.bindings if binding.is_input]
    return described | {
        "engine": {
            "id": blob.engine_id.hex(),
            "bytes": len(blob.engine) or blob.external_engine_bytes,
            "external": blob.external_engine_bytes > 0,
            "flavour": _flavour(blob),
            "version": _version(blob),
            "compute_capability": list(blob.compute_capability),
            "hardware_compatibility": blob.hardware_compatibility.name.lower(),
            "version_compatible": blob.version_compatible,
        },
        "fallback_bytes": None if blob.fallback is None else len(blob.fallback),
        "bindings": [
            {
                "name": binding.name,
                "dtype": str(binding.dtype),
                "input": binding.is_input,
                "dims": list(binding.dims),
                "max_bytes": binding.max_bytes,
            }
            for binding in blob.bindings
        ],
        "states": [
            {
                "name": state.name,
                "dtype": str(state.dtype),
                "shape": list(state.shape),
                "in_place": state.mode is StateMode.ALIAS,
                "initial_bytes": 0 if state.initial is None else len(state.initial),
            }
            for state in blob.states
        ],
        "profiles": [
            {
                "name": profile.name,
                "engine_profile": profile.engine_profile,
                "inputs": {
                    name: {"min": bounds.min, "opt": bounds.opt, "max": bounds.max}
                    for name, bounds in zip(inputs, profile.inputs, strict=True)
                },
            }
            for profile in blob.profiles
        ],
        "build_options": dict(blob.build_options),
    }
