"""Limits in the MongoDB store: which claims have a place under which name.

A place is taken in the document of the limit before the run is written, and given back after it has ended, so that a
limit is never exceeded, whatever ends in between. **A place belongs to one claim.** Several processes may take places
for the same waiting run, of which one gets the run; and a process may be late with a place of a run that has been
claimed again since. So a place bears the word of its claim as ``by``, as the run does once it is claimed, and is given
back by that word. The firing that makes a run needs no such word, because nobody else knows the id of that run; places
that an earlier version has taken have none either.

A place whose claim was never written, or has ended, is given back by :func:`tidy`: it first changes the document of the
job, so that a process that has stopped halfway cannot write the run any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.writer import Collections, Writer
from goscheduler.runs.limits import Ledger
from goscheduler.times import to_micros

#: A place is looked at again when it has been taken for so long, in microseconds.
SETTLED = 10_000_000


class Place(NamedTuple):
    """What a claim takes under each limit of its run."""

    run: str
    names: Sequence[str]
    """The limits."""
    by: str | None = None
    """The word of the claim; None if it is the firing that makes the run."""
    job: str = ""

    @classmethod
    def of(cls, entry: Document) -> Place:
        """Return the place of a run that is or was live."""
        return cls(entry["id"], entry.get("limits", ()), entry.get("by"))

    def document(self, now: datetime) -> Document:
        """Return it as it is written."""
        place: Document = {"run": self.run, "job": self.job, "at": to_micros(now)}
        return place if self.by is None else {**place, "by": self.by}


class Places:
    """The limits that one batch is concerned with, as they were read."""

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
        """Under which names :meth:`take` has taken places."""

    def take(self, wanted: Sequence[Place], now: datetime) -> bool:
        """Take places; false if somebody was quicker under one of the names."""
        starts = self.ledger.changed
        for name, before in self._before.items():
            places = [place.document(now) for place in wanted if name in place.names]
            if not places:
                continue
            values = {"v": self._writer.mark()}
            if name in starts:
                values["starts"] = json.dumps(starts[name], separators=(",", ":"))
            if not self._put(name, before, places, values):
                return False
            self.taken.append(name)
            self._live[name] = self._live.get(name, 0) + len(places)
        return True

    def eased(self, names: Iterable[str]) -> list[str]:
        """Return those of the names under which fewer places are taken by now."""
        wanted = [name for name in names if name in self._before]
        rows = self._limits.find({"_id": {"$in": wanted}}) if wanted else ()
        return [row["_id"] for row in rows if len(row.get("places", ())) < self._live.get(row["_id"], 0)]

    def _put(self, name: str, before: Document | None, places: list[Document], values: dict[str, Any]) -> bool:
        if before is not None:
            change = {"$push": {"places": {"$each": places}}, "$set": values}
            return self._limits.update_one({"_id": name, "v": before["v"]}, change).matched_count == 1
        try:
            self._limits.insert_one({"_id": name, "places": places, **values})
        except DuplicateKeyError:
            return False
        return True


def give_back(limits: Any, places: Sequence[Place], ended: bool = False) -> None:
    """Give back places. Who has read them meanwhile counts too many, never too few.

    With ``ended`` they are of runs that were live: then one of such a run that bears no word is of no use either.
    """
    names = sorted({name for place in places for name in place.names})
    if not names:
        return
    words = [place.by for place in places if place.by is not None]
    runs = [place.run for place in places if ended or place.by is None]
    these: Document = {"$or": [{"by": {"$in": words}}, {"by": None, "run": {"$in": runs}}]}
    limits.update_many({"_id": {"$in": names}, "places": {"$elemMatch": these}}, {"$pull": {"places": these}})


def tidy(collections: Collections, writer: Writer, now: datetime) -> list[str]:
    """Give back places that belong to no live run, and return the name of the limit for each of them."""
    before = to_micros(now) - SETTLED
    rows = list(collections.limits.find({"places.at": {"$lt": before}}, {"places": 1}))
    old = [
        Place(place["run"], (row["_id"],), place.get("by"), place["job"])
        for row in rows
        for place in row["places"]
        if place["at"] < before
    ]
    lost = _unused(collections, old)
    for job in {place.job for place in lost}:
        collections.jobs.update_one({"_id": job}, {"$set": {"v": writer.mark()}})
    lost = _unused(collections, lost)  # again: now nobody can write one of these any more
    give_back(collections.limits, lost)
    return [name for place in lost for name in place.names]


def _unused(collections: Collections, places: Sequence[Place]) -> list[Place]:
    """Return the places that belong to no live run."""
    if not places:
        return []
    parts = {"runs.id": 1, "runs.owner": 1, "runs.by": 1}
    documents = collections.jobs.find({"_id": {"$in": list({place.job for place in places})}}, parts)
    live = {
        entry["id"]: entry.get("by") for document in documents for entry in document.get("runs", ()) if "owner" in entry
    }
    return [place for place in places if place.run not in live or place.by not in (None, live[place.run])]
