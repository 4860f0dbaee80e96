"""CompileOptions on TensorRT's builder configuration."""

from __future__ import annotations

import logging
import os
from typing import Any

from .compile_options import CompileOptions
from .delegate_blob import Flavour, HardwareCompatibility

logger = logging.getLogger("executorch_tensorrt")

_IDLE_WITH_RTX = {
    "optimization_level": "TensorRT-RTX optimizes an engine when it is loaded",
    "sparse_weights": "TensorRT-RTX chooses kernels when an engine is loaded",
}


def configure(config: Any, options: CompileOptions) -> None:
    """Sets what Torch-TensorRT's own settings, see `converters.settings`, do not.

    Raises:
        ValueError: A compute capability that this TensorRT-RTX does not build for.
    """
    from .converters import tensorrt, trt

    if tensorrt.flavour is Flavour.TENSORRT_RTX:
        for name, why in _IDLE_WITH_RTX.items():
            if getattr(options, name):
                logger.warning("CompileOptions.%s changes nothing here: %s", name, why)
    if options.weight_streaming:
        config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING)
    if options.sparse_weights:
        config.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS)
    if options.version_compatible:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    if options.hardware_compatibility is not None:
        level = options.hardware_compatibility.upper()
        config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, level)
    if options.compute_capabilities:
        config.num_compute_capabilities = len(options.compute_capabilities)
        for index, capability in enumerate(options.compute_capabilities):
            config.set_compute_capability(_compute_capability(capability), index)


def hardware_compatibility(options: CompileOptions) -> HardwareCompatibility:
    """The level as the delegate blob has it."""
    level = options.hardware_compatibility
    return HardwareCompatibility.NONE if level is None else HardwareCompatibility[level.upper()]


def _compute_capability(text: str) -> Any:
    from .converters import trt

    known = {
        f"{name[2:-1]}.{name[-1]}": value
        for name, value in trt.ComputeCapability.__members__.items()
        if name.startswith("SM")
    }
    if text not in known:
        raise ValueError(
            f"CompileOptions.compute_capabilities holds '{text}'; this TensorRT-RTX builds for "
            f"{', '.join(sorted(known, key=float))}"
        )
    return known[text]


def use_timing_cache(config: Any, options: CompileOptions) -> None:
    """Gives TensorRT what it measured in earlier builds; TensorRT-RTX measures nothing."""
    path = _timing_cache_path(options)
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    cache = config.create_timing_cache(data)
    if cache is None or not config.set_timing_cache(cache, False):
        logger.warning("the timing cache %s is of another GPU or damaged; it starts anew", path)
        config.set_timing_cache(config.create_timing_cache(b""), False)


def save_timing_cache(config: Any, options: CompileOptions) -> None:
    """Keeps what TensorRT measured for the next build. Of concurrent builds, the last wins."""
    from .engine_cache import write_atomically

    path = _timing_cache_path(options)
    if path is not None:
        write_atomically(path, [memoryview(config.get_timing_cache().serialize())])


def _timing_cache_path(options: CompileOptions) -> str | None:
    from .converters import tensorrt

    if options.engine_cache_dir is None or tensorrt.flavour is Flavour.TENSORRT_RTX:
        return None
    version = ".".join(str(number) for number in tensorrt.version)
    return os.path.join(options.engine_cache_dir, f"timing_{version}.cache")
