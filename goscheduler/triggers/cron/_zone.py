"""Time zones as spans of constant offset.

``tzinfo`` answers for one moment at a time, and slowly. A zone is therefore probed once per year, every few days, and
kept as the spans between its clock changes. Any ``tzinfo`` will do; only its conversion from UTC is asked.

Instants are naive datetimes in UTC here, wall times naive datetimes as the local clock shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache

DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
ZERO = timedelta(0)

EARLIEST = datetime(1969, 1, 1)
"""No fire time is asked for before this instant."""
LATEST = datetime.max - timedelta(seconds=1)
"""From this instant on there are no fire times."""

_MARGIN = 2 * DAY
"""How far the spans of a year reach into its neighbours: no clock change repeats more than a day."""
_PROBE = 4 * DAY
"""How far apart the zone is asked; the shortest time that any has kept an offset since 1970 is a week."""
_SECOND = timedelta(seconds=1)
_MEMOISED_YEARS = 64


class Span:
    """The time between two clock changes, or a part of it at the edge of a year."""

    __slots__ = ("calm", "end", "offset", "repeated_until", "skipped_from", "start", "wall_end", "wall_start")

    def __init__(
        self, start: datetime, end: datetime, offset: timedelta, before: timedelta, after: timedelta, tz: tzinfo
    ) -> None:
        self.start = start
        self.end = end
        self.offset = offset
        self.wall_start = shifted(start, offset)
        # The last span has no end: what its clock shows up to the end of the calendar belongs to it.
        self.wall_end = end if end == datetime.max else shifted(end, offset)
        self.skipped_from = shifted(start, min(before, offset))
        """The wall times from here to ``wall_start`` were left out by the clock change that began the span."""
        self.repeated_until = shifted(start, max(before, offset))
        """The wall times from ``wall_start`` to here were shown in the span before already."""
        calm_end = min(self.wall_end, end if end == datetime.max else shifted(end, after))
        self.calm = (self.repeated_until.replace(tzinfo=tz), calm_end.replace(tzinfo=tz))
        """Wall times from the first up to the second happen once, in order, with no clock change between."""

    def local(self, wall: datetime, tz: tzinfo) -> datetime:
        """Return a wall time of this span as an aware datetime."""
        return wall.replace(tzinfo=tz, fold=1 if wall < self.repeated_until else 0)


class Zone:
    """The spans of one time zone."""

    __slots__ = ("_years", "tz")

    def __init__(self, tz: tzinfo) -> None:
        self.tz = tz
        self._years: dict[int, tuple[Span, ...]] = {}

    def span_at(self, to_micros: datetime) -> Span:
        """Return the span that an instant of 1969 or later lies in."""
        spans = self._years.get(to_micros.year)
        if spans is None:
            spans = self._read_year(to_micros.year)
        for span in spans:
            if to_micros < span.end:
                return span
        return spans[-1]

    def _read_year(self, year: int) -> tuple[Span, ...]:
        # Threads may both compute it; they find the same.
        if len(self._years) >= _MEMOISED_YEARS:
            self._years.clear()
        spans = self._years[year] = tuple(self._spans_of(year))
        return spans

    def _spans_of(self, year: int) -> Iterator[Span]:
        if isinstance(self.tz, timezone):
            offset = self.tz.utcoffset(None)
            yield Span(EARLIEST, datetime.max, offset, offset, offset, self.tz)
            return
        start = datetime(year, 1, 1) - _MARGIN
        end = datetime.max if year == datetime.max.year else datetime(year + 1, 1, 1) + _MARGIN
        offset = before = self._offset_at(start)
        for change in self._changes(start, end):
            after = self._offset_at(change)
            yield Span(start, change, offset, before, after, self.tz)
            start, before, offset = change, offset, after
        yield Span(start, end, offset, before, offset, self.tz)

    def _changes(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the instants at which the offset changes."""
        offset = self._offset_at(start)
        while end - start > DAY:
            probe = start + min(_PROBE, (end - start) // DAY * DAY)
            following = self._offset_at(probe)
            if following != offset:
                yield self._change_between(start, probe)
            start, offset = probe, following

    def _change_between(self, early: datetime, late: datetime) -> datetime:
        offset = self._offset_at(early)
        while late - early > _SECOND:
            middle = early + (late - early) // (2 * _SECOND) * _SECOND
            if self._offset_at(middle) == offset:
                early = middle
            else:
                late = middle
        return late

    def _offset_at(self, to_micros: datetime) -> timedelta:
        local = to_micros.replace(tzinfo=timezone.utc).astimezone(self.tz)
        return local.replace(tzinfo=None) - to_micros


def zone_of(tz: tzinfo) -> Zone:
    """Return the spans of ``tz``, shared by all who ask for it where it can be a key."""
    try:
        return _shared_zone(tz, repr(tz))
    except TypeError:
        return Zone(tz)


@lru_cache(maxsize=1024)
def _shared_zone(tz: tzinfo, _name: str) -> Zone:
    return Zone(tz)


def utc(moment: datetime) -> datetime:
    """Return an aware datetime as an instant, held inside the range that can be asked for."""
    offset = moment.utcoffset()
    if offset is None:
        raise TypeError(f"expected an aware datetime, got {moment!r} without a timezone")
    return max(EARLIEST, shifted(moment.replace(tzinfo=None, fold=0), -offset))


def shifted(moment: datetime, distance: timedelta) -> datetime:
    """Return ``moment + distance``, held inside the years that a datetime can express."""
    try:
        return moment + distance
    except OverflowError:
        return datetime.max if distance > ZERO else datetime.min
