"""Writes the golden blobs beside this file, and a JSON beside each with what it holds.

The Python and the C++ reader are both tested on them. They are kept as they are once a version of
the format is out: a change in their bytes is a change of the format. Those of version 1.0 were
written by the writer of that version, and this script leaves them alone. SHA256SUMS pins them all.

    python tests/data/make_golden_blobs.py
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_blob import plain_blob

from executorch_tensorrt.backend.delegate_blob import (
    Binding,
    DelegateBlob,
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
)


def some_bytes(seed: str, size: int) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(size)


def fixed(*sizes: int) -> ShapeRange:
    return ShapeRange(sizes, sizes, sizes)


def static() -> DelegateBlob:
    """No dynamic dim: one profile, called default. TensorRT, no fallback."""
    engine = some_bytes("static", 300)
    return plain_blob(
        engine,
        flavour=Flavour.TENSORRT,
        version=(11, 1, 0, 33),
        compute_capability=(8, 9),
        hardware_compatibility=HardwareCompatibility.SAME_COMPUTE_CAPABILITY,
        num_arguments=2,
        bindings=(
            Binding("image", ScalarType.UINT8, True, 0, (1, 3, 8, 8), 192),
            Binding("logits", ScalarType.FLOAT32, False, 1, (1, 10), 40),
        ),
        profiles=(Profile("default", 0, (fixed(1, 3, 8, 8),)),),
    )


def two_profiles() -> DelegateBlob:
    """Decode and prefill over two dynamic dims; a static input; an engine tied to no GPU."""
    engine = some_bytes("two_profiles", 777)
    decode = ShapeRange((1, 1), (4, 1), (8, 1))
    prefill = ShapeRange((1, 2), (1, 128), (2, 512))
    bounds: list[Shape] = [decode.max, prefill.max]
    return plain_blob(
        engine,
        num_arguments=4,
        bindings=(
            Binding(
                "ids", ScalarType.INT64, True, 0, (-1, -1), max_bytes(ScalarType.INT64, bounds)
            ),
            Binding("mask", ScalarType.BOOL, True, 1, (-1, -1), max_bytes(ScalarType.BOOL, bounds)),
            Binding("scale", ScalarType.FLOAT16, True, 2, (), 2),
            Binding("hidden", ScalarType.FLOAT16, False, 3, (-1, -1, 16), 2 * 512 * 16 * 2),
        ),
        profiles=(
            Profile("decode", 0, (decode, decode, fixed())),
            Profile("prefill", 1, (prefill, prefill, fixed())),
        ),
        build_options={"optimization_level": "3", "précision": "fp16 → fp32"},
    )


def shared_engine_profile() -> DelegateBlob:
    """Three names over two engine profiles, the first two the same for this partition."""
    engine = some_bytes("shared_engine_profile", 256)  # ends on a section boundary
    small = ShapeRange((1, 32), (1, 32), (4, 32))
    large = ShapeRange((1, 32), (16, 32), (64, 32))
    return plain_blob(
        engine,
        compute_capability=(12, 0),
        num_arguments=2,
        bindings=(
            Binding("x", ScalarType.BFLOAT16, True, 0, (-1, 32), 64 * 32 * 2),
            Binding("y", ScalarType.BFLOAT16, False, 1, (-1, 32), 64 * 32 * 2),
        ),
        profiles=(
            Profile("query", 0, (small,)),
            Profile("rerank", 0, (small,)),
            Profile("passage", 1, (large,)),
        ),
        build_options={"workspace_bytes": "1073741824"},
    )


def with_fallback() -> DelegateBlob:
    """A fallback program; compatible with other versions and GPUs."""
    engine = some_bytes("with_fallback", 401)
    return plain_blob(
        engine,
        flavour=Flavour.TENSORRT,
        version=(10, 13, 2, 6),
        compute_capability=(8, 0),
        hardware_compatibility=HardwareCompatibility.AMPERE_PLUS,
        version_compatible=True,
        num_arguments=2,
        bindings=(
            Binding("x", ScalarType.FLOAT32, True, 0, (-1, 4), 16 * 4 * 4),
            Binding("y", ScalarType.FLOAT32, False, 1, (-1,), 16 * 4),
        ),
        profiles=(Profile("default", 0, (ShapeRange((0, 4), (8, 4), (16, 4)),)),),
        build_options={"cpu_fallback": "xnnpack"},
        fallback=some_bytes("fallback program", 129),
    )


def shape_tensor() -> DelegateBlob:
    """A shape tensor, element types the others lack, and arguments that the engine does not use."""
    engine = some_bytes("shape_tensor", 64)
    return plain_blob(
        engine,
        compute_capability=(9, 0),
        num_arguments=7,
        bindings=(
            Binding("x", ScalarType.INT8, True, 0, (-1, 1, 1, 1, 1, 1, 1, 2), 10),
            Binding("size", ScalarType.INT32, True, 2, (3,), 12, is_shape_tensor=True),
            Binding("y", ScalarType.FLOAT64, False, 4, (-1, -1, 2), 320),
            Binding("empty", ScalarType.FLOAT32, False, 6, (0, 7), 0),
        ),
        profiles=(
            Profile(
                "default",
                0,
                (
                    ShapeRange(
                        (1, 1, 1, 1, 1, 1, 1, 2), (2, 1, 1, 1, 1, 1, 1, 2), (5, 1, 1, 1, 1, 1, 1, 2)
                    ),
                    fixed(3),
                ),
            ),
        ),
    )


def stateless() -> DelegateBlob:
    """A blob of version 1.1 without states."""
    return static()


def kv_cache() -> DelegateBlob:
    """Two caches written in place, the first at a start position, the second at positions."""
    engine = some_bytes("kv_cache", 500)
    decode, decode_rows = fixed(1, 1), fixed(1)
    prefill, prefill_rows = ShapeRange((1, 2), (1, 4), (1, 8)), ShapeRange((2,), (4,), (8,))
    start = fixed(1)
    key = State(
        "layers.0.key_cache",
        ScalarType.FLOAT16,
        (1, 2, 16, 4),
        "key_in",
        "key_out",
        StateMode.ALIAS,
    )
    value = State(
        "layers.0.value_cache",
        ScalarType.BFLOAT16,
        (1, 2, 16, 4),
        "value_in",
        "value_out",
        StateMode.ALIAS,
        some_bytes("value cache", 1 * 2 * 16 * 4 * 2),
    )
    return plain_blob(
        engine,
        num_arguments=4,
        bindings=(
            Binding("tokens", ScalarType.INT64, True, 0, (1, -1), 8 * 8),
            Binding("start", ScalarType.INT32, True, 1, (1,), 4),
            Binding("positions", ScalarType.INT64, True, 2, (-1,), 8 * 8),
            Binding("logits", ScalarType.FLOAT32, False, 3, (1, -1, 10), 8 * 10 * 4),
        ),
        profiles=(
            Profile("decode", 0, (decode, start, decode_rows)),
            Profile("prefill", 1, (prefill, start, prefill_rows)),
        ),
        fallback=some_bytes("fallback of kv_cache", 77),
        states=(key, value),
        index_checks=(
            IndexCheck(1, 0, 15, key.name, extent=(0, 1)),
            IndexCheck(2, 0, 15, value.name, contiguous=True),
        ),
    )


def states() -> DelegateBlob:
    """A counter, a ring buffer, a mask and a state without elements, in other memory each; a guard.

    The ring buffer is written at the counter's value, so that its check is in the engine.
    """
    blob = static()
    counter = State(
        "position", ScalarType.INT64, (), "p_in", "p_out", StateMode.PING_PONG, bytes(7) + b"\1"
    )
    ring = State("ring", ScalarType.FLOAT32, (4, 2), "ring_in", "ring_out", StateMode.PING_PONG)
    mask = State(
        "früh.mask", ScalarType.BOOL, (3,), "mask_in", "mask_out", StateMode.PING_PONG, b"\1\0\1"
    )
    empty = State("empty", ScalarType.FLOAT32, (0, 2), "e_in", "e_out", StateMode.PING_PONG)
    bindings = (
        Binding("x", ScalarType.FLOAT32, True, 0, (1, 2), 8),
        Binding("where", ScalarType.INT32, True, 1, (2, 2), 16),
        Binding("y", ScalarType.FLOAT32, False, 2, (2,), 8),
    )
    return replace(
        blob,
        num_arguments=3,
        bindings=bindings,
        profiles=(Profile("default", 0, (fixed(1, 2), fixed(2, 2))),),
        states=(counter, ring, mask, empty),
        guard="in_bounds",
        index_checks=(IndexCheck(1, -3, 2, mask.name),),
    )


GOLDEN_1_0 = (static, two_profiles, shared_engine_profile, with_fallback, shape_tensor)
GOLDEN = (stateless, kv_cache, states)


def description(blob: DelegateBlob) -> dict[str, Any]:
    """What the JSON beside a golden blob says of it."""

    def section(data: bytes | bytearray | memoryview | None) -> dict[str, Any] | None:
        return None if data is None else {"size": len(data), "crc32": f"{zlib.crc32(data):08x}"}

    described = {
        "engine_id": blob.engine_id.hex(),
        "flavour": str(blob.flavour),
        "version": ".".join(map(str, blob.version)),
        "compute_capability": list(blob.compute_capability),
        "hardware_compatibility": int(blob.hardware_compatibility),
        "version_compatible": blob.version_compatible,
        "num_arguments": blob.num_arguments,
        "bindings": [
            {
                "name": binding.name,
                "dtype": int(binding.dtype),
                "is_input": binding.is_input,
                "is_shape_tensor": binding.is_shape_tensor,
                "argument": binding.argument,
                "dims": list(binding.dims),
                "max_bytes": binding.max_bytes,
            }
            for binding in blob.bindings
        ],
        "profiles": [
            {
                "name": profile.name,
                "engine_profile": profile.engine_profile,
                "inputs": [
                    {"min": list(bounds.min), "opt": list(bounds.opt), "max": list(bounds.max)}
                    for bounds in profile.inputs
                ],
            }
            for profile in blob.profiles
        ],
        "build_options": dict(blob.build_options),
        "engine": section(blob.engine),
        "fallback": section(blob.fallback),
    }
    if blob.states:
        described["states"] = [
            {
                "name": state.name,
                "dtype": int(state.dtype),
                "shape": list(state.shape),
                "input": state.input,
                "output": state.output,
                "mode": int(state.mode),
                "initial": section(state.initial),
            }
            for state in blob.states
        ]
        described["guard"] = blob.guard or ""
        described["index_checks"] = [
            {
                "binding": check.binding,
                "least": check.least,
                "greatest": check.greatest,
                "extent": list(check.extent or (-1, 0)),
                "contiguous": check.contiguous,
                "state": check.state,
            }
            for check in blob.index_checks
        ]
    return described


def main() -> None:
    here = Path(__file__).parent
    for make in GOLDEN:
        blob = make()
        (here / f"{make.__name__}.blob").write_bytes(blob.to_bytes())
        text = json.dumps(description(blob), indent=2, ensure_ascii=False)
        (here / f"{make.__name__}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
