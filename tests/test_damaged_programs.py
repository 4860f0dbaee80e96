"""Damaged programs, each loaded in a process of its own: an error, not a crash."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
import sys
import executorch_tensorrt as ett
try:
    ett.load(sys.argv[1], device="cpu")
except ett.runtime.TensorRTError as error:
    print("refused:", error)
else:
    print("loaded")
"""


def outcome(program: bytes, folder: Path) -> str:
    path = folder / "damaged.pte"
    path.write_bytes(program)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return done.stdout


def place_of_fallback(program: bytes) -> tuple[int, int]:
    """Where the fallback program in the first blob begins, and its size."""
    blob = program.index(b"ETRT")
    offset, size = struct.unpack_from("<2Q", program, blob + 48)
    return blob + offset, size


@pytest.mark.parametrize("offset", [0x7FFFFFFF, 0xFFFFFFF0, 16])
def test_a_fallback_program_with_an_offset_that_leads_nowhere_is_refused(
    mlp_pte: bytes, tmp_path: Path, offset: int
) -> None:
    damaged = bytearray(mlp_pte)
    start, _ = place_of_fallback(mlp_pte)
    struct.pack_into("<I", damaged, start, offset)  # of the FlatBuffer's root table
    said = outcome(bytes(damaged), tmp_path)
    assert said.startswith("refused:")
    assert "the CPU fallback program is damaged" in said


@pytest.mark.parametrize("at", range(100, 1200, 200))
def test_a_fallback_program_whose_inner_offsets_are_damaged_is_refused(
    mlp_pte: bytes, tmp_path: Path, at: int
) -> None:
    damaged = bytearray(mlp_pte)
    start, _ = place_of_fallback(mlp_pte)
    damaged[start + at : start + at + 64] = b"\x7f" * 64
    assert outcome(bytes(damaged), tmp_path).startswith("refused:")


@pytest.mark.parametrize("offset", [0x7FFFFFFF, 0xFFFFFFF0])
def test_a_program_with_an_offset_that_leads_nowhere_is_refused(
    mlp_pte: bytes, tmp_path: Path, offset: int
) -> None:
    damaged = bytearray(mlp_pte)
    struct.pack_into("<I", damaged, 0, offset)
    assert outcome(bytes(damaged), tmp_path).startswith("refused:")
