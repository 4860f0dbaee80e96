"""The front door: a PyTorch model in, an ExecuTorch program with TensorRT engines out."""

from .lowering import export

__all__ = ["export"]
