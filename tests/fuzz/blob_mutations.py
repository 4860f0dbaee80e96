"""Delegate blobs, broken in many ways: most with a header and a CRC that fit what was broken."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

TESTS = Path(__file__).parents[1]
HEADER = struct.Struct("<4sHHII6Q")
NUMBERS = (0, 1, 2, 3, 8, 9, 255, 256, 257, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)
NUMBERS = (*NUMBERS, 2**63, 2**64 - 2, 2**64 - 1)
TEXTS = (b"", b"\0", b"x", b"y", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", "é".encode(), b"n" * 257)


def seeds() -> list[bytes]:
    """The golden blobs and the corpus of the fuzz targets."""
    paths = [*(TESTS / "data").glob("*.blob"), *(TESTS / "fuzz/corpus").glob("*")]
    return [path.read_bytes() for path in sorted(paths)]


@dataclass(frozen=True)
class Parts:
    """A blob's sections, and its versions."""

    major: int
    minor: int
    metadata: bytes
    engine: bytes
    fallback: bytes
    external_engine: int = 0  # its size, where the engine is not in the blob

    @staticmethod
    def of(blob: bytes) -> Parts:
        """Takes a blob that is whole apart."""
        fields = HEADER.unpack_from(blob)
        sections = [
            blob[at : at + size] for at, size in zip(fields[5::2], fields[6::2], strict=True)
        ]
        external = fields[8] if fields[7] == 0 else 0
        if external:
            sections[1] = b""
        return Parts(fields[1], fields[2], *sections, external)

    def seal(self) -> bytes:
        """Puts them together under a header that fits."""
        metadata = self.metadata
        if len(metadata) >= 20:
            engine_bytes = len(self.engine) or self.external_engine
            sizes = (self.major, self.minor, engine_bytes, len(self.fallback))
            metadata = struct.pack("<HHQQ", *sizes) + metadata[20:]
        body, places = bytearray(HEADER.size), []
        for index, section in enumerate((metadata, self.engine, self.fallback)):
            if index > 0 and not section:
                places += [0, self.external_engine if index == 1 else 0]
                continue
            if index > 0:
                body += bytes(-len(body) % 256)
            places += [len(body), len(section)]
            body += section
        crc = zlib.crc32(metadata)
        HEADER.pack_into(body, 0, b"ETRT", self.major, self.minor, HEADER.size, crc, *places)
        return bytes(body)


def mutate(chance: random.Random, blobs: list[bytes]) -> bytes:
    """A broken copy of one of the blobs, sealed again in nine cases of ten."""
    blob = chance.choice(blobs)
    if chance.random() < 0.1:
        return _mutate_bytes(chance, blob, chance.choice(blobs))
    parts = Parts.of(blob)
    metadata = parts.metadata
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        metadata = _mutate_bytes(chance, metadata, Parts.of(chance.choice(blobs)).metadata)
    if chance.random() < 0.05:
        parts = replace(parts, engine=b"", external_engine=chance.choice(NUMBERS))
    minor = chance.choice((0, 1, 2)) if chance.random() < 0.05 else parts.minor
    return replace(parts, metadata=metadata, minor=minor).seal()


def _mutate_bytes(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """One change: a byte, a number or a text written over, bytes put in, taken out or repeated."""
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(7)
    if kind == 0:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if kind <= 2:
        size = chance.choice((1, 4, 8))
        number = chance.choice(NUMBERS) % (1 << 8 * size)
        return data[:at] + number.to_bytes(size, "little") + data[at + size :]
    if kind == 3:
        text = chance.choice(TEXTS)
        return data[:at] + len(text).to_bytes(4, "little") + text + data[at:]
    end = min(len(data), at + chance.choice((1, 4, 8, 12, 40)))
    if kind == 4:
        return data[:at] + data[end:]
    if kind == 5:
        return data[:end] + data[at:end] + data[end:]
    start = chance.randrange(len(other) + 1)
    return data[:at] + other[start : start + end - at] + data[end:]
