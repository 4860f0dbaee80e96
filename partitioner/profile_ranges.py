"""Profiles against an exported program: each profile's range for every symbol of its inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.graph import _Namespace
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.value_ranges import ValueRanges

from executorch_tensorrt.backend.aten_graph import is_edge_program
from executorch_tensorrt.backend.symbol_ranges import ProfileSymbols, size_expr
from executorch_tensorrt.profiles import DEFAULT_PROFILE_NAME, DimRange, OptimizationProfile

_FIXED_BY_EXPORT = (
    "make the dim dynamic in torch.export's dynamic_shapes, give that size, or see with "
    'TORCH_LOGS="+dynamic" what in the model fixed it'
)
_FIXED_BY_CHECK = (
    "ExecuTorch's validity check fixes sizes that some operators' arguments compare with; lower "
    "with compile_config=EdgeCompileConfig(_check_ir_validity=False), as "
    "executorch_tensorrt.export does"
)

UNBOUNDED = 2**31 - 1
"""Largest size that is looked for when the exported program gives a symbol no upper bound."""


@dataclass(frozen=True)
class _BoundDim:
    """One dynamic dim of a user input."""

    input: str
    dim: int
    expr: sympy.Expr

    def __str__(self) -> str:
        return f"input '{self.input}', dim {self.dim}"


def user_tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The user's tensor inputs: name -> fake tensor, in call order."""
    values = {
        node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")
    }
    return {
        name: values[name]
        for name in program.graph_signature.user_inputs
        if isinstance(name, str) and isinstance(values.get(name), torch.Tensor)
    }


def resolve_profiles(
    program: ExportedProgram, profiles: Sequence[OptimizationProfile]
) -> tuple[ProfileSymbols, ...]:
    """Checks the profiles against the program's inputs and solves for its symbols.

    A program without dynamic inputs needs no profiles and gets one, named "default".

    Raises:
        ValueError: A profile does not fit the program; the message names profile, input, dim and
            numbers.
    """
    inputs = user_tensors(program)
    dims = _dynamic_dims(inputs)
    if not profiles:
        if dims:
            raise ValueError(
                f"the program's {_list(dims)} is dynamic, so it needs at least one "
                "OptimizationProfile with a range for every dynamic input"
            )
        return (ProfileSymbols(DEFAULT_PROFILE_NAME, {}),)
    limits = {symbol: _allowing_one(bounds) for symbol, bounds in _limits(program).items()}
    fixed_hint = _FIXED_BY_CHECK if is_edge_program(program) else _FIXED_BY_EXPORT
    named = (_with_graph_names(profile, inputs) for profile in profiles)
    return tuple(_resolve(profile, inputs, dims, limits, fixed_hint) for profile in named)


def _with_graph_names(
    profile: OptimizationProfile, inputs: Mapping[str, torch.Tensor]
) -> OptimizationProfile:
    """The profile, with its inputs called as they are in the graph.

    torch.export keeps an argument's name, and torch.fx, when a pass copies the graph, gives one
    that is a Python builtin (`input`) a number.
    """

    def graph_name(name: str) -> str:
        renamed = _Namespace().create_name(name, None)
        return renamed if name not in inputs and renamed in inputs else name

    return OptimizationProfile(
        profile.name, {graph_name(name): shape for name, shape in profile.shapes.items()}
    )


def warn_uncovered_sizes(
    program: ExportedProgram, resolved: Sequence[ProfileSymbols], *, stacklevel: int = 2
) -> None:
    """Warns of sizes that the program was exported for and that no profile covers."""
    limits = _limits(program)
    warned: set[str] = set()
    for dim in _dynamic_dims(user_tensors(program)):
        symbol = str(dim.expr)
        if not dim.expr.is_Symbol or symbol in warned:
            continue
        warned.add(symbol)
        gaps = _gaps(limits.get(symbol), [profile.symbols[symbol] for profile in resolved])
        if gaps:
            warnings.warn(
                f"{dim}: the program was exported for sizes {', '.join(gaps)} too, but no "
                "optimization profile covers them; calls with such sizes will be refused",
                stacklevel=stacklevel + 1,
            )


def _dynamic_dims(inputs: Mapping[str, torch.Tensor]) -> list[_BoundDim]:
    return [
        _BoundDim(name, dim, size_expr(size))
        for name, value in inputs.items()
        for dim, size in enumerate(value.shape)
        if size_expr(size).free_symbols
    ]


def _limits(program: ExportedProgram) -> dict[str, ValueRanges]:
    """What the program was exported for, by symbol."""
    return {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}


def _allowing_one(bounds: ValueRanges) -> ValueRanges:
    """The range with 1 in it if it starts at 2.

    Tracing takes every symbol for at least 2, and torch.export writes that down for a dim whose min
    is 1 too, if the model compares it with 1 or it is derived; its own checks let 1 pass then.
    """
    return ValueRanges(1, bounds.upper) if bounds.lower == 2 else bounds


def _list(dims: Sequence[_BoundDim]) -> str:
    return "; ".join(str(dim) for dim in dims)


def _resolve(
    profile: OptimizationProfile,
    inputs: Mapping[str, torch.Tensor],
    dims: Sequence[_BoundDim],
    limits: Mapping[str, ValueRanges],
    fixed_hint: str,
) -> ProfileSymbols:
    _check_inputs(profile, inputs, dims, fixed_hint)
    symbols: dict[str, DimRange] = {}
    source: dict[str, _BoundDim] = {}
    # Symbols that stand alone first: derived dims (2*s) that share them are then only compared.
    for dim in sorted(dims, key=lambda dim: not dim.expr.is_Symbol):
        where = f"profile '{profile.name}', {dim}"
        given = profile.ranges[dim.input][dim.dim]
        unbound = [s for s in dim.expr.free_symbols if str(s) not in symbols]
        if not unbound:
            implied = ProfileSymbols(profile.name, symbols).bound_expr(dim.expr)
            if implied != given:
                others = _list([source[str(s)] for s in dim.expr.free_symbols])
                raise ValueError(
                    f"{where}: {_numbers(given)} contradicts {others} of the same profile: there "
                    f"{_symbols(dim.expr, symbols)}, so {dim.expr} is {_numbers(implied)}"
                )
            continue
        if len(dim.expr.free_symbols) > 1:
            raise ValueError(
                f"{where}: its size {dim.expr} depends on several symbols, and "
                f"{sorted(map(str, unbound))} is no input's own dim, so it cannot be solved for"
            )
        symbol = str(unbound[0])
        limit = limits.get(symbol, ValueRanges(0, sympy.oo))
        symbols[symbol] = _solve(where, dim.expr, unbound[0], given, limit)
        source[symbol] = dim
    # Last, as torch.export narrows all dims that it found equal to what is allowed to each.
    for symbol, dim in source.items():
        limit = limits.get(symbol, ValueRanges(0, sympy.oo))
        given = profile.ranges[dim.input][dim.dim]
        _check_limits(f"profile '{profile.name}', {dim}", dim.expr, given, symbols[symbol], limit)
    return ProfileSymbols(profile.name, symbols)


def _check_inputs(
    profile: OptimizationProfile,
    inputs: Mapping[str, torch.Tensor],
    dims: Sequence[_BoundDim],
    fixed_hint: str,
) -> None:
    for name, ranges in profile.ranges.items():
        where = f"profile '{profile.name}', input '{name}'"
        if name not in inputs:
            raise ValueError(
                f"{where}: the program has no such tensor input; "
                f"it has {', '.join(inputs) or 'none'}"
            )
        shape = inputs[name].shape
        if len(ranges) != len(shape):
            raise ValueError(
                f"{where}: has {len(ranges)} dims, the program's input has {len(shape)}: "
                f"[{', '.join(str(size) for size in shape)}]"
            )
        for dim, (given, size) in enumerate(zip(ranges, shape, strict=True)):
            expr = size_expr(size)
            if not expr.free_symbols and given != (int(expr),) * 3:
                raise ValueError(
                    f"{where}, dim {dim}: is {_numbers(given)}, but the program was exported with "
                    f"the fixed size {int(expr)} there; {fixed_hint}"
                )
    for dynamic in dims:
        if dynamic.input not in profile.ranges:
            raise ValueError(
                f"profile '{profile.name}', input '{dynamic.input}': has a dynamic dim "
                f"{dynamic.dim} and no range; give every dynamic input a shape"
            )


def _numbers(bounds: DimRange) -> str:
    return f"min {bounds.min}, opt {bounds.opt}, max {bounds.max}"


def _symbols(expr: sympy.Expr, symbols: Mapping[str, DimRange]) -> str:
    names = sorted(str(symbol) for symbol in expr.free_symbols)
    return ", ".join(f"{name} is {_numbers(symbols[name])}" for name in names)


def _solve(
    where: str, expr: sympy.Expr, symbol: sympy.Symbol, given: DimRange, limit: ValueRanges
) -> DimRange:
    """The symbol's range for which `expr` has exactly the range `given`."""
    if expr.is_Symbol:
        return given
    if not _rises(expr, symbol):
        raise ValueError(
            f"{where}: its size {expr} cannot be solved for {symbol}; only sums with and products "
            "by positive numbers and floor division can"
        )

    def at(value: int) -> int:
        return int(expr.xreplace({symbol: sympy.Integer(value)}))

    low = max(int(limit.lower), 0)
    high = int(limit.upper) if limit.upper.is_Integer else UNBOUNDED

    def reaching(size: int) -> int:
        return _first(lambda value: at(value) >= size, low, high)

    found = []
    # The last symbol value that gives max, as a quotient is the same for several.
    for size, value in (
        (given.min, reaching(given.min)),
        (given.opt, reaching(given.opt)),
        (given.max, reaching(given.max + 1) - 1),
    ):
        if not low <= value <= high or at(value) != size:
            raise ValueError(
                f"{where}: {size} is not {expr} for any integer {symbol} in "
                f"{low}..{limit.upper}{_near(at, value, low, high, size)}"
            )
        found.append(value)
    return DimRange(*found)


def _rises(expr: sympy.Expr, symbol: sympy.Symbol) -> bool:
    """Whether `expr` is a floor or a positive multiple of the symbol, plus a number."""
    if isinstance(expr, FloorDiv):
        return bool(expr.args[1].is_Integer and expr.args[1] > 0) and _rises(expr.args[0], symbol)
    if expr.is_Add:
        rest = [part for part in expr.args if not part.is_Integer]
        return len(rest) == 1 and _rises(rest[0], symbol)
    if expr.is_Mul:
        rest = [part for part in expr.args if not (part.is_Integer and part > 0)]
        return len(rest) == 1 and _rises(rest[0], symbol)
    return bool(expr == symbol)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number in low..high from which on `holds`, high + 1 if none."""
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if holds(middle):
            end = middle
        else:
            low = middle + 1
    return low


def _near(at: Callable[[int], int], value: int, low: int, high: int, size: int) -> str:
    near = sorted({at(n) for n in (value - 1, value, value + 1) if low <= n <= high} - {size})
    return f"; nearby sizes are {', '.join(map(str, near))}" if near else ""


def _check_limits(
    where: str, expr: sympy.Expr, given: DimRange, bounds: DimRange, limit: ValueRanges
) -> None:
    low, high = limit.lower, limit.upper
    if bounds.min < low or (high.is_Integer and bounds.max > high):
        derived = "" if expr.is_Symbol else f" (that is {expr} for {_numbers(bounds)})"
        raise ValueError(
            f"{where}: {_numbers(given)}{derived} is outside what the program was exported for, "
            f"{low}..{high if high.is_Integer else 'unbounded'}; change the profile or "
            f"torch.export's dynamic_shapes"
        )


def _gaps(limit: ValueRanges | None, covered: Sequence[DimRange]) -> list[str]:
    if limit is None:
        return []
    gaps, next_size = [], max(int(limit.lower), 1)  # nobody calls with an empty tensor by intent
    for bounds in sorted(covered):
        if bounds.min > next_size:
            gaps.append(_span(next_size, bounds.min - 1))
        next_size = max(next_size, bounds.max + 1)
    if not limit.upper.is_Integer:
        gaps.append(f"{next_size} and up")
    elif int(limit.upper) >= next_size:
        gaps.append(_span(next_size, int(limit.upper)))
    return gaps


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}"
