"""How fast engines become a `.pte`, and how much memory that takes in multiples of the engine.

    python benchmarks/serialization.py [--gigabytes 1] [--kind synthetic|real] [--external]
                                       [--check] [--folder DIR] [--json FILE]

The clock starts when TensorRT has built the engine and stops when the program lies in a file; on
the way it reads when the blob is there, after which ExecuTorch makes the program of it.
"synthetic" puts random bytes of the size in place of a small model's engine, so that nothing but
the serializing is there; "real" builds that of a model with as many bytes of weights. Needs no
GPU with TensorRT-RTX. Linux, as the peak is the kernel's (VmHWM).
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir.backend.backend_details import PreprocessResult

import executorch_tensorrt as ett
from executorch_tensorrt.backend import tensorrt_backend
from executorch_tensorrt.backend.engine import Engine
from executorch_tensorrt.backend.tensorrt_backend import TensorRTBackend

WIDTH = 2048


def memory(field: str) -> int:
    """A field of this process's status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {field}")


def random_bytes(size: int) -> memoryview:
    """Random bytes, block after block: what is all zeros would cost no memory."""
    data = bytearray(size)
    source = random.Random(0)
    block = 1 << 24
    for start in range(0, size, block):
        data[start : start + block] = source.randbytes(min(block, size - start))
    return memoryview(data)


class Clock:
    """Starts once the engines are there, and marks how much memory there is without them."""

    def __init__(self, synthetic_bytes: int) -> None:
        self._synthetic_bytes = synthetic_bytes
        self._build = tensorrt_backend.build_engines
        self._preprocess = TensorRTBackend.preprocess_multimethod

    def build_engines(self, requests: Sequence[Any]) -> list[Engine]:
        [engine] = self._build(requests)
        if self._synthetic_bytes:
            engine = dataclasses.replace(engine, plan=random_bytes(self._synthetic_bytes))
        self.engine_bytes = len(engine.plan)
        Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
        self.baseline = memory("VmRSS") - self.engine_bytes
        self.started, self.cpu_started = time.perf_counter(), time.process_time()
        return [engine]

    def preprocess(self, *arguments: Any) -> dict[str, list[PreprocessResult]]:
        results = self._preprocess(*arguments)
        self.blob_done = time.perf_counter()
        return results


def model(weight_bytes: int) -> torch.nn.Module:
    """Linear layers of so many bytes in float32."""
    count = max(1, round(weight_bytes / (4 * WIDTH * WIDTH)))
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(count))).eval()


def measure(
    gigabytes: float, kind: str, external: bool, check: bool, folder: Path
) -> dict[str, Any]:
    size = int(gigabytes * 1e9)
    real = kind == "real"
    clock = Clock(0 if real else size)
    options = ett.CompileOptions(
        engine_data_file="engines" if external else None, cpu_fallback=check
    )
    layers, inputs = model(size if real else 1), (torch.ones(1, WIDTH),)
    exported = torch.export.export(layers, inputs)
    tensorrt_backend.build_engines = clock.build_engines
    TensorRTBackend.preprocess_multimethod = clock.preprocess  # type: ignore[method-assign]
    program = ett.export(exported, options=options)
    serialized, cpu_serialized = time.perf_counter(), time.process_time()
    program.save(str(folder / "model.pte"))
    program.write_tensor_data_to_file(str(folder))
    done = time.perf_counter()
    result = {
        "kind": kind,
        "external": external,
        "engine_mb": clock.engine_bytes / 1e6,
        "blob_s": clock.blob_done - clock.started,
        "serialize_s": serialized - clock.started,
        "cpu_s": cpu_serialized - clock.cpu_started,
        "write_s": done - serialized,
        "mb_per_s": clock.engine_bytes / 1e6 / (done - clock.started),
        "mb_per_s_without_disk": clock.engine_bytes / 1e6 / (serialized - clock.started),
        "blob_mb_per_s": clock.engine_bytes / 1e6 / (clock.blob_done - clock.started),
        "peak_engines": (memory("VmHWM") - clock.baseline) / clock.engine_bytes,
        "peak_process_mb": memory("VmHWM") / 1e6,
    }
    if check:
        # The fallback lies behind the engine: it is found, however large the engine is.
        [answer] = ett.load(folder / "model.pte", device="cpu")["forward"](*inputs)
        torch.testing.assert_close(answer, layers(*inputs).detach(), rtol=0, atol=1e-4)
    del program
    started = time.perf_counter()
    with open(folder / ("engines.ptd" if external else "model.pte"), "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 24):
            digest.update(block)
    result["sha256_mb_per_s"] = os.path.getsize(file.name) / 1e6 / (time.perf_counter() - started)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--kind", choices=("synthetic", "real"), default="synthetic")
    parser.add_argument("--external", action="store_true", help="the engine in a .ptd file")
    parser.add_argument(
        "--check",
        action="store_true",
        help="put a CPU fallback behind the engine and run it; its building is in the figures then",
    )
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    parser.add_argument("--json", help="where to put the figures too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = measure(
            arguments.gigabytes, arguments.kind, arguments.external, arguments.check, Path(folder)
        )
    print(
        f"{result['kind']} engine of {result['engine_mb']:.0f} MB"
        f"{' in a .ptd file' if result['external'] else ''}: "
        f"{result['blob_s']:.2f} s to a blob ({result['blob_mb_per_s']:.0f} MB/s), "
        f"{result['serialize_s']:.2f} s to a program ({result['cpu_s']:.2f} s of CPU), "
        f"{result['write_s']:.2f} s to a file; "
        f"{result['mb_per_s']:.0f} MB/s ({result['mb_per_s_without_disk']:.0f} without the disk); "
        f"peak {result['peak_engines']:.2f} engines; "
        f"SHA-256 alone {result['sha256_mb_per_s']:.0f} MB/s"
    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
