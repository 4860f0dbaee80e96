"""The engine cache: what is one engine, and what becomes of its files."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from models import Mlp, Transformer, blobs, seeded
from torch.fx import GraphModule

from executorch_tensorrt import CompileOptions, OptimizationProfile, export
from executorch_tensorrt.backend.delegate_blob import ShapeRange
from executorch_tensorrt.backend.engine import Engine
from executorch_tensorrt.backend.engine_builder import EngineBuild
from executorch_tensorrt.backend.engine_cache import EngineCache
from executorch_tensorrt.backend.engine_fingerprint import engine_fingerprint

PROFILES = (
    OptimizationProfile("decode", {"tokens": [1, 1]}),
    OptimizationProfile("prefill", {"tokens": [1, (2, 8, 16)]}),
)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each engine that TensorRT builds."""
    counts: list[int] = []
    build = EngineBuild.run

    def counted(self: EngineBuild) -> Engine:
        counts.append(1)
        return build(self)

    monkeypatch.setattr(EngineBuild, "run", counted)
    return counts


def exported(directory: Path, **options: Any) -> Any:
    tokens = torch.zeros(1, 8, dtype=torch.long)
    return export(
        seeded(Transformer, 1),
        (tokens,),
        profiles=PROFILES,
        options=CompileOptions(engine_cache_dir=directory, **options),
    )


def test_a_second_export_builds_nothing_and_writes_the_same_bytes(
    tmp_path: Path, built: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    first = exported(tmp_path, cpu_fallback=True).buffer
    assert len(built) == 1
    with caplog.at_level(logging.INFO, "executorch_tensorrt"):
        second = exported(tmp_path, cpu_fallback=True).buffer
    assert len(built) == 1
    assert "from the engine cache" in caplog.text
    assert bytes(first) == bytes(second)


def test_a_program_does_not_say_where_the_cache_is(tmp_path: Path) -> None:
    program = exported(tmp_path)
    assert os.fsencode(tmp_path) not in bytes(program.buffer)
    [blob] = blobs(program)
    assert not any("cache" in name for name in blob.build_options)


@pytest.mark.parametrize("damage", ["cut", "changed", "another", "empty"])
def test_a_damaged_file_is_warned_of_and_replaced(
    damage: str, tmp_path: Path, built: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    model, inputs = seeded(Mlp), (torch.zeros(2, 8),)
    options = CompileOptions(engine_cache_dir=str(tmp_path))
    [right] = blobs(export(model, inputs, options=options))
    [path] = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    if damage == "changed":
        data[-10] ^= 1
    path.write_bytes(
        {"cut": data[:-1], "changed": data, "another": b"x" * 100, "empty": b""}[damage]
    )
    [again] = blobs(export(model, inputs, options=options))
    assert len(built) == 2
    assert f"{path.name} is damaged" in caplog.text
    assert bytes(again.engine) == bytes(right.engine)
    export(model, inputs, options=options)
    assert len(built) == 2


def test_a_directory_that_cannot_be_written_to_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    options = CompileOptions(engine_cache_dir=tmp_path / "file")
    assert blobs(export(seeded(Mlp), (torch.zeros(2, 8),), options=options))
    assert "the engine cache cannot keep" in caplog.text


# --- The directory -------------------------------------------------------------------------------


def engine(size: int, fill: int = 0) -> Engine:
    return Engine(memoryview(bytes([fill]) * size), ("x",), ("y", "z"), 2, (8, 6))


def test_an_engine_comes_back_as_it_was(tmp_path: Path) -> None:
    cache = EngineCache(str(tmp_path / "made"), 10_000)
    cache.put("a", engine(1000, 7))
    assert cache.get("a") == engine(1000, 7)
    assert cache.get("b") is None


def test_the_least_recently_used_engines_go_first(tmp_path: Path) -> None:
    cache = EngineCache(str(tmp_path), 3600)
    for index, key in enumerate("abc"):
        cache.put(key, engine(1000))
        os.utime(tmp_path / f"{key}.engine", (index, index))
    assert cache.get("a") is not None  # used now
    cache.put("d", engine(1000))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "c", "d"]


def test_an_engine_larger_than_the_cache_may_be_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = EngineCache(str(tmp_path), 3000)
    cache.put("small", engine(1000))
    cache.put("large", engine(4000))
    assert [path.stem for path in tmp_path.iterdir()] == ["small"]
    assert "larger than the engine cache may be, 3000 bytes" in caplog.text


def _use(directory: str, failed: Any, process: int) -> None:
    cache = EngineCache(directory, 6000)
    for step in range(150):
        key = str(step % 7)
        cache.put(key, engine(1000, int(key)))
        found = cache.get(str((step + process) % 7))
        if found is not None and set(found.plan) != {(step + process) % 7}:
            failed.set()


def test_processes_that_share_a_cache_see_whole_engines_alone(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    failed = context.Event()
    processes = [
        context.Process(target=_use, args=(str(tmp_path), failed, index)) for index in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert not failed.is_set()
    files = list(tmp_path.iterdir())
    assert all(path.suffix == ".engine" for path in files)
    assert sum(path.stat().st_size for path in files) <= 8000  # two may be added at a time


# --- Keys ----------------------------------------------------------------------------------------


def graph(weight: torch.Tensor, number: float = 2.0, name: str = "x") -> GraphModule:
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.mul.Tensor(torch.ops.aten.add.Tensor(x, self.weight), number)

    module = torch.fx.symbolic_trace(Product())
    for node in module.graph.nodes:
        node.meta["val"] = torch.zeros(4)
        if node.op == "placeholder":
            node.name = name
    return module


def range_of(size: int) -> list[tuple[ShapeRange, ...]]:
    return [(ShapeRange((4,), (4,), (size,)),)]


WEIGHT = torch.arange(4.0)


def key(
    module: GraphModule | None = None, size: int = 4, options: CompileOptions | None = None
) -> str:
    return engine_fingerprint(module or graph(WEIGHT), range_of(size), options or CompileOptions())


def test_the_same_network_has_the_same_key_whatever_its_nodes_are_called() -> None:
    module = graph(WEIGHT.clone())
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.name = f"other_{node.name}"
    assert key(module) == key()
    assert re.fullmatch("[0-9a-f]{64}", key())


@pytest.mark.parametrize(
    "changed",
    [
        lambda: key(graph(WEIGHT + 1)),
        lambda: key(graph(WEIGHT.to(torch.float16))),
        lambda: key(graph(WEIGHT, number=3.0)),
        lambda: key(graph(WEIGHT, number=2)),
        lambda: key(graph(WEIGHT, name="y")),
        lambda: key(size=8),
        lambda: key(options=CompileOptions(tf32=True)),
        lambda: key(options=CompileOptions(compute_capabilities=("8.6",))),
    ],
    ids=["weight", "dtype", "number", "number's type", "input", "profile", "tf32", "capability"],
)
def test_whatever_the_engine_depends_on_changes_the_key(changed: Any) -> None:
    assert changed() != key()


def test_what_the_engine_does_not_depend_on_does_not_change_the_key() -> None:
    options = CompileOptions(cpu_fallback=True, min_partition_operators=2, engine_cache_dir="x")
    assert key(options=options) == key()


def test_versions_and_the_environment_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch_tensorrt.backend import engine_fingerprint as module

    before, known = key(), module._environment()
    assert {"torch", "tensorrt", "torch_tensorrt", "executorch_tensorrt", "gpu"} <= set(known)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert key() != before
    monkeypatch.setattr(module, "_environment", lambda: {**known, "tensorrt": [2, 9, 9]})
    assert key() != before
    assert json.dumps(known)
