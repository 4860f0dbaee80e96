"""Exports small models, with inputs and eager PyTorch's answers, for test_gpu_models.py.

    python tests/make_model_cases.py FOLDER [CASE ...]

Needs no GPU; what it writes is carried to a machine with one. A case is a folder: program.pte.xz
(an engine of a small model is mostly its profiles' kernels, and packs well), and calls.pt, a list
of (profile's name, inputs, outputs). Without names it makes all but `LARGE`.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corner_models
import operator_models
import quantized_models
import real_models
import shape_models
import torch
from model_case import made
from models import seeded
from torch.utils import _pytree as pytree

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions

CALLS = 10  # a profile
# Cases with little that the others have not, for what they weigh.
LARGE = {
    "resnet",
    "mobilenet",
    "efficientnet",
    "lraspp",
    "timm_mobilevit",
    "timm_repghostnet",
    "resizes",
}
# Of a written buffer the program has one, and eager PyTorch another.
WITHOUT_ANSWERS = {"random_numbers", "written_buffer"}

Call = tuple[str, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]


def save(folder: Path, program: bytes, calls: Sequence[Call]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pte.xz").write_bytes(lzma.compress(program, preset=1))
    torch.save(calls, folder / "calls.pt")


def model(folder: Path, maker: Any, **options: Any) -> None:
    case = made(maker)
    program = ett.export(
        case.model,
        case.example(),
        profiles=case.optimization_profiles(),
        options=CompileOptions(**options),
    )
    calls = []
    for profile in case.profiles:
        for index in range(CALLS):
            inputs = case.inputs_of(profile, index)
            calls.append((profile, inputs, tuple(case.answers(inputs))))
    save(folder, program.buffer, calls)


def shapes(folder: Path, case: shape_models.Case) -> None:
    program = shape_models.exported(case, CompileOptions())
    calls = []
    for profile, sizes in case.sizes.items():
        for size in sizes:
            args, kwargs = case.inputs(*size)
            inputs = tuple(pytree.tree_leaves((args, kwargs)))
            answer = seeded(case.model)(*args, **kwargs).detach()
            calls.append((profile, inputs, (answer,)))
    save(folder, program.buffer, calls)


MODELS = {
    **real_models.CASES,
    **corner_models.CASES,
    **operator_models.CASES,
    **quantized_models.CASES,
}
SHAPES = {f"shapes_{name}": case for name, case in shape_models.CASES.items()}
STREAMED = "streamed_llama"


def make(name: str, folder: Path) -> None:
    if name in SHAPES:
        shapes(folder, SHAPES[name])
    elif name == STREAMED:
        model(folder, MODELS["llama"], weight_streaming=True)
    else:
        model(folder, MODELS[name])


def main() -> None:
    folder = Path(sys.argv[1])
    every = [*MODELS, *SHAPES, STREAMED]
    names = sys.argv[2:] or [name for name in every if name not in LARGE | WITHOUT_ANSWERS]
    for name in names:
        make(name, folder / name)
        size = sum(path.stat().st_size for path in (folder / name).iterdir())
        print(f"{name}: {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
