"""What a document scheduler knows of a document, and under which names it finds it.

The user's document may look like anything. Four of its fields mean something here: when it is to be processed next
(``sleepUntil``), by which crontab line again (``interval``), until when (``repeatUntil``), and whether it is removed
when there is no next time (``autoRemove``). Each may be called otherwise and lie deeper: ``cron.sleepUntil``.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import UTC, from_micros, micros_of, to_micros

LONGEST_PATH = 200


class Document(NamedTuple):
    """A document that we have locked."""

    id: Any
    """How the store finds it again."""
    content: Any
    """The whole document as it was before it was locked; what the user's function gets."""
    sleep_until: datetime
    """Since when it was due; aware."""
    locked_until: datetime
    """What the store holds instead now. Who wants to change the document shows it."""
    interval: Any = None
    repeat_until: Any = None
    auto_remove: Any = None


@dataclass(frozen=True)
class Fields:
    """Where the four fields are in a document: names, or paths with dots."""

    sleep_until: str = "sleepUntil"
    interval: str = "interval"
    repeat_until: str = "repeatUntil"
    auto_remove: str = "autoRemove"

    def __post_init__(self) -> None:
        paths = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, path in paths.items():
            _check_path(name, path)
        for name, path in paths.items():
            for other, longer in paths.items():
                if name != other and f"{longer}.".startswith(f"{path}."):
                    raise InvalidArgument(
                        f"{name} and {other} must be different fields, neither inside the other, got {shown(path)} and "
                        f"{shown(longer)}",
                        field=other,
                        value=longer,
                    )


def _check_path(name: str, path: object) -> None:
    if not isinstance(path, str):
        raise TypeError(f"{name} must be the name or dotted path of a field, got {shown(path)}")
    parts = path.split(".")
    if len(path) > LONGEST_PATH or not path.isprintable() or not all(parts) or any(part[0] == "$" for part in parts):
        raise InvalidArgument(
            f"{name} must be the name or dotted path of a field, printable, at most {LONGEST_PATH} characters and no "
            f"part of it empty or beginning with '$', got {shown(path)}",
            field=name,
            value=path,
        )


def look_up(content: Any, path: str) -> Any:
    """Return what a document holds under a path, None if there is no such field."""
    for part in path.split("."):
        if not isinstance(content, Mapping):
            return None
        content = content.get(part)
    return content


def put(content: MutableMapping[str, Any], path: str, value: Any) -> None:
    """Set what a document holds under a path that it has."""
    *parents, name = path.split(".")
    for part in parents:
        content = content[part]
    content[name] = value


def in_utc(moment: datetime) -> datetime:
    """Return an aware datetime in UTC; one without a zone is read as UTC, as databases give it."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def round_up(moment: datetime, resolution: timedelta) -> datetime:
    """Return the moment, or the first one after it that a store with this resolution can hold."""
    step = micros_of(resolution)
    return from_micros(-(-to_micros(moment) // step) * step, UTC)
