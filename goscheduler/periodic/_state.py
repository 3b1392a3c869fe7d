"""Where schedules stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import JobLookupError
from goscheduler.periodic._diff import mark_of
from goscheduler.runs.queries import JobQuery
from goscheduler.runs.tally import MARK

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.periodic._registry import ScheduleRegistry
    from goscheduler.periodic._schedule import Schedule
    from goscheduler.schedulers.base import BaseScheduler

#: How many jobs are read together.
PAGE_SIZE = 1000


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


@dataclass(frozen=True)
class ListedSchedule:
    """A schedule of a registry, with what has become of it in a store."""

    id: str
    schedule: Schedule | None
    """As it is declared; None if it is declared no longer, and its job is still there."""
    state: ScheduleState | None
    """None if it has no job, because no sync has made one."""


def list_schedules(
    scheduler: BaseScheduler, registry: ScheduleRegistry, jobstore: str = "default"
) -> list[ListedSchedule]:
    """Return all schedules of a registry with what has become of them in a store, in the order of their registration.

    Schedules that are no longer declared and still have a job come last, by their ids.
    """
    jobs = {
        job.id: job for _, store in scheduler.engine.jobs.places(jobstore) for job in owned_jobs(store, registry.name)
    }
    declared = {schedule.id: schedule for schedule in registry.list()}
    return [
        ListedSchedule(one, declared.get(one), state_of_schedule(jobs[one], one) if one in jobs else None)
        for one in [*declared, *sorted(jobs.keys() - declared)]
    ]


def owned_jobs(store: BaseJobStore, registry: str) -> list[Job]:
    """Return the jobs of a store that a registry owns, ascending by id."""
    query = JobQuery(tag=mark_of(registry), sort="id", limit=PAGE_SIZE)
    page = store.find_jobs(query)
    found = [*page.jobs]
    while page.next is not None:
        page = store.find_jobs(query._replace(after=page.next))
        found += page.jobs
    return found
