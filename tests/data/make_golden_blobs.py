"""Writes the golden blobs beside this file, and a JSON beside each with what it holds.

The Python and the C++ reader are both tested on them. They are kept as they are once a version of
the format is out: a change in their bytes is a change of the format.

    python tests/data/make_golden_blobs.py
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from executorch_tensorrt.backend.delegate_blob import (
    Binding,
    DelegateBlob,
    Flavour,
    HardwareCompatibility,
    Profile,
    ScalarType,
    Shape,
    ShapeRange,
    max_bytes,
)


def some_bytes(seed: str, size: int) -> bytes:
    return hashlib.shake_256(seed.encode()).digest(size)


def fixed(*sizes: int) -> ShapeRange:
    return ShapeRange(sizes, sizes, sizes)


def static() -> DelegateBlob:
    """No dynamic dim: one profile, called default. TensorRT, no fallback."""
    engine = some_bytes("static", 300)
    return DelegateBlob(
        engine_id=hashlib.sha256(engine).digest(),
        flavour=Flavour.TENSORRT,
        version=(11, 1, 0, 33),
        compute_capability=(8, 9),
        hardware_compatibility=HardwareCompatibility.SAME_COMPUTE_CAPABILITY,
        version_compatible=False,
        num_arguments=2,
        bindings=(
            Binding("image", ScalarType.UINT8, True, 0, (1, 3, 8, 8), 192),
            Binding("logits", ScalarType.FLOAT32, False, 1, (1, 10), 40),
        ),
        profiles=(Profile("default", 0, (fixed(1, 3, 8, 8),)),),
        build_options={},
        engine=engine,
    )


def two_profiles() -> DelegateBlob:
    """Decode and prefill over two dynamic dims; a static input; an engine tied to no GPU."""
    engine = some_bytes("two_profiles", 777)
    decode = ShapeRange((1, 1), (4, 1), (8, 1))
    prefill = ShapeRange((1, 2), (1, 128), (2, 512))
    bounds: list[Shape] = [decode.max, prefill.max]
    return DelegateBlob(
        engine_id=hashlib.sha256(engine).digest(),
        flavour=Flavour.TENSORRT_RTX,
        version=(1, 6, 1, 120),
        compute_capability=(0, 0),
        hardware_compatibility=HardwareCompatibility.NONE,
        version_compatible=False,
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
        engine=engine,
    )


def shared_engine_profile() -> DelegateBlob:
    """Three names over two engine profiles, the first two the same for this partition."""
    engine = some_bytes("shared_engine_profile", 256)  # ends on a section boundary
    small = ShapeRange((1, 32), (1, 32), (4, 32))
    large = ShapeRange((1, 32), (16, 32), (64, 32))
    return DelegateBlob(
        engine_id=hashlib.sha256(engine).digest(),
        flavour=Flavour.TENSORRT_RTX,
        version=(1, 6, 1, 120),
        compute_capability=(12, 0),
        hardware_compatibility=HardwareCompatibility.NONE,
        version_compatible=False,
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
        engine=engine,
    )


def with_fallback() -> DelegateBlob:
    """A fallback program; compatible with other versions and GPUs."""
    engine = some_bytes("with_fallback", 401)
    return DelegateBlob(
        engine_id=hashlib.sha256(engine).digest(),
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
        engine=engine,
        fallback=some_bytes("fallback program", 129),
    )


def shape_tensor() -> DelegateBlob:
    """A shape tensor, element types the others lack, and arguments that the engine does not use."""
    engine = some_bytes("shape_tensor", 64)
    return DelegateBlob(
        engine_id=hashlib.sha256(engine).digest(),
        flavour=Flavour.TENSORRT_RTX,
        version=(1, 6, 1, 120),
        compute_capability=(9, 0),
        hardware_compatibility=HardwareCompatibility.NONE,
        version_compatible=False,
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
        build_options={},
        engine=engine,
    )


GOLDEN = (static, two_profiles, shared_engine_profile, with_fallback, shape_tensor)


def description(blob: DelegateBlob) -> dict[str, Any]:
    """What the JSON beside a golden blob says of it."""

    def section(data: bytes | bytearray | memoryview | None) -> dict[str, Any] | None:
        return None if data is None else {"size": len(data), "crc32": f"{zlib.crc32(data):08x}"}

    return {
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


def main() -> None:
    here = Path(__file__).parent
    for make in GOLDEN:
        blob = make()
        (here / f"{make.__name__}.blob").write_bytes(blob.to_bytes())
        text = json.dumps(description(blob), indent=2, ensure_ascii=False)
        (here / f"{make.__name__}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
