"""Gives facts and labels to the jobs that an earlier goscheduler has written into a Redis store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from goscheduler.jobstores.redis.facts import facts_of
from goscheduler.jobstores.redis.rows import as_text
from goscheduler.jobstores.redis.scripts import ScriptClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goscheduler.job import Job

#: How many jobs one step writes.
MAX_INDEXED = 500


def index_jobs(scripts: ScriptClient, read_jobs: Callable[[Sequence[str]], Iterator[Job]]) -> None:
    """Index all jobs, unless that was done before.

    Several processes may do so at once, while others change jobs: what they have written counts. Each process goes over
    all jobs before it uses the store, so it does not matter whether another one comes to the end.
    """
    meta = scripts.key("meta")
    if not scripts.client.hexists(meta, "unindexed"):
        return
    ids: list[str] = []
    for job_id, _ in scripts.client.hscan_iter(scripts.key("heads"), count=MAX_INDEXED):
        ids.append(as_text(job_id))
        if len(ids) >= MAX_INDEXED:
            _index(scripts, read_jobs, ids)
            ids = []
    _index(scripts, read_jobs, ids)
    scripts.client.hdel(meta, "unindexed")


def _index(scripts: ScriptClient, read_jobs: Callable[[Sequence[str]], Iterator[Job]], ids: Sequence[str]) -> None:
    rows = [text for job in read_jobs(ids) for text in (job.id, facts_of(job))]
    scripts.call("index_jobs", None, *rows)
