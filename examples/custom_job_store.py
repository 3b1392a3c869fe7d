"""A job store of your own: ten small methods. Here the jobs are lines of a JSON file and survive a restart.

The base class does the rest for one process: planning, owning and finishing runs.
"""

from __future__ import annotations

import json
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from goscheduler import BackgroundScheduler, codec
from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore


class JSONFileJobStore(BaseJobStore):
    """Keeps the jobs in one JSON file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        if not self.path.exists():
            self._write({})

    def shutdown(self) -> None:
        """Nothing to close: every change was written when it was made."""

    def lookup_job(self, job_id: str) -> Job | None:
        state = self._read().get(job_id)
        return self._job(state) if state is not None else None

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return [job for job in self.get_all_jobs() if job.next_run_time is not None and job.next_run_time <= now]

    def get_next_run_time(self) -> datetime | None:
        return min((job.next_run_time for job in self.get_all_jobs() if job.next_run_time is not None), default=None)

    def get_all_jobs(self) -> list[Job]:
        jobs = [self._job(state) for state in self._read().values()]
        return sorted(jobs, key=lambda job: (job.next_run_time is None, job.next_run_time or 0, job.id))

    def add_job(self, job: Job) -> None:
        states = self._read()
        if job.id in states:
            raise ConflictingIdError(job.id)
        self._write({**states, job.id: codec.encode(job.__getstate__())})

    def update_job(self, job: Job) -> None:
        states = self._read()
        if job.id not in states:
            raise JobLookupError(job.id)
        self._write({**states, job.id: codec.encode(job.__getstate__())})

    def remove_job(self, job_id: str) -> None:
        states = self._read()
        if states.pop(job_id, None) is None:
            raise JobLookupError(job_id)
        self._write(states)

    def remove_all_jobs(self) -> None:
        self._write({})

    def _job(self, state: Any) -> Job:
        job = Job.__new__(Job)
        job.__setstate__(codec.decode(state))
        job._scheduler, job._jobstore_alias = self._scheduler, self._alias
        return job

    def _read(self) -> dict[str, Any]:
        states: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return states

    def _write(self, states: dict[str, Any]) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(states, indent=1), encoding="utf-8")
        fresh.replace(self.path)  # a crash leaves the old file or the new one, never half of one


def remind(what: str) -> None:
    print(f"Remember: {what}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.json"
        first = BackgroundScheduler(jobstores={"default": JSONFileJobStore(path)}, timezone="UTC")
        first.start()
        first.add_job(remind, "cron", hour=8, args=["water the plants"], id="plants")
        first.shutdown()

        second = BackgroundScheduler(jobstores={"default": JSONFileJobStore(path)}, timezone="UTC")
        second.start()
        (job,) = second.get_jobs()
        print(f"After the restart: {job.name}{job.args} on {job.trigger}, at {job.next_run_time:%H:%M}")
        second.shutdown()


if __name__ == "__main__":
    main()
