"""When a message is due, as a trigger; and which time of its recurrence a moment is.

Nothing is counted while messages are delivered. The number of times is fixed when a message is scheduled, as the moment
of the last of them, and the number of a time is computed from the trigger.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from goscheduler.errors import InvalidArgument, NeverFires
from goscheduler.messages.message import MOST_OCCURRENCES, Recurrence
from goscheduler.times import SECOND, UTC, convert_to_datetime, datetime_repr, from_micros, micros_of, to_micros
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

#: So many times of a crontab line are counted one by one.
FEW = 1000
#: What a crontab line is limited to only after so long (in microseconds) is not limited.
HORIZON = 200 * 366 * 86_400 * SECOND

_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
_DAY = 86_400 * SECOND


def trigger_of(recurrence: Recurrence | None, first: datetime, zone: tzinfo) -> BaseTrigger:
    """Return the trigger of a message that is due at ``first``, or from then on.

    :raises NeverFires: if a crontab line has no time before the end
    """
    if recurrence is None:
        return DateTrigger(first)
    zone = recurrence.timezone if isinstance(recurrence.timezone, tzinfo) else zone
    until = convert_to_datetime(recurrence.until, zone, "until")
    if until is not None and to_micros(until) < to_micros(first):
        raise InvalidArgument(
            f"until ({datetime_repr(until)}) is before the first delivery ({datetime_repr(first)})",
            field="until",
            value=recurrence.until,
        )
    if recurrence.interval is not None:
        return _every(recurrence.interval, recurrence.max_occurrences, first, until, zone)
    assert recurrence.cron is not None, "a recurrence has one of the two"
    return _by_crontab(recurrence.cron, recurrence.max_occurrences, first, until, zone)


def _every(
    interval: timedelta, most: int | None, first: datetime, until: datetime | None, zone: tzinfo
) -> IntervalTrigger:
    try:
        last = to_micros(first) + ((most or 1) - 1) * micros_of(interval)
        end = until if most is None else _earlier(until, from_micros(last, zone))
    except OverflowError:
        end = until  # the calendar ends before
    return IntervalTrigger(seconds=interval.total_seconds(), start_date=first, end_date=end, timezone=zone)


def _by_crontab(line: str, most: int | None, first: datetime, until: datetime | None, zone: tzinfo) -> CronTrigger:
    trigger = CronTrigger.from_crontab(line, timezone=zone, start_date=first, end_date=until)
    if most is None:
        return trigger
    start = trigger.get_next_fire_time(None, first)
    if start is None:
        raise NeverFires(f"cron: {line!r} has no time that is left", field="cron", value=line)
    last = _time_number(most, trigger, start)
    end = until if last is None else _earlier(until, last)
    return CronTrigger.from_crontab(line, timezone=zone, start_date=first, end_date=end)


def _time_number(number: int, trigger: CronTrigger, first: datetime) -> datetime | None:
    """Return a moment by which the trigger has fired so many times and no more; None if that is too far away."""
    if number > FEW:
        return _leap(number, trigger, first)
    fire_time: datetime | None = first
    for _ in range(number - 1):
        fire_time = None if fire_time is None else trigger.get_next_fire_time(fire_time, fire_time)
    return fire_time


def _leap(number: int, trigger: CronTrigger, first: datetime) -> datetime | None:
    """Find the moment by leaps that grow until one is too far, and then shrink."""
    left, at, leap, grows = number - 1, to_micros(first), _DAY, True
    horizon = min(at + HORIZON, to_micros(_LATEST))
    while left and at + leap <= horizon:
        here, there = (from_micros(moment, trigger.timezone) for moment in (at, at + leap))
        passed = trigger.backlog(here, there).count - 1
        grows = grows and passed <= left
        if passed <= left:
            left, at = left - passed, at + leap
        leap = 2 * leap if grows else max(SECOND, leap // 2)
    return None if left else from_micros(at, trigger.timezone)


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other, key=to_micros)


def occurrence_of(trigger: BaseTrigger, moment: datetime) -> int:
    """Return which time of its recurrence a moment is, counted from 1."""
    if isinstance(trigger, IntervalTrigger):
        return 1 + max(0, (to_micros(moment) - to_micros(trigger.start_date)) // micros_of(trigger.interval))
    if not isinstance(trigger, CronTrigger) or trigger.start_date is None:
        return 1
    first = trigger.get_next_fire_time(None, trigger.start_date)
    return 1 if first is None or to_micros(moment) <= to_micros(first) else trigger.backlog(first, moment).count


def recurrence_of(trigger: BaseTrigger) -> Recurrence | None:
    """Return the recurrence that a trigger was made of; None if it was made of none.

    A number of occurrences is kept as the moment of the last of them: an end that is one of the times is both.
    """
    try:
        return _read_back(trigger)
    except InvalidArgument:  # somebody has given the job a trigger that no recurrence has
        return None


def _read_back(trigger: BaseTrigger) -> Recurrence | None:
    if isinstance(trigger, IntervalTrigger):
        most = _last_number(trigger, trigger.start_date, trigger.end_date)
        return Recurrence(trigger.interval, timezone=trigger.timezone, max_occurrences=most, until=trigger.end_date)
    if not isinstance(trigger, CronTrigger) or str(trigger.fields[-1]) != "0":
        return None
    first = trigger.start_date and trigger.get_next_fire_time(None, trigger.start_date)
    most = _last_number(trigger, first, trigger.end_date)
    line = crontab_of(trigger)
    return Recurrence(cron=line, timezone=trigger.timezone, max_occurrences=most, until=trigger.end_date)


def _last_number(trigger: BaseTrigger, first: datetime | None, end: datetime | None) -> int | None:
    """Return which time of a trigger its end is, None if the end is none of the times."""
    if first is None or end is None or to_micros(end) < to_micros(first):
        return None
    counted = trigger.backlog(first, end)
    ends_it = to_micros(counted.latest[-1]) == to_micros(end)
    return counted.count if ends_it and counted.count <= MOST_OCCURRENCES else None


def crontab_of(trigger: CronTrigger) -> str:
    """Return the crontab line of a trigger that was made of one."""
    texts = {field.name: str(field) for field in trigger.fields}
    texts["day"] = texts["day"].replace("last", "L")
    texts["day_of_week"] = ",".join(map(_weekday, texts["day_of_week"].split(",")))
    return " ".join(texts[name] for name in ("minute", "hour", "day", "month", "day_of_week"))


def _weekday(item: str) -> str:
    """Return a weekday as a crontab line has it: "2nd fri" is ``fri#2``, "last fri" is ``Lfri``."""
    place, _, day = item.rpartition(" ")
    return {"": item, "last": f"L{day}"}.get(place, f"{day}#{place[:1]}")
