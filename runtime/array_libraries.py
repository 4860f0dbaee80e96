"""The libraries that inputs come from and outputs go back to, found without importing any."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_DLPACK_CUDA_MANAGED = 13
_DLPACK_CUDA = (2, _DLPACK_CUDA_MANAGED)


class ArrayLibrary:
    """Any library that speaks DLPack; what it gives back has ``__dlpack__`` and a buffer."""

    # Whether outputs can be written straight into memory that the library allocated on a GPU.
    allocates_on_gpu = False

    def from_host(self, value: Any, device: int | None) -> Any:
        """Make a DLPack object in host memory one of the library's, on the GPU of that ordinal."""
        return value

    def to_host(self, value: Any) -> Any:
        """Copy one of the library's arrays from a GPU to host memory."""
        raise TypeError(
            f"a {type(value).__name__} on a GPU cannot be copied to host memory, where this method "
            "needs its inputs: give them there"
        )

    def current_stream(self, device: int) -> int:
        """Return the handle of the CUDA stream on which its arrays are ready."""
        return 0  # the legacy default stream, for which DLPack makes a producer get them ready

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """Make a GPU the library's current one while the result is entered."""
        return nullcontext()

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """Make the library work on a stream of its current GPU while the result is entered."""
        return nullcontext()

    def empty_bytes(self, nbytes: int, device: int) -> Any:
        """Allocate a flat array of uint8 on a GPU; only where ``allocates_on_gpu``."""
        raise NotImplementedError

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """Make what :meth:`empty_bytes` gave the array that was written to it.

        Where that is little of it, a copy, so that the rest is free again.
        """
        raise NotImplementedError


class NumPy(ArrayLibrary):
    """NumPy, and what is no array at all."""

    def from_host(self, value: Any, device: int | None) -> Any:
        """See :class:`ArrayLibrary`; TypeError for a dtype that NumPy does not have."""
        import numpy

        try:
            return numpy.from_dlpack(value)
        except (BufferError, RuntimeError) as error:
            raise TypeError(
                "an output has a dtype that NumPy does not have, such as bfloat16: "
                "give the inputs as torch tensors to get torch tensors back"
            ) from error


class Torch(ArrayLibrary):
    """PyTorch."""

    allocates_on_gpu = True

    def __init__(self) -> None:
        self._torch = sys.modules["torch"]

    def from_host(self, value: Any, device: int | None) -> Any:
        """See :class:`ArrayLibrary`."""
        tensor = self._torch.from_dlpack(value)
        return tensor if device is None else tensor.to(f"cuda:{device}")

    def to_host(self, value: Any) -> Any:
        """See :class:`ArrayLibrary`."""
        return value.cpu()

    def current_stream(self, device: int) -> int:
        """See :class:`ArrayLibrary`."""
        stream: int = self._torch.cuda.current_stream(device).cuda_stream
        return stream

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """See :class:`ArrayLibrary`; PyTorch exports tensors of its current GPU alone."""
        cuda = self._torch.cuda
        if cuda.current_device() == device:
            return nullcontext()
        entered: AbstractContextManager[Any] = cuda.device(device)
        return entered

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """See :class:`ArrayLibrary`."""
        cuda = self._torch.cuda
        external: AbstractContextManager[Any] = cuda.stream(cuda.ExternalStream(stream, device))
        return external

    def empty_bytes(self, nbytes: int, device: int) -> Any:
        """See :class:`ArrayLibrary`."""
        return self._torch.empty(nbytes, dtype=self._torch.uint8, device=f"cuda:{device}")

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """See :class:`ArrayLibrary`."""
        kind = getattr(self._torch, dtype)
        used = memory[: kind.itemsize * math.prod(shape)]
        if 2 * len(used) <= len(memory):
            used = used.clone()
        return used.view(kind).view(shape)


class CuPy(ArrayLibrary):
    """CuPy."""

    allocates_on_gpu = True

    def __init__(self) -> None:
        self._cupy = sys.modules["cupy"]

    def from_host(self, value: Any, device: int | None) -> Any:
        """See :class:`ArrayLibrary`."""
        import numpy

        if device is None:
            return self._cupy.asarray(numpy.from_dlpack(value))
        with self.on_device(device):
            return self._cupy.asarray(numpy.from_dlpack(value))

    def to_host(self, value: Any) -> Any:
        """See :class:`ArrayLibrary`."""
        return value.get()

    def current_stream(self, device: int) -> int:
        """See :class:`ArrayLibrary`."""
        stream: int = self._cupy.cuda.get_current_stream(device).ptr
        return stream

    def on_device(self, device: int) -> AbstractContextManager[Any]:
        """See :class:`ArrayLibrary`."""
        entered: AbstractContextManager[Any] = self._cupy.cuda.Device(device)
        return entered

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """See :class:`ArrayLibrary`."""
        external: AbstractContextManager[Any] = self._cupy.cuda.ExternalStream(stream, device)
        return external

    def empty_bytes(self, nbytes: int, device: int) -> Any:
        """See :class:`ArrayLibrary`."""
        with self.on_device(device):
            return self._cupy.empty(nbytes, dtype="uint8")

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """See :class:`ArrayLibrary`."""
        kind = self._cupy.dtype(dtype)
        used = memory[: kind.itemsize * math.prod(shape)]
        if 2 * len(used) <= len(memory):
            used = used.copy()
        return used.view(kind).reshape(shape)


class Jax(ArrayLibrary):
    """JAX, whose arrays are never written to: outputs come by way of host memory."""

    def from_host(self, value: Any, device: int | None) -> Any:
        """See :class:`ArrayLibrary`."""
        jax = sys.modules["jax"]
        array = jax.dlpack.from_dlpack(value)
        return array if device is None else jax.device_put(array, jax.devices("cuda")[device])

    def to_host(self, value: Any) -> Any:
        """See :class:`ArrayLibrary`."""
        import numpy

        return numpy.asarray(value)


_BY_MODULE: dict[str, type[ArrayLibrary]] = {
    "numpy": NumPy,
    "torch": Torch,
    "cupy": CuPy,
    "jax": Jax,
    "jaxlib": Jax,
}


@functools.cache
def _library(module: str) -> ArrayLibrary:
    return _BY_MODULE.get(module, ArrayLibrary)()


def library_of(inputs: Sequence[Any]) -> ArrayLibrary:
    """Return the library of the first array among the inputs; NumPy where there is none."""
    for value in inputs:
        if hasattr(value, "__dlpack__"):
            return _library(type(value).__module__.partition(".")[0])
    return _library("numpy")


def gpu_of(value: Any) -> int | None:
    """Return the ordinal of the GPU that an array lies on; None for host memory and non-arrays."""
    if hasattr(value, "is_cuda"):  # PyTorch's, which says it quicker than DLPack does
        return int(value.get_device()) if value.is_cuda else None
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, device = value.__dlpack_device__()
    return int(device) if int(kind) in _DLPACK_CUDA else None


def is_every_gpus(value: Any) -> bool:
    """Return whether an array on a GPU lies in managed memory, which every GPU reads in place."""
    return int(value.__dlpack_device__()[0]) == _DLPACK_CUDA_MANAGED
