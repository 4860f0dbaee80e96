"""Installs the built wheel away from the source tree and runs a program through it there.

    python .ci/check_wheel.py <folder with one wheel>

The environment that runs this exports the program; a new one, which holds the wheel and
ExecuTorch, but neither PyTorch nor TensorRT, nor this source tree, loads it and runs it.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

EXPORT = """
import sys, numpy, torch
import executorch_tensorrt as ett
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
x = torch.randn(3, 5, 8)
program = ett.export(
    model,
    (x,),
    profiles=[
        ett.OptimizationProfile("one", {"src": [1, 5, 8]}),
        ett.OptimizationProfile("many", {"src": [(2, 8, 64), 5, 8]}),
    ],
    options=ett.CompileOptions(cpu_fallback=True),
)
folder = sys.argv[1]
program.save(folder + "/model.pte")
numpy.savez(folder + "/expected.npz", x=x.numpy(), y=model(x).detach().numpy())
"""

RUN = """
import sys, numpy
import executorch_tensorrt as ett
folder = sys.argv[1]
expected = numpy.load(folder + "/expected.npz")
forward = ett.load(folder + "/model.pte", device="cpu")["forward"]
(y,) = forward(expected["x"])
numpy.testing.assert_allclose(y, expected["y"], atol=1e-5)
assert forward.last_profile == "many", forward.last_profile
with ett.optimization_profile("one"):
    (y,) = forward(expected["x"][:1])
numpy.testing.assert_allclose(y, expected["y"][:1], atol=1e-5)
assert forward.last_profile == "one", forward.last_profile
assert "torch" not in sys.modules
print("ran", ett.__file__)
"""


def only_wheel(folder: Path) -> Path:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{folder} must hold one wheel, has {[w.name for w in wheels]}")
    return wheels[0]


def check_contents(wheel: Path) -> None:
    """The wheel has the library, the binding and the headers, and no C++ sources."""
    names = zipfile.ZipFile(wheel).namelist()
    for part in (
        "executorch_tensorrt/lib/libexecutorch_tensorrt.so",
        "executorch_tensorrt/runtime/_runtime.",
        "executorch_tensorrt/include/executorch_tensorrt/optimization_profile_guard.h",
        "executorch_tensorrt/lib/cmake/executorch_tensorrt/executorch_tensorrt-config.cmake",
        "executorch_tensorrt/backend/__init__.py",
        "executorch_tensorrt/_export/__init__.py",
        "executorch_tensorrt/_export/cli/main.py",
        "executorch_tensorrt/py.typed",
    ):
        if not any(name.startswith(part) for name in names):
            raise SystemExit(f"{wheel.name} lacks {part}")
    stray = [
        n for n in names if n.endswith((".cpp", ".pyc")) or "/cpp/" in n or n.startswith("lib/")
    ]
    if stray:
        raise SystemExit(f"{wheel.name} holds what it should not: {stray}")


def make_environment(folder: Path, wheel: Path) -> Path:
    """A virtual environment with the wheel, this one's ExecuTorch and NumPy, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--target", site, wheel], check=True)
    for name in ("executorch", "numpy"):
        for top in {f.parts[0] for f in importlib.metadata.files(name) or () if f.parts[0] != ".."}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(source)
    return folder / "bin" / "python"


def main() -> None:
    wheel = only_wheel(Path(sys.argv[1])).resolve()
    check_contents(wheel)
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        subprocess.run([sys.executable, "-c", EXPORT, work], cwd=work, env=clean, check=True)
        python = make_environment(work / "venv", wheel)
        subprocess.run([python, "-I", "-c", RUN, work], cwd=work, env=clean, check=True)
    print(f"{wheel.name}: installed and ran")


if __name__ == "__main__":
    main()
