"""What a delegate blob is made of: bindings, profiles and the enumerations in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NoReturn, TypeAlias

MAX_RANK = 8
MAX_NAME_BYTES = 256
# What a list takes in memory is many times what it takes in the blob, so the lists are bounded.
MAX_BINDINGS = 4096
MAX_PROFILES = 256
MAX_BUILD_OPTIONS = 1024
MAX_STATES = 4096
MAX_INDEX_CHECKS = 4096

Shape: TypeAlias = tuple[int, ...]
Buffer: TypeAlias = bytes | bytearray | memoryview


class BlobError(ValueError):
    """These bytes are not a whole, consistent delegate blob, or this description makes none."""


def refuse(what: str, why: str) -> NoReturn:
    """Raises BlobError, naming the field."""
    raise BlobError(f"delegate blob: {what} {why}")


class ScalarType(IntEnum):
    """Element types a binding may have, by their code in ExecuTorch's ScalarType."""

    UINT8 = 0
    INT8 = 1
    INT32 = 3
    INT64 = 4
    FLOAT16 = 5
    FLOAT32 = 6
    FLOAT64 = 7
    BOOL = 11
    BFLOAT16 = 15

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEM_BYTES[self]

    def __str__(self) -> str:
        return self.name.lower()


_ITEM_BYTES = {
    ScalarType.UINT8: 1,
    ScalarType.INT8: 1,
    ScalarType.INT32: 4,
    ScalarType.INT64: 8,
    ScalarType.FLOAT16: 2,
    ScalarType.FLOAT32: 4,
    ScalarType.FLOAT64: 8,
    ScalarType.BOOL: 1,
    ScalarType.BFLOAT16: 2,
}


class Flavour(IntEnum):
    """The TensorRT that built the engine, and the only one that can run it."""

    TENSORRT = 1
    TENSORRT_RTX = 2

    def __str__(self) -> str:
        return "TensorRT" if self is Flavour.TENSORRT else "TensorRT-RTX"


class HardwareCompatibility(IntEnum):
    """TensorRT's hardware compatibility level of the engine."""

    NONE = 0
    AMPERE_PLUS = 1
    SAME_COMPUTE_CAPABILITY = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class ShapeRange:
    """What one input's shape may be under one profile; static dims are equal in all three."""

    min: Shape
    opt: Shape
    max: Shape


@dataclass(frozen=True)
class Profile:
    """One named optimization profile, as this delegate sees it.

    Attributes:
        name: Unique in the blob; the same list of names stands in every delegate of a method.
        engine_profile: Index of the engine's profile. Names with the same ranges may share one.
        inputs: One range for each input binding, in the bindings' order.
    """

    name: str
    engine_profile: int
    inputs: tuple[ShapeRange, ...]


@dataclass(frozen=True)
class Binding:
    """One tensor of the engine.

    Attributes:
        name: The engine's name for it, unique in the blob.
        dtype: Element type.
        is_input: Whether the engine reads it; it writes it otherwise.
        argument: Position among the delegate call's arguments (inputs, then outputs).
        dims: Size of each dim, -1 where dynamic.
        max_bytes: Bytes it takes at its upper bound over all profiles; see `max_bytes`.
        is_shape_tensor: Whether its values shape other tensors; the runtime keeps it on the host.
    """

    name: str
    dtype: ScalarType
    is_input: bool
    argument: int
    dims: Shape
    max_bytes: int
    is_shape_tensor: bool = False


class StateMode(IntEnum):
    """Where the engine writes a state's new value."""

    PING_PONG = 0  # into other memory than it reads the old value from
    ALIAS = 1  # to where the old value lies, in place

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True)
class State:
    """A mutable buffer that the delegate owns: an input and an output that no caller passes.

    Attributes:
        name: Fully qualified name of the buffer in the module, unique in the blob.
        dtype: Element type.
        shape: Its shape, which is static.
        input: The engine's tensor that holds the old value.
        output: The engine's tensor that takes the new value.
        mode: Whether the two lie in the same memory.
        initial: The first value, row-major; None: zeros.
    """

    name: str
    dtype: ScalarType
    shape: Shape
    input: str
    output: str
    mode: StateMode
    initial: Buffer | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of its value."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class IndexCheck:
    """What must hold of an input's values, the positions of a write, before the engine runs.

    Attributes:
        binding: The input's place among the bindings; its dtype is int32 or int64.
        least: No value is less.
        greatest: No value is greater; with `extent`, no value + size - 1 is.
        state: Name of a state that the write goes to, for the message.
        extent: Place among the bindings and dim of an input, whose size in a call is that of the
            write. None: values are single positions.
        contiguous: Whether the values must count up by ones, in row-major order.
    """

    binding: int
    least: int
    greatest: int
    state: str
    extent: tuple[int, int] | None = None
    contiguous: bool = False


def max_bytes(dtype: ScalarType, upper_bounds: Sequence[Sequence[int]]) -> int:
    """Bytes of a tensor whose every dim is the largest of that dim over `upper_bounds`.

    `upper_bounds` holds the tensor's largest shape under each profile, all of one rank. This is the
    value that `Binding.max_bytes` must have for an input.
    """
    elements: int = math.prod(max(sizes) for sizes in zip(*upper_bounds, strict=True))
    return elements * dtype.itemsize
