"""State of methods in Python: listed, read, written, reset, in sessions, and shared."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from programs import WITH_FALLBACK, exported, forward
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile, RuntimeOptions, TensorRTPartitioner
from executorch_tensorrt.runtime import InvalidArgument


class Accumulator(nn.Module):
    """Adds up rows, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(4.0))
        self.inner = nn.Module()
        self.inner.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        self.inner.calls.add_(1)
        return torch.tanh(x + self.total) + self.inner.calls


class Doubler(Accumulator):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.mul_(2)
        return x - self.total


@pytest.fixture(scope="module")
def accumulator() -> bytes:
    dynamic = {"x": {0: Dim("rows", min=1, max=8)}}
    profiles = (
        OptimizationProfile("one", {"x": (1, 4)}),
        OptimizationProfile("more", {"x": ((2, 2, 8), 4)}),
    )
    return exported(Accumulator().eval(), (torch.zeros(2, 4),), dynamic, profiles)


@pytest.fixture(scope="module")
def shared() -> bytes:
    """Two methods over one module's buffers: "add" and "double"."""
    programs, partitioners = {}, {}
    for name, model in (("add", Accumulator().eval()), ("double", Doubler().eval())):
        programs[name] = torch.export.export(model, (torch.zeros(2, 4),))
        partitioners[name] = [TensorRTPartitioner(options=WITH_FALLBACK)]
    edge = to_edge_transform_and_lower(
        programs,
        partitioner=partitioners,
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return bytes(edge.to_executorch().buffer)


def rows(count: int = 2) -> torch.Tensor:
    return torch.rand(count, 4)


def expect_equal(method: ett.Method, model: nn.Module, x: torch.Tensor, **options: Any) -> None:
    (answer,) = method(x, **options)
    torch.testing.assert_close(answer, model(x))


class TestStateSet:
    def test_lists_states_by_qualified_name(self, accumulator: bytes) -> None:
        state = forward(accumulator).state
        assert sorted(state.names) == ["inner.calls", "total"]
        assert state["total"] == ett.StateInfo("total", "float32", (4,))
        assert repr(state) == f"StateSet({', '.join(state.names)})"
        with pytest.raises(KeyError, match=r"no state 'sum'; states are .*total"):
            state["sum"]

    def test_starts_from_the_initial_values_and_follows_eager(self, accumulator: bytes) -> None:
        method, model = forward(accumulator), Accumulator()
        np.testing.assert_array_equal(method.state.read("total"), [0, 1, 2, 3])
        for count in (1, 8, 3, 1):
            expect_equal(method, model, rows(count))
        np.testing.assert_allclose(method.state.read("total"), model.total, rtol=1e-6)
        assert method.state.read("inner.calls") == 4

    def test_resets_to_the_initial_values(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        method(rows())
        method.state.reset()
        np.testing.assert_array_equal(method.state.read("total"), [0, 1, 2, 3])
        expect_equal(method, Accumulator(), rows())

    def test_what_is_read_is_a_copy(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        before = method.state.read("inner.calls")
        method(rows())
        assert before == 0

    @pytest.mark.parametrize(
        "value",
        [
            np.array([5, 6, 7, 8], dtype=np.float32),
            torch.tensor([5.0, 6, 7, 8], requires_grad=True),
            torch.tensor([5.0, 0, 6, 0, 7, 0, 8, 0])[::2],
        ],
        ids=["numpy", "torch", "strided"],
    )
    def test_is_written_from_any_library(self, accumulator: bytes, value: Any) -> None:
        method, model = forward(accumulator), Accumulator()
        method.state.write("total", value)
        np.testing.assert_array_equal(method.state.read("total"), [5, 6, 7, 8])
        model.total.copy_(torch.tensor([5.0, 6, 7, 8]))
        expect_equal(method, model, rows())

    def test_refuses_what_is_not_the_state(self, accumulator: bytes) -> None:
        state = forward(accumulator).state
        with pytest.raises(
            InvalidArgument, match=r"state 'total' is float32 \[4\]; it was given float64 \[4\]"
        ):
            state.write("total", torch.zeros(4, dtype=torch.float64))
        with pytest.raises(InvalidArgument, match=r"it was given float32 \[2, 2\]"):
            state.write("total", torch.zeros(2, 2))
        with pytest.raises(TypeError, match="the value of state 'total' must be a tensor"):
            state.write("total", "none")
        for use in (state.read, lambda name: state.write(name, torch.zeros(4))):
            with pytest.raises(KeyError, match="no state 'sum'"):
                use("sum")
        np.testing.assert_array_equal(state.read("total"), [0, 1, 2, 3])

    def test_of_a_method_without_states_is_empty(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte)
        assert method.state.names == []
        method.state.reset()
        method(torch.randn(2, 8), state=method.new_state())

    def test_outlives_its_program_and_need_not(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        state, other = method.state, method.new_state()
        method(rows())
        del method
        assert state.read("inner.calls") == 1
        del state
        assert other.read("inner.calls") == 0


class TestSessions:
    def test_are_independent(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        model = Accumulator()
        sessions = [
            (state, copy.deepcopy(model))
            for state in (method.state, method.new_state(), method.new_state())
        ]
        for turn in range(12):
            state, eager = sessions[turn * 5 % 3]
            expect_equal(method, eager, rows(1 + turn % 8), state=state)
        for state, eager in sessions:
            np.testing.assert_allclose(state.read("total"), eager.total, rtol=1e-6)
            assert state.read("inner.calls") == 4

    def test_a_new_one_has_the_initial_values(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        method(rows())
        np.testing.assert_array_equal(method.new_state().read("total"), [0, 1, 2, 3])

    def test_are_selected_on_a_thread_and_nest(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        outer, inner = method.new_state(), method.new_state()
        with ett.state(outer):
            method(rows())
            with ett.state(inner):
                for _ in range(2):
                    method(rows())
                with ett.state(None):
                    for _ in range(3):
                        method(rows())
                method(rows(), state=outer)
            thread = threading.Thread(target=method, args=(rows(),))
            thread.start()
            thread.join()
        calls = [state.read("inner.calls").item() for state in (outer, inner, method.state)]
        assert calls == [2, 2, 4]

    def test_of_another_method_are_refused(self, accumulator: bytes, mlp_pte: bytes) -> None:
        method, other = forward(accumulator), forward(accumulator)
        with pytest.raises(InvalidArgument, match="not of this method"):
            method(rows(), state=other.state)
        with ett.state(other.state):
            forward(mlp_pte)(torch.randn(2, 8))  # has no state, and does not mind
        assert method.state.read("inner.calls") == 0

    def test_are_nothing_else(self, accumulator: bytes) -> None:
        with pytest.raises(TypeError, match="state must be a StateSet or None, not 'total'"):
            forward(accumulator)(rows(), state="total")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="state must be a StateSet"):
            ett.state(7)  # type: ignore[arg-type]

    def test_run_on_threads_at_once(self, accumulator: bytes) -> None:
        method = forward(accumulator)
        states = [method.new_state() for _ in range(3)]

        def work(state: ett.StateSet) -> None:
            for _ in range(50):
                method(rows(), state=state)
                state.read("total")

        threads = [threading.Thread(target=work, args=(state,)) for state in states]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [state.read("inner.calls").item() for state in states] == [50] * 3


class TestSharedState:
    def test_methods_keep_theirs_apart_by_default(self, shared: bytes) -> None:
        program = ett.load(shared, device="cpu")
        program["double"](rows())
        np.testing.assert_array_equal(program["double"].state.read("total"), [0, 2, 4, 6])
        np.testing.assert_array_equal(program["add"].state.read("total"), [0, 1, 2, 3])

    def test_methods_of_one_load_share_what_they_call_the_same(self, shared: bytes) -> None:
        options = RuntimeOptions(share_state=True)
        program = ett.load(shared, device="cpu", options=options)
        other = ett.load(shared, device="cpu", options=options)
        add, double = program["add"], program["double"]
        for state in (add.state, double.new_state()):
            with ett.state(state):
                double(rows())
                add(torch.ones(2, 4))
                double(rows())
            np.testing.assert_array_equal(state.read("total"), [4, 8, 12, 16])
        np.testing.assert_array_equal(double.state.read("total"), [4, 8, 12, 16])
        assert sorted(double.state.names) == ["inner.calls", "total"]
        np.testing.assert_array_equal(other["add"].state.read("total"), [0, 1, 2, 3])

    def test_is_a_truth_value(self) -> None:
        with pytest.raises(ValueError, match="share_state must be a bool, not 1"):
            RuntimeOptions(share_state=1)  # type: ignore[arg-type]
