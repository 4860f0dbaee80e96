"""Programs executed by TensorRT on a GPU, against eager PyTorch's answers.

They are exported elsewhere by make_gpu_cases.py, whose folder EXECUTORCH_TENSORRT_GPU_CASES names.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpu_cases import FOLDER, assert_right, case, on_gpu  # noqa: E402

import executorch_tensorrt as ett  # noqa: E402
from executorch_tensorrt.runtime import InvalidArgument, InvalidExternalData, NotFound  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(FOLDER is None, reason="EXECUTORCH_TENSORRT_GPU_CASES names no folder"),
]

CASES = ["transformer_fp16", "transformer_fp32", "minilm", "dtypes", "activations"]


@pytest.mark.parametrize("contexts", ["per_profile", "single"])
@pytest.mark.parametrize("place", ["device", "host", "numpy"])
@pytest.mark.parametrize("name", CASES)
def test_every_profile_gives_eager_pytorchs_answers(name: str, place: str, contexts: str) -> None:
    found = case(name)
    if name == "dtypes" and place == "numpy":
        pytest.skip("NumPy has no bfloat16")
    method = found.load(profile_contexts=contexts)
    kept = [on_gpu(inputs) for _, inputs, _ in found.calls]
    repeats = 6  # so that graphs are captured and replayed
    for index in range(2 * repeats * len(found.calls)):
        which = index // repeats % len(found.calls)
        profile, inputs, expected = found.calls[which]
        if place == "device":
            outputs = method(*kept[which])
            assert all(output.is_cuda for output in outputs)
        elif place == "host":
            outputs = method(*inputs)
            assert all(isinstance(output, torch.Tensor) for output in outputs)
        else:
            outputs = method(*(value.numpy() for value in inputs))
            assert all(isinstance(output, np.ndarray) for output in outputs)
        assert_right(outputs, expected)
        assert method.last_profile == profile
        del outputs  # the next ones may lie where they did
    [stats] = method.stats()
    assert stats["device"] == "cuda:0"
    assert (stats["graph_replays"] == 0) == (contexts == "single")
    assert (stats["bytes_staged"] == 0) == (place == "device")
    assert (stats["host_synchronizations"] == 0) == (place == "device")


@pytest.mark.parametrize("name", ["transformer_fp16", "minilm"])
@pytest.mark.parametrize("place", ["device", "host"])
def test_a_thousand_alternating_calls_are_right_and_repeat_to_the_bit(
    name: str, place: str
) -> None:
    found = case(name)
    method = found.load()
    calls = [
        (on_gpu(inputs) if place == "device" else inputs, expected)
        for _, inputs, expected in (found.calls[0], found.calls[-1])
    ]
    first = [method(*inputs)[0].clone() for inputs, _ in calls]
    for (_, expected), output in zip(calls, first, strict=True):
        assert_right((output,), expected)
    for index in range(1000):
        (output,) = method(*calls[index % 2][0])
        assert torch.equal(output, first[index % 2])
    assert method.stats()[0]["profile_changes"] >= 1000


def test_replays_equal_plain_enqueues_to_the_bit_for_random_shapes_and_addresses() -> None:
    found = case("transformer_fp16")
    replaying, enqueueing = found.load(), found.load(cuda_graphs=False)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 513, (100,), generator=generator).tolist() + [1] * 100
    for index in torch.randperm(len(lengths), generator=generator).tolist():
        tokens = torch.randint(0, 50, (1, lengths[index]), generator=generator).cuda()
        (right,) = enqueueing(tokens)
        kept = []  # so that each output lies elsewhere
        for _ in range(3):
            for _ in range(3):
                (output,) = replaying(tokens)
                assert torch.equal(output, right), lengths[index]
            kept.append(output)
    assert replaying.stats()[0]["graph_replays"] > 200
    assert enqueueing.stats()[0]["graph_replays"] == 0


def test_ten_thousand_alternations_take_no_more_memory() -> None:
    found = case("dtypes")
    method = found.load()
    calls = [on_gpu(inputs) for _, inputs, _ in (found.calls[0], found.calls[-1])]

    def memory() -> tuple[int, int]:
        free, total = torch.cuda.mem_get_info()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return total - free, pages * os.sysconf("SC_PAGE_SIZE")

    for _ in range(200):
        for inputs in calls:
            method(*inputs)
    device, host = memory()
    for _ in range(5000):
        for inputs in calls:
            method(*inputs)
    torch.cuda.synchronize()
    device_after, host_after = memory()
    assert device_after - device <= 2 << 20
    assert host_after - host <= 4 << 20


def test_two_threads_with_a_program_each_are_right() -> None:
    run_on_threads([case("transformer_fp16").load(), case("transformer_fp16").load()])


def test_two_threads_with_one_method_are_right() -> None:
    method = case("transformer_fp16").load()
    run_on_threads([method, method])


def run_on_threads(methods: list[ett.Method]) -> None:
    calls = case("transformer_fp16").calls
    errors: list[BaseException] = []

    def run(method: ett.Method, offset: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for index in range(200):
                    _, inputs, expected = calls[(index + offset) % len(calls)]
                    values = on_gpu(inputs) if index % 2 else inputs
                    assert_right(method(*values), expected)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(method, index)) for index, method in enumerate(methods)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_calls_are_ordered_with_the_streams_of_pytorch() -> None:
    """Inputs still being written and outputs read on the same stream, without any wait."""
    found = case("transformer_fp16")
    method = found.load()
    _, (tokens,), (expected,) = found.calls[-1]
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(tokens, device="cuda")
            torch.cuda._sleep(20_000_000)
            late.copy_(tokens.cuda())
            (output,) = method(late)
            late.zero_()
            doubled = output + output
        stream.synchronize()
        torch.testing.assert_close(doubled.cpu(), expected * 2, atol=4e-2, rtol=2e-2)
    assert method.stats()[0]["host_synchronizations"] == 0


def test_inputs_in_remembered_shapes_may_be_laid_out_and_owned_in_any_way() -> None:
    found = case("transformer_fp16")
    method = found.load()
    _, (tokens,), expected = found.calls[-1]
    tokens = tokens.cuda()
    strided = torch.stack([tokens, tokens], dim=-1)[..., 0]
    assert not strided.is_contiguous()
    for inputs in (tokens, tokens, strided, torch.nn.Parameter(tokens, requires_grad=False)):
        outputs = method(inputs)
        assert_right(outputs, expected)
        with pytest.raises(InvalidArgument, match="decode"):
            method(inputs, profile="decode")
    (output,) = method(tokens.cpu())
    assert not output.is_cuda


def test_a_callers_stream_is_used() -> None:
    found = case("transformer_fp16")
    method = found.load()
    _, (tokens,), expected = found.calls[-1]
    tokens, stream = tokens.cuda(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for given in (stream, stream.cuda_stream):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
        with ett.cuda_stream(given):
            outputs = method(tokens)
        assert not stream.query()  # it returned before its work was done
        stream.synchronize()
        assert_right(outputs, expected)


def test_loading_and_unloading_leaves_the_devices_memory_as_it_was() -> None:
    found = case("dtypes")
    _, inputs, expected = found.calls[0]

    def used_bytes() -> int:
        free, total = torch.cuda.mem_get_info()
        return total - free

    def once() -> None:
        assert_right(found.load()(*inputs), expected)

    for _ in range(3):
        once()
    before = used_bytes()
    for _ in range(200):
        once()
    assert used_bytes() - before <= 4 << 20


def test_programs_with_one_engine_share_its_weights() -> None:
    found = case("minilm")
    case("transformer_fp16").load()  # what the first program of a process takes is there
    held, used = [], []
    for _ in range(3):
        free, _ = torch.cuda.mem_get_info()
        held.append(found.load())
        used.append(free - torch.cuda.mem_get_info()[0])
    engine_bytes = found.path.stat().st_size
    assert used[0] - max(used[1:]) > engine_bytes / 2, used
    _, inputs, expected = found.calls[0]
    for method in held:
        assert_right(method(*inputs), expected)


def test_methods_share_an_engine_that_lies_in_a_ptd_file() -> None:
    found = case("engine_file")
    case("transformer_fp16").load()
    data = found.path.with_name("engines.ptd")
    with pytest.raises(InvalidExternalData, match="data="):
        ett.load(found.path, device="cuda:0")

    def used_by(methods: list[str]) -> tuple[int, ett.Program]:
        free, _ = torch.cuda.mem_get_info()
        program = ett.load(found.path, device="cuda:0", data=data, methods=methods)
        return free - torch.cuda.mem_get_info()[0], program

    one, first = used_by(["first"])
    more, second = used_by(["second"])
    assert one - more > data.stat().st_size / 2, (one, more)
    for method in (first["first"], second["second"]):
        for profile, inputs, expected in found.calls:
            assert_right(method(*inputs), expected)
            assert method.last_profile == profile
            assert method.stats()[0]["device"] == "cuda:0"


def test_contexts_share_activation_memory_as_large_as_the_largest_profiles() -> None:
    """Four profiles take what a program with the largest alone does, and not four times that."""
    found = case("activations")
    used = {}
    for contexts in ("single", "per_profile"):
        free, _ = torch.cuda.mem_get_info()
        method = found.load(profile_contexts=contexts)
        used[contexts] = free - torch.cuda.mem_get_info()[0]
        del method
    print("device memory of a program:", used)
    assert used["per_profile"] <= used["single"] * 1.25, used


def test_the_rest_of_a_broken_graph_runs_on_the_cpu_also_for_inputs_on_the_gpu() -> None:
    found = case("graph_break")
    method = found.load()
    for profile, inputs, expected in found.calls:
        for values in (inputs, on_gpu(inputs)):
            outputs = method(*values)
            assert outputs[0].device == values[0].device
            assert_right(outputs, expected)
            assert {stats["last_profile"] for stats in method.stats()} == {profile}


def test_a_view_at_an_odd_offset_is_right() -> None:
    found = case("activations")
    method = found.load()
    _, (x,), expected = found.calls[0]
    flat = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")
    view = flat[1:].view_as(x)
    view.copy_(x)
    assert_right(method(view), expected)


def test_the_gpu_is_used_where_no_device_is_named_and_the_fallback_where_it_is_asked_for() -> None:
    found = case("transformer_fp32")
    _, inputs, expected = found.calls[0]
    for device, name in ((None, "cuda:0"), ("cuda", "cuda:0"), ("cpu", "cpu")):
        method = ett.load(found.path, device=device)["forward"]
        assert_right(method(*inputs), expected)
        assert method.stats()[0]["device"] == name
        (output,) = method(*on_gpu(inputs))
        assert output.is_cuda
        assert_right((output,), expected)


def test_a_gpu_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(NotFound, match=r"GPU 99.*cuda:0"):
        ett.load(case("transformer_fp32").path, device="cuda:99")


def test_pins_that_do_not_fit_are_refused_and_the_next_call_is_right() -> None:
    found = case("transformer_fp16")
    method = found.load()
    _, inputs, expected = found.calls[-1]
    with pytest.raises(InvalidArgument, match="'decode' does not fit"):
        method(*on_gpu(inputs), profile="decode")
    with ett.optimization_profile("prefill"):
        assert_right(method(*on_gpu(inputs)), expected)


def test_a_callers_own_graph_of_a_call_replays() -> None:
    found = case("transformer_fp16")
    method = found.load()
    _, (tokens,), (expected,) = found.calls[-1]
    static = tokens.cuda()
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        method(static)  # in these shapes before the capture
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            (output,) = method(static)
    for _ in range(3):
        output.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert_right((output,), (expected,))


def test_the_current_device_of_the_thread_stays_as_it_was() -> None:
    found = case("transformer_fp32")
    before = torch.cuda.current_device()
    method = found.load()
    method(*found.calls[0][1])
    assert torch.cuda.current_device() == before
