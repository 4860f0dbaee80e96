"""Little-endian fields onto and off a delegate blob's metadata."""

from __future__ import annotations

import hashlib
import io
import struct
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import TypeVar

from .blob_types import MAX_RANK, Shape, refuse

_BLOCK_BYTES = 1 << 24

_Member = TypeVar("_Member", bound=IntEnum)


def member(kind: type[_Member], value: int, what: str) -> _Member:
    """The member of an enumeration with this value."""
    try:
        return kind(value)
    except ValueError:
        refuse(what, f"{value} is not known")


def append_hashed(out: io.BytesIO, data: memoryview) -> bytes:
    """Appends bytes and returns their SHA-256, which another thread computes meanwhile."""
    with ThreadPoolExecutor(1, "blob-hash") as pool:
        digest = pool.submit(lambda: hashlib.sha256(data).digest())
        # In blocks, as a copy holds Python's lock, which the thread needs to begin.
        for start in range(0, len(data), _BLOCK_BYTES):
            out.write(data[start : start + _BLOCK_BYTES])
    return digest.result()


class Writer:
    """Appends little-endian fields; says which field does not fit."""

    def __init__(self) -> None:
        self.data = bytearray()

    def integer(self, code: str, value: int, what: str) -> None:
        """Appends `value` in struct format `code`."""
        try:
            self.data += struct.pack("<" + code, value)
        except struct.error:
            refuse(what, f"{value!r} does not fit its field ({8 * struct.calcsize(code)} bits)")

    def text(self, value: str) -> None:
        """Appends a string with its size."""
        encoded = value.encode()
        self.integer("I", len(encoded), "text size")
        self.data += encoded

    def shape(self, value: Shape, what: str) -> None:
        """Appends a shape with its rank."""
        self.integer("I", len(value), f"{what} rank")
        for size in value:
            self.integer("q", size, what)


class Reader:
    """Takes little-endian fields off the metadata; says which field is cut off."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def remaining(self) -> int:
        """Bytes not yet taken."""
        return len(self._data) - self._at

    def take(self, size: int, what: str) -> memoryview:
        """The next `size` bytes."""
        if size > self.remaining():
            refuse(what, f"needs {size} bytes, {self.remaining()} remain of the metadata")
        self._at += size
        return self._data[self._at - size : self._at]

    def integer(self, code: str, what: str) -> int:
        """An integer in struct format `code`."""
        value: int = struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0]
        return value

    def choice(self, code: str, limit: int, what: str) -> int:
        """An integer below `limit`."""
        value = self.integer(code, what)
        if value >= limit:
            refuse(what, f"is {value}, it must be below {limit}")
        return value

    def count(self, item_bytes: int, most: int, what: str) -> int:
        """A list's count, refused if over `most` or if so many items cannot be there."""
        count = self.integer("I", what)
        if count > most:
            refuse(what, f"is {count}; at most {most} may be")
        if count * item_bytes > self.remaining():
            refuse(what, f"is {count}, {self.remaining()} bytes remain of the metadata")
        return count

    def text(self, what: str) -> str:
        """A string, after its size."""
        encoded = self.take(self.integer("I", what), what)
        try:
            return str(encoded, "utf-8")
        except UnicodeDecodeError:
            refuse(what, "is not valid UTF-8")

    def shape(self, what: str) -> Shape:
        """A shape, after its rank."""
        rank = self.integer("I", f"{what} rank")
        if rank > MAX_RANK:
            refuse(f"{what} rank", f"{rank} is over {MAX_RANK}")
        return tuple(self.integer("q", what) for _ in range(rank))
