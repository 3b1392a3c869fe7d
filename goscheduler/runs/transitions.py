"""The changes that a run can go through, each with a name. A run is never assembled by hand from another.

==============  ============  =========================================================================
from            to            by
==============  ============  =========================================================================
(a firing)      claimed       :func:`goscheduler.runs.plan.plan_firing`
(a firing)      pending       :func:`goscheduler.runs.plan.plan_firing`, where instances are full
(run now)       pending       :func:`asked_for`
pending         claimed       :func:`claimed`
claimed         pending       :func:`put_back`, :func:`settle` with a snoozed outcome, :func:`recovered` (the owner
                              was lost, by :func:`crashed`), :func:`retried`
claimed         finished      :func:`settle`, :func:`crashed`
pending         finished      :func:`called_off`
(dead letter)   pending       :func:`redriven`
==============  ============  =========================================================================

Nothing leads out of finished; a dead letter gives a new attempt, not the old one back. Any other change raises
:class:`IllegalChange`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.errors import GoSchedulerError, described
from goscheduler.runs.model import (
    Attempt,
    DeadLetter,
    JobStats,
    Outcome,
    OutcomeKind,
    Progress,
    Run,
    RunState,
    Settlement,
    Source,
    unchecked_tuple,
)
from goscheduler.runs.retry import Retry, Snooze, asked_seconds

if TYPE_CHECKING:
    from goscheduler.job import Job

_SUCCEEDED = OutcomeKind.SUCCEEDED
_SNOOZED = OutcomeKind.SNOOZED
_FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT})

#: The policy of a job that has none.
ONCE = Retry(max_attempts=1)

#: Why the owner of a live run is told that it is not to be started. It ends in a line break, which no reason that
#: somebody gives has; another reason may follow it.
JOB_REMOVED = "its job was removed\n"


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


def put_back(run: Run, due_at: datetime | None = None) -> Run:
    """Return a claimed run as pending again, until ``due_at`` if given; this does not count as an attempt."""
    _require(run, RunState.CLAIMED, "put back")
    return run._replace(owner=None, due_at=run.due_at if due_at is None else due_at)


def retried(run: Run, due_at: datetime) -> Run:
    """Return a claimed run whose attempt failed as pending again, for one more attempt at ``due_at``."""
    _require(run, RunState.CLAIMED, "retried")
    return run._replace(owner=None, due_at=due_at, attempt=run.attempt + 1, source=Source.RETRY)


def redriven(letter: DeadLetter, now: datetime) -> Run:
    """Return a pending run for one more attempt at a dead letter."""
    run = letter.run
    return run._replace(owner=None, due_at=now, attempt=run.attempt + 1, source=Source.REDRIVE)


def recovered(run: Run) -> Run:
    """Return a claimed run whose owner was lost, as pending again."""
    _require(run, RunState.CLAIMED, "recovered")
    return run._replace(owner=None, source=Source.RECOVERED, crashes=run.crashes + 1)


def called_off(run: Run, reason: str, now: datetime) -> Settlement:
    """Return the end of a pending run that somebody cancelled."""
    _require(run, RunState.PENDING, "called off")
    return Settlement(Attempt(run, Outcome(OutcomeKind.CANCELLED, reason=reason), now))


def crashed(run: Run, now: datetime, draw: Callable[[], float] = random.random, host: str = "") -> Settlement:
    """Return what becomes of a run whose owner, on ``host``, was lost, by the job's ``on_crash``, ``max_crashes``."""
    outcome = Outcome(OutcomeKind.LOST, reason="the process that had it was lost")
    return settle(run, outcome, now, draw, host=host)


def settle(
    run: Run,
    outcome: Outcome,
    now: datetime,
    draw: Callable[[], float] = random.random,
    progress: Progress | None = None,
    host: str = "",
) -> Settlement:
    """Return what the end of an attempt leads to: nothing more, another attempt, or the dead letters.

    ``random_number`` gives random numbers from 0 to 1, for the jitter of a retry policy; ``progress`` and ``host`` are
    kept with the attempt.
    """
    if run.owner is None:
        _require(run, RunState.CLAIMED, "settled")
    attempt = unchecked_tuple(Attempt, (run, outcome, now, 1, progress, host))
    if outcome.kind is _SUCCEEDED:
        return unchecked_tuple(Settlement, (attempt, None, None))
    if outcome.kind is _SNOOZED:
        snooze = outcome.error
        later = now + timedelta(seconds=asked_seconds(snooze)) if isinstance(snooze, Snooze) else None
        return Settlement(attempt, put_back(run, later))
    if outcome.kind in _FAILURES:
        return _after_failure(attempt, draw)
    return _after_crash(attempt, draw) if outcome.kind is OutcomeKind.LOST else Settlement(attempt)


def _after_crash(attempt: Attempt, draw: Callable[[], float]) -> Settlement:
    run, job = attempt.run, attempt.run.job
    if job.on_crash == "fail":
        return _after_failure(attempt, draw)
    if job.on_crash == "dead":
        return Settlement(attempt, None, f"crashed: {attempt.outcome.reason}")
    crashes = run.crashes + 1
    if crashes >= job.max_crashes:
        times = "1 time" if crashes == 1 else f"{crashes} times"
        return Settlement(attempt, None, f"crashed {times}: {attempt.outcome.reason}")
    return Settlement(attempt, recovered(run))


def _after_failure(attempt: Attempt, draw: Callable[[], float]) -> Settlement:
    run, outcome, now = attempt.run, attempt.outcome, attempt.finished_at
    policy = run.job.retry or ONCE
    age = (now - run.scheduled_at).total_seconds()
    decision = policy.decide(run.attempt, outcome.error, age, draw)
    if decision.delay is not None:
        return Settlement(attempt, retried(run, now + timedelta(seconds=decision.delay)))
    return Settlement(attempt, None, decision.reason if run.job.dead_letter else None)


def with_attempt(stats: JobStats, attempt: Attempt) -> JobStats:
    """Return the life of a job after one more attempt at a run of it."""
    outcome = attempt.outcome
    started_at = outcome.started_at
    if started_at is None:
        if outcome.kind is not OutcomeKind.LOST:
            return stats
        return stats._replace(last_outcome=outcome.kind, last_error=outcome.reason)  # nobody knows whether it began
    if outcome.kind is _SUCCEEDED:
        count, finished_at = stats.run_count + 1, attempt.finished_at
        return unchecked_tuple(JobStats, (count, started_at, finished_at, stats.last_error, _SUCCEEDED, *stats[5:]))
    return stats._replace(
        run_count=stats.run_count + 1, last_run=started_at, last_outcome=outcome.kind,
        last_error=stats.last_error if outcome.kind is _SNOOZED else _account_of(outcome),
    )


def _account_of(outcome: Outcome) -> str:
    return described(outcome.error) if outcome.error is not None else outcome.reason or outcome.kind.value


def _require(run: Run, state: RunState, change: str) -> None:
    if run.state is not state:
        raise IllegalChange(f"run {run.id} is {run.state.value} and cannot be {change}")
