"""A store that cannot keep objects: what it could not find again after a restart is refused when it is added."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

import pytest

from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError, TransientJobError
from goscheduler.testing import ManualScheduler


def at_the_top(*args: Any) -> None:
    pass


class Service:
    def method(self) -> None:
        pass

    @classmethod
    def by_class(cls) -> None:
        pass

    @staticmethod
    def static() -> None:
        pass

    def __call__(self) -> None:
        pass


class StateStore(BaseJobStore):
    """Keeps the state of jobs and builds them anew each time, as a database would."""

    keeps_objects = False

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}

    def _restore(self, state: dict[str, Any]) -> Job:
        job = Job.__new__(Job)
        job.__setstate__(dict(state))
        job._scheduler = self._scheduler
        job._jobstore_alias = self._alias
        return job

    def lookup_job(self, job_id: str) -> Job | None:
        return self._restore(self.states[job_id]) if job_id in self.states else None

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return [job for job in self.get_all_jobs() if job.next_run_time is not None and job.next_run_time <= now]

    def get_next_run_time(self) -> datetime | None:
        times = [state["next_run_time"] for state in self.states.values() if state["next_run_time"] is not None]
        return min(times, default=None)

    def get_all_jobs(self) -> list[Job]:
        jobs = [self._restore(state) for state in self.states.values()]
        return sorted(jobs, key=lambda job: (job.next_run_time is None, job.next_run_time or 0))

    def add_job(self, job: Job) -> None:
        if job.id in self.states:
            raise ConflictingIdError(job.id)
        self.states[job.id] = job.__getstate__()

    def update_job(self, job: Job) -> None:
        if job.id not in self.states:
            raise JobLookupError(job.id)
        self.states[job.id] = job.__getstate__()

    def remove_job(self, job_id: str) -> None:
        if job_id not in self.states:
            raise JobLookupError(job_id)
        del self.states[job_id]

    def remove_all_jobs(self) -> None:
        self.states.clear()


def _nested() -> Any:
    def inside() -> None:
        pass

    return inside


NOT_TO_BE_FOUND_AGAIN = [
    pytest.param(lambda: None, id="lambda"),
    pytest.param(_nested(), id="nested function"),
    pytest.param(functools.partial(at_the_top, 1), id="partial"),
    pytest.param(Service(), id="callable object"),
    pytest.param(functools.partial(Service.static), id="partial of a static method"),
]


@pytest.fixture
def store() -> StateStore:
    return StateStore()


@pytest.mark.parametrize("func", NOT_TO_BE_FOUND_AGAIN)
def test_a_function_that_cannot_be_found_again_is_refused_when_it_is_added(store: StateStore, func: Any) -> None:
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        with pytest.raises(TransientJobError, match=r"job.*cannot be found again by name.*at the top of a module"):
            scheduler.add_job(func, "interval", hours=1, id="job")
        assert scheduler.get_jobs() == []
        assert store.states == {}


@pytest.mark.parametrize("func", NOT_TO_BE_FOUND_AGAIN)
def test_a_pending_one_stops_the_start_by_name_and_nothing_is_added(store: StateStore, func: Any) -> None:
    scheduler = ManualScheduler(jobstores={"default": store})
    scheduler.add_job(at_the_top, "interval", hours=1, id="good")
    bad = scheduler.add_job(func, "interval", hours=1, id="bad")
    with pytest.raises(TransientJobError, match="bad"):
        scheduler.start()
    assert not scheduler.running
    assert store.states == {}
    bad.remove()
    with scheduler:
        assert list(store.states) == ["good"]


@pytest.mark.parametrize("func", NOT_TO_BE_FOUND_AGAIN)
def test_a_change_to_such_a_function_is_refused_and_the_job_stays(store: StateStore, func: Any) -> None:
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        job = scheduler.add_job(at_the_top, "interval", hours=1, id="job")
        before = dict(store.states["job"])
        with pytest.raises(ValueError, match=r"(?i)callable"):
            job.modify(func=func)
        assert store.states["job"] == before
        assert job.func is at_the_top


@pytest.mark.parametrize("func", [at_the_top, Service.by_class, Service.static, f"{__name__}:at_the_top"])
def test_a_function_that_can_be_found_again_is_taken(store: StateStore, func: Any) -> None:
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(func, "interval", hours=1, id="job")
        scheduler.advance("2h")
        [job] = scheduler.get_jobs()
        assert job.func_ref is not None


def test_a_function_that_only_looks_like_the_one_under_its_name_is_refused(store: StateStore) -> None:
    @functools.wraps(at_the_top)
    def pretender() -> None:
        pass

    with ManualScheduler(jobstores={"default": store}) as scheduler:
        with pytest.raises(TransientJobError):
            scheduler.add_job(pretender, "interval", hours=1)
        assert store.states == {}


def test_the_memory_store_beside_it_takes_them_all(store: StateStore) -> None:
    with ManualScheduler(jobstores={"persistent": store}) as scheduler:
        for number, parameter in enumerate(NOT_TO_BE_FOUND_AGAIN):
            scheduler.add_job(parameter.values[0], "interval", hours=1, id=str(number))
        assert len(scheduler.get_jobs("default")) == len(NOT_TO_BE_FOUND_AGAIN)
