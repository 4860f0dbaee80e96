"""Why operators stay outside TensorRT."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from executorch.exir.backend.utils import get_delegates
from torch.export import ExportedProgram
from torch.fx import Node

from executorch_tensorrt.backend.aten_graph import is_edge_program
from executorch_tensorrt.backend.partition_report import (
    PARTITION_REPORT_KEY,
    MethodReport,
    PartitionReport,
)
from executorch_tensorrt.partitioner import TensorRTPartitioner

from .pte.program import read_program


def explain(
    program: ExportedProgram
    | Mapping[str, ExportedProgram]
    | EdgeProgramManager
    | ExecutorchProgramManager
    | str
    | os.PathLike[str]
    | bytes,
    partitioner: TensorRTPartitioner | None = None,
) -> PartitionReport:
    """What TensorRT takes of a program, and for each operator outside, why not.

    Args:
        program: What is to be lowered: what torch.export made (one, or one a method), or an edge
            program. No engine is built and the program stays as it is. Or what was lowered: what
            `export` or `to_executorch` returned, or a `.pte`'s path or bytes.
        partitioner: With its profiles and options, for what is to be lowered; by default one
            without profiles. Not for what was lowered, which holds its report.

    Raises:
        TypeError: `program` is none of these.
        ValueError: A profile does not fit the program, a partitioner is given for what was lowered,
            or the bytes are no `.pte`.

    Example:
        >>> print(explain(torch.export.export(model, inputs)))
        forward: TensorRT takes 4 of 6 operators in 2 partitions
          partition 0: 2 operators (aten.linear.default x1, aten.cat.default x1)
          partition 1: 2 operators (aten.linear.default x1, aten.relu.default x1)
          outside: aten.cumsum.default x1 at model.py:12: dtype torch.float64
    """
    if isinstance(program, ExecutorchProgramManager | str | os.PathLike | bytes):
        if partitioner is not None:
            raise ValueError(
                "the program is lowered already and holds its report; give no partitioner with it"
            )
        return _recorded(program)
    if isinstance(program, EdgeProgramManager):
        programs = {name: program.exported_program(name) for name in sorted(program.methods)}
    elif isinstance(program, ExportedProgram):
        programs = {"forward": program}
    elif isinstance(program, Mapping):
        programs = dict(program)
    else:
        raise TypeError(
            "program must be an ExportedProgram, an EdgeProgramManager, what export() returns or "
            f"a .pte, got {type(program).__name__}"
        )
    own = TensorRTPartitioner() if partitioner is None else partitioner
    return PartitionReport({name: _explained(one, own) for name, one in programs.items()})


def _recorded(
    program: ExecutorchProgramManager | str | os.PathLike[str] | bytes,
) -> PartitionReport:
    if isinstance(program, ExecutorchProgramManager):
        program = bytes(program.buffer)
    elif not isinstance(program, bytes):
        with open(program, "rb") as file:
            program = file.read()
    return PartitionReport({method.name: method.report for method in read_program(program).methods})


def _explained(program: ExportedProgram, partitioner: TensorRTPartitioner) -> MethodReport:
    if is_edge_program(program):
        return _of_delegates(program) or partitioner.report(program)
    observer = _Observer(partitioner)
    with torch.no_grad():
        to_edge_transform_and_lower(
            copy.deepcopy(program),
            partitioner=[observer],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    return observer.reports[-1]


def _of_delegates(program: ExportedProgram) -> MethodReport | None:
    """What the partitioner wrote down when an edge program was lowered."""
    for node in get_delegates(program.graph):
        for spec in getattr(program.graph_module, node.name).compile_specs:
            if spec.key == PARTITION_REPORT_KEY:
                return MethodReport.from_json(spec.value)
    return None


class _Observer(Partitioner):
    """Lowers as a partitioner would, up to its report: it takes nothing, so nothing is built."""

    def __init__(self, partitioner: TensorRTPartitioner) -> None:
        super().__init__()
        self._partitioner = partitioner
        self.reports: list[MethodReport] = []

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        return self._partitioner.transform_for_pre_decomposition(exported_program)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        return self._partitioner.ops_to_not_decompose(ep)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.reports.append(self._partitioner.report(exported_program))
        return PartitionResult(exported_program, {})
