"""Engines beyond 2 and 4 GiB, in sparse files that take no memory."""

from __future__ import annotations

import dataclasses
import mmap
from pathlib import Path

import pytest
from models import Mlp, blobs, seeded

from executorch_tensorrt import export
from executorch_tensorrt.backend.delegate_blob import DelegateBlob
from executorch_tensorrt.backend.engine import Engine
from executorch_tensorrt.backend.engine_cache import EngineCache


@pytest.mark.parametrize("size", [2**31 + 5, 2**32 + 5])
@pytest.mark.parametrize("fallback", [b"", b"a program"])
def test_a_blob_with_a_large_engine_is_read_where_it_lies(
    tmp_path: Path, size: int, fallback: bytes
) -> None:
    import torch

    [small] = blobs(export(seeded(Mlp), (torch.zeros(2, 8),)))
    # What comes before the engine is the same as for one that lies outside, but for its offset.
    outside = dataclasses.replace(
        small, engine=b"", external_engine_bytes=size, fallback=fallback or None
    )
    head = bytearray(outside.to_bytes())
    metadata_end = 64 + int.from_bytes(head[24:32], "little")
    offset = -(-metadata_end // 256) * 256
    head[32:40] = offset.to_bytes(8, "little")
    end = offset + size
    if fallback:
        fallback_offset = -(-end // 256) * 256
        head[48:56] = fallback_offset.to_bytes(8, "little")
        end = fallback_offset + len(fallback)
    with open(tmp_path / "blob", "w+b") as file:
        file.truncate(end)
        file.write(head[:metadata_end])
        if fallback:
            file.seek(fallback_offset)
            file.write(fallback)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            blob = DelegateBlob.from_bytes(data)
            sizes = len(blob.engine), bytes(blob.fallback or b""), blob.external_engine_bytes
            del blob
    assert sizes == (size, fallback, 0)


def test_the_engine_cache_keeps_no_engine_beyond_its_bound_whatever_its_size(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = 2**32 + 5
    with open(tmp_path / "plan", "w+b") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            plan = memoryview(data)
            EngineCache(str(tmp_path / "cache"), 2**32).put("a", Engine(plan, (), (), 0, (0, 0)))
            plan.release()
    assert f"is larger than the engine cache may be, {2**32} bytes" in caplog.text
    assert not (tmp_path / "cache").exists()
