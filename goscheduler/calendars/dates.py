"""Certain dates, and those of every year."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any

from goscheduler.calendars.base import DayCalendar, len_of, read_zone, zone_told
from goscheduler.errors import InvalidArgument, shown

_MOST = 10_000
_YEARLY = re.compile(r"(\d{2})-(\d{2})", re.ASCII)
#: How many are told one by one.
_MOST_TOLD = 3


class Dates(DayCalendar):
    """Is open on some dates: ``Dates("2026-05-01", "2026-12-24/2027-01-02", name="shutdown")``. The second date of a
    range counts too. ``12-25`` and ``12-24/12-26`` are days of every year.
    """

    def __init__(self, *dates: date | str, name: str = "", timezone: tzinfo | str | None = None) -> None:
        self._set_up([_text(day) for day in dates], name, timezone)

    def _set_up(self, dates: Sequence[str], name: str, timezone: tzinfo | str | None) -> None:
        if isinstance(dates, str) or not isinstance(dates, Sequence) or not 1 <= len(dates) <= _MOST:
            raise InvalidArgument(f"dates must be 1 to {_MOST} dates, got {shown(dates)}", field="dates", value=dates)
        if not isinstance(name, str) or len(name) > 200:
            raise InvalidArgument(f"name must be a text of 200 characters, got {shown(name)}", field="name", value=name)
        self.dates, self.name = tuple(dates), name
        self._ranges = [_read(text) for text in self.dates]
        self.timezone = read_zone(timezone)

    def days(self, year: int) -> int:
        found = 0
        start = date(year, 1, 1).toordinal()
        for first, last in self._ranges:
            begin, end = _in_year(first, year), _in_year(last, year)
            low = max(0, begin.toordinal() - start)
            high = min(len_of(year), end.toordinal() - start + 1)
            if low < high:
                found |= (1 << high) - (1 << low)
        return found

    def told(self, moment: datetime) -> str:
        day = (moment if self.timezone is None else moment.astimezone(self.timezone)).date()
        if not self.is_open_on(day):
            return f"{day} is not in {self.name or 'its dates'}"
        return self.name or str(day)

    def explain(self) -> str:
        told = self.name or ", ".join(text.replace("/", " to ") for text in self.dates[:_MOST_TOLD])
        more = len(self.dates) - _MOST_TOLD
        return told + (f" and {more} more" if more > 0 and not self.name else "") + zone_told(self.timezone)

    def __getstate__(self) -> dict[str, Any]:
        return {"dates": list(self.dates), "name": self.name, "timezone": self.timezone}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_up(**state)


_Day = date | tuple[int, int]  # a day of every year


def _text(day: object) -> str:
    if isinstance(day, datetime) or not isinstance(day, (date, str)):
        raise InvalidArgument(f"dates must be dates or text such as '2026-12-24', got {shown(day)}", field="dates")
    return day.isoformat() if isinstance(day, date) else day.strip()


def _read(text: object) -> tuple[_Day, _Day]:
    ends = [_day(part.strip(), text) for part in text.split("/")] if isinstance(text, str) else []
    if len(ends) not in (1, 2) or isinstance(ends[0], date) != isinstance(ends[-1], date):
        raise _refused(text, "expected a date, or two with a slash between")
    if ends[-1] < ends[0]:  # type: ignore[operator]
        hint = "; write two, up to 12-31 and from 01-01" if isinstance(ends[0], tuple) else ""
        raise _refused(text, f"it ends before it begins{hint}")
    return ends[0], ends[-1]


def _day(text: str, given: object) -> _Day:
    yearly = _YEARLY.fullmatch(text)
    try:
        if yearly is None:
            return date.fromisoformat(text)
        month, day = int(yearly[1]), int(yearly[2])
        date(2024, month, day)
        return month, day
    except ValueError as error:
        raise _refused(given, f"expected YYYY-MM-DD or MM-DD; {error}") from error


def _in_year(day: _Day, year: int) -> date:
    """Return a date, or the one that a day of every year has; a 29th of February is the 28th where there is none."""
    if isinstance(day, date):
        return day
    month, number = day
    return date(year, month, number if (month, number) != (2, 29) or len_of(year) == 366 else 28)


def _refused(value: object, reason: str) -> InvalidArgument:
    return InvalidArgument(f"dates {shown(value)}: {reason}", field="dates", value=value)
