"""What TensorRT is at while it builds an engine, and a way to stop it.

Bars where somebody watches (a terminal, a notebook) and rich is installed, else lines in the
package's log. Imports TensorRT and rich only when an engine is built.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

logger = logging.getLogger("executorch_tensorrt")

Mode = Literal["auto", "bars", "log", "off"]
MODES: tuple[Mode, ...] = ("auto", "bars", "log", "off")

SECONDS_BETWEEN_LINES = 5.0
MAX_DEPTH = 3  # of nested phases that are shown; those below come and go too quickly to read

_mode: Mode = "auto"
_running: set[Any] = set()  # the monitors of builds that are under way
_running_lock = threading.Lock()


@contextlib.contextmanager
def build_progress(mode: Mode) -> Iterator[None]:
    """How the engine builds inside show their progress.

    Args:
        mode: `"bars"` on standard error, `"log"` lines of level INFO in the logger
            `executorch_tensorrt`, `"off"`, or `"auto"`, the default: bars if standard error is a
            terminal, or in a notebook, and the package rich is there, else log lines.

    Raises:
        ImportError: `"bars"` without rich.
        ValueError: Another mode.
    """
    global _mode
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
    if mode == "bars" and importlib.util.find_spec("rich") is None:
        raise ImportError(
            "build_progress('bars') needs rich: pip install 'executorch-tensorrt[cli]'"
        )
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


class _Display(Protocol):
    """Shows phases as they start, step and finish; called on whatever thread TensorRT builds on."""

    def start(self, phase: str, depth: int, steps: int) -> None: ...

    def step(self, phase: str, done: int) -> None: ...

    def finish(self, phase: str) -> None: ...

    def close(self) -> None: ...


def build_with_progress(builder: Any, network: Any, config: Any) -> Any:
    """`builder.build_serialized_network(network, config)`, with progress.

    To be called on another thread than the main one, which Ctrl-C reaches: whoever waits for it
    calls `cancel_builds` then.
    """
    display = _make_display()
    monitor = _make_monitor(display)
    config.progress_monitor = monitor
    with _running_lock:
        _running.add(monitor)
    try:
        return builder.build_serialized_network(network, config)
    finally:
        with _running_lock:
            _running.discard(monitor)
        config.progress_monitor = None
        display.close()


def cancel_builds() -> None:
    """Makes TensorRT stop the builds that are under way, on any thread, at their next step."""
    with _running_lock:
        for monitor in _running:
            monitor.cancelled = True


def _make_monitor(display: _Display) -> Any:
    from .converters import trt

    class Monitor(trt.IProgressMonitor):
        """Passes TensorRT's phases on. No exception may leave its methods: C++ calls them."""

        def __init__(self) -> None:
            super().__init__()
            self.cancelled = False
            self._depths: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            depth = self._depths.get(parent_phase or "", -1) + 1
            self._depths[phase_name] = depth
            if depth < MAX_DEPTH:
                _quietly(lambda: display.start(phase_name, depth, num_steps))

        def step_complete(self, phase_name: str, step: int) -> bool:
            if self._depths.get(phase_name, 0) < MAX_DEPTH:
                _quietly(lambda: display.step(phase_name, step + 1))
            return not self.cancelled

        def phase_finish(self, phase_name: str) -> None:
            if self._depths.pop(phase_name, 0) < MAX_DEPTH:
                _quietly(lambda: display.finish(phase_name))

    return Monitor()


def _quietly(show: Callable[[], None]) -> None:
    try:
        show()
    except Exception:  # a display that fails must not fail the build
        logger.debug("showing the progress failed", exc_info=True)


def _make_display() -> _Display:
    if _mode == "off":
        return _Nothing()
    if _mode == "log" or (_mode == "auto" and not _is_watched()):
        return _Lines()
    return _Bars()


def _is_watched() -> bool:
    if importlib.util.find_spec("rich") is None:
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.stderr.isatty() or type(shell).__name__ == "ZMQInteractiveShell"


class _Nothing:
    def start(self, phase: str, depth: int, steps: int) -> None:
        pass

    def step(self, phase: str, done: int) -> None:
        pass

    def finish(self, phase: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines(_Nothing):
    """One log line every few seconds, with the outer phases and how far they are."""

    def __init__(self) -> None:
        self._phases: dict[str, tuple[int, int, int]] = {}  # depth, steps, done
        self._started = self._last = time.monotonic()

    def start(self, phase: str, depth: int, steps: int) -> None:
        self._phases[phase] = (depth, steps, 0)

    def step(self, phase: str, done: int) -> None:
        depth, steps, _ = self._phases.get(phase, (0, 0, 0))
        self._phases[phase] = (depth, steps, done)
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            logger.info("%.0f s: %s", now - self._started, self._where())

    def finish(self, phase: str) -> None:
        self._phases.pop(phase, None)

    def _where(self) -> str:
        outermost_first = sorted(self._phases.items(), key=lambda item: item[1][0])
        return ", ".join(f"{name} {done}/{steps}" for name, (_, steps, done) in outermost_first)


class _Bars(_Nothing):
    """A bar for each phase that is under way; builds on several threads share one display."""

    _lock = threading.Lock()
    _shared: Any = None
    _users = 0

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        self._tasks: dict[str, Any] = {}
        with _Bars._lock:
            if _Bars._users == 0:
                _Bars._shared = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    Elapsed(),
                    console=Console(stderr=True),
                    transient=True,
                )
                _Bars._shared.start()
            _Bars._users += 1
            self._progress = _Bars._shared

    def start(self, phase: str, depth: int, steps: int) -> None:
        self.finish(phase)
        self._tasks[phase] = self._progress.add_task("  " * depth + phase, total=steps)

    def step(self, phase: str, done: int) -> None:
        if phase in self._tasks:
            self._progress.update(self._tasks[phase], completed=done)

    def finish(self, phase: str) -> None:
        task = self._tasks.pop(phase, None)
        if task is not None:
            self._progress.remove_task(task)

    def close(self) -> None:
        for phase in list(self._tasks):
            self.finish(phase)
        with _Bars._lock:
            _Bars._users -= 1
            if _Bars._users == 0:
                self._progress.stop()
                _Bars._shared = None
