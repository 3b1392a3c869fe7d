"""Schedules as people say them: ``every("mon-fri", at="09:00")``. The grammar is closed:

=============================  =====================================  ==========================================
every                          beside it                              is
=============================  =====================================  ==========================================
``10m``, ``1h30m``,            nothing; ``at=":15"`` with ``hour``    an interval of elapsed time
``5 minutes``, ``hour``
``day``                        ``at``, midnight if left out           cron, by the clock on the wall
``mon-fri``, ``sat,sun``,      ``at``                                 cron
``weekday``, ``weekend``
``week``                       ``on`` weekdays, ``at``                cron
``month``                      ``on`` a day: 15, ``last``,            cron
                               ``2nd tue``; ``at``
``2 weeks``                    ``on`` one weekday, ``at``             a calendar interval from the first such day
``3 days``, ``month``,         ``at``                                 a calendar interval from the day on which the
``2 years``                                                           job is added
=============================  =====================================  ==========================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import product
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, nearest, shown
from goscheduler.times import asdate, parse_duration
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.cron.expressions import FULL_NAMES, WEEKDAYS
from goscheduler.triggers.interval import IntervalTrigger

#: So many times of day are the most.
MOST_TIMES = 100

_EXPECTED = 'a length of time such as "10m", a unit such as "day" or "2 weeks", or weekdays such as "mon-fri"'
_CALENDAR_UNITS = ("day", "week", "month", "year")
_ELAPSED_UNITS = ("second", "minute", "hour")
_DAY_NAMES = {"weekday": "mon-fri", "weekdays": "mon-fri", "weekend": "sat,sun", "weekends": "sat,sun"}
_LONG_WEEKDAYS = [name for name, short in FULL_NAMES.items() if short in WEEKDAYS]
_WORDS = (*_CALENDAR_UNITS, *_ELAPSED_UNITS, *_DAY_NAMES, *WEEKDAYS, *_LONG_WEEKDAYS)

_COUNTED = re.compile(r"(?P<count>[0-9]{1,7})?\s*(?P<unit>[a-z]+?)s?")
_TIME = re.compile(r"(?P<hour>[0-9]{0,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?", re.ASCII)
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")
_PARTS = re.compile(r"\s+(on|at)\s+", re.IGNORECASE)



class _Said(NamedTuple):
    """What a schedule is made of, read."""

    on: Sequence[str]
    times: Sequence[time]
    past_the_hour: Sequence[time]
    """Times of ``at`` without an hour."""
    rest: Mapping[str, Any]
    """``start_date``, ``end_date``, ``timezone`` and ``jitter``, as every trigger takes them."""


def every(
    what: str | float | timedelta,
    *,
    on: str | int | Iterable[str] | None = None,
    at: str | time | Iterable[str | time] | None = None,
    start_date: datetime | date | str | None = None,
    end_date: datetime | date | str | None = None,
    timezone: tzinfo | str | None = None,
    jitter: float | str | None = None,
) -> BaseTrigger:
    """Return the trigger for a schedule as people say it: ``every("10m")``, ``every("mon-fri", at="09:00")``,
    ``every("2 weeks", on="mon", at="6:30")``. The module has the grammar.

    ``at`` is one time of day or several, ``on`` a weekday or several, of ``month`` a day of the month. Short units are
    elapsed time, as ``1d`` is 24 hours; ``day``, ``week``, ``month`` and ``year`` are those of the calendar.

    :raises InvalidArgument: naming the argument, its value and what was expected
    """
    times = _times_of(at)
    rest = {"start_date": start_date, "end_date": end_date, "timezone": timezone, "jitter": jitter}
    said = _Said(
        _days_of(on), [each[1] for each in times if not each[0]], [each[1] for each in times if each[0]], rest
    )
    if not isinstance(what, str):
        return _elapsed(what, what, said)
    text = what.strip().lower()
    counted = _COUNTED.fullmatch(text)
    if counted is not None and counted["unit"] in _CALENDAR_UNITS:
        return _by_calendar(int(counted["count"] or 1), counted["unit"], said, what)
    days = _weekdays_of(text)
    if days is not None:
        _refuse_past_the_hour(said)
        if said.on:
            raise _refused("on", ",".join(said.on), f"left out beside {shown(what)}, which names weekdays already")
        return _cron(said, day_of_week=days)
    return _elapsed(_in_short_units(text), what, said)


def read_every(text: str, timezone: tzinfo | str | None = None) -> BaseTrigger:
    """Return the trigger that a sentence describes: ``every mon-fri at 09:00``, ``every 2 weeks on mon at 6:30``.

    :raises InvalidArgument: naming the part, its value and what was expected
    """
    first, *parts = _PARTS.split(text.strip())
    given: dict[str, str] = {}
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        if given.setdefault(name.lower(), value) is not value:
            raise _refused(name.lower(), value, "said once")
    what = re.sub(r"^every\s+", "", first, flags=re.IGNORECASE)
    return every(what, on=given.get("on"), at=given.get("at"), timezone=timezone)


def is_every(text: str) -> bool:
    """Tell whether a text is a sentence that :func:`read_every` reads, well formed or not."""
    return re.match(r"\s*every\s", text, re.IGNORECASE) is not None


def _elapsed(length: str | float | timedelta, what: object, said: _Said) -> BaseTrigger:
    seconds = _length_of(length, what)
    if said.on:
        raise _refused("on", ",".join(said.on), f"left out beside {shown(what)}", 'it goes with "week" and "month"')
    if said.past_the_hour and seconds == timedelta(hours=1) and not said.times:
        return _past_the_hour(said)
    if said.times or said.past_the_hour:
        days = seconds / timedelta(days=1)
        instead = "day" if days == 1 else f"{days:g} days"
        hint = f'"{instead}" goes by the clock on the wall' if days == int(days) else ""
        raise _refused("at", _shown_times(said), f"left out beside {shown(what)}, which is elapsed time", hint)
    return IntervalTrigger(seconds=seconds.total_seconds(), **said.rest)


def _length_of(length: str | float | timedelta, what: object) -> timedelta:
    try:
        found = parse_duration(length)
    except (InvalidArgument, TypeError):
        raise _unknown(what) from None
    if found <= timedelta(0):
        raise _refused("every", what, "a length of time above zero")
    return found


def _unknown(what: object) -> InvalidArgument:
    words = re.findall(r"[a-z]+", what.lower()) if isinstance(what, str) else []
    near = next((found for word in words if word not in _WORDS and (found := nearest(word, _WORDS))), None)
    return _refused("every", what, _EXPECTED, _meant(near))


def _in_short_units(text: str) -> str:
    """Return ``5 minutes`` as ``5 m`` and ``hour`` as ``1 h``."""
    text = f"1 {text}" if text in _ELAPSED_UNITS else text
    return re.sub(r"(?<![a-z])(s|m|h)(?:econd|inute|our)s?(?![a-z])", r"\1", text)


def _by_calendar(count: int, unit: str, said: _Said, what: str) -> BaseTrigger:
    _refuse_past_the_hour(said)
    if not count:
        raise _refused("every", what, "a number above zero")
    if said.on and unit not in ("week", "month"):
        raise _refused("on", ",".join(said.on), f"left out beside {shown(what)}", 'it goes with "week" and "month"')
    if said.on and unit == "week":
        return _on_weekdays(count, said, what)
    if said.on:
        return _on_day_of_month(count, said, what)
    if count == 1 and unit == "day":
        return _cron(said)
    return _counted_from(said, **{f"{unit}s": count})


def _on_weekdays(count: int, said: _Said, what: str) -> BaseTrigger:
    days = _weekdays_of(",".join(said.on))
    if days is None:
        near = nearest(said.on[0], [*WEEKDAYS, *_LONG_WEEKDAYS])
        raise _refused("on", ",".join(said.on), 'weekdays such as "mon" or "mon,thu"', _meant(near))
    if count == 1:
        return _cron(said, day_of_week=days)
    if days not in WEEKDAYS:
        raise _refused("on", days, f"one weekday beside {shown(what)}", "RRuleTrigger takes several")
    start = said.rest["start_date"]
    first = days if start is None else _first_on(WEEKDAYS.index(days), start)
    return _counted_from(said._replace(rest={**said.rest, "start_date": first}), weeks=count)


def _first_on(weekday: int, start: datetime | date | str) -> date:
    """Return the first day from ``start`` on that is such a weekday."""
    day = start.date() if isinstance(start, datetime) else asdate(start)
    assert day is not None
    return day + timedelta(days=(weekday - day.weekday()) % 7)


def _on_day_of_month(count: int, said: _Said, what: str) -> BaseTrigger:
    if count > 1:
        raise _refused("on", ",".join(said.on), f"left out beside {shown(what)}", 'it goes with "month"')
    try:
        return _cron(said, day=",".join(said.on))
    except InvalidArgument as error:
        if error.field != "day":
            raise
        expected = 'days of the month: 1 to 31, "last", or such as "2nd tue"'
        raise _refused("on", ",".join(said.on), expected) from error


def _cron(said: _Said, **days: str) -> BaseTrigger:
    """Return what fires on days at some times: one cron trigger, or one for each minute if the times need that."""
    times = said.times or [time()]
    hours, minutes, seconds = ({getattr(each, unit) for each in times} for unit in ("hour", "minute", "second"))
    if set(times) == {time(*each) for each in product(hours, minutes, seconds)}:
        return CronTrigger(hour=_list(hours), minute=_list(minutes), second=_list(seconds), **days, **said.rest)
    by_minute: dict[tuple[int, int], set[int]] = {}
    for each in times:
        by_minute.setdefault((each.minute, each.second), set()).add(each.hour)
    return OrTrigger([
        CronTrigger(hour=_list(hours), minute=minute, second=second, **days, **said.rest)
        for (minute, second), hours in sorted(by_minute.items())
    ])  # fmt: skip


def _past_the_hour(said: _Said) -> BaseTrigger:
    minutes, seconds = ({getattr(each, unit) for each in said.past_the_hour} for unit in ("minute", "second"))
    if len(seconds) > 1:
        raise _refused("at", _shown_times(said), "minutes past the hour such as ':15'")
    return CronTrigger(minute=_list(minutes), second=_list(seconds), **said.rest)


def _counted_from(said: _Said, **distance: int) -> BaseTrigger:
    options: dict[str, Any] = {**distance, **said.rest}
    triggers = [
        CalendarIntervalTrigger(hour=each.hour, minute=each.minute, second=each.second, **options)
        for each in said.times or [time()]
    ]
    return triggers[0] if len(triggers) == 1 else OrTrigger(triggers)


def _weekdays_of(text: str) -> str | None:
    """Return weekdays as the cron trigger writes them, None if the text is anything else."""
    items = []
    for item in _AND.split(_DAY_NAMES.get(text, text)):
        names = [FULL_NAMES.get(name.strip(), name.strip()) for name in item.split("-")]
        if len(names) > 2 or not all(name in WEEKDAYS for name in names):
            return None
        items.append("-".join(names))
    return ",".join(items)


def _days_of(on: object) -> Sequence[str]:
    if on is None:
        return ()
    if isinstance(on, int) and not isinstance(on, bool):
        return (str(on),)
    items = _AND.split(on.strip().lower()) if isinstance(on, str) else on
    found = list(items) if isinstance(items, Iterable) else [None]
    if not found or not all(isinstance(item, (str, int)) and str(item).strip() for item in found):
        raise _refused("on", on, 'a day such as "mon" or 15, or several')
    return [str(item).strip().lower() for item in found]


def _times_of(at: object) -> list[tuple[bool, time]]:
    """Return times of day in their order; with each, whether it has no hour."""
    if at is None:
        return []
    items = _AND.split(at.strip().lower()) if isinstance(at, str) else [at] if isinstance(at, time) else at
    if not isinstance(items, Iterable) or not (given := list(items)) or len(given) > MOST_TIMES:
        raise _refused("at", at, f'a time of day such as "09:00", or a list of 1 to {MOST_TIMES}')
    return sorted({_time_of(item) for item in given})


def _time_of(item: object) -> tuple[bool, time]:
    if isinstance(item, time) and item.tzinfo is None and not item.microsecond:
        return False, item
    match = _TIME.fullmatch(item.strip()) if isinstance(item, str) else None
    try:
        if match is not None:
            at = time(int(match["hour"] or 0), int(match["minute"]), int(match["second"] or 0))
            return not match["hour"], at
    except ValueError as error:
        raise _refused("at", item, 'a time of day such as "09:00"', str(error)) from error
    raise _refused("at", item, 'a time of day such as "09:00" or "17:30:15"')


def _refuse_past_the_hour(said: _Said) -> None:
    if said.past_the_hour:
        raise _refused("at", _shown_times(said), 'a time of day such as "09:15"', '":15" goes with "hour"')


def _shown_times(said: _Said) -> str:
    return ", ".join([*map(str, said.times), *(f"{each:%M:%S}" for each in said.past_the_hour)])


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def _refused(field: str, value: object, expected: str, hint: str = "") -> InvalidArgument:
    message = f"{field} must be {expected}, got {shown(value)}"
    return InvalidArgument(f"{message}; {hint}" if hint else message, field=field, value=value)


def _meant(near: str | None) -> str:
    return f'did you mean "{near}"?' if near else ""
