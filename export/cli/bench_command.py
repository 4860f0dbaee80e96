"""`executorch-tensorrt bench`: what a profile costs, and what a switch between profiles."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..pte.program import Method
from .chart import LABELS, draw
from .console import line, print_json, table
from .errors import BadArgument, CommandError
from .inspect_command import open_program
from .loaded import load_method
from .method_inputs import (
    check_profile,
    choose_method,
    parse_integers,
    parse_shapes,
    random_inputs,
)

MODES: Mapping[str, dict[str, Any]] = {
    "graphs": {},
    "enqueue": {"cuda_graphs": False},
    "single": {"profile_contexts": "single"},
}
BLOCK = 10

Calls = list[Callable[[], object]]


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--method", "method_name", help="Default: the only one, or forward.")
@click.option("--profile", "profiles", multiple=True, help="Which, in order. Default: all.")
@click.option("--shape", "shapes", multiple=True, metavar="INPUT=1x16", help="For all profiles.")
@click.option("--integers", default="0..1", metavar="0..999", help="Bounds of random integers.")
@click.option("--device", help="cuda:N, or cpu for the fallback. Default: the GPU if there is one.")
@click.option(
    "--tensors",
    type=click.Choice(("auto", "host", "device")),
    default="auto",
    help="Where they lie; auto: on the GPU, if PyTorch can put them there.",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(tuple(MODES)),
    default=("graphs",),
    help="CUDA graphs (the default), none, or one context that is switched; several compare them.",
)
@click.option("--rounds", default=100, type=click.IntRange(2), help="Calls for each number.")
@click.option("--warmup", default=5, type=click.IntRange(1), help="Calls before those.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON alone.")
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw a PNG.")
def bench(
    program: Path,
    method_name: str | None,
    profiles: tuple[str, ...],
    shapes: tuple[str, ...],
    integers: str,
    device: str | None,
    tensors: str,
    modes: tuple[str, ...],
    rounds: int,
    warmup: int,
    as_json: bool,
    chart: Path | None,
) -> None:
    """Measure PROGRAM, a .pte: each profile when calls stay with it, and when they alternate.

    Times are medians in microseconds until the outputs are there, over inputs of the profile's opt
    shapes. A chart needs matplotlib.
    """
    if chart is not None:
        _require_matplotlib()
    contents = choose_method(open_program(program), method_name)
    for name in profiles:
        check_profile(contents, name)
    names = list(dict.fromkeys(profiles)) or list(contents.profiles)
    given, bounds = parse_shapes(shapes, contents), parse_integers(integers)
    pins: list[str | None] = [*names] or [None]
    inputs = [random_inputs(contents, pin, shapes=given, integers=bounds) for pin in pins]

    runs: dict[str, Calls] = {}
    for mode in dict.fromkeys(modes):
        method = _load(program, contents, device, mode)
        stats = method.stats()
        on_gpu = any(entry["device"].startswith("cuda") for entry in stats)
        io, wait = _place(tensors, on_gpu)
        placed = [_moved(values, io, stats) for values in inputs]
        runs[mode] = [
            _call(method, values, pin, wait) for values, pin in zip(placed, pins, strict=True)
        ]
    labels = [name or "no profile" for name in pins]
    base = {
        "model": program.stem,
        "io": io,
        "device": stats[0]["device"] if stats else "cpu",
        "calls": rounds,
    }
    rows = measure(runs, labels, rounds, warmup, base)
    if chart is not None:
        series = "mode" if len(runs) > 1 else "pattern"
        wanted = [
            row for row in rows if series == "pattern" or row["pattern"] == rows[-1]["pattern"]
        ]
        draw(wanted, chart, series=series, title=f"{program.stem}, {base['device']}")
    if as_json:
        print_json(rows)
        return
    line(f"{program}, method {contents.name}, on {base['device']}, {io} tensors, {rounds} calls")
    _show(rows, contents, inputs)
    if chart is not None:
        line(f"wrote {chart}")


def measure(
    runs: Mapping[str, Calls],
    profiles: Sequence[str],
    rounds: int,
    warmup: int,
    base: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Median and 99th percentile of each mode and profile, staying and alternating.

    Modes, profiles and patterns take turns in blocks, so that a drift of the machine's meets all.
    """
    times: dict[tuple[str, str, int], list[float]] = {}
    patterns = ("staying", "alternating") if len(profiles) > 1 else ("staying",)
    for calls in runs.values():
        for call in calls:
            for _ in range(warmup):
                call()
    for done in range(0, rounds, BLOCK):
        block = min(BLOCK, rounds - done)
        for mode, calls in runs.items():
            for index, call in enumerate(calls):
                call()  # switches, which is not what staying measures
                for _ in range(block):
                    times.setdefault((mode, "staying", index), []).append(_microseconds(call))
            for _ in range(block if len(calls) > 1 else 0):
                for index, call in enumerate(calls):
                    times.setdefault((mode, "alternating", index), []).append(_microseconds(call))
    return [
        {
            **base,
            "mode": mode,
            "pattern": pattern,
            "profile": profile,
            "median_us": round(statistics.median(values), 3),
            "p99_us": round(sorted(values)[int(0.99 * len(values))], 3),
        }
        for pattern in patterns
        for mode in runs
        for index, profile in enumerate(profiles)
        for values in [times[mode, pattern, index]]
    ]


def _microseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def _load(program: Path, contents: Method, device: str | None, mode: str) -> Any:
    import executorch_tensorrt as ett

    return load_method(program, contents.name, device, ett.RuntimeOptions(**MODES[mode]))


def _place(tensors: str, on_gpu: bool) -> tuple[str, Callable[[], object]]:
    """Where the tensors lie, and what waits for the outputs there."""
    if tensors != "host" and on_gpu:
        try:
            import torch

            if torch.cuda.is_available():
                return "device", torch.cuda.synchronize
        except ImportError:
            pass
    if tensors == "device":
        raise BadArgument(
            "--tensors device: that takes PyTorch with CUDA, and a program that runs on a GPU"
        )
    return "host", lambda: None


def _moved(values: Sequence[Any], io: str, stats: Sequence[Mapping[str, Any]]) -> list[Any]:
    if io == "host":
        return list(values)
    import torch

    gpu = next(entry["device"] for entry in stats if entry["device"].startswith("cuda"))
    return [
        torch.as_tensor(value).to(gpu) if hasattr(value, "__dlpack__") else value
        for value in values
    ]


def _call(
    method: Any, values: Sequence[Any], pin: str | None, wait: Callable[[], object]
) -> Callable[[], object]:
    def call() -> None:
        method(*values, profile=pin)
        wait()

    try:
        call()
    except ValueError as error:  # the runtime's InvalidArgument: inputs that a profile does not fit
        raise BadArgument(str(error)) from error
    except (RuntimeError, TypeError) as error:
        raise CommandError(str(error)) from error
    return call


def _show(
    rows: Sequence[Mapping[str, Any]], contents: Method, inputs: Sequence[Sequence[Any]]
) -> None:
    found = {(row["mode"], row["pattern"], row["profile"]): row for row in rows}
    shapes = [
        ", ".join(
            "x".join(map(str, value.shape)) for value in values if hasattr(value, "__dlpack__")
        )
        for values in inputs
    ]
    profiles = list(dict.fromkeys(row["profile"] for row in rows))
    alternates = any(row["pattern"] == "alternating" for row in rows)
    lines = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        for profile, shape in zip(profiles, shapes, strict=True):
            staying = found[mode, "staying", profile]
            # On the CPU all modes are one thing.
            label = "CPU fallback" if staying["device"] == "cpu" else LABELS[mode]
            cells = [label, profile, shape, *_cells(staying)]
            if alternates:
                alternating = found[mode, "alternating", profile]
                ratio = alternating["median_us"] / staying["median_us"]
                cells += [*_cells(alternating), f"{ratio:.2f}x"]
            lines.append(cells)
    columns = ["mode", "profile", "inputs", "staying, us", "p99"]
    table([*columns, "alternating, us", "p99", "ratio"] if alternates else columns, lines)


def _cells(row: Mapping[str, Any]) -> tuple[float, float]:
    return round(row["median_us"], 1), round(row["p99_us"], 1)


def _require_matplotlib() -> None:
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError(
            "--chart needs matplotlib, which is not installed: pip install matplotlib"
        )
