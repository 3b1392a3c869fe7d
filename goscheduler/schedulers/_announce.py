"""Turns written firings and outcomes into log lines and events. An event without a listener is not made."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from goscheduler.events import (
    EventCode,
    JobEvent,
    JobExecutionEvent,
    JobStartEvent,
    JobSubmissionEvent,
    JobSuspensionEvent,
    SchedulerEvent,
)
from goscheduler.executors._failures import WorkerLost
from goscheduler.executors._log import fields_of, fields_of_job, log_end, names_of
from goscheduler.runs.model import OutcomeKind, Settlement
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.jobstores.base import Fired
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.schedulers._engine import Engine

_SUCCEEDED = OutcomeKind.SUCCEEDED
#: What programs that read log lines as fields look for.
ENQUEUED = "Scheduled job enqueued"

#: How an attempt ended → the event that tells of it. A snoozed run has not ended; it comes again.
CODE_OF = {
    OutcomeKind.SUCCEEDED: EventCode.JOB_EXECUTED,
    OutcomeKind.FAILED: EventCode.JOB_ERROR,
    OutcomeKind.TIMED_OUT: EventCode.JOB_ERROR,
    OutcomeKind.MISSED: EventCode.JOB_MISSED,
    OutcomeKind.SKIPPED: EventCode.JOB_MAX_INSTANCES,
    OutcomeKind.CANCELLED: EventCode.JOB_CANCELLED,
    OutcomeKind.LOST: EventCode.LEASE_LOST,
}


def announce_firing(engine: Engine, alias: str, fired: Fired) -> None:
    """Tell what one round of a store has brought, before any of its runs is started."""
    if fired.records:
        log_ends(engine, list(map(Settlement, fired.records)))
    for job, reason in fired.suspended:
        engine.logger.error(
            'Job "%s" (%s) is suspended: %s. The job is kept. Fix the cause, or modify or resume the job.',
            job.name,
            job.id,
            reason,
            extra=fields_of_job(job),
        )
    if fired.runs and engine.logger.isEnabledFor(logging.INFO):
        _log_enqueued(engine, fired.runs)
    engine.emit(list(_firing_events(engine, alias, fired)))


def _log_enqueued(engine: Engine, runs: Sequence[Run]) -> None:
    text = 'Scheduled job enqueued: run %s of job "%s" (%s), next run at %s'
    for run in runs:
        following = getattr(run.job, "next_run_time", None)
        engine.logger.info(text, *names_of(run), following, extra={**fields_of(run), "summary": ENQUEUED})


def _firing_events(engine: Engine, alias: str, fired: Fired) -> Iterator[SchedulerEvent]:
    wants = engine.bus.wants
    if wants(EventCode.JOB_SUBMITTED):
        yield from _submissions(alias, fired.runs)
    for record in fired.records:
        code = CODE_OF.get(record.outcome.kind)
        if code is not None and wants(code):
            yield event_of(alias, record, code)
    if wants(EventCode.JOB_REMOVED):
        for job in fired.finished:
            yield JobEvent(EventCode.JOB_REMOVED, job.id, alias)
    for job, reason in fired.suspended:
        yield JobSuspensionEvent(EventCode.JOB_SUSPENDED, job.id, alias, reason)


def announce_submissions(engine: Engine, alias: str, runs: Sequence[Run]) -> None:
    """Tell that pending runs go to their executors."""
    if runs and engine.bus.wants(EventCode.JOB_SUBMITTED):
        engine.emit(list(_submissions(alias, runs)))


def _submissions(alias: str, runs: Sequence[Run]) -> Iterator[SchedulerEvent]:
    for job, of_job in groupby(runs, key=lambda run: run.job):
        yield JobSubmissionEvent(EventCode.JOB_SUBMITTED, job.id, alias, [run.scheduled_at for run in of_job])


def announce_start(engine: Engine, run: Run) -> None:
    """Tell that a run begins, on the thread that runs it."""
    job, started_at = run.job, engine.running.started_at(run) or engine.clock.now()
    engine.emit([
        JobStartEvent(
            EventCode.JOB_STARTED, job.id, job._jobstore_alias, run.scheduled_at, run.id, run.attempt, job.func_ref,
            _lateness(run, started_at),
        )
    ])  # fmt: skip


def log_ends(engine: Engine, settlements: Sequence[Settlement]) -> None:
    """Write into the log how runs ended and what follows."""
    quiet = {alias for alias in engine.executors if not engine.logger_of(alias).isEnabledFor(logging.INFO)}
    for settlement in settlements:
        run, outcome = settlement.attempt.run, settlement.attempt.outcome
        if outcome.kind is not _SUCCEEDED or run.job.options.executor not in quiet:
            log_end(engine.logger_of(run.job.executor), settlement, engine.carrier)


def announce_settlements(engine: Engine, alias: str, settlements: Sequence[Settlement]) -> None:
    """Tell how runs ended and what follows, after that was written."""
    wanted = {kind for kind, code in CODE_OF.items() if engine.bus.wants(code)}
    hears_lost_workers = engine.bus.wants(EventCode.WORKER_LOST)
    events: list[SchedulerEvent] = []
    for attempt, follow_up, dead in settlements:
        if isinstance(attempt.outcome.error, WorkerLost) and attempt.outcome.kind is OutcomeKind.LOST:
            if hears_lost_workers:
                events.append(event_of(alias, attempt, EventCode.WORKER_LOST))
        elif attempt.outcome.kind in wanted:
            events.append(event_of(alias, attempt, CODE_OF[attempt.outcome.kind]))
        if dead is not None:
            events.append(event_of(alias, attempt, EventCode.JOB_DEAD_LETTERED))
        elif follow_up is not None and follow_up.attempt > attempt.run.attempt:
            events.append(event_of(alias, attempt, EventCode.JOB_RETRIED))
    engine.emit(events)


def event_of(alias: str, attempt: Attempt, code: EventCode) -> SchedulerEvent:
    """Return the event that tells of a finished attempt under ``code``."""
    run, outcome = attempt.run, attempt.outcome
    if code is EventCode.JOB_MAX_INSTANCES:
        return JobSubmissionEvent(code, run.job.id, alias, [run.scheduled_at])
    return JobExecutionEvent(
        code,
        run.job.id,
        alias,
        run.scheduled_at,
        outcome.result,
        outcome.error,
        None if outcome.error is None else outcome.traceback,
        run.id,
        run.attempt,
        run.job.func_ref,
        outcome.seconds,
        0.0 if outcome.started_at is None else _lateness(run, outcome.started_at),
    )


def _lateness(run: Run, started_at: datetime) -> float:
    return (to_micros(started_at) - to_micros(run.scheduled_at)) / 1e6
