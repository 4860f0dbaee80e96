"""Importing TensorRT and Torch-TensorRT: what is said without them, and what is left as it was."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
import torch

from executorch_tensorrt.backend import tensorrt_import
from executorch_tensorrt.backend.compile_options import CompileOptions


def test_a_missing_torch_tensorrt_names_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError) as caught:
        tensorrt_import.import_tensorrt.__wrapped__()
    message = str(caught.value)
    assert "executorch-tensorrt[rtx]" in message
    assert "executorch-tensorrt[tensorrt]" in message
    assert "No module named 'torch_tensorrt'" in message


def test_importing_tensorrt_leaves_torch_and_warnings_as_they_were() -> None:
    code = (
        "import warnings, torch\n"
        "before = (torch.cuda.current_device, torch.cuda.get_device_capability, "
        "warnings.showwarning)\n"
        "import executorch_tensorrt.backend.tensorrt_backend, sys\n"
        "assert 'torch_tensorrt' not in sys.modules\n"
        "executorch_tensorrt.backend.tensorrt_import.import_tensorrt()\n"
        "after = (torch.cuda.current_device, torch.cuda.get_device_capability, "
        "warnings.showwarning)\n"
        "print(before == after)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip().endswith("True"), done.stderr


def test_the_converter_registry_is_left_as_it_was() -> None:
    from executorch_tensorrt.backend.converters import DYNAMO_ATEN_CONVERTERS, converter_registry

    gather = torch.ops.aten.gather.default
    before = DYNAMO_ATEN_CONVERTERS[gather]
    with converter_registry(CompileOptions()):
        assert all(c.supports_dynamic_shapes for c in DYNAMO_ATEN_CONVERTERS[gather])
    assert DYNAMO_ATEN_CONVERTERS[gather] is before
