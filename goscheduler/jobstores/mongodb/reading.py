"""Finds and counts jobs in the MongoDB store, for people.

A page comes from **segments**, each in the order of an index: jobs that wait for a time by it, then the others by their
ids. Where an index has just the jobs that are wanted, a segment is read from it as it is. Otherwise the store takes the
cheapest of three ways: few jobs fit one of the conditions, and the server sorts these; or many jobs fit, and the next
ones in the order are enough; or else the server looks through all jobs once. A collection that is too large for that is
read on in its order. A search through text gives up after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pymongo
from pymongo.errors import PyMongoError

from goscheduler._drivers.mongodb import deadline
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.mongodb.documents import LIVE, NEVER, PRIORITIES, Document
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.traits import (
    IDLE_STATES,
    MARKS,
    QUEUE,
    SCHEDULED,
    STATES,
    called_trait,
    executor_trait,
    outcome_trait,
    pause_trait,
    tag_trait,
    words_with,
)
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import SEARCH_SECONDS, Count, JobPage, JobPosition, JobQuery
from goscheduler.times import to_micros

#: So many jobs are fetched before the server looks through all of them.
FEW_JOBS = 4000
#: A collection with more documents is never looked through as a whole for a page.
MAX_SCANNED = 250_000
#: How many jobs of a large collection are read before the store checks whether it is time to give up.
PORTION = 20_000
#: The server merges the queues of so many executors into one order; each has ten.
MAX_EXECUTORS = 20
#: How many documents are looked through in the time in which one is fetched by way of an index.
SCAN_GAIN = 4
_WHOLE = [("$natural", 1)]
_BY_TIME = [("due.at", 1), ("_id", 1)]
_BY_ID = [("_id", 1)]
_IDS = "_id_"


class _Key(NamedTuple):
    """A condition that an index serves; without a hint the server takes two of them."""

    hint: str | None
    condition: Document


class _Segment(NamedTuple):
    """Jobs in the order of an index."""

    hint: str | None
    """The index; None if there are too many executors for the server to merge."""
    bounds: Document
    """Between what they stand in the index."""
    filters: Sequence[Document]
    """What has to hold beside that."""
    order: list[tuple[str, int]]
    states: Sequence[str]

    def condition(self, end: JobPosition | None = None) -> Document:
        """Return the condition for the jobs that are wanted, up to a position."""
        last: list[Document] = []
        if end is not None and self.order is _BY_TIME:
            last = [{"due.at": {"$lte": end.due}}, {"$or": [{"due.at": {"$lt": end.due}}, {"_id": {"$lte": end.id}}]}]
        elif end is not None:
            last = [{"_id": {"$lte": end.id}}]
        return {"$and": [self.bounds, *last, *self.filters]}


class _Question:
    """What a query asks of this store."""

    def __init__(self, query: JobQuery) -> None:
        self.query = query
        traits = [
            trait(value)
            for trait, value in (
                (tag_trait, query.tag), (called_trait, query.task), (pause_trait, query.pause_id),
            )
            if value is not None
        ]  # fmt: skip
        if query.last_outcome is not None:
            traits.insert(0, outcome_trait(query.last_outcome.value))
        self.traits: list[Document] = [{"marks": trait} for trait in traits]
        self.executor: list[Document] = [] if query.executor is None else [{"lane.executor": query.executor}]
        self.running = query.state is JobState.RUNNING
        self.text = [] if query.text is None else [words_with(query.text)]
        self.states = STATES if self.running or query.state is None else [str.__str__(query.state)]
        self.before = NEVER if query.due_before is None else to_micros(query.due_before)
        if query.due_before is not None:
            self.states = [state for state in self.states if state == SCHEDULED]

    @cached_property
    def filters(self) -> list[Document]:
        """What no index has in the order of a page."""
        return [*([LIVE] if self.running else ()), *self.text]

    def condition(self) -> Document:
        """Return the condition for all that is wanted, wherever the page is."""
        time_limit = {} if self.query.due_before is None else {"due.at": {"$lt": self.before}}
        state: Document = {"state": {"$in": self.states}}
        return {"$and": [state, time_limit, *self.traits, *self.executor, *self.filters]}

    def indexed(self, states: Sequence[str]) -> list[_Key]:
        """Return the conditions of which an index tells at once how many jobs in some states fit."""
        keys = [_Key(MARKS, {**trait, "state": {"$in": list(states)}}) for trait in self.traits]
        if self.query.executor is not None:
            ways = self._by_executors([self.query.executor], states)
            keys += ways if len(ways) == 1 else [_Key(None, {"$or": [way.condition for way in ways]})]
        return [_Key(MARKS, LIVE), *keys] if self.running else keys

    def counted_by(self, executors: Sequence[str] | None) -> list[_Key]:
        """Return conditions for different jobs which are all that is asked, and which indexes serve, if there are any.
        """
        if self.filters or len(self.traits) > 1:
            return []
        if not self.traits:
            return [] if executors is None else self._by_executors(executors, self.states)
        others = self.executor or self.query.due_before is not None
        return [] if others else [_Key(MARKS, {**self.traits[0], "state": {"$in": self.states}})]

    def _by_executors(self, executors: Sequence[str], states: Sequence[str]) -> list[_Key]:
        """Return conditions for the jobs of executors: for those that wait for a time, and for the others."""
        keys = [_Key(QUEUE, {**_queues(executors), "due.at": {"$lt": self.before}})] if SCHEDULED in states else []
        idle = [state for state in states if state != SCHEDULED]
        return [*keys, _Key(MARKS, {**_idle_of(executors), "state": {"$in": idle}})] if idle else keys

    def segments(self, executors: Sequence[str] | None, after: JobPosition | None) -> list[_Segment]:
        """Return what a page behind a position is read from."""
        if self.query.sort == "id":
            return [self._by_id(self.states, executors, after)] if self.states else []
        segments: list[_Segment] = []
        if SCHEDULED in self.states and (after is None or after.due < NEVER):
            segments = self._by_time(executors, after)
            after = None
        idle = [state for state in self.states if state in IDLE_STATES]
        return [*segments, self._by_id(idle, executors, after)] if idle else segments

    def _by_time(self, executors: Sequence[str] | None, after: JobPosition | None) -> list[_Segment]:
        """Return the jobs that wait for a time; those that have the time of the last page are apart."""
        queues = _queues(executors)
        times: list[Document] = [{"due.at": {"$lt": self.before}}]
        if after is not None:
            times = [{"due.at": {"$gt": after.due, "$lt": self.before}}]
            if after.due < self.before:
                times.insert(0, {"due.at": after.due, "_id": {"$gt": after.id}})
        hint = None if executors is None else QUEUE
        filters = [*self.traits, *self.filters]
        return [_Segment(hint, {**queues, **part}, filters, _BY_TIME, [SCHEDULED]) for part in times]

    def _by_id(self, states: Sequence[str], executors: Sequence[str] | None, after: JobPosition | None) -> _Segment:
        """Return jobs in these states by their ids."""
        place: Document = {} if after is None else {"_id": {"$gt": after.id}}
        among: Document = {"state": {"$in": list(states)}}
        time_limit: list[Document] = [] if self.query.due_before is None else [{"due.at": {"$lt": self.before}}]
        if self.traits:
            filters = [*self.traits[1:], *self.executor, *time_limit, *self.filters]
            return _Segment(MARKS, {**self.traits[0], **among, **place}, filters, _BY_ID, states)
        if SCHEDULED not in states:
            hint, of_executors = (None, {}) if executors is None else (MARKS, _idle_of(executors))
            return _Segment(hint, {**of_executors, **among, **place}, self.filters, _BY_ID, states)
        # No index has the ids of all jobs but that of the collection. Other documents have ids of another type.
        place = place or {"_id": {"$gte": ""}}
        filters = [*self.executor, *time_limit, *self.filters]
        if len(states) == len(STATES):
            return _Segment(_IDS, {**among, **place}, filters, _BY_ID, states)
        return _Segment(_IDS, place, [among, *filters], _BY_ID, states)


def _queues(executors: Sequence[str] | None) -> Document:
    if executors is None:
        return {"state": SCHEDULED}
    return {"due.executor": {"$in": list(executors)}, "due.priority": {"$in": PRIORITIES}}


def _idle_of(executors: Sequence[str]) -> Document:
    """Return the condition for all jobs of executors that wait for no time; each has one executor."""
    return {"marks": {"$in": list(map(executor_trait, executors))}}


class JobReader:
    """Reads for one store."""

    def __init__(self, context: StoreContext) -> None:
        self._codec = context.codec
        self._jobs = context.collections.jobs

    def page(self, query: JobQuery) -> JobPage:
        """Return the page that a query asks for."""
        with deadline():
            rows, stopped = _Page(self._jobs, query).read()
        jobs = [self._codec.job(row) for row in rows[: query.limit]]
        if len(rows) > query.limit:
            return JobPage(jobs, _place(rows[query.limit - 1], query))
        return JobPage(jobs, stopped, stopped is None)

    def count(self, query: JobQuery, cap: int) -> Count:
        """Count at most ``cap`` jobs that fit."""
        question = _Question(query)
        if not question.states:
            return Count(0)
        with deadline():
            executors = executors_of(self._jobs) if query.executor is None else [query.executor]
            keys, condition = question.counted_by(executors), question.condition()
            size = self._jobs.estimated_document_count()
            if keys:
                number = 0
                while keys and number <= cap:
                    number += count_by(self._jobs, keys.pop(0), cap + 1)
            elif (key := rarest(self._jobs, question.indexed(question.states), size)) is not None:
                number = count_by(self._jobs, key._replace(condition={"$and": [key.condition, condition]}), cap + 1)
            elif query.text is None:
                number = self._jobs.count_documents(condition, hint=_WHOLE, limit=cap + 1)
            else:
                return self._count_in_time(condition, cap)
        return Count(min(number, cap), number <= cap)

    def _count_in_time(self, condition: Document, cap: int) -> Count:
        """Count what is found before it is time to give up."""
        number = 0
        try:
            with pymongo.timeout(SEARCH_SECONDS):
                for _ in self._jobs.find(condition, {"_id": 1}, batch_size=100).hint(_WHOLE).limit(cap + 1):
                    number += 1
        except PyMongoError as error:
            if not error.timeout:
                raise
            return Count(min(number, cap), exact=False)
        return Count(min(number, cap), number <= cap)


class _Page:
    """Reads one page."""

    def __init__(self, jobs: pymongo.collection.Collection[Document], query: JobQuery) -> None:
        self._jobs = jobs
        self._query = query
        self._question = _Question(query)
        self._executors = executors_of(jobs) if query.executor is None else [query.executor]
        self._fewest: dict[tuple[str, ...], _Key | None] = {}
        self._give_up_at = SYSTEM_CLOCK.monotonic() + SEARCH_SECONDS

    def read(self) -> tuple[list[Document], JobPosition | None]:
        """Return the documents, one more than fit on the page; and where the search has stopped, if it gave up."""
        rows: list[Document] = []
        if self._question.running and self._query.executor is None and self._few_run():
            self._executors = None  # those few are fetched; the queues would only distract the server from them
        segments = self._question.segments(self._executors, self._query.after)
        while segments and len(rows) <= self._query.limit:
            found, end = self._read(segments.pop(0), self._query.limit + 1 - len(rows))
            rows += found
            if end is not None and self._is_late():
                return rows, end
            if end is not None:
                segments = self._question.segments(self._executors, end)
        return rows, None

    def _few_run(self) -> bool:
        return count_by(self._jobs, _Key(MARKS, LIVE), FEW_JOBS + 1) <= FEW_JOBS

    def _is_late(self) -> bool:
        return self._query.text is not None and SYSTEM_CLOCK.monotonic() > self._give_up_at

    def _read(self, segment: _Segment, count: int) -> tuple[list[Document], JobPosition | None]:
        """Return the first jobs of a segment, and up to where it was read if there may be more of them."""
        condition = segment.condition()
        if segment.hint is not None and not segment.filters:
            return self._find(segment, condition, segment.hint, count), None
        few = self._few(segment)
        if few is not None:
            return self._find(segment, {"$and": [few.condition, condition]}, few.hint, count), None
        if segment.hint is None:
            return self._find(segment, condition, _WHOLE, count), None
        end = self._end_of_portion(segment, segment.hint)
        found = self._find(segment, segment.condition(end), segment.hint, count)
        if end is None or len(found) == count or not self._may_scan:
            return found, None if len(found) == count else end
        try:
            return self._scan(segment, count), None
        except PyMongoError as error:
            if self._query.text is None or not error.timeout:
                raise
            return found, end

    def _find(self, segment: _Segment, condition: Document, index: Any, count: int) -> list[Document]:
        return list(self._jobs.find(condition, hint=index).sort(segment.order).limit(count))

    def _scan(self, segment: _Segment, count: int) -> list[Document]:
        if self._query.text is None:
            key = rarest(self._jobs, self._question.indexed(segment.states), self._size)
            if key is not None:
                return self._find(segment, {"$and": [key.condition, segment.condition()]}, key.hint, count)
            return self._find(segment, segment.condition(), _WHOLE, count)
        with pymongo.timeout(max(0.01, self._give_up_at - SYSTEM_CLOCK.monotonic())):
            return self._find(segment, segment.condition(), _WHOLE, count)

    def _end_of_portion(self, segment: _Segment, hint: str) -> JobPosition | None:
        """Return where the next portion of a segment ends; None if less than that is left."""
        size = FEW_JOBS if self._may_scan else PORTION
        if self._may_scan and segment.order is _BY_ID and self._query.sort != "id":
            size = max(size, self._size // SCAN_GAIN)  # or all would be looked through again
        rows = self._jobs.find(segment.bounds, {"due.at": 1}).hint(hint).sort(segment.order)
        last = list(rows.skip(size - 1).limit(1))
        return _place(last[0], self._query) if last else None

    def _few(self, segment: _Segment) -> _Key | None:
        """Return the condition that few jobs fit; two segments of one page may have the same states."""
        states = tuple(segment.states)
        if states not in self._fewest:
            self._fewest[states] = few_by(self._jobs, self._question.indexed(states), FEW_JOBS)
        return self._fewest[states]

    @property
    def _may_scan(self) -> bool:
        return self._size <= MAX_SCANNED

    @cached_property
    def _size(self) -> int:
        return self._jobs.estimated_document_count()


def count_by(jobs: pymongo.collection.Collection[Document], key: _Key, most: int) -> int:
    """Return how many jobs fit a condition, counted up to ``most``."""
    hint: dict[str, Any] = {} if key.hint is None else {"hint": key.hint}
    return int(jobs.count_documents(key.condition, limit=most, **hint))


def few_by(jobs: pymongo.collection.Collection[Document], keys: Sequence[_Key], most: int) -> _Key | None:
    """Return the condition that the fewest jobs fit, if these are not more than ``most``."""
    sizes = [count_by(jobs, key, most + 1) for key in keys]
    smallest = min(sizes, default=most + 1)
    return keys[sizes.index(smallest)] if smallest <= most else None


def rarest(jobs: pymongo.collection.Collection[Document], keys: Sequence[_Key], size: int) -> _Key | None:
    """Return the condition whose jobs are fetched sooner one by one than all documents are looked through."""
    return few_by(jobs, keys, max(FEW_JOBS, size // SCAN_GAIN))


def executors_of(jobs: pymongo.collection.Collection[Document]) -> list[str] | None:
    """Return the executors that jobs name; None if the server cannot merge so many."""
    found: set[str] = set()
    for following in (_executor_of_a_queue, _executor_of_idle_jobs):
        executor = following(jobs, "")
        while executor is not None:
            found.add(executor)
            if len(found) > MAX_EXECUTORS:
                return None
            executor = following(jobs, executor)
    return sorted(found)


def _executor_of_a_queue(jobs: pymongo.collection.Collection[Document], last: str) -> str | None:
    """Return the next executor that a job names which waits for a time."""
    behind: Document = {"due.executor": {"$gt": last}, "due.at": {"$lt": NEVER}}
    row = jobs.find_one(behind, {"_id": 0, "due.executor": 1}, hint=QUEUE, sort=[("due.executor", 1)])
    return None if row is None else row["due"]["executor"]


def _executor_of_idle_jobs(jobs: pymongo.collection.Collection[Document], last: str) -> str | None:
    """Return the next executor that a job names which waits for no time."""
    prefix = executor_trait("")
    behind: Document = {"marks": {"$elemMatch": {"$gt": executor_trait(last), "$lt": "executor;"}}}
    row = jobs.find_one(behind, {"marks": 1}, hint=MARKS)
    return None if row is None else next(mark.removeprefix(prefix) for mark in row["marks"] if mark.startswith(prefix))


def _place(row: Document, query: JobQuery) -> JobPosition:
    """Return where a document stands in the order of a query."""
    return JobPosition(0 if query.sort == "id" else row.get("due", {}).get("at", NEVER), row["_id"])
