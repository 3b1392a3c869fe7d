"""Decisions that every shared store asks for in the same way, so that none of them makes its own.

The policy is in :mod:`goscheduler.runs.plan` and in the request; a store reads what is due, asks here, and writes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.runs.plan import ConcurrencyState, FiringPlan, Refusal, next_fence

if TYPE_CHECKING:
    import logging

    from goscheduler.job import Job
    from goscheduler.jobstores.types import FireRequest
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Run, Settlement


def decide(
    job: Job, request: FireRequest, now: datetime, live: int, waiting: int, fence: int, ledger: Ledger
) -> tuple[FiringPlan, int]:
    """Return what to write for a due job, and the fence for its runs.

    ``live`` and ``waiting`` count the runs of the job, ``fence`` is the one that the job has. A job that is suspended
    already, because its record cannot be read, keeps its reason and is not planned.
    """
    fence = next_fence(fence, now)
    if job.suspended is not None:
        return FiringPlan(suspended=job.suspended), fence
    plan: FiringPlan = request.plan(job, ConcurrencyState(live, waiting, fence, ledger), now)
    return plan, fence


def admit(run: Run, request: FireRequest, now: datetime, live: int, fence: int, ledger: Ledger) -> tuple[
    Refusal | None, int
]:
    """Return why a pending run cannot start now, or None, and the fence with which it starts.

    ``live`` counts the live runs of its job, ``fence`` is the one that the run has.
    """
    fence = next_fence(fence, now)
    return request.admit(run, ConcurrencyState(live, 0, fence, ledger), now), fence


def allowed(settlement: Settlement, cancelled: bool) -> Settlement:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    return settlement._replace(follow_up=None) if cancelled else settlement


def log_unreadable_run(logger: logging.Logger, run_id: object, error: Exception) -> None:
    """Log that a stored run cannot be decoded; the store keeps its record."""
    text = "Run %s cannot be read: %s. Its record is kept, and the run does not start"
    logger.error(text, run_id, error, extra={"run_id": run_id})
