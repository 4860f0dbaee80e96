"""Delegate blobs of few fields, and put together by hand, to be wrong where a test wants it."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

from executorch_tensorrt.backend.delegate_blob import (
    DelegateBlob,
    Flavour,
    HardwareCompatibility,
    Profile,
)

ENGINE = b"an engine"


def plain_blob(engine: bytes = ENGINE, **fields: Any) -> DelegateBlob:
    """A blob of TensorRT-RTX for any GPU, with these fields: without bindings, one profile."""
    plain: dict[str, Any] = {
        "engine_id": hashlib.sha256(engine).digest(),
        "flavour": Flavour.TENSORRT_RTX,
        "version": (1, 6, 1, 120),
        "compute_capability": (0, 0),
        "hardware_compatibility": HardwareCompatibility.NONE,
        "version_compatible": False,
        "num_arguments": len(fields.get("bindings", ())),
        "bindings": (),
        "profiles": (Profile("default", 0, ()),),
        "build_options": {},
        "engine": engine,
    }
    return DelegateBlob(**(plain | fields))


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
