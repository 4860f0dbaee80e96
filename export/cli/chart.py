"""Draws measured latencies as bars: a group for each profile and memory, a bar for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LABELS = {
    "floor": "bare graph launch",
    "graphs": "graphs (default)",
    "enqueue": "no graphs",
    "single": "one switched context",
}


def draw(rows: Sequence[Mapping[str, Any]], path: Path, *, series: str, title: str) -> None:
    """Draws rows with `profile`, `io` and `median_us` to an image file.

    Args:
        rows: What was measured; one row for each profile, io and value of `series`.
        path: The image; its suffix says the format.
        series: The rows' entry that tells bars of a group apart, such as `mode` or `pattern`.
        title: Stands above.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys((row["io"], row["profile"]) for row in rows))
    names = list(dict.fromkeys(row[series] for row in rows))
    median = {(row["io"], row["profile"], row[series]): row["median_us"] for row in rows}
    figure, axes = plt.subplots(figsize=(9, 4.5))
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        keys = [(io, profile, name) for io, profile in groups]
        shift = (index - (len(names) - 1) / 2) * width
        places = [place + shift for place, key in enumerate(keys) if key in median]
        values = [median[key] for key in keys if key in median]
        bars = axes.bar(places, values, width, label=LABELS.get(name, name))
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), [f"{profile}\n{io} tensors" for io, profile in groups])
    axes.set_ylabel("median latency, µs (log)")
    axes.set_title(title)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
