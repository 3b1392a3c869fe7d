"""A trigger without a clock: its job fires when other jobs have ended.

For each of these jobs it keeps a cursor: which of their ends it has followed. Whether there is news is found out by
comparing that with the ends that the history has, so that nothing is lost if a process dies between an end and what
follows it, and nothing is followed twice if two processes compare at once.

Ends are told apart by run and fence, not by time alone: the clocks of two machines differ, and two ends may share a
moment. The cursor knows the ends of the last :data:`SLACK`, at most :data:`KEPT`, and all before counts as followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import UTC, from_micros, parse_duration, to_micros
from goscheduler.triggers.base import Backlog, BaseTrigger, current_state

ON = ("success", "failure", "end")
MOST_UPSTREAM = 100
MAX_DELAY = timedelta(days=366)
#: By how much the clocks of two processes may differ, in microseconds.
SLACK = 60_000_000
#: So many followed ends are remembered one by one.
KEPT = 100

_WORDS = {"success": "succeeded", "failure": "failed", "end": "ended"}


class End(NamedTuple):
    """How a run of an upstream job ended, once and for all."""

    run_id: str
    fence: int
    scheduled_at: datetime
    finished_at: datetime

    @property
    def name(self) -> str:
        """Tells this end from all others."""
        return f"{self.run_id}:{self.fence}"


class Cursor(NamedTuple):
    """What has been followed of one upstream job."""

    floor: int = 0
    """All that ended before this moment, in microseconds, counts as followed."""
    followed: frozenset[str] = frozenset()
    """The names of ends since then that were followed."""
    last: End | None = None
    """The newest end that was followed."""

    def news(self, ends: Iterable[End]) -> list[End]:
        """Return the ends that were not followed."""
        return [end for end in ends if to_micros(end.finished_at) >= self.floor and end.name not in self.followed]

    def behind(self, ends: Sequence[End]) -> Cursor:
        """Return the cursor with which all of these ends are followed; those that it knows are among them."""
        if not ends:
            return self
        newest_first = sorted(ends, key=lambda end: (end.finished_at, end.fence), reverse=True)
        newest = newest_first[0]
        floor = max(self.floor, to_micros(newest.finished_at) - SLACK)
        if len(newest_first) > KEPT:
            floor = max(floor, to_micros(newest_first[KEPT - 1].finished_at) + 1)
        kept = frozenset(end.name for end in newest_first[:KEPT] if to_micros(end.finished_at) >= floor)
        return Cursor(floor, kept, newest)


class AfterTrigger(BaseTrigger):
    """Fires ``delay`` after each of the jobs ``after``, ids in the same job store, has ended since it last fired.

    ``on`` says which ends count: "success"; "failure", of the last attempt; or "end", which is either. A run that is
    missed, skipped, cancelled or put back has not ended.
    """

    __slots__ = ("after", "cursors", "delay", "on")

    def __init__(
        self, after: str | Iterable[str], on: str = "success", delay: timedelta | float | str | None = None
    ) -> None:
        self.after = _checked_ids(after)
        self.on = _checked_on(on)
        self.delay = _checked_delay(delay)
        self.cursors: Mapping[str, Cursor] = {}

    @property
    def upstream(self) -> tuple[str, ...]:
        return self.after

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return None

    def backlog(self, first: datetime, now: datetime, keep: int = 1) -> Backlog:
        return Backlog(1, (first,) if keep > 0 else ())

    @property
    def placed(self) -> bool:
        """Whether it has a cursor for each upstream job."""
        return all(upstream in self.cursors for upstream in self.after)

    def floor(self, upstream: str) -> int:
        """Return the moment, in microseconds, before which no end of a job is news."""
        return self.cursors.get(upstream, Cursor()).floor

    def missing(self, ends: Mapping[str, Sequence[End]]) -> list[str]:
        """Return the upstream jobs without news; once there are none, the job is to fire."""
        return [
            upstream for upstream in self.after
            if not self.cursors.get(upstream, Cursor()).news(ends.get(upstream, ()))
        ]  # fmt: skip

    def behind(self, ends: Mapping[str, Sequence[End]]) -> AfterTrigger:
        """Return the trigger with which these ends are followed."""
        cursors = {
            upstream: self.cursors.get(upstream, Cursor()).behind(ends.get(upstream, ())) for upstream in self.after
        }
        return self._with_cursors(cursors)

    def begun(self, ends: Mapping[str, Sequence[End]], now: int) -> AfterTrigger:
        """Return the trigger as it begins ``now``, in microseconds: these recent ends, and all before, are followed."""
        begun = self.behind(ends)
        floors = {one: cursor._replace(floor=max(cursor.floor, now - SLACK)) for one, cursor in begun.cursors.items()}
        return self._with_cursors(floors)

    def from_now(self, now: datetime) -> AfterTrigger:
        """Return the trigger for which everything until ``now`` is followed."""
        floor = to_micros(now) + 1
        known = ((upstream, self.cursors.get(upstream, Cursor())) for upstream in self.after)
        return self._with_cursors({one: cursor._replace(floor=max(cursor.floor, floor)) for one, cursor in known})

    def _with_cursors(self, cursors: Mapping[str, Cursor]) -> AfterTrigger:
        copy = object.__new__(type(self))
        copy.after, copy.on, copy.delay, copy.cursors = self.after, self.on, self.delay, cursors
        return copy

    def _rule(self) -> object:
        return frozenset(self.after), self.on, self.delay

    def explain(self) -> str:
        names = [f'"{upstream}"' for upstream in self.after]
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        have = "has" if len(names) == 1 else "have all"
        delayed = f"{self.delay} after " if self.delay else "when "
        return f"{delayed}{listed} {have} {_WORDS[self.on]}"

    def __getstate__(self) -> dict[str, Any]:
        cursors = {upstream: _cursor_state(cursor) for upstream, cursor in self.cursors.items()}
        seconds = self.delay.total_seconds()
        return {"version": 1, "after": list(self.after), "on": self.on, "delay": seconds, "cursors": cursors}

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        self.after, self.on = _checked_ids(state["after"]), _checked_on(state["on"])
        self.delay = _checked_delay(state["delay"])
        self.cursors = {str(upstream): _cursor(told) for upstream, told in dict(state["cursors"]).items()}

    def __str__(self) -> str:
        how = "" if self.on == "success" else f", on={self.on}"
        delayed = f", delay={self.delay}" if self.delay else ""
        return f"after[{', '.join(self.after)}{how}{delayed}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (after={list(self.after)!r}, on={self.on!r}, delay={str(self.delay)!r})>"


def after_words(on: str) -> str:
    """Return what a job did that ended so: "succeeded", "failed" or "ended"."""
    return _WORDS[on]


def _checked_ids(value: Any) -> tuple[str, ...]:
    ids = [value] if isinstance(value, str) else value
    if not isinstance(ids, (list, tuple, set, frozenset)) or not all(isinstance(one, str) and one for one in ids):
        raise _refused("after", "the id of a job, or several", value)
    listed = tuple(sorted(ids) if isinstance(ids, (set, frozenset)) else dict.fromkeys(ids))
    if not 1 <= len(listed) <= MOST_UPSTREAM:
        raise _refused("after", f"1 to {MOST_UPSTREAM} ids of jobs", value)
    return listed


def _checked_on(value: Any) -> str:
    if value not in ON:
        raise _refused("on", f"one of {', '.join(ON)}", value)
    return str(value)


def _checked_delay(value: Any) -> timedelta:
    try:
        delay = timedelta(0) if value is None else parse_duration(value)
    except (InvalidArgument, TypeError):
        raise _refused("delay", "a length of time such as '5m'", value) from None
    if delay > MAX_DELAY:
        raise _refused("delay", f"at most {MAX_DELAY.days} days", value)
    return delay


def _refused(field: str, expected: str, value: object) -> InvalidArgument:
    return InvalidArgument(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)


def _cursor_state(cursor: Cursor) -> list[Any]:
    last = cursor.last
    told = None
    if last is not None:
        told = [last.run_id, last.fence, to_micros(last.scheduled_at), to_micros(last.finished_at)]
    return [cursor.floor, sorted(cursor.followed), told]


def _cursor(state: Any) -> Cursor:
    floor, followed, told = state
    last = None
    if told is not None:
        run_id, fence, scheduled, finished = told
        last = End(str(run_id), int(fence), from_micros(int(scheduled), UTC), from_micros(int(finished), UTC))
    return Cursor(int(floor), frozenset(map(str, followed)), last)
