"""Loaded programs and their methods."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from .array_libraries import ArrayLibrary, Torch, gpu_of, is_every_gpus, library_of
from .errors import InvalidArgument
from .native import _runtime
from .options import RuntimeOptions
from .profile_pin import check_profile
from .state_set import StateSet
from .state_set import state as select_state


def load(
    program: str | os.PathLike[str] | bytes,
    *,
    device: str | None = None,
    options: RuntimeOptions | None = None,
    methods: Sequence[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    etdump: bool = False,
    sha256: str | None = None,
) -> Program:
    """Load a ``.pte`` and its methods, engines and all, ready to execute.

    Args:
        program: The file, or its bytes.
        device: ``"cuda:N"``, or ``"cuda"`` for the GPU of ``options.device_id``; ``"cpu"`` for the
            fallback that programs exported with ``CompileOptions(cpu_fallback=True)`` carry; or
            ``None`` for that GPU where there is one that can be used, else the fallback. All that
            the program needs lives there. A program may be loaded several times, on several GPUs.
        options: How to select profiles, and more.
        methods: The methods to load; all of them by default.
        data: The ``.ptd`` file that was exported with the program, where one was, as with
            ``CompileOptions(engine_data_file=...)``. Not needed on the CPU.
        etdump: Whether each method traces its executions for ExecuTorch's developer tools; see
            :meth:`Method.etdump`.
        sha256: The SHA-256 that the whole program must have, in 64 hexadecimal digits. It is
            checked before anything of the program is parsed, and of the very bytes that are then
            loaded: a file is read to memory as a whole for it, rather than mapped. Not with
            ``data``, whose engines it would not cover.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The program does not have ``sha256``, or that is no SHA-256; nothing is loaded.
        InvalidExternalData: ``data`` is missing or not the program's; the text names the engine.
        NotFound: No TensorRT, no GPU, no fallback; the text names what to install. No such GPU:
            the text lists those that are there.
        DelegateInvalidCompatibility: The program does not fit this TensorRT or GPU, or is damaged.
        InvalidArgument: An option, ``device`` or default profile that does not fit.
        KeyError: ``methods`` names one that the program does not have.
    """
    options = RuntimeOptions() if options is None else options
    native = _open(program, data, sha256)
    names = list(native.method_names)
    options.check_methods(names)
    wanted = names if methods is None else list(methods)
    group = uuid.uuid4().hex if options.share_state else ""
    for name in wanted:
        if name not in names:
            raise KeyError(f"the program has no method {name!r}; it has {', '.join(names)}")
    return Program(
        {
            name: Method(
                name, native.load_method(name, options.for_method(name, device, group), etdump)
            )
            for name in wanted
        }
    )


def _open(
    program: str | os.PathLike[str] | bytes,
    data: str | os.PathLike[str] | None,
    sha256: str | None,
) -> _runtime.Program:
    data_path = "" if data is None else os.fspath(data)
    if sha256 is not None:
        _check_pin(sha256, data_path)
    if data is not None and not os.path.isfile(data_path):
        raise FileNotFoundError(f"no such data file: {data_path}")
    if isinstance(program, bytes):
        name = f"the program of {len(program)} bytes"
    else:
        name = path = os.fspath(program)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"no such program: {path}")
        if sha256 is None:
            return _runtime.Program.from_file(path, data_path)
        with open(path, "rb") as file:
            program = file.read()
    if sha256 is not None:
        found = hashlib.sha256(program).hexdigest()
        if found != sha256.lower():
            raise ValueError(
                f"{name} has the SHA-256 {found}, not {sha256.lower()}: it is not the program that "
                "was pinned, and nothing of it was loaded"
            )
    return _runtime.Program.from_bytes(program, data_path)


def _check_pin(sha256: str, data_path: str) -> None:
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError(f"sha256 must be 64 hexadecimal digits, not {sha256!r}")
    if data_path:
        raise ValueError(
            f"sha256 pins the program, and not the engines in {data_path}: export with the engines "
            "in the program to pin them"
        )


class Program:
    """A loaded program: a mapping from method names to :class:`Method`.

    Methods of one program may be executed on several threads at once; executions of one method take
    turns.
    """

    def __init__(self, methods: dict[str, Method]) -> None:
        self._methods = methods

    @property
    def methods(self) -> list[str]:
        """The names of the loaded methods."""
        return list(self._methods)

    def __getitem__(self, name: str) -> Method:
        try:
            return self._methods[name]
        except KeyError:
            raise KeyError(
                f"no method {name!r} is loaded; loaded are {', '.join(self._methods)}"
            ) from None

    def stats(self) -> dict[str, list[dict[str, Any]]]:
        """Return what each method's TensorRT delegates did since they were loaded.

        One dict a delegate: ``device``, ``engine``, ``executions``, ``failures``,
        ``executions_per_profile``, ``profile_changes``, ``graph_replays`` (executions that were one
        graph launch), ``graph_captures``, ``graph_misses`` (executions enqueued kernel by kernel),
        ``host_synchronizations``, ``bytes_staged`` (between host and device) and ``last_profile``.
        """
        return {name: method.stats() for name, method in self._methods.items()}

    def __repr__(self) -> str:
        return f"Program({', '.join(self._methods)})"


class Method:
    """A loaded method; call it with its inputs, get a tuple of its outputs."""

    def __init__(self, name: str, native: _runtime.Method) -> None:
        self.name = name
        self._native = native
        self._delegates = native.delegates()
        self._on_gpu = native.takes_device_tensors
        self._state = StateSet(native.state())
        # The ordinal of the GPU that the method was loaded on; None on the CPU.
        self._gpu = _gpu_of_delegates(self._delegates)
        # None where some output cannot be written to the caller's memory.
        sizes = [size for size in native.placeable_bytes if size is not None]
        self._output_bytes = sizes if len(sizes) == len(native.placeable_bytes) else None
        self._torch_calls: _runtime.TorchCalls | None = None

    def __call__(
        self, *inputs: Any, profile: str | int | None = None, state: StateSet | None = None
    ) -> tuple[Any, ...]:
        """Execute the method.

        Args:
            inputs: As the exported program takes them, flattened: tensors of any library that
                speaks DLPack (read in place where they are row-major, else copied) and Python
                numbers. Tensors on the GPU stay there where the whole method runs in TensorRT on
                it, and are copied to host memory where some of it runs on the CPU.
            profile: The optimization profile for this call, by name or index. By default what
                :func:`optimization_profile` pins, else the program's default, else by input shape.
            state: The :class:`StateSet` for this call, from :meth:`new_state`. By default what
                :class:`state` selects on this thread, else the method's own.

        Returns:
            The outputs, each owning its memory, in the library of the first tensor on a GPU among
            the inputs, else of the first tensor (PyTorch, NumPy, CuPy, JAX; for others, objects
            with ``__dlpack__``), and on its device. On a GPU they are ready when PyTorch's or
            CuPy's current stream gets there, as the outputs of those libraries' operations are.

        Raises:
            InvalidArgument: Inputs that fit no profile, or not the one asked for (the text lists
                the inputs' shapes and the ranges), or that lie on another GPU than the program;
                positions outside of the state that they are written to, which is as before then;
                a ``state`` of another method.
            TypeError: An input that is no tensor, or of a dtype that ExecuTorch does not know.
            TensorRTError: A fault of the device, the engine or the program.
        """
        if state is not None:
            with select_state(state):
                return self(*inputs, profile=profile)
        if profile is not None:
            profile = check_profile(profile)
        if self._torch_calls is not None:
            known = self._torch_calls(inputs, profile)
            if known is not None:
                return known
        values = [_detached(value) for value in inputs]
        self._check_gpus(values)
        on_gpu = next((value for value in values if gpu_of(value) is not None), None)
        if on_gpu is None:
            outputs = self._native.execute(values, profile, None, [])
            return _in_library(outputs, library_of(values), None)
        library, gpu = library_of([on_gpu]), gpu_of(on_gpu)
        if not self._on_gpu:
            values = [library_of([v]).to_host(v) if gpu_of(v) is not None else v for v in values]
            outputs = self._native.execute(values, profile, None, [])
            return _in_library(outputs, library, gpu)
        gpu = self._gpu
        assert gpu is not None
        stream = _runtime.callers_stream()
        with library.on_device(gpu):
            if stream is None:
                current = library.current_stream(gpu)
                return self._call_on_gpu(values, profile, library, gpu, current)
            # Also what the library allocates and copies on the way is ordered with the stream then.
            with library.on_stream(stream, gpu):
                return self._call_on_gpu(values, profile, library, gpu, None)

    def _call_on_gpu(
        self,
        values: list[Any],
        profile: str | int | None,
        library: ArrayLibrary,
        gpu: int,
        stream: int | None,
    ) -> tuple[Any, ...]:
        """Execute on a stream, in memory of the inputs' library where it lends some."""
        if self._output_bytes is None or not library.allocates_on_gpu:
            outputs = self._native.execute(values, profile, stream, [])
            return _in_library(outputs, library, gpu)
        memory = [library.empty_bytes(nbytes, gpu) for nbytes in self._output_bytes]
        outputs = self._native.execute(values, profile, stream, memory)
        if isinstance(library, Torch) and self._delegates[0].output_shapes_follow_inputs:
            if self._torch_calls is None:
                self._torch_calls = _runtime.TorchCalls(self._native, sys.modules["torch"])
            self._torch_calls.remember(tuple(values), outputs)
        return tuple(
            library.view(buffer, dtype, shape)
            for buffer, (dtype, shape) in zip(memory, outputs, strict=True)
        )

    def _check_gpus(self, values: list[Any]) -> None:
        """Refuse a tensor on another GPU, before anything is put on a stream of either."""
        if self._gpu is None:
            return
        for index, value in enumerate(values):
            gpu = gpu_of(value)
            if gpu not in (None, self._gpu) and not is_every_gpus(value):
                raise InvalidArgument(
                    "InvalidArgument",
                    f"input {index} of method {self.name!r} is on cuda:{gpu}; this program was "
                    f"loaded on cuda:{self._gpu}: copy it there, or load the program on cuda:{gpu}",
                )

    @property
    def state(self) -> StateSet:
        """The method's own state, which calls use that are given no other."""
        return self._state

    def new_state(self) -> StateSet:
        """Return an independent :class:`StateSet` of the method, with the initial values.

        Raises:
            MemoryAllocationFailed: There is no memory for it on the device.
        """
        return self._state._new()

    @property
    def profiles(self) -> list[str]:
        """The names of the method's optimization profiles, in declared order.

        Empty where the method has no TensorRT delegate.
        """
        return [name for name, _ in self._delegates[0].profiles] if self._delegates else []

    @property
    def last_profile(self) -> str | None:
        """The name of the profile that the last successful execution used; None before that."""
        if not self._delegates:
            return None
        last: str | None = self._delegates[-1].statistics()["last_profile"]
        return last

    def stats(self) -> list[dict[str, Any]]:
        """Return this method's part of :meth:`Program.stats`."""
        return [
            {"device": delegate.device, "engine": delegate.engine, **delegate.statistics()}
            for delegate in self._delegates
        ]

    def etdump(self) -> bytes:
        """Return the ETDump of the executions since the last call of this, or since loading.

        For ``executorch.devtools.Inspector(etdump_data=..., etrecord=...)``, which then shows for
        each operator and TensorRT delegate what it took, a delegate under its profile's name, and
        which operators of the model it consists of. A traced execution waits for its outputs, also
        on a stream of the caller's, and is kept in memory until this takes it.

        Raises:
            TensorRTError: The program was not loaded with ``etdump=True``, or nothing was executed
                since the last call of this.
        """
        return self._native.take_etdump()

    def __repr__(self) -> str:
        return f"Method({self.name!r}, profiles={self.profiles})"


def _gpu_of_delegates(delegates: Sequence[_runtime.Delegate]) -> int | None:
    for delegate in delegates:
        if delegate.device.startswith("cuda:"):
            return int(delegate.device.removeprefix("cuda:"))
    return None


def _in_library(outputs: list[Any], library: ArrayLibrary, gpu: int | None) -> tuple[Any, ...]:
    return tuple(
        library.from_host(value, gpu) if hasattr(value, "__dlpack__") else value
        for value in outputs
    )


def _detached(value: Any) -> Any:
    """A torch tensor that requires grad does not speak DLPack; its values do."""
    return value.detach() if getattr(value, "requires_grad", False) else value
