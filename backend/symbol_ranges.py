"""What a profile says about a program's symbolic sizes, and what follows for an expression.

A profile binds the symbols of torch.export's shape environment ("s35") to ranges. A partition's
inputs have sizes that are expressions over these symbols; their ranges are derived here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.functions import Max as SymMax
from torch.utils._sympy.functions import Min as SymMin
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from executorch_tensorrt.profiles import DimRange

Size: TypeAlias = int | torch.SymInt

MAX_ENUMERATED_SIZES = 4096
"""A non-monotone expression over one symbol is bounded exactly for up to this many values."""


def size_expr(size: Size) -> sympy.Expr:
    """The sympy expression of a size."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(int(size))


def free_symbols(value: Any) -> set[str]:
    """Names of the symbols in a node's `meta["val"]`: a tensor's sizes, a SymInt, or a list."""
    if isinstance(value, torch.Tensor):
        sizes: Sequence[Any] = tuple(value.shape)
    elif isinstance(value, list | tuple):
        return set().union(*(free_symbols(item) for item in value))
    else:
        sizes = (value,)
    symbols: set[str] = set()
    for size in sizes:
        if isinstance(size, torch.SymInt | torch.SymBool | torch.SymFloat):
            symbols |= {str(symbol) for symbol in size.node.expr.free_symbols}
    return symbols


@dataclass(frozen=True)
class ProfileSymbols:
    """One profile's range for each symbol of the program."""

    name: str
    symbols: Mapping[str, DimRange]
    _bounds: dict[sympy.Expr, DimRange] = field(default_factory=dict, compare=False, repr=False)

    def bound(self, size: Size) -> DimRange:
        """The range of a size under this profile; `opt` is the size at every symbol's opt.

        Raises:
            ValueError: The size has a symbol without a range, or no upper bound.
        """
        return self.bound_expr(size_expr(size))

    def bound_expr(self, expr: sympy.Expr) -> DimRange:
        """`bound`, of a size's expression."""
        if expr not in self._bounds:
            self._bounds[expr] = self._bound(expr)
        return self._bounds[expr]

    def _bound(self, expr: sympy.Expr) -> DimRange:
        symbols = sorted(expr.free_symbols, key=str)
        missing = [str(symbol) for symbol in symbols if str(symbol) not in self.symbols]
        if missing:
            raise ValueError(f"profile '{self.name}' gives no range to {missing} of size {expr}")
        ranges = {symbol: self.symbols[str(symbol)] for symbol in symbols}
        opt = _evaluate(expr, {symbol: bounds.opt for symbol, bounds in ranges.items()})
        low, high = _bounds(expr, ranges)
        if high is None:
            raise ValueError(f"profile '{self.name}': size {expr} has no upper bound")
        return DimRange(min(low, opt), opt, max(high, opt))


def symbols_to_json(profiles: Sequence[ProfileSymbols]) -> bytes:
    """Profiles in declared order, as JSON for a compile spec."""
    return json.dumps(
        [{"name": profile.name, "symbols": dict(profile.symbols)} for profile in profiles]
    ).encode()


def symbols_from_json(text: bytes) -> tuple[ProfileSymbols, ...]:
    """Reads what `symbols_to_json` wrote."""
    return tuple(
        ProfileSymbols(
            item["name"], {name: DimRange(*bounds) for name, bounds in item["symbols"].items()}
        )
        for item in json.loads(text)
    )


def _evaluate(expr: sympy.Expr, values: Mapping[sympy.Symbol, int]) -> int:
    value = expr.xreplace({symbol: sympy.Integer(size) for symbol, size in values.items()})
    if not value.is_integer:
        raise ValueError(f"size {expr} is {value} for {values}, which is no integer")
    return int(value)


def _bounds(expr: sympy.Expr, ranges: Mapping[sympy.Symbol, DimRange]) -> tuple[int, int | None]:
    """Lowest and highest value of `expr`: exact where it can be, else safe; None: unbounded."""
    if _is_nondecreasing(expr, ranges):
        lowest = _evaluate(expr, {symbol: bounds.min for symbol, bounds in ranges.items()})
        return lowest, _evaluate(expr, {symbol: bounds.max for symbol, bounds in ranges.items()})
    if len(ranges) == 1:
        [(symbol, bounds)] = ranges.items()
        if bounds.max - bounds.min < MAX_ENUMERATED_SIZES:
            sizes = [_evaluate(expr, {symbol: n}) for n in range(bounds.min, bounds.max + 1)]
            return min(sizes), max(sizes)
    safe = bound_sympy(
        expr, {symbol: ValueRanges(bounds.min, bounds.max) for symbol, bounds in ranges.items()}
    )
    low = int(safe.lower) if safe.lower.is_Integer else 0
    return max(low, 0), int(safe.upper) if safe.upper.is_Integer else None


def _is_nondecreasing(expr: sympy.Expr, ranges: Mapping[sympy.Symbol, DimRange]) -> bool:
    """Whether `expr` surely never falls while a symbol grows, so that corners bound it exactly."""
    if expr.is_Integer or expr.is_Symbol:
        return True
    parts_rise = all(_is_nondecreasing(part, ranges) for part in expr.args)
    if expr.is_Add or isinstance(expr, SymMax | SymMin):
        return parts_rise
    if expr.is_Mul:
        lowest = {symbol: sympy.Integer(bounds.min) for symbol, bounds in ranges.items()}
        return parts_rise and all(part.xreplace(lowest) >= 0 for part in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        return bool(base.is_Symbol and exponent.is_Integer and exponent > 0)
    if isinstance(expr, FloorDiv):
        return bool(expr.args[1].is_Integer and expr.args[1] > 0) and parts_rise
    return False
