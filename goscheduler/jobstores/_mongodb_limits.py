"""Limits in the MongoDB store: which runs have a place under which name.

A place is taken in the document of the limit before the run is written, and given back after it has ended, so that a
limit is never exceeded, whatever ends in between. A place whose run was never written, or has ended, is given back by
:func:`tidy`: it first changes the document of the job, so that who has stopped halfway cannot write the run any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from goscheduler.jobstores._mongodb_documents import Document
from goscheduler.jobstores._mongodb_writing import Collections, Writer
from goscheduler.runs.limits import Ledger
from goscheduler.times import instant

#: A place is looked at again when it has been taken for so long, in microseconds.
SETTLED = 10_000_000


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

    def take(self, runs: Sequence[tuple[str, str, Sequence[str]]], now: datetime) -> bool:
        """Take places for runs (id, job id, names of limits); false if somebody was quicker under one of the names."""
        starts = self.ledger.changed
        for name, before in self._before.items():
            places = [{"run": run, "job": job, "at": instant(now)} for run, job, names in runs if name in names]
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


def give_back(limits: Any, runs: Sequence[str], names: Iterable[str]) -> None:
    """Give back the places of runs under some limits. Who has read them meanwhile counts too many, never too few."""
    wanted = sorted(set(names))
    if wanted and runs:
        change = {"$pull": {"places": {"run": {"$in": list(runs)}}}}
        limits.update_many({"_id": {"$in": wanted}, "places.run": {"$in": list(runs)}}, change)


def tidy(collections: Collections, writer: Writer, now: datetime) -> list[str]:
    """Give back places that belong to no live run, and return the names of the limits that had some."""
    before = instant(now) - SETTLED
    rows = list(collections.limits.find({"places.at": {"$lt": before}}, {"places": 1}))
    old = {(place["run"], place["job"]) for row in rows for place in row["places"] if place["at"] < before}
    live = _live(collections, {job for _, job in old})
    lost = [(run, job) for run, job in old if run not in live]
    for job in {job for _, job in lost}:
        collections.jobs.update_one({"_id": job}, {"$set": {"v": writer.mark()}})
    live = _live(collections, {job for _, job in lost})  # again: now nobody can write one of these any more
    runs = {run for run, _ in lost if run not in live}
    names = [row["_id"] for row in rows if any(place["run"] in runs for place in row["places"])]
    give_back(collections.limits, sorted(runs), names)
    return names


def _live(collections: Collections, job_ids: Iterable[str]) -> set[str]:
    documents = collections.jobs.find({"_id": {"$in": list(job_ids)}}, {"runs.id": 1, "runs.owner": 1})
    return {entry["id"] for document in documents for entry in document.get("runs", ()) if "owner" in entry}
