"""Draws what profile_switching measured: latency by profile, mode and where the tensors lie.

python benchmarks/chart.py RESULT.json CHART.png [--pattern alternating] [--title TEXT]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from executorch_tensorrt._export.cli.chart import draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("chart", type=Path)
    parser.add_argument("--pattern", default="alternating")
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    rows = [
        row
        for row in json.loads(arguments.result.read_text())
        if row["pattern"] == arguments.pattern
    ]
    if not rows:
        parser.error(f"{arguments.result} has no row of pattern {arguments.pattern!r}")
    title = arguments.title or f"{arguments.result.stem}: {arguments.pattern}"
    draw(rows, arguments.chart, series="mode", title=title)


if __name__ == "__main__":
    main()
