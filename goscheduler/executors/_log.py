"""The log lines about runs: one place for all executors.

A log handler of the user's that raises must not cost a run, so nothing raises here; such an error is printed, as the
logging package itself does.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from goscheduler.logs import Block
from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from logging import Logger

    from goscheduler.runs.model import Outcome, Run

_SUCCEEDED = OutcomeKind.SUCCEEDED


def log_start(logger: Logger, run: Run) -> None:
    """Say that a run begins."""
    try:
        if logger.isEnabledFor(logging.INFO):
            logger.info('Running job "%s" (scheduled at %s)', run.job, run.scheduled_at)
    except Exception:
        traceback.print_exc()


def log_outcome(logger: Logger, run: Run, outcome: Outcome) -> None:
    """Say how a run ended."""
    try:
        if outcome.kind is not _SUCCEEDED:
            _log_trouble(logger, run, outcome)
        elif logger.isEnabledFor(logging.INFO):
            logger.info('Job "%s" executed successfully', run.job)
    except Exception:
        traceback.print_exc()


def _log_trouble(logger: Logger, run: Run, outcome: Outcome) -> None:
    if outcome.kind is OutcomeKind.FAILED:
        _log_failure(logger, run, outcome)
    elif outcome.kind is OutcomeKind.MISSED:
        logger.warning('Run time of job "%s" was %s', run.job, outcome.reason)
    elif outcome.kind is OutcomeKind.SNOOZED:
        logger.info('Run of job "%s" was put back: %s', run.job, outcome.reason)
    else:
        logger.warning('Run of job "%s" ended as %s: %s', run.job, outcome.kind.value, outcome.reason)


def _log_failure(logger: Logger, run: Run, outcome: Outcome) -> None:
    error = outcome.error
    if error is not None and error.__traceback__ is None and outcome.traceback:
        # From another process: the frames came as text.
        logger.error('Job "%s" raised an exception\n%s', run.job, Block(f"{outcome.traceback}{_line_of(error)}"))
    else:
        logger.error('Job "%s" raised an exception', run.job, exc_info=error)


def _line_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: <no text: its __str__ raised>"
