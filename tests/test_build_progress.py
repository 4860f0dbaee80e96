"""Progress of engine builds: bars, lines, and a Ctrl-C that stops one; TensorRT builds for real."""

from __future__ import annotations

import logging
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import QUICKSTART
from models import Mlp, Transformer, seeded

import executorch_tensorrt as ett
from executorch_tensorrt.backend import build_progress as module
from executorch_tensorrt.backend.build_progress import build_progress
from executorch_tensorrt.backend.engine import EngineBuildError


class Recorder:
    """A display that writes down what it is shown."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.threads: set[str] = set()

    def start(self, phase: str, depth: int, steps: int) -> None:
        self.events.append(("start", phase, depth, steps))
        self.threads.add(threading.current_thread().name)

    def step(self, phase: str, done: int) -> None:
        self.events.append(("step", phase, done))

    def finish(self, phase: str) -> None:
        self.events.append(("finish", phase))

    def close(self) -> None:
        self.events.append(("close",))


def export_mlp() -> Any:
    return ett.export(seeded(Mlp), (torch.randn(2, 8),))


def test_each_phase_starts_steps_and_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(module, "_make_display", lambda: recorder)
    export_mlp()
    kinds = [event[0] for event in recorder.events]
    assert kinds.count("start") == kinds.count("finish") > 0
    assert "step" in kinds
    assert kinds[-1] == "close"
    assert recorder.events[0][2] == 0
    depths = {event[2] for event in recorder.events if event[0] == "start"}
    assert max(depths) < module.MAX_DEPTH
    assert all(name.startswith("engine-build") for name in recorder.threads)


def test_a_display_that_fails_does_not_fail_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Recorder):
        def start(self, phase: str, depth: int, steps: int) -> None:
            raise RuntimeError("no terminal")

    monkeypatch.setattr(module, "_make_display", Broken)
    assert len(export_mlp().buffer) > 0


def test_a_log_has_a_line_of_where_the_build_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with caplog.at_level(logging.INFO, "executorch_tensorrt"), build_progress("log"):
        export_mlp()
    lines = [record.message for record in caplog.records if " s: " in record.message]
    assert lines
    assert "Building engine " in lines[-1]


def test_off_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with caplog.at_level(logging.INFO, "executorch_tensorrt"), build_progress("off"):
        export_mlp()
    assert not [record for record in caplog.records if " s: " in record.message]


def test_a_terminal_shows_bars(tmp_path: Path) -> None:
    script = tmp_path / "build.py"
    script.write_text(
        "import torch, executorch_tensorrt as ett\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval()\n"
        "ett.export(model, (torch.randn(2, 8),))\n"
    )
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.DEVNULL,
        stderr=side,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(side)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
    os.close(terminal)
    assert process.wait(timeout=300) == 0
    assert "Building engine" in shown.decode()
    assert "━" in shown.decode()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C has its effect, here and in child processes, also where the tests' own is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_stops_the_build_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(Recorder):
        def start(self, phase: str, depth: int, steps: int) -> None:
            super().start(phase, depth, steps)
            if len(self.events) == 1:
                os.kill(os.getpid(), signal.SIGINT)

    recorder = Interrupting()
    monkeypatch.setattr(module, "_make_display", lambda: recorder)
    with pytest.raises(KeyboardInterrupt):
        ett.export(seeded(Transformer, 6, 256), (torch.zeros(1, 16, dtype=torch.long),))
    # It had ended before the call did: nothing was shown after that, and it had been cut short.
    assert recorder.events[-1] == ("close",)
    assert ("step", "Building engine", 5) not in [event[:3] for event in recorder.events]
    monkeypatch.undo()
    assert len(export_mlp().buffer) > 0  # the next build is as if nothing had been


def test_builds_on_other_threads_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelling(Recorder):
        def start(self, phase: str, depth: int, steps: int) -> None:
            super().start(phase, depth, steps)
            module.cancel_builds()

    monkeypatch.setattr(module, "_make_display", Cancelling)
    with ThreadPoolExecutor(1) as pool, pytest.raises(EngineBuildError, match="built no engine"):
        pool.submit(export_mlp).result()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_command_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    source = Path(QUICKSTART.rpartition(":")[0]).read_text()
    model.write_text(source.replace("layers: int = 2", "layers: int = 8"))
    process = subprocess.Popen(
        [sys.executable, "-m", "executorch_tensorrt", "export", "model.py:tiny_transformer"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("building an engine"):
            process.send_signal(signal.SIGINT)
            break
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert said.endswith("executorch-tensorrt: interrupted\n")
    assert "Traceback" not in said
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["model.py"]


def test_an_unknown_mode_is_refused_by_name() -> None:
    unknown: Any = "loud"
    with pytest.raises(ValueError, match="not 'loud'"), build_progress(unknown):
        pass
