"""ExecuTorch's Inspector, over traces of the stock runtime's and of this one's executions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from executorch.devtools import Inspector
from executorch.devtools.inspector import Event
from executorch.runtime import Runtime
from models import GraphBreak, Mlp, seeded
from programs import WITH_FALLBACK

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile
from executorch_tensorrt.runtime import InvalidArgument, TensorRTError

PROFILES = (
    OptimizationProfile("small", {"x": ((1, 1, 4), 8)}),
    OptimizationProfile("large batch", {"x": ((5, 8, 16), 8)}),
)
# Executes a .pte's "forward" on batches of these sizes and returns the ETDump.
Trace = Callable[[bytes, list[int]], bytes]


class Exported(NamedTuple):
    pte: bytes
    etrecord: str  # a file: the Inspector finds nothing in a record that was never saved


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Two delegates, three operators on the CPU between them."""
    program = ett.export(
        seeded(GraphBreak),
        (torch.randn(4, 8),),
        profiles=PROFILES,
        options=WITH_FALLBACK,
        generate_etrecord=True,
    )
    path = tmp_path_factory.mktemp("etrecord") / "model.etrecord"
    program.get_etrecord().save(path)
    return Exported(bytes(program.buffer), str(path))


@pytest.fixture(params=["stock", "ours"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    def with_stock_runtime(pte: bytes, batches: list[int]) -> bytes:
        ett.register()
        loaded = Runtime.get().load_program(pte, enable_etdump=True)
        method = loaded.load_method("forward")
        for batch in batches:
            method.execute([torch.randn(batch, 8)])
        loaded.write_etdump_result_to_file(str(tmp_path / "etdump"), str(tmp_path / "debug"))
        return (tmp_path / "etdump").read_bytes()

    def with_ours(pte: bytes, batches: list[int]) -> bytes:
        method = ett.load(pte, device="cpu", etdump=True)["forward"]
        for batch in batches:
            method(torch.randn(batch, 8))
        return method.etdump()

    return {"stock": with_stock_runtime, "ours": with_ours}[request.param]


def executions(etdump: bytes, exported: Exported) -> list[list[Event]]:
    """The events of each group of like executions."""
    inspector = Inspector(etdump_data=etdump, etrecord=exported.etrecord)
    return [block.events for block in inspector.event_blocks if block.name == "Execute"]


def delegated(events: list[Event]) -> list[tuple[str, list[str]]]:
    """Profile and source operators of each delegate's events."""
    return [(event.name, event.op_types) for event in events if event.is_delegated_op]


class TestInspector:
    def test_shows_the_profile_and_the_source_operators_of_each_delegate(
        self, exported: Exported, trace: Trace
    ) -> None:
        small, large = executions(trace(exported.pte, [3, 9]), exported)
        assert delegated(small) == [
            ("small", ["aten.linear.default", "aten.cat.default"]),
            ("small", ["aten.linear.default", "aten.relu.default"]),
        ]
        assert delegated(large) == [
            ("large batch", ["aten.linear.default", "aten.cat.default"]),
            ("large batch", ["aten.linear.default", "aten.relu.default"]),
        ]

    def test_names_the_backend_the_engine_and_the_source_lines(
        self, exported: Exported, trace: Trace
    ) -> None:
        (events,) = executions(trace(exported.pte, [2]), exported)
        first = next(event for event in events if event.is_delegated_op)
        assert first.delegate_backend_name == "TensorRTBackend"
        assert first.raw_delegate_debug_metadatas == [b"CPU fallback on cpu"]
        assert "self.first(x)" in str(first.stack_traces)

    def test_shows_what_stayed_outside_as_operators_of_their_own(
        self, exported: Exported, trace: Trace
    ) -> None:
        (events,) = executions(trace(exported.pte, [2]), exported)
        outside = {
            op for event in events if not event.delegate_backend_name for op in event.op_types
        }
        assert "aten.cumsum.default" in outside
        assert "aten.linear.default" not in outside

    def test_adds_up_what_each_profile_took_in_all_its_executions(
        self, exported: Exported, trace: Trace
    ) -> None:
        small, large = executions(trace(exported.pte, [2, 3, 9, 4]), exported)
        for events, times in ((small, 3), (large, 1)):
            (whole,) = [event for event in events if event.name == "Method::execute"]
            for event in events:
                if event.is_delegated_op:
                    assert event.perf_data is not None
                    assert len(event.perf_data.raw) == times
                    pairs = zip(event.perf_data.raw, whole.perf_data.raw, strict=True)
                    assert all(0 < part < all_of_it for part, all_of_it in pairs)


class TestMethodEtdump:
    def test_starts_anew_each_time_it_is_taken(self, exported: Exported) -> None:
        method = ett.load(exported.pte, device="cpu", etdump=True)["forward"]
        method(torch.randn(3, 8))
        method.etdump()
        method(torch.randn(9, 8))
        (events,) = executions(method.etdump(), exported)
        assert [name for name, _ in delegated(events)] == ["large batch"] * 2

    def test_has_no_delegate_event_of_an_execution_that_failed(self, exported: Exported) -> None:
        method = ett.load(exported.pte, device="cpu", etdump=True)["forward"]
        with pytest.raises(InvalidArgument):
            method(torch.randn(3, 8), profile="large batch")
        method(torch.randn(3, 8))
        groups = executions(method.etdump(), exported)
        assert sorted(len(delegated(events)) for events in groups) == [0, 2]

    def test_of_a_method_that_was_not_executed_since_is_refused(self, exported: Exported) -> None:
        method = ett.load(exported.pte, device="cpu", etdump=True)["forward"]
        method.etdump()  # that it was loaded
        message = "'forward' was not executed since its ETDump was taken last"
        with pytest.raises(TensorRTError, match=message):
            method.etdump()
        method(torch.randn(3, 8))  # and goes on
        assert executions(method.etdump(), exported)

    def test_is_refused_where_it_was_not_asked_for_at_load(self, mlp_pte: bytes) -> None:
        method = ett.load(mlp_pte, device="cpu")["forward"]
        with pytest.raises(TensorRTError, match=re.escape("loaded without etdump=True")):
            method.etdump()


def test_a_program_exported_without_a_record_has_none() -> None:
    program = ett.export(
        seeded(Mlp),
        (torch.randn(4, 8),),
        profiles=[OptimizationProfile("all", {"x": ((1, 4, 16), 8)})],
    )
    with pytest.raises(RuntimeError, match="ETRecord"):
        program.get_etrecord()
