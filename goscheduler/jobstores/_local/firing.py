"""Firing on a store that has only the simple methods, for one process: its jobs are written one by one."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import JobLookupError
from goscheduler.jobstores._local.retention import note_whether_finished
from goscheduler.jobstores.types import Fired, FireRequest, Suspended
from goscheduler.runs.plan import rank_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.plan import FiringPlan

#: How many jobs of one round may fail to be written before the round is given up, and in how many rounds one job may.
UNWRITABLE_ENDURED = 3


class LocalFiring:
    """One round of ``fire_due`` on a store that has only the simple methods."""

    def __init__(self, store: BaseJobStore, request: FireRequest) -> None:
        self._store = store
        self._request = request
        self._runs = store._runs
        self._room = dict(request.room)
        self._started: list[Run] = []
        self._records: list[Attempt] = []
        self._finished: list[Job] = []
        self._suspended: list[Suspended] = []
        self._unwritable: list[tuple[Job, Exception]] = []
        self._full: set[str] = set()
        self._more = False

    def fire(self) -> Fired:
        error, next_due = None, None
        try:
            for job in self._in_order(self._store.get_due_jobs(self._request.now)):
                self._fire_one(job)
                if len(self._unwritable) > UNWRITABLE_ENDURED:
                    break
            self._judge_unwritable()
            next_due = self._next_due()
        except Exception as caught:
            error = caught
        return Fired(self._started, self._records, self._finished, self._suspended, next_due, self._more, error)

    def _fire_one(self, job: Job) -> None:
        if job.id in self._runs.suspended:
            return
        if self._room.get(job.executor, 1) <= 0:
            self._more = True
            self._full.add(job.executor)
            return
        concurrency = self._runs.concurrency(job.id)
        plan = self._request.plan(job, concurrency, self._request.now)
        if plan.suspended is not None:
            self._suspend(job, plan.suspended)
            return
        try:
            self._advance(job, plan)
        except Exception as error:
            for run in plan.start:
                concurrency.ledger.give_back(run.job.limits)
            if not isinstance(error, JobLookupError):  # else removed by somebody else after it was read
                self._unwritable.append((job, error))
            return
        if plan.cancel_live:
            self._runs.cancel_live(job.id)
        self._runs.fired(plan.start, plan.wait, plan.records)
        if plan.next_run_time is None and not plan.keep:
            self._runs.forget_job(job.id, may_follow=True)
        self._started.extend(plan.start)
        self._records.extend(plan.records)
        self._room[job.executor] = self._room.get(job.executor, 0) - len(plan.start)

    def _in_order(self, jobs: list[Job]) -> list[Job]:
        """Put the more urgent first; but those that could not be written the last time behind all others.

        Else these others might never be reached.
        """
        failures = self._runs.write_failures
        return sorted(
            jobs, key=lambda job: (failures[job.id], rank_of(job, to_micros(job.next_run_time or self._request.now)))
        )

    def _judge_unwritable(self) -> None:
        """Suspend a job that could not be written round after round while others could; else the store is out."""
        failures, self._runs.write_failures = self._runs.write_failures, Counter()
        for job, error in self._unwritable:
            self._runs.write_failures[job.id] = failures[job.id] + 1
            if self._started and failures[job.id] + 1 >= UNWRITABLE_ENDURED:
                self._suspend(job, f"the job store cannot write it: {type(error).__name__}: {error}")
        hopeful = [error for job, error in self._unwritable if job.id not in self._runs.suspended]
        if hopeful:
            raise hopeful[0]

    def _suspend(self, job: Job, reason: str) -> None:
        self._runs.suspended[job.id] = reason
        self._suspended.append(Suspended(job, reason))

    def _advance(self, job: Job, plan: FiringPlan) -> None:
        if plan.next_run_time is None and not plan.keep:
            self._store.remove_job(job.id)
            self._finished.append(job)
            return
        job._modify(next_run_time=plan.next_run_time)
        job.stats = self._store.stats_of(job)
        if plan.next_run_time is None and not plan.waits:
            job.stats = job.stats._replace(finished_at=self._request.now)
        self._store.update_job(job)
        note_whether_finished(self._store, job)

    def _next_due(self) -> datetime | None:
        """Return the earliest next run time of the jobs that wait for nothing else, or the loop would never rest."""
        next_due = self._store.get_next_run_time()
        if next_due is None or next_due > self._request.now or not (self._runs.suspended or self._full):
            return next_due
        times = [
            job.next_run_time
            for job in self._store.get_all_jobs()
            if job.next_run_time is not None
            and job.id not in self._runs.suspended
            and job.executor not in self._full
        ]
        return min(times, key=to_micros, default=None)
