"""What the MongoDB store asks: what there is to do, by one question for most rounds, and what is due, in order.

Who looks for the first entry of an index passes those that were deleted before it, for as long as the server keeps them
for its snapshots, which is five minutes. With a hundred firings a second these are 30,000, and they would be passed for
each lane and each mark that is asked for. So each of them ends in an entry that stays, at a time that never comes; and
it is remembered for a second, unless we make a job due or hear that somebody else did, before which time there is none.

Of many jobs that are due at the same time that tells nothing, so who is alone reads more of them than it takes, for the
next rounds. Whoever changes one of them meanwhile is safe: what is written is compared with what was read.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.mongodb.documents import ANY_HELD, NEVER, PRIORITIES, Document, end_mark, lane_ends, rank_in
from goscheduler.jobstores.mongodb.writer import Collections, duplicates
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

#: The server's clock in microseconds; it is exact to a millisecond.
SERVER_NOW: Document = {"$multiply": [{"$toLong": "$$NOW"}, 1000]}
META = {"_id": "schema"}
#: How many documents are taken in one round: all of it has to be done within one deadline.
MOST = 1000
#: For how many seconds it is believed that there is more to do, when there was more than could be taken.
BELIEVED = 0.25
#: For how many seconds it is believed that there is no job before the first one that was seen.
START_BELIEVED = 1.0
#: How many times as many documents as are taken in one round are read at most.
FARTHEST = 4
#: In how many seconds a round has to be read for that: large documents would be too old before they are taken.
QUICKLY = 0.05
_LONG_AGO = -(1 << 62)


class Seen(NamedTuple):
    """What there is to do, for executors that have room."""

    now: datetime
    job_due: int | None
    run_due: int | None
    jobs_left: bool
    """Whether a job is due for an executor that has no room."""
    runs_left: bool
    """The same of a pending run."""
    to_cancel: bool
    """Whether a run of ours is to be ended."""
    held: bool
    """Whether runs are held until others have ended."""


class _Start(NamedTuple):
    """Where the jobs begin."""

    since: int
    """No job of these executors and tasks is due before."""
    executors: frozenset[str]
    tasks: Sequence[str]
    changes: int
    found_at: float


class _Rest(NamedTuple):
    """Documents with due jobs that were read and not taken: those of the lowest rank first."""

    documents: Sequence[Document]
    tasks: Sequence[str]
    changes: int
    """How much had changed before they were read."""
    read_at: float

    def is_for(self, request: FireRequest, changes: int) -> bool:
        """Tell whether a request would find the same, as far as is known."""
        return self.tasks == request.tasks and self.changes == changes and self.is_fresh()

    def is_fresh(self) -> bool:
        """Tell whether it was read a moment ago."""
        return SYSTEM_CLOCK.monotonic() - self.read_at <= BELIEVED


class Looking:
    """Asks for one store; ``hears`` tells whether changes that others make are heard of."""

    def __init__(self, collections: Collections, server_time: bool, hears: Callable[[], bool]) -> None:
        self._collections = collections
        self._jobs = collections.jobs.name
        self._server_time = server_time
        self._hears = hears
        self._spread = 1
        self._alone = self._reads_quickly = False
        self._rests: dict[str, _Rest] = {}
        """What was read for the next rounds, by executor."""
        self._changes = 0
        self._start = _Start(_LONG_AGO, frozenset(), (), 0, -math.inf)
        self._more = False
        self._ended: set[str] = set()
        """Executors whose lanes have an end."""
        self._looked_at = -math.inf
        self._server_now: datetime | None = None

    def forget(self) -> None:
        """Believe nothing any more: a job may be due earlier than was seen."""
        self._changes += 1

    def look(self, request: FireRequest) -> Seen:
        """Return what there is to do."""
        self._end_lanes(request.room.keys() - self._ended)
        start = self._started(request)
        steps: list[Document] = [{"$match": META}, {"$project": {"_id": 0, "at": SERVER_NOW}}]
        for with_room in (True, False):
            executors = [name for name, room in request.room.items() if (room > 0) is with_room]
            for place in ("due", "ready") if executors else ():
                what = f"{place} {with_room}"
                last: Document = {"$project": {"_id": 0, "at": f"${place}.at", "what": what}}
                since = start.since if place == "due" else _LONG_AGO
                steps.append(self._also([*_earliest(place, executors, request.tasks, since), {"$limit": 1}, last]))
        for what, mark in (("end", end_mark(request.owner)), ("held", ANY_HELD)):
            told: Document = {"$project": {"_id": 0, "what": what}}
            steps.append(self._also([{"$match": {"marks": mark}}, {"$limit": 1}, told]))
        steps.append(self._whether_others_live(request.owner))
        found: dict[Any, Any] = {row.get("what"): row.get("at") for row in self._collections.meta.aggregate(steps)}
        now = from_micros(found[None], UTC) if self._server_time else request.now
        at = to_micros(now)
        self._looked_at, self._server_now, self._more = SYSTEM_CLOCK.monotonic(), now, False
        self._alone = "others" not in found
        self._rests = {executor: rest for executor, rest in self._rests.items() if rest.is_fresh()}
        if request.room:
            times = [found[what] for what in ("due True", "due False") if what in found]
            self._start = start._replace(since=min(times, default=at))
        jobs_left, runs_left = (found.get(f"{place} False", math.inf) <= at for place in ("due", "ready"))
        return Seen(
            now, found.get("due True"), found.get("ready True"), jobs_left, runs_left, "end" in found, "held" in found
        )

    def look_after(self, request: FireRequest, runs: Sequence[Run], seen: Seen) -> Seen:
        """Return what there is to do after ``runs`` have taken their room.

        It is not asked where there is no room, nor where as many were taken as are taken at once.
        """
        rest = request.after(runs)
        full = not any(free > 0 for free in rest.room.values())
        if not full and len(runs) < MOST:
            return self.look(rest)
        self._more = True
        runs_left = seen.runs_left or (seen.run_due is not None and seen.run_due <= to_micros(seen.now))
        return seen._replace(job_due=None, run_due=None, jobs_left=True, runs_left=runs_left) if full else seen

    def _started(self, request: FireRequest) -> _Start:
        """Return where to begin, from what was seen before if that can be believed."""
        before, now = self._start, SYSTEM_CLOCK.monotonic()
        fresh = _Start(_LONG_AGO, frozenset(request.room), request.tasks, self._changes, now)
        known = before._replace(since=_LONG_AGO, found_at=now) == fresh
        return before if known and self._hears() and now - before.found_at < START_BELIEVED else fresh

    def expect(self, request: FireRequest) -> Seen | None:
        """Return that jobs are due, where a moment ago there was more than could be taken; else None.

        The server's clock is past the time given.
        """
        more, self._more = self._more, False
        passed = SYSTEM_CLOCK.monotonic() - self._looked_at
        has_room = any(room > 0 for room in request.room.values())
        if not more or passed > BELIEVED or self._server_now is None or not has_room:
            return None
        now = self._server_now + timedelta(seconds=passed) if self._server_time else request.now
        return Seen(now, to_micros(now), None, False, False, False, False)

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
            count = min(room, MOST - len(found))
            if count > 0 and place == "due":
                found += self._first_of_many(executor, count, request, now)
            elif count > 0:
                found += self._some(self._ranked(place, executor, count * self._spread, request, now), count)
        return found

    def _first_of_many(self, executor: str, count: int, request: FireRequest, now: datetime) -> Sequence[Document]:
        """Return documents with due jobs; if it can be believed, of what was read for an earlier round."""
        rest = self._rests.pop(executor, None)
        if rest is None or not rest.is_for(request, self._changes):
            rest = self._read(executor, count, request, now)
        if not self._alone or len(rest.documents) <= count:
            return self._some(rest.documents, count)
        self._rests[executor] = rest._replace(documents=rest.documents[count:])
        return rest.documents[:count]

    def _read(self, executor: str, count: int, request: FireRequest, now: datetime) -> _Rest:
        """Read documents with due jobs: for several rounds, if nobody else is there and it does not take long."""
        begun, changes, limit = SYSTEM_CLOCK.monotonic(), self._changes, count * self._spread
        if self._alone and self._reads_quickly and self._hears():
            limit = max(limit, min(count * FARTHEST, request.room[executor]))
        documents = self._ranked("due", executor, limit, request, now)
        self._reads_quickly = SYSTEM_CLOCK.monotonic() - begun < QUICKLY
        return _Rest(documents, request.tasks, changes, begun)

    def _ranked(self, place: str, executor: str, limit: int, request: FireRequest, now: datetime) -> list[Document]:
        """Return the first in line: by time, and of more urgent priorities what time alone has hidden."""
        found: dict[str, Document] = {}
        priorities: Sequence[int] = PRIORITIES
        since = self._started(request).since if place == "due" else _LONG_AGO
        while priorities:
            steps = _earliest(place, [executor], request.tasks, since, to_micros(now), priorities)
            steps.append({"$limit": limit})
            if place == "due":
                steps.append({"$unset": ["lane", "next"]})
            rows = list(self._collections.jobs.aggregate(steps, batchSize=limit + 1))
            found.update((row["_id"], _whole(row) if place == "due" else row) for row in rows)
            if len(rows) < limit:
                break
            # What is left is not earlier than these, so it goes before them only if it is more urgent.
            priorities = PRIORITIES[: max(row[place]["priority"] for row in rows)]
        return sorted(found.values(), key=_Rank(place))[:limit]

    def _some(self, documents: Sequence[Document], room: int) -> Sequence[Document]:
        """Return as many as there is room for: the first, or any where several processes have snatched at the same."""
        if self._spread == 1 or len(documents) <= room:
            return documents[:room]
        return random.sample(documents, room)

    def took(self, made: int, tried: int) -> None:
        """Take in how many of the documents that were tried others had not taken meanwhile."""
        if made * 2 < tried:
            self._spread = min(self._spread * 2, 8)
        elif made == tried:
            self._spread = max(self._spread // 2, 1)
        if made < tried:
            self._rests.clear()

    def count_due_beside(self, executors: Collection[str], until: datetime) -> dict[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        due = {"due.at": {"$lte": to_micros(until)}, "due.executor": {"$nin": list(executors)}}
        counted = {"_id": "$due.executor", "count": {"$sum": 1}}
        found = self._collections.jobs.aggregate([{"$match": due}, {"$group": counted}])
        return {document["_id"]: document["count"] for document in found}

    def _end_lanes(self, executors: Collection[str]) -> None:
        """Write the ends of the lanes of executors, unless somebody has done so before."""
        if not executors:
            return
        try:
            # They make looks quicker and nothing else, so nobody waits until the majority has them.
            jobs = self._collections.jobs.with_options(write_concern=WriteConcern(w=1))
            jobs.insert_many(lane_ends(executors), ordered=False)
        except BulkWriteError as error:
            duplicates(error)
        self._ended.update(executors)

    def _also(self, pipeline: list[Document]) -> Document:
        return {"$unionWith": {"coll": self._jobs, "pipeline": pipeline}}

    def _whether_others_live(self, owner: str) -> Document:
        others: Document = {"_id": {"$ne": owner}, "given_up": {"$exists": False}}
        told: list[Document] = [{"$match": others}, {"$limit": 1}, {"$project": {"_id": 0, "what": "others"}}]
        return {"$unionWith": {"coll": self._collections.owners.name, "pipeline": told}}


def _whole(document: Document) -> Document:
    """Return a document with what was left out, because ``due`` says it, too: that takes less time than reading it."""
    due = document["due"]
    document["lane"] = _lane(due["executor"], due["priority"], due["task"])
    document["next"] = due["at"]
    return document


@lru_cache(maxsize=256)
def _lane(executor: str, priority: int, task: str) -> Document:
    """Return a lane; the same for all documents in it, because nobody changes one."""
    return {"executor": executor, "priority": priority, "task": task}


class _Rank:
    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self, document: Document) -> tuple[int, int]:
        return rank_in(document[self._place])


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
