"""Loading and executing programs, on the CPU fallback that they carry."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models import GraphBreak, Mlp, Transformer, Unsupported, seeded
from programs import DECODE_AND_PREFILL, exported, forward, tokens
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile, RuntimeOptions
from executorch_tensorrt.runtime import (
    DelegateInvalidCompatibility,
    InvalidArgument,
    NotFound,
    TensorRTError,
)
from executorch_tensorrt.runtime._runtime import callers_stream


class TestAnswers:
    @pytest.mark.parametrize("batch", [1, 2])
    @pytest.mark.parametrize("length", [1, 4, 5, 16, 31, 32])
    def test_equal_eager_at_inside_and_between_the_bounds(
        self, transformer: nn.Module, transformer_pte: bytes, batch: int, length: int
    ) -> None:
        ids = tokens(batch, length)
        (logits,) = forward(transformer_pte)(ids)
        torch.testing.assert_close(logits, transformer(ids), atol=1e-4, rtol=0)

    def test_of_half_precision_equal_eager_within_two_hundredths(self) -> None:
        model = seeded(Transformer).half()
        dynamic = {"tokens": {0: Dim("batch", min=1, max=2), 1: Dim("length", min=1, max=32)}}
        method = forward(exported(model, (tokens(2, 16),), dynamic, DECODE_AND_PREFILL))
        for ids in (tokens(1, 1), tokens(2, 7), tokens(2, 32)):
            (logits,) = method(ids)
            assert logits.dtype == torch.float16
            torch.testing.assert_close(logits, model(ids), atol=2e-2, rtol=0)

    def test_come_back_in_the_library_of_the_inputs(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte)
        x = torch.randn(3, 8)
        (as_torch,), (as_numpy,) = method(x), method(x.numpy())
        assert isinstance(as_torch, torch.Tensor)
        assert isinstance(as_numpy, np.ndarray)
        np.testing.assert_array_equal(as_torch.numpy(), as_numpy)
        as_numpy += 1  # it is the caller's

    def test_own_their_memory(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte)
        (first,) = method(torch.zeros(2, 8))
        before = first.clone()
        method(torch.ones(2, 8))
        del method
        assert torch.equal(first, before)

    def test_are_right_for_inputs_that_are_not_row_major_or_require_grad(
        self, mlp_pte: bytes
    ) -> None:
        method = forward(mlp_pte)
        x = torch.randn(8, 4, requires_grad=True).t()
        (right,) = method(x.detach().contiguous())
        assert torch.equal(method(x)[0], right)
        (from_numpy,) = method(np.asfortranarray(x.detach().numpy()))
        np.testing.assert_array_equal(from_numpy, right.numpy())

    def test_of_a_value_returned_twice_and_of_an_input_returned_are_right(self) -> None:
        class Twice(nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
                y = torch.relu(x)
                return y, y, x, y + 1

        x = torch.randn(4, 8)
        method = forward(exported(Twice(), (x,), None, ()))
        for _ in range(2):
            for output, right in zip(method(x), Twice()(x), strict=True):
                torch.testing.assert_close(output, right)

    def test_are_the_same_from_the_stock_runtime(
        self, transformer_pte: bytes, tmp_path: Path
    ) -> None:
        from executorch.runtime import Runtime

        ett.register()
        path = tmp_path / "transformer.pte"
        path.write_bytes(transformer_pte)
        runtime = Runtime.get()
        assert "TensorRTBackend" in runtime.backend_registry.registered_backend_names
        stock = runtime.load_program(path).load_method("forward")
        method = ett.load(path)["forward"]
        for ids in (tokens(1, 1), tokens(2, 20)):
            assert torch.equal(stock.execute([ids])[0], method(ids)[0])
        with ett.optimization_profile("decode"), pytest.raises(RuntimeError):
            stock.execute([tokens(1, 20)])


class TestThreads:
    def test_with_a_program_each_run_in_parallel_and_are_right(self) -> None:
        """One long call; the other thread finishes several calls while it lasts."""
        model = seeded(Transformer, 4, 128, 4)
        dynamic = {"tokens": {1: Dim("length", min=1, max=1024)}}
        profiles = [OptimizationProfile("any", {"tokens": (1, (1, 64, 1024))})]
        pte = exported(model, (tokens(1, 16),), dynamic, profiles)
        long, short = forward(pte), forward(pte)
        ids = tokens(1, 1024)
        long(ids)
        span: list[float] = []

        def run_long() -> None:
            span.append(time.perf_counter())
            answers.append(long(ids)[0])
            span.append(time.perf_counter())

        answers: list[torch.Tensor] = []
        ends = []
        thread = threading.Thread(target=run_long)
        thread.start()
        other = tokens(1, 8)
        while thread.is_alive():
            (answer,) = short(other)
            ends.append(time.perf_counter())
        thread.join()
        assert sum(span[0] < end < span[1] for end in ends) >= 3
        torch.testing.assert_close(answers[0], model(ids), atol=1e-3, rtol=0)
        torch.testing.assert_close(answer, model(other), atol=1e-4, rtol=0)

    def test_on_one_method_take_turns(self, transformer: nn.Module, transformer_pte: bytes) -> None:
        method = forward(transformer_pte)
        wrong: list[float] = []

        def run(length: int) -> None:
            ids = tokens(1, length)
            right = transformer(ids)
            for _ in range(20):
                difference = (method(ids)[0] - right).abs().max().item()
                if difference > 1e-4:
                    wrong.append(difference)

        threads = [threading.Thread(target=run, args=(length,)) for length in (1, 9, 32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert method.stats()[0]["executions"] == 60

    def test_still_in_a_call_when_the_interpreter_exits_do_not_crash_it(
        self, mlp_pte: bytes, tmp_path: Path
    ) -> None:
        path = tmp_path / "mlp.pte"
        path.write_bytes(mlp_pte)
        program = (
            "import sys, threading, time, numpy, executorch_tensorrt as ett\n"
            "method = ett.load(sys.argv[1], device='cpu')['forward']\n"
            "def run():\n"
            "    while True: method(numpy.zeros((8, 8), 'float32'))\n"
            "for _ in range(4): threading.Thread(target=run, daemon=True).start()\n"
            "time.sleep(0.2)\n"
        )
        subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)


class TestModelsThatTensorRTDoesNotTakeWhole:
    def test_run_the_rest_on_the_cpu(self) -> None:
        model = seeded(GraphBreak)
        method = forward(exported(model, (torch.randn(4, 8),), None, ()))
        x = torch.randn(4, 8)
        torch.testing.assert_close(method(x)[0], model(x), atol=1e-4, rtol=0)
        assert method.profiles == ["default"]

    def test_with_no_supported_node_export_with_a_warning_and_run(self) -> None:
        x = torch.randn(3, 8, dtype=torch.float64)
        with pytest.warns(UserWarning, match="TensorRT"):
            pte = exported(Unsupported(), (x,), None, ())
        method = forward(pte)
        torch.testing.assert_close(method(x)[0], x * 3)
        assert method.profiles == []
        assert method.last_profile is None


class TestLoading:
    def test_from_a_file_and_from_bytes_is_the_same(self, mlp_pte: bytes, tmp_path: Path) -> None:
        path = tmp_path / "mlp.pte"
        path.write_bytes(mlp_pte)
        x = torch.randn(2, 8)
        first, second = (ett.load(source, device="cpu")["forward"] for source in (path, mlp_pte))
        assert torch.equal(first(x)[0], second(x)[0])

    def test_of_a_missing_file_a_method_or_a_device_names_it(
        self, mlp_pte: bytes, tmp_path: Path
    ) -> None:
        with pytest.raises(FileNotFoundError, match=r"nowhere\.pte"):
            ett.load(tmp_path / "nowhere.pte")
        with pytest.raises(KeyError, match=r"'backward'.*forward"):
            ett.load(mlp_pte, methods=["backward"])
        with pytest.raises(KeyError, match=r"'backward'.*forward"):
            ett.load(mlp_pte)["backward"]
        with pytest.raises(InvalidArgument, match="'tpu'"):
            ett.load(mlp_pte, device="tpu")
        with pytest.raises(InvalidArgument, match="'huge'"):
            forward(mlp_pte, default_profile="huge")
        with pytest.raises(ValueError, match="'backward'"):
            forward(mlp_pte, default_profile={"backward": "small"})

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"profile_selection": "best"}, "profile_selection"),
            ({"profile_contexts": "two"}, "profile_contexts"),
            ({"device_id": -1}, "device_id"),
            ({"cuda_graphs": 1}, "cuda_graphs"),
            ({"max_cuda_graphs": 0}, "max_cuda_graphs"),
            ({"weight_streaming_budget": -1}, "weight_streaming_budget"),
            ({"default_profile": True}, "default_profile"),
            ({"engine_host_code_allowed": 1}, "engine_host_code_allowed"),
        ],
    )
    def test_options_that_make_no_sense_are_refused(
        self, options: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(ValueError, match=text):
            RuntimeOptions(**options)

    def test_on_the_cpu_of_a_program_without_fallback_says_how_to_export_one(self) -> None:
        program = ett.export(seeded(Mlp), (torch.randn(2, 8),))
        with pytest.raises(NotFound, match="cpu_fallback=True"):
            ett.load(bytes(program.buffer), device="cpu")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_on_a_gpu_by_name_where_there_is_none_does_not_fall_back(self, mlp_pte: bytes) -> None:
        for device in ("cuda", "cuda:0"):
            with pytest.raises(NotFound, match=r"libcuda\.so\.1|no GPU"):
                ett.load(mlp_pte, device=device)

    @pytest.mark.parametrize(
        ("offset", "text"),
        [(0, "magic"), (4, "version"), (12, "CRC"), (40, "engine"), (70, "CRC"), (56, "size")],
    )
    def test_of_a_damaged_blob_is_refused(self, mlp_pte: bytes, offset: int, text: str) -> None:
        damaged = bytearray(mlp_pte)
        start = mlp_pte.index(b"ETRT\x01\x00")
        damaged[start + offset] ^= 0xFF
        with pytest.raises(DelegateInvalidCompatibility, match=f"(?i){text}"):
            ett.load(bytes(damaged), device="cpu")

    def test_of_what_is_no_program_is_refused(self) -> None:
        with pytest.raises(TensorRTError, match="not an ExecuTorch program"):
            ett.load(b"no program at all" * 10)


class TestWrongInputs:
    @pytest.mark.parametrize(
        ("make", "error", "text"),
        [
            (lambda: (), InvalidArgument, "takes 1 inputs; it was given 0"),
            (lambda: (torch.randn(2, 8),) * 2, InvalidArgument, "takes 1 inputs; it was given 2"),
            (lambda: (torch.ones(2, 8, dtype=torch.int32),), InvalidArgument, "Int .* takes Float"),
            (lambda: (torch.randn(2, 8, 1),), InvalidArgument, "of rank 2"),
            (lambda: (torch.randn(2, 9),), InvalidArgument, "x 2x9"),
            (lambda: (np.zeros((2**32 + 2, 0), "f"),), InvalidArgument, "more than ExecuTorch"),
            (lambda: (3,), TypeError, "input 0 must be a tensor"),
            (lambda: (None,), TypeError, "input 0 must be a tensor"),
            (lambda: (torch.ones(2, 8, dtype=torch.complex64),), TypeError, "dtype"),
        ],
    )
    def test_are_refused_and_the_next_call_is_right(
        self,
        mlp_pte: bytes,
        make: Callable[[], tuple[Any, ...]],
        error: type[Exception],
        text: str,
    ) -> None:
        method = forward(mlp_pte)
        with pytest.raises(error, match=text):
            method(*make())
        x = torch.randn(2, 8)
        torch.testing.assert_close(method(x)[0], seeded(Mlp)(x), atol=1e-4, rtol=0)

    def test_a_stream_is_the_innermost_entered_and_is_restored(self) -> None:
        assert callers_stream() is None
        with ett.cuda_stream(8) as _, ett.cuda_stream(16):
            assert callers_stream() == 16
        assert callers_stream() is None
        stream = ett.cuda_stream(8)
        with stream:
            assert callers_stream() == 8
            with pytest.raises(RuntimeError, match="entered already"):
                stream.__enter__()
            assert callers_stream() == 8
        assert callers_stream() is None

    def test_of_a_library_without_a_gpu_stream_are_refused_as_streams(self) -> None:
        for stream in ("0", None, True, object()):
            with pytest.raises(TypeError, match="CUDA stream"):
                ett.cuda_stream(stream)
