"""Makes the golden programs: a `.pte` of each version of the blob, with right answers.

    python tests/data/make_golden_programs.py [NAME...]

Each is a real program, with an engine and a CPU fallback, and has a `.calls` file beside it: calls
in their order, what PyTorch answers and what the states are then, in words that Python and C++
tests read alike. Files that are there are left alone, as they are to keep loading the way they were
released: to make one for a new version of the format, give it a name here and a line in SHA256SUMS.
A program is only made by a tree that writes its version of the blob.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile
from executorch_tensorrt.backend import delegate_blob

HERE = Path(__file__).parent
WRITES = (delegate_blob.VERSION_MAJOR, delegate_blob.VERSION_MINOR)
Call = tuple[str, tuple[torch.Tensor, ...]]  # profile and inputs


# Whole numbers throughout, so that answers are the same in whatever order they are summed.


class Features(nn.Module):
    """float [rows, 4] to [rows, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.linear.weight = nn.Parameter(torch.arange(-6.0, 6.0).reshape(3, 4))
        self.linear.bias = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


class Cache(nn.Module):
    """float [1, 2, n, 4] plus the number of calls; kept in `rows`, from row `start` on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 2, 8, 4))
        self.register_buffer("count", torch.tensor([5.0]))

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        self.rows[:, :, start + torch.arange(x.shape[2])] = x
        self.count.add_(1)
        return x + self.count


def features() -> tuple[bytes, str]:
    rows = Dim("rows", min=1, max=8)
    profiles = [
        OptimizationProfile("one", {"x": (1, 4)}),
        OptimizationProfile("many", {"x": ((2, 4, 8), 4)}),
    ]
    calls: list[Call] = [
        ("", (torch.tensor([[1.0, -2.0, 3.0, 4.0]]),)),
        ("many", (torch.arange(-12.0, 8.0).reshape(5, 4),)),
        ("one", (torch.tensor([[0.0, 7.0, -1.0, 2.0]]),)),
    ]
    pte = made(Features(), (torch.ones(2, 4),), {"x": {0: rows}}, profiles)
    return pte, "".join(answers(Features(), calls))


def cache() -> tuple[bytes, str]:
    inputs = (torch.ones(1, 2, 2, 4), torch.zeros(1, dtype=torch.int64))
    profiles = [
        OptimizationProfile("decode", {"x": (1, 2, 1, 4)}),
        OptimizationProfile("prefill", {"x": (1, 2, (2, 4, 8), 4)}),
    ]
    calls: list[Call] = [
        ("prefill", (torch.arange(1.0, 25.0).reshape(1, 2, 3, 4), torch.tensor([0]))),
        ("", (torch.arange(-8.0, 0.0).reshape(1, 2, 1, 4), torch.tensor([3]))),
        ("decode", (torch.arange(3.0, 11.0).reshape(1, 2, 1, 4), torch.tensor([7]))),
    ]
    dynamic = {"x": {2: Dim("n", min=1, max=8)}, "start": None}
    return made(Cache(), inputs, dynamic, profiles), "".join(answers(Cache(), calls))


def made(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic: dict[str, object],
    profiles: list[OptimizationProfile],
) -> bytes:
    options = CompileOptions(cpu_fallback=True)
    program = ett.export(
        model.eval(), inputs, dynamic_shapes=dynamic, profiles=profiles, options=options
    )
    return bytes(program.buffer)


def answers(model: nn.Module, calls: Iterable[Call]) -> Iterator[str]:
    """The lines of a `.calls` file: each tensor's element type, rank, sizes and values."""
    for profile, inputs in calls:
        yield f"call {profile}".rstrip() + "\n"
        yield from (f"input {words(tensor)}\n" for tensor in inputs)
        with torch.no_grad():
            yield f"output {words(model(*inputs))}\n"
    yield from (f"state {name} {words(tensor)}\n" for name, tensor in model.named_buffers())


def words(tensor: torch.Tensor) -> str:
    values = [
        f"{value:g}" if tensor.is_floating_point() else str(value)
        for value in tensor.flatten().tolist()
    ]
    dtype = str(tensor.dtype).removeprefix("torch.")
    return " ".join([dtype, str(tensor.dim()), *map(str, tensor.shape), *values])


# By name: the version of the blob that a tree must write to make it, and what makes it.
PROGRAMS: dict[str, tuple[tuple[int, int], Callable[[], tuple[bytes, str]]]] = {
    "features_1_0": ((1, 0), features),
    "cache_1_1": ((1, 1), cache),
}


def main() -> None:
    for name in sys.argv[1:] or PROGRAMS:
        path = HERE / f"{name}.pte"
        version, make = PROGRAMS[name]
        if path.exists():
            print(f"{path.name} is there, and stays as it is")
        elif version != WRITES:
            print(f"{path.name} takes a writer of {version}; this one writes {WRITES}")
        else:
            program, calls = make()
            path.write_bytes(program)
            path.with_suffix(".calls").write_text(calls, encoding="utf-8")
            print(f"{path.name}: {len(program)} bytes")


if __name__ == "__main__":
    main()
