"""Pages and counts of jobs in the Redis store.

A page is read from the sorted sets that have the fewest jobs, or in the order of the times of all jobs, in portions,
each of which the server sifts. A job that an owner is planning at this moment stands where it would if that owner died.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.redis.merging import MAX_LOOKED_AT, JobList, Place, Portion, merged
from goscheduler.jobstores.redis.rows import RunState, as_text, dumps
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.jobstores.redis.selection import Selection, Source
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import NEVER, SEARCH_SECONDS, Count, JobPage, JobPosition, JobQuery, RunCounts
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job

#: So many jobs are read and put in order as a whole, if all that fit are among them.
MAX_SORTED = 2000
#: How many jobs are looked at first where a filter may refuse some.
FIRST_SIFTED = 200
#: At least so many jobs are read together.
MIN_READ = 20


class JobReader:
    """Finds and counts the jobs of one store."""

    def __init__(self, scripts: ScriptClient, read_jobs: Callable[[Sequence[str]], Iterator[Job]]) -> None:
        self._scripts = scripts
        self._read_jobs = read_jobs

    def find(self, query: JobQuery) -> JobPage:
        """Return a page of the jobs that fit."""
        deadline = None if query.text is None else SYSTEM_CLOCK.monotonic() + SEARCH_SECONDS
        found: list[tuple[Place, Job]] = []
        for portion in self._portions(query):
            for chunk in _chunks(portion.places, query.limit + 1 - len(found)):
                jobs = {job.id: job for job in self._read_jobs([job_id for _, job_id in chunk])}
                fitting = ((place, jobs[place[1]]) for place in chunk if place[1] in jobs)
                found += [(place, job) for place, job in fitting if query.matches(job, jobs)]
                if len(found) > query.limit:
                    page = found[: query.limit]
                    return JobPage([job for _, job in page], JobPosition(*page[-1][0]) if page else query.after)
            if deadline is not None and portion.end is not None and SYSTEM_CLOCK.monotonic() > deadline:
                return JobPage([job for _, job in found], JobPosition(*portion.end), complete=False)
        return JobPage([job for _, job in found])

    def _portions(self, query: JobQuery) -> Iterator[Portion]:
        """Yield the places of all jobs that may fit, in the order of the query."""
        selection, live = self._survey(query)
        candidates = selection.labels
        if selection.why_idle is not None:
            candidates.append(Source(selection.idle, frozenset({"state", "executor"})))
        if query.sort == "id":
            candidates.append(selection.kinds)
        sizes = self._sizes(candidates)
        smallest = candidates[sizes.index(min(sizes))] if sizes else selection.lanes
        if query.state is JobState.RUNNING and live <= min([MAX_SORTED, *sizes]):
            yield self._sorted(query, self._running_places(selection))
        elif query.sort == "id" or selection.why_idle is not None:
            time = 0 if query.sort == "id" else NEVER
            yield from self._walk(query, smallest.lists, selection.filters(smallest.covers), time)
        elif sizes and min(sizes) <= MAX_SORTED:
            yield self._sorted(query, self._places_of(smallest, selection))
        else:
            yield from self._in_order(query, selection)

    def _in_order(self, query: JobQuery, selection: Selection) -> Iterator[Portion]:
        """Yield the places of all jobs: of those that wait for a time, then of the others."""
        filters = selection.filters(selection.lanes.covers)
        if query.after is None or query.after.due < NEVER:
            for portion in self._walk(query, selection.due, filters, None):
                yield portion._replace(end=portion.end or (NEVER, ""))
        yield from self._walk(query, selection.idle, filters, NEVER)

    def _survey(self, query: JobQuery) -> tuple[Selection, int]:
        by_kind = query.sort == "id" or query.task is not None
        names = ["due", "idle", "kinds"] if by_kind else ["due", "idle"]
        found, live = self._scripts.call_json("survey", None, dumps(names))
        return Selection(query, {"kinds": (), **found}), live

    def _sizes(self, sources: Sequence[Source]) -> list[int]:
        """Return how many jobs each source has."""
        lists = [each for source in sources for each in source.lists]
        if not lists:
            return [0] * len(sources)
        arguments = [[each.key, False if each.end is None else str(each.end)] for each in lists]
        sizes = iter(self._scripts.call_json("sizes", None, dumps(arguments)))
        return [sum(next(sizes) for _ in source.lists) for source in sources]

    def _walk(
        self, query: JobQuery, lists: Sequence[JobList], filters: Sequence[Any], time: int | None
    ) -> Iterator[Portion]:
        """Yield what lists have behind the page before, in order. ``time`` is that of all of their jobs, if they are
        ordered by id alone."""
        after: Place | None = None
        if query.after is not None and time is None:
            after = query.after
        elif query.after is not None and query.after.due == time:
            after = 0, query.after.id
        size = min(FIRST_SIFTED if filters else query.limit + 1, MAX_LOOKED_AT)
        for portion in merged(self._scripts, lists, after, filters, size):
            if time is None:
                yield portion
            else:
                places = [(time, job_id) for _, job_id in portion.places]
                yield Portion(places, None if portion.end is None else (time, portion.end[1]))

    def _sorted(self, query: JobQuery, places: Iterable[Place]) -> Portion:
        if query.sort == "id":
            places = [(0, job_id) for _, job_id in places]
        return Portion(sorted(place for place in set(places) if query.after is None or place > query.after), None)

    def _places_of(self, source: Source, selection: Selection) -> Iterator[Place]:
        """Yield the places of all jobs of a source that no filter refuses."""
        filters = dumps(selection.filters(source.covers))
        for answer in self._walked(source, "due", filters):
            yield from _places(*answer[:2])

    def _running_places(self, selection: Selection) -> Iterator[Place]:
        for answer in self._sifted_running(selection, "due"):
            yield from _places(*answer)

    def _sifted_running(self, selection: Selection, wanted: str) -> Iterator[Any]:
        ids = [as_text(job_id) for job_id in self._scripts.client.hkeys(self._scripts.key("live"))]
        filters = dumps(selection.filters(frozenset()))
        for chunk in _chunks(ids, MAX_LOOKED_AT):
            yield self._scripts.call_json("sift", None, dumps(chunk), wanted, filters)

    def _walked(self, source: Source, wanted: str, filters: str) -> Iterator[Any]:
        """Yield what the server answers about each portion of each list."""
        for each in source.lists:
            last: Any = False, False
            while last:
                argument = [each.key, *last, False if each.end is None else str(each.end)]
                (answer,) = self._scripts.call_json("walk", None, dumps([argument]), MAX_LOOKED_AT, wanted, filters)
                yield answer
                last = answer[2]

    # Counts

    def count(self, query: JobQuery, cap: int) -> Count:
        """Count the jobs that fit; at most ``cap`` of them."""
        number = 0
        for more in self._counts(query):
            number += more
            if number > cap:
                return Count(cap, exact=False)
        return Count(number)

    def _counts(self, query: JobQuery) -> Iterator[int]:
        selection, live = self._survey(query)
        candidates = [*selection.labels, selection.lanes]
        sizes = self._sizes(candidates)
        if query.state is JobState.RUNNING and live <= min(sizes):
            for answer in self._sifted_running(selection, "count"):
                yield answer[0]
            return
        source = candidates[sizes.index(min(sizes))]
        filters = selection.filters(source.covers)
        if not filters:
            yield min(sizes)
            return
        for answer in self._walked(source, "count", dumps(filters)):
            yield answer[0]

    # Runs

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        """Return job id → how many of its runs have not ended, for those of these jobs that have any."""
        if not job_ids:
            return {}
        with self._scripts.client.pipeline(transaction=False) as pipeline:
            pipeline.hmget(self._scripts.key("live"), job_ids)
            for job_id in job_ids:
                pipeline.hkeys(self._scripts.key(f"pending:{job_id}"))
            live_texts, *pending = pipeline.execute()
        run_ids = [run_id for ids in pending for run_id in ids]
        due: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        limit = to_micros(now)
        for chunk in _chunks(run_ids, MAX_LOOKED_AT):
            texts = self._scripts.client.hmget(self._scripts.key("run_heads"), chunk)
            for state in (RunState.read(as_text(text)) for text in texts if text is not None):
                if not state.owner:
                    (due if int(state.due) <= limit else waiting)[state.job_id] += 1
        live = {
            job_id: as_text(text).count("\0") - 1 for job_id, text in zip(job_ids, live_texts, strict=True) if text
        }  # fmt: skip
        found = live.keys() | due.keys() | waiting.keys()
        return {job_id: RunCounts(live.get(job_id, 0), due[job_id], waiting[job_id]) for job_id in found}


def _places(ids: Sequence[str], times: Sequence[str]) -> Iterator[Place]:
    for job_id, time in zip(ids, times, strict=True):
        yield (NEVER if time == "-1" else int(time)), job_id


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    size = max(size, MIN_READ)
    for first in range(0, len(items), size):
        yield items[first : first + size]
