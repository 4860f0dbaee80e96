"""What profiles mean for a program's symbols, and how sizes of them are bounded."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import sympy
import torch
from models import Mlp
from torch.export import Dim, ExportedProgram
from torch.utils._sympy.functions import FloorDiv

from executorch_tensorrt.backend.symbol_ranges import (
    ProfileSymbols,
    symbols_from_json,
    symbols_to_json,
)
from executorch_tensorrt.partitioner.profile_ranges import resolve_profiles, warn_uncovered_sizes
from executorch_tensorrt.profiles import DimRange, OptimizationProfile


class Sizes(torch.nn.Module):
    """Inputs whose dims are b, 2*h and h, k."""

    def forward(self, q: torch.Tensor, half: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
        return q + torch.cat([half, half], 1) + fixed


@pytest.fixture(scope="module")
def sizes() -> ExportedProgram:
    batch, half = Dim("batch", min=1, max=8), Dim("half", min=1, max=16)
    inputs = (torch.zeros(2, 6, 4), torch.zeros(2, 3, 4), torch.zeros(4))
    return torch.export.export(
        Sizes(), inputs, dynamic_shapes=({0: batch, 1: 2 * half}, {0: batch, 1: half}, None)
    )


def profile(q: Any, half: Any, **more: Any) -> OptimizationProfile:
    return OptimizationProfile("p", {"q": q, "half": half, **more})


def ranges_by_expression(program: ExportedProgram, resolved: ProfileSymbols) -> dict[str, DimRange]:
    shapes = {
        node.name: node.meta["val"].shape
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in ("q", "half")
    }
    return {
        "batch": resolved.bound(shapes["q"][0]),
        "whole": resolved.bound(shapes["q"][1]),
        "half": resolved.bound(shapes["half"][1]),
    }


# --- Profiles against a program ------------------------------------------------------------------


def test_a_profile_binds_every_symbol_of_the_inputs(sizes: ExportedProgram) -> None:
    given = profile([(1, 4, 8), (2, 16, 32), 4], [(1, 4, 8), (1, 8, 16), 4])
    [resolved] = resolve_profiles(sizes, [given])
    assert resolved.name == "p"
    assert ranges_by_expression(sizes, resolved) == {
        "batch": DimRange(1, 4, 8),
        "whole": DimRange(2, 16, 32),
        "half": DimRange(1, 8, 16),
    }


def test_a_static_input_may_be_given_with_its_size(sizes: ExportedProgram) -> None:
    resolve_profiles(sizes, [profile([1, 2, 4], [1, 1, 4], fixed=[4])])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            profile([1, 2, 4], [1, 1, 4], other=[1]),
            (
                "profile 'p', input 'other': the program has no such tensor input; "
                "it has q, half, fixed"
            ),
        ),
        (profile([1, 2], [1, 1, 4]), "input 'q': has 2 dims, the program's input has 3"),
        (
            profile([1, 2, 5], [1, 1, 4]),
            (
                "input 'q', dim 2: is min 5, opt 5, max 5, but the program was exported "
                "with the fixed size 4 there"
            ),
        ),
        (profile([1, 2, 4], [1, 1, 4], fixed=[(3, 4, 4)]), "input 'fixed', dim 0: is min 3"),
        (
            profile([(1, 1, 9), 2, 4], [(1, 1, 9), 1, 4]),
            (
                "input 'q', dim 0: min 1, opt 1, max 9 is outside what the program was "
                "exported for, 1..8"
            ),
        ),
        (
            profile([(0, 1, 8), 2, 4], [(0, 1, 8), 1, 4]),
            "input 'q', dim 0: min 0, opt 1, max 8 is outside .* 1..8",
        ),
        (
            OptimizationProfile("p", {"q": [1, 2, 4]}),
            "profile 'p', input 'half': has a dynamic dim 0 and no range",
        ),
        (
            profile([(1, 2, 8), 2, 4], [(1, 2, 7), 1, 4]),
            (
                "input 'half', dim 0: min 1, opt 2, max 7 contradicts input 'q', dim 0 .* "
                "is min 1, opt 2, max 8"
            ),
        ),
        (
            profile([1, (2, 6, 10), 4], [1, (1, 3, 4), 4]),
            (
                "input 'q', dim 1: min 2, opt 6, max 10 contradicts input 'half', dim 1 .* "
                "is min 2, opt 6, max 8"
            ),
        ),
    ],
)
def test_a_profile_that_does_not_fit_the_program_is_refused(
    sizes: ExportedProgram, given: OptimizationProfile, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_profiles(sizes, [given])


def test_a_dynamic_program_needs_a_profile(sizes: ExportedProgram) -> None:
    with pytest.raises(ValueError, match=r"input 'q', dim 0; .* is dynamic, so it needs at least"):
        resolve_profiles(sizes, [])


def test_a_static_program_has_one_profile_named_default() -> None:
    program = torch.export.export(Mlp(), (torch.zeros(2, 8),))
    assert resolve_profiles(program, []) == (ProfileSymbols("default", {}),)


def derived(expression: str) -> ExportedProgram:
    """A program whose only dynamic input has a derived dim."""
    s = Dim("s", min=1, max=16)
    dim = {"2*s": 2 * s, "s + 1": s + 1, "3*s + 2": 3 * s + 2}[expression]
    size = {"2*s": 8, "s + 1": 5, "3*s + 2": 14}[expression]

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    return torch.export.export(Add(), (torch.zeros(size, 2),), dynamic_shapes=({0: dim},))


@pytest.mark.parametrize(
    ("expression", "given", "symbol"),
    [
        ("2*s", (2, 8, 32), (1, 4, 16)),
        ("s + 1", (2, 5, 17), (1, 4, 16)),
        ("3*s + 2", (5, 14, 50), (1, 4, 16)),
    ],
)
def test_a_derived_dim_is_solved_for_its_symbol(
    expression: str, given: tuple[int, int, int], symbol: tuple[int, int, int]
) -> None:
    program = derived(expression)
    [resolved] = resolve_profiles(program, [OptimizationProfile("p", {"x": [given, 2]})])
    assert list(resolved.symbols.values()) == [DimRange(*symbol)]
    shape = next(iter(program.graph.find_nodes(op="placeholder"))).meta["val"].shape
    assert resolved.bound(shape[0]) == DimRange(*given)


def test_a_size_that_a_derived_dim_cannot_have_is_refused_with_its_neighbours() -> None:
    given = OptimizationProfile("p", {"x": [(2, 7, 32), 2]})
    with pytest.raises(ValueError, match=r"'x', dim 0: 7 is not 2\*.*; nearby sizes are 6, 8"):
        resolve_profiles(derived("2*s"), [given])


def test_a_derived_dim_past_its_symbol_s_range_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"'x', dim 0: 34 is not 2\*.* for any integer .* 1..16; nearby .* 32"
    ):
        resolve_profiles(derived("2*s"), [OptimizationProfile("p", {"x": [(2, 8, 34), 2]})])


def test_sizes_that_no_profile_covers_are_warned_of(sizes: ExportedProgram) -> None:
    few = [
        OptimizationProfile("a", {"q": [1, 4, 4], "half": [1, 2, 4]}),
        OptimizationProfile("b", {"q": [(3, 4, 8), 32, 4], "half": [(3, 4, 8), 16, 4]}),
    ]
    with pytest.warns(UserWarning, match="no optimization profile covers them") as caught:
        warn_uncovered_sizes(sizes, resolve_profiles(sizes, few))
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "input 'q', dim 0: the program was exported for sizes 2 too" in messages[0]
    assert "input 'half', dim 1: the program was exported for sizes 1, 3..15 too" in messages[1]


def test_profiles_that_cover_everything_are_not_warned_of(sizes: ExportedProgram) -> None:
    both = [
        profile([1, (2, 2, 8), 4], [1, (1, 1, 4), 4]),
        OptimizationProfile(
            "b", {"q": [(2, 2, 8), (10, 12, 32), 4], "half": [(2, 2, 8), (5, 6, 16), 4]}
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_uncovered_sizes(sizes, resolve_profiles(sizes, both))


# --- Ranges of expressions -----------------------------------------------------------------------

S, T = (
    sympy.Symbol("s", integer=True, positive=True),
    sympy.Symbol("t", integer=True, positive=True),
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (S, (1, 4, 10)),
        (2 * S + 1, (3, 9, 21)),
        (FloorDiv(S, 2), (0, 2, 5)),
        (S * T, (2, 12, 50)),
        (S + T - 1, (2, 6, 14)),
        (S**2, (1, 16, 100)),
        (FloorDiv(S * T, 3), (0, 4, 16)),
        (sympy.Integer(7), (7, 7, 7)),
    ],
)
def test_a_rising_expression_is_bounded_exactly_by_its_corners(
    expression: sympy.Expr, expected: tuple[int, int, int]
) -> None:
    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10), "t": DimRange(2, 3, 5)})
    assert symbols.bound_expr(expression) == DimRange(*expected)


def test_a_falling_expression_is_bounded_the_right_way_round() -> None:
    assert ProfileSymbols("p", {"s": DimRange(1, 4, 10)}).bound_expr(20 - S) == DimRange(10, 16, 19)


def test_an_expression_that_is_not_monotone_is_bounded_exactly_over_one_symbol() -> None:
    from torch.utils._sympy.functions import PythonMod

    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10)})
    assert symbols.bound_expr(PythonMod(S, 4)) == DimRange(0, 0, 3)
    assert symbols.bound_expr((S - 5) ** 2) == DimRange(0, 1, 25)


def test_bounds_over_several_symbols_hold_every_value_of_the_expression() -> None:
    symbols = ProfileSymbols("p", {"s": DimRange(1, 4, 10), "t": DimRange(2, 3, 5)})
    bounds = symbols.bound_expr(S * (20 - S - T))
    values = [s * (20 - s - t) for s in range(1, 11) for t in range(2, 6)]
    assert bounds.min <= min(values)
    assert max(values) <= bounds.max
    assert bounds.opt == 4 * 13


def test_a_symbol_without_a_range_is_named() -> None:
    with pytest.raises(ValueError, match=r"profile 'p' gives no range to \['t'\] of size s\*t"):
        ProfileSymbols("p", {"s": DimRange(1, 4, 10)}).bound_expr(S * T)


def test_profile_symbols_survive_their_compile_spec() -> None:
    profiles = (ProfileSymbols("ä", {"s": DimRange(1, 2, 3)}), ProfileSymbols("b", {}))
    assert symbols_from_json(symbols_to_json(profiles)) == profiles
