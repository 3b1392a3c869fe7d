"""A trigger that fires at a time of day, every so many years, months, weeks and days of the calendar.

The dates form one sequence from ``start_date``. A step adds the years and months, again and again until the date exists
(monthly from the 31st skips the months without one), then the weeks and days. Every fire time belongs to that
sequence, whatever fired before it.

Where a clock change leaves the time of day out, the run is at the first moment after the change; where the time
happens twice, at the first. A date that a zone left out altogether is skipped.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import (
    asdate,
    astimezone,
    first_instant_at,
    local_timezone,
    parse_number,
    timezone_repr,
    to_micros,
    zone_name,
)
from goscheduler.triggers._steps import bounded, step
from goscheduler.triggers.base import BaseTrigger, current_state, parse_jitter, postpone, stored_flag
from goscheduler.triggers.cron.expressions import FULL_NAMES, WEEKDAYS

_UNITS = ("years", "months", "weeks", "days")
_DAY = timedelta(days=1)
_LAST_MONTH = date.max.year * 12 + 11


class CalendarIntervalTrigger(BaseTrigger):
    """Fires on ``start_date`` (default: today) and then every ``years``, ``months``, ``weeks`` and ``days`` after it.

    ``hour``, ``minute`` and ``second`` are the time of day in ``timezone``, by default the machine's. The first fire
    time is not before now: dates of the sequence that have passed are left out. ``end_date`` is the last date. A
    ``start_date`` of "mon" is the first Monday to come, counted from when the job is added, whose time lies ahead.
    ``jitter`` delays every fire time by up to so many seconds, but never to the next one or beyond ``end_date``.
    """

    __slots__ = (
        "_time",
        "days",
        "end_date",
        "floating",
        "jitter",
        "months",
        "start_date",
        "start_weekday",
        "timezone",
        "weeks",
        "years",
    )

    def __init__(
        self,
        *,
        years: int | str = 0,
        months: int | str = 0,
        weeks: int | str = 0,
        days: int | str = 0,
        hour: int | str = 0,
        minute: int | str = 0,
        second: int | str = 0,
        start_date: date | str | None = None,
        end_date: date | str | None = None,
        timezone: str | tzinfo | None = None,
        jitter: float | str | None = None,
    ) -> None:
        interval, at = (years, months, weeks, days), (hour, minute, second)
        weekday = _weekday(start_date)
        start = start_date if weekday is None else None
        self._set_up(interval, at, timezone, start, end_date, jitter, floating=start is None, weekday=weekday)

    def _set_up(
        self,
        interval: Sequence[int | str],
        at: Sequence[int | str],
        timezone: str | tzinfo | None,
        start_date: date | str | None,
        end_date: date | str | None,
        jitter: float | str | None,
        floating: bool,
        weekday: int | None,
    ) -> None:
        self.years, self.months, self.weeks, self.days = map(_whole, interval, _UNITS)
        if not (self.years or self.months or self.weeks or self.days):
            raise InvalidArgument("interval must be at least 1 day long", field="days", value=0)
        self.timezone = astimezone(timezone) or local_timezone()
        hour, minute, second = at
        self._time = time(_whole(hour, "hour", 23), _whole(minute, "minute", 59), _whole(second, "second", 59))
        given = _date(start_date, "start_date", self.timezone)
        self.floating, self.start_weekday = floating, weekday
        self.start_date = given or self._start_from(SYSTEM_CLOCK.now())
        self.end_date = _date(end_date, "end_date", self.timezone)
        if not floating and self.end_date is not None and self.end_date < self.start_date:
            raise InvalidArgument("end_date cannot be earlier than start_date", field="end_date", value=end_date)
        self.jitter = parse_jitter(jitter)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        with bounded():
            nominal = self._nominal_fire_time(previous_fire_time, now)
            if nominal is None or not self.jitter:
                return nominal
            following = self._nominal_fire_time(nominal, nominal)
        return postpone(nominal, self.jitter, before=following or self._end())

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        after = to_micros(now) - 1 if previous is None else to_micros(previous)
        for day in self._dates_from(self._day_before(now if previous is None else previous)):
            fire_time = self._on(day)
            if fire_time is not None and to_micros(fire_time) > after:
                return fire_time
        return None

    def anchored(self, now: datetime) -> CalendarIntervalTrigger:
        if not self.floating:
            return self
        twin = copy.copy(self)
        twin.start_date = self._start_from(now)
        return twin

    def _start_from(self, now: datetime) -> date:
        """Return the first date of the sequence where the user left it open."""
        today = now.astimezone(self.timezone).date()
        if self.start_weekday is None:
            return today
        day = today + timedelta(days=(self.start_weekday - today.weekday()) % 7)
        fire_time = self._on(day)
        has_passed = fire_time is None or to_micros(fire_time) < to_micros(now)
        return day + timedelta(weeks=1) if has_passed else day

    def _day_before(self, moment: datetime) -> date:
        """Return a date early enough: a clock change can push a fire time into the day after its date."""
        try:
            return moment.astimezone(self.timezone).date() - _DAY
        except OverflowError:
            return date.min

    def _on(self, day: date) -> datetime | None:
        """Return the moment to fire for a date of the sequence, None if the zone left that date out."""
        fire_time = first_instant_at(datetime.combine(day, self._time), self.timezone)
        if fire_time.date() == day or first_instant_at(datetime.combine(day, time()), self.timezone).date() == day:
            return fire_time
        return None

    def _end(self) -> datetime | None:
        if self.end_date is None or self.end_date == date.max:
            return None
        return first_instant_at(datetime.combine(self.end_date + _DAY, time()), self.timezone)

    def _dates_from(self, earliest: date) -> Iterator[date]:
        """Yield the dates of the sequence that are not before ``earliest``, up to the end."""
        day = self._fast_forward(earliest)
        while day is not None and (self.end_date is None or day <= self.end_date):
            step()
            if day >= earliest:
                yield day
            day = self._step(day)

    def _fast_forward(self, earliest: date) -> date | None:
        """Return a date of the sequence that has none between itself and ``earliest``, where arithmetic can tell it."""
        stride, months = self.weeks * 7 + self.days, self.years * 12 + self.months
        if earliest <= self.start_date or (stride and months):
            return self.start_date
        if stride:
            return self.start_date + timedelta(days=(earliest - self.start_date).days // stride * stride)
        steps = (_month_number(earliest) - _month_number(self.start_date)) // months
        for count in range(steps, 0, -1):
            if (day := _in_month(_month_number(self.start_date) + count * months, self.start_date.day)) is not None:
                return day
        return self.start_date

    def _step(self, day: date) -> date | None:
        """Return the date that follows ``day`` in the sequence, None at the end of the calendar."""
        months = self.years * 12 + self.months
        if months:
            candidates = range(_month_number(day) + months, _LAST_MONTH + 1, months)
            found = next(filter(None, (_in_month(number, day.day) for number in candidates)), None)
            if found is None:
                return None
            day = found
        try:
            return day + timedelta(weeks=self.weeks, days=self.days)
        except OverflowError:
            return None

    def explain(self) -> str:
        units = [(self.years, "year"), (self.months, "month"), (self.weeks, "week"), (self.days, "day")]
        parts = [f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in units if count]
        distance = parts[0].removeprefix("1 ") if len(parts) == 1 else " and ".join(parts)
        at = self._time.isoformat("seconds" if self._time.second else "minutes")
        text = f"every {distance} at {at} {zone_name(self.timezone)} from {self.start_date}"
        if self.end_date is not None:
            text += f" until {self.end_date}"
        if (self.months or self.years) and self.start_date.day > 28:
            text += f", skipping months without a day {self.start_date.day}"
        return f"{text}, delayed by up to {self.jitter:g} seconds" if self.jitter else text

    def _rule(self) -> object:
        start = self.start_weekday if self.floating else self.start_date
        distance = (self.years * 12 + self.months, self.weeks * 7 + self.days)
        return distance, self._time, start, self.end_date, self.timezone, self.jitter or None

    def __getstate__(self) -> dict[str, Any]:
        state = {
            "version": 1,
            "interval": [self.years, self.months, self.weeks, self.days],
            "time": [self._time.hour, self._time.minute, self._time.second],
            "start_date": self.start_date,
            "end_date": self.end_date,
            "timezone": self.timezone,
            "jitter": self.jitter,
        }
        if self.start_weekday is not None:
            state["start_weekday"] = self.start_weekday
        return state | {"floating": True} if self.floating else state

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        start = state["start_date"]
        if start is None:
            raise InvalidArgument("start_date must be a date, got None", field="start_date")
        floating = stored_flag(state.get("floating", False), "floating")
        weekday = state.get("start_weekday")
        if weekday is not None and not floating:
            raise InvalidArgument("start_weekday needs a start that is floating", field="start_weekday", value=weekday)
        self._set_up(
            state["interval"], state["time"], state["timezone"], start, state["end_date"], state["jitter"], floating,
            None if weekday is None else _whole(weekday, "start_weekday", 6),
        )  # fmt: skip

    def __repr__(self) -> str:
        distance = [(unit, getattr(self, unit)) for unit in _UNITS]
        options = [f"{unit}={count}" for unit, count in distance if count]
        options += [f"time='{self._time.isoformat()}'", f"start_date='{self.start_date}'"]
        if self.end_date is not None:
            options.append(f"end_date='{self.end_date}'")
        options.append(f"timezone='{timezone_repr(self.timezone)}'")
        return f"{type(self).__name__}({', '.join(options)})"

    __str__ = __repr__


def _month_number(day: date) -> int:
    return day.year * 12 + day.month - 1


def _in_month(number: int, day: int) -> date | None:
    """Return a day of a month, None if the month has no such day."""
    try:
        return date(number // 12, number % 12 + 1, day)
    except ValueError:
        return None


def _whole(value: int | str, field: str, most: int = 1_000_000) -> int:
    number = parse_number(value, field)
    if number != int(number) or not 0 <= number <= most:
        raise InvalidArgument(
            f"{field} must be in 0..{most}, a whole number, got {shown(value)}", field=field, value=value
        )
    return int(number)


def _weekday(value: object) -> int | None:
    """Return the number of a weekday that is named; Monday is 0."""
    name = value.strip().lower() if isinstance(value, str) else ""
    short = FULL_NAMES.get(name, name)
    return WEEKDAYS.index(short) if short in WEEKDAYS else None


def _date(value: date | str | None, field: str, zone: tzinfo) -> date | None:
    """Return the date a user means; that of an aware datetime is the date in the trigger's zone."""
    if isinstance(value, datetime):
        return (value.astimezone(zone) if value.tzinfo is not None else value).date()
    if value is not None and not isinstance(value, (date, str)):
        raise TypeError(f"Unsupported type for {field}: {type(value).__name__}")
    try:
        return asdate(value)
    except ValueError as error:
        raise InvalidArgument(f"{field}: {error}", field=field, value=value) from error
