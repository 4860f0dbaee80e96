"""Programs that are loaded only if they are the ones that were pinned by their SHA-256."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import pytest
import torch

import executorch_tensorrt as ett


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("case", [str.lower, str.upper])
@pytest.mark.parametrize("from_file", [True, False])
def test_a_program_with_the_pinned_hash_loads_and_is_right(
    mlp_pte: bytes, tmp_path: Path, from_file: bool, case: object
) -> None:
    assert callable(case)
    path = tmp_path / "mlp.pte"
    path.write_bytes(mlp_pte)
    source = path if from_file else mlp_pte
    method = ett.load(source, device="cpu", sha256=case(sha256(mlp_pte)))["forward"]
    x = torch.randn(3, 8)
    assert torch.equal(method(x)[0], ett.load(mlp_pte, device="cpu")["forward"](x)[0])


@pytest.mark.parametrize("at", [0, 5000, -1])
def test_one_other_byte_is_refused_with_both_hashes_before_anything_is_parsed(
    mlp_pte: bytes, tmp_path: Path, at: int
) -> None:
    changed = bytearray(mlp_pte)
    changed[at] ^= 1
    path = tmp_path / "changed.pte"
    path.write_bytes(changed)
    pinned, found = sha256(mlp_pte), sha256(bytes(changed))
    for source, name in ((path, "changed.pte"), (bytes(changed), f"{len(changed)} bytes")):
        with pytest.raises(ValueError, match=f"{name}.* SHA-256 {found}, not {pinned}"):
            ett.load(source, device="cpu", sha256=pinned)


def test_bytes_that_are_no_program_at_all_are_refused_for_their_hash_not_parsed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "junk.pte"
    path.write_bytes(b"junk")
    with pytest.raises(ValueError, match="it is not the program that was pinned"):
        ett.load(path, device="cpu", sha256="0" * 64)


@pytest.mark.parametrize("pin", ["", "0" * 63, "0" * 65, "g" * 64, "0" * 64 + "\n"])
def test_a_pin_that_is_no_sha256_is_refused_whatever_the_program(mlp_pte: bytes, pin: str) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        ett.load(mlp_pte, device="cpu", sha256=pin)


def test_a_file_that_changes_behind_the_check_does_not_change_what_was_loaded(
    mlp_pte: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "mlp.pte"
    path.write_bytes(mlp_pte)
    x = torch.randn(3, 8)
    right = ett.load(mlp_pte, device="cpu")["forward"](x)[0]
    method = ett.load(path, device="cpu", sha256=sha256(mlp_pte))["forward"]
    with path.open("r+b") as file:  # the same file, were it mapped
        file.write(bytes(len(mlp_pte)))
    assert torch.equal(method(x)[0], right)


def test_without_a_pin_a_file_is_mapped_not_read(mlp_pte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "padded.pte"
    path.write_bytes(mlp_pte + bytes(32 << 20))
    tracemalloc.start()
    try:
        ett.load(path, device="cpu")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
