"""Values as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any


def plain(value: object) -> Any:
    """Return a value as JSON knows it: times in ISO 8601, lengths of time in seconds, enumerations as their text."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(fields_of(value))
    return str(value)


def fields_of(view: object) -> dict[str, Any]:
    """Return the fields of a view by name, in their order."""
    return {each.name: getattr(view, each.name) for each in fields(view)}  # type: ignore[arg-type]
