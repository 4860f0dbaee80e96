"""Golden blobs: the files that the Python and the C++ reader are both held to."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from executorch_tensorrt.backend.delegate_blob import DelegateBlob

DATA = Path(__file__).parent / "data"


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_golden_blobs", DATA / "make_golden_blobs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


golden = _load_script()
names = [make.__name__ for make in golden.GOLDEN]
names_1_0 = [make.__name__ for make in golden.GOLDEN_1_0]
each_golden = pytest.mark.parametrize("name", names_1_0 + names)
each_of_this_version = pytest.mark.parametrize("name", names)


@each_golden
def test_a_golden_blob_reads_as_the_json_beside_it_says(name: str) -> None:
    blob = DelegateBlob.from_bytes((DATA / f"{name}.blob").read_bytes())
    expected = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert golden.description(blob) == expected


@pytest.mark.parametrize("name", names_1_0)
def test_a_golden_blob_of_version_1_0_reads_as_the_blob_that_was_written(name: str) -> None:
    data = (DATA / f"{name}.blob").read_bytes()
    assert data[4:8] == b"\1\0\0\0"
    assert DelegateBlob.from_bytes(data) == getattr(golden, name)()


@each_of_this_version
def test_the_writer_still_writes_the_golden_bytes(name: str) -> None:
    assert getattr(golden, name)().to_bytes() == (DATA / f"{name}.blob").read_bytes()


@each_of_this_version
def test_a_golden_blob_that_was_read_writes_itself_again(name: str) -> None:
    data = (DATA / f"{name}.blob").read_bytes()
    assert DelegateBlob.from_bytes(data).to_bytes() == data


def test_every_golden_file_belongs_to_a_golden_blob() -> None:
    blobs = {path.stem for path in DATA.glob("*.blob")}
    assert blobs == {*names_1_0, *names}
