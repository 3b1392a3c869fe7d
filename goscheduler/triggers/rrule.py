"""Recurrence rules of calendars: :class:`RRuleTrigger`, as RFC 5545 has them.

A rule is walked on the clock on the wall, without any zone, and its times are then put into the zone under the rule for
clock changes that all triggers have: a time that is left out is the first moment after the change, one that happens
twice is the first. ``python-dateutil`` does the walk, from the period before the one that is asked about: where times
are counted (``COUNT``), from the start of the rule.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, NeverFires, shown
from goscheduler.times import astimezone, first_instant_at, local_timezone, timezone_repr, to_micros, zone_name
from goscheduler.triggers._rrule_parts import on_the_wall, read_event, read_rule, refused, wall_of
from goscheduler.triggers._rrule_walk import walls_of
from goscheduler.triggers._rrule_words import told
from goscheduler.triggers._steps import bounded, step
from goscheduler.triggers.base import BaseTrigger, current_state, stored_flag

MOST_DATES = 1000

_DAY = timedelta(days=1)


class RRuleTrigger(BaseTrigger):
    """Fires as a recurrence rule says: ``RRuleTrigger("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0")``.

    ``rule`` may also be the lines of an event: ``DTSTART``, ``RRULE``, ``RDATE`` and ``EXDATE``. ``dtstart`` is where
    the rule begins, and what it repeats: its time of day and, if the rule names none, its day. Without one that is
    midnight of the day on which the job is added. ``rdates`` are further times, ``exdates`` times that are left out.
    What has no zone is in ``timezone``.

    The start itself counts only if the rule has it. At most 10,000 times can be counted. A rule by minutes or seconds
    that names nothing else is refused: an interval does that.
    """

    __slots__ = ("_parts", "dtstart", "exdates", "floating", "rdates", "rule", "timezone")

    def __init__(
        self,
        rule: str,
        dtstart: datetime | date | str | None = None,
        timezone: tzinfo | str | None = None,
        *,
        rdates: Iterable[datetime | date | str] = (),
        exdates: Iterable[datetime | date | str] = (),
    ) -> None:
        event = read_event(rule, astimezone(timezone) or astimezone(getattr(dtstart, "tzinfo", None)))
        self.timezone = event.zone or astimezone(timezone) or astimezone(getattr(dtstart, "tzinfo", None)) or (
            local_timezone()
        )
        start = event.start if dtstart is None else wall_of(dtstart, self.timezone, "dtstart")
        self.floating = start is None
        self._set_up(
            event.rule, start or self._today(SYSTEM_CLOCK.now()),
            (*event.rdates, *_walls(rdates, self.timezone, "rdates")),
            (*event.exdates, *_walls(exdates, self.timezone, "exdates")),
        )  # fmt: skip

    def _set_up(self, rule: str, start: datetime, rdates: Iterable[datetime], exdates: Iterable[datetime]) -> None:
        self.rule, self.dtstart = rule, start
        self.rdates, self.exdates = tuple(sorted(set(rdates))), tuple(sorted(set(exdates)))
        for field, dates in (("rdates", self.rdates), ("exdates", self.exdates)):
            if len(dates) > MOST_DATES:
                raise refused(field, len(dates), f"at most {MOST_DATES} dates")
        self._parts = read_rule(rule, self.timezone)
        with bounded():
            if next(self._walls_from(start), None) is None:
                raise NeverFires(f"rule {shown(rule)} has no time from {start} on", field="rule", value=rule)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        after = to_micros(now) - 1 if previous_fire_time is None else to_micros(previous_fire_time)
        begin = on_the_wall(now if previous_fire_time is None else previous_fire_time, self.timezone)
        with bounded():
            # A clock change can push a time into the day after its own.
            for wall in self._walls_from(begin - min(_DAY, begin - datetime.min)):
                step()
                fire_time = self._on(wall)
                if fire_time is not None and to_micros(fire_time) > after:
                    return fire_time
        return None

    def _on(self, wall: datetime) -> datetime | None:
        """Return the moment for a time on the wall, None if the zone left its date out."""
        fire_time = first_instant_at(wall, self.timezone)
        midnight = wall.replace(hour=0, minute=0, second=0)
        if fire_time.date() == wall.date() or first_instant_at(midnight, self.timezone).date() == wall.date():
            return fire_time
        return None

    def _walls_from(self, earliest: datetime) -> Iterator[datetime]:
        """Yield the times on the wall from ``earliest`` on, in their order."""
        further = list(self.rdates[bisect.bisect_left(self.rdates, earliest) :])
        for wall in self._of_rule(earliest):
            while further and further[0] <= wall:
                yield from self._unless_left_out(further.pop(0))
            yield from self._unless_left_out(wall)
        for wall in further:
            yield from self._unless_left_out(wall)

    def _unless_left_out(self, wall: datetime) -> Iterator[datetime]:
        if wall not in self.exdates:
            yield wall

    def _of_rule(self, earliest: datetime) -> Iterator[datetime]:
        """Yield the times of the rule alone."""
        parts, counted = self._parts, 0
        for wall in walls_of(parts, self.dtstart, earliest):
            step()
            counted += wall >= self.dtstart
            if parts.count is not None and counted > parts.count:
                return
            if wall >= earliest and wall >= self.dtstart:
                yield wall

    def anchored(self, now: datetime) -> RRuleTrigger:
        if not self.floating:
            return self
        twin = object.__new__(type(self))
        twin.timezone, twin.floating = self.timezone, True
        twin._set_up(self.rule, self._today(now), self.rdates, self.exdates)
        return twin

    def _today(self, now: datetime) -> datetime:
        return on_the_wall(now, self.timezone).replace(hour=0, minute=0, second=0, microsecond=0)

    def explain(self) -> str:
        text = f"{told(self._parts, self.dtstart)} from {self.dtstart:%Y-%m-%d}"
        if self.rdates:
            text += f", with {len(self.rdates)} more"
        if self.exdates:
            text += f", without {len(self.exdates)}"
        return f"{text} ({zone_name(self.timezone)})"

    def _rule(self) -> object:
        start = None if self.floating else self.dtstart
        return self.rule, start, self.rdates, self.exdates, timezone_repr(self.timezone)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "version": 1, "rule": self.rule, "dtstart": self.dtstart, "timezone": self.timezone,
            "rdates": list(self.rdates), "exdates": list(self.exdates), "floating": self.floating,
        }  # fmt: skip

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        self.timezone = astimezone(state["timezone"]) or local_timezone()
        self.floating = stored_flag(state["floating"], "floating")
        (start,) = _stored([state["dtstart"]], "dtstart")
        rdates, exdates = (_stored(state[field], field) for field in ("rdates", "exdates"))
        self._set_up(state["rule"], start, rdates, exdates)

    def __str__(self) -> str:
        more = [f"{len(dates)} {name}" for name, dates in (("rdates", self.rdates), ("exdates", self.exdates)) if dates]
        return f"rrule[{', '.join([self.rule, f'from {self.dtstart}', *more])}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({str(self)[6:-1]}, timezone={timezone_repr(self.timezone)!r})>"


def _walls(given: object, zone: tzinfo, field: str) -> list[datetime]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise refused(field, given, "a list of dates and times")
    return [wall_of(value, zone, field) for value in given]


def _stored(values: object, field: str) -> list[datetime]:
    if not isinstance(values, list) or not all(isinstance(each, datetime) and each.tzinfo is None for each in values):
        raise InvalidArgument(f"{field} must be times without a zone, got {shown(values)}", field=field, value=values)
    return values
