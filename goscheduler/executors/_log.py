"""The log lines about runs: one place for all executors.

A line names the run, its job, and the task or function that the job runs. What changes after the run has begun, such as
the next run time of its job, is not in it. Nothing is put together that is not written.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from goscheduler.logs import Block
from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from logging import Logger

    from goscheduler.executors.around import Carrier
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Outcome, Run, Settlement

_WORDS = {
    OutcomeKind.SUCCEEDED: (logging.INFO, "succeeded", "in"),
    OutcomeKind.FAILED: (logging.ERROR, "failed", "in"),
    OutcomeKind.TIMED_OUT: (logging.ERROR, "timed out", "after"),
    OutcomeKind.CANCELLED: (logging.WARNING, "was cancelled", "after"),
    OutcomeKind.LOST: (logging.WARNING, "was lost", "after"),
}


def log_start(logger: Logger, run: Run) -> None:
    """Say that a run begins."""
    try:
        if logger.isEnabledFor(logging.INFO):
            text = 'Run %s of job "%s" (%s) starts, attempt %d, scheduled at %s'
            logger.info(text, *names_of(run), run.attempt, run.scheduled_at, extra=fields_of(run))
    except Exception:  # a filter of the user's must not cost a run
        traceback.print_exc()


def log_end(logger: Logger, settlement: Settlement, carrier: Carrier | None = None) -> None:
    """Say how a run ended, and what follows; ``carrier`` knows further names of it."""
    run, outcome = settlement.attempt.run, settlement.attempt.outcome
    level = _WORDS[outcome.kind][0] if outcome.kind in _WORDS else _level_of_unstarted(outcome)
    if logger.isEnabledFor(level):
        fields = fields_of_end(settlement.attempt)
        if carrier is not None:
            fields.update(carrier.names_of(run))
        _log(logger, level, 'Run %s of job "%s" (%s) %s', (*names_of(run), _told(settlement)), outcome, fields)


def log_discarded(logger: Logger, attempt: Attempt) -> None:
    """Say that a run ended here in vain, since it is another process's by now."""
    text = 'Lease lost: run %s of job "%s" (%s) was handed to another process; it %s here, and its result is discarded'
    names = (*names_of(attempt.run), _account(attempt))
    _log(logger, logging.WARNING, text, names, attempt.outcome, fields_of_end(attempt))


def names_of(run: Run) -> tuple[str, str, str]:
    """Return what tells of which run a line is: its id, that of its job, and what the job runs."""
    return run.id, run.job.id, run.job.func_ref or run.job.name


def fields_of_job(job: Job) -> dict[str, object]:
    """Return the fields of a log line about a job, for formatters that write these."""
    options = getattr(job, "options", None)  # a stand-in of a test has none, and a log line must not cost a run
    return {
        "job_id": job.id, "task": job.func_ref or job.name, "priority": getattr(options, "priority", None),
        "next_run": getattr(job, "next_run_time", None),
    }  # fmt: skip


def fields_of(run: Run) -> dict[str, object]:
    """Return the fields of a log line about a run."""
    return {**fields_of_job(run.job), "run_id": run.id, "attempt": run.attempt, "owner": run.owner}


def fields_of_end(attempt: Attempt) -> dict[str, object]:
    """Return the fields of a log line about the end of an attempt."""
    run, outcome = attempt.run, attempt.outcome
    fields = {**fields_of(run), "outcome": outcome.kind.value}
    if outcome.started_at is not None:
        lateness = (outcome.started_at - run.due_at).total_seconds()
        fields.update(seconds=round(outcome.seconds, 6), lateness=round(lateness, 6))
    if outcome.error is not None:
        fields["error_type"] = type(outcome.error).__name__
    return fields


def _log(
    logger: Logger, level: int, text: str, names: tuple[object, ...], outcome: Outcome, fields: dict[str, object]
) -> None:
    error = outcome.error if outcome.kind is OutcomeKind.FAILED else None
    if error is not None and error.__traceback__ is None and outcome.traceback:
        # From another process: the frames came as text.
        logger.log(level, f"{text}\n%s", *names, Block(f"{outcome.traceback}{_line_of(error)}"), extra=fields)
    else:
        logger.log(level, text, *names, exc_info=error, extra=fields)


def _told(settlement: Settlement) -> str:
    attempt, follow_up, dead = settlement
    account = _account(attempt)
    if dead is not None:
        return f"{account}; it is a dead letter: {dead}"
    if follow_up is None or attempt.outcome.kind is OutcomeKind.SNOOZED:
        return account
    if follow_up.attempt == attempt.run.attempt:
        return f"{account}; it runs again"
    return f"{account}; attempt {follow_up.attempt} is due at {follow_up.due_at}"


def _account(attempt: Attempt) -> str:
    """Return how an attempt ended."""
    run, outcome = attempt.run, attempt.outcome
    if outcome.kind not in _WORDS:
        return _account_of_unstarted(run, outcome)
    _, verb, preposition = _WORDS[outcome.kind]
    owner = f" (owner {run.owner})" if outcome.kind is OutcomeKind.LOST else ""
    reason = f": {outcome.reason}{owner}" if outcome.reason else ""
    return f"{verb}{_span(outcome, preposition)}, attempt {run.attempt}{reason}"


def _span(outcome: Outcome, preposition: str) -> str:
    if outcome.started_at is not None:
        return f" {preposition} {round(outcome.seconds, 3)} s"
    return "" if outcome.kind is OutcomeKind.LOST else " before it started"


def _level_of_unstarted(outcome: Outcome) -> int:
    return logging.INFO if outcome.kind is OutcomeKind.SNOOZED else logging.WARNING


def _account_of_unstarted(run: Run, outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.SNOOZED:
        return f"was put back: {outcome.reason}"
    how = outcome.reason if outcome.kind is OutcomeKind.MISSED else f"skipped: {outcome.reason}"
    return f"scheduled at {run.scheduled_at} was {how}"


def _line_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: <no text: its __str__ raised>"
