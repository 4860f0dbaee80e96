"""Runs ``.pte`` programs with TensorRT delegates; importing it registers the backend.

Needs neither PyTorch nor TensorRT's Python packages.
"""

from .errors import (
    DelegateInvalidCompatibility,
    InvalidArgument,
    InvalidExternalData,
    MemoryAllocationFailed,
    NotFound,
    TensorRTError,
)
from .options import RuntimeOptions
from .profile_pin import optimization_profile
from .program import Method, Program, load
from .registration import register
from .state_set import StateInfo, StateSet, state
from .stream import cuda_stream

__all__ = [
    "DelegateInvalidCompatibility",
    "InvalidArgument",
    "InvalidExternalData",
    "MemoryAllocationFailed",
    "Method",
    "NotFound",
    "Program",
    "RuntimeOptions",
    "StateInfo",
    "StateSet",
    "TensorRTError",
    "cuda_stream",
    "load",
    "optimization_profile",
    "register",
    "state",
]

register()
