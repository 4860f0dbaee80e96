"""Lowers the models of tests/real_models.py and corner_models.py and tells what became of them.

    python tools/coverage.py [--only NAME ...] > docs/coverage.md

Needs no GPU, but `pip install --no-deps timm diffusers`. Each model's result is kept as a file in
build/coverage and not measured again unless `--only` names the model, so that the table can be made
in several goes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
os.environ["HF_HUB_OFFLINE"] = "1"

CALLS = 10  # a profile
HALF = {"torch.float16": 2e-2, "torch.bfloat16": 5e-2}
TOLERANCE = 1e-3


class Report(logging.Handler):
    """What the exporter says of partitions, reasons and engine builds."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.forget()

    def forget(self) -> None:
        self.taken = self.operators = self.partitions = 0
        self.reasons: list[str] = []
        self.build_seconds = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        said: Any = record.args
        if str(record.msg).startswith("TensorRT takes"):
            self.taken, self.operators, self.partitions = said
        elif str(record.msg).startswith("outside TensorRT"):
            self.reasons.append(said[0])
        elif str(record.msg).startswith("built an engine"):
            self.build_seconds += said[1]

    def __enter__(self) -> Report:
        logger = logging.getLogger("executorch_tensorrt")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("executorch_tensorrt").removeHandler(self)


def measured(maker: Any) -> dict[str, Any]:
    """A model's row, as far as it came."""
    from model_case import made
    from models import blobs

    from executorch_tensorrt import CompileOptions, export
    from executorch_tensorrt.backend.fallback_program import FallbackBuildError
    from executorch_tensorrt.runtime import TensorRTError

    row: dict[str, Any] = {}
    try:
        case = made(maker)
        profiles = case.optimization_profiles()
        traced = trace(case, profiles)
        with Report() as report:
            try:
                options = CompileOptions(cpu_fallback=True)
                program = export(traced, profiles=profiles, options=options)
            except FallbackBuildError as error:
                row["not_executed"] = one_line(error)
                report.forget()
                program = export(traced, profiles=profiles)
        row |= {
            "parameters": sum(value.numel() for value in case.model.parameters()),
            "partitions": report.partitions,
            "taken": report.taken,
            "operators": report.operators,
            "reasons": reasons(report),
            "build_seconds": round(report.build_seconds, 2),
            "plan_bytes": sum(len(blob.engine) for blob in blobs(program)),
        }
        if "not_executed" not in row:
            try:
                row |= worst_error(case, program.buffer)
            except TensorRTError as error:
                row["not_executed"] = one_line(error)
        alone = export(trace(case, profiles[-1:]), profiles=profiles[-1:])
        row["plan_bytes_of_one"] = sum(len(blob.engine) for blob in blobs(alone))
    except Exception:
        row["traceback"] = traceback.format_exc()
    return row


def one_line(error: Exception) -> str:
    return str(error).splitlines()[0].replace("|", "\\|")


def trace(case: Any, profiles: Any) -> Any:
    """The model's program, as `export` traces it."""
    import torch

    from executorch_tensorrt._export.dynamic_shapes import derive_dynamic_shapes

    inputs = derive_dynamic_shapes(case.model, case.example(), {}, profiles)
    with torch.no_grad():
        return torch.export.export(
            case.model, inputs.args, dynamic_shapes=inputs.dynamic_shapes, strict=False
        )


def reasons(report: Report) -> list[str]:
    """Operator and reason of what stayed outside, each once with its number."""
    counted: Counter[str] = Counter()
    for text in report.reasons:
        operator, reason = text.split(": ", 1)
        counted[f"{operator.split(' (')[0]}: {reason}"] += 1
    return [f"{count}x {text}" for text, count in counted.most_common()]


def worst_error(case: Any, program: bytes) -> dict[str, Any]:
    """The greatest difference from eager over all calls, beside the answer's greatest value."""
    import torch

    from executorch_tensorrt import load

    forward = load(program, device="cpu")["forward"]
    worst, wrong = 0.0, []
    for profile in case.profiles:
        for index in range(CALLS):
            inputs = case.inputs_of(profile, index)
            expected = [value for value in case.answers(inputs) if isinstance(value, torch.Tensor)]
            given = forward(*inputs, profile=profile)
            for number, (answer, right) in enumerate(zip(given, expected, strict=True)):
                error = difference(torch.as_tensor(answer), right)
                worst = max(worst, error)
                if error > HALF.get(str(right.dtype), TOLERANCE):
                    wrong.append(f"{profile} {index} output {number}: {error:.3g}")
    return {"worst_error": worst, "wrong": wrong}


def difference(answer: Any, right: Any) -> float:
    """Greatest absolute difference by the greatest absolute value, at least 1; inf: no match."""
    import torch

    if answer.dtype != right.dtype or answer.shape != right.shape:
        return float("inf")
    if not right.numel():
        return 0.0
    answer, right = answer.double(), right.double()
    same = (answer == right) | (answer.isnan() & right.isnan())
    error = torch.where(same, 0.0, (answer - right).abs()).max().item()
    if error != error:
        return float("inf")
    finite = right[right.isfinite()]
    return error / max(1.0, finite.abs().max().item() if finite.numel() else 1.0)


def results(
    folder: Path, cases: dict[str, Any], only: list[str], measure: bool
) -> dict[str, dict[str, Any]]:
    """Every model's row; those that are not there yet, or that `only` names, measured now."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name, maker in cases.items():
        path = folder / f"{name}.json"
        if name in only or (measure and not only and not path.exists()):
            started = time.perf_counter()
            row = measured(maker)
            path.write_text(json.dumps(row, indent=1))
            print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        if path.exists():
            rows[name] = json.loads(path.read_text())
    return rows


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| model | partitions | operators | build, s | plan, MB | one profile | worst error |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        if "traceback" in row:
            lines.append(f"| {name} | failed | | | | | |")
            continue
        share = f"{row['taken']} of {row['operators']}"
        error = "not executed"
        if "worst_error" in row:
            error = "wrong" if row["wrong"] else f"{row['worst_error']:.1e}"
        plan, one = (row.get(key, 0) / 1e6 for key in ("plan_bytes", "plan_bytes_of_one"))
        lines.append(
            f"| {name} | {row['partitions']} | {share} | {row['build_seconds']:.1f} "
            f"| {plan:.2f} | {one:.2f} | {error} |"
        )
    return lines


def outside(rows: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    for name, row in rows.items():
        for reason in row.get("reasons", ()):
            lines.append(f"- {name}: {reason}")
        if "not_executed" in row:
            lines.append(f"- {name}: not executed on the CPU: {row['not_executed']}")
    return lines or ["Nothing."]


def summary(rows: dict[str, dict[str, Any]], cases: dict[str, Any]) -> str:
    built = [row for row in rows.values() if "traceback" not in row]
    executed = [row for row in built if "worst_error" in row]
    return (
        f"{len(rows)} models of {len(cases)} measured: "
        f"{sum(row['partitions'] == 1 for row in built)} in one partition, {len(built)} built, "
        f"{len(executed)} executed, {sum(bool(row['wrong']) for row in executed)} with wrong "
        f"answers, {len(rows) - len(built)} failed."
    )


def document(real: dict[str, Any], corner: dict[str, Any]) -> str:
    import corner_models
    import real_models

    from executorch_tensorrt.backend.tensorrt_import import import_tensorrt

    tensorrt = import_tensorrt()
    version = ".".join(map(str, tensorrt.version))
    parts = [
        "# Coverage",
        (
            "Made by `python tools/coverage.py > docs/coverage.md`, on a machine without a GPU, "
            f"with {tensorrt.flavour.name.lower().replace('_', '-')} {version}. All models have "
            "random weights and most a small configuration; each is exported with two profiles, "
            "such as decode and prefill."
        ),
        (
            "- **operators**: how many of those that compute a tensor are in engines.\n"
            "- **plan**: the engines' size with both profiles; **one profile**: with the larger "
            "alone. TensorRT-RTX packs weights for each profile.\n"
            "- **worst error**: of the CPU fallback against eager PyTorch, over ten shapes of each "
            "profile: the greatest difference of any output beside its greatest absolute value (at "
            "least 1)."
        ),
        "## Models that people use",
        summary(real, real_models.CASES),
        "\n".join(table(real)),
        "### What stayed outside, and why",
        "\n".join(outside(real)),
        "## Corner cases",
        "Operators and borders that are hard, made by hand; some hold what no engine can have.",
        summary(corner, corner_models.CASES),
        "\n".join(table(corner)),
        "### What stayed outside of those, and why",
        "\n".join(outside(corner)),
    ]
    return "\n\n".join(parts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments.add_argument("--measured", action="store_true", help="tell of what there is, now")
    arguments.add_argument("--results", type=Path, default=ROOT / "build/coverage")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")

    import corner_models
    import real_models

    unknown = set(given.only) - set(real_models.CASES) - set(corner_models.CASES)
    if unknown:
        raise SystemExit(f"no model is named {', '.join(sorted(unknown))}")
    with contextlib.redirect_stdout(sys.stderr):  # libraries print there, too
        found = [
            results(given.results, module.CASES, given.only, not given.measured)
            for module in (real_models, corner_models)
        ]
    print(document(*found))


if __name__ == "__main__":
    main()
