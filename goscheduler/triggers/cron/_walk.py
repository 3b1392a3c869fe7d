"""From one fire time to the next: the wall times of a calendar on the clock of a zone.

===============================  ==================================  ====================================
the clock                        a schedule at certain hours         a schedule that matches every hour
===============================  ==================================  ====================================
skips the wall time              fires once, at the first instant    does not fire: no real time passes
                                 after the gap, however many of its  in the gap
                                 times fell into it
skips a whole date               that date does not happen           that date does not happen
shows the wall time twice        fires at the first                  fires at both
===============================  ==================================  ====================================

"Matches every hour" means that the hour field covers all 24: ``*/30 * * * *`` keeps firing every 30 real minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from goscheduler.triggers.cron._calendar import Calendar
from goscheduler.triggers.cron._zone import DAY, LATEST, TICK, Span, shifted, utc, zone_of


class FireTimes:
    """The instants at which a calendar fires in a zone.

    Most steps begin and end between two clock changes, where the order of wall times is the order of instants. The last
    such stretch is remembered, and a step inside it never asks the zone.
    """

    __slots__ = ("_calm", "_every_hour", "_tz", "_zone", "calendar")

    def __init__(self, calendar: Calendar, tz: tzinfo) -> None:
        self.calendar = calendar
        self._tz = tz
        self._zone = zone_of(tz)
        self._every_hour = len(calendar.rule.hours) == 24
        self._calm = (datetime.min.replace(tzinfo=tz), datetime.min.replace(tzinfo=tz))

    def after(self, moment: datetime) -> datetime | None:
        """Return the first fire time later than ``moment``, an aware datetime, or None if there is none."""
        tz = self._tz
        if moment.tzinfo is tz:
            calm_from, calm_until = self._calm
            if calm_from <= moment < calm_until:
                following = self.calendar.after(moment, tz)
                if following is not None and following < calm_until:
                    return following
        return self.after_instant(utc(moment))

    def after_instant(self, to_micros: datetime) -> datetime | None:
        """Return the first fire time later than ``to_micros``, a naive datetime in UTC."""
        if to_micros >= LATEST:
            return None
        span = self._zone.span_at(to_micros)
        search = self._real_time if self._every_hour else self._wall_time
        return search(shifted(to_micros, span.offset), span)

    def _wall_time(self, wall: datetime, span: Span) -> datetime | None:
        """Return the first fire time after ``wall`` in ``span`` for a schedule at certain hours."""
        wall = max(wall, span.repeated_until - TICK)
        while (found := self.calendar.after(wall)) is not None:
            home = self._first_span_showing(found)
            if found >= home.wall_start:
                return self._remember(home, found)
            if not _lost_with_its_date(found, home.skipped_from, home.wall_start):
                return self._remember(home, home.wall_start)
            wall = _midnight(found) + DAY - TICK
        return None

    def _first_span_showing(self, wall: datetime) -> Span:
        """Return the span where ``wall`` is shown first, or the one after the gap that ``wall`` falls into."""
        span = self._zone.span_at(wall - DAY)
        while wall >= span.wall_end:
            span = self._zone.span_at(span.end)
        return span

    def _real_time(self, wall: datetime, span: Span) -> datetime | None:
        """Return the first fire time after ``wall`` in ``span`` for a schedule that matches every hour."""
        while True:
            found = self.calendar.after(wall)
            if found is not None and found < span.wall_end:
                return self._remember(span, found)
            if span.end == datetime.max:
                return None
            following = self._zone.span_at(span.end)
            to_micros = span.end
            if following.wall_start > wall:
                # Nothing matches before ``found``, and no offset reaches a day.
                to_micros = datetime.max if found is None else max(to_micros, found - DAY)
                following = self._zone.span_at(to_micros)
            span, wall = following, shifted(to_micros, following.offset - TICK)

    def _remember(self, span: Span, wall: datetime) -> datetime:
        self._calm = span.calm
        return span.local(wall, self._tz)

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many fire times there are later than ``after`` and not later than ``until``, naive in UTC."""
        pieces = self._pieces(shifted(after, TICK), shifted(until, TICK))
        return sum(self._count_in(span, start, end) for span, start, end in pieces)

    def _pieces(self, start: datetime, end: datetime) -> Iterator[tuple[Span, datetime, datetime]]:
        """Yield the spans from ``start`` up to ``end`` with the piece of each that lies between."""
        while start < end:
            span = self._zone.span_at(start)
            piece_end = min(end, span.end)
            yield span, start, piece_end
            start = piece_end

    def _count_in(self, span: Span, start: datetime, end: datetime) -> int:
        wall_start, wall_end = shifted(start, span.offset), shifted(end, span.offset)
        if self._every_hour:
            return self.calendar.count(wall_start, wall_end)
        caught_up = start == span.start and self._fires_after_gap(span)
        return caught_up + self.calendar.count(max(wall_start, span.repeated_until), wall_end)

    def _fires_after_gap(self, span: Span) -> bool:
        """Tell whether the start of ``span`` is a fire time only because of the gap before it."""
        gap = _without_lost_dates(span.skipped_from, span.wall_start)
        return any(self.calendar.count(*part) for part in gap) and not self.calendar.matches(span.wall_start)


def fire_times_of(calendar: Calendar, tz: tzinfo) -> FireTimes:
    """Return the fire times of a calendar in a zone, shared by all who ask for them where the zone can be a key."""
    try:
        # Fixed offsets are equal whatever their name, but users see the name.
        return _shared_fire_times(calendar, tz, repr(tz))
    except TypeError:
        return FireTimes(calendar, tz)


@lru_cache(maxsize=1024)
def _shared_fire_times(calendar: Calendar, tz: tzinfo, _name: str) -> FireTimes:
    return FireTimes(calendar, tz)


def _lost_with_its_date(wall: datetime, gap_start: datetime, gap_end: datetime) -> bool:
    return gap_start <= _midnight(wall) and _midnight(wall) + DAY <= gap_end


def _without_lost_dates(gap_start: datetime, gap_end: datetime) -> list[tuple[datetime, datetime]]:
    """Return the parts of a gap that belong to dates of which something is left."""
    first = _midnight(gap_start + DAY - TICK)
    last = _midnight(gap_end)
    return [(gap_start, first), (last, gap_end)] if first < last else [(gap_start, gap_end)]


def _midnight(wall: datetime) -> datetime:
    return wall - timedelta(hours=wall.hour, minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond)
