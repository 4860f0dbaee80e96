"""Golden programs: `.pte` files of each version of the blob load and execute as they ever did."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import refused, succeeds
from executorch.runtime import Runtime

import executorch_tensorrt as ett
from executorch_tensorrt._export.cli.errors import DAMAGED
from executorch_tensorrt.backend import delegate_blob
from executorch_tensorrt.runtime import TensorRTError

DATA = Path(__file__).parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.pte"))
each_program = pytest.mark.parametrize("name", NAMES)


@dataclass
class Call:
    profile: str
    inputs: list[torch.Tensor] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)


@dataclass
class Answers:
    """What a `.calls` file says."""

    calls: list[Call]
    states: dict[str, torch.Tensor]


def answers(name: str) -> Answers:
    found = Answers([], {})
    for line in (DATA / f"{name}.calls").read_text(encoding="utf-8").splitlines():
        kind, *words = line.split()
        if kind == "call":
            found.calls.append(Call(*words or [""]))
        elif kind == "state":
            found.states[words[0]] = tensor(words[1:])
        else:
            (found.calls[-1].inputs if kind == "input" else found.calls[-1].outputs).append(
                tensor(words)
            )
    return found


def tensor(words: list[str]) -> torch.Tensor:
    dtype, rank = getattr(torch, words[0]), int(words[1])
    number = float if dtype.is_floating_point else int
    values = [number(word) for word in words[2 + rank :]]
    return torch.tensor(values, dtype=dtype).reshape([int(word) for word in words[2 : 2 + rank]])


def version_of(name: str) -> tuple[int, int]:
    program = (DATA / f"{name}.pte").read_bytes()
    major, minor = struct.unpack_from("<HH", program, program.index(b"ETRT") + 4)
    return major, minor


def in_version(major: int, minor: int, appended: bytes = b"") -> bytes:
    """`cache_1_1` with its blob under another version, and fields behind those that are known."""
    program = bytearray((DATA / "cache_1_1.pte").read_bytes())
    blob = program.index(b"ETRT")
    size, engine = struct.unpack_from("<QQ", program, blob + 24)
    metadata = struct.pack("<HH", major, minor) + program[blob + 68 : blob + 64 + size] + appended
    assert 64 + len(metadata) <= engine, "the padding before the engine has no room for it"
    program[blob + 64 : blob + 64 + len(metadata)] = metadata
    struct.pack_into("<HHII", program, blob + 4, major, minor, 64, zlib.crc32(metadata))
    struct.pack_into("<Q", program, blob + 24, len(metadata))
    return bytes(program)


def assert_answers(program: ett.Program, name: str) -> None:
    right, method = answers(name), program["forward"]
    assert right.calls
    for call in right.calls:
        outputs = method(*call.inputs, profile=call.profile or None)
        torch.testing.assert_close(list(outputs), call.outputs, rtol=0, atol=0)
    assert set(method.state.names) == set(right.states)
    for state, value in right.states.items():
        np.testing.assert_array_equal(method.state.read(state), value.numpy())


def test_no_golden_file_is_another_than_the_one_that_was_released() -> None:
    lines = (DATA / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = dict(reversed(line.split()) for line in lines)
    files = {path.name for kind in ("blob", "pte", "calls") for path in DATA.glob(f"*.{kind}")}
    assert sums.keys() == files
    for name, digest in sums.items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


def test_each_version_that_the_writer_ever_wrote_has_a_program() -> None:
    minors = range(delegate_blob.VERSION_MINOR + 1)
    assert {version_of(name) for name in NAMES} == {
        (delegate_blob.VERSION_MAJOR, minor) for minor in minors
    }


@each_program
def test_a_golden_program_gives_the_right_answers_and_states(name: str) -> None:
    assert_answers(ett.load(DATA / f"{name}.pte", device="cpu"), name)


@each_program
def test_a_golden_program_gives_the_right_answers_from_the_stock_runtime(name: str) -> None:
    ett.register()
    method = Runtime.get().load_program(DATA / f"{name}.pte").load_method("forward")
    for call in answers(name).calls:
        with ett.optimization_profile(call.profile or None):
            outputs = method.execute(call.inputs)
        torch.testing.assert_close(list(outputs), call.outputs, rtol=0, atol=0)


@each_program
def test_a_golden_program_is_inspected(name: str) -> None:
    shown = succeeds("inspect", DATA / f"{name}.pte")
    for text in ("TensorRT-RTX 1.6.1", "CPU fallback", *answers(name).states):
        assert text in shown


def test_a_program_of_a_newer_minor_version_executes_without_the_fields_that_are_not_known() -> (
    None
):
    newer = in_version(1, 999, b"fields of a later version")
    assert_answers(ett.load(newer, device="cpu"), "cache_1_1")


@pytest.mark.parametrize("device", [None, "cpu", "cuda:0"])
def test_a_program_of_a_newer_major_version_is_refused_by_its_number(device: str | None) -> None:
    with pytest.raises(TensorRTError, match=r"blob version 2\.7; this build reads 1\.x: upgrade"):
        ett.load(in_version(2, 7), device=device)["forward"]


def test_inspect_refuses_a_newer_major_version_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "newer.pte"
    path.write_bytes(in_version(2, 7))
    assert "blob version 2.7; this build reads 1.x: upgrade" in refused(DAMAGED, "inspect", path)
