"""Makes the seeds of the fuzz targets that carry a CPU fallback which executes.

    python tests/fuzz/make_corpus.py

The golden blobs of tests/data are seeds too. Rerun when the fallback program's form changes.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).parents[1]))

import programs

from executorch_tensorrt import OptimizationProfile
from executorch_tensorrt.backend.delegate_blob import DelegateBlob

CORPUS = Path(__file__).parent / "corpus"
# Nothing that a CPU executes needs it, and seeds are to be small.
ENGINE = b"an engine"


class Sums(nn.Module):
    """int64 [rows], float [rows, 4] and a scalar to three outputs of other ranks and dtypes."""

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return a + 1, b * c, b.sum(1)


class Running(nn.Module):
    """float [rows, 4] to itself plus the sum of all rows so far, which is a state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return x + self.total


class Cache(nn.Module):
    """float [1, 2, n, 4] to all rows that were written so far, from `start` on: in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 2, 8, 4))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.rows[:, :, start + torch.arange(x.shape[2])] = x
        self.calls.add_(1)
        return self.rows * 2, self.calls + 0


class Positions(Cache):
    """At any positions, which the engine copies the cache for."""

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.rows[:, :, start] = x
        return (self.rows * 2,)


class Ring(nn.Module):
    """Written at a counter that is a state itself, so that the engine has a guard."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 2))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.ring.index_copy_(0, self.position, x)
        self.position.add_(1)
        return self.ring * 2


def blob_of(pte: bytes) -> DelegateBlob:
    """The one delegate blob in a program."""
    start = pte.index(b"ETRT")
    engine = [int.from_bytes(pte[start + at : start + at + 8], "little") for at in (32, 40)]
    fallback = [int.from_bytes(pte[start + at : start + at + 8], "little") for at in (48, 56)]
    return DelegateBlob.from_bytes(pte[start : start + max(sum(engine), sum(fallback))])


def sums() -> bytes:
    rows = Dim("rows", min=1, max=8)
    inputs = (torch.arange(4), torch.randn(4, 4), torch.tensor(2.0))
    ranges = {"a": ((1, 2, 8),), "b": ((1, 2, 8), 4)}
    few = {"a": ((1, 1, 2),), "b": ((1, 1, 2), 4)}
    return programs.exported(
        Sums(),
        inputs,
        {"a": {0: rows}, "b": {0: rows}, "c": None},
        [OptimizationProfile("few", few), OptimizationProfile("all", ranges)],
    )


def running() -> bytes:
    return programs.exported(
        Running(),
        (torch.randn(4, 4),),
        {"x": {0: Dim("rows", min=1, max=8)}},
        [
            OptimizationProfile("few", {"x": ((1, 1, 2), 4)}),
            OptimizationProfile("all", {"x": ((1, 2, 8), 4)}),
        ],
    )


def cache() -> bytes:
    dynamic = {"x": {2: Dim("n", min=1, max=8)}, "start": None}
    profiles = [
        OptimizationProfile("decode", {"x": (1, 2, 1, 4)}),
        OptimizationProfile("prefill", {"x": (1, 2, (2, 4, 8), 4)}),
    ]
    inputs = (torch.ones(1, 2, 2, 4), torch.zeros(1, dtype=torch.int64))
    return programs.exported(Cache(), inputs, dynamic, profiles)


def positions() -> bytes:
    inputs = (torch.ones(1, 2, 3, 4), torch.arange(3, dtype=torch.int32))
    return programs.exported(Positions(), inputs, None, ())


def ring() -> bytes:
    return programs.exported(Ring(), (torch.ones(1, 2),), None, ())


def seed(pte: bytes, *, outside: bool = False) -> bytes:
    """Its blob, with an engine of a few bytes, which may lie outside."""
    blob = replace(
        blob_of(pte),
        engine=b"" if outside else ENGINE,
        engine_id=hashlib.sha256(ENGINE).digest(),
        external_engine_bytes=len(ENGINE) if outside else 0,
        build_options={},
    )
    return blob.to_bytes()


def main() -> None:
    seeds = {
        make.__name__: make() for make in (programs.mlp_pte, sums, running, cache, positions, ring)
    }
    for name, pte in seeds.items():
        name = name.removesuffix("_pte")
        (CORPUS / f"{name}.blob").write_bytes(seed(pte))
        print(f"{name}: {len(seed(pte))} bytes")
    (CORPUS / "outside.blob").write_bytes(seed(seeds["cache"], outside=True))


if __name__ == "__main__":
    main()
