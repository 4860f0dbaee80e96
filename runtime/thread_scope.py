"""What :class:`optimization_profile` and :class:`cuda_stream` share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class ThreadScope:
    """A context manager over a native guard, which belongs to the thread that it was made on.

    Raises:
        RuntimeError: Left on another thread than it was entered on, or entered twice.
    """

    def __init__(self, make_guard: Callable[[], object]) -> None:
        self._make_guard = make_guard
        self._guard: object | None = None
        self._thread: int | None = None

    def __enter__(self) -> None:
        if self._guard is not None:
            raise RuntimeError(f"this {type(self).__name__} is entered already: make another")
        self._guard = self._make_guard()
        self._thread = threading.get_ident()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread != threading.get_ident():
            raise RuntimeError(
                f"{type(self).__name__} was left on another thread than it was entered on; what it "
                "set stays on that thread"
            )
        self._guard = None  # the native guard ends here
