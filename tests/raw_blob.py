"""Delegate blobs put together by hand, to be wrong where a test wants them to be."""

from __future__ import annotations

import struct
import zlib

ENGINE = b"an engine"


def seal(metadata: bytes, sections: bytes = b"", *, minor: int = 1, **fields: int) -> bytes:
    """A blob with this metadata and its CRC, and with header fields as given."""
    engine_offset = -(-(64 + len(metadata)) // 256) * 256
    header = {
        "major": 1,
        "minor": minor,
        "header_bytes": 64,
        "crc": zlib.crc32(metadata),
        "metadata_offset": 64,
        "metadata_size": len(metadata),
        "engine_offset": engine_offset,
        "engine_size": len(ENGINE),
        "fallback_offset": 0,
        "fallback_size": 0,
    }
    assert fields.keys() <= header.keys()
    header.update(fields)
    packed = struct.pack("<4sHHII6Q", b"ETRT", *header.values())
    return (packed + metadata).ljust(engine_offset, b"\0") + (sections or ENGINE)


def metadata_of(blob: bytes) -> bytes:
    size = struct.unpack_from("<Q", blob, 24)[0]
    return blob[64 : 64 + size]


def minor_of(blob: bytes) -> int:
    return int.from_bytes(blob[6:8], "little")
