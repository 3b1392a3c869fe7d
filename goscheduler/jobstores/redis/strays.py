"""Jobs and runs of the Redis store that are in none of its lists: found and put back, some at a time."""

from __future__ import annotations

from goscheduler.jobstores.base import Requeued
from goscheduler.jobstores.redis.scripts import Link

_STEPS = ("put_back_jobs", "put_back_runs")
_BEGINNING = "0"
#: How many pages one call looks at, at most.
_MOST_PAGES = 10


class Strays:
    """Walks over all jobs, then over all runs of one store. Each page is one step, so that no firing comes between."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._step = 0
        self._cursor = _BEGINNING

    def put_back(self, limit: int) -> Requeued:
        """Look at about ``limit`` jobs and runs, from where the last call has stopped."""
        ids: list[str] = []
        left = limit
        while left > 0:
            self._cursor, looked_at, found = self._link.ask(_STEPS[self._step], None, self._cursor, left)
            ids += found
            left -= max(looked_at, limit // _MOST_PAGES)  # a page may be empty though others follow
            if self._cursor == _BEGINNING:
                self._step = (self._step + 1) % len(_STEPS)
                if self._step == 0:
                    return Requeued(ids)
        return Requeued(ids, more=True)
