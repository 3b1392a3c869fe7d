"""Calendars that are known by a name, for lists that change: a trigger has the name, and each process the list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from goscheduler.calendars.base import Calendar
from goscheduler.errors import InvalidArgument, shown

_known: dict[str, Calendar] = {}


class UnknownCalendar(InvalidArgument):
    """A trigger refers to a calendar by a name that this process does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'there is no calendar by the name {shown(name)}; add it with scheduler.add_calendar({shown(name)}, …)',
            field="calendar", value=name,
        )  # fmt: skip
        self.name = name


class Named(Calendar):
    """Is open when the calendar is that ``scheduler.add_calendar`` has added by this name; it may change."""

    def __init__(self, name: str) -> None:
        self.name = check_calendar_name(name)
        self.names = (self.name,)

    def is_open(self, moment: datetime) -> bool:
        return known_calendar(self.name).is_open(moment)

    def first(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        return known_calendar(self.name).first(at, zone, wanted, limit)

    def end(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        return known_calendar(self.name).end(at, zone, wanted, limit)

    def told(self, moment: datetime) -> str:
        return f'{known_calendar(self.name).told(moment)} ("{self.name}")'

    def explain(self) -> str:
        return f'"{self.name}"'

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.name = check_calendar_name(state["name"])
        self.names = (self.name,)


def known_calendar(name: str) -> Calendar:
    """Return the calendar that is known by a name.

    :raises UnknownCalendar: if there is none
    """
    try:
        return _known[name]
    except KeyError:
        raise UnknownCalendar(name) from None


def unknown_names(names: tuple[str, ...]) -> list[str]:
    """Return those of the names by which no calendar is known, here or in the calendars that are known by them."""
    missing: list[str] = []
    for name in names:
        found = _known.get(name)
        missing += [name] if found is None else unknown_names(found.names)
    return missing


def know_calendar(name: str, calendar: Calendar) -> None:
    """Make a calendar known by a name, in place of any other.

    :raises InvalidArgument: if it would refer to itself
    """
    if _leads_to(name, calendar.names):
        raise InvalidArgument(f"calendar {shown(name)} refers to itself", field="calendar", value=name)
    _known[name] = calendar


def forget_calendar(name: str) -> None:
    """Make a name unknown."""
    _known.pop(name, None)


def known_calendars() -> dict[str, Calendar]:
    """Return all that are known, by name."""
    return dict(_known)


def check_calendar_name(name: object) -> str:
    """Return a name that a calendar may have."""
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
        message = f"name must be 1 to 100 printable characters, got {shown(name)}"
        raise InvalidArgument(message, field="name", value=name)
    return name


def _leads_to(name: str, names: tuple[str, ...]) -> bool:
    return any(each == name or (each in _known and _leads_to(name, _known[each].names)) for each in names)
