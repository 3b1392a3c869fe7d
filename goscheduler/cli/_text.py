"""Text of unknown origin, made safe for a terminal.

Names of jobs, messages of errors and results come from users. An escape sequence in one of them could clear the
screen or change what the reader believes to see, so everything that does not print is shown as its escape.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from enum import Enum

from goscheduler.times import datetime_repr


def printable(text: str) -> str:
    """Return text on one line, with whatever does not print as an escape."""
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def printable_lines(text: str) -> str:
    """Return text with its line ends, and everything else that does not print as an escape."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def cell(value: object, zone: tzinfo) -> str:
    """Return a value as people read it: times in ``zone`` with its name, nothing as nothing."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return datetime_repr(value.astimezone(zone))
    if isinstance(value, Enum):
        return printable(str(value.value))
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(map(str, value)))
    if isinstance(value, dict):
        return printable(", ".join(f"{key}={item}" for key, item in value.items()))
    return printable(str(value))


def plain(value: object) -> object:
    """Return a value as JSON knows it: times in ISO 8601, enumerations as their text."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
