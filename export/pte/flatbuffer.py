"""A reader of flatbuffers that trusts no offset in them."""

from __future__ import annotations

import struct


class FlatbufferError(ValueError):
    """An offset or a size in a flatbuffer leads outside of it."""


class _Budget:
    """Tables and elements that may still be read: no honest file has more of them than bytes.

    Without it a small file whose vectors all point at each other could be read for hours.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise FlatbufferError("its parts point at each other over and over")


class Table:
    """A table at an offset of a buffer; its fields by their position in the schema.

    A field that is absent, or null, reads as its default: 0, "", (), None.

    Raises:
        FlatbufferError: From each method, where it leads outside the buffer.
    """

    def __init__(self, data: memoryview, at: int, budget: _Budget) -> None:
        budget.spend(1)
        self._data, self._at, self._budget = data, at, budget
        vtable = at - self._unpack("i", at)
        size = self._unpack("H", vtable)
        if size < 4 or size % 2:
            raise FlatbufferError(f"a table at byte {at} has a list of fields of {size} bytes")
        self._vtable, self._fields = vtable, (size - 4) // 2

    @staticmethod
    def root(data: memoryview) -> Table:
        """The table that a buffer begins with."""
        budget = _Budget(len(data))
        if len(data) < 8:
            raise FlatbufferError(f"{len(data)} bytes are no flatbuffer")
        return Table(data, struct.unpack_from("<I", data, 0)[0], budget)

    def integer(self, field: int, code: str, default: int = 0) -> int:
        """A number, in struct's format `code`."""
        at = self._field(field)
        return default if at is None else int(self._unpack(code, at))

    def floating(self, field: int) -> float:
        """A double."""
        at = self._field(field)
        return 0.0 if at is None else float(self._unpack("d", at))

    def table(self, field: int) -> Table | None:
        """A table that the field refers to."""
        at = self._field(field)
        return None if at is None else self._table_at(at)

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        start, count = self._vector(field, 4)
        return [self._table_at(start + 4 * index) for index in range(count)]

    def numbers(self, field: int, code: str) -> tuple[int, ...]:
        """A vector of numbers, each in struct's format `code`."""
        width = struct.calcsize("<" + code)
        start, count = self._vector(field, width)
        self._budget.spend(count)
        return struct.unpack_from(f"<{count}{code}", self._data, start)

    def view(self, field: int) -> memoryview:
        """A vector of bytes, in place."""
        start, count = self._vector(field, 1)
        return self._data[start : start + count]

    def copy(self, field: int) -> bytes:
        """A vector of bytes, as a copy."""
        contents = self.view(field)
        self._budget.spend(len(contents))
        return bytes(contents)

    def text(self, field: int) -> str:
        """A string; what is no UTF-8 in it is shown as escapes."""
        return str(self.copy(field), "utf-8", "backslashreplace")

    def _field(self, field: int) -> int | None:
        if field >= self._fields:
            return None
        offset = self._unpack("H", self._vtable + 4 + 2 * field)
        return None if offset == 0 else self._at + offset

    def _table_at(self, at: int) -> Table:
        return Table(self._data, at + self._unpack("I", at), self._budget)

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        at = self._field(field)
        if at is None:
            return 0, 0
        start = at + self._unpack("I", at)
        count = self._unpack("I", start)
        if start + 4 + count * width > len(self._data):
            raise FlatbufferError(f"{count} elements at byte {start} of {len(self._data)} bytes")
        return start + 4, count

    def _unpack(self, code: str, at: int) -> int:
        size = struct.calcsize("<" + code)
        if at < 0 or at + size > len(self._data):
            raise FlatbufferError(f"byte {at} is not in the {len(self._data)} bytes")
        value: int = struct.unpack_from("<" + code, self._data, at)[0]
        return value
