"""History and dead letters in the MongoDB store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pymongo.collection import Collection

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.records import history_record
from goscheduler.jobstores.mongodb.documents import Document, from_json_text
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.runs import Runs
from goscheduler.runs.model import DeadLetter, OutcomeKind, Run
from goscheduler.runs.queries import MOST_LETTERS, LetterGroup, letter_groups
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import to_micros

_NEWEST_FIRST = [("finished", -1), ("run_id", -1), ("fence", -1)]
_SUCCEEDED = OutcomeKind.SUCCEEDED.value
#: When a process has not finished taking a dead letter for so many microseconds, a recovery finishes it.
TAKING_TIMEOUT_US = 60_000_000


class History:
    """The history of one store."""

    def __init__(self, context: StoreContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        self._history = context.collections.history
        self._dead = context.collections.dead
        self._counted_at: int | None = None

    def page(self, query: HistoryQuery) -> list[Record]:
        """Return the records that are asked for, newest first."""
        return [record for row in _find(self._history, query) if (record := _read(row)) is not None]

    def attempts(self, run_id: str, job_id: str | None) -> list[Record]:
        """Return the records of a run, newest first. Their ids begin with that of the run."""
        these = {"_id": {"$gte": f"{run_id}:", "$lt": f"{run_id};"}, "run_id": run_id}
        rows = self._history.find(these if job_id is None else {**these, "job_id": job_id}).sort(_NEWEST_FIRST)
        return [record for row in rows if (record := _read(row)) is not None]

    def prune(self, retention: Retention, now: datetime, limit: int) -> int:
        """Delete records that need not be kept, oldest first, at most ``limit``; return how many."""
        old = {
            "$or": [
                {"outcome": _SUCCEEDED, "finished": {"$lt": _before(now, retention.succeeded)}},
                {"outcome": {"$ne": _SUCCEEDED}, "finished": {"$lt": _before(now, retention.others)}},
            ]
        }
        rows = list(self._history.find(old, {"finished": 1}).sort("finished", 1).limit(limit))
        rows += self._crowded(retention.succeeded_per_job, limit)
        oldest = dict(sorted(((row["_id"], row["finished"]) for row in rows), key=lambda pair: pair[1])[:limit])
        if oldest:
            self._history.delete_many({"_id": {"$in": list(oldest)}})
        return len(oldest)

    def _crowded(self, most: int, limit: int) -> list[Document]:
        """Return successes of jobs that have more than are to be kept. Counting is dear: only after many new ones."""
        size = self._history.estimated_document_count()
        if self._counted_at is not None and abs(size - self._counted_at) < most // 10:
            return []
        crowded = self._history.aggregate([
            {"$match": {"outcome": _SUCCEEDED}},
            {"$group": {"_id": "$job_id", "count": {"$sum": 1}}},
            {"$match": {"count": {"$gt": most}}},
        ])  # fmt: skip
        found: list[Document] = []
        for job in crowded:
            successes = {"job_id": job["_id"], "outcome": _SUCCEEDED}
            found += self._history.find(successes, {"finished": 1}).sort(_NEWEST_FIRST).skip(most).limit(job["count"])
            if len(found) >= limit:
                return found
        self._counted_at = size
        return found

    def letters(self, query: HistoryQuery) -> list[DeadLetter]:
        """Return the dead letters that are asked for, newest first."""
        rows = _find(self._dead, query, {"taken": {"$exists": False}})
        return [letter for row in rows if (letter := self._letter(row)) is not None]

    def letter(self, run_id: str) -> DeadLetter | None:
        """Return the dead letter of a run, or None."""
        row = self._dead.find_one({"_id": run_id, "taken": {"$exists": False}})
        return None if row is None else self._letter(row)

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        """Return the newest dead letters that fit in groups."""
        query = query._replace(limit=min(query.limit, MOST_LETTERS))
        rows = _find(self._dead, query, {"taken": {"$exists": False}}, {"record": 1})
        return letter_groups(record for row in rows if (record := _read(row)) is not None)

    def _letter(self, row: Document) -> DeadLetter | None:
        record = _read(row)
        try:
            return record and DeadLetter(
                self._context.codec.records.run(row["_id"], row["run"], record.owner, row["fence"]),
                record,
                from_json_text(row["reason"]) or "",
            )
        except (CodecError, KeyError, ValueError):
            return None

    def take(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None, now: datetime) -> bool:
        """Remove a dead letter; with ``follow_up`` a pending run comes in its place.

        The letter is marked, the run is written, the letter is removed. A process that is lost in between leaves the
        mark, and :meth:`mend` checks whether there is such a run.
        """
        free = {"_id": run_id, "taken": {"$exists": False}}
        if follow_up is None:
            return self._dead.delete_one(free).deleted_count == 1
        row = self._dead.find_one_and_update(free, {"$set": {"taken": to_micros(now)}})
        letter = None if row is None else self._letter(row)
        if letter is None:
            return False
        self._runs.add(follow_up(letter))
        self._dead.delete_one({"_id": run_id, "taken": to_micros(now)})
        return True

    def mend(self, now: datetime) -> None:
        """Finish the taking of dead letters that a lost process has begun."""
        for row in self._dead.find({"taken": {"$lt": to_micros(now) - TAKING_TIMEOUT_US}}):
            waiting = self._context.collections.jobs.find_one({"_id": row["job_id"], "runs.id": row["_id"]})
            tried = {"run_id": row["_id"], "fence": {"$gt": row["fence"]}, "job_id": row["job_id"]}
            if waiting is not None or self._history.find_one(tried) is not None:
                self._dead.delete_one({"_id": row["_id"], "taken": row["taken"]})
            else:
                self._dead.update_one({"_id": row["_id"], "taken": row["taken"]}, {"$unset": {"taken": ""}})


def _find(
    collection: Collection[Document],
    query: HistoryQuery,
    condition: Document | None = None,
    fields: Document | None = None,
) -> Any:
    """Return what is asked for, newest first."""
    conditions: list[Document] = [condition or {}]
    if query.job_id is not None:
        conditions.append({"job_id": query.job_id})
    if query.outcomes is not None:
        conditions.append({"outcome": {"$in": [kind.value for kind in query.outcomes]}})
    if query.tag is not None:
        conditions.append({"tags": query.tag})
    if query.error_type is not None:
        conditions.append({"error_type": query.error_type})
    if query.since is not None:
        conditions.append({"finished": {"$gte": to_micros(query.since)}})
    if query.until is not None:
        conditions.append({"finished": {"$lt": to_micros(query.until)}})
    if query.before is not None:
        conditions.append(_older(to_micros(query.before.finished_at), query.before.run_id, query.before.fence))
    if query.limit <= 0:
        return ()
    return collection.find({"$and": conditions}, fields).sort(_NEWEST_FIRST).limit(query.limit)


def _older(finished: int, run_id: str, fence: int) -> Document:
    return {
        "finished": {"$lte": finished},
        "$or": [
            {"finished": {"$lt": finished}},
            {"run_id": {"$lt": run_id}},
            {"run_id": run_id, "fence": {"$lt": fence}},
        ],
    }


def _read(row: Document) -> Record | None:
    try:
        return history_record(row["record"])
    except (CodecError, KeyError):
        return None


def _before(now: datetime, length: timedelta) -> int:
    try:
        return to_micros(now - length)
    except OverflowError:
        return -(1 << 62)
