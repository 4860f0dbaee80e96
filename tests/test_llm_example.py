"""examples/llm, as it stands, through the CPU fallback."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples/llm"


def run(
    script: str, folder: Path, *arguments: str, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLE / script), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONWARNINGS": "ignore"} | ({"PYTHONPATH": str(path)} if path else {}),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture
def without_exporters(tmp_path: Path) -> Path:
    """For PYTHONPATH: in the place of packages that only exporting needs."""
    folder = tmp_path / "path"
    folder.mkdir()
    for package in ("torch_tensorrt", "tensorrt", "tensorrt_rtx"):
        (folder / f"{package}.py").write_text(f"raise ImportError('no {package} here')")
    return folder


def test_it_generates_eager_pytorchs_tokens_and_says_how_fast(
    tmp_path: Path, without_exporters: Path
) -> None:
    small = ("--device", "cpu", "--prompt", "20", "--tokens", "30")
    for path in (None, without_exporters):  # the second runs what the first exported
        done = run("generate.py", tmp_path, *small, path=path)
        assert done.returncode == 0, done.stderr
        assert "8 states" in done.stdout
        assert "prefill: 20 tokens" in done.stdout
        assert "decode:  30 tokens" in done.stdout
        assert "the same tokens as eager PyTorch" in done.stdout
    again = run("generate.py", tmp_path, "--device", "cpu", "--prompt", "0")
    assert again.returncode == 2
    assert "--prompt must be 1 to 256, not 0" in again.stderr


def test_tokens_that_are_not_eager_pytorchs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    generate, model = importlib.import_module("generate"), importlib.import_module("model")
    decoder = generate.make_model(model.Config(layers=1, rows=32))
    prompt = torch.arange(4).unsqueeze(0)
    with torch.no_grad():
        tokens, _, _ = generate.generate(decoder, prompt, 5)
    assert generate.shortfall(decoder, prompt, tokens) == 0
    for index in range(5):
        other = [*tokens[:index], (tokens[index] + 1) % 512, *tokens[index + 1 :]]
        assert generate.shortfall(decoder, prompt, other) > generate.TOLERANCE


def test_the_benchmark_compares_a_state_with_a_cache_that_the_caller_passes(
    tmp_path: Path, without_exporters: Path
) -> None:
    programs = ("--folder", "programs", "--device", "cpu")
    exported = run(
        "benchmark.py", tmp_path, *programs, "--layers", "1", "--rows", "64", "--export-only"
    )
    assert exported.returncode == 0, exported.stderr
    short = (*programs, "--prompt", "16", "--tokens", "8", "--rounds", "1", "--json", "rows.json")
    done = run("benchmark.py", tmp_path, *short, path=without_exporters)
    assert done.returncode == 0, done.stderr
    owned, passed = json.loads((tmp_path / "rows.json").read_text())
    assert owned["cache"] == "a state, tokens in host memory"
    assert passed["cache"] == "passed, all in host memory"
    assert owned["decode_ratio"] == 1
    for row in (owned, passed):
        assert min(row["prefill_tokens_per_s"], row["decode_tokens_per_s"]) > 0
        assert f"decode_us {row['decode_us']}" in done.stdout
    many = run("benchmark.py", tmp_path, *programs, "--prompt", "16", "--tokens", "50")
    assert many.returncode == 2
    assert "16 + 50 tokens" in many.stderr
