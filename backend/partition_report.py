"""What TensorRT took of each method, and why not the rest; imports neither torch nor TensorRT.

The partitioner writes a method's report into its first delegate's compile specs, so that a `.pte`
can be asked for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PARTITION_REPORT_KEY = "partition_report"

MAX_SHOWN = 5


@dataclass(frozen=True)
class Outside:
    """One operator that stays outside TensorRT for one reason.

    Attributes:
        operator: Its name in the lowered program, such as `aten.cumsum.default`.
        reason: Why TensorRT does not take it; "" where the program does not say.
        nodes: Names of the graph's nodes it is at.
        sources: Where in the model it was called, such as `blocks.0 (model.py:12)`; may be empty.
        is_size: It computes a size or a check, and no tensor.
    """

    operator: str
    reason: str
    nodes: tuple[str, ...]
    sources: tuple[str, ...] = ()
    is_size: bool = False

    @property
    def count(self) -> int:
        """How often it is there."""
        return len(self.nodes)


@dataclass(frozen=True)
class MethodReport:
    """What TensorRT takes of one method.

    Attributes:
        partitions: For each partition, in the program's order, its operators and how often each.
        outside: What stays outside, most frequent first.
    """

    partitions: tuple[Mapping[str, int], ...]
    outside: tuple[Outside, ...]

    @property
    def taken(self) -> int:
        """Operators (that compute a tensor) inside engines."""
        return sum(sum(operators.values()) for operators in self.partitions)

    @property
    def left(self) -> int:
        """Operators (that compute a tensor) outside engines."""
        return sum(item.count for item in self.outside if not item.is_size)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Reason -> how many operators and size computations it keeps outside."""
        counts: Counter[str] = Counter()
        for item in self.outside:
            counts[item.reason] += item.count
        return dict(counts.most_common())

    def largest(self, count: int = MAX_SHOWN) -> list[tuple[int, Mapping[str, int]]]:
        """Indices and operators of the partitions with the most operators."""
        order = sorted(enumerate(self.partitions), key=lambda item: -sum(item[1].values()))
        return order[:count]

    def to_json(self) -> bytes:
        """As JSON, for a compile spec."""
        return json.dumps(self.as_dict(), sort_keys=True).encode()

    def as_dict(self) -> dict[str, Any]:
        """As JSON's types."""
        return {
            "partitions": [dict(operators) for operators in self.partitions],
            "outside": [
                {
                    "operator": item.operator,
                    "reason": item.reason,
                    "nodes": list(item.nodes),
                    "sources": list(item.sources),
                    "is_size": item.is_size,
                }
                for item in self.outside
            ],
        }

    @staticmethod
    def from_json(text: bytes) -> MethodReport:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: These bytes are no report.
        """
        try:
            values = json.loads(text)
            return MethodReport(
                partitions=tuple(_counts(operators) for operators in values["partitions"]),
                outside=tuple(_outside(item) for item in values["outside"]),
            )
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"the partition report is damaged: {error!r}") from error

    def __str__(self) -> str:
        lines = [
            (
                f"TensorRT takes {self.taken} of {self.taken + self.left} operators "
                f"in {len(self.partitions)} partitions"
            )
        ]
        for index, operators in self.largest() if len(self.partitions) > 1 else ():
            most = ", ".join(f"{name} x{n}" for name, n in Counter(operators).most_common(3))
            lines.append(f"  partition {index}: {sum(operators.values())} operators ({most}, ...)")
        for item in self.outside:
            where = f" at {', '.join(item.sources[:MAX_SHOWN])}" if item.sources else ""
            kind = " (a size)" if item.is_size else ""
            why = item.reason or "the program does not say why"
            lines.append(f"  outside: {item.operator} x{item.count}{kind}{where}: {why}")
        return "\n".join(lines)


@dataclass(frozen=True)
class PartitionReport:
    """What TensorRT takes of a program, by method; `print` it."""

    methods: Mapping[str, MethodReport]

    def __getitem__(self, method: str) -> MethodReport:
        return self.methods[method]

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {report}" for name, report in self.methods.items())


def _counts(operators: Mapping[str, int]) -> Mapping[str, int]:
    return {str(name): int(count) for name, count in operators.items()}


def _outside(item: Mapping[str, Any]) -> Outside:
    return Outside(
        operator=str(item["operator"]),
        reason=str(item["reason"]),
        nodes=tuple(str(name) for name in item["nodes"]),
        sources=tuple(str(source) for source in item["sources"]),
        is_size=bool(item["is_size"]),
    )
