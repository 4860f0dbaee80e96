"""The front door: a PyTorch model in, an ExecuTorch program with TensorRT engines out.

The functions are imported when they are first used, so that the command line's commands that only
read or run programs do without PyTorch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .explain import explain
    from .lowering import export
    from .quantization import int8_quantizer

__all__ = ["explain", "export", "int8_quantizer"]

_HOME = {
    "explain": ".explain",
    "export": ".lowering",
    "int8_quantizer": ".quantization",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value
