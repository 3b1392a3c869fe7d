"""The changes that a run can go through, each with a name. A run is never assembled by hand from another.

==============  ============  =========================================================================
from            to            by
==============  ============  =========================================================================
(a firing)      claimed       :func:`goscheduler.runs.plan.plan_firing`
(a firing)      pending       :func:`goscheduler.runs.plan.plan_firing`, where instances are full
(run now)       pending       :func:`asked_for`
pending         claimed       :func:`claimed`
claimed         pending       :func:`put_back`, :func:`settle` with a snoozed outcome, :func:`recovered` (the owner
                              was lost)
claimed         finished      :func:`settle`
==============  ============  =========================================================================

Nothing leads out of finished. Any other change raises :class:`IllegalChange`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import GoSchedulerError
from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, RunState, Settlement, Source, make

if TYPE_CHECKING:
    from goscheduler.job import Job

_SNOOZED = OutcomeKind.SNOOZED


class IllegalChange(GoSchedulerError):
    """A change was asked for that no run in this state can go through: a bug in a store or in the engine."""


def asked_for(job: Job, run_id: str, now: datetime) -> Run:
    """Return a pending run that somebody asked for by hand; the job's schedule has no part in it."""
    return Run(run_id, job, now, now, source=Source.MANUAL)


def claimed(run: Run, owner: str, fence: int) -> Run:
    """Return a pending run as handed to ``owner``."""
    _require(run, RunState.PENDING, "claimed")
    if fence <= run.fence:
        raise IllegalChange(f"run {run.id} was handed out with fence {run.fence}; {fence} is not above it")
    return run._replace(owner=owner, fence=fence)


def put_back(run: Run) -> Run:
    """Return a claimed run as pending again; it was not started and this does not count as an attempt."""
    _require(run, RunState.CLAIMED, "put back")
    return run._replace(owner=None)


def recovered(run: Run) -> Run:
    """Return a claimed run whose owner was lost, as pending again."""
    _require(run, RunState.CLAIMED, "recovered")
    return run._replace(owner=None, source=Source.RECOVERED, crashes=run.crashes + 1)


def settle(run: Run, outcome: Outcome, now: datetime) -> Settlement:
    """Return what the end of an attempt leads to."""
    if run.owner is None:
        _require(run, RunState.CLAIMED, "settled")
    follow_up = put_back(run) if outcome.kind is _SNOOZED else None
    return make(Settlement, (make(Attempt, (run, outcome, now, 1)), follow_up))


def _require(run: Run, state: RunState, change: str) -> None:
    if run.state is not state:
        raise IllegalChange(f"run {run.id} is {run.state.value} and cannot be {change}")
