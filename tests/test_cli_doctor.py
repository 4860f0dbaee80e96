"""`doctor` on this machine, and on others that are not as they should be."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import in_process, invoke, refused, succeeds

from executorch_tensorrt._export.cli import doctor_checks
from executorch_tensorrt._export.cli.nvidia_libraries import VARIABLE, Gpu, Library, find_tensorrt


def findings() -> dict[str, dict[str, str]]:
    return {item["what"]: item for item in json.loads(invoke("doctor", "--json").stdout)}


def test_it_finds_what_is_installed_here() -> None:
    shown = succeeds("doctor")
    assert "ok       executorch: 1.5" in shown
    assert "ok       ExecuTorch registration: TensorRTBackend is registered" in shown
    assert f"ok       torch: {importlib.metadata.version('torch')}" in shown


def test_it_finds_the_tensorrt_library_where_it_is_with_its_version() -> None:
    (rtx,) = [library for library in find_tensorrt() if library.flavour == "TensorRT-RTX"]
    assert Path(rtx.path).is_file()
    assert rtx.text_version == importlib.metadata.version("tensorrt-rtx")
    assert findings()["TensorRT-RTX library"]["status"] == "ok"


def test_the_variable_names_the_library_that_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "libnvinfer.so.11"))
    (library,) = find_tensorrt()
    assert "cannot open shared object file" in library.error
    finding = findings()["TensorRT library"]
    assert finding["status"] == "warning"
    assert VARIABLE in finding["found"]
    assert "pip install" in finding["fix"]


@pytest.mark.parametrize(
    ("flavour", "version", "built_for", "calls"),
    [
        ("TensorRT-RTX", (1, 6, 1, 120), "11.1.0", True),
        ("TensorRT-RTX", (1, 4, 0, 0), "11.1.0", False),
        ("TensorRT-RTX", (1, 6, 1, 120), "10.13.0", False),
        ("TensorRT", (11, 0, 0, 0), "11.1.0", True),
        ("TensorRT", (10, 9, 0, 0), "11.1.0", False),
        ("TensorRT", (10, 1, 0, 0), "10.13.0", True),
        ("TensorRT", (10, 0, 1, 0), "10.13.0", False),
        ("TensorRT", (11, 1, 0, 0), "", False),
    ],
)
def test_a_library_is_held_against_what_the_build_calls(
    flavour: str, version: tuple[int, ...], built_for: str, calls: bool
) -> None:
    assert doctor_checks._is_callable(Library(flavour, "lib.so", version), built_for) is calls


def test_without_a_driver_it_warns_and_says_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "cuda_driver_version", lambda: None)
    monkeypatch.setattr(doctor_checks, "kernel_driver_version", lambda: None)
    finding = findings()["NVIDIA driver"]
    assert finding["status"] == "warning"
    assert "CPU fallback" in finding["fix"]
    assert "NVIDIA driver" in refused(1, "doctor", "--strict")
    monkeypatch.setattr(doctor_checks, "kernel_driver_version", lambda: "580.95")
    assert "docker run --gpus all" in findings()["NVIDIA driver"]["fix"]


def test_a_driver_older_than_the_packages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "cuda_driver_version", lambda: (12, 4))
    monkeypatch.setattr(doctor_checks, "_cuda_of_packages", lambda: 13)
    monkeypatch.setattr(doctor_checks, "gpus", lambda: [Gpu(0, "Tesla V100", (7, 0), 16 * 10**9)])
    found = findings()
    assert "packages here are for CUDA 13" in found["NVIDIA driver"]["fix"]
    assert found["GPU 0"]["found"] == "Tesla V100, compute capability 7.0, 16.0 GB"
    assert "Ampere" in found["GPU 0"]["fix"]


def test_a_gpu_that_is_new_enough_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "cuda_driver_version", lambda: (13, 0))
    monkeypatch.setattr(doctor_checks, "gpus", lambda: [Gpu(0, "NVIDIA H200", (9, 0), 150 * 10**9)])
    found = findings()
    assert found["NVIDIA driver"]["status"] == found["GPU 0"]["status"] == "ok"


def test_an_executorch_of_another_version_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        return "1.7.0" if name == "executorch" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    finding = findings()["executorch"]
    assert finding["status"] == "problem"
    assert finding["found"].startswith("1.7.0; ")
    assert "<1.6" in finding["found"]
    assert "pip install 'executorch" in finding["fix"]
    assert "executorch" in refused(1, "doctor")


def test_without_torch_tensorrt_it_says_that_exporting_is_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = importlib.metadata.version

    def version(name: str) -> Any:
        if name.startswith("torch-tensorrt"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    finding = findings()["Torch-TensorRT"]
    assert finding["status"] == "warning"
    assert "executorch-tensorrt[rtx]" in finding["fix"]


@pytest.mark.parametrize("headers", ["", "11.1.0"])
def test_a_build_without_an_engine_is_told(headers: str) -> None:
    check = doctor_checks._built_for(headers)
    assert check.status == ("ok" if headers else "warning")
    assert bool(check.fix) is not bool(headers)


def test_a_library_that_does_not_load_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    # As where executorch was replaced by a version that this one was not built against.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['executorch_tensorrt.runtime._runtime'] = None\n"
    )
    done = in_process("doctor", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "problem  ExecuTorch registration: " in done.stdout
    assert "Traceback" not in done.stderr
