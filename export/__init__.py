"""The front door: a PyTorch model in, an ExecuTorch program with TensorRT engines out."""

from .export import export

__all__ = ["export"]
