"""Engines in a `.ptd` file beside the program."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from models import GraphBreak, Mlp, blobs, seeded

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, export
from executorch_tensorrt.backend.delegate_blob import BlobError, DelegateBlob, engine_key
from executorch_tensorrt.runtime import InvalidExternalData, NotFound, TensorRTError

INPUTS = (torch.zeros(2, 8),)
INSIDE = CompileOptions(cpu_fallback=True)
OUTSIDE = CompileOptions(cpu_fallback=True, engine_data_file="engines")


def named_data(file: Path) -> dict[str, bytes]:
    """A `.ptd` file's contents by key, as ExecuTorch reads it."""
    payload = FlatTensorSerializer().deserialize(file.read_bytes())
    return {key: payload.buffers[entry.buffer_index] for key, entry in payload.named_data.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An Mlp's program `model.pte` and its engine, `engines.ptd`."""
    folder = tmp_path_factory.mktemp("model")
    program = export(seeded(Mlp), INPUTS, options=OUTSIDE)
    program.save(str(folder / "model.pte"))
    program.write_tensor_data_to_file(str(folder))
    return folder


def test_the_file_holds_the_engine_by_its_id_and_the_program_does_not(folder: Path) -> None:
    [blob] = blobs(export(seeded(Mlp), INPUTS, options=INSIDE))
    assert named_data(folder / "engines.ptd") == {engine_key(blob.engine_id): bytes(blob.engine)}
    assert bytes(blob.engine) not in (folder / "model.pte").read_bytes()
    [outside] = blobs(export(seeded(Mlp), INPUTS, options=OUTSIDE))
    assert (outside.engine_id, bytes(outside.engine)) == (blob.engine_id, b"")
    assert outside.external_engine_bytes == len(blob.engine)
    assert outside.fallback == blob.fallback


def test_methods_and_partitions_share_one_file_and_the_same_engine_is_there_once(
    tmp_path: Path,
) -> None:
    models = {"a": seeded(Mlp), "b": seeded(Mlp), "halves": seeded(GraphBreak)}
    program = export(models, INPUTS, options=OUTSIDE)
    program.write_tensor_data_to_file(str(tmp_path))
    ids = [blob.engine_id for name in models for blob in blobs(program, name)]
    assert len(ids) == 4
    assert set(named_data(tmp_path / "engines.ptd")) == {engine_key(value) for value in ids}
    assert len(set(ids)) == 3


@pytest.mark.parametrize("given", ["with the file", "without", "bytes with the file"])
def test_the_cpu_fallback_runs_with_or_without_the_file(folder: Path, given: str) -> None:
    path = folder / "model.pte"
    data = None if given == "without" else folder / "engines.ptd"
    program: Any = path.read_bytes() if given.startswith("bytes") else path
    x = torch.randn(2, 8)
    [answer] = ett.load(program, device="cpu", data=data)["forward"](x)
    torch.testing.assert_close(answer, seeded(Mlp)(x).detach())


@pytest.mark.gpu
def test_the_engine_runs_on_the_gpu_from_its_file(folder: Path) -> None:
    x = torch.randn(2, 8)
    method = ett.load(folder / "model.pte", data=folder / "engines.ptd")["forward"]
    torch.testing.assert_close(method(x)[0], seeded(Mlp)(x).detach(), rtol=0, atol=2e-3)
    assert method.stats()[0]["device"] == "cuda:0"


def test_a_missing_or_wrong_file_is_refused_by_the_engine_s_name(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        InvalidExternalData, match=r"'tensorrt_engine_\w+' .* no data file was given"
    ):
        ett.load(folder / "model.pte", device="cuda")
    export(seeded(GraphBreak), INPUTS, options=OUTSIDE).write_tensor_data_to_file(str(tmp_path))
    message = r"'tensorrt_engine_\w+' .* the data given holds tensorrt_engine_\w+, tensorrt_engine_"
    with pytest.raises(InvalidExternalData, match=message):
        ett.load(folder / "model.pte", device="cuda", data=tmp_path / "engines.ptd")


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the engine is loaded")
def test_with_the_right_file_a_gpu_is_all_that_is_missing(folder: Path) -> None:
    with pytest.raises(NotFound, match="no NVIDIA driver"):
        ett.load(folder / "model.pte", device="cuda", data=folder / "engines.ptd")


def test_what_is_no_data_file_is_refused_by_its_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such data file: .*nowhere\.ptd"):
        ett.load(folder / "model.pte", device="cpu", data=tmp_path / "nowhere.ptd")
    (tmp_path / "text.ptd").write_text("this is no data file" * 100)
    with pytest.raises(TensorRTError, match=re.escape(str(tmp_path / "text.ptd"))):
        ett.load(folder / "model.pte", device="cpu", data=tmp_path / "text.ptd")


@pytest.mark.parametrize("name", ["", "folder/name", "..", 3, ".ptd"])
def test_what_is_no_name_of_a_file_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"engine_data_file must be a file's name .* got"):
        CompileOptions(engine_data_file=name)


# --- The blob ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blob() -> DelegateBlob:
    [blob] = blobs(export(seeded(Mlp), INPUTS, options=INSIDE))
    return blob


@pytest.mark.parametrize("fallback", [None, b"a program"])
def test_a_blob_without_its_engine_comes_back_as_it_was(
    blob: DelegateBlob, fallback: bytes | None
) -> None:
    outside = dataclasses.replace(blob, engine=b"", external_engine_bytes=2**33, fallback=fallback)
    data = outside.to_bytes()
    assert DelegateBlob.from_bytes(data) == outside
    assert len(data) < 4096
    with pytest.raises(BlobError, match=r"size is \d+ bytes, its sections end at"):
        DelegateBlob.from_bytes(data + b"\0")
    other_size = data[:40] + b"\1" + data[41:]
    with pytest.raises(BlobError, match=r"engine size is 8589934593 in the header, 8589934592"):
        DelegateBlob.from_bytes(other_size)


def test_an_engine_is_in_the_blob_or_outside_but_not_both(blob: DelegateBlob) -> None:
    with pytest.raises(BlobError, match="engine is in the blob and, by external_engine_bytes"):
        dataclasses.replace(blob, external_engine_bytes=5).to_bytes()
    with pytest.raises(BlobError, match="engine is empty"):
        dataclasses.replace(blob, engine=b"").to_bytes()
