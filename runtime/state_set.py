"""The mutable state of methods, such as a KV cache, which stays on their device."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from .array_libraries import gpu_of, library_of
from .native import _runtime
from .thread_scope import ThreadScope


@dataclass(frozen=True)
class StateInfo:
    """One state.

    Attributes:
        name: Fully qualified name of the buffer in the module that was exported.
        dtype: As NumPy and PyTorch call it, ``"float16"`` for instance.
        shape: Its sizes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


class StateSet:
    """The values of a method's states, on the method's device, by fully qualified name.

    A method has one of its own, :attr:`Method.state`; :meth:`Method.new_state` makes more, for
    sessions that are independent of each other over the same weights. They may be used from any
    thread, and after their program is gone; calls on one set take turns.

    These are the buffers that TensorRT delegates own. Buffers that stayed with the ExecuTorch
    program are not among them.
    """

    def __init__(self, native: _runtime.StateSet | None) -> None:
        self._native = native  # None: of a method without states
        states = [] if native is None else native.states()
        self._infos = {name: StateInfo(name, dtype, shape) for name, dtype, shape in states}

    @property
    def names(self) -> list[str]:
        """The names of the states."""
        return list(self._infos)

    def __getitem__(self, name: str) -> StateInfo:
        try:
            return self._infos[name]
        except KeyError:
            known = ", ".join(self._infos) or "none"
            raise KeyError(f"no state {name!r}; states are {known}") from None

    def read(self, name: str) -> Any:
        """Return a copy of a state's value in host memory.

        A NumPy array; for a dtype that NumPy does not have, such as bfloat16, an object with
        ``__dlpack__``.

        Raises:
            KeyError: There is no such state.
            TensorRTError: The state is lost (see :meth:`reset`), or the device failed.
        """
        import numpy

        self[name]
        assert self._native is not None
        value = self._native.read(name)
        try:
            return numpy.from_dlpack(value)
        except (BufferError, RuntimeError):
            return value

    def write(self, name: str, value: Any) -> None:
        """Replace a state's value.

        Args:
            name: The state.
            value: A tensor of its dtype and shape, of any library that speaks DLPack, in host
                memory or on the method's GPU.

        Raises:
            KeyError: There is no such state.
            InvalidArgument: Another dtype or shape, or a tensor on another device.
            TypeError: ``value`` is no tensor.
        """
        self[name]
        assert self._native is not None
        if getattr(value, "requires_grad", False):
            value = value.detach()
        gpu = gpu_of(value)
        stream = None
        if gpu is not None and _runtime.callers_stream() is None:
            stream = library_of([value]).current_stream(gpu)
        self._native.write(name, value, stream)

    def reset(self) -> None:
        """Give every state its initial value.

        Also what a call that failed while it wrote in place has lost is whole then.

        Raises:
            TensorRTError: The device failed.
        """
        if self._native is not None:
            self._native.reset()

    def _new(self) -> StateSet:
        return StateSet(None if self._native is None else self._native.create())

    def __repr__(self) -> str:
        return f"StateSet({', '.join(self._infos)})"


def _native(state: StateSet | None) -> _runtime.StateSet | None:
    """The native set of a caller's; TypeError for anything else."""
    if state is None:
        return None
    if not isinstance(state, StateSet):
        raise TypeError(f"state must be a StateSet or None, not {state!r}")
    return state._native


class state(ThreadScope):
    """While it is entered, calls on this thread are on that :class:`StateSet`.

    It must be of the method that is called, or of one that shares its state
    (``RuntimeOptions(share_state=True)``); other methods with states refuse to run, those without
    do not mind. ``None``: each method's own, inside an outer one. Like
    :class:`optimization_profile` it nests, belongs to its thread, and must not be held across an
    ``await``; use ``Method(..., state=...)`` there.

    Raises:
        TypeError: ``state`` is no :class:`StateSet`.
        RuntimeError: Left on another thread than it was entered on, or entered twice.
    """

    def __init__(self, state: StateSet | None) -> None:
        super().__init__(functools.partial(_runtime.guard_state, _native(state)))
