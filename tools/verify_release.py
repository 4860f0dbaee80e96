"""Unpacks a release tarball in an empty folder, builds its CMake projects and runs the example.

    python tools/verify_release.py dist/executorch_tensorrt-0.1.0.tar.gz

What the tarball must hold stands in release_entries.txt, one entry a line. The example is built
twice, on the library that the tarball's sources make and on the one that it carries, and runs a
program through its CPU fallback; the answers must be eager PyTorch's. Nothing but this
interpreter's ExecuTorch, and TensorRT's and CUDA's headers where they are found, is used.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ENTRIES = Path(__file__).with_name("release_entries.txt").read_text().split()
CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}


def run(*command: str | Path) -> str:
    """What the command prints; ends this program if it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=CLEAN)
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def executorch_root() -> str:
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{sys.executable} has no executorch; its wheel is the C++ SDK")
    return spec.submodule_search_locations[0]


def unpack(tarball: Path, folder: Path) -> Path:
    """The one folder that the tarball holds, unpacked."""
    with tarfile.open(tarball) as tar:
        names = tar.getnames()
        for member in tar:
            if not member.isfile() or member.name.startswith("/") or ".." in member.name:
                raise SystemExit(f"{tarball.name}: {member.name} is not a plain file below it")
            tar.extract(member, folder)
    top = tarball.name.removesuffix(".tar.gz")
    missing = sorted({f"{top}/{entry}" for entry in ENTRIES} - set(names))
    if missing:
        raise SystemExit(f"{tarball.name} lacks {', '.join(missing)}")
    return folder / top


def build(source: Path, folder: Path, *options: str) -> None:
    run("cmake", "-S", source, "-B", folder, f"-DEXECUTORCH_ROOT={executorch_root()}", *options)
    run("cmake", "--build", folder, "--parallel", os.environ.get("JOBS", "2"))


def main() -> None:
    (tarball,) = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        release = unpack(tarball, work / "unpacked")
        source, prefix = release / "source", work / "prefix"
        build(source, work / "library")
        run("cmake", "--install", work / "library", "--prefix", prefix)

        example = source / "examples" / "multi_profile"
        export, model = example / "export_multi_profile.py", work / "model.pte"
        run(sys.executable, export, model)
        for which, package in (("built", prefix), ("carried", release)):
            outputs = work / f"{which}_outputs"
            outputs.mkdir()
            build(example, work / which, f"-DCMAKE_PREFIX_PATH={package}")
            run(work / which / "multi_profile_main", model, outputs)
            run(sys.executable, export, "--compare", outputs)
            run(work / which / "multi_profile_benchmark", model, "5", "1")
    print(f"{tarball.name}: {len(ENTRIES)} entries, built and ran")


if __name__ == "__main__":
    main()
