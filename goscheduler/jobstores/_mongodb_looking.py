"""What the MongoDB store asks: what there is to do, by one question for most rounds, and what is due, in order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores._mongodb_documents import ANY_HELD, Document, end_mark, rank_in
from goscheduler.jobstores._mongodb_writing import Collections
from goscheduler.jobstores.base import FireRequest
from goscheduler.times import UTC, from_instant, instant

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

PRIORITIES = list(range(10))
#: The server's clock in microseconds; it is exact to a millisecond.
SERVER_NOW: Document = {"$multiply": [{"$toLong": "$$NOW"}, 1000]}
META = {"_id": "schema"}
#: How many documents are taken in one round: all of it has to be done within one deadline.
MOST = 1000
#: For how many seconds it is believed that there is more to do, when there was more than could be taken.
BELIEVED = 0.25
_LONG_AGO = -(1 << 62)


class Seen(NamedTuple):
    """What there is to do, for executors that have room."""

    now: datetime
    job_due: int | None
    run_due: int | None
    crowded: bool
    """Whether something is due for an executor that has no room."""
    to_end: bool
    """Whether a run of ours is to be ended."""
    held: bool
    """Whether runs are held until others have ended."""


class Looking:
    """Asks for one store."""

    def __init__(self, collections: Collections, server_time: bool) -> None:
        self._collections = collections
        self._jobs = collections.jobs.name
        self._server_time = server_time
        self._spread = 1
        self._more = False
        self._looked_at = -math.inf
        self._server_now: datetime | None = None

    def look(self, request: FireRequest) -> Seen:
        """Return what there is to do."""
        steps: list[Document] = [{"$match": META}, {"$project": {"_id": 0, "at": SERVER_NOW}}]
        for with_room in (True, False):
            executors = [name for name, room in request.room.items() if (room > 0) is with_room]
            for place in ("due", "ready") if executors else ():
                what = f"{place} {with_room}"
                last: Document = {"$project": {"_id": 0, "at": f"${place}.at", "what": what}}
                steps.append(self._also([*_earliest(place, executors, request.tasks), {"$limit": 1}, last]))
        for what, mark in (("end", end_mark(request.owner)), ("held", ANY_HELD)):
            told: Document = {"$project": {"_id": 0, "what": what}}
            steps.append(self._also([{"$match": {"marks": mark}}, {"$limit": 1}, told]))
        found: dict[Any, Any] = {row.get("what"): row.get("at") for row in self._collections.meta.aggregate(steps)}
        now = from_instant(found[None], UTC) if self._server_time else request.now
        at = instant(now)
        self._looked_at, self._server_now, self._more = SYSTEM_CLOCK.monotonic(), now, False
        full = [found.get("due False"), found.get("ready False")]
        crowded = any(time is not None and time <= at for time in full)
        return Seen(now, found.get("due True"), found.get("ready True"), crowded, "end" in found, "held" in found)

    def look_after(self, request: FireRequest, runs: Sequence[Run], seen: Seen) -> Seen:
        """Return what there is to do after ``runs`` have taken their room.

        It is not asked where there is no room, nor where as many were taken as are taken at once.
        """
        rest = request.after(runs)
        full = not any(free > 0 for free in rest.room.values())
        if not full and len(runs) < MOST:
            return self.look(rest)
        self._more = True
        return seen._replace(job_due=None, run_due=None, crowded=True) if full else seen

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
        return Seen(now, instant(now), None, False, False, False)

    def now(self, now: datetime) -> datetime:
        """Return the present moment, by the server's clock if that is the one to go by."""
        if not self._server_time:
            return now
        (row,) = self._collections.meta.aggregate([{"$match": META}, {"$project": {"at": SERVER_NOW}}])
        return from_instant(row["at"], UTC)

    def due(self, place: str, request: FireRequest, now: datetime) -> list[Document]:
        """Return documents with something due at ``place``, the lowest rank first, not more than there is room for."""
        found: list[Document] = []
        for executor, room in request.room.items():
            room = min(room, MOST - len(found))
            if room > 0:
                found += self._some(sorted(self._lanes(place, executor, room, request, now), key=_Rank(place)), room)
        return found

    def _lanes(self, place: str, executor: str, room: int, request: FireRequest, now: datetime) -> list[Document]:
        """Return what may be among the first: by time, and of more urgent priorities what time alone has hidden."""
        limit = room * self._spread
        found: dict[str, Document] = {}
        priorities: Sequence[int] = PRIORITIES
        while priorities:
            steps = [*_earliest(place, [executor], request.tasks, instant(now), priorities), {"$limit": limit}]
            rows = list(self._collections.jobs.aggregate(steps, batchSize=limit + 1))
            found.update((row["_id"], row) for row in rows)
            if len(rows) < limit:
                break
            # What is left is not earlier than these, so it goes before them only if it is more urgent.
            priorities = PRIORITIES[: max(row[place]["priority"] for row in rows)]
        return list(found.values())

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

    def _also(self, pipeline: list[Document]) -> Document:
        return {"$unionWith": {"coll": self._jobs, "pipeline": pipeline}}


class _Rank:
    def __init__(self, place: str) -> None:
        self._place = place

    def __call__(self, document: Document) -> tuple[int, int]:
        return rank_in(document[self._place])


def _earliest(
    place: str,
    executors: Sequence[str],
    tasks: Sequence[str],
    until: int | None = None,
    priorities: Sequence[int] = PRIORITIES,
) -> list[Document]:
    """Return the steps that find what stands at ``place``, by time. An index has all of it in this order."""
    at: dict[str, Any] = {"$gt": _LONG_AGO} if until is None else {"$lte": until}
    condition = {
        f"{place}.executor": {"$in": list(executors)},
        f"{place}.priority": {"$in": list(priorities)},
        f"{place}.at": at,
        f"{place}.task": {"$in": ["", *tasks]},
    }
    return [{"$match": condition}, {"$sort": {f"{place}.at": 1}}]
