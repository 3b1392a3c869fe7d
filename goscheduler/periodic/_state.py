"""Where a schedule stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import JobLookupError
from goscheduler.periodic._diff import MARK

if TYPE_CHECKING:
    from goscheduler.job import Job


@dataclass(frozen=True)
class ScheduleState:
    """What a schedule has lived through, as of the moment when its store was asked."""

    id: str
    enabled: bool
    """Whether it fires; false if it is disabled in code, or paused by hand."""
    last_run: datetime | None
    """When the last attempt was started."""
    next_run: datetime | None
    """When it fires next; None while it is not enabled."""
    run_count: int
    """How many attempts were started and have ended, those that failed included."""
    last_success: datetime | None
    """When the last attempt that went well ended."""
    last_error: str | None
    """What the last attempt that failed had to say; a later success does not take it away."""
    paused_by: str | None
    """Who does not want it to fire."""
    suspended: str | None
    """Why it cannot be run for now, for instance because nobody knows its task."""


def state_of_schedule(job: Job | None, schedule_id: str) -> ScheduleState:
    """Return the state of the schedule that a job was made of.

    :raises JobLookupError: if there is no such job, or it was made by hand
    """
    if job is None or not any(tag.startswith(MARK) for tag in job.tags):
        raise JobLookupError(schedule_id)
    stats, next_run = job.stats, job.next_run_time
    return ScheduleState(
        job.id, next_run is not None, stats.last_run, next_run, stats.run_count, stats.last_success, stats.last_error,
        stats.paused_by, job.suspended,
    )  # fmt: skip
