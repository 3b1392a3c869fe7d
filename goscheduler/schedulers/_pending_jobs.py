"""Jobs that were added before their scheduler was started.

They wait in stores of their own, one for each store that they are meant for, so that every operation on jobs works the
same before and after the start. :func:`add_waiting` puts them where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import ConflictingIdError, JobLookupError, NeverFires
from goscheduler.events import EventCode
from goscheduler.job import copy_with, take_over
from goscheduler.jobstores.base import BaseJobStore

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.schedulers._adding import JobAdder
    from goscheduler.schedulers._patience import Patience


class AddRequest(NamedTuple):
    """The arguments of one ``add_job`` that take effect when the job is written."""

    job: Job
    jobstore: str
    """Alias of the store that the job is meant for."""
    if_exists: str
    """What to do when the id is taken: "error", "replace" or "keep"."""
    time_given: bool = False
    """Whether the first run time was given, and so is not to be taken from a job that is replaced."""
    imported: bool = False
    """Whether trigger and time belong together already, and are to be left as they are."""
    connection: Any = None
    """A database connection whose transaction the job is to be part of."""


class PendingJobStore(BaseJobStore):
    """The jobs that wait for one store. They have no next run time yet unless one was given."""

    keeps_objects = True

    def __init__(self) -> None:
        self.additions: dict[str, AddRequest] = {}

    def put(self, addition: AddRequest) -> None:
        """Take a job in.

        :raises ConflictingIdError: if another one with its id is waiting
        """
        job_id = addition.job.id
        if job_id in self.additions and addition.if_exists == "error":
            raise ConflictingIdError(job_id)
        if job_id not in self.additions or addition.if_exists != "keep":
            self.additions[job_id] = addition

    def lookup_job(self, job_id: str) -> Job | None:
        addition = self.additions.get(job_id)
        return None if addition is None else addition.job

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return []

    def get_next_run_time(self) -> datetime | None:
        return None

    def get_all_jobs(self) -> list[Job]:
        return [addition.job for addition in self.additions.values()]

    def add_job(self, job: Job) -> None:
        self.put(AddRequest(job, "default", "error"))

    def update_job(self, job: Job) -> None:
        addition = self.additions.get(job.id)
        if addition is None:
            raise JobLookupError(job.id)
        take_over(addition.job, job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        job = self.lookup_job(job_id)
        if job is None:
            raise JobLookupError(job_id)
        return take_over(job, edit(job))

    def remove_job(self, job_id: str) -> None:
        if self.additions.pop(job_id, None) is None:
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        self.additions.clear()


def add_waiting(jobs: JobAdder, patience: Patience) -> None:
    """Put the jobs that were added before the start into their stores: all of them or, if that fails, none."""
    additions = [addition for room in jobs.waiting.values() for addition in room.additions.values()]
    beside = {alias: {one: each.job for one, each in room.additions.items()} for alias, room in jobs.waiting.items()}
    for addition in additions:
        alias = addition.jobstore
        patience.reach(alias, jobs.store(alias), partial(_check, jobs, addition, beside[alias]))
    as_they_were = [(addition.job, copy_with(addition.job)) for addition in additions]
    undo: list[Callable[[], object]] = []
    try:
        added = [addition for addition in additions if _is_worth_adding(jobs, addition)]
        for addition in added:
            undo.append(_write(jobs, addition, patience))
    except BaseException:
        _take_back(jobs, undo)
        for job, before in as_they_were:
            take_over(job, before)
        raise
    jobs.waiting = {}
    for addition in added:
        jobs.announce(addition.job, addition.jobstore)


def _check(jobs: JobAdder, addition: AddRequest, beside: Mapping[str, Job]) -> None:
    """Raise what would keep a job out of its store, as far as that can be told without writing."""
    store = jobs.store(addition.jobstore)
    jobs._refuse_transient(addition.job, store)
    jobs._engine.following.check(addition.jobstore, addition.job, beside)
    if addition.if_exists == "error" and store.lookup_job(addition.job.id) is not None:
        raise ConflictingIdError(addition.job.id)


def _is_worth_adding(jobs: JobAdder, addition: AddRequest) -> bool:
    """Complete a waiting job; false if it has no fire time left by now, and is dropped with an event."""
    try:
        jobs.complete(addition)
    except NeverFires as error:
        fields = {"job_id": addition.job.id}
        jobs._engine.logger.error('Job "%s" is not added: %s', addition.job.name, error, extra=fields)
        jobs._tell(EventCode.JOB_REMOVED, addition.job.id, addition.jobstore)
        return False
    return True


def _write(jobs: JobAdder, addition: AddRequest, patience: Patience) -> Callable[[], object]:
    """Write a waiting job, as often as its store has to be waited for, and return what takes that back."""
    job, store = addition.job, jobs.store(addition.jobstore)
    tried = False

    def write() -> Callable[[], object]:
        nonlocal tried
        if tried and addition.if_exists == "error" and _is_written(store, job):
            return partial(jobs._forget, store, job)
        tried = True
        return jobs._write(addition)

    return patience.reach(addition.jobstore, store, write)


def _is_written(store: BaseJobStore, job: Job) -> bool:
    """Tell whether a job is in its store although the answer to its addition was lost: its id was free before."""
    found = store.lookup_job(job.id)
    return found is not None and found.func_ref == job.func_ref and found.trigger.same_schedule_as(job.trigger)


def _take_back(jobs: JobAdder, undo: Sequence[Callable[[], object]]) -> None:
    """Take back what was written, as far as the stores answer."""
    for action in reversed(undo):
        try:
            action()
        except Exception:
            jobs._engine.logger.exception("A job of a start that has failed could not be taken out of its store again")
