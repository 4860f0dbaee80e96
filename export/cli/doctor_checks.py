"""What `doctor` looks at. Nothing here imports PyTorch, and everything works without a GPU."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from packaging.requirements import Requirement

from .nvidia_libraries import (
    Gpu,
    Library,
    cuda_driver_version,
    find_tensorrt,
    gpus,
    kernel_driver_version,
)

DISTRIBUTION = "executorch-tensorrt"
LEAST_CAPABILITY = (8, 0)
LEAST_RTX = (1, 5)
LEAST_TENSORRT_10 = (10, 1)


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        what: What was looked at.
        status: `warning` is what some uses do without.
        found: What is there.
        fix: What to do; "" if nothing is to be done.
    """

    what: str
    status: Literal["ok", "warning", "problem"]
    found: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """As JSON's types."""
        return asdict(self)


def all_checks() -> Iterator[Check]:
    """Every finding, from what everything takes to what only some uses take."""
    yield Check(
        "Python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    yield _package("executorch", "running and exporting programs")
    built_for = None
    try:
        from executorch_tensorrt import runtime

        runtime.register()
        built_for = runtime.native._runtime.tensorrt_headers_version
        yield Check("ExecuTorch registration", "ok", "TensorRTBackend is registered")
    except (ImportError, RuntimeError) as error:
        yield Check("ExecuTorch registration", "problem", str(error), _reinstall())
    if built_for is not None:
        yield _built_for(built_for)
    yield from _driver()
    yield from _tensorrt(built_for or "")
    yield from _exporting()


def _reinstall() -> str:
    return (
        "install executorch-tensorrt and the executorch that it names again, into one environment"
    )


def _requirement(name: str, extra: str = "") -> Requirement | None:
    """What this package says of another's version."""
    try:
        texts = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        if requirement.name == name and (marker is None or marker.evaluate({"extra": extra})):
            return requirement
    return None


def _package(name: str, use: str, extra: str = "", needed: bool = True) -> Check:
    """Whether a Python package is there in a version that this one works with."""
    bad: Literal["warning", "problem"] = "problem" if needed else "warning"
    wanted = _requirement(name, extra)
    install = (
        f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install '{wanted or name}'"
    )
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, bad, f"not installed; needed for {use}", install)
    if wanted is not None and not wanted.specifier.contains(version, prereleases=True):
        return Check(name, bad, f"{version}; {wanted.specifier} is needed for {use}", install)
    return Check(name, "ok", version)


def _built_for(version: str) -> Check:
    if not version:
        return Check(
            "TensorRT engine",
            "warning",
            "this build has none, as TensorRT's headers were not there: CPU fallbacks alone run",
            "build it with CMAKE_ARGS=-DTensorRT_ROOT=<TensorRT's folder>, or with "
            "-DEXECUTORCH_TENSORRT_FETCH_HEADERS=ON",
        )
    return Check("TensorRT engine", "ok", f"built for TensorRT {version}: calls {_calls(version)}")


def _calls(built_for: str) -> str:
    if built_for.startswith("10"):
        return "TensorRT 10.1 or a newer 10.x"
    return "TensorRT 11 and TensorRT-RTX 1.5 or a newer 1.x"


def _driver() -> Iterator[Check]:
    kernel, cuda = kernel_driver_version(), cuda_driver_version()
    if cuda is None:
        found = "no libcuda.so.1" + (f", but the kernel module {kernel}" if kernel else "")
        fix = (
            "in a container, start it with the NVIDIA runtime (docker run --gpus all)"
            if kernel
            else "install NVIDIA's driver; without one, programs run through their CPU fallback"
        )
        yield Check("NVIDIA driver", "warning", found, fix)
        return
    needed = _cuda_of_packages()
    text = f"{kernel or 'version unknown'}, for CUDA {cuda[0]}.{cuda[1]} and older"
    if needed is not None and cuda[0] < needed:
        fix = f"install a newer NVIDIA driver: packages here are for CUDA {needed}"
        yield Check("NVIDIA driver", "warning", text, fix)
    else:
        yield Check("NVIDIA driver", "ok", text)
    found_gpus = gpus()
    if not found_gpus:
        yield Check(
            "GPU",
            "warning",
            "none that CUDA shows",
            "see nvidia-smi and CUDA_VISIBLE_DEVICES; CPU fallbacks run without",
        )
    for gpu in found_gpus:
        yield _gpu(gpu)


def _gpu(gpu: Gpu) -> Check:
    major, minor = gpu.capability
    text = f"{gpu.name}, compute capability {major}.{minor}, {gpu.memory / 1e9:.1f} GB"
    if gpu.capability < LEAST_CAPABILITY:
        fix = "TensorRT-RTX runs on Ampere (8.0) and newer; use TensorRT, or the CPU fallback"
        return Check(f"GPU {gpu.index}", "warning", text, fix)
    return Check(f"GPU {gpu.index}", "ok", text)


def _cuda_of_packages() -> int | None:
    """CUDA's major version that the installed Python packages are for."""
    try:
        return int(importlib.metadata.version("nvidia-cuda-runtime").split(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def _tensorrt(built_for: str) -> Iterator[Check]:
    libraries = find_tensorrt()
    usable = [library for library in libraries if _is_callable(library, built_for)]
    for library in libraries:
        what = f"{library.flavour} library"
        if library.error:
            yield Check(what, "warning", f"{library.path}: {library.error}", _INSTALL)
        elif library in usable or not built_for:
            yield Check(what, "ok", f"{library.text_version}, {library.path}")
        else:
            yield Check(
                what,
                "warning",
                f"{library.text_version}, {library.path}: this build calls {_calls(built_for)}",
                _INSTALL,
            )
    if not libraries:
        yield Check("TensorRT library", "warning", "none found; engines don't run", _INSTALL)


_INSTALL = (
    f"pip install '{DISTRIBUTION}[rtx]' or '{DISTRIBUTION}[tensorrt]', or set "
    "EXECUTORCH_TENSORRT_LIBRARY to the path of one"
)


def _is_callable(library: Library, built_for: str) -> bool:
    if not built_for or library.error:
        return False
    version = library.version[:2]
    if built_for.startswith("10"):
        return library.flavour == "TensorRT" and LEAST_TENSORRT_10 <= version < (11, 0)
    if library.flavour == "TensorRT":
        return version[0] == 11
    return LEAST_RTX <= version < (2, 0)


def _exporting() -> Iterator[Check]:
    torch = _package("torch", "exporting", "rtx", needed=False)
    yield torch
    flavours = {"rtx": "torch-tensorrt-rtx", "tensorrt": "torch-tensorrt"}
    there = [extra for extra, name in flavours.items() if _is_installed(name)]
    if not there:
        fix = (
            f"pip install '{DISTRIBUTION}[rtx]' (builds without a GPU) or "
            f"'{DISTRIBUTION}[tensorrt]'"
        )
        yield Check("Torch-TensorRT", "warning", "not installed; needed for exporting", fix)
    for extra in there:
        yield _package(flavours[extra], "exporting", extra, needed=False)
    if there == ["tensorrt"] and not gpus():
        yield Check(
            "exporting",
            "warning",
            "TensorRT builds engines on the GPU that they are for, and there is none here",
            f"pip install '{DISTRIBUTION}[rtx]' in an environment of its own builds without a GPU",
        )
    if sys.version_info < (3, 11) and importlib.util.find_spec("tomli") is None:
        yield Check("tomli", "warning", "not installed; --config needs it", "pip install tomli")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
