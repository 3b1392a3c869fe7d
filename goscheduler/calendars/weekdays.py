"""Days of the week."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, tzinfo
from typing import Any

from goscheduler.calendars.base import DayCalendar, days_of, read_zone, zone_told
from goscheduler.errors import InvalidArgument, nearest, shown
from goscheduler.triggers.cron.expressions import FULL_NAMES, WEEKDAYS

# Not from the calendar module, whose names follow the locale of the process.
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Weekdays(DayCalendar):
    """Is open on some days of the week: ``Weekdays("mon-fri")``, ``Weekdays("sat,sun")``."""

    def __init__(self, days: str | Iterable[str], timezone: tzinfo | str | None = None) -> None:
        self._set_up(_read(days), timezone)

    def _set_up(self, days: Iterable[int], timezone: tzinfo | str | None) -> None:
        self.weekdays = frozenset(days)
        if not self.weekdays or not self.weekdays <= frozenset(range(7)):
            raise InvalidArgument(f"days must be weekdays, got {shown(days)}", field="days", value=days)
        self.timezone = read_zone(timezone)

    def days(self, year: int) -> int:
        return sum(1 << number for number, day in enumerate(days_of(year)) if day.weekday() in self.weekdays)

    def is_open_on(self, day: date) -> bool:
        return day.weekday() in self.weekdays

    def told(self, moment: datetime) -> str:
        return DAY_NAMES[(moment if self.timezone is None else moment.astimezone(self.timezone)).weekday()]

    def explain(self) -> str:
        days = sorted(self.weekdays)
        if len(days) == 7:
            return "every day" + zone_told(self.timezone)
        in_a_row = len(days) > 2 and days[-1] - days[0] == len(days) - 1
        names = [DAY_NAMES[day] for day in ((days[0], days[-1]) if in_a_row else days)]
        return (" to " if in_a_row else ", ").join(names) + zone_told(self.timezone)

    def __getstate__(self) -> dict[str, Any]:
        return {"days": sorted(self.weekdays), "timezone": self.timezone}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_up(**state)


def _read(days: object) -> set[int]:
    given: Any = days.split(",") if isinstance(days, str) else days
    items: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(item, str) for item in items):
        raise InvalidArgument(f'days must be weekdays such as "mon-fri", got {shown(days)}', field="days", value=days)
    found: set[int] = set()
    for item in items:
        ends = [_number(name.strip(), days) for name in item.lower().split("-")]
        if len(ends) > 2:
            raise InvalidArgument(f"days must be ranges of two weekdays, got {shown(item)}", field="days", value=days)
        first, last = ends[0], ends[-1] + (7 if ends[-1] < ends[0] else 0)
        found.update(number % 7 for number in range(first, last + 1))
    return found


def _number(name: str, given: object) -> int:
    short = FULL_NAMES.get(name, name)
    if short not in WEEKDAYS:
        near = nearest(name, [*WEEKDAYS, *(long for long, each in FULL_NAMES.items() if each in WEEKDAYS)])
        hint = f'; did you mean "{near}"?' if near else ""
        message = f'days must be weekdays such as "mon-fri", got {shown(given)}{hint}'
        raise InvalidArgument(message, field="days", value=given)
    return WEEKDAYS.index(short)
