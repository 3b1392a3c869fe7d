"""Lists of jobs for people: pages, counts, and the states of all jobs of a page, over one store or several."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from goscheduler.runs.model import JobState
from goscheduler.runs.queries import Count, JobPage, JobPosition
from goscheduler.schedulers._diagnosis import state_by, state_facts_of

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.queries import JobQuery
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._jobs import Jobs


class JobLists:
    """The jobs of one scheduler as people ask for them: in its stores while it runs, else those that wait for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _jobs(self) -> Jobs:
        return self._engine.jobs

    def find(self, query: JobQuery, jobstore: str | None = None) -> JobPage:
        """Return a page of the jobs that fit, of one store or of all in one order.

        Of several stores the page is longer than is wanted where jobs of the same place would be torn apart.
        """
        pages = [store.find_jobs(query) for _, store in self._jobs.places(jobstore)]
        if len(pages) == 1:
            return pages[0]
        ends = [page.next for page in pages if page.next is not None]
        horizon = min(ends, default=None)  # behind it, a store may have jobs that its page does not show
        placed = list(merge(*([(query.place(job), job) for job in page.jobs] for page in pages), key=itemgetter(0)))
        shown = [each for each in placed if horizon is None or each[0] <= horizon]
        cut = _cut([place for place, _ in shown], query.limit)
        next_place = shown[cut - 1][0] if cut < len(shown) else horizon
        return JobPage([job for _, job in shown[:cut]], next_place, all(page.complete for page in pages))

    def all(self, query: JobQuery, jobstore: str | None, limit: int | None) -> list[Job]:
        """Return the jobs that fit in order, at most ``limit`` of them."""
        found: list[Job] = []
        while limit is None or len(found) < limit:
            most = query.limit if limit is None else min(query.limit, limit - len(found))
            page = self.find(query._replace(limit=most), jobstore)
            found += page.jobs
            if page.next is None:
                break
            query = query._replace(after=page.next)
        return found[:limit]

    def count(self, query: JobQuery, cap: int, jobstore: str | None = None) -> Count:
        """Count the jobs that fit, at most ``cap`` of them."""
        number, exact = 0, True
        for _, store in self._jobs.places(jobstore):
            found = store.count_jobs(query, max(1, cap - number))
            number, exact = number + found.number, exact and found.exact
            if number > cap or not exact:
                break
        return Count(min(number, cap), exact and number <= cap)

    def states(self, jobs: Collection[Job], firing: bool) -> list[JobState]:
        """Return where each of several jobs stands, asking each store a constant number of times."""
        states: dict[int, JobState] = {}
        for alias, of_store in groupby(sorted(jobs, key=_alias_of), key=_alias_of):
            for facts in state_facts_of(self._engine, alias, list(of_store), firing):
                states[id(facts.job)] = state_by(facts)
        return [states[id(job)] for job in jobs]


def _alias_of(job: Job) -> str:
    return job._jobstore_alias or ""


def _cut(places: Sequence[JobPosition], limit: int) -> int:
    """Return how many places a page has, so that no two equal ones are torn apart."""
    cut = min(limit, len(places))
    while 0 < cut < len(places) and places[cut] == places[cut - 1]:
        cut += 1
    return cut
