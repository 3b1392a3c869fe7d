"""Times of day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any

from goscheduler.calendars.base import Calendar, read_zone, zone_told
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import UTC, first_instant_at
from goscheduler.triggers._steps import step

_SPAN = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*", re.ASCII)
_DAY = timedelta(days=1)
_MIDNIGHT = 86_400
_MOST_SPANS = 50
#: It is the same every day; more days than these only pass where a zone leaves some out.
_DAYS_SEARCHED = 10

Span = tuple[int, int]


class Hours(Calendar):
    """Is open at some times of every day: ``Hours("09:00-12:00", "13:00-17:30", timezone="Europe/Berlin")``.

    It opens with the first time and closes with the second, which does not count any more. Where a clock change leaves
    a time out, that is the first moment after it; where a time happens twice, the first.
    """

    def __init__(self, *spans: str, timezone: tzinfo | str | None = None) -> None:
        self._set_up([_read(span) for span in spans], timezone)

    def _set_up(self, spans: Sequence[Sequence[int]], timezone: tzinfo | str | None) -> None:
        checked = sorted((_whole(start), _whole(end)) for start, end in spans)
        if not 1 <= len(checked) <= _MOST_SPANS:
            raise InvalidArgument(f"hours must be 1 to {_MOST_SPANS} such as '09:00-17:30'", field="hours", value=spans)
        for start, end in checked:
            if not 0 <= start < end <= _MIDNIGHT:
                raise _refused(f"{_clock(start)}-{_clock(end)}", _end_first(start, end))
        self.spans = _merged(checked)
        self.timezone = read_zone(timezone)

    def is_open(self, moment: datetime) -> bool:
        zone = self.timezone or moment.tzinfo
        assert zone is not None
        return self._state(moment.astimezone(UTC), zone)

    def first(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        own = self.timezone or zone
        if self._state(at, own) == wanted:
            return at
        for moment, opens in self._edges(at, own, 1):
            if moment > at and opens == wanted and self._state(moment, own) == wanted:
                return moment if moment <= limit else None
        return None

    def end(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        own = self.timezone or zone
        if self._state(at - timedelta.resolution, own) == wanted:
            return at
        for moment, opens in self._edges(at, own, -1):
            if moment < at and opens != wanted and self._state(moment - timedelta.resolution, own) == wanted:
                return moment if moment >= limit else None
        return None

    def _state(self, at: datetime, zone: tzinfo) -> bool:
        """Tell whether it is open by the last opening or closing up to a moment."""
        today = at.astimezone(zone).date()
        for day in (today + _DAY, today, today - _DAY):
            for moment, opens in reversed(_edges_of(self.spans, day, zone)):
                if moment <= at:
                    return opens
        return self.spans == ((0, _MIDNIGHT),)

    def _edges(self, at: datetime, zone: tzinfo, direction: int) -> Iterator[tuple[datetime, bool]]:
        day = at.astimezone(zone).date() - direction * _DAY
        for _ in range(_DAYS_SEARCHED):
            step()
            yield from _edges_of(self.spans, day, zone)[::direction]
            day += direction * _DAY

    def told(self, moment: datetime) -> str:
        at = moment if self.timezone is None else moment.astimezone(self.timezone)
        return f"{at:%H:%M} is {'within' if self.is_open(moment) else 'outside'} {self._told_spans()}"

    def explain(self) -> str:
        return self._told_spans() + zone_told(self.timezone)

    def _told_spans(self) -> str:
        return ", ".join(f"{_clock(start)}-{_clock(end)}" for start, end in self.spans)

    def __getstate__(self) -> dict[str, Any]:
        return {"spans": [list(span) for span in self.spans], "timezone": self.timezone}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_up(**state)


@lru_cache(maxsize=4096)
def _edges_of(spans: tuple[Span, ...], day: date, zone: tzinfo) -> tuple[tuple[datetime, bool], ...]:
    """Return the moments of a day at which it opens and closes, in UTC."""
    midnight = datetime.combine(day, time())
    edges = [(second, opens) for span in spans for second, opens in zip(span, (True, False), strict=True)]
    return tuple(
        (first_instant_at(midnight + timedelta(seconds=second), zone).astimezone(UTC), opens) for second, opens in edges
    )


def _read(span: object) -> Span:
    match = _SPAN.fullmatch(span) if isinstance(span, str) else None
    if match is None:
        raise _refused(span, "expected two times of day such as '09:00-17:30'")
    hours = [int(match[1]), int(match[3])]
    minutes = [int(match[2]), int(match[4])]
    start, end = (hour * 3600 + minute * 60 for hour, minute in zip(hours, minutes, strict=True))
    if max(minutes) > 59 or max(start, end) > _MIDNIGHT:
        raise _refused(span, "a time of day is from 00:00 to 24:00")
    if end <= start:
        raise _refused(span, _end_first(start, end))
    return start, end


def _end_first(start: int, end: int) -> str:
    if end == 0:
        return f"write {_clock(start)}-24:00"
    hint = f"; over midnight, write {_clock(start)}-24:00 and 00:00-{_clock(end)}" if end < start else ""
    return f"they end before they begin{hint}"


def _refused(span: object, reason: str) -> InvalidArgument:
    return InvalidArgument(f"hours {shown(span)}: {reason}", field="hours", value=span)


def _whole(second: object) -> int:
    if isinstance(second, bool) or not isinstance(second, int):
        raise InvalidArgument(f"hours must be seconds of the day, got {shown(second)}", field="hours", value=second)
    return second


def _merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _clock(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}"
