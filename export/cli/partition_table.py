"""A partition report as tables."""

from __future__ import annotations

from executorch_tensorrt.backend.partition_report import MethodReport

from .console import line, table

MAX_PLACES = 3


def show_report(method: str, report: MethodReport) -> None:
    """Prints what TensorRT took of a method, its largest partitions, and why not the rest."""
    total = report.taken + report.left
    if not report.partitions:
        line(f"method {method}: TensorRT takes none of its operators", style="bold yellow")
        return
    line(
        f"method {method}: TensorRT takes {report.taken} of {total} operators "
        f"in {_count(len(report.partitions), 'partition')}",
        style="bold",
    )
    if len(report.partitions) > 1:
        table(
            ("partition", "operators", "most frequent"),
            [
                (index, sum(operators.values()), _most_frequent(dict(operators)))
                for index, operators in report.largest()
            ],
            title="largest partitions",
        )
    show_outside(report)


def show_outside(report: MethodReport) -> None:
    """Prints what is outside TensorRT, and why."""
    if not report.outside:
        return
    rows = []
    for item in report.outside:
        places = ", ".join(item.sources[:MAX_PLACES])
        if len(item.sources) > MAX_PLACES:
            places += f" and {len(item.sources) - MAX_PLACES} more"
        name = f"{item.operator} (size)" if item.is_size else item.operator
        rows.append((name, item.count, item.reason or "not recorded", places))
    table(("outside TensorRT", "calls", "why", "where in the model"), rows)


def _most_frequent(operators: dict[str, int]) -> str:
    most = sorted(operators.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} x{count}" for name, count in most)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
