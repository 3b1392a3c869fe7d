"""Errors of commands: one line on stderr and an exit code.

0 is done, 1 the thing asked for is not there or failed, 2 wrong usage.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from goscheduler._text import printable, printable_lines
from goscheduler._urls import masked_text
from goscheduler.cli._output import discard
from goscheduler.errors import GoSchedulerError, described

FAILED = 1
WRONG_USAGE = 2


class CommandError(Exception):
    """A command cannot do what was asked; the reason in one line."""

    def __init__(self, message: str, code: int = WRONG_USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def errors_told(debug: bool = False) -> Iterator[None]:
    """Turn errors into one line on stderr and an exit code; with ``debug`` the traceback goes before it."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError as error:  # of our output, drivers have errors of their own
        discard()
        raise typer.Exit(0) from error
    except Exception as error:
        if debug:
            print(printable_lines("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        print(f"Error: {printable(masked_text(one_line(error)))}", file=sys.stderr)
        raise typer.Exit(exit_code(error)) from error


def exit_code(error: Exception) -> int:
    """Return the code that tells of an error."""
    if isinstance(error, CommandError):
        return error.code
    from goscheduler.ops.errors import kind_of  # it knows every error there is, and commands rarely fail

    return kind_of(error).exit


def one_line(error: BaseException) -> str:
    """Return an error in one line; our own errors are sentences, others need their type to be understood."""
    text = str(error) if isinstance(error, (CommandError, GoSchedulerError)) else described(error)
    return " ".join(text.split())
