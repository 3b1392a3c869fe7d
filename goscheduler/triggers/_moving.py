"""Fire times that are moved out of closed time.

Closed time comes in stretches. All nominal times of one stretch make one run, in place of the first of them: "later" on
the day on which the calendar opens, at the same time of day if it is open then, or else when it opens; "earlier" in the
same way on the day on which it was open last, or else in its last second. So the fire times are a fixed set, whatever
has fired before: nominal times while it is open, and one for each stretch that has any.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo

from goscheduler.calendars.base import Calendar
from goscheduler.times import first_instant_at, from_micros, to_micros
from goscheduler.triggers._steps import step

_TICK = timedelta.resolution

#: Gives the first nominal time at or after an instant.
First = Callable[[int], "datetime | None"]


def next_moved(calendar: Calendar, first: First, after: int, zone: tzinfo, later: bool) -> datetime | None:
    """Return the first fire time after an instant."""
    at = from_micros(after, zone)
    return _next_later(calendar, first, at) if later else _next_earlier(calendar, first, at)


def time_for(calendar: Calendar, nominal: datetime, later: bool) -> datetime | None:
    """Return when the run takes place of a nominal time, the first in a stretch of closed time; None for never."""
    edge = calendar.next_open(nominal) if later else calendar.closed_since(nominal)
    if edge is None:
        return None
    day = (edge if later else _before(edge)).date()
    wished = first_instant_at(datetime.combine(day, nominal.time()), _zone(nominal))
    in_time = to_micros(wished) >= to_micros(edge) if later else to_micros(wished) < to_micros(edge)
    if in_time and calendar.is_open(wished):
        return wished
    return edge if later else calendar.last_open(_before(edge, timedelta(seconds=1)))


def _next_later(calendar: Calendar, first: First, at: datetime) -> datetime | None:
    after, best = to_micros(at), None
    nominal = first(to_micros(_stretch_before_today(calendar, at)))
    while nominal is not None and (best is None or to_micros(best) > to_micros(nominal)):
        step()
        if not calendar.is_open(nominal):
            best = _earlier_of(best, time_for(calendar, nominal, True), after)
            opens = calendar.next_open(nominal)
            nominal = None if opens is None else first(to_micros(opens))
        elif to_micros(nominal) > after:
            return nominal
        else:
            closes = calendar.next_closed(nominal)
            begin = after + 1 if closes is None else min(after + 1, to_micros(closes))
            nominal = first(begin)
    return best


def _stretch_before_today(calendar: Calendar, at: datetime) -> datetime:
    """Return where the closed time began, if any, whose run may take place on the day of ``at``."""
    midnight = first_instant_at(datetime.combine(at.date(), time()), _zone(at))
    before = _before(midnight)
    return midnight if calendar.is_open(before) else calendar.closed_since(before) or midnight


def _next_earlier(calendar: Calendar, first: First, at: datetime) -> datetime | None:
    after, begin = to_micros(at), to_micros(at) + 1
    while True:
        step()
        nominal = first(begin)
        if nominal is None or calendar.is_open(nominal):
            break
        moved = time_for(calendar, nominal, False)
        if moved is not None and to_micros(moved) > after:
            nominal = moved
            break
        opens = calendar.next_open(nominal)
        if opens is None:
            return None
        begin = to_micros(opens)
    return None if nominal is None else _earliest_of_its_day(calendar, first, nominal, after)


def _earliest_of_its_day(calendar: Calendar, first: First, found: datetime, after: int) -> datetime:
    """Return ``found``, or a time earlier that day for closed time to come, after which it is."""
    best, day, closes = found, found.date(), calendar.next_closed(found)
    while closes is not None:
        step()
        nominal = first(to_micros(closes))
        if nominal is None or _open_day_of(calendar, nominal) > day:
            return best
        if calendar.is_open(nominal):
            closes = calendar.next_closed(nominal)
            continue
        best = _earlier_of(best, time_for(calendar, nominal, False), after) or best
        opens = calendar.next_open(nominal)
        closes = None if opens is None else calendar.next_closed(opens)
    return best


def _open_day_of(calendar: Calendar, nominal: datetime) -> date:
    """Return the day of a time while it is open, else the day on which it was open last."""
    since = None if calendar.is_open(nominal) else calendar.closed_since(nominal)
    return nominal.date() if since is None else _before(since).date()


def _earlier_of(best: datetime | None, found: datetime | None, after: int) -> datetime | None:
    if found is None or to_micros(found) <= after:
        return best
    return found if best is None or to_micros(found) < to_micros(best) else best


def _before(moment: datetime, distance: timedelta = _TICK) -> datetime:
    return from_micros(to_micros(moment) - distance // _TICK, _zone(moment))


def _zone(moment: datetime) -> tzinfo:
    assert moment.tzinfo is not None
    return moment.tzinfo
