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
from typing import NamedTuple

import pymongo
from pymongo.errors import PyMongoError

from goscheduler._drivers.mongodb import deadline
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.mongodb.documents import LIVE, NEVER, PRIORITIES, Document
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.traits import (
    IDLE_STATES,
    MARKS,
    OUTCOME,
    QUEUE,
    SCHEDULED,
    STATES,
    TRAITS,
    called_trait,
    executor_trait,
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
_WHOLE = {"$natural": 1}
_BY_TIME = [("due.at", 1), ("_id", 1)]
_BY_ID = [("_id", 1)]


class _Key(NamedTuple):
    """A condition that an index serves."""

    hint: str
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
                (executor_trait, query.executor),
            )
            if value is not None
        ]  # fmt: skip
        self.keys = [_Key(TRAITS, {"search.traits": trait}) for trait in traits]
        if query.last_outcome is not None:
            self.keys.insert(0, _Key(OUTCOME, {"life.outcome": query.last_outcome.value}))
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
        return {"$and": [state, time_limit, *(key.condition for key in self.keys), *self.filters]}

    def indexed(self) -> list[_Key]:
        """Return the conditions of which an index tells at once how many jobs fit."""
        states = {"state": {"$in": self.states}}
        keys = [_Key(hint, {**condition, **states}) for hint, condition in self.keys]
        return [_Key(MARKS, LIVE), *keys] if self.running else keys

    def counted_by(self, executors: Sequence[str] | None) -> _Key | None:
        """Return the one condition that is all that is asked, and that an index serves."""
        if self.filters or len(self.keys) > 1 or (executors is None and not self.keys):
            return None
        if self.query.due_before is None:
            (hint, condition), *_ = self.keys or [_of_executors(executors)]
            return _Key(hint, {**condition, "state": {"$in": self.states}})
        if len(self.keys) == (self.query.executor is not None):
            return _Key(QUEUE, {**_queues(executors), "due.at": {"$lt": self.before}})
        return None

    def segments(self, executors: Sequence[str] | None, after: JobPosition | None) -> list[_Segment]:
        """Return what a page behind a position is read from."""
        if self.query.sort == "id":
            before = [] if self.query.due_before is None else [{"due.at": {"$lt": self.before}}]
            return [self._by_id(self.states, executors, after, before)] if self.states else []
        segments: list[_Segment] = []
        if SCHEDULED in self.states and (after is None or after.due < NEVER):
            segments = self._by_time(executors, after)
            after = None
        idle = [state for state in self.states if state in IDLE_STATES]
        return [*segments, self._by_id(idle, executors, after, [])] if idle else segments

    def _by_time(self, executors: Sequence[str] | None, after: JobPosition | None) -> list[_Segment]:
        """Return the jobs that wait for a time; those that have the time of the last page are apart."""
        queues = _queues(executors)
        others = [key.condition for key in self.keys if key.condition != self._executor_condition()]
        times: list[Document] = [{"due.at": {"$lt": self.before}}]
        if after is not None:
            times = [{"due.at": {"$gt": after.due, "$lt": self.before}}]
            if after.due < self.before:
                times.insert(0, {"due.at": after.due, "_id": {"$gt": after.id}})
        hint = None if executors is None else QUEUE
        return [_Segment(hint, {**queues, **part}, [*others, *self.filters], _BY_TIME) for part in times]

    def _executor_condition(self) -> Document:
        return {} if self.query.executor is None else {"search.traits": executor_trait(self.query.executor)}

    def _by_id(
        self, states: Sequence[str], executors: Sequence[str] | None, after: JobPosition | None, filters: list[Document]
    ) -> _Segment:
        hint: str | None
        (hint, bounds), *others = self.keys or [_of_executors(executors)]
        hint = None if executors is None and not self.keys else hint
        bounds = {**bounds, "state": {"$in": list(states)}}
        if after is not None:
            bounds["_id"] = {"$gt": after.id}
        return _Segment(hint, bounds, [*(key.condition for key in others), *filters, *self.filters], _BY_ID)


def _queues(executors: Sequence[str] | None) -> Document:
    if executors is None:
        return {"state": SCHEDULED}
    return {"due.executor": {"$in": list(executors)}, "due.priority": {"$in": PRIORITIES}}


def _of_executors(executors: Sequence[str] | None) -> _Key:
    """Return the condition for all jobs; each has one executor."""
    return _Key(TRAITS, {} if executors is None else {"search.traits": {"$in": list(map(executor_trait, executors))}})


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
            key, condition = question.counted_by(executors), question.condition()
            if key is not None:
                number = self._jobs.count_documents(key.condition, hint=key.hint, limit=cap + 1)
            elif (key := rarest(self._jobs, question.indexed(), self._jobs.estimated_document_count())) is not None:
                number = self._jobs.count_documents(condition, hint=key.hint, limit=cap + 1)
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
        self._give_up_at = SYSTEM_CLOCK.monotonic() + SEARCH_SECONDS

    def read(self) -> tuple[list[Document], JobPosition | None]:
        """Return the documents, one more than fit on the page; and where the search has stopped, if it gave up."""
        rows: list[Document] = []
        segments = self._question.segments(self._executors, self._query.after)
        while segments and len(rows) <= self._query.limit:
            found, end = self._read(segments.pop(0), self._query.limit + 1 - len(rows))
            rows += found
            if end is not None and self._is_late():
                return rows, end
            if end is not None:
                segments = self._question.segments(self._executors, end)
        return rows, None

    def _is_late(self) -> bool:
        return self._query.text is not None and SYSTEM_CLOCK.monotonic() > self._give_up_at

    def _read(self, segment: _Segment, count: int) -> tuple[list[Document], JobPosition | None]:
        """Return the first jobs of a segment, and up to where it was read if there may be more of them."""
        condition = segment.condition()
        if segment.hint is not None and not segment.filters:
            return self._find(segment, condition, segment.hint, count), None
        if self._few is not None:
            # Its condition names the states, or the server could not use an index that has nothing but jobs.
            return self._find(segment, {"$and": [self._few.condition, condition]}, self._few.hint, count), None
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

    def _find(self, segment: _Segment, condition: Document, index: str | Document, count: int) -> list[Document]:
        return list(self._jobs.find(condition).hint(index).sort(segment.order).limit(count))

    def _scan(self, segment: _Segment, count: int) -> list[Document]:
        if self._query.text is None:
            key = rarest(self._jobs, self._question.indexed(), self._size)
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

    @cached_property
    def _few(self) -> _Key | None:
        return few_by(self._jobs, self._question.indexed(), FEW_JOBS)

    @property
    def _may_scan(self) -> bool:
        return self._size <= MAX_SCANNED

    @cached_property
    def _size(self) -> int:
        return self._jobs.estimated_document_count()


def few_by(jobs: pymongo.collection.Collection[Document], keys: Sequence[_Key], most: int) -> _Key | None:
    """Return the condition that the fewest jobs fit, if these are not more than ``most``."""
    sizes = [jobs.count_documents(key.condition, hint=key.hint, limit=most + 1) for key in keys]
    smallest = min(sizes, default=most + 1)
    return keys[sizes.index(smallest)] if smallest <= most else None


def rarest(jobs: pymongo.collection.Collection[Document], keys: Sequence[_Key], size: int) -> _Key | None:
    """Return the condition whose jobs are fetched sooner one by one than all documents are looked through."""
    return few_by(jobs, keys, max(FEW_JOBS, size // SCAN_GAIN))


def executors_of(jobs: pymongo.collection.Collection[Document]) -> list[str] | None:
    """Return the executors that jobs name; None if the server cannot merge so many."""
    found: list[str] = []
    prefix, beyond = executor_trait(""), "executor;"
    while len(found) <= MAX_EXECUTORS:
        last = executor_trait(found[-1]) if found else prefix
        behind: Document = {"search.traits": {"$elemMatch": {"$gt": last, "$lt": beyond}}, "state": {"$in": STATES}}
        row = jobs.find_one(behind, {"search.traits": 1}, hint=TRAITS)
        if row is None:
            return found
        found.append(next(trait for trait in row["search"]["traits"] if trait.startswith(prefix)).removeprefix(prefix))
    return None


def _place(row: Document, query: JobQuery) -> JobPosition:
    """Return where a document stands in the order of a query."""
    return JobPosition(0 if query.sort == "id" else row.get("due", {}).get("at", NEVER), row["_id"])
