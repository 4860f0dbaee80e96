"""Draws what profile_switching measured: latency by profile, mode and where the tensors lie.

python benchmarks/chart.py RESULT.json CHART.png [--pattern alternating] [--title TEXT]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

MODES = ("floor", "graphs", "enqueue", "single")
LABELS = {
    "floor": "bare graph launch",
    "graphs": "graphs (default)",
    "enqueue": "no graphs",
    "single": "one switched context",
}


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

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys((row["io"], row["profile"]) for row in rows))
    median = {(row["io"], row["profile"], row["mode"]): row["median_us"] for row in rows}
    figure, axes = plt.subplots(figsize=(9, 4.5))
    width = 0.8 / len(MODES)
    for index, mode in enumerate(MODES):
        values = [median[(*group, mode)] for group in groups]
        places = [place + (index - 1.5) * width for place in range(len(groups))]
        bars = axes.bar(places, values, width, label=LABELS[mode])
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), [f"{profile}\n{io} tensors" for io, profile in groups])
    axes.set_ylabel("median latency, µs (log)")
    axes.set_title(arguments.title or f"{arguments.result.stem}: {arguments.pattern}")
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(arguments.chart, dpi=120)


if __name__ == "__main__":
    main()
