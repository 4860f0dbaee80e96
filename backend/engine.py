"""A serialized engine."""

from __future__ import annotations

from dataclasses import dataclass, field


class EngineBuildError(RuntimeError):
    """TensorRT did not build an engine of a partition; holds what TensorRT said."""


@dataclass(frozen=True)
class Engine:
    """A serialized engine and what it was built for.

    Attributes:
        plan: The serialized engine; a view of memory that it keeps alive.
        input_names: Names of its input tensors, in the graph's order.
        output_names: Names of its output tensors, in the graph's order.
        num_profiles: TensorRT optimization profiles in it; 0: no input is dynamic.
        compute_capability: GPU generation the engine is tied to, (0, 0) if to none or several.
    """

    plan: memoryview = field(repr=False)
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    num_profiles: int
    compute_capability: tuple[int, int]
