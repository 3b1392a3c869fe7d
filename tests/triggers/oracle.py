"""A slow and literal reading of the rules for clock changes, to hold the cron trigger against.

It looks at every minute of real time, at what a clock in the zone shows then, and at what the clock has shown before.
It shares no code with the trigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ALL_HOURS = frozenset(range(24))


@dataclass(frozen=True)
class WallRule:
    """Matches a wall time by minute, hour and date."""

    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int] = field(default=frozenset(range(7)))
    """0 is Monday."""

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and wall.weekday() in self.weekdays

    @property
    def keeps_real_time(self) -> bool:
        return self.hours == ALL_HOURS


Shown = list[tuple[datetime, datetime]]
"""Each minute of real time, in UTC, with the wall time that clocks show."""


def minutes_shown(zone: ZoneInfo, start: datetime, end: datetime) -> Shown:
    """Return what clocks show in each minute from ``start`` up to ``end``, both in UTC."""
    shown = []
    moment = start
    while moment < end:
        shown.append((moment, moment.astimezone(zone).replace(tzinfo=None, fold=0)))
        moment += MINUTE
    return shown


def fire_times(rule: WallRule, shown: Shown) -> list[datetime]:
    """Return the instants at which ``rule`` fires after the first minute of ``shown``."""
    if rule.keeps_real_time:
        return [moment for moment, wall in shown[1:] if rule.matches(wall)]
    return list(_at_certain_hours(rule, shown))


def _at_certain_hours(rule: WallRule, shown: Shown) -> Iterator[datetime]:
    latest = shown[0][1]
    for moment, wall in shown[1:]:
        if wall <= latest:
            continue
        skipped = _walls_between(latest, wall) if wall - latest > MINUTE else ()
        existing = {latest.date(), wall.date()}
        if rule.matches(wall) or _any_on(skipped, existing, rule):
            yield moment
        latest = wall


def _any_on(walls: Iterable[datetime], dates: set[date], rule: WallRule) -> bool:
    return any(wall.date() in dates and rule.matches(wall) for wall in walls)


def _walls_between(early: datetime, late: datetime) -> Iterator[datetime]:
    wall = early + MINUTE
    while wall < late:
        yield wall
        wall += MINUTE


@cache
def zones_by_behaviour(first_year: int, last_year: int) -> dict[str, tuple[datetime, ...]]:
    """Return one zone of each group that changes its clocks alike in these years, with the instants of the changes."""
    groups: dict[tuple[object, ...], str] = {}
    for name in sorted(available_timezones() - {"localtime", "Factory"}):
        groups.setdefault(_offsets_by_day(ZoneInfo(name), first_year, last_year), name)
    return {name: tuple(clock_changes(ZoneInfo(name), first_year, last_year)) for name in groups.values()}


def _offsets_by_day(zone: ZoneInfo, first_year: int, last_year: int) -> tuple[object, ...]:
    start, end = _year_start(first_year), _year_start(last_year + 1)
    return tuple((start + DAY * day).astimezone(zone).utcoffset() for day in range((end - start).days))


def clock_changes(zone: ZoneInfo, first_year: int, last_year: int) -> Iterator[datetime]:
    """Yield the instants, to the minute, from which on ``zone`` has another offset than before."""
    day, end = _year_start(first_year), _year_start(last_year + 1)
    while day < end:
        if day.astimezone(zone).utcoffset() != (day + DAY).astimezone(zone).utcoffset():
            yield _first_minute_of_change(zone, day)
        day += DAY


def _first_minute_of_change(zone: ZoneInfo, day: datetime) -> datetime:
    before = day.astimezone(zone).utcoffset()
    early, late = 0, 24 * 60
    while late - early > 1:
        middle = (early + late) // 2
        if (day + MINUTE * middle).astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return day + MINUTE * late


def _year_start(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=timezone.utc)
