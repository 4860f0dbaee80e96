"""A directory of built engines, shared by processes, bounded in size.

One file an engine, named by its key: what it is called by, a description and the plan, under one
SHA-256. Files appear whole or not at all; one that is damaged is no engine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import tempfile
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from .engine import Engine

logger = logging.getLogger("executorch_tensorrt")

_MAGIC = b"ETRTENG1"
_HEADER = struct.Struct("<8s32sQ")  # magic, SHA-256 of what follows the header, description bytes
_SUFFIX = ".engine"


class EngineCache:
    """Engines in a directory, by key.

    Args:
        directory: Made when the first engine is kept.
        max_bytes: The least recently used engines go when all together are larger.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        self._directory = Path(directory)
        self._max_bytes = max_bytes

    def get(self, key: str) -> Engine | None:
        """The engine of a key, None if it isn't there or is damaged, which is warned of."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("the engine cache's %s cannot be read: %s", path, error)
            return None
        try:
            engine = _read(memoryview(data))
        except ValueError as error:
            logger.warning("the engine cache's %s is damaged (%s); building anew", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return engine

    def put(self, key: str, engine: Engine) -> None:
        """Keeps an engine. A directory that can't be written to is warned of."""
        path = self._path(key)
        description = _description(engine)
        size = _HEADER.size + len(description) + len(engine.plan)
        if size > self._max_bytes:
            logger.warning(
                "an engine of %d bytes is larger than the engine cache may be, %d bytes",
                size,
                self._max_bytes,
            )
            return
        digest = hashlib.sha256(description)
        digest.update(engine.plan)
        header = _HEADER.pack(_MAGIC, digest.digest(), len(description))
        try:
            write_atomically(str(path), [header, description, engine.plan])
            self._evict(keep=path)
        except OSError as error:
            logger.warning("the engine cache cannot keep %s: %s", path, error)

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"

    def _evict(self, keep: Path) -> None:
        found = []
        for path in self._directory.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                stat = path.stat()
                found.append((stat.st_mtime_ns, path, stat.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self._max_bytes:
                return
            if path != keep:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                total -= size


def write_atomically(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Writes a file that others see whole or not at all; its directory is made if need be."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=directory, prefix=".unfinished-")
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _description(engine: Engine) -> bytes:
    values = {
        item.name: getattr(engine, item.name) for item in fields(engine) if item.name != "plan"
    }
    return json.dumps(values).encode()


def _read(data: memoryview) -> Engine:
    if len(data) < _HEADER.size:
        raise ValueError(f"{len(data)} bytes are no engine")
    magic, digest, size = _HEADER.unpack_from(data)
    contents = data[_HEADER.size :]
    if magic != _MAGIC:
        raise ValueError(f"it begins with {bytes(magic)!r}")
    if hashlib.sha256(contents).digest() != digest:
        raise ValueError("its SHA-256 is not what it says")
    values = json.loads(bytes(contents[:size]))
    return Engine(
        plan=contents[size:],
        input_names=tuple(values["input_names"]),
        output_names=tuple(values["output_names"]),
        num_profiles=values["num_profiles"],
        compute_capability=tuple(values["compute_capability"]),
    )
