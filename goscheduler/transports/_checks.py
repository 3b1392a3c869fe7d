"""Checks of the options of transports and of the messages given to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from goscheduler.errors import InvalidArgument, MessageRejected, shown
from goscheduler.plugins import check_plugin_options
from goscheduler.transports.base import Delivery

LONGEST_WAIT = 3600.0

#: What a header can carry as it is: printable ASCII. A percent sign is not among them, so that reading is unambiguous.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")


def check_options(cls: Callable[..., Any], options: Mapping[str, Any], scheme: str) -> None:
    """Raise :class:`~goscheduler.errors.UnknownOption` for what the transport's constructor does not take."""
    check_plugin_options(cls, options, where=f"the transport {scheme}:")


def seconds(field: str, value: Any) -> float:
    """Return a duration of more than nothing, or raise."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 < value <= LONGEST_WAIT:
        raise _refused(field, f"a number of seconds, above 0 and at most {LONGEST_WAIT:g}", value)
    return float(value)


def count(field: str, value: Any) -> int:
    """Return a positive integer, or raise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refused(field, "a positive integer", value)
    return value


def flag(field: str, value: Any) -> bool:
    """Return True or False, or raise."""
    if not isinstance(value, bool):
        raise TypeError(f"{field} must be True or False, got {shown(value)}")
    return value


def text(field: str, value: Any) -> str:
    """Return a string without control characters, which may be empty, or raise."""
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a string, got {shown(value)}")
    if not value.isprintable():
        raise _refused(field, "printable", value)
    return value


def check_texts(message: Delivery) -> None:
    """Raise :class:`~goscheduler.errors.MessageRejected` if a name or metadata is no text that can be sent."""
    for name, value in message.headers().items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise MessageRejected(f"{shown(name)}: {shown(value)} cannot be written as UTF-8") from None


def quoted(value: str) -> str:
    """Return a text as a header can carry it: percent-encoded UTF-8 where it is not plain ASCII.

    Spaces inside stay as they are; those at either end would be lost on the way. ``urllib.parse.unquote`` undoes it.
    """
    trimmed = value.strip(" ") == value
    return quote(value, safe=f"{_PLAIN} " if trimmed else _PLAIN)


def _refused(field: str, expected: str, value: object) -> InvalidArgument:
    return InvalidArgument(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)
