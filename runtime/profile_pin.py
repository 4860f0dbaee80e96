"""Pins an optimization profile for the calls of one thread."""

from __future__ import annotations

import threading
from types import TracebackType

from .native import _runtime


def check_profile(profile: object) -> str | int:
    """Return a profile's name or index as it is; TypeError for anything else, a bool among it."""
    if isinstance(profile, bool) or not isinstance(profile, (str, int)):
        raise TypeError(
            f"a profile is given by its name (str) or its index (int), not by {profile!r}"
        )
    return profile


class optimization_profile:
    """While it is entered, TensorRT delegates on this thread use the profile it names.

    ``profile`` is a name, an index in declared order, or ``None`` for selection by input shape,
    also inside an outer pin. A pin that names no profile, or one that the inputs do not fit, makes
    the call raise :class:`~executorch_tensorrt.runtime.InvalidArgument`; nothing was executed.

    Pins nest, the innermost counts. They belong to the thread: other threads do not see them, work
    handed to a pool runs without them, and in a coroutine every task that runs on the thread before
    the pin is left sees it, so do not ``await`` inside. Use ``Method(..., profile=...)`` there.

    Example:
        >>> with optimization_profile("decode"):
        ...     (logits,) = program["forward"](ids)

    Raises:
        TypeError: ``profile`` is none of these.
        RuntimeError: Left on another thread than it was entered on, or entered twice.
    """

    def __init__(self, profile: str | int | None) -> None:
        self._profile = None if profile is None else check_profile(profile)
        self._guard: _runtime.OptimizationProfileGuard | None = None
        self._thread: int | None = None

    def __enter__(self) -> None:
        if self._guard is not None:
            raise RuntimeError("this optimization_profile is entered already: make another")
        if self._profile is None:
            self._guard = _runtime.pin_automatic()
        else:
            self._guard = _runtime.pin_profile(self._profile)
        self._thread = threading.get_ident()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread != threading.get_ident():
            raise RuntimeError(
                "optimization_profile was left on another thread than it was entered on; "
                "its pin stays on that thread"
            )
        self._guard = None  # the native guard ends here
