"""The delegate blob in Python: what it refuses to write and to read."""

from __future__ import annotations

import hashlib
import random
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from raw_blob import ENGINE, metadata_of, minor_of, plain_blob, seal

from executorch_tensorrt.backend.delegate_blob import (
    Binding,
    BlobError,
    DelegateBlob,
    Profile,
    ScalarType,
    ShapeRange,
    max_bytes,
)

DATA = Path(__file__).parent / "data"
X = Binding("x", ScalarType.FLOAT32, True, 0, (-1, 4), 8 * 4 * 4)
Y = Binding("y", ScalarType.FLOAT32, False, 1, (-1, 4), 8 * 4 * 4)
SMALL = ShapeRange((1, 4), (1, 4), (2, 4))
LARGE = ShapeRange((2, 4), (4, 4), (8, 4))
BLOB = plain_blob(
    compute_capability=(8, 9),
    bindings=(X, Y),
    profiles=(Profile("small", 0, (SMALL,)), Profile("large", 1, (LARGE,))),
    build_options={"optimization_level": "3"},
)


def assert_refused(data: bytes) -> None:
    with pytest.raises(BlobError):
        DelegateBlob.from_bytes(data)


each_golden = pytest.mark.parametrize(
    "golden",
    [pytest.param(path.read_bytes(), id=path.stem) for path in sorted(DATA.glob("*.blob"))],
)


def test_what_is_written_is_what_is_read() -> None:
    blob = replace(BLOB, fallback=b"a program")
    data = blob.to_bytes()
    assert DelegateBlob.from_bytes(data) == blob
    assert data == replace(blob).to_bytes()


def test_the_bytes_are_those_of_the_format_description() -> None:
    blob = replace(
        BLOB,
        bindings=(Binding("é", ScalarType.BOOL, True, 0, (2,), 2, is_shape_tensor=True),),
        num_arguments=1,
        profiles=(Profile("p", 0, (ShapeRange((2,), (2,), (2,)),)),),
        build_options={"k": ""},
        fallback=b"pte",
    )
    metadata = b"".join(
        (
            b"\x01\0\x01\0" + b"\x09\0\0\0\0\0\0\0" + b"\x03\0\0\0\0\0\0\0",
            hashlib.sha256(ENGINE).digest(),
            b"\x02\x01\0\0\0\x06\0\0\0\x01\0\0\0\x78\0\0\0\x08\0\0\0\x09\0\0\0\0\0",
            b"\x01\0\0\0",
            b"\x01\0\0\0" + b"\x02\0\0\0\xc3\xa9" + b"\x0b\0\x01" + b"\0\0\0\0",
            b"\x01\0\0\0\x02\0\0\0\0\0\0\0" + b"\x02\0\0\0\0\0\0\0",
            b"\x01\0\0\0" + b"\x01\0\0\0p" + b"\0\0\0\0" + b"\x01\0\0\0",
            b"\x01\0\0\0\x02\0\0\0\0\0\0\0" * 3,
            b"\0\0\0\0",
            b"\x01\0\0\0" + b"\x01\0\0\0k" + b"\0\0\0\0",
            b"\0\0\0\0" + b"\0\0\0\0",
        )
    )
    header = b"ETRT\x01\0\x01\0\x40\0\0\0" + zlib.crc32(metadata).to_bytes(4, "little")
    for offset, size in ((64, len(metadata)), (512, 9), (768, 3)):
        header += offset.to_bytes(8, "little") + size.to_bytes(8, "little")
    expected = (header + metadata).ljust(512, b"\0") + ENGINE.ljust(256, b"\0") + b"pte"
    assert blob.to_bytes() == expected
    assert replace(blob, engine_id=b"").to_bytes() == expected  # the id is computed


def test_engine_and_fallback_are_read_without_a_copy() -> None:
    data = bytearray(replace(BLOB, fallback=b"a program").to_bytes())
    blob = DelegateBlob.from_bytes(data)
    assert isinstance(blob.engine, memoryview)
    assert isinstance(blob.fallback, memoryview)
    data[-1] = ord("M")
    data[data.rindex(ENGINE)] = ord("A")
    assert bytes(blob.engine) == b"An engine"
    assert bytes(blob.fallback) == b"a prograM"


@pytest.mark.parametrize(
    ("dtype", "bounds", "expected"),
    [
        (ScalarType.FLOAT16, [(1, 512), (8, 1)], 8 * 512 * 2),
        (ScalarType.INT64, [()], 8),
        (ScalarType.BOOL, [(0, 7)], 0),
        (ScalarType.FLOAT64, [(2, 3)], 48),
    ],
)
def test_max_bytes_takes_the_largest_of_every_dim(
    dtype: ScalarType, bounds: list[tuple[int, ...]], expected: int
) -> None:
    assert max_bytes(dtype, bounds) == expected


def change_x(**changes: Any) -> DelegateBlob:
    return replace(BLOB, bindings=(replace(X, **changes), Y))


def change_y(**changes: Any) -> DelegateBlob:
    return replace(BLOB, bindings=(X, replace(Y, **changes)))


def change_large(**changes: Any) -> DelegateBlob:
    return replace(BLOB, profiles=(BLOB.profiles[0], replace(BLOB.profiles[1], **changes)))


def large_range(low: tuple[int, ...], opt: tuple[int, ...], high: tuple[int, ...]) -> DelegateBlob:
    return change_large(inputs=(ShapeRange(low, opt, high),))


NOT_WRITTEN: dict[str, tuple[DelegateBlob, str]] = {
    "empty engine": (replace(BLOB, engine=b""), "engine is empty"),
    "empty fallback": (replace(BLOB, fallback=b""), "fallback is empty"),
    "another engine's id": (replace(BLOB, engine=b"another"), "engine id is not the SHA-256"),
    "short engine id": (replace(BLOB, engine_id=b"1"), "engine id has 1 bytes, not 32"),
    "no id of an engine outside": (
        replace(BLOB, engine=b"", external_engine_bytes=5, engine_id=b""),
        "engine id has 0 bytes, not 32",
    ),
    "unknown flavour": (replace(BLOB, flavour=3), "flavour 3"),  # type: ignore[arg-type]
    "three-part version": (replace(BLOB, version=(1, 6, 1)), "TensorRT version (1, 6, 1)"),  # type: ignore[arg-type]
    "negative version": (replace(BLOB, version=(1, 6, 1, -1)), "TensorRT version -1"),
    "compute capability": (
        replace(BLOB, compute_capability=(9,)),  # type: ignore[arg-type]
        "compute capability (9,)",
    ),
    "plain code as dtype": (change_x(dtype=6), "binding 0 'x' dtype 6"),
    "rank over 8": (change_x(dims=(1,) * 9), "binding 0 'x' rank 9"),
    "dim below -1": (change_x(dims=(-2, 4)), "binding 0 'x' dim 0 is -2"),
    "argument beyond the count": (change_y(argument=2), "binding 1 'y' argument 2"),
    "negative argument": (change_x(argument=-1), "binding 'x' argument -1"),
    "two bindings on one argument": (change_y(argument=0), "argument 0 does not ascend from 0"),
    "output before input": (
        replace(BLOB, bindings=(replace(Y, argument=0), replace(X, argument=1))),
        "binding 1 'x' is an input after an output",
    ),
    "repeated binding name": (change_y(name="x"), "binding 1 name 'x' is there twice"),
    "empty binding name": (change_x(name=""), "binding 0 name has 0 bytes"),
    "name over 256 bytes": (change_x(name="é" * 129), "binding 0 name has 258 bytes"),
    "NUL in a name": (change_x(name="x\0"), "holds a NUL"),
    "lone surrogate in a name": (change_x(name="\udc80"), "is not valid text"),
    "no profile": (replace(BLOB, profiles=()), "profiles are none"),
    "repeated profile name": (change_large(name="small"), "profile 1 name 'small' is there twice"),
    "too few ranges": (change_large(inputs=()), "profile 'large' has 0 input ranges for 1 inputs"),
    "rank unlike the binding's": (large_range((2,), (4,), (8,)), "input 'x' has rank 1"),
    "min over opt": (large_range((5, 4), (4, 4), (8, 4)), "input 'x' dim 0 is min 5, opt 4, max 8"),
    "opt over max": (large_range((2, 4), (9, 4), (8, 4)), "dim 0 is min 2, opt 9, max 8"),
    "negative min": (large_range((-1, 4), (4, 4), (8, 4)), "dim 0 is min -1"),
    "range of a static dim": (
        large_range((2, 3), (4, 4), (8, 4)),
        "dim 1 is 3..4, but it is static",
    ),
    "engine profile gap": (change_large(engine_profile=2), "engine profile 2 leaves a gap"),
    "negative engine profile": (change_large(engine_profile=-1), "engine profile -1 leaves a gap"),
    "different ranges, one engine profile": (
        change_large(engine_profile=0),
        "profile 'large' shares engine profile 0 with 'small'",
    ),
    "input's max bytes": (change_x(max_bytes=32), "are 32, its largest shape takes 128"),
    "static output's max bytes": (
        change_y(dims=(8, 4), max_bytes=64),
        "are 64, its largest shape takes 128",
    ),
    "dynamic output's max bytes": (change_y(max_bytes=50), "are 50, not a multiple of"),
    "max bytes beyond 64 bits": (
        change_y(dims=(1 << 62, 1 << 62), max_bytes=0),
        "do not fit in 64 bits",
    ),
    "size beyond 64 bits": (
        change_y(dims=(1 << 64, 0), max_bytes=0),
        f"dims {1 << 64} does not fit its field",
    ),
    "empty option key": (replace(BLOB, build_options={"": "1"}), "build option 0 name has 0 bytes"),
    "NUL in an option": (replace(BLOB, build_options={"a": "\0"}), "build option 'a' value"),
}


@pytest.mark.parametrize(("blob", "message"), NOT_WRITTEN.values(), ids=NOT_WRITTEN.keys())
def test_the_writer_refuses_what_no_reader_would_take(blob: DelegateBlob, message: str) -> None:
    with pytest.raises(BlobError, match=re.escape(message)):
        blob.to_bytes()


@each_golden
def test_a_blob_cut_off_anywhere_is_refused(golden: bytes) -> None:
    for size in range(len(golden)):
        assert_refused(golden[:size])


@each_golden
def test_bytes_after_a_blob_are_refused(golden: bytes) -> None:
    assert_refused(golden + b"\0")


@each_golden
def test_every_change_of_a_header_byte_is_refused(golden: bytes) -> None:
    data = bytearray(golden)
    for at in range(64):
        for flip in range(1, 256):
            data[at] ^= flip
            assert_refused(data)
            data[at] ^= flip


@each_golden
def test_every_changed_byte_of_metadata_and_padding_is_refused(golden: bytes) -> None:
    data = bytearray(golden)
    engine_offset = struct.unpack_from("<Q", golden, 32)[0]
    for at in range(64, engine_offset):
        for flip in (0x01, 0x80, 0xFF):
            data[at] ^= flip
            assert_refused(data)
            data[at] ^= flip


def test_padding_before_the_fallback_must_be_zero() -> None:
    data = bytearray((DATA / "with_fallback.blob").read_bytes())
    engine_offset, engine_size, fallback_offset = struct.unpack_from("<3Q", data, 32)
    for at in range(engine_offset + engine_size, fallback_offset):
        data[at] = 1
        with pytest.raises(BlobError, match="padding is not zero"):
            DelegateBlob.from_bytes(data)
        data[at] = 0
    DelegateBlob.from_bytes(data)


@each_golden
def test_metadata_cut_off_anywhere_is_refused_with_a_right_crc_too(golden: bytes) -> None:
    metadata = metadata_of(golden)
    minor = minor_of(golden)
    newer_copy = struct.pack("<HH", 1, 2)
    for size in range(len(metadata)):
        assert_refused(seal(metadata[:size], minor=minor))
        assert_refused(seal(newer_copy + metadata[4:size], minor=2))


@each_golden
def test_damaged_metadata_with_a_right_crc_never_raises_anything_else(golden: bytes) -> None:
    metadata = metadata_of(golden)
    sections = golden[struct.unpack_from("<Q", golden, 32)[0] :]
    header = dict(
        zip(
            ("engine_size", "fallback_offset", "fallback_size"),
            struct.unpack_from("<3Q", golden, 40),
            strict=True,
        )
    )
    header["minor"] = minor_of(golden)
    assert seal(metadata, sections, **header) == golden
    source = random.Random(0)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(metadata)
        for _ in range(source.choice((1, 1, 2, 8))):
            damaged[source.randrange(20, len(damaged))] = source.choice((0, 1, 2, 9, 127, 128, 255))
        try:
            DelegateBlob.from_bytes(seal(damaged, sections, **header))
        except BlobError:
            refused += 1
    assert refused > 0


METADATA = metadata_of(BLOB.to_bytes())

WRONG_HEADERS: dict[str, tuple[dict[str, int], str]] = {
    "header bytes": ({"header_bytes": 72}, "header bytes are 72, not 64"),
    "metadata elsewhere": ({"metadata_offset": 72}, "metadata offset is 72, not 64"),
    "huge metadata": ({"metadata_size": 2**64 - 1}, "metadata of 18446744073709551615 bytes at 64"),
    "wrapping metadata": ({"metadata_size": 2**64 - 64}, "is cut off"),
    "no metadata": ({"metadata_size": 0}, "metadata is empty"),
    "engine elsewhere": ({"engine_offset": 1024}, "engine offset is 1024, not 512"),
    "no engine": ({"engine_size": 0}, "engine is empty"),
    "wrapping engine": ({"engine_size": 2**64 - 512}, "engine of 18446744073709551104 bytes"),
    "smaller engine": ({"engine_size": 8}, "size is 521 bytes, its sections end at 520"),
    "fallback without size": ({"fallback_offset": 768}, "fallback offset is 768"),
    "fallback beyond the end": ({"fallback_offset": 768, "fallback_size": 1}, "is cut off"),
    "fallback at 0": ({"fallback_size": 9}, "fallback offset is 0, not 768"),
    "another CRC": ({"crc": 1}, "the header says 00000001"),
    "minor unlike its copy": ({"minor": 0}, "minor version is 0 in the header, 1 in the metadata"),
    "older major": ({"major": 0}, "blob version 0.1; this build reads 1.x: export it again"),
}


@pytest.mark.parametrize(("fields", "message"), WRONG_HEADERS.values(), ids=WRONG_HEADERS.keys())
def test_a_header_that_does_not_fit_the_blob_is_refused(
    fields: dict[str, int], message: str
) -> None:
    DelegateBlob.from_bytes(seal(METADATA))
    with pytest.raises(BlobError, match=re.escape(message)):
        DelegateBlob.from_bytes(seal(METADATA, **fields))


def put(at: int, code: str, value: int) -> Callable[[], bytes]:
    """Metadata with another number at an offset, checked to be where the test thinks."""

    def make() -> bytes:
        data = bytearray(METADATA)
        struct.pack_into("<" + code, data, at, value)
        return bytes(data)

    return make


# Offsets into METADATA: 20 fixed bytes, the engine id, then the fields in order.
FLAVOUR, COMPATIBILITY, VERSION_COMPATIBLE, BINDINGS = 52, 77, 78, 83
X_NAME_SIZE, X_NAME, X_DTYPE, X_DIRECTION, X_FLAGS, X_RANK = 87, 91, 92, 93, 94, 99
PROFILES = BINDINGS + 4 + 2 * (4 + 1 + 3 + 4 + 4 + 16 + 8)
SMALL_RANGES = PROFILES + 4 + 4 + len("small") + 4
STATES = METADATA.index(b"optimization_level") - 12

WRONG_METADATA: dict[str, tuple[Callable[[], bytes], str]] = {
    "engine size": (put(4, "Q", 10), "engine size is 9 in the header, 10 in the metadata"),
    "fallback size": (put(12, "Q", 1), "fallback size is 0 in the header, 1 in the metadata"),
    "major version": (put(0, "H", 2), "major version is 1 in the header, 2 in the metadata"),
    "flavour": (put(FLAVOUR, "B", 3), "flavour 3 is not known"),
    "compatibility": (put(COMPATIBILITY, "B", 3), "hardware compatibility 3 is not known"),
    "truth value": (put(VERSION_COMPATIBLE, "B", 2), "version compatible is 2"),
    "binding count": (put(BINDINGS, "I", 2**32 - 1), "binding count is 4294967295"),
    "name size": (put(X_NAME_SIZE, "I", 2**32 - 1), "binding 0 name needs 4294967295 bytes"),
    "bytes that are no text": (put(X_NAME, "B", 0xFF), "binding 0 name is not valid UTF-8"),
    "dtype": (put(X_DTYPE, "B", 12), "binding 0 'x' dtype 12 is not known"),
    "direction": (put(X_DIRECTION, "B", 2), "binding 0 'x' direction is 2"),
    "flags": (put(X_FLAGS, "B", 2), "binding 0 'x' flags is 2"),
    "rank": (put(X_RANK, "I", 9), "binding 0 'x' dims rank 9 is over 8"),
    "profile count": (put(PROFILES, "I", 2**32 - 1), "profile count is 4294967295"),
    "no profile": (lambda: METADATA[:PROFILES] + bytes(20), "profiles are none"),
    "range count": (put(SMALL_RANGES, "I", 2**32 - 1), "profile 'small' input count is 4294967295"),
    "state count": (put(STATES, "I", 2**32 - 1), "state count is 4294967295"),
    "option count": (put(STATES + 4, "I", 2**32 - 1), "build option count is 4294967295"),
    "repeated option": (
        lambda: METADATA[: STATES + 4] + struct.pack("<I", 2) + 2 * METADATA[STATES + 8 : -8],
        "build option 1 name 'optimization_level' is there twice",
    ),
    "trailing byte": (lambda: METADATA + b"\0", "metadata has 1 bytes after its last field"),
}


@pytest.mark.parametrize(("make", "message"), WRONG_METADATA.values(), ids=WRONG_METADATA.keys())
def test_hostile_metadata_with_a_right_crc_is_refused(
    make: Callable[[], bytes], message: str
) -> None:
    with pytest.raises(BlobError, match=re.escape(message)):
        DelegateBlob.from_bytes(seal(make()))


def test_a_newer_minor_version_may_append_fields() -> None:
    metadata = struct.pack("<HH", 1, 3) + METADATA[4:] + b"of a later version"
    assert DelegateBlob.from_bytes(seal(metadata, minor=3)) == BLOB


def test_a_newer_major_version_is_refused_by_name() -> None:
    message = "blob version 2.5; this build reads 1.x: upgrade executorch-tensorrt"
    with pytest.raises(BlobError, match=re.escape(message)):
        DelegateBlob.from_bytes(b"ETRT\x02\0\x05\0 and whatever version 2 has in store")


def test_other_bytes_are_called_no_blob() -> None:
    with pytest.raises(BlobError, match="these bytes are no delegate blob"):
        DelegateBlob.from_bytes(b"PK\x03\x04" + bytes(200))


def test_the_module_imports_neither_torch_nor_tensorrt() -> None:
    code = (
        "import sys, executorch_tensorrt.backend.delegate_blob\n"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('torch', 'tensorrt', 'tensorrt_rtx', 'torch_tensorrt')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("blob", "text"),
    [
        (
            replace(
                BLOB, profiles=tuple(replace(BLOB.profiles[0], name=str(i)) for i in range(257))
            ),
            "profile count is 257; at most 256 may be",
        ),
        (
            replace(BLOB, build_options={str(i): "" for i in range(1025)}),
            "build option count is 1025; at most 1024 may be",
        ),
        (
            replace(BLOB, bindings=tuple(replace(X, name=str(i)) for i in range(4097))),
            "binding count is 4097; at most 4096 may be",
        ),
    ],
)
def test_more_than_a_reader_takes_is_not_written(blob: DelegateBlob, text: str) -> None:
    with pytest.raises(BlobError, match=text):
        blob.to_bytes()
