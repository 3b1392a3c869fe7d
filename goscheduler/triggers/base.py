"""The trigger port: a pure rule that says when.

A trigger knows no clock and does no I/O. Asked twice with the same arguments it gives the same answer, except for
jitter, which is drawn once per fire time and then kept as the job's ``next_run_time``.

Only :meth:`BaseTrigger.get_next_fire_time` must be written; a trigger made for APScheduler 3 works as it is. The other
methods have defaults that ask it, bounded, and the built-in triggers answer them by arithmetic.

Jitter never accumulates, skips or reorders: a built-in trigger finds the *nominal* fire time after the previous one and
delays it, always to before the next nominal one. The nominal time can so be found again from the delayed one.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import SECOND, datetime_utc_add, from_micros, parse_number, to_micros
from goscheduler.triggers._steps import TooManySteps, bounded, half_spent, step

#: How many fire times the default :meth:`BaseTrigger.backlog` looks at before it settles for a lower bound.
BACKLOG_STEPS = 10_000
#: A year in seconds.
MAX_JITTER = 366 * 86_400


class Backlog(NamedTuple):
    """The fire times of a trigger that have come due and were not run yet."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    """How many there are; a lower bound where ``exact`` is false."""
    latest: tuple[datetime, ...]
    """The newest of them, ascending; as many as were asked for."""
    exact: bool = True
    """False when counting was given up because there are too many."""


class BaseTrigger(ABC):
    """A rule that yields fire times."""

    __slots__ = ()

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """The names of the calendars that it refers to by name."""
        return ()

    @property
    def upstream(self) -> tuple[str, ...]:
        """The ids of the jobs whose ends it waits for, instead of a time."""
        return ()

    @abstractmethod
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the fire time that follows ``previous_fire_time``, or None when there is none left.

        ``previous_fire_time`` is None when the job is added, resumed or rescheduled: the answer is then the first
        fire time not before ``now``. Both arguments and the result are aware datetimes.
        """

    def backlog(self, first: datetime, now: datetime, keep: int = 1) -> Backlog:
        """Return what has gathered from ``first``, a fire time of this trigger, up to and including ``now``.

        ``first`` is due and always counts. ``keep`` says how many of the newest are wanted.
        """
        latest = deque([first], maxlen=max(keep, 0))
        count = 1
        with bounded():
            for fire_time in self._due(first, now):
                count += 1
                latest.append(fire_time)
                if count >= BACKLOG_STEPS or half_spent():
                    return Backlog(count, self._newest(now, keep) or tuple(latest), exact=False)
        return Backlog(count, tuple(latest))

    def anchored(self, now: datetime) -> BaseTrigger:
        """Return this trigger with "now" filled in where the user left the start open.

        A scheduler calls it once, when a job is added or rescheduled, so that "in five minutes" counts from the
        scheduler's clock. Triggers that do not depend on their moment of creation return themselves.
        """
        return self

    def for_job(self, job_id: str) -> BaseTrigger:
        """Return this trigger as the job by this id has it. Every job asks for it that gets a trigger."""
        return self

    def starting_at(self, first: datetime) -> BaseTrigger:
        """Return this trigger with its first fire time at ``first``, where the user left the start open.

        A scheduler calls it when the next run time of a job is set by hand: "every hour" goes on from there.
        """
        return self

    def closed(self, moment: datetime) -> str:
        """Return why nothing is to run at a moment although it fires then, nothing if it may: "Christmas Day"."""
        return ""

    def same_schedule_as(self, other: BaseTrigger) -> bool:
        """Tell whether ``other`` describes the same rule; a start that the user left open does not count."""
        return type(self) is type(other) and self._rule() == other._rule()

    def explain(self) -> str:
        """Return the rule in plain English."""
        return str(self)

    def preview(self, n: int = 10, after: datetime | None = None) -> list[datetime]:
        """Return the next ``n`` fire times from ``after`` (default: now) on, without jitter; fewer if it ends."""
        now = after if after is not None else SYSTEM_CLOCK.now()
        with bounded():
            first = self._nominal_fire_time(None, now)
        if first is None or n < 1:
            return []
        times = [first]
        for fire_time in self._walk(first, now):
            if len(times) >= n:
                break
            times.append(fire_time)
        return times

    def between(self, start: datetime, end: datetime, limit: int) -> list[datetime]:
        """Return the fire times from ``start`` on and before ``end``, without jitter; at most ``limit``."""
        with bounded():
            first = self._nominal_fire_time(None, start)
        if first is None or limit < 1 or first >= end:
            return []
        times = [first]
        for fire_time in self._walk(first, start):
            if fire_time >= end or len(times) >= limit:
                break
            times.append(fire_time)
        return times

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        """Return what :meth:`get_next_fire_time` would without jitter.

        A combining trigger asks it, so ``previous`` may be a time at which only a sibling fired; the answer is the
        first fire time of this trigger after it.
        """
        return self.get_next_fire_time(previous, now)

    def _first_from(self, moment: datetime) -> datetime | None:
        """Return the first fire time, without jitter, that is not before ``moment``; a date in the past is none."""
        first = self._nominal_fire_time(None, moment)
        return None if first is None or to_micros(first) < to_micros(moment) else first

    def _rule(self) -> object:
        """Return what two triggers of the same class must have in common to be the same schedule."""
        if type(self).__repr__ is object.__repr__:
            return self.__reduce_ex__(2)[1:3]
        return repr(self)

    def _walk(self, previous: datetime, now: datetime) -> Iterator[datetime]:
        """Yield the fire times after ``previous``; stops where the trigger ends or does not move forward."""
        while True:
            with bounded():
                step()
                following = self._nominal_fire_time(previous, max(now, previous, key=to_micros))
            if following is None or to_micros(following) <= to_micros(previous):
                return
            yield following
            previous = following

    def _due(self, previous: datetime, now: datetime) -> Iterator[datetime]:
        for fire_time in self._walk(previous, now):
            if to_micros(fire_time) > to_micros(now):
                return
            yield fire_time

    def _newest(self, now: datetime, keep: int) -> tuple[datetime, ...]:
        """Return the ``keep`` newest fire times up to ``now`` by looking back ever further; () if none is seen."""
        try:
            return self._looked_back(now, keep)
        except TooManySteps:
            return ()

    def _looked_back(self, now: datetime, keep: int) -> tuple[datetime, ...]:
        reach = timedelta(seconds=1)
        while keep > 0 and reach < timedelta(days=1000):
            first = self._first_from(datetime_utc_add(now, -reach))
            if first is None:
                return ()
            if to_micros(first) <= to_micros(now):
                newest = deque([first], maxlen=keep)
                newest.extend(islice(self._due(first, now), BACKLOG_STEPS))
                if len(newest) == keep:
                    return tuple(newest)
            reach *= 2
        return ()

    def _apply_jitter(self, next_fire_time: datetime | None, jitter: float | None, now: datetime) -> datetime | None:
        """Return ``next_fire_time`` delayed by up to ``jitter`` seconds. For triggers written for APScheduler 3."""
        if next_fire_time is None or not jitter:
            return next_fire_time
        return postpone(next_fire_time, jitter)


def postpone(
    fire_time: datetime, jitter: float, *, before: datetime | None = None, until: datetime | None = None
) -> datetime:
    """Return ``fire_time`` delayed at random by up to ``jitter`` seconds, before ``before`` and not past ``until``."""
    start = to_micros(fire_time)
    room = round(jitter * SECOND)
    if before is not None:
        room = min(room, to_micros(before) - start - 1)
    if until is not None:
        room = min(room, to_micros(until) - start)
    if room <= 0 or fire_time.tzinfo is None:
        return fire_time
    return from_micros(start + random.randint(0, room), fire_time.tzinfo)


def parse_jitter(value: float | str | None) -> float | None:
    """Return the longest delay in seconds, None for none."""
    if value is None:
        return None
    jitter = parse_number(value, "jitter")
    if not 0 <= jitter <= MAX_JITTER:
        raise InvalidArgument(
            f"jitter must be a number of seconds from 0 to {MAX_JITTER}, got {shown(value)}",
            field="jitter",
            value=value,
        )
    return jitter


def stored_moment(value: Any, field: str) -> datetime:
    """Return a moment of stored trigger state; refuses what no trigger would have written."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidArgument(f"{field} must be a datetime with a zone, got {shown(value)}", field=field, value=value)
    return value


def stored_flag(value: Any, field: str) -> bool:
    """Return a flag of stored trigger state; refuses what no trigger would have written."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{field} must be true or false, got {shown(value)}", field=field, value=value)
    return value


def current_state(cls: type, state: Any, version: int) -> Mapping[str, Any]:
    """Return pickled trigger state, unwrapped; refuses what a newer release wrote."""
    unwrapped: Mapping[str, Any] = state[1] if isinstance(state, tuple) else state
    found = unwrapped.get("version", 1)
    if found > version:
        raise InvalidArgument(
            f"Got serialized data for version {found} of {cls.__name__}, "
            f"but only versions up to {version} can be handled",
            field="version",
            value=found,
        )
    return unwrapped
