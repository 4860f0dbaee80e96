"""Runs the calls of one thread on a CUDA stream of the caller's."""

from __future__ import annotations

import functools
from typing import Any

from .native import _runtime
from .thread_scope import ThreadScope


class cuda_stream(ThreadScope):
    """While it is entered, calls on this thread enqueue on that stream.

    With device tensors alone a call then returns as soon as its work is on the stream; with a host
    tensor among them it returns when its outputs are there. Without it, calls with torch tensors or
    CuPy arrays on a GPU are on their library's current stream, and others wait for their outputs.

    ``stream`` is the handle of a ``cudaStream_t`` as an int, or an object of PyTorch's
    (``cuda_stream``), of CuPy's (``ptr``) or with ``__cuda_stream__``. It must belong to the
    program's GPU and live until its work is done.

    Raises:
        TypeError: ``stream`` is none of these.
        RuntimeError: Left on another thread than it was entered on, or entered twice.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(functools.partial(_runtime.guard_stream, _handle(stream)))


def _handle(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    for attribute in ("cuda_stream", "ptr"):
        value = getattr(stream, attribute, None)
        if isinstance(value, int):
            return value
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(
        "a CUDA stream is given by its handle (int) or as an object of PyTorch's, CuPy's or with "
        f"__cuda_stream__, not by {stream!r}"
    )
