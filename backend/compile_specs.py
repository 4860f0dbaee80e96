"""What the partitioner tells the backend and the runtime, as ExecuTorch's compile specs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from executorch.exir.backend.compile_spec_schema import CompileSpec

from .compile_options import CompileOptions
from .partition_report import PARTITION_REPORT_KEY, MethodReport
from .symbol_ranges import ProfileSymbols, symbols_from_json, symbols_to_json

PROFILES_KEY = "profiles"
OPTIONS_KEY = "compile_options"
MACHINE_KEY = "compile_options_of_machine"  # never in a program: preprocessing takes it out
WHOLE_METHOD_KEY = "whole_method"  # read by the runtime too
DEFAULT_PROFILE_KEY = "default_profile"  # read by the runtime alone


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


def read_specs(
    specs: Sequence[CompileSpec],
) -> tuple[tuple[ProfileSymbols, ...], CompileOptions]:
    """The profiles and options of `compile_specs()`.

    Raises:
        ValueError: A spec is missing.
    """
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
