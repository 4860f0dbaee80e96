"""State that stays on the GPU, against eager PyTorch's answers (see test_gpu.py)."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpu_cases import FOLDER, Case, assert_right, case, on_gpu  # noqa: E402

import executorch_tensorrt as ett  # noqa: E402
from executorch_tensorrt.runtime import InvalidArgument  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOLDER is None, reason="EXECUTORCH_TENSORRT_GPU_CASES names no folder"),
]

ROWS = 64


@pytest.fixture
def found() -> Case:
    return case("decoder_state")


def run(method: ett.Method, found: Case, place: str = "device", **options: object) -> None:
    for profile, inputs, expected in found.calls:
        given = on_gpu(inputs) if place == "device" else inputs
        assert_right(method(*given, **options), expected)
        assert method.last_profile == profile


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("contexts", ["per_profile", "single"])
@pytest.mark.parametrize("place", ["device", "host"])
def test_every_call_sees_what_those_before_it_wrote(
    found: Case, place: str, contexts: str, graphs: bool
) -> None:
    method = found.load(profile_contexts=contexts, cuda_graphs=graphs)
    for _ in range(3):
        method.state.reset()
        run(method, found, place)
    [stats] = method.stats()
    assert stats["failures"] == 0
    assert (stats["graph_replays"] > 0) == (graphs and contexts == "per_profile")


def test_no_byte_of_the_state_crosses_to_the_host(found: Case) -> None:
    method = found.load()
    run(method, found)
    assert method.stats()[0]["bytes_staged"] == 0
    method.state.reset()
    run(method, found, "host")
    crossed = sum(t.nbytes for _, inputs, outputs in found.calls for t in (*inputs, *outputs))
    assert method.stats()[0]["bytes_staged"] == crossed


@pytest.mark.parametrize("place", ["device", "host"])
def test_a_position_past_the_end_is_refused_and_the_state_is_as_before(
    found: Case, place: str
) -> None:
    method = found.load()
    for index, (_, inputs, expected) in enumerate(found.calls):
        before = {name: method.state.read(name) for name in method.state.names}
        for wrong in (ROWS, -ROWS - 1):
            given = (torch.zeros(1, 1, dtype=torch.int64), torch.tensor([wrong]))
            with pytest.raises(InvalidArgument):
                method(*(on_gpu(given) if place == "device" else given))
        if index % 8 == 0:
            for name, value in before.items():
                np.testing.assert_array_equal(method.state.read(name), value)
        assert_right(method(*on_gpu(inputs)), expected)


def test_sessions_are_independent(found: Case) -> None:
    method = found.load()
    sessions = [method.state, method.new_state(), method.new_state()]
    for _, inputs, expected in found.calls:
        kept = on_gpu(inputs)
        for state in sessions:
            assert_right(method(*kept, state=state), expected)
    del sessions
    run(method, found, state=method.new_state())
    assert method.stats()[0]["graph_replays"] > 0


def test_a_session_that_goes_while_calls_are_in_flight_waits(found: Case) -> None:
    method = found.load()
    inputs = [on_gpu(inputs) for _, inputs, _ in found.calls]
    stream = torch.cuda.Stream()
    for _ in range(20):
        state = method.new_state()
        with torch.cuda.stream(stream):
            outputs = [method(*given, state=state) for given in inputs]
        del state
    stream.synchronize()
    for output, (_, _, expected) in zip(outputs, found.calls, strict=True):
        assert_right(output, expected)


def test_values_move_between_sessions_in_device_memory(found: Case) -> None:
    method, other = found.load(), found.load()
    half = len(found.calls) // 2
    for _, inputs, expected in found.calls[:half]:
        assert_right(method(*on_gpu(inputs)), expected)
    for name in method.state.names:
        value = torch.from_numpy(method.state.read(name).copy()).cuda()
        other.state.write(name, value)
    for _, inputs, expected in found.calls[half:]:
        assert_right(other(*on_gpu(inputs)), expected)


def test_the_cpu_fallback_has_the_same_state(found: Case) -> None:
    on_cpu, on_device = found.load("cpu"), found.load()
    run(on_cpu, found, "host")
    run(on_device, found)
    assert sorted(on_cpu.state.names) == sorted(on_device.state.names)
    for name in on_cpu.state.names:
        np.testing.assert_allclose(
            on_cpu.state.read(name), on_device.state.read(name), atol=5e-3, rtol=5e-3
        )
