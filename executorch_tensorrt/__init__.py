"""TensorRT for ExecuTorch: multi-profile TensorRT engines inside a ``.pte``.

The public names are imported when they are first used, so that a program that only runs models
loads neither PyTorch nor TensorRT's Python packages, and one that only exports loads no native
library.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._export import explain, export, int8_quantizer
    from ._export.recipes import TensorRTRecipeType
    from .backend.build_progress import build_progress
    from .backend.compile_options import CompileOptions
    from .backend.tensorrt_backend import TensorRTBackend
    from .partitioner import TensorRTPartitioner
    from .profiles import OptimizationProfile
    from .runtime import (
        Method,
        Program,
        RuntimeOptions,
        StateInfo,
        StateSet,
        cuda_stream,
        load,
        optimization_profile,
        register,
        state,
    )

__version__ = "0.1.0"

_HOME = {
    "CompileOptions": ".backend.compile_options",
    "Method": ".runtime",
    "OptimizationProfile": ".profiles",
    "Program": ".runtime",
    "RuntimeOptions": ".runtime",
    "StateInfo": ".runtime",
    "StateSet": ".runtime",
    "TensorRTBackend": ".backend.tensorrt_backend",
    "TensorRTPartitioner": ".partitioner",
    "TensorRTRecipeType": "._export.recipes",
    "build_progress": ".backend.build_progress",
    "cuda_stream": ".runtime",
    "explain": "._export",
    "export": "._export",
    "int8_quantizer": "._export",
    "load": ".runtime",
    "optimization_profile": ".runtime",
    "register": ".runtime",
    "state": ".runtime",
}

__all__ = [
    "CompileOptions",
    "Method",
    "OptimizationProfile",
    "Program",
    "RuntimeOptions",
    "StateInfo",
    "StateSet",
    "TensorRTBackend",
    "TensorRTPartitioner",
    "TensorRTRecipeType",
    "build_progress",
    "cuda_stream",
    "explain",
    "export",
    "int8_quantizer",
    "load",
    "optimization_profile",
    "register",
    "state",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
