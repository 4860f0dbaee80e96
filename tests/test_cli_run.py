"""`run` and `bench` on programs with a CPU fallback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import in_process, refused, succeeds

from executorch_tensorrt._export.cli import bench_command
from executorch_tensorrt._export.cli.errors import BAD_ARGUMENT, DAMAGED, DIFFERENT


@pytest.fixture
def model(transformer_pte: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    path.write_bytes(transformer_pte)
    return path


def test_run_shows_profile_outputs_and_time(model: Path) -> None:
    shown = succeeds("run", model, "--device", "cpu", "--repeat", 2)
    assert "method forward, profile decode" in shown
    assert "1 x 1 x 50" in shown
    assert "median of 2" in shown


def test_a_pinned_profile_runs_with_its_opt_shapes(model: Path) -> None:
    shown = succeeds("run", model, "--device", "cpu", "--profile", "prefill")
    assert "profile prefill" in shown
    assert "1 x 16 x 50" in shown


def test_shapes_can_be_given(model: Path) -> None:
    shown = succeeds("run", model, "--device", "cpu", "--shape", "tokens=2x9")
    assert "profile prefill" in shown
    assert "2 x 9 x 50" in shown


def test_inputs_and_expected_outputs_come_from_files(
    model: Path, transformer: Any, tmp_path: Path
) -> None:
    tokens = torch.randint(0, 50, (1, 7))
    np.savez(tmp_path / "in.npz", tokens=tokens.numpy())
    with torch.no_grad():
        np.savez(tmp_path / "out.npz", output_0=transformer(tokens).numpy())
    arguments = ["run", model, "--device", "cpu", "--inputs", tmp_path / "in.npz"]
    shown = succeeds(*arguments, "--expect", tmp_path / "out.npz", "--save", tmp_path / "got.npz")
    assert "as expected" in shown
    with np.load(tmp_path / "got.npz") as got:
        assert got["output_0"].shape == (1, 7, 50)

    np.savez(tmp_path / "out.npz", transformer(tokens).detach().numpy() + 1)
    output = refused(DIFFERENT, *arguments, "--expect", tmp_path / "out.npz")
    assert "350 of 350 values are outside" in output
    np.savez(tmp_path / "out.npz", np.zeros((1, 7, 49)))
    output = refused(DIFFERENT, *arguments, "--expect", tmp_path / "out.npz")
    assert "shape [1, 7, 50], expected [1, 7, 49]" in output


def test_a_tolerance_decides_what_is_expected(model: Path, tmp_path: Path) -> None:
    arguments = ["run", model, "--device", "cpu", "--seed", 3]
    succeeds(*arguments, "--save", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as saved:
        np.savez(tmp_path / "off.npz", output_0=saved["output_0"] + 0.01)
    refused(DIFFERENT, *arguments, "--expect", tmp_path / "off.npz")
    succeeds(*arguments, "--expect", tmp_path / "off.npz", "--atol", 0.02)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "encode"), "--method: the program has no 'encode'; it has forward"),
        (("--profile", "middle"), "has no 'middle'; it has decode, prefill"),
        (("--shape", "tokens=1xn"), "--shape tokens=1xn: a shape is"),
        (("--shape", "mask=1x2"), "--shape: method 'forward' has no input 'mask'; it has 'tokens'"),
        (("--shape", "tokens=9x9"), "tokens"),
        (("--shape", "tokens=1x9", "--profile", "decode"), "decode"),
        (("--integers", "9"), "--integers 9: bounds are LEAST..GREATEST"),
        (("--device", "tpu"), "tpu"),
    ],
)
def test_a_wrong_argument_of_run_is_named(
    arguments: tuple[str, ...], said: str, model: Path
) -> None:
    device = () if "--device" in arguments else ("--device", "cpu")
    assert said in refused(BAD_ARGUMENT, "run", model, *device, *arguments)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "input 'tokens' is missing"),
        ({"words": np.zeros((1, 2), np.int64)}, "no input 'words'; it has 'tokens'"),
        ({"tokens": np.zeros((1, 2), np.float32)}, "'tokens' is float32, input 'tokens' is int64"),
    ],
)
def test_inputs_that_do_not_fit_are_named(
    arrays: dict[str, Any], said: str, model: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    output = refused(BAD_ARGUMENT, "run", model, "--inputs", tmp_path / "in.npz")
    assert said in output
    (tmp_path / "in.npz").write_text("not one")
    assert "is no .npz" in refused(BAD_ARGUMENT, "run", model, "--inputs", tmp_path / "in.npz")


def test_a_program_that_cannot_run_here_exits_with_1_and_points_at_the_doctor(model: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    output = refused(1, "run", model, "--device", "cuda:0")
    assert "executorch-tensorrt doctor" in output


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_file_that_is_no_program_exits_with_3_from_a_shell(command: str, tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_text("not one, though long enough")
    done = in_process(command, "model.pte", cwd=tmp_path)
    assert done.returncode == DAMAGED
    assert done.stderr.startswith("executorch-tensorrt: model.pte: this is no ExecuTorch program")
    assert "Traceback" not in done.stderr


def test_bench_tells_staying_from_alternating(model: Path, tmp_path: Path) -> None:
    chart = tmp_path / "chart.png"
    shown = succeeds("bench", model, "--device", "cpu", "--rounds", 3, "--chart", chart)
    for text in ("decode", "prefill", "1x16", "staying", "alternating", "ratio"):
        assert text in shown
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_bench_prints_json_alone(model: Path) -> None:
    arguments = ["--device", "cpu", "--rounds", 2, "--mode", "graphs", "--mode", "single", "--json"]
    rows = json.loads(succeeds("bench", model, *arguments))
    assert [(row["pattern"], row["mode"], row["profile"]) for row in rows] == [
        (pattern, mode, profile)
        for pattern in ("staying", "alternating")
        for mode in ("graphs", "single")
        for profile in ("decode", "prefill")
    ]
    for row in rows:
        assert 0 < row["median_us"] <= row["p99_us"]
        assert row["io"] == "host"
        assert row["device"] == "cpu"


def test_bench_of_one_profile_has_nothing_to_alternate_with(model: Path) -> None:
    arguments = ["--device", "cpu", "--rounds", 2, "--profile", "decode"]
    shown = succeeds("bench", model, *arguments)
    assert "alternating" not in shown
    assert "prefill" not in shown


def test_a_wrong_argument_of_bench_is_named(model: Path) -> None:
    assert "has no 'middle'" in refused(BAD_ARGUMENT, "bench", model, "--profile", "middle")
    output = refused(BAD_ARGUMENT, "bench", model, "--device", "cpu", "--tensors", "device")
    assert "--tensors device: that takes PyTorch with CUDA" in output


def test_what_is_measured_is_each_call_in_its_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def recorder(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    monkeypatch.setattr(bench_command, "BLOCK", 2)
    runs = {"graphs": [recorder("a"), recorder("b")]}
    rows = bench_command.measure(runs, ["one", "two"], rounds=3, warmup=1, base={"io": "host"})
    # Warm-up, then a block of two and one of one: the first of each stay is not measured.
    assert "".join(called) == "ab" + "aaabbb" + "abab" + "aabb" + "ab"
    assert [row["profile"] for row in rows] == ["one", "two", "one", "two"]
