"""Orphans of the MongoDB store: runs that are blocked although nothing is left to wait for. They are unblocked here.

A job, its time and its runs are one document, so no list can lack one of them. But a run that is blocked on a limit is
in another document than the permits of that limit. A process that releases a permit unblocks a run; if it is killed in
between, or always loses the race for the document, the run waits until another run under the limit ends, and there need
not be any.

For a moment a store looks like that while nothing is wrong. So a run is unblocked only if the **second check**, in the
next call, finds its document unchanged, and that no process has taken a permit under the limit meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.jobstores.base import Requeued
from goscheduler.jobstores.mongodb.documents import (
    ANY_BLOCKED,
    NEVER,
    Document,
    blocked_key,
    unblocked_entry,
    with_runs,
)
from goscheduler.jobstores.mongodb.firing import BROKEN, StoreContext
from goscheduler.jobstores.mongodb.traits import MARKS
from goscheduler.jobstores.mongodb.writer import Change, as_read

_LIMIT = "limit:"
_BEGINNING = ""


class Orphans:
    """Walks over all documents with blocked runs."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._jobs = context.collections.jobs
        self._after = _BEGINNING
        """The documents up to this one were checked."""
        self._at_end = False
        self._suspects: dict[str, _Suspect] = {}
        """Possible orphans of the last call, by the id of the document."""
        self._given: Counter[str] = Counter()
        """Key → how many runs have got a turn under it in this walk."""

    def put_back(self, limit: int) -> Requeued:
        """Check ``limit`` documents, from where the last call has stopped, and the suspects of the last call again."""
        ids = self._put_back()
        if not self._at_end:
            page = self._page(limit)
            self._at_end = len(page) < limit
            self._after = page[-1]["_id"] if page else self._after
            self._suspects = {suspect.document["_id"]: suspect for suspect in self._astray(page)}
        if self._suspects or not self._at_end:
            return Requeued(ids, more=True)
        self._after, self._at_end, self._given = _BEGINNING, False, Counter()
        return Requeued(ids)

    def _page(self, limit: int) -> list[Document]:
        blocked = self._jobs.find({"marks": ANY_BLOCKED, "_id": {"$gt": self._after}})
        blocked = blocked.hint(MARKS)  # or all jobs might be read, in the order of their ids
        return list(blocked.sort("_id", 1).limit(limit))

    def _put_back(self) -> list[str]:
        """Unblock suspects that have not changed; return the ids of runs that no other process would have unblocked."""
        before, self._suspects = self._suspects, {}
        if not before:
            return []
        documents = self._jobs.find(as_read([suspect.document for suspect in before.values()]))
        again = [suspect.unchanged_since(before[suspect.document["_id"]]) for suspect in self._astray(list(documents))]
        changes = [Change(suspect.document, suspect.unblocked()) for suspect in again if suspect.runs]
        turns = self._turns({key for suspect in again for key in suspect.runs.values()}) - self._given
        made = {change.before["_id"] for change in self._context.writer.write(changes)}
        if made:
            self._context.writer.notify()
        unblocked = [each for suspect in again if suspect.document["_id"] in made for each in suspect.runs.items()]
        self._given.update(key for _, key in unblocked)
        return [run_id for run_id, key in unblocked if key not in turns]

    def _turns(self, keys: Iterable[str]) -> Counter[str]:
        """Return key → how many runs were unblocked under it, and have no owner yet.

        Their executors may have no room. Then another run may try too, but none of them was lost.
        """
        wanted = list(keys)
        ready: Document = {"ready.at": {"$lt": NEVER}, "runs.freed": {"$in": wanted}}
        documents = self._jobs.find(ready, {"runs.freed": 1}) if wanted else ()
        return Counter(entry["freed"] for document in documents for entry in document["runs"] if "freed" in entry)

    def _astray(self, documents: Sequence[Document]) -> list[_Suspect]:
        """Return the documents with runs that are blocked for nothing, by the permits as they are now."""
        names = {name for document in documents for name in _limits_held(document)}
        rows = self._context.collections.limits.find({"_id": {"$in": list(names)}}) if names else ()
        limits: dict[str, Document] = {f"{_LIMIT}{row['_id']}": row for row in rows}
        taken = self._given + Counter({key: len(row.get("places", ())) for key, row in limits.items()})
        found = [_Suspect(document, self._runs_astray(document, taken), limits) for document in documents]
        return [suspect for suspect in found if suspect.runs]

    def _runs_astray(self, document: Document, taken: Counter[str]) -> dict[str, str]:
        """Return run id → key. What others come first for under the same key is not looked at."""
        astray: dict[str, str] = {}
        full: set[str] = set()
        try:
            taken[f"job:{document['_id']}"] = sum(_counts(entry, document) for entry in document["runs"])
            for entry in document["runs"]:
                key = entry.get("held")
                if "owner" in entry or "unreadable" in entry or key is None or key in full:
                    continue
                most = self._most(entry, document)
                if most is None or taken[key] < most:
                    astray[entry["id"]] = key
                    taken[key] += 1
                else:
                    full.add(key)
        except BROKEN:  # the next claim or firing suspends the job
            return {}
        return astray

    def _most(self, entry: Document, document: Document) -> int | None:
        """Return how many may be live under the key that a run is blocked on; None if any number may."""
        try:
            job = self._context.codec.run(entry, document).job
        except CodecError:
            return None  # the claim sets it aside
        if entry["held"].startswith(_LIMIT):
            name = entry["held"].removeprefix(_LIMIT)
            return next((limit.concurrency for limit in job.options.limits if limit.name == name), None)
        return None if job.options.overlap == "allow" else job.options.max_instances


class _Suspect(NamedTuple):
    """A document with runs that seem to be blocked for nothing."""

    document: Document
    runs: Mapping[str, str]
    """Run id → the key that it is blocked on."""
    limits: Mapping[str, Document]
    """Key → the document of the limit."""

    def unchanged_since(self, before: _Suspect) -> _Suspect:
        """Return it with those runs that were suspect before, if no process has taken a permit meanwhile."""
        same = {
            run_id: key
            for run_id, key in self.runs.items()
            if run_id in before.runs and self._version(key) == before._version(key)
        }
        return self._replace(runs=same)

    def _version(self, key: str) -> Any:
        return self.limits.get(key, {}).get("v")

    def unblocked(self) -> Document:
        """Return the document in which these runs may try."""
        runs = [unblocked_entry(entry) if entry["id"] in self.runs else entry for entry in self.document["runs"]]
        return with_runs(self.document, runs)


def _counts(entry: Document, document: Document) -> bool:
    """Tell whether a run is live, or has the turn at its job."""
    return "owner" in entry or entry.get("freed") == f"job:{document['_id']}"


def _limits_held(document: Document) -> list[str]:
    marks = map(str, document.get("marks", ()))
    return [blocked_key(mark).removeprefix(_LIMIT) for mark in marks if mark.startswith(f"held:{_LIMIT}")]
