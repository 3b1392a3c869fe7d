"""Jobs that were added before their scheduler was started.

They wait in stores of their own, one for each store that they are meant for, so that every operation on jobs works the
same before and after the start.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.jobstores.base import BaseJobStore

if TYPE_CHECKING:
    from goscheduler.job import Job


class Addition(NamedTuple):
    """What ``add_job`` was asked, as far as it cannot be done before the start."""

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


class WaitingRoom(BaseJobStore):
    """The jobs that wait for one store. They have no next run time yet unless one was given."""

    keeps_objects = True

    def __init__(self) -> None:
        self.additions: dict[str, Addition] = {}

    def put(self, addition: Addition) -> None:
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
        self.put(Addition(job, "default", "error"))

    def update_job(self, job: Job) -> None:
        addition = self.additions.get(job.id)
        if addition is None:
            raise JobLookupError(job.id)
        addition.job._adopt(job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        job = self.lookup_job(job_id)
        if job is None:
            raise JobLookupError(job_id)
        return job._adopt(edit(job))

    def remove_job(self, job_id: str) -> None:
        if self.additions.pop(job_id, None) is None:
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        self.additions.clear()
