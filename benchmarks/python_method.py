"""What a call of Python's Method costs, beside PyTorch replaying a graph of the same work.

    python benchmarks/python_method.py model.pte [--rounds N] [--json FILE]

The program has one input, token ids int64 of [1, length], and two profiles or more, of which the
first two are compared, as benchmarks/export_transformer.py exports them. Needs a GPU and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import executorch_tensorrt as ett
from executorch_tensorrt import RuntimeOptions

BLOCK = 20
OPTIONS = {
    "graphs": RuntimeOptions(),
    "enqueue": RuntimeOptions(cuda_graphs=False),
    "single": RuntimeOptions(profile_contexts="single"),
}


def microseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def replayed(method: ett.Method, inputs: torch.Tensor) -> Callable[[], None]:
    """A graph of PyTorch's around one call: the bare launch."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        method(inputs)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            method(inputs)
    return graph.replay


def waited(call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        call()
        torch.cuda.current_stream().synchronize()

    return run


def measure(
    modes: dict[str, list[Callable[[], object]]], rounds: int, settle: Callable[[], object]
) -> dict[tuple[str, int], list[float]]:
    """Takes the modes in turns, a block of alternating calls each; the first of each is dropped."""
    latencies: dict[tuple[str, int], list[float]] = {}
    for _ in range(0, rounds, BLOCK):
        for mode, profiles in modes.items():
            for index in range(BLOCK + 1):
                for profile, run in enumerate(profiles):
                    took = microseconds(run)
                    settle()
                    if index:
                        latencies.setdefault((mode, profile), []).append(took)
    return latencies


def rows_of(
    what: str, names: list[str], latencies: dict[tuple[str, int], list[float]], base: str
) -> list[dict[str, Any]]:
    rows = []
    for (mode, profile), values in latencies.items():
        floor = statistics.median(latencies[base, profile])
        median = statistics.median(values)
        rows.append(
            {
                "measured": what,
                "mode": mode,
                "profile": names[profile],
                "median_us": round(median, 2),
                "p99_us": round(sorted(values)[int(0.99 * len(values))], 2),
                "added_us": round(median - floor, 2),
                "ratio": round(median / floor, 3) if floor else 0.0,
            }
        )
    return rows


def rounds_of(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be 2 or more, not {value}")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=rounds_of, default=300)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("needs a GPU")
    methods = {
        mode: ett.load(arguments.program, device="cuda:0", options=options)["forward"]
        for mode, options in OPTIONS.items()
    }
    names = methods["graphs"].profiles[:2]
    if len(names) < 2:
        parser.error(f"{arguments.program} has one profile; two are compared")
    host = [torch.randint(0, 1000, (1, length)) for length in (1, 128)]
    device = [ids.cuda() for ids in host]
    calls = {
        mode: [lambda m=method, x=ids: m(x) for ids in device] for mode, method in methods.items()
    }
    floor = [replayed(methods["graphs"], ids) for ids in device]
    for profiles in [*calls.values(), floor]:
        # A process's first hundreds of calls take the host up to twice as long.
        for _ in range(500):
            for run in profiles:
                run()
    torch.cuda.synchronize()

    rows = rows_of(
        "until it returns, tensors on the GPU",
        names,
        measure(
            {"replay": floor, "graphs": calls["graphs"]}, arguments.rounds, torch.cuda.synchronize
        ),
        "replay",
    )
    waiting = {"replay": [waited(run) for run in floor]}
    waiting |= {mode: [waited(run) for run in profiles] for mode, profiles in calls.items()}
    rows += rows_of(
        "until it is done, tensors on the GPU",
        names,
        measure(waiting, arguments.rounds, lambda: None),
        "replay",
    )
    on_host = {
        mode: [lambda m=method, x=ids: m(x) for ids in host] for mode, method in methods.items()
    }
    rows += rows_of(
        "until it is done, tensors in host memory",
        names,
        measure(on_host, arguments.rounds, lambda: None),
        "graphs",
    )
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
