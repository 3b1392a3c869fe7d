"""Finds jobs and runs that are missing from the lists of the Redis store, and puts them back, page by page."""

from __future__ import annotations

from goscheduler.jobstores.base import Requeued
from goscheduler.jobstores.redis.scripts import ScriptClient

_STEPS = ("requeue_jobs", "requeue_runs")
_BEGINNING = "0"
#: How many pages one call reads at most.
_MAX_PAGES = 10


class Orphans:
    """Walks over all jobs, then over all runs of one store. Each page is one atomic step."""

    def __init__(self, scripts: ScriptClient) -> None:
        self._scripts = scripts
        self._step = 0
        self._cursor = _BEGINNING

    def requeue(self, limit: int) -> Requeued:
        """Check about ``limit`` jobs and runs, beginning where the last call stopped."""
        ids: list[str] = []
        left = limit
        while left > 0:
            self._cursor, looked_at, found = self._scripts.call_json(_STEPS[self._step], None, self._cursor, left)
            ids += found
            left -= max(looked_at, limit // _MAX_PAGES)  # a page may be empty though others follow
            if self._cursor == _BEGINNING:
                self._step = (self._step + 1) % len(_STEPS)
                if self._step == 0:
                    return Requeued(ids)
        return Requeued(ids, more=True)
