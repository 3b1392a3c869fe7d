"""Matching wall times on an endless calendar, without any time zone.

A schedule is compiled into bit masks and small jump tables: ``hours[7]`` is the first matching hour from 7 on, 24 if
there is none. The days of a month are one mask, computed when the month is first met. So the next match is a handful of
lookups, however far away it is, and counting matches is multiplying.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap, monthrange
from collections.abc import Iterator
from datetime import date, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

from goscheduler.triggers.cron.expressions import LAST

FIRST_YEAR, LAST_YEAR = 1970, 9999
_MEMOISED_MONTHS = 512


class Rule(NamedTuple):
    """What a schedule matches, as sets; ``None`` for years and weeks means all of them."""

    years: frozenset[int] | None
    months: frozenset[int]
    weeks: frozenset[int] | None
    days: frozenset[int]
    last_day: bool
    day_positions: frozenset[tuple[int, int]]
    weekdays: frozenset[int]
    weekday_positions: frozenset[tuple[int, int]]
    either_day: bool
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]


class Calendar:
    """The wall times that a rule matches."""

    __slots__ = (
        "_hours", "_later_days", "_minutes", "_months", "_next_hour", "_next_minute", "_next_second", "_seconds",
        "_years", "rule",
    )  # fmt: skip

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._hours, self._next_hour = tuple(sorted(rule.hours)), _jumps(rule.hours, 24)
        self._minutes, self._next_minute = tuple(sorted(rule.minutes)), _jumps(rule.minutes, 60)
        self._seconds, self._next_second = tuple(sorted(rule.seconds)), _jumps(rule.seconds, 60)
        self._years = range(FIRST_YEAR, LAST_YEAR + 1) if rule.years is None else tuple(sorted(rule.years))
        self._months: dict[int, int] = {}
        self._later_days: dict[int, tuple[int, int, int] | None] = {}

    def after(self, moment: datetime, tz: tzinfo | None = None) -> datetime | None:
        """Return the first match later than the wall clock of ``moment``, labelled with ``tz``."""
        year, month, day = moment.year, moment.month, moment.day
        mask = self._months.get(year * 16 + month)
        if mask is None:
            mask = self._days_of(year, month)
        if mask >> day & 1:
            hour = moment.hour
            if self._next_hour[hour] == hour:
                minute = moment.minute
                if self._next_minute[minute] == minute:
                    second = self._next_second[moment.second + 1]
                    if second < 60:
                        return datetime(year, month, day, hour, minute, second, 0, tz)
                minute = self._next_minute[minute + 1]
                if minute < 60:
                    return datetime(year, month, day, hour, minute, self._next_second[0], 0, tz)
            hour = self._next_hour[hour + 1]
            if hour < 24:
                return datetime(year, month, day, hour, self._next_minute[0], self._next_second[0], 0, tz)
        mask >>= day + 1
        if mask:
            day += (mask & -mask).bit_length()
            return datetime(year, month, day, self._next_hour[0], self._next_minute[0], self._next_second[0], 0, tz)
        later = self._day_after_month(year, month)
        if later is None:
            return None
        year, month, day = later
        return datetime(year, month, day, self._next_hour[0], self._next_minute[0], self._next_second[0], 0, tz)

    def _day_after_month(self, year: int, month: int) -> tuple[int, int, int] | None:
        """Return year, month and day of the first matching day in any later month."""
        try:
            return self._later_days[year * 16 + month]
        except KeyError:
            if len(self._later_days) >= _MEMOISED_MONTHS:
                self._later_days.clear()
            later = self._later_days[year * 16 + month] = self._find_day_after_month(year, month)
            return later

    def _find_day_after_month(self, year: int, month: int) -> tuple[int, int, int] | None:
        for later_year, later_month in self._months_after(year, month):
            mask = self._days_of(later_year, later_month)
            if mask:
                return later_year, later_month, (mask & -mask).bit_length() - 1
        return None

    def _months_after(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        """Yield the months of matching years, the first year from ``month`` on; of years that are alike only one.

        There are 28 kinds of years at most, so a search that finds nothing in them is over.
        """
        kinds = set()
        for candidate in self._years[bisect_left(self._years, year) :]:
            if candidate == year:
                yield from ((year, number) for number in range(month + 1, 13))
            elif (kind := _kind_of_year(candidate)) not in kinds:
                kinds.add(kind)
                yield from ((candidate, number) for number in range(1, 13))

    def ever_matches(self) -> bool:
        """Tell whether there is any match at all in the years of the rule."""
        return self._find_day_after_month(FIRST_YEAR - 1, 12) is not None

    def matches(self, wall: datetime) -> bool:
        """Tell whether a naive wall time of whole seconds is a match."""
        rule = self.rule
        return bool(
            wall.second in rule.seconds
            and wall.minute in rule.minutes
            and wall.hour in rule.hours
            and self._days_of(wall.year, wall.month) >> wall.day & 1
        )

    def count(self, start: datetime, end: datetime) -> int:
        """Return how many matches there are from ``start`` up to but not including ``end``, both naive."""
        if start >= end:
            return 0
        per_day = len(self._hours) * len(self._minutes) * len(self._seconds)
        return per_day * self._days_between(start, end) + self._times_before(end) - self._times_before(start)

    def _days_between(self, start: datetime, end: datetime) -> int:
        """Return the number of matching days from the day of ``start`` up to but not including the day of ``end``."""
        first, last = start.year * 12 + start.month - 1, end.year * 12 + end.month - 1
        total = sum(self._days_of(month // 12, month % 12 + 1).bit_count() for month in range(first, last))
        return total + self._days_before(end) - self._days_before(start)

    def _days_before(self, moment: datetime) -> int:
        """Return the number of matching days of the month before the day of ``moment``."""
        return (self._days_of(moment.year, moment.month) & ((1 << moment.day) - 1)).bit_count()

    def _times_before(self, moment: datetime) -> int:
        """Return the number of matches of that day before ``moment``."""
        if not self._days_of(moment.year, moment.month) >> moment.day & 1:
            return 0
        hours, minutes, seconds = (
            bisect_left(self._hours, moment.hour),
            bisect_left(self._minutes, moment.minute),
            bisect_left(self._seconds, moment.second + (1 if moment.microsecond else 0)),
        )
        total = hours * len(self._minutes) * len(self._seconds)
        if moment.hour in self.rule.hours:
            total += minutes * len(self._seconds)
            if moment.minute in self.rule.minutes:
                total += seconds
        return total

    def _days_of(self, year: int, month: int) -> int:
        """Return the matching days of a month as a mask with bit 1 for the first."""
        mask = self._months.get(year * 16 + month)
        if mask is None:
            # Threads may both compute it; they find the same.
            if len(self._months) >= _MEMOISED_MONTHS:
                self._months.clear()
            mask = self._months[year * 16 + month] = self._matching_days(year, month)
        return mask

    def _matching_days(self, year: int, month: int) -> int:
        rule = self.rule
        if month not in rule.months or year not in self._years:
            return 0
        first_weekday, length = monthrange(year, month)
        days = _mask(rule.days) | _mask_of_positions(rule.day_positions, first_weekday, length)
        if rule.last_day:
            days |= 1 << length
        weekdays = _mask(day for day in range(1, length + 1) if (first_weekday + day - 1) % 7 in rule.weekdays)
        weekdays |= _mask_of_positions(rule.weekday_positions, first_weekday, length)
        matching = (days | weekdays if rule.either_day else days & weekdays) & (2 << length) - 2
        return matching if rule.weeks is None else self._in_matching_weeks(matching, year, month)

    def _in_matching_weeks(self, mask: int, year: int, month: int) -> int:
        weeks = self.rule.weeks or frozenset()
        days = (day for day in range(1, 32) if mask >> day & 1)
        return _mask(day for day in days if date(year, month, day).isocalendar()[1] in weeks)


@lru_cache(maxsize=1024)
def calendar_of(rule: Rule) -> Calendar:
    """Return the calendar of ``rule``; equal rules share one."""
    return Calendar(rule)


@lru_cache(maxsize=1024)
def _kind_of_year(year: int) -> tuple[int, bool, bool]:
    """Return what decides the weekdays and ISO weeks of all days of a year; its first week may be the last year's."""
    return date(year, 1, 1).weekday(), isleap(year), isleap(year - 1)


def _jumps(values: frozenset[int], size: int) -> tuple[int, ...]:
    """Return for every number up to ``size`` the first of ``values`` that is not smaller, ``size`` if none is."""
    table = [size] * (size + 1)
    for number in reversed(range(size)):
        table[number] = number if number in values else table[number + 1]
    return tuple(table)


def _mask(days: frozenset[int] | Iterator[int]) -> int:
    mask = 0
    for day in days:
        mask |= 1 << day
    return mask


def _mask_of_positions(positions: frozenset[tuple[int, int]], first_weekday: int, length: int) -> int:
    mask = 0
    for option, weekday in positions:
        day = 1 + (weekday - first_weekday) % 7
        # A fifth weekday that the month does not have falls off the end, where the mask is cut.
        day += (length - day) // 7 * 7 if option == LAST else option * 7
        mask |= 1 << day
    return mask
