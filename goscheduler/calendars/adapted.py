"""Calendars of other libraries: anything that can tell of a day whether it is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from goscheduler.calendars.base import Calendar, DayCalendar
from goscheduler.errors import InvalidArgument, shown

_METHODS = ("is_session", "is_working_day")


class Adapted(DayCalendar):
    """Is open on the days of which a calendar of another library says so. It lives in its process only."""

    is_storable = False

    def __init__(self, name: str, tell: Callable[[date], object]) -> None:
        self._name, self._tell = name, tell

    def is_open_on(self, day: date) -> bool:
        return bool(self._tell(day))

    def told(self, moment: datetime) -> str:
        return f"{moment.date()} is {'in' if self.is_open_on(moment.date()) else 'not in'} {self._name}"

    def explain(self) -> str:
        return self._name

    def __getstate__(self) -> dict[str, Any]:
        message = f"the calendar {shown(self._name)} is of another library and cannot be stored; use its name"
        raise InvalidArgument(message, field="calendar")

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__getstate__()

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def adapted(name: str, calendar: object) -> Calendar:
    """Return a calendar: one as it is, or one made of an object that has ``is_session`` or ``is_working_day``."""
    if isinstance(calendar, Calendar):
        return calendar
    for method in _METHODS:
        tell = getattr(calendar, method, None)
        if callable(tell):
            return Adapted(name, tell)
    expected = f"a calendar, or an object that has {' or '.join(_METHODS)}"
    raise InvalidArgument(f"calendar must be {expected}, got {shown(calendar)}", field="calendar", value=calendar)
