"""A trigger, an executor and a job store that somebody wrote for APScheduler 3."""

from __future__ import annotations

import sys
import threading
from datetime import datetime, timedelta, timezone

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger


class Twice(BaseTrigger):
    def __init__(self, start):
        self.times = [start, start + timedelta(milliseconds=1)]

    def get_next_fire_time(self, previous_fire_time, now):
        later = [time for time in self.times if previous_fire_time is None or time > previous_fire_time]
        return later[0] if later else None

    def __str__(self):
        return "twice"


class ThreadPerJob(BaseExecutor):
    def _do_submit_job(self, job, run_times):
        def target():
            try:
                events = run_job(job, job._jobstore_alias, run_times, self._logger.name)
            except BaseException:
                self._run_job_error(job.id, *sys.exc_info()[1:])
            else:
                self._run_job_success(job.id, events)

        threading.Thread(target=target).start()


class DictStore(BaseJobStore):
    def __init__(self):
        super().__init__()
        self.jobs = {}

    def lookup_job(self, job_id):
        return self.jobs.get(job_id)

    def get_due_jobs(self, now):
        due = [job for job in self.jobs.values() if job.next_run_time is not None and job.next_run_time <= now]
        return sorted(due, key=lambda job: job.next_run_time)

    def get_next_run_time(self):
        return min((job.next_run_time for job in self.jobs.values() if job.next_run_time is not None), default=None)

    def get_all_jobs(self):
        return list(self.jobs.values())

    def add_job(self, job):
        if job.id in self.jobs:
            raise ConflictingIdError(job.id)
        self.jobs[job.id] = job

    def update_job(self, job):
        if job.id not in self.jobs:
            raise JobLookupError(job.id)
        self.jobs[job.id] = job

    def remove_job(self, job_id):
        if job_id not in self.jobs:
            raise JobLookupError(job_id)
        del self.jobs[job_id]

    def remove_all_jobs(self):
        self.jobs.clear()


def good():
    return "good"


def bad():
    raise KeyError("bad")


def main(show):
    results, done = [], threading.Semaphore(0)

    def listener(event):
        results.append((event.job_id, event.jobstore, event.retval, repr(event.exception)))
        done.release()

    store = DictStore()
    scheduler = BackgroundScheduler(timezone="UTC", jobstores={"default": store})
    scheduler.add_executor(ThreadPerJob(), "own")
    scheduler.add_listener(listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.start()
    twice = Twice(datetime.now(timezone.utc))
    scheduler.add_job(good, twice, id="good", executor="own", max_instances=3, misfire_grace_time=60, coalesce=False)
    scheduler.add_job(bad, id="bad", executor="own", misfire_grace_time=60)
    for _ in range(3):
        assert done.acquire(timeout=60)
    scheduler.shutdown()
    show(sorted(results))
    show(store.jobs)
