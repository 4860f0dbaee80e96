"""Inputs for a method of a `.pte`: random ones, or from a `.npz`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..pte.program import Method, Program, Value
from .errors import BadArgument

DEFAULT_INTEGERS = (0, 1)


def choose_method(program: Program, name: str | None) -> Method:
    """The method of a name; without one, the only method, or `forward`.

    Raises:
        BadArgument: There is no such method.
    """
    methods = {method.name: method for method in program.methods}
    if name is None and len(methods) == 1:
        return next(iter(methods.values()))
    wanted = "forward" if name is None else name
    if wanted not in methods:
        raise BadArgument(f"--method: the program has no '{wanted}'; it has {', '.join(methods)}")
    return methods[wanted]


def check_profile(method: Method, profile: str) -> None:
    """Refuses a profile that the method does not have."""
    if profile not in method.profiles:
        has = ", ".join(method.profiles) or "none"
        raise BadArgument(f"--profile: method '{method.name}' has no '{profile}'; it has {has}")


def parse_shapes(texts: Sequence[str], method: Method) -> dict[int, tuple[int, ...]]:
    """Shapes such as `input_ids=1x16`, by the input's position.

    Raises:
        BadArgument: One is no shape, or of an input that the method does not have.
    """
    shapes = {}
    for text in texts:
        name, _, shape = text.partition("=")
        if not re.fullmatch(r"\d+(x\d+)*", shape):
            raise BadArgument(f"--shape {text}: a shape is INPUT=SIZExSIZE, such as input_ids=1x16")
        shapes[_position(name, method, "--shape")] = tuple(map(int, shape.split("x")))
    return shapes


def parse_integers(text: str) -> tuple[int, int]:
    """Bounds of random integers, such as `0..999`.

    Raises:
        BadArgument: They are none.
    """
    found = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text)
    if not found or int(found[1]) > int(found[2]):
        raise BadArgument(f"--integers {text}: bounds are LEAST..GREATEST, such as 0..999")
    return int(found[1]), int(found[2])


def random_inputs(
    method: Method,
    profile: str | None,
    *,
    shapes: Mapping[int, tuple[int, ...]],
    integers: tuple[int, int] = DEFAULT_INTEGERS,
    seed: int = 0,
) -> list[Any]:
    """Inputs of a method: tensors of the profile's opt shapes, or of those given; stored numbers.

    Without a profile, the first that the method has.

    Raises:
        BadArgument: A shape has to be given, or a type can't be made up.
    """
    generator = np.random.default_rng(seed)
    chosen = profile or next(iter(method.profiles), None)
    inputs: list[Any] = []
    for index, value in enumerate(method.inputs):
        if value.kind != "tensor":
            if value.scalar is None:
                raise BadArgument(f"input {index} is a {value.kind}; give inputs with --inputs")
            inputs.append(value.scalar)
            continue
        shape = shapes.get(index) or _shape(value, chosen, index)
        inputs.append(_random(value.dtype, shape, integers, generator, index))
    return inputs


def read_inputs(path: Path, method: Method) -> list[Any]:
    """Inputs from a `.npz`, by their name or in numpy.savez's order (arr_0, arr_1, ...).

    Raises:
        BadArgument: The file is none, or an input is missing or too many.
    """
    arrays = read_arrays(path, "--inputs")
    inputs: dict[int, Any] = {}
    for key, array in arrays.items():
        index = _position(key, method, f"--inputs {path}")
        value = method.inputs[index]
        if value.kind != "tensor":
            inputs[index] = array.item()
        elif str(array.dtype) != value.dtype and value.dtype != "bfloat16":
            raise BadArgument(
                f"--inputs {path}: '{key}' is {array.dtype}, input {_named(value, index)} is "
                f"{value.dtype}"
            )
        else:
            inputs[index] = _to_bfloat16(array) if value.dtype == "bfloat16" else array
    for index, value in enumerate(method.inputs):
        if index not in inputs and value.scalar is None:
            raise BadArgument(f"--inputs {path}: input {_named(value, index)} is missing")
    return [inputs.get(index, value.scalar) for index, value in enumerate(method.inputs)]


def read_arrays(path: Path, option: str) -> dict[str, np.ndarray[Any, Any]]:
    """A `.npz`'s arrays.

    Raises:
        BadArgument: The file is none.
    """
    try:
        with np.load(path) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name; numpy.savez writes a .npz")
            return {key: file[key] for key in file.files}
    except Exception as error:  # zipfile's, pickle's and numpy's, of a file that is something else
        raise BadArgument(f"{option} {path} is no .npz: {error}") from error


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """An output as an array: a tensor of NumPy's or PyTorch's, or a number."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    return np.asarray(value)


def _position(name: str, method: Method, where: str) -> int:
    """The input of a name; `arr_N` and `N` are those at a position."""
    names = [value.name for value in method.inputs]
    if name in names and name:
        return names.index(name)
    found = re.fullmatch(r"(?:arr_|input_?)?(\d+)", name)
    if found and int(found[1]) < len(names):
        return int(found[1])
    known = ", ".join(_named(value, index) for index, value in enumerate(method.inputs)) or "none"
    raise BadArgument(f"{where}: method '{method.name}' has no input '{name}'; it has {known}")


def _named(value: Value, index: int) -> str:
    return f"'{value.name}'" if value.name else f"{index}"


def _shape(value: Value, profile: str | None, index: int) -> tuple[int, ...]:
    if profile is not None and profile in value.ranges:
        return value.ranges[profile].opt
    if value.dynamic:
        raise BadArgument(
            f"input {_named(value, index)} has sizes of up to {value.shape} and goes to no "
            f"TensorRT delegate, so no profile says which: give --shape {value.name or index}=..."
        )
    return value.shape


def _random(
    dtype: str,
    shape: tuple[int, ...],
    integers: tuple[int, int],
    generator: np.random.Generator,
    index: int,
) -> Any:
    if dtype == "bfloat16":
        return _to_bfloat16(generator.standard_normal(shape, np.float32))
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float") and "_" not in dtype:
        return generator.standard_normal(shape, np.float32).astype(dtype)
    if dtype.startswith(("int", "uint")):
        return generator.integers(integers[0], integers[1] + 1, shape).astype(dtype)
    raise BadArgument(f"input {index} is of {dtype}, of which no random values can be made here")


def _to_bfloat16(array: Any) -> Any:
    try:
        import torch
    except ImportError as error:
        raise BadArgument("bfloat16 inputs need PyTorch, which is not installed") from error
    return torch.from_numpy(np.ascontiguousarray(array, np.float32)).bfloat16()
