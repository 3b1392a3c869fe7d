"""All jobs of a store on etcd or ZooKeeper, in this process, in the orders of lists.

The servers find keys by their names alone. So the first question of a process reads all jobs, and each later one what
has changed since. Statistics of all jobs are read only for the questions that need them; others read those of a page.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.jobstores._keyvalue.jobs import Jobs
from goscheduler.jobstores._keyvalue.server import KeyValue, Mirror
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import SORTS, Count, JobPage, JobPosition, JobQuery

if TYPE_CHECKING:
    from goscheduler.job import Job

Placed = tuple[JobPosition, str]
"""Where a job stands, and the name of its row."""
#: The states that follow from how the last attempt ended.
_STATES_OF_OUTCOMES = (JobState.COMPLETED, JobState.FAILED)
_ORDERS = {sort: JobQuery(sort=sort) for sort in SORTS}


class Copies(NamedTuple):
    """What is kept of a server, and what follows from it."""

    rows: Mirror
    stats: Mirror
    jobs: dict[str, Job]
    """Name of its row → a job, which nobody else gets."""
    ordered: dict[str, list[Placed]]
    """Order → all jobs."""


class JobIndex:
    """The jobs of one store."""

    def __init__(self, server: KeyValue, jobs: Jobs) -> None:
        self._server = server
        self._jobs = jobs
        self._copies: Copies | None = None
        self._lock = threading.Lock()

    def page(self, query: JobQuery, running: Collection[str]) -> JobPage:
        """Return a page of the jobs that fit."""
        with self._lock:
            copies = self._refreshed(query)
            ordered = copies.ordered[query.sort]
            first = 0 if query.after is None else bisect_right(ordered, query.after, key=itemgetter(0))
            found = list(islice(self._fitting(copies, query, running, first), query.limit + 1))
            rows = [(name, copies.rows.held[name]) for _, name in found[: query.limit]]
        stats = self._server.read([("lives", name) for name, _ in rows])
        jobs = [
            self._jobs.read(name, row, each) for (name, row), each in zip(rows, stats, strict=True) if row is not None
        ]
        return JobPage(jobs, found[query.limit - 1][0] if len(found) > query.limit else None)

    def count(self, query: JobQuery, cap: int, running: Collection[str]) -> Count:
        """Count the jobs that fit, at most ``cap`` of them."""
        with self._lock:
            number = sum(1 for _ in islice(self._fitting(self._refreshed(query), query, running), cap + 1))
        return Count(min(number, cap), number <= cap)

    def _fitting(
        self, copies: Copies, query: JobQuery, running: Collection[str], first: int = 0
    ) -> Iterator[Placed]:
        for placed in islice(copies.ordered[query.sort], first, None):
            if query.matches(copies.jobs[placed[1]], running):
                yield placed

    def _refreshed(self, query: JobQuery) -> Copies:
        """Return the copies as they should be now. If a server does not answer, they are read anew the next time."""
        copies, self._copies = self._copies, None
        if copies is None:
            rows, stats = (self._server.mirror((kind,), values=True) for kind in ("jobs", "lives"))
            copies = Copies(rows, stats, {}, {sort: [] for sort in SORTS})
        changed = copies.rows.refresh()
        if query.last_outcome is not None or query.state in _STATES_OF_OUTCOMES:
            changed |= copies.stats.refresh()
        for name in changed:
            self._update(copies, name)
        self._copies = copies
        return copies

    def _update(self, copies: Copies, name: str) -> None:
        before = copies.jobs.pop(name, None)
        if before is not None:
            for sort, ordered in copies.ordered.items():
                del ordered[bisect_left(ordered, (_ORDERS[sort].place(before), name))]
        row = copies.rows.held.get(name)
        if row is not None:
            job = copies.jobs[name] = self._jobs.read(name, row, copies.stats.held.get(name))
            for sort, ordered in copies.ordered.items():
                insort(ordered, (_ORDERS[sort].place(job), name))
