"""Pins an optimization profile for the calls of one thread."""

from __future__ import annotations

import functools

from .native import _runtime
from .thread_scope import ThreadScope


def check_profile(profile: object) -> str | int:
    """Return a profile's name or index as it is; TypeError for anything else, a bool among it."""
    if isinstance(profile, bool) or not isinstance(profile, (str, int)):
        raise TypeError(
            f"a profile is given by its name (str) or its index (int), not by {profile!r}"
        )
    return profile


class optimization_profile(ThreadScope):
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
        if profile is None:
            super().__init__(_runtime.pin_automatic)
        else:
            super().__init__(functools.partial(_runtime.pin_profile, check_profile(profile)))
