"""Values as people read them in a terminal."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from enum import Enum
from typing import Any

from goscheduler._text import printable
from goscheduler.times import datetime_repr

#: The fields of views that hold a moment. What users call their own is not among them.
MOMENTS = frozenset({
    "at", "created_at", "due_at", "expires_at", "finished_at", "first", "last", "last_run", "last_success",
    "next_run_time", "reported_at", "scheduled_at", "since", "start", "started_at", "until",
})  # fmt: skip
#: Fields that hold values of the users, shown as they are.
USERS_OWN = frozenset({"args", "kwargs", "metadata", "arguments", "outcome"})
#: A nominal day and minute, in seconds.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


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


def field_cell(name: str, value: object, zone: tzinfo) -> str:
    """Return a field of a view as people read it: moments as such, what is the users' own as JSON."""
    if name in MOMENTS and isinstance(value, str):
        return cell(moment(value), zone)
    if name in USERS_OWN and value is not None and not isinstance(value, str):
        return as_json(value)
    return cell(value, zone)


def moment(text: str) -> datetime | str:
    """Return the moment of a view; a text that is none as it is."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def as_json(value: Any) -> str:
    """Return a value as JSON on one line, readable and printable."""
    return printable(json.dumps(value, ensure_ascii=False, default=str))


def percent(share: float | None, note: str = "") -> str:
    """Return the progress of a run as people read it."""
    words = ["" if share is None else f"{share:.0%}", note]
    return " ".join(word for word in words if word)


def length(seconds: float) -> str:
    """Return a length of time in its largest unit: ``90 min`` is 1.5 h."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"


def many(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 job``, ``12,000 jobs``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def examples(names: list[str], count: int) -> str:
    """Return some names, and how many more there are."""
    more = count - len(names)
    return printable(", ".join(names)) + (f" and {more:,} more" if more > 0 else "")
