"""`import executorch_tensorrt` is quick, and every public name is there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

PUBLIC_NAMES = [
    "CompileOptions",
    "Method",
    "OptimizationProfile",
    "Program",
    "RuntimeOptions",
    "TensorRTBackend",
    "TensorRTPartitioner",
    "build_progress",
    "explain",
    "export",
    "load",
    "optimization_profile",
    "register",
]
HEAVY = ["torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx", "executorch.exir"]


def in_fresh_interpreter(code: str) -> Any:
    """What `code`, run in a new process, leaves in `result`."""
    code += "\nimport json\nprint(json.dumps(result))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_nothing_but_the_standard_library() -> None:
    """Neither torch nor TensorRT, nor anything else that would make it slow."""
    loaded = in_fresh_interpreter(
        "import sys; before = set(sys.modules)\n"
        "import executorch_tensorrt\n"
        "result = list(set(sys.modules) - before)"
    )
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - sys.stdlib_module_names == {"executorch_tensorrt"}


def test_the_runtime_runs_without_torch() -> None:
    loaded = in_fresh_interpreter(
        "import sys, executorch_tensorrt\n"
        "executorch_tensorrt.register()\n"
        "executorch_tensorrt.load, executorch_tensorrt.RuntimeOptions()\n"
        "result = list(sys.modules)"
    )
    assert "executorch_tensorrt.runtime" in loaded
    assert not [name for name in loaded if name in HEAVY]


def test_all_lists_the_public_names() -> None:
    import executorch_tensorrt

    assert set(PUBLIC_NAMES) <= set(executorch_tensorrt.__all__)
    assert set(executorch_tensorrt.__all__) <= set(dir(executorch_tensorrt))


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    import executorch_tensorrt

    assert getattr(executorch_tensorrt, name).__doc__


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    import executorch_tensorrt

    with pytest.raises(AttributeError, match="no_such_name"):
        executorch_tensorrt.no_such_name  # noqa: B018


def test_the_import_name_of_the_function_export_is_not_shadowed_by_a_module() -> None:
    exported = in_fresh_interpreter(
        "import executorch_tensorrt._export\n"
        "import executorch_tensorrt\n"
        "result = callable(executorch_tensorrt.export)"
    )
    assert exported
