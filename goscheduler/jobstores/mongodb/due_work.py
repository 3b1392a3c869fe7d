"""Reads what there is to do in the MongoDB store: one question for most rounds, and the documents that are due.

An index scan also steps over deleted entries, which MongoDB keeps for its snapshots for five minutes. With a hundred
firings a second these are 30,000, and a search that finds nothing steps over all of them, for each queue and each mark
that it asks for. So each queue ends in an entry that stays, at a time that never comes. The store also remembers for a
second the time before which no job is due, unless this process changes a job or hears that another process did.

Several processes that fire at the head of one queue would take the same documents, and all but one would lose. After
a round in which a process has lost many, it asks for **its share** first: documents differ in the last digit of their
versions, and each live process has digits of its own. The shares rotate with the clock, so that no document depends on
one process; a process that finds too few in its share reads from the head of the queue again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.mongodb.documents import (
    ANY_BLOCKED,
    NEVER,
    PRIORITIES,
    Document,
    end_mark,
    queue_ends,
    rank_in,
)
from goscheduler.jobstores.mongodb.writer import Collections, duplicates
from goscheduler.times import EPOCH, UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

#: The server's clock in microseconds; it is exact to a millisecond.
SERVER_NOW: Document = {"$multiply": [{"$toLong": "$$NOW"}, 1000]}
META = {"_id": "schema"}
#: How many documents one round takes at most: all of it has to be done within one deadline.
MAX_DOCUMENTS_PER_ROUND = 1000
#: For how long the store relies on the time before which no job was due.
START_KNOWN_FOR = timedelta(seconds=1)
#: For how long a process asks for its share first after it has lost many documents.
SHARED_FOR = timedelta(seconds=10)
#: For how long a share belongs to one process.
SHARE_TURN_SECONDS = 5
_DIGITS = "0123456789abcdef"
_LONG_AGO = -(1 << 62)


class DueWork(NamedTuple):
    """What there is to do, for executors that have room."""

    now: datetime
    job_due: int | None
    run_due: int | None
    jobs_left: bool
    """Whether a job is due for an executor that has no room."""
    runs_left: bool
    """The same of a pending run."""
    to_cancel: bool
    """Whether a run of this owner has a cancel request."""
    blocked: bool
    """Whether runs wait until others have ended."""


class _Start(NamedTuple):
    """Where the jobs begin."""

    since: int
    """No job of these executors and tasks is due before."""
    executors: frozenset[str]
    tasks: Sequence[str]
    changes: int
    found_at: datetime


class DueWorkReader:
    """Reads for one store; ``hears`` tells whether this process hears of the changes of others."""

    def __init__(self, collections: Collections, server_time: bool, hears: Callable[[], bool]) -> None:
        self._collections = collections
        self._server_time = server_time
        self._hears = hears
        self._changes = 0
        self._start = _Start(_LONG_AGO, frozenset(), (), 0, EPOCH)
        self._executors_with_ends: set[str] = set()
        self._now = EPOCH
        self._share_until = EPOCH
        self._owners: Sequence[str] = ()
        """The owners that are alive, by the last peek."""

    def forget(self) -> None:
        """Rely on nothing that was read: a job may be due earlier."""
        self._changes += 1

    def peek(self, request: FireRequest) -> DueWork:
        """Return what there is to do."""
        self._write_queue_ends(request.room.keys() - self._executors_with_ends)
        start = self._known_start(request)
        steps: list[Document] = [{"$match": META}, {"$project": {"_id": 0, "at": SERVER_NOW}}]
        for with_room in (True, False):
            executors = [name for name, room in request.room.items() if (room > 0) is with_room]
            for place in ("due", "ready") if executors else ():
                first: Document = {"$project": {"_id": 0, "at": f"${place}.at", "what": f"{place} {with_room}"}}
                since = start.since if place == "due" else _LONG_AGO
                steps.append(self._also([*_earliest(place, executors, request.tasks, since), {"$limit": 1}, first]))
        for what, mark in (("end", end_mark(request.owner)), ("held", ANY_BLOCKED)):
            found_one: Document = {"$project": {"_id": 0, "what": what}}
            steps.append(self._also([{"$match": {"marks": mark}}, {"$limit": 1}, found_one]))
        steps.append(self._also_owners())
        found: dict[Any, Any] = {row.get("what"): row.get("at") for row in self._collections.meta.aggregate(steps)}
        self._now = now = from_micros(found[None], UTC) if self._server_time else request.now
        self._owners = sorted({request.owner, *found.get("owners", ())})
        at = to_micros(now)
        if request.room:
            times = [found[what] for what in ("due True", "due False") if what in found]
            self._start = start._replace(since=min(times, default=at))
        jobs_left, runs_left = (found.get(f"{place} False", at + 1) <= at for place in ("due", "ready"))
        return DueWork(
            now, found.get("due True"), found.get("ready True"), jobs_left, runs_left, "end" in found, "held" in found
        )

    def peek_after(self, request: FireRequest, runs: Sequence[Run], work: DueWork) -> DueWork:
        """Return what there is to do after ``runs`` have taken their room.

        Where there is no room left, or the round was full, that is known already.
        """
        rest = request.after(runs)
        if any(free > 0 for free in rest.room.values()):
            return self.peek(rest) if len(runs) < MAX_DOCUMENTS_PER_ROUND else work
        runs_left = work.runs_left or (work.run_due is not None and work.run_due <= to_micros(work.now))
        return work._replace(job_due=None, run_due=None, jobs_left=True, runs_left=runs_left)

    def _known_start(self, request: FireRequest) -> _Start:
        """Return where the jobs begin, by an earlier peek if nothing can have changed since."""
        before = self._start
        fresh = _Start(_LONG_AGO, frozenset(request.room), request.tasks, self._changes, request.now)
        same = before._replace(since=_LONG_AGO, found_at=request.now) == fresh
        recent = timedelta(0) <= request.now - before.found_at < START_KNOWN_FOR
        return before if same and recent and self._hears() else fresh

    def now(self, now: datetime) -> datetime:
        """Return the present moment, by the server's clock if that is the one to go by."""
        if not self._server_time:
            return now
        (row,) = self._collections.meta.aggregate([{"$match": META}, {"$project": {"at": SERVER_NOW}}])
        return from_micros(row["at"], UTC)

    def due(self, place: str, request: FireRequest, now: datetime) -> list[Document]:
        """Return documents with something due at ``place``, the lowest rank first, not more than there is room for."""
        found: list[Document] = []
        for executor, room in request.room.items():
            count = min(room, MAX_DOCUMENTS_PER_ROUND - len(found))
            if count > 0:
                found += self._ranked(place, executor, count, request, now)
        return found

    def _ranked(self, place: str, executor: str, count: int, request: FireRequest, now: datetime) -> list[Document]:
        """Return the first in the queue; while processes are in each other's way, the first of our share."""
        for share in (*self._share(request.owner), {}):
            documents = self._first(place, executor, count, request, now, share)
            if len(documents) == count:
                break
        return documents

    def _first(
        self, place: str, executor: str, count: int, request: FireRequest, now: datetime, share: Document
    ) -> list[Document]:
        """Return the first in the queue: by time, and of more urgent priorities what time alone has hidden."""
        found: dict[str, Document] = {}
        priorities: Sequence[int] = PRIORITIES
        since = self._known_start(request).since if place == "due" else _LONG_AGO
        while priorities:
            steps = _earliest(place, [executor], request.tasks, since, to_micros(now), priorities)
            steps[0]["$match"].update(share)
            rows = list(self._collections.jobs.aggregate([*steps, {"$limit": count}], batchSize=count + 1))
            found.update((row["_id"], row) for row in rows)
            if len(rows) < count:
                break
            # What is left is not earlier than these, so it goes before them only if it is more urgent.
            priorities = PRIORITIES[: max(row[place]["priority"] for row in rows)]
        return sorted(found.values(), key=lambda document: rank_in(document[place]))[:count]

    def _share(self, owner: str) -> list[Document]:
        """Return the condition for our share, if processes are in each other's way."""
        if self._now >= self._share_until or owner not in self._owners or len(self._owners) < 2:
            return []
        processes = min(len(self._owners), len(_DIGITS))
        turn = (self._owners.index(owner) + to_micros(self._now) // (SHARE_TURN_SECONDS * 1_000_000)) % processes
        return [{"v": {"$regex": f"[{_DIGITS[turn::processes]}]$"}}]

    def took(self, made: int, tried: int) -> None:
        """Note how many of the documents that this process tried to change others had not changed meanwhile."""
        if made * 8 < tried * 7:
            self._share_until = self._now + SHARED_FOR

    def count_due_beside(self, executors: Collection[str], until: datetime) -> dict[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        due = {"due.at": {"$lte": to_micros(until)}, "due.executor": {"$nin": list(executors)}}
        counted = {"_id": "$due.executor", "count": {"$sum": 1}}
        found = self._collections.jobs.aggregate([{"$match": due}, {"$group": counted}])
        return {document["_id"]: document["count"] for document in found}

    def _write_queue_ends(self, executors: Collection[str]) -> None:
        """Write the ends of the queues of executors, unless another process has done so before."""
        if not executors:
            return
        try:
            # They make peeks quicker and nothing else, so the process does not wait until the majority has them.
            jobs = self._collections.jobs.with_options(write_concern=WriteConcern(w=1))
            jobs.insert_many(queue_ends(executors), ordered=False)
        except BulkWriteError as error:
            duplicates(error)
        self._executors_with_ends.update(executors)

    def _also(self, pipeline: list[Document]) -> Document:
        return {"$unionWith": {"coll": self._collections.jobs.name, "pipeline": pipeline}}

    def _also_owners(self) -> Document:
        alive: Document = {"$match": {"given_up": {"$exists": False}}}
        together: Document = {"$group": {"_id": None, "at": {"$push": "$_id"}}}
        told: Document = {"$project": {"_id": 0, "what": "owners", "at": 1}}
        return {"$unionWith": {"coll": self._collections.owners.name, "pipeline": [alive, together, told]}}


def _earliest(
    place: str,
    executors: Sequence[str],
    tasks: Sequence[str],
    since: int,
    until: int = NEVER - 1,
    priorities: Sequence[int] = PRIORITIES,
) -> list[Document]:
    """Return the steps that find what stands at ``place``, by time. An index has all of it in this order."""
    condition = {
        f"{place}.executor": {"$in": list(executors)},
        f"{place}.priority": {"$in": list(priorities)},
        f"{place}.at": {"$gte": since, "$lte": until},
        f"{place}.task": {"$in": ["", *tasks]},
    }
    return [{"$match": condition}, {"$sort": {f"{place}.at": 1}}]
