"""Jobs that have fired for the last time and were kept, in a store that serves one process."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.records import Retention


def note_whether_finished(store: BaseJobStore, job: Job) -> None:
    """Remember a job that was just written if it is over, so that nobody has to read all jobs to find it."""
    finished = store._runs.finished
    if finished is not None and job.stats.finished_at is not None:
        finished.add(job.id)


def prune(store: BaseJobStore, retention: Retention, now: datetime, limit: int) -> list[str]:
    """Remove at most ``limit`` jobs that are over and not to be kept any longer, and return their ids."""
    runs = store._runs
    with runs.lock:
        finished, removed = _finished_jobs(store), []
        for job_id in list(finished):
            job = store.lookup_job(job_id)
            if job is None or job.stats.finished_at is None:
                finished.discard(job_id)
            elif retention.has_outlived(store.stats_of(job), now) and not runs.live(job_id) + runs.pending(job_id):
                store.remove_job(job_id)
                runs.forget_job(job_id)
                removed.append(job_id)
            if len(removed) >= limit:
                break
        finished.difference_update(removed)
        return removed


def _finished_jobs(store: BaseJobStore) -> set[str]:
    if store._runs.finished is None:
        store._runs.finished = {job.id for job in store.get_all_jobs() if job.stats.finished_at is not None}
    return store._runs.finished
