"""The delegate blob: one engine with its bindings and profiles, as bytes.

docs/blob_format.md describes the bytes. The C++ runtime reads the same blobs with the same checks
(runtime/cpp/src/delegate_blob.cpp). This module imports neither torch nor TensorRT.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .blob_bytes import Reader, Writer, append_hashed, member
from .blob_checks import check_contents, check_states
from .blob_state_fields import (
    read_index_check,
    read_state,
    write_index_check,
    write_state,
)
from .blob_types import (
    MAX_BINDINGS,
    MAX_BUILD_OPTIONS,
    MAX_INDEX_CHECKS,
    MAX_PROFILES,
    MAX_STATES,
    Binding,
    BlobError,
    Buffer,
    Flavour,
    HardwareCompatibility,
    IndexCheck,
    Profile,
    ScalarType,
    Shape,
    ShapeRange,
    State,
    StateMode,
    max_bytes,
    refuse,
)

__all__ = [
    "Binding",
    "BlobError",
    "DelegateBlob",
    "Flavour",
    "HardwareCompatibility",
    "IndexCheck",
    "Profile",
    "ScalarType",
    "Shape",
    "ShapeRange",
    "State",
    "StateMode",
    "engine_key",
    "max_bytes",
]

MAGIC = b"ETRT"
VERSION_MAJOR = 1
VERSION_MINOR = 1
HEADER_BYTES = 64
SECTION_ALIGNMENT = 256
EXTERNAL = 0  # an engine's offset where it lies outside the blob

_HEADER = struct.Struct("<4sHHII6Q")
_HEADER_PREFIX = struct.Struct("<4sHH")
_METADATA_PREFIX = struct.Struct("<HHQQ")
_ID_BYTES = hashlib.sha256().digest_size
_ENGINE_ID = slice(_METADATA_PREFIX.size, _METADATA_PREFIX.size + _ID_BYTES)


@dataclass(frozen=True)
class DelegateBlob:
    """A delegate blob's contents.

    Attributes:
        engine_id: SHA-256 of `engine`; b"" has `to_bytes` compute it.
        flavour: The TensorRT that built the engine.
        version: Its version: major, minor, patch, build.
        compute_capability: GPU generation the engine is tied to; (0, 0) if to none when built.
        hardware_compatibility: TensorRT's hardware compatibility level.
        version_compatible: Whether other TensorRT versions may run the engine.
        num_arguments: Number of the delegate call's arguments, inputs and outputs.
        bindings: Inputs, then outputs, by ascending argument.
        profiles: In declared order; at least one.
        build_options: What the engine was built with, for people to read.
        engine: The serialized engine; empty where it lies outside, see `external_engine_bytes`.
        fallback: An ExecuTorch program of the partition for the CPU, or None.
        external_engine_bytes: Size of an engine that is not in the blob but in the program's named
            data, under `engine_key(engine_id)`; 0: it is in the blob.
        states: Mutable buffers that the delegate owns.
        guard: The engine's output, bool of shape [1], that is true where every write of the call
            to a state was in bounds; None: no write needs it.
        index_checks: What must hold of inputs that are positions of writes to states.
    """

    engine_id: bytes
    flavour: Flavour
    version: tuple[int, int, int, int]
    compute_capability: tuple[int, int]
    hardware_compatibility: HardwareCompatibility
    version_compatible: bool
    num_arguments: int
    bindings: tuple[Binding, ...]
    profiles: tuple[Profile, ...]
    build_options: Mapping[str, str] = field(repr=False)
    engine: Buffer = field(repr=False)
    fallback: Buffer | None = field(default=None, repr=False)
    external_engine_bytes: int = 0
    states: tuple[State, ...] = ()
    guard: str | None = None
    index_checks: tuple[IndexCheck, ...] = ()

    def to_bytes(self) -> bytes:
        """The blob's bytes; the engine is copied once, into them, and its id computed meanwhile.

        Raises:
            BlobError: The contents are inconsistent, so that no reader would accept the blob.
        """
        engine = memoryview(self.engine).cast("B")
        fallback = memoryview(b"" if self.fallback is None else self.fallback).cast("B")
        self._check_sections(engine, fallback)
        _check(self)
        engine_bytes = len(engine) or self.external_engine_bytes
        metadata = _write_metadata(self, engine_bytes, len(fallback))
        metadata_end = HEADER_BYTES + len(metadata)
        engine_offset = _aligned(metadata_end) if engine else EXTERNAL
        engine_end = engine_offset + len(engine) if engine else metadata_end
        fallback_offset = _aligned(engine_end) if fallback else 0
        blob = io.BytesIO()
        if engine:
            blob.seek(engine_offset)
            engine_id = append_hashed(blob, engine)
            if self.engine_id not in (b"", engine_id):
                refuse("engine id", "is not the SHA-256 of the engine")
            metadata[_ENGINE_ID] = engine_id
        if fallback:
            blob.seek(fallback_offset)
            blob.write(fallback)
        blob.seek(0)
        blob.write(
            _HEADER.pack(
                MAGIC,
                VERSION_MAJOR,
                VERSION_MINOR,
                HEADER_BYTES,
                zlib.crc32(metadata),
                HEADER_BYTES,
                len(metadata),
                engine_offset,
                engine_bytes,
                fallback_offset,
                len(fallback),
            )
        )
        blob.write(metadata)
        return blob.getvalue()

    def _check_sections(self, engine: memoryview, fallback: memoryview) -> None:
        if self.fallback is not None and not fallback:
            refuse("fallback", "is empty; None says that there is none")
        if not engine and not self.external_engine_bytes:
            refuse("engine", "is empty")
        if engine and self.external_engine_bytes:
            refuse("engine", "is in the blob and, by external_engine_bytes, outside")
        if len(self.engine_id) != _ID_BYTES and (self.engine_id or not engine):
            refuse("engine id", f"has {len(self.engine_id)} bytes, not {_ID_BYTES}")

    @staticmethod
    def from_bytes(buffer: Buffer) -> DelegateBlob:
        """Reads a blob. `engine` and `fallback` are views into `buffer`, not copies.

        Whether the engine's bytes still have the SHA-256 `engine_id` is not checked, as that
        means reading all of them.

        Raises:
            BlobError: Not a whole, consistent blob of a version that this build reads.
        """
        blob = memoryview(buffer).cast("B")
        sections = _read_header(blob)
        contents = _read_metadata(sections)
        _check(contents)
        return contents


def engine_key(engine_id: bytes) -> str:
    """What an engine outside its blob is called in a program's named data."""
    return f"tensorrt_engine_{engine_id.hex()}"


def _check(blob: DelegateBlob) -> None:
    check_contents(blob.num_arguments, blob.bindings, blob.profiles, blob.build_options)
    check_states(blob.bindings, blob.states, blob.guard, blob.index_checks)


def _aligned(offset: int) -> int:
    return -(-offset // SECTION_ALIGNMENT) * SECTION_ALIGNMENT


# --- Writing -------------------------------------------------------------------------------------


def _write_metadata(blob: DelegateBlob, engine_bytes: int, fallback_bytes: int) -> bytearray:
    writer = Writer()
    writer.data += _METADATA_PREFIX.pack(VERSION_MAJOR, VERSION_MINOR, engine_bytes, fallback_bytes)
    writer.data += blob.engine_id or bytes(_ID_BYTES)
    writer.integer("B", member(Flavour, blob.flavour, "flavour"), "flavour")
    _write_numbers(writer, blob.version, 4, "TensorRT version")
    _write_numbers(writer, blob.compute_capability, 2, "compute capability")
    what = "hardware compatibility"
    writer.integer("B", member(HardwareCompatibility, blob.hardware_compatibility, what), what)
    writer.integer("B", int(blob.version_compatible), "version compatible")
    writer.integer("I", blob.num_arguments, "argument count")
    writer.integer("I", len(blob.bindings), "binding count")
    for binding in blob.bindings:
        what = f"binding '{binding.name}'"
        writer.text(binding.name)
        writer.integer("B", binding.dtype, f"{what} dtype")
        writer.integer("B", 0 if binding.is_input else 1, f"{what} direction")
        writer.integer("B", int(binding.is_shape_tensor), f"{what} flags")
        writer.integer("I", binding.argument, f"{what} argument")
        writer.shape(binding.dims, f"{what} dims")
        writer.integer("Q", binding.max_bytes, f"{what} max bytes")
    writer.integer("I", len(blob.profiles), "profile count")
    for profile in blob.profiles:
        what = f"profile '{profile.name}'"
        writer.text(profile.name)
        writer.integer("I", profile.engine_profile, f"{what} engine profile")
        writer.integer("I", len(profile.inputs), f"{what} input count")
        for bounds in profile.inputs:
            for bound in (bounds.min, bounds.opt, bounds.max):
                writer.shape(bound, f"{what} range")
    writer.integer("I", len(blob.states), "state count")
    for state in blob.states:
        write_state(writer, state)
    writer.integer("I", len(blob.build_options), "build option count")
    for key, value in blob.build_options.items():
        writer.text(key)
        writer.text(value)
    writer.text(blob.guard or "")
    writer.integer("I", len(blob.index_checks), "index check count")
    for check in blob.index_checks:
        write_index_check(writer, check)
    return writer.data


def _write_numbers(writer: Writer, numbers: Sequence[int], count: int, what: str) -> None:
    if len(numbers) != count:
        refuse(what, f"{tuple(numbers)} has {len(numbers)} numbers, not {count}")
    for number in numbers:
        writer.integer("I", number, what)


# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sections:
    minor: int
    metadata: memoryview
    engine: memoryview
    engine_bytes: int
    fallback: memoryview | None


def _read_header(blob: memoryview) -> _Sections:
    """Checks the header, and that the sections as laid out fill the blob to its last byte."""
    if len(blob) < _HEADER_PREFIX.size:
        refuse("header", f"is cut off: {len(blob)} of {HEADER_BYTES} bytes")
    if blob[:4] != MAGIC:
        refuse("magic", f"is {bytes(blob[:4])!r}, not {MAGIC!r}; these bytes are no delegate blob")
    _, major, minor = _HEADER_PREFIX.unpack_from(blob)
    if major != VERSION_MAJOR:
        hint = "upgrade executorch-tensorrt" if major > VERSION_MAJOR else "export it again"
        raise BlobError(f"blob version {major}.{minor}; this build reads {VERSION_MAJOR}.x: {hint}")
    if len(blob) < HEADER_BYTES:
        refuse("header", f"is cut off: {len(blob)} of {HEADER_BYTES} bytes")
    fields = _HEADER.unpack_from(blob)
    header_bytes, crc, metadata_offset, metadata_size = fields[3:7]
    engine_offset, engine_size, fallback_offset, fallback_size = fields[7:]
    if header_bytes != HEADER_BYTES:
        refuse("header bytes", f"are {header_bytes}, not {HEADER_BYTES}")
    metadata_end = _section_end(blob, "metadata", HEADER_BYTES, metadata_offset, metadata_size)
    end = engine_end = metadata_end
    if engine_offset != EXTERNAL or engine_size == 0:
        end = engine_end = _section_end(
            blob, "engine", _aligned(metadata_end), engine_offset, engine_size
        )
    engine = blob[engine_offset:engine_end] if engine_offset != EXTERNAL else blob[:0]
    fallback = None
    if fallback_size:
        end = _section_end(blob, "fallback", _aligned(end), fallback_offset, fallback_size)
        fallback = blob[fallback_offset:end]
    elif fallback_offset:
        refuse("fallback offset", f"is {fallback_offset}, but its size is 0")
    if end != len(blob):
        refuse("size", f"is {len(blob)} bytes, its sections end at {end}")
    if any(blob[metadata_end : engine_offset or metadata_end]) or (
        fallback is not None and any(blob[engine_end:fallback_offset])
    ):
        refuse("padding", "is not zero")
    metadata = blob[HEADER_BYTES:metadata_end]
    if zlib.crc32(metadata) != crc:
        refuse("metadata", f"has CRC-32 {zlib.crc32(metadata):08x}, the header says {crc:08x}")
    return _Sections(minor, metadata, engine, engine_size, fallback)


def _section_end(blob: memoryview, section: str, expected: int, offset: int, size: int) -> int:
    if offset != expected:
        refuse(f"{section} offset", f"is {offset}, not {expected}")
    if size == 0:
        refuse(section, "is empty")
    if offset + size > len(blob):
        refuse(section, f"of {size} bytes at {offset} is cut off: the blob has {len(blob)} bytes")
    return offset + size


def _read_metadata(sections: _Sections) -> DelegateBlob:
    reader = Reader(sections.metadata)
    _check_copies(reader, sections)
    engine_id = bytes(reader.take(_ID_BYTES, "engine id"))
    flavour = member(Flavour, reader.integer("B", "flavour"), "flavour")
    major, minor, patch, build = (reader.integer("I", "TensorRT version") for _ in range(4))
    capability = (
        reader.integer("I", "compute capability"),
        reader.integer("I", "compute capability"),
    )
    compatibility = member(
        HardwareCompatibility,
        reader.integer("B", "hardware compatibility"),
        "hardware compatibility",
    )
    version_compatible = bool(reader.choice("B", 2, "version compatible"))
    num_arguments = reader.integer("I", "argument count")
    bindings = tuple(
        _read_binding(reader, index)
        for index in range(reader.count(23, MAX_BINDINGS, "binding count"))
    )
    profiles = tuple(
        _read_profile(reader, index)
        for index in range(reader.count(12, MAX_PROFILES, "profile count"))
    )
    states = tuple(
        read_state(reader, index) for index in range(reader.count(26, MAX_STATES, "state count"))
    )
    if states and sections.minor < 1:
        refuse("state count", f"is {len(states)}; version 1.0 has none")
    build_options: dict[str, str] = {}
    for index in range(reader.count(8, MAX_BUILD_OPTIONS, "build option count")):
        key = reader.text(f"build option {index} name")
        if key in build_options:
            refuse(f"build option {index} name", f"'{key}' is there twice")
        build_options[key] = reader.text(f"build option '{key}' value")
    guard, index_checks = None, tuple[IndexCheck, ...]()
    if sections.minor >= 1:
        guard = reader.text("guard") or None
        index_checks = tuple(
            read_index_check(reader, index)
            for index in range(reader.count(33, MAX_INDEX_CHECKS, "index check count"))
        )
    if reader.remaining() and sections.minor <= VERSION_MINOR:
        refuse("metadata", f"has {reader.remaining()} bytes after its last field")
    return DelegateBlob(
        engine_id=engine_id,
        flavour=flavour,
        version=(major, minor, patch, build),
        compute_capability=capability,
        hardware_compatibility=compatibility,
        version_compatible=version_compatible,
        num_arguments=num_arguments,
        bindings=bindings,
        profiles=profiles,
        build_options=build_options,
        engine=sections.engine,
        fallback=sections.fallback,
        external_engine_bytes=0 if sections.engine else sections.engine_bytes,
        states=states,
        guard=guard,
        index_checks=index_checks,
    )


def _check_copies(reader: Reader, sections: _Sections) -> None:
    """The header is not under the CRC; the metadata's copies of its fields are."""
    fallback_size = 0 if sections.fallback is None else len(sections.fallback)
    for code, what, value in (
        ("H", "major version", VERSION_MAJOR),
        ("H", "minor version", sections.minor),
        ("Q", "engine size", sections.engine_bytes),
        ("Q", "fallback size", fallback_size),
    ):
        copy = reader.integer(code, what)
        if copy != value:
            refuse(what, f"is {value} in the header, {copy} in the metadata")


def _read_binding(reader: Reader, index: int) -> Binding:
    name = reader.text(f"binding {index} name")
    what = f"binding {index} '{name}'"
    dtype = member(ScalarType, reader.integer("B", f"{what} dtype"), f"{what} dtype")
    is_output = reader.choice("B", 2, f"{what} direction")
    flags = reader.choice("B", 2, f"{what} flags")
    argument = reader.integer("I", f"{what} argument")
    dims = reader.shape(f"{what} dims")
    size = reader.integer("Q", f"{what} max bytes")
    return Binding(name, dtype, not is_output, argument, dims, size, bool(flags))


def _read_profile(reader: Reader, index: int) -> Profile:
    name = reader.text(f"profile {index} name")
    what = f"profile '{name}'"
    engine_profile = reader.integer("I", f"{what} engine profile")
    inputs = tuple(
        ShapeRange(
            min=reader.shape(f"{what} min"),
            opt=reader.shape(f"{what} opt"),
            max=reader.shape(f"{what} max"),
        )
        for _ in range(reader.count(12, MAX_BINDINGS, f"{what} input count"))
    )
    return Profile(name, engine_profile, inputs)
