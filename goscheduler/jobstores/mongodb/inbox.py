"""The inbox of the MongoDB store: a collection into which programs in any language insert what they ask for.

A document has the request as JSON text in its field ``request``, or the fields of the request themselves. In one
transaction it is deleted and its job is added, or it is moved to the collection of refused requests, with the reason.
Processes that drain the inbox at the same time get in each other's way, and all but one begin again.

A server that is no replica set has no transactions. There the job is added first, and says which entry asked for it. A
process that is killed in between leaves both, and the next one deletes the entry; only if the job has fired for the
last time and is gone by then, it is added again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bson import ObjectId, json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import InsertOne, ReadPreference, ReplaceOne
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure
from pymongo.read_concern import ReadConcern

from goscheduler._drivers.mongodb import deadline
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import ConflictingIdError, GoSchedulerError
from goscheduler.jobstores.mongodb.documents import Document, indexed
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.packed_runs import NO_TRANSACTIONS
from goscheduler.jobstores.mongodb.traits import plain
from goscheduler.jobstores.mongodb.writer import duplicates
from goscheduler.runs.queries import Drained, InboxEntry
from goscheduler.times import UTC

if TYPE_CHECKING:
    from goscheduler.job import Job

#: How many entries are handled in one transaction.
PORTION = 100
#: How often a portion is tried while other processes add jobs of the same ids.
MAX_ATTEMPTS = 20
#: How much of a request and of a reason is kept of what was refused.
MAX_REQUEST, MAX_REASON = 1_000_000, 10_000
#: Other programs may write texts and times that Python does not have.
_LENIENT: CodecOptions[Document] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO, tzinfo=UTC,
    tz_aware=True,
)  # fmt: skip


class _Request(NamedTuple):
    """An entry, and what it comes to."""

    place: Any
    """Its ``_id``."""
    entry: InboxEntry
    job: Job | None = None
    refusal: str | None = None

    def refused_document(self) -> Document:
        """Return it as it is kept if it is refused."""
        return {
            "request": plain(self.entry.request)[:MAX_REQUEST],
            "reason": plain(self.refusal or "")[:MAX_REASON],
            "refused": SYSTEM_CLOCK.now(),
        }


class Inbox:
    """The inbox of one store."""

    def __init__(self, context: StoreContext, making_due: Callable[[], AbstractContextManager[None]]) -> None:
        self._context = context
        self._making_due = making_due
        self._jobs = context.collections.jobs
        self._inbox = context.collections.inbox.with_options(codec_options=_LENIENT)
        self._refused = context.collections.refused

    def drain(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        """Add the jobs that ``read`` makes of at most ``limit`` entries."""
        with deadline():
            rows = list(self._inbox.find().sort("_id", 1).limit(limit + 1))
        requests = [self._read(row, read) for row in rows[:limit]]
        jobs: list[Job] = []
        refused: dict[str, str] = {}
        for start in range(0, len(requests), PORTION):
            with self._making_due(), deadline():
                added, reasons = self._grant(requests[start : start + PORTION])
            jobs += added
            refused.update(reasons)
        if jobs:
            self._context.writer.notify()
        return Drained(jobs, refused, len(rows) > limit)

    def _read(self, row: Document, read: Callable[[InboxEntry], Job]) -> _Request:
        place = row["_id"]
        try:
            entry = InboxEntry(_name(place), _request(row))
        except ValueError as error:
            return _Request(place, InboxEntry(_name(place), str(row)), refusal=str(error))
        try:
            job = read(entry)
            self._context.codec.with_job({"_id": job.id, "here": False}, job)
        except (GoSchedulerError, ValueError, TypeError) as error:
            return _Request(place, entry, refusal=str(error) or type(error).__name__)
        return _Request(place, entry, job)

    def _grant(self, requests: Sequence[_Request]) -> tuple[list[Job], dict[str, str]]:
        """Add and refuse in one transaction, or in two steps on a server without transactions."""
        for _ in range(MAX_ATTEMPTS):
            try:
                with self._jobs.database.client.start_session() as session:
                    granted: tuple[list[Job], dict[str, str]] = session.with_transaction(
                        partial(self._step, requests), ReadConcern("local"), self._jobs.write_concern,
                        ReadPreference.PRIMARY,
                    )  # fmt: skip
                    return granted
            except (BulkWriteError, _Overtaken) as error:
                _raise_unless_overtaken(error)
            except OperationFailure as error:
                if error.code not in NO_TRANSACTIONS:
                    raise
                return self._grant_in_steps(requests)
        raise ConnectionFailure("other processes add the same jobs all the time")

    def _grant_in_steps(self, requests: Sequence[_Request]) -> tuple[list[Job], dict[str, str]]:
        """Handle entries one by one, so that it is known which job this process has added."""
        jobs: list[Job] = []
        refused: dict[str, str] = {}
        for request in requests:
            added, reasons = self._grant_alone(request)
            jobs += added
            refused.update(reasons)
        return jobs, refused

    def _grant_alone(self, request: _Request) -> tuple[list[Job], dict[str, str]]:
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._step([request], None)
            except (BulkWriteError, _Overtaken) as error:
                _raise_unless_overtaken(error)
        raise ConnectionFailure("other processes add the same jobs all the time")

    def _step(self, requests: Sequence[_Request], session: Any) -> tuple[list[Job], dict[str, str]]:
        these: Document = {"_id": {"$in": [request.place for request in requests]}}
        left = [_name(row["_id"]) for row in self._inbox.find(these, {"_id": 1}, session=session)]
        ids = [request.job.id for request in requests if request.job is not None]
        known = {row["_id"]: row for row in self._jobs.find({"_id": {"$in": ids}}, session=session)}
        added: dict[str, tuple[Job, Document]] = {}
        refused: dict[str, _Request] = {}
        for request in requests:
            if request.entry.id not in left:
                continue  # another process was quicker
            reason = request.refusal
            if request.job is not None:
                job, before = request.job, known.get(request.job.id)
                if before is not None and before["here"] and before.get("inbox") == request.entry.id:
                    continue  # a process without transactions has ended before it deleted the entry
                if job.id in added or (before is not None and before["here"]):
                    reason = str(ConflictingIdError(job.id))
                else:
                    added[job.id] = job, self._document(job, before, request.entry)
            if reason is not None:
                refused[request.entry.id] = request._replace(refusal=reason)
        self._add([document for _, document in added.values()], known, session)
        self._refuse(list(refused.values()), session)
        self._inbox.delete_many(these, session=session)
        return [job for job, _ in added.values()], {name: request.refusal or "" for name, request in refused.items()}

    def _document(self, job: Job, before: Document | None, entry: InboxEntry) -> Document:
        document = self._context.codec.with_job(before or {"_id": job.id, "here": False}, job)
        return {**indexed({**document, "inbox": entry.id}), "v": self._context.writer.mark()}

    def _add(self, documents: Sequence[Document], known: dict[str, Document], session: Any) -> None:
        if not documents:
            return
        statements: list[Any] = [
            ReplaceOne({"_id": document["_id"], "v": known[document["_id"]]["v"]}, document)
            if document["_id"] in known else InsertOne(document)
            for document in documents
        ]  # fmt: skip
        result = self._jobs.bulk_write(statements, session=session)
        if result.inserted_count + result.matched_count < len(statements):
            raise _Overtaken

    def _refuse(self, requests: Sequence[_Request], session: Any) -> None:
        if not requests:
            return
        rows = [(request.place, request.refused_document()) for request in requests]
        self._refused.bulk_write(
            [ReplaceOne({"_id": place}, row, upsert=True) for place, row in rows], session=session
        )


class _Overtaken(Exception):
    """Another process has changed the document of a job meanwhile."""


def _raise_unless_overtaken(error: Exception) -> None:
    if isinstance(error, BulkWriteError):
        duplicates(error)


def _name(place: Any) -> str:
    """Return the id of an entry as text."""
    if isinstance(place, ObjectId | str):
        return str(place)
    return json_util.dumps(place)


def _request(row: Document) -> str:
    """Return a request as JSON text.

    :raises ValueError: if JSON has nothing like it
    """
    request = row.get("request")
    if isinstance(request, str):
        return request
    fields = request if isinstance(request, dict) else {name: row[name] for name in row if name != "_id"}
    return json.dumps(fields, default=_json_value, allow_nan=False)


def _json_value(value: Any) -> Any:
    """Return a value that only MongoDB has as one that JSON has, too."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        raise ValueError("binary data cannot be part of a request; write it as text")
    return str(value)
