"""Exports a transformer with two profiles, decode and prefill; compares what ran with eager.

python export_multi_profile.py model.pte [--dtype float16]
python export_multi_profile.py --compare <folder that multi_profile_main wrote> [--dtype float16]

float32 gets a CPU fallback; the others do not: ExecuTorch 1.5.1 gets their layer normalization
wrong on the CPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import executorch_tensorrt as ett

WIDTH = 256
# The input is [batch, sequence, width]; each entry a size, or (min, opt, max).
PROFILES = [
    ett.OptimizationProfile("decode", {"src": [1, 1, WIDTH]}),
    ett.OptimizationProfile("prefill", {"src": [1, (2, 128, 512), WIDTH]}),
]
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Of the answers, which layer normalization keeps near 1; float32 leaves room for TF32 on a GPU.
TOLERANCE = {"float32": 5e-3, "float16": 2e-2, "bfloat16": 1e-1}


def make_model(dtype: torch.dtype) -> torch.nn.Module:
    """Four encoder layers, always with the same weights."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=1024, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval().to(dtype)


def export(path: Path, dtype: torch.dtype) -> None:
    program = ett.export(
        make_model(dtype),
        (torch.randn(1, 8, WIDTH, dtype=dtype),),
        profiles=PROFILES,
        options=ett.CompileOptions(cpu_fallback=dtype == torch.float32),
    )
    program.save(str(path))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def compare(folder: Path, dtype: torch.dtype, tolerance: float) -> None:
    """Raises AssertionError unless each profile's output is eager PyTorch's, within `tolerance`."""
    model = make_model(dtype)
    for profile in PROFILES:

        def read(name: str, profile: str = profile.name) -> torch.Tensor:
            data = bytearray((folder / f"{profile}.{name}").read_bytes())
            return torch.frombuffer(data, dtype=dtype).view(1, -1, WIDTH)

        with torch.no_grad():
            expected = model(read("input.0"))
        error = (read("output.0").float() - expected.float()).abs().max().item()
        print(f"{profile.name}: largest difference from eager {error:.1e}")
        # Written so that NaN does not pass.
        assert error <= tolerance, f"{profile.name}: {error:.1e}, of which {tolerance:.0e} is right"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="?", type=Path, help="the .pte to write")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--compare", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    dtype = DTYPES[arguments.dtype]
    if (arguments.path is None) == (arguments.compare is None):
        parser.error("give a path to write or --compare FOLDER")
    if arguments.path is not None:
        export(arguments.path, dtype)
    else:
        compare(arguments.compare, dtype, TOLERANCE[arguments.dtype])


if __name__ == "__main__":
    main()
