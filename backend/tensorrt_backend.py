"""The ExecuTorch backend: a partition of an edge program to a delegate blob."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

from executorch.exir._serialize._named_data_store import NamedDataStore, NamedDataStoreOutput
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.debug_handle_utils import DEBUG_HANDLE_KEY, UNSET_DEBUG_HANDLE
from torch.export import ExportedProgram

from .compile_specs import MACHINE_KEY
from .delegate_blob import SECTION_ALIGNMENT, engine_key
from .engine_builds import EngineRequest, build_engines, naming
from .partition import Partition, engine_graph, engine_ranges, read_partition
from .partition_blob import partition_blob
from .symbol_ranges import ProfileSymbols


class TensorRTBackend(BackendDetails):
    """Builds a TensorRT engine of a partition; the class's name is the backend id in the `.pte`."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program itself: `preprocess` leaves it as it is, so its weights need no copy."""
        return edge_program

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Builds the delegate blob.

        Args:
            edge_program: The partition; its constants are baked into the engine.
            compile_specs: What `compile_specs()` gives. What is of this machine alone is taken out
                of the list, as ExecuTorch writes it into the program.

        Raises:
            EngineBuildError: No engine could be built; the message holds TensorRT's own.
            ImportError: TensorRT is not installed.
            ValueError: A compile spec is missing, or the partition has an input or output that an
                engine cannot have; the message names it.
        """
        programs, specs = {"forward": [edge_program]}, {"forward": [compile_specs]}
        [result] = TensorRTBackend.preprocess_multimethod(programs, specs)["forward"]
        return result

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Builds the delegate blobs of all partitions of all methods, as `preprocess` does of one.

        Engines are built `CompileOptions.parallel_builds` at a time. Partitions that are the same,
        of one method or several, have one engine, built once; their blobs are the same bytes, which
        ExecuTorch writes once.

        Raises:
            EngineBuildError, ImportError, ValueError: As `preprocess`; the message begins with the
                partition.
        """
        partitions: list[Partition] = []
        for method, programs in edge_programs.items():
            for index, program in enumerate(programs):
                where = _where(method, index, len(programs), program)
                specs = compile_specs[method][index]
                with naming(where):
                    partitions.append(read_partition(where, program, specs))
                specs[:] = [spec for spec in specs if spec.key != MACHINE_KEY]
        results = iter(_results(partitions))
        return {
            method: [next(results) for _ in programs] for method, programs in edge_programs.items()
        }


def _debug_handles(
    partition: ExportedProgram, profiles: Sequence[ProfileSymbols]
) -> dict[int | str, tuple[int, ...]]:
    """The source nodes behind each event that the runtime traces: one a profile, by its name."""
    handles = {
        handle
        for node in partition.graph.nodes
        if node.op == "call_function"
        and (handle := node.meta.get(DEBUG_HANDLE_KEY, UNSET_DEBUG_HANDLE)) != UNSET_DEBUG_HANDLE
    }
    return {profile.name: tuple(sorted(handles)) for profile in profiles}


def _where(method: str, index: int, count: int, program: ExportedProgram) -> str:
    operators = [node.name for node in program.graph.nodes if node.op == "call_function"]
    operators = operators or ["none"]
    return (
        f"method '{method}', partition {index + 1} of {count} ({len(operators)} operators, "
        f"{operators[0]} to {operators[-1]})"
    )


def _results(partitions: Sequence[Partition]) -> list[PreprocessResult]:
    """The partitions' blobs and, where those are to be outside, engines.

    Where two are the same bytes they are the same object.
    """
    engines = build_engines(
        [
            EngineRequest(
                partition.where,
                partial(engine_graph, partition),
                engine_ranges(partition),
                partition.options,
            )
            for partition in partitions
        ]
    )
    engines.reverse()
    plans: dict[bytes, bytes] = {}
    results: list[PreprocessResult] = []
    for partition in partitions:
        engine = engines.pop()  # none is kept longer than until its blob is there
        engine_id, store = b"", None
        if partition.options.engine_data_file is not None:
            engine_id = hashlib.sha256(engine.plan).digest()
            if engine_id not in plans:
                plans[engine_id] = bytes(engine.plan)
            store = _data_store(partition.options.engine_data_file, engine_id, plans[engine_id])
        with naming(partition.where):
            blob = partition_blob(partition, engine, engine_id).to_bytes()
        # Compared, not hashed: what differs does so in the header's sum.
        equal = (other.processed_bytes for other in results if other.processed_bytes == blob)
        results.append(
            PreprocessResult(
                processed_bytes=next(equal, blob),
                debug_handle_map=_debug_handles(partition.program, partition.profiles),
                data_store_output=store,
            )
        )
    return results


def _data_store(file: str, engine_id: bytes, plan: bytes) -> NamedDataStoreOutput:
    store = NamedDataStore()
    store.add_named_data(engine_key(engine_id), plan, SECTION_ALIGNMENT, external_tag=file)
    return store.get_named_data_store_output()
