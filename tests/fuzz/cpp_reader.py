"""What the C++ reader makes of a blob, beside what the Python reader does."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any

from executorch_tensorrt.backend.delegate_blob import BlobError, DelegateBlob

ROOT = Path(__file__).parents[2]
BUILDS = ("cpp-plain", "dev", "cpp-fuzzer")


def program() -> Path | None:
    """The built blob_verdicts: where the environment says, else in a build of this tree."""
    if told := os.environ.get("EXECUTORCH_TENSORRT_BLOB_VERDICTS"):
        return Path(told)
    places = (ROOT / "build" / build / "runtime/cpp/fuzz/blob_verdicts" for build in BUILDS)
    return next((place for place in places if place.exists()), None)


class CppReader:
    """A process that reads one blob after another."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> CppReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0

    def verdict(self, blob: bytes) -> str:
        """``"accepted ..."`` with what was read, or ``"refused ..."`` with the cause."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(struct.pack("<I", len(blob)) + blob)
        stdin.flush()
        line = stdout.readline().decode(errors="replace").rstrip("\n")
        assert line, f"the C++ reader ended with {self._process.wait()} on {blob.hex()}"
        return line


def python_verdict(blob: bytes) -> str:
    """The Python reader's, in the same words where it accepts."""
    try:
        return "accepted " + _text(DelegateBlob.from_bytes(blob))
    except BlobError as error:
        return f"refused {error}"


def disagreement(blob: bytes, reader: CppReader) -> str | None:
    """What the readers say of a blob where they do not agree on it; None where they do."""
    cpp, python = reader.verdict(blob), python_verdict(blob)
    same = cpp == python or (cpp.startswith("refused ") and python.startswith("refused "))
    return None if same else f"C++: {cpp}\nPython: {python}\nblob: {blob.hex()}"


def _text(blob: DelegateBlob) -> str:
    """As runtime/cpp/fuzz/blob_verdicts.cpp writes it."""
    version = ".".join(str(number) for number in blob.version)
    words = [str(int(blob.flavour)), version, str(blob.num_arguments)]
    for b in blob.bindings:
        flags = f"{int(b.is_input)}{int(b.is_shape_tensor)}"
        place = f"{b.argument}{_dims(b.dims)}{b.max_bytes}"
        words.append(f"b{_hex(b.name)}:{int(b.dtype)}:{flags}:{place}")
    for profile in blob.profiles:
        ranges = (_dims(r.min) + _dims(r.opt) + _dims(r.max) for r in profile.inputs)
        words.append(f"p{_hex(profile.name)}:{profile.engine_profile}{''.join(ranges)}")
    words += [f"o{_hex(key)}={_hex(value)}" for key, value in blob.build_options.items()]
    for state in blob.states:
        initial = b"" if state.initial is None else bytes(state.initial)
        tensors = f"{_hex(state.input)}:{_hex(state.output)}:{int(state.mode)}:{initial.hex()}"
        words.append(f"s{_hex(state.name)}:{int(state.dtype)}{_dims(state.shape)}{tensors}")
    if blob.guard is not None:
        words.append(f"g{_hex(blob.guard)}")
    for check in blob.index_checks:
        binding, dim = (-1, 0) if check.extent is None else check.extent
        bounds = f"{check.least}:{check.greatest}:{binding}:{dim}:{int(check.contiguous)}"
        words.append(f"c{check.binding}:{bounds}:{_hex(check.state)}")
    fallback: Any = b"" if blob.fallback is None else blob.fallback
    if blob.external_engine_bytes:
        words.append("external")
    engine_bytes = len(blob.engine) or blob.external_engine_bytes
    return " ".join([*words, str(engine_bytes), str(len(fallback))])


def _dims(dims: tuple[int, ...]) -> str:
    return "[" + "".join(f"{size}," for size in dims) + "]"


def _hex(text: str) -> str:
    return text.encode().hex()
