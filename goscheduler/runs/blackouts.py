"""Blackouts: times in which jobs are held back or left out, and what is planned for a job that is due in one; pure.

==========  =========================================================================================================
action      what becomes of fire times from ``start`` on and before ``end``
==========  =========================================================================================================
``hold``    the job is put off to the end and fires once then; the history says so. One that does not coalesce gets a
            pending run for each of its times, which waits for the end.
``skip``    recorded as skipped, with the reason; also by a process that comes back after the end
==========  =========================================================================================================

What is late when a blackout begins counts as due in it. Retries, and runs that somebody asks for, are not held back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, Source
from goscheduler.runs.plan import CATCH_UP, FiringPlan, InBlackout, gathered
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import ConcurrencyState, LeftOut
    from goscheduler.runs.records import Record

#: The kind of the notes.
BLACKOUT = "blackout"
HOLD, SKIP = "hold", "skip"
ACTIONS = (HOLD, SKIP)
#: So many blackouts are kept in a store.
MOST_BLACKOUTS = 1000
LONGEST_REASON = 500
#: For so long a blackout that is over is remembered.
KEPT = timedelta(days=30)


@dataclass(frozen=True)
class Blackout:
    """A time in which jobs are held back or left out."""

    id: str
    start: datetime
    end: datetime
    action: str = HOLD
    tag: str | None = None
    """Only jobs with this tag; None for any."""
    job_id: str | None = None
    """Only this job; None for any."""
    reason: str = ""

    def is_in_force(self, moment: datetime) -> bool:
        """Tell whether a moment lies in it."""
        return to_micros(self.start) <= to_micros(moment) < to_micros(self.end)

    def is_about(self, job: Job) -> bool:
        """Tell whether a job is meant."""
        return self.job_id in (None, job.id) and (self.tag is None or self.tag in (job.options.tags or ()))

    def explain(self) -> str:
        """Return why, as the history tells it."""
        return f"blackout until {self.end:%Y-%m-%d %H:%M %Z}{f': {self.reason}' if self.reason else ''}"

    @property
    def text(self) -> str:
        """It as a store keeps it."""
        return json.dumps({**asdict(self), "start": self.start.isoformat(), "end": self.end.isoformat()})


def read_blackout(text: str) -> Blackout | None:
    """Return what a note tells; None if it was written by another version."""
    try:
        values = json.loads(text)
        moments = {name: datetime.fromisoformat(values[name]) for name in ("start", "end")}
        return Blackout(**{**values, **moments})
    except (ValueError, TypeError, KeyError):
        return None


def blackout_of(blackouts: Sequence[Blackout], job: Job, now: datetime) -> Blackout | None:
    """Return the blackout that a due job falls into: one in force now, else one of the past that leaves times out."""
    due = job.next_run_time
    about = [blackout for blackout in blackouts if blackout.is_about(job)]
    in_force = [blackout for blackout in about if blackout.is_in_force(now)]
    if in_force:
        return max(in_force, key=lambda each: (each.action == SKIP, to_micros(each.end)))
    passed = (each for each in about if each.action == SKIP and due is not None and each.is_in_force(due))
    return max(passed, key=lambda each: to_micros(each.end), default=None)


def left_out_of(blackouts: Sequence[Blackout], job: Job, now: datetime) -> LeftOut | None:
    """Return what tells which times since a job was due are left out by blackouts of the past; None if there are none.
    """
    due = job.next_run_time
    passed = [
        each for each in blackouts
        if each.action == SKIP and due is not None and to_micros(due) < to_micros(each.start) <= to_micros(now)
        and each.is_about(job)
    ]  # fmt: skip

    def left_out(time: datetime) -> str:
        return next((each.explain() for each in passed if each.is_in_force(time)), "")

    return left_out if passed else None


def planner_in(
    blackouts: Sequence[Blackout], tell_hold: Callable[[Blackout], object] | None = None
) -> InBlackout | None:
    """Return what plans jobs that are due in one of some blackouts; None if there are none.

    ``tell_hold`` is told by which of them something is held back.
    """

    def plan(
        job: Job, concurrency: ConcurrencyState, now: datetime, new_id: Callable[[], str]
    ) -> FiringPlan | LeftOut | None:
        found = blackout_of(blackouts, job, now)
        if found is None:
            return left_out_of(blackouts, job, now)
        if tell_hold is not None and found.action == HOLD:
            tell_hold(found)
        return plan_in_blackout(job, now, concurrency, found, new_id)

    return plan if blackouts else None


def plan_in_blackout(
    job: Job, now: datetime, concurrency: ConcurrencyState, blackout: Blackout, new_id: Callable[[], str]
) -> FiringPlan:
    """Return what to do about a job that is due in a blackout."""
    due = job.next_run_time
    assert due is not None, "only a job with a next run time can be due"
    waits = bool(job.trigger.upstream)  # for other jobs, once it has no next time
    keep = waits or not job.options.auto_remove
    if blackout.action == HOLD and job.options.coalesce:
        record = _record(job, due, now, OutcomeKind.SNOOZED, new_id(), 1, _held(blackout))
        return FiringPlan(records=[record], next_run_time=_in_zone_of(due, blackout.end), keep=keep)
    until = min(now, blackout.end - timedelta.resolution, key=to_micros)
    times, bypassed, following = gathered(job, due, until)
    if blackout.action == SKIP:
        record = _record(job, due, now, OutcomeKind.SKIPPED, new_id(), bypassed + len(times), blackout.explain())
        return FiringPlan(records=[record], next_run_time=following, keep=keep, waits=waits)
    room = max(0, CATCH_UP - concurrency.waiting)
    wait, rest = times[:room], times[room:]
    records = []
    if bypassed or rest:
        reason = f"{CATCH_UP} of its runs wait already for the end of a {blackout.explain()}"
        records = [_record(job, due, now, OutcomeKind.SKIPPED, new_id(), bypassed + len(rest), reason)]
    runs = [Run(new_id(), job, time, blackout.end) for time in wait]
    return FiringPlan((), runs, records, following, keep=keep, waits=waits)


def held_by(blackout: Blackout, runs: Sequence[Run], records: Sequence[Record]) -> bool:
    """Tell whether a blackout has put off a job that has not fired since, by what the job has of runs and records."""
    held = [to_micros(each.scheduled_at) for each in records if each.reason == _held(blackout)]
    fired = [to_micros(run.scheduled_at) for run in runs if run.source is Source.SCHEDULE]
    fired += [to_micros(each.scheduled_at) for each in records if each.source is Source.SCHEDULE and _has_fired(each)]
    return bool(held) and all(time < max(held) for time in fired)


def _has_fired(record: Record) -> bool:
    return record.outcome is not OutcomeKind.SNOOZED


def _held(blackout: Blackout) -> str:
    return f"held by a {blackout.explain()}"


def _in_zone_of(due: datetime, moment: datetime) -> datetime:
    try:
        return moment.astimezone(due.tzinfo)
    except OverflowError:  # the last day of the calendar
        return moment


def _record(
    job: Job, time: datetime, now: datetime, kind: OutcomeKind, run_id: str, count: int, reason: str
) -> Attempt:  # fmt: skip
    return Attempt(Run(run_id, job, time, time), Outcome(kind, reason=reason), now, count)
