"""The classes beyond the standard ones whose values may be stored, each known by a name that its records bear.

Built-in triggers are known from the start and imported when the first one is met; users add classes of their own with
:func:`goscheduler.codec.register_type`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown

Convert = Callable[[Any], Any]

BUILT_IN: Mapping[str, str] = {
    "date": "goscheduler.triggers.date:DateTrigger",
    "interval": "goscheduler.triggers.interval:IntervalTrigger",
    "cron": "goscheduler.triggers.cron:CronTrigger",
    "calendarinterval": "goscheduler.triggers.calendarinterval:CalendarIntervalTrigger",
    "and": "goscheduler.triggers.combining:AndTrigger",
    "or": "goscheduler.triggers.combining:OrTrigger",
    "rrule": "goscheduler.triggers.rrule:RRuleTrigger",
    "calendar": "goscheduler.triggers.calendar:CalendarTrigger",
    "after": "goscheduler.triggers.after:AfterTrigger",
    "weekdays": "goscheduler.calendars.weekdays:Weekdays",
    "hours": "goscheduler.calendars.hours:Hours",
    "dates": "goscheduler.calendars.dates:Dates",
    "holidays": "goscheduler.calendars.holiday:Holidays",
    "named": "goscheduler.calendars.named:Named",
    "combined": "goscheduler.calendars.base:Combined",
    "combineddays": "goscheduler.calendars.base:CombinedDays",
    "limit": "goscheduler.runs.limits:Limit",
    "retry": "goscheduler.runs.retry:Retry",
    "backoff": "goscheduler.runs.retry:Backoff",
}


class StoredType(NamedTuple):
    """A class and how its values become something that can be stored, and come back."""

    cls: type[Any]
    name: str
    to_state: Convert
    from_state: Convert


_by_name: dict[str, StoredType] = {}
_by_class: dict[type[Any], StoredType] = {}


def register(cls: type[Any], name: str, to_state: Convert | None, from_state: Convert | None) -> None:
    """Make a class known under a name; again for the same class is fine, for another one is refused."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidArgument(f"name must be a nonempty, printable string, got {shown(name)}", field="name", value=name)
    holder = _by_name.get(name)
    if name in BUILT_IN or (holder is not None and _origin(holder.cls) != _origin(cls)):
        raise InvalidArgument(f"The name {name!r} is taken; choose another for {cls!r}", field="name", value=name)
    _enter(StoredType(cls, name, *_conversions(cls, to_state, from_state)))


def _origin(cls: type[Any]) -> tuple[str, str]:
    """Tell classes apart by where they were written, so that a reloaded module may register its own again."""
    return cls.__module__, cls.__qualname__


def _enter(known: StoredType) -> StoredType:
    _by_name[known.name] = _by_class[known.cls] = known
    return known


def _conversions(cls: type[Any], to_state: Convert | None, from_state: Convert | None) -> tuple[Convert, Convert]:
    if to_state is not None and from_state is not None:
        return to_state, from_state
    if to_state is not None or from_state is not None:
        raise InvalidArgument(f"Give both to_state and from_state for {cls!r}, or neither", field="to_state")
    if issubclass(cls, Enum):
        return lambda member: member.name, lambda name: cls[name]
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.init]
        return lambda value: {name: getattr(value, name) for name in names}, lambda state: cls(**state)
    if hasattr(cls, "__setstate__"):
        return lambda value: value.__getstate__(), lambda state: _revive(cls, state)
    raise InvalidArgument(f"Give to_state and from_state for {cls!r}: it does not tell its state", field="to_state")


def _revive(cls: type[Any], state: Any) -> Any:
    value = object.__new__(cls)
    value.__setstate__(state)
    return value


def named(name: str) -> StoredType | None:
    """Return what is known under this name, or None."""
    known = _by_name.get(name)
    return _load_built_in(name) if known is None and name in BUILT_IN else known


def of_class(cls: type[Any]) -> StoredType | None:
    """Return what is known about exactly this class, or None."""
    known = _by_class.get(cls)
    if known is not None or not cls.__module__.startswith("goscheduler."):
        return known
    for name, reference in BUILT_IN.items():
        module, _, class_name = reference.partition(":")
        if cls.__qualname__ == class_name and cls.__module__.startswith(module):
            return _load_built_in(name)
    return None


def _load_built_in(name: str) -> StoredType:
    module, _, class_name = BUILT_IN[name].partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), class_name)
    if hasattr(cls, "definition"):  # of triggers that have triggers
        return _enter(StoredType(cls, name, cls.definition, lambda state: _combination(cls, state)))
    return _enter(StoredType(cls, name, *_conversions(cls, None, None)))


def _combination(cls: type[Any], state: dict[str, Any]) -> Any:
    trigger = object.__new__(cls)
    trigger.set_up(**state)
    return trigger
