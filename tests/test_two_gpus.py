"""Programs on two GPUs of one host, against eager PyTorch's answers.

They are exported elsewhere by make_gpu_cases.py, whose folder EXECUTORCH_TENSORRT_GPU_CASES names.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpu_cases import FOLDER, assert_right, case, on_gpu  # noqa: E402

import executorch_tensorrt as ett  # noqa: E402
from executorch_tensorrt import RuntimeOptions  # noqa: E402
from executorch_tensorrt.runtime import (  # noqa: E402
    DelegateInvalidCompatibility,
    InvalidArgument,
    NotFound,
)

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOLDER is None, reason="EXECUTORCH_TENSORRT_GPU_CASES names no folder"),
    pytest.mark.skipif(GPUS < 2, reason=f"needs two GPUs; PyTorch sees {GPUS}"),
]


@pytest.fixture(autouse=True)
def the_current_device_stays_the_first() -> Iterator[None]:
    """In each of these tests, though its program is on the second."""
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0


def used_bytes(gpu: int) -> int:
    torch.cuda.synchronize(gpu)
    free, total = torch.cuda.mem_get_info(gpu)
    return total - free


def run_on_threads(*works: Callable[[], None]) -> None:
    """Starts them at one moment; raises the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    ("device", "device_id", "used"),
    [("cuda:1", 0, "cuda:1"), ("cuda", 1, "cuda:1"), (None, 1, "cuda:1"), ("cuda:0", 1, "cuda:0")],
)
def test_the_gpu_is_the_one_that_is_named(device: str | None, device_id: int, used: str) -> None:
    found = case("transformer_fp32")
    method = found.load(device, device_id=device_id)
    _, inputs, expected = found.calls[0]
    assert_right(method(*inputs), expected)
    assert method.stats()[0]["device"] == used


@pytest.mark.parametrize("contexts", ["per_profile", "single"])
@pytest.mark.parametrize("place", ["device", "host"])
@pytest.mark.parametrize("name", ["transformer_fp16", "minilm", "dtypes", "activations"])
def test_a_program_on_the_second_gives_eager_pytorchs_answers(
    name: str, place: str, contexts: str
) -> None:
    found = case(name)
    method = found.load("cuda:1", profile_contexts=contexts)
    for profile, inputs, expected in found.calls:
        values = on_gpu(inputs, 1) if place == "device" else inputs
        for _ in range(4):  # so that graphs are captured and replayed
            outputs = method(*values)
            assert {output.device for output in outputs} == {values[0].device}
            assert_right(outputs, expected)
            assert method.last_profile == profile
            del outputs
    [stats] = method.stats()
    assert (stats["graph_replays"] == 0) == (contexts == "single")
    assert (stats["host_synchronizations"] == 0) == (place == "device")


def test_nothing_of_a_program_lies_on_the_other_gpu() -> None:
    found = case("minilm")
    for gpu in range(2):  # what the first program of a process takes is there
        case("transformer_fp16").load(f"cuda:{gpu}")
    before = [used_bytes(gpu) for gpu in range(2)]
    method = found.load("cuda:1")
    for _, inputs, expected in found.calls:
        for values in (inputs, on_gpu(inputs, 1)):
            for _ in range(3):
                assert_right(method(*values), expected)
    taken = [used_bytes(gpu) - before[gpu] for gpu in range(2)]
    print("bytes taken on each GPU:", taken)
    assert taken[0] <= 2 << 20
    assert taken[1] > found.path.stat().st_size / 2


def test_programs_with_one_engine_share_its_weights_on_each_gpu() -> None:
    found = case("minilm")
    for gpu in range(2):
        case("transformer_fp16").load(f"cuda:{gpu}")
    held = []
    for gpu in range(2):
        taken = []
        for _ in range(3):
            before = used_bytes(gpu)
            held.append((gpu, found.load(f"cuda:{gpu}")))
            taken.append(used_bytes(gpu) - before)
        assert taken[0] - max(taken[1:]) > found.path.stat().st_size / 2, (gpu, taken)
    _, inputs, expected = found.calls[0]
    for gpu, method in held:
        assert_right(method(*on_gpu(inputs, gpu)), expected)


@pytest.mark.parametrize("place", ["device", "host"])
def test_the_same_program_on_both_runs_from_two_threads_at_once(place: str) -> None:
    found = case("transformer_fp16")
    methods = [found.load(f"cuda:{gpu}") for gpu in range(2)]

    def work(gpu: int) -> None:
        for index in range(200):
            _, inputs, expected = found.calls[(index + gpu) % len(found.calls)]
            values = on_gpu(inputs, gpu) if place == "device" else inputs
            assert_right(methods[gpu](*values), expected)

    run_on_threads(lambda: work(0), lambda: work(1))


def test_one_thread_takes_both_in_turns_and_one_feeds_the_other() -> None:
    found = case("activations")
    methods = [found.load(f"cuda:{gpu}") for gpu in range(2)]
    _, (x,), (expected,) = found.calls[0]
    right = methods[0](*methods[0](x.to("cuda:0")))[0].cpu()
    for _ in range(20):
        (y,) = methods[0](x.to("cuda:0"))
        (z,) = methods[1](y.to("cuda:1"))
        assert_right((y,), (expected,))
        assert z.device.index == 1
        torch.testing.assert_close(z.cpu(), right, atol=2e-2, rtol=2e-2)


def test_unloading_one_while_the_other_runs_does_not_touch_it() -> None:
    found = case("transformer_fp16")
    running = found.load("cuda:1")
    _, inputs, expected = found.calls[-1]
    values = on_gpu(inputs, 1)
    (first,) = running(*values)
    done = threading.Event()

    def run() -> None:
        calls = 0
        while not done.is_set() or calls < 100:
            (output,) = running(*values)
            assert torch.equal(output, first)
            calls += 1

    def load_and_unload() -> None:
        try:
            for _ in range(20):
                assert_right(found.load("cuda:0")(*inputs), expected)
        finally:
            done.set()

    run_on_threads(run, load_and_unload)
    assert_right((first,), expected)


def test_calls_are_ordered_with_the_second_gpus_current_stream() -> None:
    """Inputs still being written and outputs read on that stream, without any wait."""
    found = case("transformer_fp16")
    method = found.load("cuda:1")
    _, (tokens,), (expected,) = found.calls[-1]
    on_second = tokens.to("cuda:1")
    for stream in (torch.cuda.default_stream(1), torch.cuda.Stream(1), torch.cuda.Stream(1)):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(on_second)
            torch.cuda._sleep(20_000_000)
            late.copy_(on_second)
            with torch.cuda.device(0):
                assert torch.cuda.current_device() == 0
                (output,) = method(late)
                assert torch.cuda.current_device() == 0
            late.zero_()
            doubled = output + output
        stream.synchronize()
        torch.testing.assert_close(doubled.cpu(), expected * 2, atol=4e-2, rtol=2e-2)
    assert method.stats()[0]["host_synchronizations"] == 0


def test_a_callers_stream_of_the_second_gpu_is_used() -> None:
    found = case("transformer_fp16")
    method = found.load("cuda:1")
    _, (tokens,), expected = found.calls[-1]
    tokens, stream = tokens.to("cuda:1"), torch.cuda.Stream(1)
    torch.cuda.synchronize(1)
    for given in (stream, stream.cuda_stream):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
        with ett.cuda_stream(given):
            outputs = method(tokens)
        assert not stream.query()  # it returned before its work was done
        assert torch.cuda.current_device() == 0
        stream.synchronize()
        assert_right(outputs, expected)


def test_a_callers_stream_of_the_other_gpu_is_refused_with_both() -> None:
    found = case("transformer_fp16")
    method = found.load("cuda:1")
    _, inputs, expected = found.calls[-1]
    for values in (inputs, on_gpu(inputs, 1)):
        with (
            ett.cuda_stream(torch.cuda.Stream(0)),
            pytest.raises(InvalidArgument, match=r"not be used on cuda:1: it belongs to cuda:0"),
        ):
            method(*values)
        assert torch.cuda.current_device() == 0
        assert_right(method(*values), expected)


def test_a_tensor_on_the_other_gpu_is_refused_with_both() -> None:
    found = case("minilm")
    method = found.load("cuda:1")
    _, (ids, mask), expected = found.calls[0]
    first, second = (ids.to("cuda:0"), ids.to("cuda:1")), (mask.to("cuda:0"), mask.to("cuda:1"))
    for values, index in (((first[0], second[1]), 0), ((first[1], second[0]), 1)):
        with pytest.raises(InvalidArgument, match=rf"input {index} .*on cuda:0; .*on cuda:1"):
            method(*values)
        assert_right(method(first[1], second[1]), expected)


def test_a_view_at_an_odd_offset_and_a_transposed_input_are_right() -> None:
    found = case("activations")
    method = found.load("cuda:1")
    _, (x,), expected = found.calls[0]
    flat = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda:1")
    view = flat[1:].view_as(x)
    view.copy_(x)
    transposed = x.t().contiguous().to("cuda:1").t()
    for values in (view, transposed):
        assert_right(method(values), expected)


def test_a_method_that_runs_partly_on_the_cpu_gives_its_outputs_on_the_second() -> None:
    found = case("graph_break")
    method = found.load("cuda:1")
    for _, inputs, expected in found.calls:
        for values in (inputs, on_gpu(inputs, 1)):
            outputs = method(*values)
            assert outputs[0].device == values[0].device
            assert_right(outputs, expected)
        with pytest.raises(InvalidArgument, match=r"input 0 .*on cuda:0; .*on cuda:1"):
            method(*on_gpu(inputs, 0))


def test_a_callers_own_graph_of_a_call_on_the_second_replays() -> None:
    found = case("transformer_fp16")
    method = found.load("cuda:1")
    _, (tokens,), (expected,) = found.calls[-1]
    static = tokens.to("cuda:1")
    with torch.cuda.device(1):
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(1)
        with torch.cuda.stream(stream):
            method(static)  # in these shapes before the capture
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                (output,) = method(static)
        for _ in range(3):
            output.zero_()
            graph.replay()
            torch.cuda.synchronize(1)
            assert_right((output,), (expected,))


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are_and_never_replaced() -> None:
    found = case("transformer_fp32")  # carries a CPU fallback
    for device, options in (
        (f"cuda:{GPUS}", RuntimeOptions()),
        ("cuda", RuntimeOptions(device_id=GPUS)),
        (None, RuntimeOptions(device_id=GPUS)),
    ):
        with pytest.raises(NotFound, match=rf"no GPU {GPUS}: .* sees {GPUS}: cuda:0 .*cuda:1 "):
            ett.load(found.path, device=device, options=options)


def test_hidden_gpus_are_not_there_and_the_variable_is_named() -> None:
    script = f"""
from executorch_tensorrt.runtime import NotFound, load
path = {str(case("transformer_fp32").path)!r}
print(load(path, device="cuda:0")["forward"].stats())
try:
    load(path, device="cuda:1")
except NotFound as error:
    print(error)
"""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "'device': 'cuda:0'" in run.stdout
    assert "no GPU 1: this process sees 1: cuda:0 " in run.stdout
    assert "CUDA_VISIBLE_DEVICES is '1'" in run.stdout


def damaged(program: bytes) -> bytes:
    """The program with the first bytes of its engine overwritten."""
    blob = program.index(b"ETRT\x01\x00")
    engine = blob + int.from_bytes(program[blob + 32 : blob + 40], "little")
    return program[:engine] + bytes(256) + program[engine + 256 :]


def loads_that_fail() -> dict[str, tuple[type[Exception], Callable[[], object]]]:
    program = case("transformer_fp16").path.read_bytes()
    broken = damaged(case("minilm").path.read_bytes())  # whose engine no other test holds

    def load(program: bytes, **options: Any) -> object:
        return ett.load(program, device="cuda:1", options=RuntimeOptions(**options))

    return {
        "an unknown profile": (InvalidArgument, lambda: load(program, default_profile="none")),
        "no streamed weights": (InvalidArgument, lambda: load(program, weight_streaming_budget=0)),
        "a damaged engine": (DelegateInvalidCompatibility, lambda: load(broken)),
        "no such GPU": (NotFound, lambda: ett.load(program, device=f"cuda:{GPUS}")),
    }


def calls_that_fail() -> dict[str, tuple[type[Exception], Callable[[], object]]]:
    found = case("transformer_fp16")
    method = found.load("cuda:1")
    values = on_gpu(found.calls[-1][1], 1)
    too_long = torch.zeros(1, 513, dtype=torch.int64, device="cuda:1")
    return {
        "a pin that does not fit": (InvalidArgument, lambda: method(*values, profile="decode")),
        "a shape that is too large": (InvalidArgument, lambda: method(too_long)),
        "one input too many": (InvalidArgument, lambda: method(*values, *values)),
    }


def current_context() -> int | None:
    handle = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(handle)) == 0
    return handle.value


def assert_fail_with_the_context_unchanged(
    ways: dict[str, tuple[type[Exception], Callable[[], object]]],
) -> None:
    for name, (kind, way) in ways.items():
        before = current_context()
        with pytest.raises(kind):
            way()
        assert current_context() == before, name


def test_every_failure_leaves_the_current_device_as_it_was() -> None:
    torch.zeros(1, device="cuda:0")
    assert current_context() is not None
    assert_fail_with_the_context_unchanged({**loads_that_fail(), **calls_that_fail()})


def test_loading_and_running_leave_a_thread_without_a_current_device_without_one() -> None:
    found = case("transformer_fp16")
    _, inputs, _ = found.calls[-1]

    def work() -> None:
        method = found.load("cuda:1")
        for _ in range(4):
            method(*inputs)
        del method
        assert current_context() is None
        assert_fail_with_the_context_unchanged(loads_that_fail())

    run_on_threads(work)
