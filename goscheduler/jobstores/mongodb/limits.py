"""Limits in the MongoDB store: which claims have a permit under which name.

A process takes a permit in the document of the limit before it writes the run, and releases it after the run has ended,
so that a limit is never exceeded wherever a process crashes. **A permit belongs to one claim.** Several processes may
take permits for the same waiting run, and one of them gets the run; and a process may be late with a permit of a run
that was claimed again since. So a permit has the token of its claim as ``by``, as the run has once it is claimed, and
that token releases it. The firing that makes a run needs no token, because no other process knows the id of that run;
permits that an earlier version has taken have none either. The field of a limit's document is called ``places``.

:func:`reclaim_orphans` releases a permit whose claim was never written, or has ended. It first changes the document of
the job, so that a writer that stalled midway can no longer commit the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.writer import Collections, Writer
from goscheduler.runs.limits import Ledger, starts_within
from goscheduler.runs.queries import LimitUse
from goscheduler.times import to_micros

#: A permit is checked when it was taken so many microseconds ago.
PERMIT_CHECK_AGE_US = 10_000_000


class Permit(NamedTuple):
    """What a claim takes under each limit of its run."""

    run: str
    names: Sequence[str]
    """The limits."""
    by: str | None = None
    """The token of the claim; None if it is the firing that makes the run."""
    job: str = ""

    @classmethod
    def of(cls, entry: Document) -> Permit:
        """Return the permit of a run that is or was live."""
        return cls(entry["id"], entry.get("limits", ()), entry.get("by"))

    def document(self, now: datetime) -> Document:
        """Return it as it is written."""
        place: Document = {"run": self.run, "job": self.job, "at": to_micros(now)}
        return place if self.by is None else {**place, "by": self.by}


class LimitPermits:
    """The limits of one batch, as they were read."""

    def __init__(self, collections: Collections, writer: Writer, names: Iterable[str]) -> None:
        self._limits = collections.limits
        self._writer = writer
        wanted = sorted(set(names))
        found = {row["_id"]: row for row in self._limits.find({"_id": {"$in": wanted}})} if wanted else {}
        self._before = {name: found.get(name) for name in wanted}
        self._live = {name: len(row.get("places", ())) for name, row in found.items()}
        rates = {name: json.loads(row["starts"]) for name, row in found.items() if row.get("starts")}
        self.ledger = Ledger(self._live, rates)
        self.taken: list[str] = []
        """The names under which :meth:`take` has taken permits."""

    def take(self, wanted: Sequence[Permit], now: datetime) -> bool:
        """Take permits; false if another process was quicker under one of the names."""
        starts = self.ledger.changed
        for name, before in self._before.items():
            permits = [place.document(now) for place in wanted if name in place.names]
            if not permits:
                continue
            values = {"v": self._writer.mark()}
            if name in starts:
                values["starts"] = json.dumps(starts[name], separators=(",", ":"))
            if not self._put(name, before, permits, values):
                return False
            self.taken.append(name)
            self._live[name] = self._live.get(name, 0) + len(permits)
        return True

    def freed_limits(self, names: Iterable[str]) -> list[str]:
        """Return the names under which fewer permits are taken by now."""
        wanted = [name for name in names if name in self._before]
        rows = self._limits.find({"_id": {"$in": wanted}}) if wanted else ()
        return [row["_id"] for row in rows if len(row.get("places", ())) < self._live.get(row["_id"], 0)]

    def _put(self, name: str, before: Document | None, permits: list[Document], values: dict[str, Any]) -> bool:
        if before is not None:
            change = {"$push": {"places": {"$each": permits}}, "$set": values}
            return self._limits.update_one({"_id": name, "v": before["v"]}, change).matched_count == 1
        try:
            self._limits.insert_one({"_id": name, "places": permits, **values})
        except DuplicateKeyError:
            return False
        return True


def release_permits(limits: Any, permits: Sequence[Permit], ended: bool = False) -> None:
    """Release permits. A process that has read them meanwhile counts too many, never too few.

    With ``ended`` their runs were live: then a permit of such a run without a token is released too.
    """
    names = sorted({name for place in permits for name in place.names})
    if not names:
        return
    words = [place.by for place in permits if place.by is not None]
    runs = [place.run for place in permits if ended or place.by is None]
    these: Document = {"$or": [{"by": {"$in": words}}, {"by": None, "run": {"$in": runs}}]}
    limits.update_many({"_id": {"$in": names}, "places": {"$elemMatch": these}}, {"$pull": {"places": these}})


def reclaim_orphans(collections: Collections, writer: Writer, now: datetime) -> list[str]:
    """Release permits that belong to no live run, and return the name of the limit for each of them."""
    before = to_micros(now) - PERMIT_CHECK_AGE_US
    rows = list(collections.limits.find({"places.at": {"$lt": before}}, {"places": 1}))
    old = [
        Permit(place["run"], (row["_id"],), place.get("by"), place["job"])
        for row in rows
        for place in row["places"]
        if place["at"] < before
    ]
    lost = _unused(collections, old)
    for job in {place.job for place in lost}:
        collections.jobs.update_one({"_id": job}, {"$set": {"v": writer.mark()}})
    lost = _unused(collections, lost)  # again: no process can write one of these runs any more
    release_permits(collections.limits, lost)
    return [name for place in lost for name in place.names]


def usage(collections: Collections, now: datetime) -> list[LimitUse]:
    """Return what is used of every limit, ascending by name."""
    blocked = collections.jobs.aggregate([
        {"$match": {"marks": {"$elemMatch": {"$gte": "held:limit:", "$lt": "held:limit;"}}}},
        {"$unwind": "$runs"},
        {"$match": {"runs.held": {"$gte": "limit:", "$lt": "limit;"}}},
        {"$group": {"_id": "$runs.held", "count": {"$sum": 1}}},
    ])  # fmt: skip
    waiting = {row["_id"].removeprefix("limit:"): row["count"] for row in blocked}
    limits = {row["_id"]: row for row in collections.limits.find({})}
    return [
        LimitUse(
            name, len(limit.get("places", ())), waiting.get(name, 0),
            starts_within(json.loads(limit.get("starts") or "[]"), now),
        )
        for name in sorted(limits.keys() | waiting.keys())
        for limit in [limits.get(name, {})]
    ]  # fmt: skip


def _unused(collections: Collections, permits: Sequence[Permit]) -> list[Permit]:
    """Return the permits that belong to no live run."""
    if not permits:
        return []
    parts = {"runs.id": 1, "runs.owner": 1, "runs.by": 1}
    documents = collections.jobs.find({"_id": {"$in": list({place.job for place in permits})}}, parts)
    live = {
        entry["id"]: entry.get("by") for document in documents for entry in document.get("runs", ()) if "owner" in entry
    }
    return [place for place in permits if place.run not in live or place.by not in (None, live[place.run])]
