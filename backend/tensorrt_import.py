"""Imports Torch-TensorRT when it is first needed, with or without an NVIDIA driver."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any
from unittest import mock

from .delegate_blob import Flavour

_INSTALL = (
    "building engines needs Torch-TensorRT: pip install 'executorch-tensorrt[rtx]' (TensorRT-RTX, "
    "builds without a GPU) or 'executorch-tensorrt[tensorrt]' (TensorRT)"
)


@dataclass(frozen=True)
class TensorRT:
    """Torch-TensorRT and the TensorRT it works with."""

    torch_tensorrt: ModuleType
    trt: Any  # the tensorrt or tensorrt_rtx module
    flavour: Flavour
    version: tuple[int, int, int, int]


@cache
def import_tensorrt() -> TensorRT:
    """Torch-TensorRT, imported on the first call.

    Raises:
        ImportError: It, or the TensorRT it needs, is not installed or cannot be loaded; the
            message says what to install.
    """
    try:
        with _importable_without_driver(), _quiet_import():
            torch_tensorrt = importlib.import_module("torch_tensorrt")
    except Exception as error:  # Torch-TensorRT raises a bare Exception where TensorRT is missing.
        raise ImportError(f"{_INSTALL}. Importing torch_tensorrt failed: {error}") from error
    # Torch-TensorRT puts whichever flavour it was built for in sys.modules under this name.
    trt = importlib.import_module("tensorrt")
    rtx = bool(torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx)
    numbers = [int(part) for part in trt.__version__.split(".")[:4]]
    major, minor, patch, build = numbers + [0] * (4 - len(numbers))
    flavour = Flavour.TENSORRT_RTX if rtx else Flavour.TENSORRT
    return TensorRT(torch_tensorrt, trt, flavour, (major, minor, patch, build))


@contextlib.contextmanager
def _importable_without_driver() -> Iterator[None]:
    """Torch-TensorRT asks for the current GPU while it is imported; answer where there is none."""
    import torch

    if torch.cuda.is_available():
        yield
        return
    with (
        mock.patch.object(torch.cuda, "get_device_capability", return_value=(0, 0)),
        mock.patch.object(torch.cuda, "current_device", return_value=0),
    ):
        yield


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Hides warnings about optional packages of Torch-TensorRT that nothing here uses.

    Torch-TensorRT also sends the process's warnings to its logging; that is undone.
    """
    show = warnings.showwarning
    loggers = [
        logging.getLogger(name)
        for name in ("torch_tensorrt", "torch._opaque_base", "torch._library.opaque_object")
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        if warnings.showwarning is not show:
            logging.captureWarnings(False)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
