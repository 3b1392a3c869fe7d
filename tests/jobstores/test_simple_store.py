"""A store with only the simple methods, as one written for APScheduler 3, under the same contract."""

from __future__ import annotations

import pickle
import threading
from datetime import datetime

import pytest

from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError, SharedJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model
from goscheduler.times import to_micros


class PicklingStore(BaseJobStore):
    """Keeps pickled states in a dictionary, so that what comes back is always a copy."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def lookup_job(self, job_id: str) -> Job | None:
        state = self._states.get(job_id)
        return None if state is None else self._restore(state)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return [job for job in self.get_all_jobs() if job.next_run_time is not None and job.next_run_time <= now]

    def get_next_run_time(self) -> datetime | None:
        times = [job.next_run_time for job in self.get_all_jobs() if job.next_run_time is not None]
        return times[0] if times else None

    def get_all_jobs(self) -> list[Job]:
        jobs = [self._restore(state) for state in list(self._states.values())]
        jobs.sort(key=lambda job: -1 if job.next_run_time is None else to_micros(job.next_run_time))
        self._fix_paused_jobs_sorting(jobs)
        return jobs

    def add_job(self, job: Job) -> None:
        with self._lock:
            if job.id in self._states:
                raise ConflictingIdError(job.id)
            self._states[job.id] = pickle.dumps(job.__getstate__())

    def update_job(self, job: Job) -> None:
        if job.id not in self._states:
            raise JobLookupError(job.id)
        self._states[job.id] = pickle.dumps(job.__getstate__())

    def remove_job(self, job_id: str) -> None:
        if self._states.pop(job_id, None) is None:
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        self._states.clear()

    def _restore(self, state: bytes) -> Job:
        job = Job.__new__(Job)
        job.__setstate__(pickle.loads(state))
        job._scheduler = self._scheduler
        job._jobstore_alias = self._alias
        return job


class TestSimpleStore(StoreContract):
    def make_store(self) -> PicklingStore:
        return PicklingStore()


class SimpleStoreMachine(StoreMachine):
    def make_store(self) -> PicklingStore:
        return PicklingStore()


TestSimpleStoreAgainstTheModel = against_the_model(SimpleStoreMachine, examples=20)
TestLimitsInASimpleStore = limits_against_the_model(SimpleStoreMachine, examples=20)


def test_a_shared_store_that_lacks_a_method_of_the_port_cannot_be_made():
    class Forgetful(SharedJobStore):
        """Has the simple methods only."""

    with pytest.raises(TypeError, match="fire_due"):
        Forgetful()
