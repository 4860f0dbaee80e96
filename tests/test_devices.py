"""On which GPU a call works, as far as that needs none: over a stand-in for the native method."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from executorch_tensorrt.runtime import InvalidArgument, array_libraries
from executorch_tensorrt.runtime.program import Method

CUDA, CUDA_MANAGED = 2, 13  # DLPack's kinds of devices


class Array:
    """An array on a GPU, of a library that keeps one GPU current, as PyTorch and CuPy do."""

    def __init__(self, gpu: int, kind: int = CUDA) -> None:
        self.gpu, self.kind = gpu, kind

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("the stand-in reads no arrays")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.gpu


class Library(array_libraries.ArrayLibrary):
    """Notes what it is asked for, with the GPU that is current then."""

    allocates_on_gpu = True

    def __init__(self) -> None:
        self.current = 0
        self.asked: list[tuple[str, int, int]] = []  # what, for which GPU, the current one

    @contextlib.contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        before, self.current = self.current, device
        try:
            yield
        finally:
            self.current = before

    def current_stream(self, device: int) -> int:
        self.asked.append(("stream", device, self.current))
        return 7000 + device

    def empty_bytes(self, nbytes: int, device: int) -> Any:
        self.asked.append(("memory", device, self.current))
        return Array(device)

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        self.asked.append(("view", memory.gpu, self.current))
        return memory

    def to_host(self, value: Any) -> Any:
        return np.zeros(1)

    def from_host(self, value: Any, device: int | None) -> Any:
        return Array(-1 if device is None else device)


class NativeMethod:
    """A method with one output of 16 bytes at most, on one device."""

    placeable_bytes = (16,)

    def __init__(self, library: Library, device: str, takes_device_tensors: bool = True) -> None:
        self.library, self.device = library, device
        self.takes_device_tensors = takes_device_tensors
        self.fails = False
        self.executed: list[tuple[int | None, int]] = []  # the stream, the current GPU

    def delegates(self) -> list[Any]:
        return [SimpleNamespace(device=self.device, profiles=[("only", {})])]

    def state(self) -> None:
        """It has none."""

    def execute(
        self, inputs: list[Any], profile: object, stream: int | None, given: list[Any]
    ) -> list[Any]:
        self.executed.append((stream, self.library.current))
        if self.fails:
            raise InvalidArgument("InvalidArgument", "it was told to")
        return [("float32", (4,)) if given else np.zeros(4, dtype=np.float32)]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    library = Library()
    monkeypatch.setitem(array_libraries._BY_MODULE, __name__, lambda: library)  # type: ignore[arg-type]
    array_libraries._library.cache_clear()
    yield library
    array_libraries._library.cache_clear()


def method_on(native: NativeMethod) -> Method:
    return Method("forward", native)  # type: ignore[arg-type]


def test_a_call_works_on_the_programs_gpu_while_another_is_current(library: Library) -> None:
    native = NativeMethod(library, "cuda:1")
    (output,) = method_on(native)(Array(1))
    assert output.gpu == 1
    assert native.executed == [(7001, 1)]
    assert library.asked == [("stream", 1, 1), ("memory", 1, 1), ("view", 1, 1)]
    assert library.current == 0


def test_the_current_gpu_is_as_it_was_also_where_the_call_fails(library: Library) -> None:
    native = NativeMethod(library, "cuda:1")
    native.fails = True
    with pytest.raises(InvalidArgument, match="told to"):
        method_on(native)(Array(1))
    assert native.executed == [(7001, 1)]
    assert library.current == 0


@pytest.mark.parametrize("whole", [True, False])
def test_an_array_on_another_gpu_is_refused_with_both_before_anything_is_done(
    library: Library, whole: bool
) -> None:
    native = NativeMethod(library, "cuda:1", takes_device_tensors=whole)
    for inputs, index, gpu in (((Array(0),), 0, 0), ((Array(1), np.zeros(1), Array(2)), 2, 2)):
        with pytest.raises(
            InvalidArgument,
            match=rf"^input {index} of method 'forward' is on cuda:{gpu}; .*loaded on cuda:1",
        ):
            method_on(native)(*inputs)
    assert native.executed == []
    assert library.asked == []


def test_managed_memory_is_every_gpus(library: Library) -> None:
    native = NativeMethod(library, "cuda:1")
    (output,) = method_on(native)(Array(0, CUDA_MANAGED))
    assert output.gpu == 1
    assert native.executed == [(7001, 1)]


def test_a_program_on_the_cpu_takes_arrays_of_any_gpu_and_gives_them_back_there(
    library: Library,
) -> None:
    native = NativeMethod(library, "cpu", takes_device_tensors=False)
    for gpu in range(2):
        (output,) = method_on(native)(Array(gpu))
        assert output.gpu == gpu
    assert native.executed == [(None, 0), (None, 0)]
