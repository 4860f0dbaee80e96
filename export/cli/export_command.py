"""`executorch-tensorrt export`: a model to a `.pte`."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from pathlib import Path
from typing import Any

import click

from .compile_arguments import compile_options, make_options
from .console import line, show_log, size
from .errors import FAILED, BadArgument, CommandError
from .model_source import Model, default_output, load_model
from .partition_table import show_report
from .profile_arguments import Settings, parse_profiles, read_settings


@click.command()
@click.argument("model")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME:INPUT=SHAPE,...",
    help="A named shape regime, such as prefill:input_ids=1x2..128..512; one option for each.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with [profiles.NAME] and [options]; arguments go before it.",
)
@click.option("--strict", is_flag=True, help="torch.export's strict mode.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no report.")
@click.option("--traceback", "with_traceback", is_flag=True, help="Show where a failure happened.")
@compile_options
def export(
    model: str,
    output: Path | None,
    profiles: tuple[str, ...],
    config: Path | None,
    strict: bool,
    quiet: bool,
    with_traceback: bool,
    **options: Any,
) -> None:
    """Export MODEL to a .pte with TensorRT engines inside.

    MODEL is FILE.py:NAME or package.module:NAME, where NAME is a torch.nn.Module, or a function
    that returns one, or one and its example inputs; or FILE.pt2, a program that torch.export saved.
    Without example inputs from NAME, the file's `example_inputs` count. Models are exported in eval
    mode. Needs PyTorch and a TensorRT; TensorRT-RTX needs no GPU.
    """
    settings = read_settings(config) if config is not None else Settings()
    declared = parse_profiles(profiles) or settings.profiles
    made_options = make_options(options, settings.options or {})
    target = output or default_output(model)
    if not target.resolve().parent.is_dir():
        raise BadArgument(f"--output {target}: there is no folder {target.parent}")
    show_log(quiet=quiet)
    try:
        source = load_model(model)
        written = _export(source, target, declared, made_options, strict=strict, quiet=quiet)
    except (CommandError, KeyboardInterrupt):
        raise
    except Exception as error:
        if with_traceback:
            traceback.print_exc()
        raise _failure(error) from error
    if not quiet:
        line(f"wrote {target}, {size(written)}", style="bold green")


def _export(
    source: Model, target: Path, profiles: Any, options: Any, *, strict: bool, quiet: bool
) -> int:
    """Writes the program, whole or not at all, and says what TensorRT took; its bytes."""
    import executorch_tensorrt as ett
    from executorch_tensorrt.backend.build_progress import build_progress

    with build_progress("off" if quiet else "auto"), _warnings_in_a_line():
        program = ett.export(
            source.model,
            source.args,
            example_kwargs=source.kwargs,
            profiles=profiles,
            options=options,
            strict=strict,
        )
    unfinished = target.with_name(f".unfinished-{os.getpid()}-{target.stem}.pte")
    try:
        program.save(str(unfinished))
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    if not quiet:
        for name, report in ett.explain(program).methods.items():
            show_report(name, report)
    return target.stat().st_size


@contextlib.contextmanager
def _warnings_in_a_line() -> Any:
    """Python's warnings without the line of code that they are raised at, each once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in (DeprecationWarning, FutureWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = lambda message, *_args, **_kwargs: click.echo(
            f"warning: {message}", err=True
        )
        yield


def _failure(error: Exception) -> CommandError:
    hint = "; --traceback shows where"
    if isinstance(error, ImportError):
        return CommandError(f"export needs more than is installed: {error}")
    # What export() raises where profiles, options and model don't fit each other.
    if type(error) in (ValueError, TypeError):
        return BadArgument(f"{error}{hint}")
    return CommandError(f"{type(error).__name__}: {error}{hint}", FAILED)
