"""`executorch-tensorrt run`: a method on given or random inputs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from .console import line, table
from .errors import DIFFERENT, BadArgument, CommandError
from .inspect_command import open_program
from .loaded import load_method
from .method_inputs import (
    as_numpy,
    check_profile,
    choose_method,
    parse_integers,
    parse_shapes,
    random_inputs,
    read_arrays,
    read_inputs,
)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--method", "method_name", help="Default: the only one, or forward.")
@click.option("--profile", help="Pin this profile. Default: chosen by shape.")
@click.option("--inputs", type=_FILE, help="A .npz: by input name, or arr_0, arr_1, ...")
@click.option("--shape", "shapes", multiple=True, metavar="INPUT=1x16", help="For random inputs.")
@click.option("--integers", default="0..1", metavar="0..999", help="Bounds of random integers.")
@click.option("--seed", default=0, help="Of random inputs.")
@click.option("--device", help="cuda:N, or cpu for the fallback. Default: the GPU if there is one.")
@click.option("--repeat", default=10, type=click.IntRange(1), help="Calls that are timed.")
@click.option("--expect", type=_FILE, help="A .npz of outputs: output_0, ... or arr_0, ...")
@click.option("--rtol", default=1e-3, type=click.FloatRange(0), help="For --expect, relative.")
@click.option("--atol", default=1e-3, type=click.FloatRange(0), help="For --expect, absolute.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Outputs to a .npz.")
def run(
    program: Path,
    method_name: str | None,
    profile: str | None,
    inputs: Path | None,
    shapes: tuple[str, ...],
    integers: str,
    seed: int,
    device: str | None,
    repeat: int,
    expect: Path | None,
    rtol: float,
    atol: float,
    save: Path | None,
) -> None:
    """Run a method of PROGRAM, a .pte, and show the profile, the outputs and the time.

    Random inputs have the pinned profile's opt shapes, or those of the first. Exits with 4 if the
    outputs are not those of --expect.
    """
    contents = choose_method(open_program(program), method_name)
    if profile is not None:
        check_profile(contents, profile)
    if inputs is not None:
        values = read_inputs(inputs, contents)
    else:
        given = parse_shapes(shapes, contents)
        bounds = parse_integers(integers)
        values = random_inputs(contents, profile, shapes=given, integers=bounds, seed=seed)
    expected = read_arrays(expect, "--expect") if expect is not None else {}
    method = load_method(program, contents.name, device)
    outputs, first, times = _timed(method, values, profile, repeat)

    engines = ", ".join(dict.fromkeys(f"{s['engine']} on {s['device']}" for s in method.stats()))
    line(f"method {contents.name}, profile {method.last_profile}: {engines or 'no TensorRT'}")
    line(f"first call {first * 1e3:.3f} ms, median of {repeat}: {times * 1e3:.3f} ms")
    arrays = [as_numpy(output) for output in outputs]
    table(
        ("output", "dtype", "shape", "least", "greatest"),
        [(index, str(array.dtype), *_summary(array)) for index, array in enumerate(arrays)],
    )
    if save is not None:
        np.savez(save, **{f"output_{index}": array for index, array in enumerate(arrays)})  # type: ignore[arg-type]
    if expect is not None:
        _compare(arrays, expected, expect, rtol, atol)


def _timed(
    method: Any, values: Sequence[Any], profile: str | None, repeat: int
) -> tuple[Sequence[Any], float, float]:
    """Outputs, seconds of the first call and the median of the others."""
    import executorch_tensorrt as ett

    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        try:
            outputs = method(*values, profile=profile)
        except ett.runtime.InvalidArgument as error:
            raise BadArgument(str(error)) from error
        except (ett.runtime.TensorRTError, TypeError) as error:
            raise CommandError(str(error)) from error
        times.append(time.perf_counter() - start)
    return outputs, times[0], statistics.median(times[1:])


def _summary(array: Any) -> tuple[str, str, str]:
    shape = " x ".join(map(str, array.shape)) or "scalar"
    return (shape, f"{array.min():.6g}", f"{array.max():.6g}") if array.size else (shape, "", "")


def _compare(
    arrays: Sequence[Any], expected: dict[str, Any], path: Path, rtol: float, atol: float
) -> None:
    wanted = []
    for index in range(len(arrays)):
        names = [name for name in (f"output_{index}", f"arr_{index}") if name in expected]
        if not names:
            raise BadArgument(
                f"--expect {path} has no output_{index} (or arr_{index}); it has "
                f"{', '.join(expected) or 'nothing'}"
            )
        wanted.append(expected[names[0]])
    rows, different = [], []
    for index, (array, right) in enumerate(zip(arrays, wanted, strict=True)):
        verdict, difference = _difference(array, right, rtol, atol)
        rows.append((index, difference, verdict))
        if verdict != "as expected":
            different.append(f"output {index}: {verdict}")
    table(("output", "largest difference", ""), rows)
    if different:
        raise CommandError(f"not as {path} expects: {'; '.join(different)}", DIFFERENT)


def _difference(array: Any, right: Any, rtol: float, atol: float) -> tuple[str, str]:
    if array.shape != right.shape:
        return f"shape {list(array.shape)}, expected {list(right.shape)}", ""
    if not array.size:
        return "as expected", "0"
    left, right = array.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        largest = np.abs(left - right).max()
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return "as expected", f"{largest:.3g}"
    wrong = int((~close).sum())
    return f"{wrong} of {array.size} values are outside rtol {rtol}, atol {atol}", f"{largest:.3g}"
