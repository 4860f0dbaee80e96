"""The exceptions of the runtime, named after ExecuTorch's error codes."""

from __future__ import annotations


class TensorRTError(RuntimeError):
    """A program could not be loaded or executed.

    ``code`` is the name of ExecuTorch's error code, for instance ``"Internal"`` for a CUDA or
    TensorRT fault.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(TensorRTError, ValueError):
    """The caller's inputs, options or pinned profile do not fit the program."""


class DelegateInvalidCompatibility(TensorRTError):
    """The blob is damaged, or was built for another TensorRT version, flavour or GPU."""


class InvalidExternalData(TensorRTError):
    """An engine that lies outside its program is not in the data file given, or none was."""


class NotFound(TensorRTError, LookupError):
    """TensorRT, CUDA, a GPU or a CPU fallback is not there; the text names what to install."""


class MemoryAllocationFailed(TensorRTError, MemoryError):
    """There is not enough host or device memory."""


_BY_CODE: dict[str, type[TensorRTError]] = {
    cls.__name__: cls
    for cls in (
        InvalidArgument,
        DelegateInvalidCompatibility,
        InvalidExternalData,
        NotFound,
        MemoryAllocationFailed,
    )
}


def error_for(code: str, message: str) -> TensorRTError:
    """Return the exception for the name of an ExecuTorch error code."""
    code = code.removeprefix("Error::")
    return _BY_CODE.get(code, TensorRTError)(code, message)
