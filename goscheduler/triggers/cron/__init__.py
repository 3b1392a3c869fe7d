"""Schedules by the calendar: :class:`CronTrigger`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from goscheduler.errors import InvalidArgument, NeverFires, shown
from goscheduler.times import (
    UTC,
    astimezone,
    convert_to_datetime,
    datetime_repr,
    local_timezone,
    timezone_repr,
    to_micros,
    zone_name,
)
from goscheduler.triggers.base import Backlog, BaseTrigger, parse_jitter, postpone, stored_flag
from goscheduler.triggers.cron._calendar import Calendar, Rule, calendar_of
from goscheduler.triggers.cron._english import describe
from goscheduler.triggers.cron._walk import FireTimes, fire_times_of
from goscheduler.triggers.cron._zone import TICK, utc
from goscheduler.triggers.cron.fields import (
    DEFAULT_VALUES,
    FIELD_TYPES,
    BaseField,
    DayOfMonthField,
    DayOfWeekField,
    MonthField,
    WeekField,
    read_field,
    require_number_or_text,
)

if TYPE_CHECKING:
    from goscheduler.triggers.cron._spread import Spread

__all__ = ["BaseField", "CronTrigger", "DayOfMonthField", "DayOfWeekField", "MonthField", "WeekField"]

_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
"""Nothing is delayed beyond this instant, so that the delayed time exists in every zone."""


class CronTrigger(BaseTrigger):
    """Fires whenever the wall clock of a zone matches all given fields.

    Fields are numbers or text: ``*``, ``*/n``, ``a``, ``a-b``, ``a-b/n``, ``a/n``, names (``mon-fri``, ``nov-feb``),
    ``last`` and ``2nd fri`` or ``last fri`` for days, and any of them separated by commas. In ``day_of_week`` 0 is
    Monday. A field that is left out is ``*`` if a less significant one is given, else its lowest value; week and
    ``day_of_week`` stay ``*``. Without any field the trigger fires every second.

    When clocks change:

    ===========================  ===================================  ======================================
    the wall time                hour field names certain hours       hour field covers all 24 hours
    ===========================  ===================================  ======================================
    is left out (gap)            fires once, at the first instant     does not fire; ``*/30`` goes on every
                                 after the gap                        30 real minutes
    is left out with its date    does not fire                        does not fire
    happens twice (overlap)      fires once, the first time           fires both times
    ===========================  ===================================  ======================================

    ``jitter`` delays each firing by up to that many seconds, always less than the time to the next one, so no firing is
    lost and none drifts. ``end_date`` is included.
    """

    __slots__ = (
        "_bounded", "_either_day", "_times", "end_date", "fields", "jitter", "spread", "start_date", "timezone"
    )  # fmt: skip

    FIELD_NAMES: ClassVar[tuple[str, ...]] = (
        "year", "month", "day", "week", "day_of_week", "hour", "minute", "second"
    )  # fmt: skip
    FIELDS_MAP: ClassVar[Mapping[str, type[BaseField]]] = FIELD_TYPES

    def __init__(
        self,
        year: int | str | None = None,
        month: int | str | None = None,
        day: int | str | None = None,
        week: int | str | None = None,
        day_of_week: int | str | None = None,
        hour: int | str | None = None,
        minute: int | str | None = None,
        second: int | str | None = None,
        start_date: datetime | date | str | None = None,
        end_date: datetime | date | str | None = None,
        timezone: str | tzinfo | None = None,
        jitter: float | str | None = None,
    ) -> None:
        given = (year, month, day, week, day_of_week, hour, minute, second)
        self._set_up(given, False, _zone_for(timezone, start_date, end_date), start_date, end_date, jitter)

    @classmethod
    def from_crontab(
        cls,
        expr: str,
        timezone: str | tzinfo | None = None,
        *,
        dialect: str = "vixie",
        seconds: bool = False,
        start_date: datetime | date | str | None = None,
        end_date: datetime | date | str | None = None,
        jitter: float | str | None = None,
        job_id: str = "",
    ) -> CronTrigger:
        """Return the trigger that a crontab line describes, read as Vixie cron reads it.

        The five fields are minute, hour, day of month, month and day of week. 0 and 7 are Sunday. If both days are
        restricted, either may match; a day field that begins with ``*`` (also ``*/2``) restricts nothing in this sense,
        and then both must match. Names may be short or full and their ranges may wrap (``fri-mon``), numbers may not.
        ``@yearly``, ``@annually``, ``@monthly``, ``@weekly``, ``@daily``, ``@midnight`` and ``@hourly`` are known.

        Beyond Vixie: ``L`` in the day field is the last day of the month; ``5#2`` is the second Friday, ``L5`` or
        ``5L`` the last Friday; ``?`` stands for ``*`` in the two day fields; ``a/n`` runs from ``a`` to the end of the
        field.

        ``H`` is a value that follows from the id of the job, ``H/15`` every 15th from such a value, ``H(0-29)`` one of
        these; before a job has the trigger, they follow from ``job_id``.

        ``seconds=True`` expects a sixth field, the seconds, in front. ``dialect="apscheduler"`` reads the line as
        APScheduler 3 does: 0 is Monday, and both day fields must match.
        """
        # Not at the top: most programs never read a crontab line, and croniter is heavy.
        from goscheduler.triggers.cron._crontab import read_crontab
        from goscheduler.triggers.cron._spread import Spread, spread_line

        spread = spread_line(expr, seconds, job_id)
        crontab = read_crontab(expr if spread is None else spread, dialect, seconds)
        trigger = cls.__new__(cls)
        given = tuple(crontab.fields.get(name) for name in cls.FIELD_NAMES)
        zone = _zone_for(timezone, start_date, end_date)
        trigger._set_up(given, crontab.either_day, zone, start_date, end_date, jitter)
        trigger.spread = None if spread is None else Spread(" ".join(expr.split()), dialect, seconds, job_id)
        return trigger

    def for_job(self, job_id: str) -> CronTrigger:
        spread = self.spread
        if spread is None or spread.job_id == job_id:
            return self
        return type(self).from_crontab(
            spread.line, self.timezone, dialect=spread.dialect, seconds=spread.seconds, start_date=self.start_date,
            end_date=self.end_date, jitter=self.jitter, job_id=job_id,
        )  # fmt: skip

    def _set_up(
        self,
        given: tuple[int | str | None, ...],
        either_day: bool,
        timezone: tzinfo,
        start_date: datetime | date | str | None,
        end_date: datetime | date | str | None,
        jitter: float | str | None,
    ) -> None:
        self.timezone = timezone
        self.start_date = convert_to_datetime(start_date, timezone, "start_date")
        self.end_date = convert_to_datetime(end_date, timezone, "end_date")
        if self.start_date and self.end_date and to_micros(self.end_date) < to_micros(self.start_date):
            raise InvalidArgument(
                f"end_date ({datetime_repr(self.end_date)}) cannot be earlier than start_date "
                f"({datetime_repr(self.start_date)})",
                field="end_date",
                value=end_date,
            )
        self.jitter = parse_jitter(jitter)
        self._either_day = either_day
        for name, value in zip(self.FIELD_NAMES, given, strict=True):
            if value is not None:
                require_number_or_text(name, value)
        self.fields, calendar = _compile(given, either_day)
        self._times: FireTimes = fire_times_of(calendar, timezone)
        self._bounded = bool(self.start_date or self.end_date or self.jitter)
        self.spread: Spread | None = None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the first match after ``previous_fire_time``, or the first one not before ``now`` if that is None."""
        if previous_fire_time is not None and not self._bounded:
            return self._times.after(previous_fire_time)
        following = self._nominal_fire_time(previous_fire_time, now)
        if following is None or not self.jitter:
            return following
        return postpone(following, self.jitter, before=self._times.after(following) or _LATEST, until=self.end_date)

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        if previous is not None and self.start_date is None and self.end_date is None:
            return self._times.after(previous)
        after = utc(now) - TICK if previous is None else utc(previous)
        if self.start_date is not None:
            after = max(after, utc(self.start_date) - TICK)
        following = self._times.after_instant(after)
        return None if following is None or self._is_past_end(following) else following

    def _is_past_end(self, fire_time: datetime) -> bool:
        return self.end_date is not None and utc(fire_time) > utc(self.end_date)

    def backlog(self, first: datetime, now: datetime, keep: int = 1) -> Backlog:
        """Return how many fire times there are from ``first`` to ``now``, counted by days and not one by one.

        With jitter the undelayed times are counted and returned, except for ``first``.
        """
        start, end = utc(first), utc(now)
        if self.end_date is not None:
            end = min(end, utc(self.end_date))
        later = self._times.count(start, end) if start < end else 0
        latest = self._latest(start, end, min(keep, later)) if later else []
        if len(latest) < keep:
            latest.insert(0, first)
        return Backlog(later + 1, tuple(latest))

    def _latest(self, start: datetime, end: datetime, keep: int) -> list[datetime]:
        """Return the last ``keep`` fire times after ``start``, of which there are so many, up to ``end``."""
        if keep < 1:
            return []
        start, late = self._look_back(start, end, keep), end
        # Fire times are whole seconds apart, so a piece of one second holds no more than one.
        while late - start > timedelta(seconds=1):
            middle = start + (late - start) // 2
            if self._times.count(middle, end) >= keep:
                start = middle
            else:
                late = middle
        found: list[datetime] = []
        fire_time = self._times.after_instant(start)
        while fire_time is not None and len(found) < keep:
            found.append(fire_time)
            fire_time = self._times.after(fire_time)
        return found

    def _look_back(self, start: datetime, end: datetime, keep: int) -> datetime:
        """Return a time with at least ``keep`` fire times between it and ``end``, not much further back than needed."""
        distance = timedelta(minutes=1)
        while end - start > distance and self._times.count(end - distance, end) < keep:
            distance *= 4
        return end - distance if end - start > distance else start

    def same_schedule_as(self, other: BaseTrigger) -> bool:
        """Tell whether ``other`` fires at the same times, however its fields are written."""
        return (
            isinstance(other, CronTrigger)
            and type(self) is type(other)
            and self._times.calendar.rule == other._times.calendar.rule
            and timezone_repr(self.timezone) == timezone_repr(other.timezone)
            and (self.jitter or 0) == (other.jitter or 0)
            and _same_moment(self.start_date, other.start_date)
            and _same_moment(self.end_date, other.end_date)
        )

    def explain(self) -> str:
        """Return the schedule in plain English."""
        text = describe(self._times.calendar.rule)
        if self.start_date is not None:
            text += f", from {datetime_repr(self.start_date)}"
        if self.end_date is not None:
            text += f", until {datetime_repr(self.end_date)}"
        if self.jitter:
            text += f", up to {self.jitter:g} s later"
        if self.spread is not None:
            text += f", {self.spread.explain()}"
        return f"{text} ({zone_name(self.timezone)})"

    def __getstate__(self) -> dict[str, Any]:
        spread = {} if self.spread is None else {"spread": self.spread._asdict()}
        return spread | {
            "version": 2,
            "timezone": self.timezone,
            "start_date": self.start_date,
            "end_date": self.end_date,
            "fields": {field.name: str(field) for field in self.fields if not field.is_default},
            "either_day": self._either_day,
            "jitter": self.jitter,
        }

    def __setstate__(self, state: Any) -> None:
        # APScheduler 3.0 wrote pairs, and all of APScheduler 3 writes its field objects.
        state = state[1] if isinstance(state, tuple) else state
        if state.get("version", 1) > 2:
            raise ValueError(
                f"Got serialized data for version {state['version']} of {type(self).__name__}, but only versions up to "
                "2 can be handled"
            )
        fields = state["fields"]
        if not isinstance(fields, Mapping):
            fields = {field.name: str(field) for field in fields if not field.is_default}
        unknown = [name for name in fields if name not in self.FIELD_NAMES]
        if unknown:
            raise InvalidArgument(f"There is no field {shown(unknown[0])}", field="fields", value=unknown[0])
        self._set_up(
            tuple(fields.get(name) for name in self.FIELD_NAMES),
            stored_flag(state.get("either_day", False), "either_day"),
            astimezone(state["timezone"]) or local_timezone(),
            state["start_date"],
            state["end_date"],
            state.get("jitter"),
        )
        if state.get("spread") is not None:
            from goscheduler.triggers.cron._spread import Spread

            self.spread = Spread.from_state(state["spread"])

    def __str__(self) -> str:
        return f"cron[{', '.join(self._given())}]"

    def __repr__(self) -> str:
        options = self._given()
        if self._either_day:
            options.append("either_day=True")
        if self.start_date is not None:
            options.append(f"start_date={datetime_repr(self.start_date)!r}")
        if self.end_date is not None:
            options.append(f"end_date={datetime_repr(self.end_date)!r}")
        if self.jitter:
            options.append(f"jitter={self.jitter}")
        options.append(f"timezone={timezone_repr(self.timezone)!r}")
        return f"<{type(self).__name__} ({', '.join(options)})>"

    def _given(self) -> list[str]:
        return [f"{field.name}='{field}'" for field in self.fields if not field.is_default]


@lru_cache(maxsize=2048)
def _compile(given: tuple[int | str | None, ...], either_day: bool) -> tuple[tuple[BaseField, ...], Calendar]:
    """Return the eight fields and the calendar they make; schedules written alike share them."""
    fields = _read_fields(given)
    by_name = {field.name: field for field in fields}
    calendar = calendar_of(_rule(by_name, either_day))
    if not calendar.ever_matches():
        written = ", ".join(f"{field.name}='{field}'" for field in fields if not field.is_default)
        raise NeverFires(f"The schedule cron[{written}] never fires: no date matches it", field="day", value=written)
    return fields, calendar


def _read_fields(given: tuple[int | str | None, ...]) -> tuple[BaseField, ...]:
    last_given = max((index for index, value in enumerate(given) if value is not None), default=len(given))
    fields = []
    for index, (name, value) in enumerate(zip(CronTrigger.FIELD_NAMES, given, strict=True)):
        if value is not None:
            fields.append(read_field(name, value, False))
        else:
            fields.append(read_field(name, DEFAULT_VALUES[name] if index > last_given else "*", True))
    return tuple(fields)


def _rule(fields: Mapping[str, BaseField], either_day: bool) -> Rule:
    day, weekday = fields["day"], fields["day_of_week"]
    return Rule(
        years=None if fields["year"].is_everything else fields["year"].values,
        months=fields["month"].values,
        weeks=None if fields["week"].is_everything else fields["week"].values,
        days=day.values,
        last_day=day.has_last_day,
        day_positions=day.positions,
        weekdays=weekday.values,
        weekday_positions=weekday.positions,
        either_day=either_day,
        hours=fields["hour"].values,
        minutes=fields["minute"].values,
        seconds=fields["second"].values,
    )


def _zone_for(timezone: str | tzinfo | None, *dates: datetime | date | str | None) -> tzinfo:
    """Return the zone asked for, else that of the first date that has one, else the machine's."""
    zone = astimezone(timezone)
    for moment in dates:
        if zone is None and isinstance(moment, datetime):
            zone = astimezone(moment.tzinfo)
    return zone or local_timezone()


def _same_moment(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is other
    return to_micros(one) == to_micros(other)
