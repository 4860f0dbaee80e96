"""NVIDIA's driver, GPUs and TensorRT libraries, asked for with ctypes alone."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "EXECUTORCH_TENSORRT_LIBRARY"

# As runtime/cpp/src/tensorrt_library.cpp looks for them.
_SONAMES = {
    "TensorRT": ("libnvinfer.so.11", "libnvinfer.so.10"),
    "TensorRT-RTX": ("libtensorrt_rtx.so.1",),
}
_WHEELS = {"TensorRT": "tensorrt_libs", "TensorRT-RTX": "tensorrt_rtx_libs"}


@dataclass(frozen=True)
class Gpu:
    """One GPU that CUDA shows; memory in bytes."""

    index: int
    name: str
    capability: tuple[int, int]
    memory: int


@dataclass(frozen=True)
class Library:
    """A TensorRT library: where it is, which version, or why it can't be loaded."""

    flavour: str
    path: str
    version: tuple[int, ...] = ()
    error: str = ""

    @property
    def text_version(self) -> str:
        """The version with dots."""
        return ".".join(map(str, self.version))


def kernel_driver_version() -> str | None:
    """The version of NVIDIA's kernel module, None if it isn't loaded."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else "of unknown version"


def cuda_driver_version() -> tuple[int, int] | None:
    """The newest CUDA that the driver runs; None without a driver."""
    driver = _driver()
    version = ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def gpus() -> list[Gpu]:
    """The GPUs that CUDA shows to this process."""
    driver, count = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuInit(0) != 0:
        return []
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    return [_gpu(driver, index) for index in range(count.value)]


def _gpu(driver: Any, index: int) -> Gpu:
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t(0)
    device = ctypes.c_int(0)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    numbers = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        value = ctypes.c_int(0)
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return Gpu(index, name.value.decode(), (numbers[0], numbers[1]), memory.value)


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def find_tensorrt() -> list[Library]:
    """The TensorRT libraries that the runtime would find, and those that it can't load."""
    named = os.environ.get(VARIABLE)
    if named:
        return [_library(named, f"{VARIABLE}={named}", "TensorRT")]
    found = []
    for flavour, sonames in _SONAMES.items():
        for soname in sonames:
            for place in (soname, *_in_wheel(flavour, soname)):
                library = _library(place, place, flavour)
                # That the system has none of this name is no news; a file that fails is.
                if not library.error or place != soname:
                    found.append(library)
                    break
    return found


def _in_wheel(flavour: str, soname: str) -> list[str]:
    spec = importlib.util.find_spec(_WHEELS[flavour])
    folders = (spec and spec.submodule_search_locations) or ()
    files = [Path(folder) / soname for folder in folders]
    return [str(file) for file in files if file.exists()]


def _library(place: str, shown: str, flavour: str) -> Library:
    try:
        library = ctypes.CDLL(place)
        encoded = library.getInferLibVersion()
    except (OSError, AttributeError) as error:
        return Library(flavour, shown, error=str(error))
    parts = []
    for part in ("Major", "Minor", "Patch", "Build"):
        function = getattr(library, f"getInferLib{part}Version", None)
        parts.append(function() if function is not None else None)
    if parts[0] is None:  # before TensorRT 10
        parts = [encoded // 1000, encoded % 1000 // 100, encoded % 100]
    version = tuple(int(part) for part in parts if part is not None)
    own = "TensorRT-RTX" if version[0] < 5 else "TensorRT"
    return Library(own, _path_of(library) or shown, version)


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _path_of(library: Any) -> str:
    """The file that a library was loaded from."""
    info = _DlInfo()
    address = ctypes.cast(library.getInferLibVersion, ctypes.c_void_p)
    try:
        dladdr = ctypes.CDLL(None).dladdr
    except (OSError, AttributeError):
        return ""
    if dladdr(address, ctypes.byref(info)) == 0 or not info.file:
        return ""
    return str(info.file.decode())
