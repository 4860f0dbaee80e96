"""Engines of several partitions: several at a time, and errors that say which."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from models import GraphBreak, Mlp, blobs, seeded

from executorch_tensorrt import CompileOptions, export
from executorch_tensorrt.backend import engine_builds
from executorch_tensorrt.backend.engine import EngineBuildError
from executorch_tensorrt.backend.engine_builder import EngineBuild

INPUTS = (torch.zeros(2, 8),)


class Builds:
    """Counts builds; each waits until `together` run at once, or a moment has passed."""

    def __init__(self, together: int) -> None:
        self.total = self.running = self.most = 0
        self._changed = threading.Condition()
        self._together = together

    def __enter__(self) -> None:
        with self._changed:
            self.total += 1
            self.running += 1
            self.most = max(self.most, self.running)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._together, timeout=60)

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self.running -= 1


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Real builds, watched; two wait for each other."""
    watched = Builds(together=2)
    run = EngineBuild.run

    def watch(self: EngineBuild) -> Any:
        with watched:
            return run(self)

    monkeypatch.setattr(EngineBuild, "run", watch)
    return watched


def test_two_engines_are_built_at_a_time_and_are_the_same_bytes(builds: Builds) -> None:
    models = {"halves": seeded(GraphBreak), "mlp": seeded(Mlp)}
    together = export(models, INPUTS, options=CompileOptions(parallel_builds=2))
    assert (builds.total, builds.most) == (3, 2)
    builds._together = 1
    builds.most = 0
    alone = export(models, INPUTS)
    assert (builds.total, builds.most) == (6, 1)
    assert together.buffer == alone.buffer


def test_builds_take_turns_while_host_memory_is_short(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_builds, "available_memory_bytes", lambda: 0)
    builds._together = 1
    export(seeded(GraphBreak), INPUTS, options=CompileOptions(parallel_builds=2))
    assert (builds.total, builds.most) == (2, 1)


def test_available_memory_is_what_the_system_says() -> None:
    assert 2**20 < engine_builds.available_memory_bytes() < 2**50


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_error_names_method_and_partition(
    monkeypatch: pytest.MonkeyPatch, parallel: int
) -> None:
    run = EngineBuild.run
    started: list[EngineBuild] = []

    def second_fails(self: EngineBuild) -> Any:
        started.append(self)
        if len(started) == 2:
            raise EngineBuildError("TensorRT built no engine")
        return run(self)

    monkeypatch.setattr(EngineBuild, "run", second_fails)
    options = CompileOptions(parallel_builds=parallel)
    models = {"mlp": seeded(Mlp), "halves": seeded(GraphBreak)}
    message = (
        r"^method 'halves', partition 1 of 2 \(\d+ operators, \w+ to \w+\): "
        "TensorRT built no engine$"
    )
    with pytest.raises(EngineBuildError, match=message):
        export(models, INPUTS, options=options)


def test_what_tensorrt_says_goes_to_the_build_that_it_is_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import logging

    run = EngineBuild.run
    both = threading.Barrier(2, timeout=60)

    def complains(self: EngineBuild) -> Any:
        inputs = self.interpreter._input_names
        native = self.interpreter.builder

        class Builder:
            def build_serialized_network(self, network: Any, config: Any) -> None:
                logger = logging.getLogger("torch_tensorrt [TensorRT Conversion Context]")
                both.wait()
                logger.error("about %s", inputs)
                both.wait()

        self.interpreter.builder = Builder()
        try:
            return run(self)
        finally:
            self.interpreter.builder = native

    monkeypatch.setattr(EngineBuild, "run", complains)
    with pytest.raises(EngineBuildError, match=r"TensorRT said: about \['x'\]$"):
        export(seeded(GraphBreak), INPUTS, options=CompileOptions(parallel_builds=2))


def test_how_a_machine_builds_is_not_written_into_a_program() -> None:
    program = export(seeded(Mlp), INPUTS, options=CompileOptions(parallel_builds=7))
    [blob] = blobs(program)
    assert "parallel_builds" not in blob.build_options
    assert b"parallel_builds" not in program.buffer
