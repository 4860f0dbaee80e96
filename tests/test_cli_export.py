"""`export` builds programs that run; TensorRT builds for real."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import QUICKSTART, ROOT, in_process, invoke, refused, succeeds
from models import GraphBreak, seeded
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt._export import lowering
from executorch_tensorrt._export.cli.errors import BAD_ARGUMENT
from executorch_tensorrt._export.pte.program import read_program

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, scale):
        return self.linear(x) * scale

model = Model()
example_inputs = {"x": torch.ones(2, 8), "scale": torch.ones(1, 8)}

def twice():
    return nn.Dropout(), lambda: None

def broken():
    raise OSError("no weights here")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_two_profile_program_comes_out_and_runs(folder: Path) -> None:
    config = ROOT / "examples/quickstart/export.toml"
    result = invoke("export", QUICKSTART, "--config", config, "-o", "tiny.pte")
    assert result.exit_code == 0, result.output
    assert "TensorRT takes" in result.stdout
    assert "wrote tiny.pte" in result.stdout
    assert "building an engine" in result.stderr
    method = ett.load("tiny.pte", device="cpu")["forward"]
    assert method.profiles == ["decode", "prefill"]
    (logits,) = method(torch.zeros(1, 100, dtype=torch.long))
    assert logits.shape == (1, 100, 1000)
    assert stat.S_IMODE(Path("tiny.pte").stat().st_mode) & 0o044  # others may read it


def test_inputs_by_name_a_module_and_the_default_file(folder: Path) -> None:
    shown = succeeds("export", "own_model.py:model", "--cpu-fallback", "--profile", "one:x=2x8")
    assert "wrote own_model.pte" in shown
    assert succeeds("run", "own_model.pte", "--device", "cpu", "--profile", "one")
    assert [path.name for path in folder.glob(".unfinished*")] == []


def test_arguments_go_before_the_file(folder: Path) -> None:
    Path("a.toml").write_text("[profiles.a]\nx = [2, 8]\n[options]\ncpu_fallback = true\n")
    succeeds("export", "own_model.py:model", "-q", "--config", "a.toml", "--no-cpu-fallback")
    (method,) = read_program(Path("own_model.pte").read_bytes()).methods
    assert method.profiles == ("a",)
    assert method.delegates[0].blob is not None
    assert method.delegates[0].blob.fallback is None
    succeeds("export", "own_model.py:model", "-q", "--config", "a.toml", "--profile", "b:x=2x8")
    assert read_program(Path("own_model.pte").read_bytes()).methods[0].profiles == ("b",)


def test_a_saved_program_is_exported_and_says_what_stays_outside(folder: Path) -> None:
    dynamic = {"x": {0: Dim("batch", min=1, max=16)}}
    program = torch.export.export(seeded(GraphBreak), (torch.randn(4, 8),), dynamic_shapes=dynamic)
    torch.export.save(program, folder / "saved.pt2")
    shown = succeeds("export", "saved.pt2", "--profile", "any:x=1..4..16x8")
    assert "largest partitions" in shown
    assert "aten.cumsum.default" in shown
    assert "dtype torch.float64" in shown
    assert Path("saved.pte").is_file()


def test_a_profile_that_does_not_fit_the_model_is_named_and_writes_nothing(folder: Path) -> None:
    output = refused(BAD_ARGUMENT, "export", "own_model.py:model", "--profile", "a:y=1x8")
    assert "profile 'a', input 'y': the model has no such tensor input; it has x, scale" in output
    assert not list(folder.glob("*.pte"))


def test_code_that_fails_is_named_with_its_line(folder: Path) -> None:
    output = refused(1, "export", "own_model.py:broken")
    assert "OSError: no weights here" in output
    assert "own_model.py:20" in output
    assert "example inputs must be a tuple" in refused(BAD_ARGUMENT, "export", "own_model.py:twice")


def test_a_failed_write_leaves_what_was_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_model.pte").write_text("before")
    real = lowering.ExecutorchProgramManager.save

    def fail(self: Any, path: str) -> None:
        real(self, path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lowering.ExecutorchProgramManager, "save", fail)
    output = refused(1, "export", "own_model.py:model")
    assert "No space left on device" in output
    assert Path("own_model.pte").read_text() == "before"
    assert not list(folder.glob(".unfinished*"))


def test_a_model_is_exported_in_eval_mode(folder: Path) -> None:
    Path("mlp.py").write_text(
        "from torch import nn, ones\nmodel = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.9))\n"
        "example_inputs = lambda: (ones(1, 8),)\n"
    )
    result = invoke("export", "mlp.py:model", "--cpu-fallback")
    assert result.exit_code == 0
    assert "training mode" not in result.output
    method = ett.load("mlp.pte", device="cpu")["forward"]
    first, second = (method(torch.ones(1, 8))[0] for _ in range(2))
    assert torch.equal(first, second)


def test_a_model_that_tensorrt_takes_nothing_of_says_so_and_why(folder: Path) -> None:
    Path("double.py").write_text(
        "import torch\n\nclass Double(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * 2.0\n\nmodel = Double()\n"
        "example_inputs = (torch.ones(2, dtype=torch.float64),)\n"
    )
    result = invoke("export", "double.py:model")
    assert result.exit_code == 0
    assert "TensorRT takes none of its operators" in result.stdout
    assert "dtype torch.float64" in result.output


def test_a_model_in_a_module_is_exported_from_a_shell(folder: Path) -> None:
    done = in_process("export", "own_model:model", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert Path("own_model.pte").is_file()
