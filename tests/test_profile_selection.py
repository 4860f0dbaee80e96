"""Which profile a call uses: by shape, by pin, in one delegate and in several."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from models import GraphBreak, seeded
from programs import exported, forward, tokens
from torch import nn
from torch.export import Dim

import executorch_tensorrt as ett
from executorch_tensorrt import OptimizationProfile
from executorch_tensorrt.runtime import InvalidArgument


class TestSelection:
    def test_is_by_shape(self, transformer_pte: bytes) -> None:
        method = forward(transformer_pte)
        assert method.profiles == ["decode", "prefill"]
        assert method.last_profile is None
        for length, name in ((1, "decode"), (4, "prefill"), (32, "prefill"), (1, "decode")):
            method(tokens(1, length))
            assert method.last_profile == name

    @pytest.mark.parametrize(
        ("policy", "used"),
        [
            # batch:    2,       4,       6,        2,       4,        12
            ("sticky", ["small", "small", "middle", "small", "small", "all"]),
            ("first_fit", ["small", "small", "middle", "small", "small", "all"]),
        ],
    )
    def test_of_overlapping_profiles(self, mlp_pte: bytes, policy: str, used: list[str]) -> None:
        method = forward(mlp_pte, profile_selection=policy)
        for batch, name in zip((2, 4, 6, 2, 4, 12), used, strict=True):
            method(torch.randn(batch, 8))
            assert method.last_profile == name

    def test_keeps_the_active_profile_while_it_fits_unless_first_fit(self, mlp_pte: bytes) -> None:
        for policy, name in (("sticky", "all"), ("first_fit", "small")):
            method = forward(mlp_pte, profile_selection=policy)
            method(torch.randn(12, 8))  # only "all" takes it
            method(torch.randn(2, 8))
            assert method.last_profile == name

    def test_takes_the_first_that_fits_when_the_active_one_stops_fitting(
        self, mlp_pte: bytes
    ) -> None:
        method = forward(mlp_pte)
        method(torch.randn(8, 8), profile="middle")
        method(torch.randn(2, 8))
        assert method.last_profile == "small"

    def test_that_finds_no_fit_names_the_input_and_every_range(
        self, transformer_pte: bytes
    ) -> None:
        method = forward(transformer_pte)
        with pytest.raises(InvalidArgument) as refused:
            method(tokens(1, 3))  # between the profiles
        for part in ("1x3", "'decode'", "1..2x1", "'prefill'", "1..2x4..32"):
            assert part in str(refused.value)
        with pytest.raises(InvalidArgument) as refused:
            method(tokens(2, 33))  # more than the program was exported for
        for part in ("[2, 33]", "decode", "prefill", "[1..2, 4..32]"):
            assert part in str(refused.value)
        method(tokens(1, 4))

    def test_uses_the_programs_default_profile(self, mlp_pte: bytes) -> None:
        for default in ("all", 2, {"forward": "all"}):
            method = forward(mlp_pte, default_profile=default)
            method(torch.randn(2, 8))
            assert method.last_profile == "all"
            with ett.optimization_profile(None):
                method(torch.randn(16, 8))
                method(torch.randn(3, 8), profile="small")
            assert method.last_profile == "small"


class TestPins:
    def test_by_name_and_by_index_count_before_the_shape(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte)
        for pin, name in (("all", "all"), (1, "middle"), (0, "small")):
            with ett.optimization_profile(pin):
                method(torch.randn(4, 8))
            assert method.last_profile == name

    def test_nest_restore_and_none_is_automatic_again(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte, profile_selection="first_fit")
        x = torch.randn(4, 8)

        def used() -> str | None:
            method(x)
            return method.last_profile

        with ett.optimization_profile("all"):
            with ett.optimization_profile("middle"):
                assert used() == "middle"
                with ett.optimization_profile(None):
                    assert used() == "small"
                assert used() == "middle"
            assert used() == "all"
        assert used() == "small"

    def test_are_restored_when_the_block_raises(self, mlp_pte: bytes) -> None:
        method = forward(mlp_pte, profile_selection="first_fit")
        with pytest.raises(KeyError), ett.optimization_profile("all"):
            raise KeyError
        method(torch.randn(2, 8))
        assert method.last_profile == "small"

    def test_on_two_threads_do_not_see_each_other(self, mlp_pte: bytes) -> None:
        both_entered = threading.Barrier(2)
        used: dict[str, str | None] = {}

        def run(pin: str) -> None:
            method = forward(mlp_pte)
            with ett.optimization_profile(pin):
                both_entered.wait(30)
                method(torch.randn(4, 8))
                used[pin] = method.last_profile
                both_entered.wait(30)

        threads = [threading.Thread(target=run, args=(pin,)) for pin in ("small", "all")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert used == {"small": "small", "all": "all"}

    @pytest.mark.parametrize(
        ("pin", "text"),
        [
            ("speculate", "'speculate'; there are 'small', 'middle', 'all'"),
            (-1, "index -1 is not one of the 3"),
            (3, "index 3 is not one of the 3"),
            ("small", "'small' does not fit x 16x8; it takes x 1..4x8"),
            (1 << 40, "is not one of the 3"),
        ],
    )
    def test_that_cannot_be_honoured_are_refused(
        self, mlp_pte: bytes, pin: str | int, text: str
    ) -> None:
        method = forward(mlp_pte)
        x = torch.randn(16, 8)
        with pytest.raises(InvalidArgument, match=text), ett.optimization_profile(pin):
            method(x)
        with pytest.raises(InvalidArgument, match=text):
            method(x, profile=pin)
        method(x)
        assert method.last_profile == "all"

    @pytest.mark.parametrize("pin", [True, False, 1.0, b"small"])
    def test_of_another_type_are_refused(self, mlp_pte: bytes, pin: Any) -> None:
        with pytest.raises(TypeError, match=r"name .* or its index"):
            ett.optimization_profile(pin)
        with pytest.raises(TypeError, match=r"name .* or its index"):
            forward(mlp_pte)(torch.randn(4, 8), profile=pin)

    def test_entered_twice_or_left_elsewhere_are_refused(self) -> None:
        pin = ett.optimization_profile("small")
        with pin:
            with pytest.raises(RuntimeError, match="entered already"):
                pin.__enter__()
            errors: list[BaseException] = []

            def leave() -> None:
                try:
                    pin.__exit__(None, None, None)
                except RuntimeError as error:
                    errors.append(error)

            thread = threading.Thread(target=leave)
            thread.start()
            thread.join()
            assert "another thread" in str(errors[0])
        with pin:  # left, it can be entered again
            pass


class TestSeveralDelegates:
    @pytest.fixture(scope="class")
    def method(self) -> ett.Method:
        profiles = (
            OptimizationProfile("one", {"x": ((1, 1, 4), 8)}),
            OptimizationProfile("many", {"x": ((2, 8, 16), 8)}),
        )
        dynamic = {"x": {0: Dim("batch", min=1, max=16)}}
        return forward(exported(seeded(GraphBreak), (torch.randn(4, 8),), dynamic, profiles))

    @staticmethod
    def used(method: ett.Method) -> set[str]:
        stats = method.stats()
        assert len(stats) == 2
        return {delegate["last_profile"] for delegate in stats}

    def test_select_the_same_profile_by_shape(self, method: ett.Method) -> None:
        model = seeded(GraphBreak)
        for batch, name in ((1, "one"), (16, "many"), (3, "many"), (1, "one"), (3, "one")):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(method(x)[0], model(x), atol=1e-4, rtol=0)
            assert self.used(method) == {name}

    def test_use_the_profile_that_is_pinned(self, method: ett.Method) -> None:
        for name in ("many", "one"):
            with ett.optimization_profile(name):
                method(torch.randn(3, 8))
            assert self.used(method) == {name}

    def test_of_which_one_is_static_honour_every_name(self) -> None:
        class DynamicThenStatic(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                total = torch.cumsum(torch.relu(self.first(x)).to(torch.float64), dim=0)
                return self.second(total[-1:].to(x.dtype))

        model = seeded(DynamicThenStatic)
        profiles = (
            OptimizationProfile("one", {"x": (1, 8)}),
            OptimizationProfile("many", {"x": ((2, 8, 16), 8)}),
        )
        dynamic = {"x": {0: Dim("batch", min=1, max=16)}}
        method = forward(exported(model, (torch.randn(4, 8),), dynamic, profiles))
        for batch, pin, name in ((1, None, "one"), (9, None, "many"), (1, "one", "one")):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(method(x, profile=pin)[0], model(x), atol=1e-4, rtol=0)
            assert self.used(method) == {name}
        with pytest.raises(InvalidArgument, match="'two'"):
            method(torch.randn(1, 8), profile="two")
