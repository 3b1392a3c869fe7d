"""A trigger that fires at regular distances of elapsed time.

All fire times lie on a grid: ``start_date + k * interval``, k = 0, 1, 2, … The next one is found by dividing, however
far away the start is, and is always the first grid time after the previous fire time. Neither jitter nor a late run
moves the grid, and after a previous fire time from another grid (the start was changed) the trigger is back on its own,
less than one interval later.

Time is elapsed time: "every 24 hours" runs an hour later by the clock on the wall after clocks went forward.
"""

from __future__ import annotations

import copy
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import (
    EPOCH,
    astimezone,
    convert_to_datetime,
    datetime_repr,
    local_timezone,
    micros_of,
    parse_number,
    timezone_repr,
    to_micros,
)
from goscheduler.triggers.base import (
    Backlog,
    BaseTrigger,
    current_state,
    parse_jitter,
    postpone,
    stored_flag,
    stored_moment,
)

_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


class IntervalTrigger(BaseTrigger):
    """Fires every so many weeks, days, hours, minutes and seconds, added up.

    The first fire time is ``start_date``; without one, one interval from now. A start in the past is no backlog: the
    first fire time is then the next on the grid. ``end_date`` is the last moment that may fire. ``jitter`` delays every
    fire time by up to so many seconds and must be shorter than the interval.

    The zone of the fire times is ``timezone``, else that of ``start_date``, of ``end_date``, or the machine's.
    """

    __slots__ = ("end_date", "floating", "interval", "jitter", "start_date", "timezone")

    def __init__(
        self,
        weeks: float | str = 0,
        days: float | str = 0,
        hours: float | str = 0,
        minutes: float | str = 0,
        seconds: float | str = 0,
        start_date: datetime | date | str | None = None,
        end_date: datetime | date | str | None = None,
        timezone: tzinfo | str | None = None,
        jitter: float | str | None = None,
    ) -> None:
        self.interval = _interval(weeks, days, hours, minutes, seconds)
        self.timezone = _zone(timezone, start_date, end_date)
        self.end_date = convert_to_datetime(end_date, self.timezone, "end_date")
        self.jitter = _jitter_within(self.interval, jitter)
        given = convert_to_datetime(start_date, self.timezone, "start_date")
        self.floating = given is None
        self.start_date = given or self._one_interval_after(SYSTEM_CLOCK.now())
        self._check_end()

    def _check_end(self) -> None:
        if not self.floating and self.end_date is not None and to_micros(self.end_date) < to_micros(self.start_date):
            raise InvalidArgument("end_date cannot be earlier than start_date", field="end_date", value=self.end_date)

    @property
    def interval_length(self) -> float:
        """The interval in seconds."""
        return self.interval.total_seconds()

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        nominal = self._nominal_fire_time(previous_fire_time, now)
        if nominal is None or not self.jitter:
            return nominal
        return postpone(nominal, self.jitter, until=self.end_date)

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        start = self.start_date - EPOCH
        after = now - EPOCH - timedelta.resolution if previous is None else previous - EPOCH
        following = start if after < start else after + self.interval - (after - start) % self.interval
        return self._fire_time(following)

    def backlog(self, first: datetime, now: datetime, keep: int = 1) -> Backlog:
        until = now if self.end_date is None else min(now, self.end_date, key=to_micros)
        start = self.start_date - EPOCH
        before = max(-1, (first - EPOCH - start) // self.interval)
        last = max(before, (until - EPOCH - start) // self.interval)
        newest = [
            self._fire_time(start + index * self.interval) for index in range(max(before, last - keep) + 1, last + 1)
        ]
        latest = [first, *(fire_time for fire_time in newest if fire_time is not None)]
        return Backlog(1 + last - before, tuple(latest[-keep:]) if keep > 0 else ())

    def anchored(self, now: datetime) -> IntervalTrigger:
        return self.starting_at(self._one_interval_after(now)) if self.floating else self

    def starting_at(self, first: datetime) -> IntervalTrigger:
        if not self.floating:
            return self
        twin = _twin(self) if type(self) is IntervalTrigger else copy.copy(self)
        twin.start_date = first.astimezone(self.timezone)
        return twin

    def explain(self) -> str:
        parts = [f"every {_in_words(self.interval)} from {datetime_repr(self.start_date)}"]
        if self.end_date is not None:
            parts.append(f"until {datetime_repr(self.end_date)}")
        if self.jitter:
            parts.append(f"delayed by up to {self.jitter:g} seconds")
        return ", ".join(parts)

    def _fire_time(self, since_epoch: timedelta) -> datetime | None:
        """Return a time of the grid in the trigger's zone, None past the end of the trigger or of the calendar."""
        if self.end_date is not None and since_epoch > self.end_date - EPOCH:
            return None
        try:
            return (EPOCH + since_epoch).astimezone(self.timezone)
        except OverflowError:
            return None

    def _one_interval_after(self, now: datetime) -> datetime:
        try:
            return (now - EPOCH + self.interval + EPOCH).astimezone(self.timezone)
        except OverflowError as error:
            raise _invalid_interval(self.interval, "ends after the year 9999") from error

    def _rule(self) -> object:
        start = None if self.floating else to_micros(self.start_date)
        end = None if self.end_date is None else to_micros(self.end_date)
        return self.interval, start, end, self.timezone, self.jitter or None

    def __getstate__(self) -> dict[str, Any]:
        state = {
            "version": 2,
            "timezone": self.timezone,
            "start_date": self.start_date,
            "end_date": self.end_date,
            "interval": self.interval,
            "jitter": self.jitter,
        }
        return state | {"floating": True} if self.floating else state

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 2)
        self.interval = _shared(state["interval"])
        self.timezone = astimezone(state["timezone"]) or local_timezone()
        end = state["end_date"]
        self.start_date = stored_moment(state["start_date"], "start_date")
        self.end_date = None if end is None else stored_moment(end, "end_date")
        self.jitter = _jitter_within(self.interval, state.get("jitter"))
        self.floating = stored_flag(state.get("floating", False), "floating")
        self._check_end()

    def __str__(self) -> str:
        return f"interval[{self.interval}]"

    def __repr__(self) -> str:
        options = [f"interval={self.interval!r}", f"start_date='{datetime_repr(self.start_date)}'"]
        if self.end_date is not None:
            options.append(f"end_date='{datetime_repr(self.end_date)}'")
        if self.jitter:
            options.append(f"jitter={self.jitter}")
        options.append(f"timezone='{timezone_repr(self.timezone)}'")
        return f"<{type(self).__name__} ({', '.join(options)})>"


def _twin(trigger: IntervalTrigger) -> IntervalTrigger:
    """Return a copy. Jobs are added by the million, and ``copy.copy`` costs more than all the rest of anchoring."""
    twin = object.__new__(IntervalTrigger)
    twin.interval, twin.start_date, twin.end_date = trigger.interval, trigger.start_date, trigger.end_date
    twin.timezone, twin.jitter, twin.floating = trigger.timezone, trigger.jitter, trigger.floating
    return twin


def _interval(
    weeks: float | str, days: float | str, hours: float | str, minutes: float | str, seconds: float | str
) -> timedelta:
    try:
        return _shared(
            timedelta(
                weeks=parse_number(weeks, "weeks"),
                days=parse_number(days, "days"),
                hours=parse_number(hours, "hours"),
                minutes=parse_number(minutes, "minutes"),
                seconds=parse_number(seconds, "seconds"),
            )
        )
    except OverflowError as error:
        parts = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        given = {unit: number for unit, number in parts.items() if number}
        raise _invalid_interval(given, "is too long") from error


@lru_cache(maxsize=1024)
def _shared(interval: timedelta) -> timedelta:
    """Return one object for equal intervals: a million jobs have few different ones."""
    if interval <= timedelta(0):
        raise _invalid_interval(interval, "must be positive, at least a microsecond")
    return interval


def _invalid_interval(value: object, reason: str) -> InvalidArgument:
    shown_value = str(value) if isinstance(value, timedelta) else shown(value)
    return InvalidArgument(f"The interval {reason}, got {shown_value}", field="interval", value=value)


def _zone(
    timezone: tzinfo | str | None, start_date: datetime | date | str | None, end_date: datetime | date | str | None
) -> tzinfo:
    return (
        astimezone(timezone)
        or astimezone(getattr(start_date, "tzinfo", None))
        or astimezone(getattr(end_date, "tzinfo", None))
        or local_timezone()
    )


def _jitter_within(interval: timedelta, value: float | str | None) -> float | None:
    jitter = parse_jitter(value)
    if jitter is not None and jitter >= interval.total_seconds():
        raise InvalidArgument(
            f"jitter must be shorter than the interval of {interval}, got {shown(value)} seconds",
            field="jitter",
            value=value,
        )
    return jitter


def _in_words(interval: timedelta) -> str:
    """Return ``5 minutes``, ``hour``, ``1 day and 30 seconds``: what follows the word "every"."""
    left, parts = micros_of(interval), []
    for unit, seconds in _UNITS:
        count, left = divmod(left, seconds * 1_000_000)
        if unit == "second" and left:
            parts.append(f"{count + left / 1_000_000:g} seconds")
        elif count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    if len(parts) == 1 and parts[0].startswith("1 "):
        return parts[0][2:]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
