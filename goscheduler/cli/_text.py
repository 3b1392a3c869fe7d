"""Values as people read them in a terminal, and as programs read them in JSON."""

from __future__ import annotations

from datetime import datetime, tzinfo
from enum import Enum

from goscheduler._text import printable
from goscheduler.times import datetime_repr


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
