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


def main() -> None:
    for name, pte in (("mlp", programs.mlp_pte()), ("sums", sums()), ("running", running())):
        blob = replace(blob_of(pte), engine=ENGINE, engine_id=hashlib.sha256(ENGINE).digest())
        data = blob.to_bytes()
        (CORPUS / f"{name}.blob").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
