"""The model that a command line names: code, or a program that torch.export saved."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import BadArgument, CommandError

_GRAMMAR = (
    "FILE.py:NAME or package.module:NAME, where NAME is a torch.nn.Module or a function that "
    "returns one (or the model and its example inputs), or FILE.pt2"
)


@dataclass(frozen=True)
class Model:
    """What is to be exported.

    Attributes:
        model: A module in eval mode or an ExportedProgram.
        args: Positional example inputs; none for an ExportedProgram.
        kwargs: Keyword example inputs.
    """

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def default_output(source: str) -> Path:
    """The file that is written unless another is named: called as the model, and here."""
    place = source.rpartition(":")[0] or source
    name = Path(place).stem if place.endswith((".py", ".pt2")) else place.rpartition(".")[2]
    return Path(f"{name}.pte")


def load_model(source: str) -> Model:
    """The model, and the inputs to trace it with.

    Raises:
        BadArgument: There is no such file, module or name, or it is no model; the message says
            which.
        CommandError: The code that makes the model failed.
    """
    import torch

    if source.endswith(".pt2"):
        return Model(_saved_program(Path(source)))
    place, colon, name = source.rpartition(":")
    if not colon or not name.isidentifier():
        raise BadArgument(f"MODEL '{source}': a model is given as {_GRAMMAR}")
    module = _module(place, source)
    if not hasattr(module, name):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise BadArgument(f"MODEL '{source}': {place} has no '{name}'; it has {', '.join(names)}")
    made = getattr(module, name)
    if callable(made) and not isinstance(made, torch.nn.Module):
        made = _call(made, source)
    args = getattr(module, "example_inputs", None)
    if isinstance(made, tuple) and len(made) == 2:
        made, args = made
    elif callable(args):
        args = _call(args, f"{place}:example_inputs")
    if not isinstance(made, torch.nn.Module):
        raise BadArgument(
            f"MODEL '{source}' gives {type(made).__name__}; a model is given as {_GRAMMAR}"
        )
    return Model(made.eval(), *_examples(args, source, place))


def _examples(args: Any, source: str, place: str) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if args is None:
        raise BadArgument(
            f"MODEL '{source}' gives no example inputs to trace with; let it return "
            f"(model, (input, ...)), or write example_inputs = (input, ...) into {place}"
        )
    if isinstance(args, Mapping):
        return (), args
    if not isinstance(args, Sequence):
        raise BadArgument(
            f"MODEL '{source}': example inputs must be a tuple of inputs, or a dict by name, got "
            f"one {type(args).__name__}"
        )
    return tuple(args), {}


def _saved_program(path: Path) -> Any:
    import torch

    if not path.is_file():
        raise BadArgument(f"MODEL: no such file: {path}")
    if not zipfile.is_zipfile(path):  # torch would log a traceback first
        raise BadArgument(f"MODEL: {path} is no program that torch.export.save wrote: no archive")
    try:
        return torch.export.load(path)
    except Exception as error:  # whatever torch meets in a file that is something else
        raise BadArgument(
            f"MODEL: {path} is no program that torch.export.save wrote: {error}"
        ) from error


def _module(place: str, source: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and (place == error.name or place.startswith(f"{error.name}.")):
                raise BadArgument(f"MODEL '{source}': no module named '{error.name}'") from error
            raise _failure(source, error) from error
        except Exception as error:
            raise _failure(source, error) from error
        finally:
            sys.path.remove("")
    path = Path(place)
    if not path.is_file():
        raise BadArgument(f"MODEL '{source}': no such file: {path}")
    # A name of its own: a model in json.py must not take the place of the module json.
    name = f"_model_in_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failure(source, error) from error
    return module


def _call(function: Any, source: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise _failure(source, error) from error


def _failure(source: str, error: Exception) -> CommandError:
    """What the user's code ran into, with the line it was at."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    at = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame is not None else ""
    return CommandError(f"MODEL '{source}' failed: {type(error).__name__}: {error}{at}")
