"""What a command ends with."""

from __future__ import annotations

import sys

import click

FAILED = 1
BAD_ARGUMENT = 2
DAMAGED = 3
DIFFERENT = 4
INTERRUPTED = 130


class CommandError(click.ClickException):
    """Ends a command with a message, without traceback, and with an exit code.

    Args:
        message: Says what is wrong, and what would be right.
        exit_code: `FAILED` and its siblings.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code: int = exit_code  # type: ignore[misc]  # click's own subclasses do so

    def show(self, file: object = None) -> None:
        """Prints the message to standard error."""
        print(f"executorch-tensorrt: {self.message}", file=sys.stderr)


class BadArgument(CommandError):
    """An argument of the command line, or what a file that it names says, can't be right."""

    def __init__(self, message: str) -> None:
        super().__init__(message, BAD_ARGUMENT)
