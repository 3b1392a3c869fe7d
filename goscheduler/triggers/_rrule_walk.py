"""Walks a recurrence rule on the clock on the wall.

``dateutil`` tries one period after the other. Where a rule by days or shorter names certain days, most periods have
none, and there may be no such day at all; so the days are found year by year first, and the rule is walked on these.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any

from goscheduler.errors import NeverFires
from goscheduler.triggers._rrule_parts import FREQUENCIES, Parts, period_start, walk_options
from goscheduler.triggers._steps import step

#: How far a rule is searched for its next time: a leap day on a certain weekday can be 40 years away.
HORIZON = timedelta(days=41 * 366)

_DAY = timedelta(days=1)
_OF_DAYS = ("byweekday", "bymonth", "bymonthday", "byyearday")
_DAILY = FREQUENCIES.index("DAILY")


def walls_of(parts: Parts, start: datetime, earliest: datetime) -> Iterator[datetime]:
    """Yield the times of a rule, from some time before ``earliest`` on; where times are counted, all of them."""
    latest = max(start, earliest)
    end = min(latest + min(HORIZON, datetime.max - latest), parts.until or datetime.max).replace(microsecond=0)
    options = _options(parts, start)
    if FREQUENCIES.index(parts.freq) < _DAILY or not any(name in options for name in _OF_DAYS):
        yield from _walk(parts, period_start(parts, start, earliest), end, options)
        return
    first = period_start(parts, start, start)
    for day in _days(max(start, earliest) if parts.count is None else start, end, options):
        step()
        begin = period_start(parts, start, day)
        if parts.freq == "DAILY":
            if (day - first) % (_DAY * parts.interval):
                continue
            begin = day
        for wall in _walk(parts, begin, min(end, day + _DAY - timedelta(seconds=1)), options):
            if wall >= day:
                yield wall


def _days(earliest: datetime, end: datetime, options: dict[str, Any]) -> Iterator[datetime]:
    """Yield the midnights of the days that a rule names."""
    from dateutil import rrule  # not at the top: few programs need it

    day = datetime.combine(earliest.date(), time())
    named: dict[str, Any] = {name: options[name] for name in _OF_DAYS if name in options}
    if set(named) == {"bymonth"}:
        named["byweekday"] = range(7)
    at_midnight: dict[str, Any] = {"byhour": 0, "byminute": 0, "bysecond": 0}
    for found in rrule.rrule(rrule.YEARLY, day.replace(month=1, day=1), until=end, **named, **at_midnight):
        if found >= day:
            yield found


def _options(parts: Parts, start: datetime) -> dict[str, Any]:
    from dateutil import rrule

    options = walk_options(parts, start)
    if parts.weekdays:
        options["byweekday"] = [rrule.weekday(day, number or None) for day, number in parts.weekdays]
    return options


def _walk(parts: Parts, begin: datetime, end: datetime, options: dict[str, Any]) -> Iterator[datetime]:
    from dateutil import rrule

    freq: Any = FREQUENCIES.index(parts.freq)
    try:
        yield from rrule.rrule(freq, begin, parts.interval, parts.week_start, until=end, **options)
    except ValueError as error:
        raise NeverFires(f"rule has no time: {error}", field="rule") from error
