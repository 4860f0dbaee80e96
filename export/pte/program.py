"""What is in a `.pte`: methods, inputs and outputs, delegates, operators outside of them.

Fields are read by their position in ExecuTorch's schema (executorch/schema/program.fbs). What a
damaged file says wrongly becomes a fault of the program, the method or the delegate it is in.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from executorch_tensorrt.backend.delegate_blob import MAGIC, BlobError, DelegateBlob, ShapeRange
from executorch_tensorrt.backend.partition_report import (
    PARTITION_REPORT_KEY,
    MethodReport,
    Outside,
)

from .flatbuffer import FlatbufferError, Table

BACKEND = "TensorRTBackend"
WHOLE_METHOD_KEY = "whole_method"

_IDENTIFIER = b"ET12"
_HEADER = struct.Struct("<4sIQQQ")  # magic, its length, flatbuffer bytes, segments' base and bytes

DTYPES: Mapping[int, str] = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    11: "bool",
    15: "bfloat16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}

# KernelTypes of the schema.
_INT, _BOOL, _DOUBLE, _TENSOR, _STRING = 2, 3, 4, 5, 6
# InstructionArguments of the schema.
_KERNEL_CALL, _DELEGATE_CALL = 1, 2


class PteError(ValueError):
    """These bytes are no `.pte`, or one so damaged that nothing in it can be read."""


@dataclass(frozen=True)
class Value:
    """An input or output of a method.

    Attributes:
        name: Its name in the exported program, where a TensorRT delegate takes it; else "".
        kind: "tensor", "int", "bool", "float", "str" or "other".
        dtype: A tensor's element type; else "".
        shape: A tensor's sizes; of a dynamic one the largest that memory is planned for.
        dynamic: Whether the sizes may be smaller.
        scalar: The value that the program has for a number.
        ranges: By profile, the shapes that the delegate taking it may get.
    """

    name: str
    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dynamic: bool = False
    scalar: int | float | bool | None = None
    ranges: Mapping[str, ShapeRange] = field(default_factory=dict)


@dataclass(frozen=True)
class Delegate:
    """One delegate of a method.

    Attributes:
        backend: The backend's id.
        size: Bytes of what the backend gets.
        compile_specs: Key -> value.
        blob: What is in it, for a TensorRT delegate that is whole.
        arguments: Positions of its arguments among the method's values, of its first call.
        fault: What is wrong with it, or "".
    """

    backend: str
    size: int
    compile_specs: Mapping[str, bytes]
    blob: DelegateBlob | None
    arguments: tuple[int, ...]
    fault: str = ""

    @property
    def whole_method(self) -> bool:
        """Whether the method is this delegate alone."""
        return WHOLE_METHOD_KEY in self.compile_specs


@dataclass(frozen=True)
class Method:
    """One method: what it takes, gives, hands to delegates and does on the CPU itself.

    Attributes:
        operators: Operators that run outside delegates -> how many calls of each.
        planned_bytes: Bytes of memory planned for its tensors.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    delegates: tuple[Delegate, ...]
    operators: Mapping[str, int]
    planned_bytes: int
    faults: tuple[str, ...] = ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of its optimization profiles, in declared order."""
        blobs = [delegate.blob for delegate in self.delegates if delegate.blob is not None]
        return tuple(profile.name for profile in blobs[0].profiles) if blobs else ()

    @cached_property
    def report(self) -> MethodReport:
        """What the partitioner wrote down; without that, what is outside and no reasons."""
        for delegate in self.delegates:
            if delegate.backend == BACKEND and PARTITION_REPORT_KEY in delegate.compile_specs:
                try:
                    return MethodReport.from_json(delegate.compile_specs[PARTITION_REPORT_KEY])
                except ValueError:
                    break
        outside = [Outside(name, "", ("",) * count) for name, count in self.operators.items()]
        return MethodReport(partitions=(), outside=tuple(outside))

    @property
    def has_report(self) -> bool:
        """Whether a report was written down and can be read."""
        return bool(self.report.partitions)


@dataclass(frozen=True)
class Program:
    """A `.pte`.

    Attributes:
        size: Bytes of the file.
        version: The schema's version.
        constant_bytes: Bytes of constants outside delegates.
        named_data: Keys of named data, such as weights that delegates share.
    """

    size: int
    version: int
    methods: tuple[Method, ...]
    constant_bytes: int
    named_data: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def all_faults(self) -> list[str]:
        """Everything that is wrong, with where."""
        found = list(self.faults)
        for method in self.methods:
            found += [f"method '{method.name}': {fault}" for fault in method.faults]
            found += [
                f"method '{method.name}', delegate {index}: {delegate.fault}"
                for index, delegate in enumerate(method.delegates)
                if delegate.fault
            ]
        return found


def read_program(data: bytes | memoryview) -> Program:
    """Reads a `.pte`.

    Raises:
        PteError: The bytes are no `.pte`, or nothing in it can be read.
    """
    view = memoryview(data).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != _IDENTIFIER:
        what = "is empty" if not len(view) else f"has {bytes(view[4:8])!r} at byte 4, not b'ET12'"
        raise PteError(f"this is no ExecuTorch program: it {what}")
    try:
        return _Reader(view).program()
    except FlatbufferError as error:
        raise PteError(f"this ExecuTorch program is damaged or cut off: {error}") from error


class _Reader:
    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._faults: list[str] = []
        self._read: dict[tuple[int, int], tuple[int, DelegateBlob | None, str]] = {}
        self._base, flatbuffer_bytes = 0, len(view)
        if len(view) >= 8 + _HEADER.size and bytes(view[8:12]) == b"eh00":
            _, length, flatbuffer_bytes, self._base, segment_bytes = _HEADER.unpack_from(view, 8)
            end = max(flatbuffer_bytes, self._base + segment_bytes if length >= 32 else 0)
            if end > len(view):
                self._faults.append(f"it is cut off: {len(view)} of {end} bytes are there")
        self._root = Table.root(view[: min(flatbuffer_bytes, len(view))])

    def program(self) -> Program:
        root = self._root
        self._segments = [(s.integer(0, "Q"), s.integer(1, "Q")) for s in root.tables(4)]
        self._inline = root.tables(3)
        for index, (offset, size) in enumerate(self._segments):
            if self._base + offset + size > len(self._view):
                self._faults.append(f"segment {index} of {size} bytes is cut off")
        constant = root.table(5)
        constants = sum(len(buffer.view(0)) for buffer in root.tables(2))
        if constant is not None and constant.numbers(1, "Q"):
            constants += self._segment_size(constant.integer(0, "I"))
        return Program(
            size=len(self._view),
            version=root.integer(0, "I"),
            methods=tuple(self._method(plan) for plan in root.tables(1)),
            constant_bytes=constants,
            named_data=tuple(item.text(0) for item in root.tables(7)),
            faults=tuple(self._faults),
        )

    def _segment_size(self, index: int) -> int:
        return self._segments[index][1] if index < len(self._segments) else 0

    def _method(self, plan: Table) -> Method:
        name, faults = plan.text(0), []
        operators: Counter[str] = Counter()
        calls: dict[int, tuple[int, ...]] = {}
        try:
            operators, calls = _calls(plan)
        except FlatbufferError as error:
            faults.append(f"its instructions are damaged: {error}")
        delegates = []
        for index, item in enumerate(plan.tables(7)):
            delegates.append(self._delegate(item, calls.get(index, ())))
        values: list[Table] = []
        try:
            values = plan.tables(2)
        except FlatbufferError as error:
            faults.append(f"its values are damaged: {error}")
        sides: list[tuple[Value, ...]] = []
        for what, position in (("inputs", 3), ("outputs", 4)):
            try:
                indices = plan.numbers(position, "i")
                sides.append(tuple(_value(values, index, delegates) for index in indices))
            except FlatbufferError as error:
                sides.append(())
                faults.append(f"its {what} are damaged: {error}")
        planned = sum(plan.numbers(8, "q"))
        return Method(name, sides[0], sides[1], tuple(delegates), operators, planned, tuple(faults))

    def _delegate(self, item: Table, arguments: tuple[int, ...]) -> Delegate:
        backend = item.text(0)
        specs: dict[str, bytes] = {}
        size, blob, fault = 0, None, ""
        try:
            specs = {spec.text(0): spec.copy(1) for spec in item.tables(2)}
            reference = item.table(1)
            if reference is not None:
                key = (reference.integer(0, "b"), reference.integer(1, "I"))
                if key not in self._read:  # delegates whose data are the same share them
                    self._read[key] = self._contents(*key)
                size, blob, fault = self._read[key]
        except FlatbufferError as error:
            fault = str(error)
        if backend != BACKEND:
            blob = None
        elif blob is None and not fault:
            fault = f"its {size} bytes are no delegate blob"
        return Delegate(backend, size, specs, blob, arguments, fault)

    def _contents(self, location: int, index: int) -> tuple[int, DelegateBlob | None, str]:
        data = self._processed(location, index)
        if bytes(data[:4]) != MAGIC:
            return len(data), None, ""
        return len(data), *_read_blob(data)

    def _processed(self, location: int, index: int) -> memoryview:
        entries = len(self._segments) if location else len(self._inline)
        if index >= entries:
            raise FlatbufferError(f"its data are number {index} of {entries}")
        if not location:
            return self._inline[index].view(0)
        offset, size = self._segments[index]
        start = self._base + offset
        if start + size > len(self._view):
            raise FlatbufferError(f"its {size} bytes at {start} are cut off")
        return self._view[start : start + size]


def _read_blob(data: memoryview) -> tuple[DelegateBlob | None, str]:
    try:
        blob = DelegateBlob.from_bytes(data)
    except BlobError as error:
        return None, str(error)
    if blob.engine and hashlib.sha256(blob.engine).digest() != blob.engine_id:
        return blob, "its engine is damaged: its SHA-256 is not the engine id"
    if blob.fallback is not None:
        try:
            read_program(memoryview(blob.fallback))
        except PteError as error:
            return blob, f"its CPU fallback is damaged: {error}"
    return blob, ""


def _calls(plan: Table) -> tuple[Counter[str], dict[int, tuple[int, ...]]]:
    """Operators called outside delegates, with counts; and each delegate's arguments."""
    names = [f"{op.text(0)}.{op.text(1)}" if op.text(1) else op.text(0) for op in plan.tables(6)]
    operators: Counter[str] = Counter()
    calls: dict[int, tuple[int, ...]] = {}
    for chain in plan.tables(5):
        for instruction in chain.tables(2):
            kind, call = instruction.integer(0, "B"), instruction.table(1)
            if call is None or kind not in (_KERNEL_CALL, _DELEGATE_CALL):
                continue
            index = call.integer(0, "i")
            if kind == _DELEGATE_CALL:
                calls.setdefault(index, call.numbers(1, "i"))
            else:
                known = 0 <= index < len(names)
                operators[names[index] if known else f"operator {index}, which is not there"] += 1
    return operators, calls


def _value(values: list[Table], index: int, delegates: list[Delegate]) -> Value:
    if not 0 <= index < len(values):
        raise FlatbufferError(f"value {index} of {len(values)}")
    kind, contents = values[index].integer(0, "B"), values[index].table(1)
    name, ranges = _binding(index, delegates)
    if contents is None:
        return Value(name, "other")
    if kind == _TENSOR:
        code = contents.integer(0, "b")
        return Value(
            name,
            "tensor",
            dtype=DTYPES.get(code, f"dtype {code}"),
            shape=contents.numbers(2, "i"),
            dynamic=contents.integer(8, "b") != 0,
            ranges=ranges,
        )
    if kind == _INT:
        return Value(name, "int", scalar=contents.integer(0, "q"))
    if kind == _BOOL:
        return Value(name, "bool", scalar=bool(contents.integer(0, "B")))
    if kind == _DOUBLE:
        return Value(name, "float", scalar=contents.floating(0))
    return Value(name, "str" if kind == _STRING else "other")


def _binding(index: int, delegates: list[Delegate]) -> tuple[str, Mapping[str, ShapeRange]]:
    """Name and ranges that a delegate has for a value of the method."""
    for delegate in delegates:
        if delegate.blob is None:
            continue
        inputs = [binding for binding in delegate.blob.bindings if binding.is_input]
        for binding in delegate.blob.bindings:
            if binding.argument >= len(delegate.arguments):
                continue
            if delegate.arguments[binding.argument] != index:
                continue
            if not binding.is_input:
                return binding.name, {}
            position = inputs.index(binding)
            return binding.name, {
                profile.name: profile.inputs[position] for profile in delegate.blob.profiles
            }
    return "", {}
