"""Runs the jobs of any scheduler once, on the thread of a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from goscheduler.errors import JobLookupError
from goscheduler.executors.call import call
from goscheduler.job import Job
from goscheduler.runs.transitions import asked_for
from goscheduler.schedulers.base import BaseScheduler


class JobRunner:
    """Calls the functions of jobs, each once, with what encloses them in the scheduler."""

    def __init__(self) -> None:
        self._done: WeakKeyDictionary[BaseScheduler, set[str]] = WeakKeyDictionary()

    def __call__(self, scheduler: BaseScheduler, *job_ids: str) -> dict[str, Any]:
        """Run the jobs by these ids, or all that have not been run yet, and return what they returned.

        :raises JobLookupError: if there is no such job
        """
        jobs = _named(scheduler, job_ids) if job_ids else self._new(scheduler)
        return {job.id: self._run(scheduler, job) for job in jobs}

    def _new(self, scheduler: BaseScheduler) -> Iterator[Job]:
        """Yield jobs until there is none that was not run, those that the jobs add among them."""
        while found := [job for job in scheduler.get_jobs() if self._is_new(scheduler, job)]:
            yield from found

    def _is_new(self, scheduler: BaseScheduler, job: Job) -> bool:
        is_paused = getattr(job, "next_run_time", job) is None
        return not is_paused and job.id not in self._done.get(scheduler, ())

    def _run(self, scheduler: BaseScheduler, job: Job) -> Any:
        self._done.setdefault(scheduler, set()).add(job.id)
        run = asked_for(job, f"{job.id}-run_jobs", scheduler.clock.now())
        outcome = call(run, scheduler.clock, arounds=scheduler.arounds)
        if outcome.error is not None:
            raise outcome.error
        return outcome.result


def _named(scheduler: BaseScheduler, job_ids: tuple[str, ...]) -> Iterator[Job]:
    for job_id in job_ids:
        job = scheduler.get_job(job_id)
        if job is None:
            raise JobLookupError(job_id)
        yield job
