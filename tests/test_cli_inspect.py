"""`inspect` on programs with TensorRT and without, on damaged files and on something else."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import invoke, refused, succeeds
from executorch.exir import to_edge
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import GraphBreak, Mlp, blobs, seeded

import executorch_tensorrt as ett
from executorch_tensorrt._export.cli.errors import BAD_ARGUMENT, DAMAGED
from executorch_tensorrt._export.cli.inspect_command import describe
from executorch_tensorrt._export.pte.program import PteError, read_program


@pytest.fixture(scope="module")
def plain_pte() -> bytes:
    """A program that knows nothing of TensorRT."""
    exported = torch.export.export(seeded(Mlp), (torch.randn(4, 8),))
    return bytes(to_edge(exported).to_executorch().buffer)


@pytest.fixture(scope="module")
def split() -> Any:
    """Two delegates with operators between that TensorRT does not take."""
    profiles = [
        ett.OptimizationProfile("one", {"x": [1, 8]}),
        ett.OptimizationProfile("many", {"x": [(2, 4, 16), 8]}),
    ]
    return ett.export(seeded(GraphBreak), (torch.randn(2, 8),), profiles=profiles)


@pytest.fixture
def split_pte(split: Any, tmp_path: Path) -> Path:
    path = tmp_path / "split.pte"
    path.write_bytes(split.buffer)
    return path


def test_it_shows_methods_engines_profiles_and_ranges(mlp_pte: bytes, tmp_path: Path) -> None:
    (tmp_path / "mlp.pte").write_bytes(mlp_pte)
    shown = succeeds("inspect", tmp_path / "mlp.pte")
    for text in (
        "method forward",
        "TensorRTBackend",
        "the whole method",
        "TensorRT-RTX",
        "CPU fallback",
        "up to 16 x 8",
        "1..4..16 x 8",
        "middle",
    ):
        assert text in shown


def test_it_shows_what_stays_outside_and_why(split_pte: Path) -> None:
    shown = succeeds("inspect", split_pte)
    assert "aten::cumsum.out" in shown
    assert "dtype torch.float64" in shown
    assert "models.py:" in shown
    assert "no CPU fallback" in shown


def test_json_holds_all_that_the_blobs_hold(split: Any, split_pte: Path) -> None:
    found = json.loads(succeeds("inspect", split_pte, "--json"))
    assert found["bytes"] == split_pte.stat().st_size
    assert found["faults"] == []
    (method,) = found["methods"]
    assert method["profiles"] == ["one", "many"]
    assert [value["name"] for value in method["inputs"]] == ["x"]
    assert method["inputs"][0] | {"dtype": "float32", "dynamic": True} == method["inputs"][0]
    written = blobs(split)
    ours = [item for item in method["delegates"] if item["backend"] == "TensorRTBackend"]
    assert [item["engine"]["id"] for item in ours] == [blob.engine_id.hex() for blob in written]
    for item, blob in zip(ours, written, strict=True):
        assert item["engine"]["bytes"] == len(blob.engine)
        ranges = [profile["inputs"] for profile in item["profiles"]]
        assert [next(iter(bounds.values()))["opt"] for bounds in ranges] == [
            list(profile.inputs[0].opt) for profile in blob.profiles
        ]
    outside = method["partition_report"]["outside"]
    assert "aten.cumsum.default" in [item["operator"] for item in outside]


def test_of_a_program_without_tensorrt_it_says_that_and_what_runs(
    plain_pte: bytes, tmp_path: Path
) -> None:
    (tmp_path / "plain.pte").write_bytes(plain_pte)
    shown = succeeds("inspect", tmp_path / "plain.pte")
    assert "no part of it runs in TensorRT" in shown
    assert "aten::addmm.out" in shown
    assert "why is not recorded" in shown


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "nothing.pte" in refused(BAD_ARGUMENT, "inspect", tmp_path / "nothing.pte")
    assert str(tmp_path) in refused(BAD_ARGUMENT, "inspect", tmp_path)


@pytest.mark.parametrize("contents", [b"", b"PK\x03\x04 a zip file", b"\0" * 64])
def test_a_file_that_is_no_program_is_said_to_be_none(contents: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(contents)
    for arguments in ([], ["--json"]):
        output = refused(DAMAGED, "inspect", tmp_path / "model.pte", *arguments)
        assert "this is no ExecuTorch program" in output


def test_a_damaged_engine_is_found_and_the_rest_is_shown(mlp_pte: bytes, tmp_path: Path) -> None:
    data = bytearray(mlp_pte)
    at = data.index(b"ETRT")
    (engine,) = struct.unpack_from("<Q", data, at + 32)
    data[at + engine + 100] ^= 1
    (tmp_path / "model.pte").write_bytes(data)
    output = refused(DAMAGED, "inspect", tmp_path / "model.pte")
    assert "its engine is damaged" in output
    assert "1..4..16 x 8" in output


def test_a_blob_of_a_newer_version_is_not_called_damaged(mlp_pte: bytes, tmp_path: Path) -> None:
    data = bytearray(mlp_pte)
    struct.pack_into("<H", data, data.index(b"ETRT") + 4, 2)
    (tmp_path / "model.pte").write_bytes(data)
    output = refused(DAMAGED, "inspect", tmp_path / "model.pte")
    assert "blob version 2.1; this build reads 1.x: upgrade executorch-tensorrt" in output
    assert "damaged" not in output


def test_a_program_that_is_cut_off_is_found_at_any_length(mlp_pte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    for size in [9, 40, 100, len(mlp_pte) // 2, len(mlp_pte) - 1]:
        path.write_bytes(mlp_pte[:size])
        assert path.name in refused(DAMAGED, "inspect", path)


def test_a_name_in_a_file_cannot_drive_the_terminal(mlp_pte: bytes, tmp_path: Path) -> None:
    blob = mlp_pte.index(b"ETRT")
    data = mlp_pte[:blob].replace(b"forward", b"\x1b[2J[/]") + mlp_pte[blob:]
    (tmp_path / "model.pte").write_bytes(data)
    shown = succeeds("inspect", tmp_path / "model.pte")
    assert "\x1b[2J" not in shown
    assert "\\x1b[2J[/]" in shown


# An engine is most of a program, so that changes anywhere would seldom meet the structure.
positions = st.one_of(st.integers(0, 2000), st.integers(0, 10**9))
changes = st.lists(st.tuples(positions, st.integers(1, 255)), min_size=1, max_size=8)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=changes, which=st.sampled_from(["plain", "mlp"]))
def test_whatever_is_changed_in_a_program_it_is_read_or_refused(
    changes: list[tuple[int, int]], which: str, plain_pte: bytes, mlp_pte: bytes
) -> None:
    data = bytearray(plain_pte if which == "plain" else mlp_pte)
    for position, value in changes:
        data[position % len(data)] ^= value
    try:
        program = read_program(data)
    except PteError:
        return
    json.dumps(describe(program))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=changes)
def test_a_changed_program_is_shown_or_refused_without_a_traceback(
    changes: list[tuple[int, int]], plain_pte: bytes, tmp_path: Path
) -> None:
    data = bytearray(plain_pte)
    for position, value in changes:
        data[position % len(data)] ^= value
    (tmp_path / "model.pte").write_bytes(data)
    assert invoke("inspect", tmp_path / "model.pte").exit_code in (0, DAMAGED)


@settings(max_examples=200)
@given(contents=st.binary(max_size=400))
def test_bytes_after_a_programs_identifier_are_read_or_refused(contents: bytes) -> None:
    with contextlib.suppress(PteError):
        describe(read_program(contents[:4].ljust(4, b"\0") + b"ET12" + contents[4:]))


def test_a_small_file_whose_parts_point_at_each_other_is_refused_quickly() -> None:
    # One table whose vector of methods holds the table itself many times over.
    count = 2000
    vtable = struct.pack("<HHHH", 8, 12, 0, 4)
    table_at = 16
    body = struct.pack("<I4sI", table_at, b"ET12", 0)[:8] + vtable
    table = struct.pack("<iI", table_at - 8, 4) + struct.pack("<I", count)
    entries_at = table_at + 12
    entries = b"".join(
        struct.pack("<I", (table_at - (entries_at + 4 * i)) & 0xFFFFFFFF) for i in range(count)
    )
    with pytest.raises(PteError, match="damaged"):
        read_program(body + table + entries)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((1, 8), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.seen * 2


def test_it_shows_states(tmp_path: Path) -> None:
    path = tmp_path / "counter.pte"
    ett.export(Counter().eval(), (torch.zeros(1, 8),)).save(str(path))
    shown = succeeds("inspect", path)
    for text in ("seen", "float32", "1 x 8", "as a copy", "a value of 32 B"):
        assert text in shown
    [delegate] = describe(read_program(path.read_bytes()))["methods"][0]["delegates"]
    assert delegate["states"] == [
        {
            "name": "seen",
            "dtype": "float32",
            "shape": [1, 8],
            "in_place": False,
            "initial_bytes": 32,
        }
    ]


def test_an_engine_beside_the_program_is_not_taken_for_damaged(tmp_path: Path) -> None:
    options = ett.CompileOptions(engine_data_file="engines")
    program = ett.export(seeded(Mlp), (torch.randn(2, 8),), options=options)
    (tmp_path / "mlp.pte").write_bytes(program.buffer)
    shown = succeeds("inspect", tmp_path / "mlp.pte")
    assert "in a .ptd file beside the program" in shown
    assert "damaged" not in shown
