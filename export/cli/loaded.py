"""A method that a command loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import BadArgument, CommandError

if TYPE_CHECKING:
    from executorch_tensorrt import Method, RuntimeOptions


def load_method(
    program: Path, name: str, device: str | None, options: RuntimeOptions | None = None
) -> Method:
    """Loads one method of a program.

    Raises:
        BadArgument: The device or an option does not fit.
        CommandError: The program can't run here; the message says what is missing.
    """
    try:
        import executorch_tensorrt as ett
        from executorch_tensorrt import runtime
    except ImportError as error:
        raise CommandError(str(error)) from error
    try:
        return ett.load(program, device=device, options=options, methods=[name])[name]
    except runtime.InvalidArgument as error:
        raise BadArgument(str(error)) from error
    except runtime.NotFound as error:
        raise CommandError(f"{error}\n`executorch-tensorrt doctor` looks for the cause") from error
    except runtime.TensorRTError as error:
        raise CommandError(str(error)) from error
