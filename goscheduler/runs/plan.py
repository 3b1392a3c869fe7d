"""What happens when a job is due: a decision, made by a pure function.

:func:`plan_firing` looks at a job, the moment, and how many of its runs are live, and answers with a
:class:`FiringPlan`: which runs start, which wait, which fire times are recorded as missed or skipped, and when the job
fires next. It knows no store, no clock and no thread. A store calls it while it holds the job, and writes the answer
in one step.

=========================  ==========================================================================================
what is found              what is planned
=========================  ==========================================================================================
one due time               a run
several, coalescing        one run for the newest; it says how many others it stands for
several, not coalescing    a run for each, oldest first; what exceeds ``max_instances`` waits its turn as a pending
                           run. Beyond :data:`CATCH_UP` the oldest are recorded as missed, together
later than the grace time  recorded as missed, not run
``max_instances`` live     recorded as skipped, not run
the trigger has ended      no next time: the store removes the job
the job cannot be run      suspended with the reason; nothing else changes
=========================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import survivable
from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, Source, make
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.job import Job

#: How many gathered fire times are run one by one, at most, when a job does not coalesce.
CATCH_UP = 1000

_SCHEDULE = Source.SCHEDULE


class FiringPlan(NamedTuple):
    """What a store is to write for one due job."""

    start: Sequence[Run] = ()
    """Runs that are ours at once."""
    wait: Sequence[Run] = ()
    """Runs that stay pending until an earlier one has ended."""
    records: Sequence[Attempt] = ()
    """What is not run, for the history."""
    next_run_time: datetime | None = None
    """The job's next fire time; None removes the job."""
    suspended: str | None = None
    """Why the job cannot be run. If set, the rest of the plan is empty and the job keeps its time."""


class FiringPlanner:
    """Plans the firings of one round for one owner; what a store calls for each due job it has hold of."""

    __slots__ = ("_has_executor", "_new_id", "_owner")

    def __init__(self, owner: str, has_executor: Callable[[str], bool], new_id: Callable[[], str]) -> None:
        self._owner = owner
        self._has_executor = has_executor
        self._new_id = new_id

    def __call__(self, job: Job, live: int, fence: int, now: datetime) -> FiringPlan:
        """Return the plan for ``job``, of which ``live`` runs are going on. Never raises: a job that cannot be
        planned is suspended, and the others go on."""
        if not self._has_executor(job.executor):
            return FiringPlan(suspended=f'there is no executor named "{job.executor}"')
        try:
            return plan_firing(job, now, live, self._owner, fence, self._new_id)
        except BaseException as error:  # a user's trigger may raise anything
            if not survivable(error):
                raise
            return FiringPlan(suspended=f"its trigger {_named(job.trigger)} cannot be used: {_described(error)}")


def plan_firing(
    job: Job, now: datetime, live: int, owner: str, fence: int, new_id: Callable[[], str]
) -> FiringPlan:
    """Return what to do about a job whose ``next_run_time`` has come."""
    options = job.options
    due = job.next_run_time
    assert due is not None, "only a job with a next run time can be due"
    following = _following(job, due, now)
    alone = following is None or following > now
    if alone and options.misfire_grace_time is None and live < options.max_instances:
        run = make(Run, (new_id(), job, due, due, owner, fence, 1, _SCHEDULE, 0, 0))
        return make(FiringPlan, ((run,), (), (), following, None))
    times: Sequence[datetime] = (due,)
    bypassed = 0
    if not alone:
        times, bypassed, following = _gathered(job, due, now)
    runnable, records = _in_time(job, times, now, new_id)
    coalesced = bypassed if options.coalesce and runnable else 0
    if bypassed > coalesced:
        records.insert(0, _record(job, due, now, OutcomeKind.MISSED, new_id(), bypassed))
    free = options.max_instances - live
    if free <= 0:
        records += [_record(job, time, now, OutcomeKind.SKIPPED, new_id(), 1 + coalesced) for time in runnable]
        return FiringPlan((), (), records, following)
    start = [Run(new_id(), job, time, time, owner, fence, coalesced=coalesced) for time in runnable[:free]]
    wait = [Run(new_id(), job, time, time) for time in runnable[free:]]
    return FiringPlan(start, wait, records, following)


def admit(run: Run, live: int) -> bool:
    """Tell whether a pending run may start while ``live`` runs of its job are going on."""
    return live < run.job.max_instances


def _gathered(job: Job, due: datetime, now: datetime) -> tuple[Sequence[datetime], int, datetime | None]:
    """Return the newest of the fire times that have gathered, how many older ones there are, and the next."""
    backlog = job.trigger.backlog(due, now, 1 if job.coalesce else CATCH_UP)
    following = _following(job, backlog.latest[-1], now)
    if following is not None and following <= now:  # too many to count: go on from now
        following = job.trigger.get_next_fire_time(None, now)
    return backlog.latest, backlog.count - len(backlog.latest), following


def _in_time(
    job: Job, times: Sequence[datetime], now: datetime, new_id: Callable[[], str]
) -> tuple[Sequence[datetime], list[Attempt]]:
    """Return the times that are not too late, and a record for each of the others."""
    grace = job.misfire_grace_time
    if grace is None:
        return times, []
    late = [time for time in times if (now - time).total_seconds() > grace]
    return times[len(late) :], [_record(job, time, now, OutcomeKind.MISSED, new_id()) for time in late]


def _following(job: Job, previous: datetime, now: datetime) -> datetime | None:
    following = job.trigger.get_next_fire_time(previous, now)
    if following is not None and following <= previous and instant(following) <= instant(previous):
        raise ValueError(f"after {previous} it answered {following}, which is not later")
    return following


def _record(job: Job, time: datetime, now: datetime, kind: OutcomeKind, run_id: str, count: int = 1) -> Attempt:
    reason = f"missed by {now - time}" if kind is OutcomeKind.MISSED else (
        f"maximum number of running instances reached ({job.max_instances})"
    )
    return Attempt(Run(run_id, job, time, time), Outcome(kind, reason=reason), now, count)


def _named(trigger: object) -> str:
    try:
        return str(trigger)
    except Exception:
        return type(trigger).__name__


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
