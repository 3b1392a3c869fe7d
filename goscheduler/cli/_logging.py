"""Log lines of a worker, on stderr, unless the user's module has set up logging itself; those of other commands."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goscheduler._text import printable_lines
from goscheduler.cli._command_error import CommandError
from goscheduler.errors import shown
from goscheduler.logs import guarded_logger

if TYPE_CHECKING:
    from rich.console import Console

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("text", "json")

_logger = guarded_logger("goscheduler.worker")


class PrintableFormatter(logging.Formatter):
    """Formats records so that nothing in them can reach a terminal as a command."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def read_level(text: str) -> str:
    """Return the name of a level as the logging package has it."""
    if text.upper() not in LEVELS:
        raise CommandError(f"--log-level must be one of {', '.join(LEVELS)}, got {shown(text)}")
    return text.upper()


def read_format(text: str) -> str:
    """Return how log lines are to be written."""
    if text.lower() not in FORMATS:
        raise CommandError(f"--log-format must be one of {', '.join(FORMATS)}, got {shown(text)}")
    return text.lower()


def set_up_logging(level: str, console: Console, log_format: str = "text") -> None:
    """Send log lines of this level and above to stderr; logging that is set up already is left as it is."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_handler(console, log_format))
        root.setLevel(level)
    elif log_format == "json":
        _logger.warning(
            "The module sets up logging itself, so --log-format json has no effect; give its handler "
            "goscheduler.telemetry.JSONFormatter()"
        )


def _handler(console: Console, log_format: str) -> logging.Handler:
    handler: logging.Handler
    if log_format == "json":
        from goscheduler.telemetry.json_log import JSONFormatter

        handler = logging.StreamHandler()
        handler.setFormatter(JSONFormatter())
    elif console.is_terminal:
        from rich.highlighter import NullHighlighter
        from rich.logging import RichHandler

        # Through the console of the live line, which is then moved below what is logged.
        handler = RichHandler(console=console, show_path=False, markup=False, highlighter=NullHighlighter())
        handler.setFormatter(PrintableFormatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


@contextmanager
def silent_log() -> Iterator[None]:
    """Keep warnings of the library and of drivers off stderr: what concerns the user is an error of the command."""
    nowhere = logging.NullHandler()
    root = logging.getLogger()
    root.addHandler(nowhere)
    try:
        yield
    finally:
        root.removeHandler(nowhere)
