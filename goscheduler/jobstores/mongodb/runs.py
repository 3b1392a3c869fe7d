"""Runs in the MongoDB store that have not ended: listed, discarded, cancelled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, JobLookupError
from goscheduler.jobstores._shared.decisions import log_unreadable_run
from goscheduler.jobstores.mongodb.documents import (
    LIVE,
    MAX_RUNS_PER_JOB,
    PENDING,
    Document,
    end_mark,
    from_json_text,
    history_document,
    json_text,
    unblocked,
    with_runs,
    without,
)
from goscheduler.jobstores.mongodb.firing import StoreContext, unblock_next
from goscheduler.runs.queries import RunCounts
from goscheduler.runs.records import record_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run, Settlement


#: The condition for a run in a document that is pending, and can be read.
_PENDING: Document = {"$not": [{"$ifNull": ["$$run.owner", {"$ifNull": ["$$run.unreadable", False]}]}]}


class Runs:
    """The live and pending runs of one store."""

    def __init__(self, context: StoreContext, logger: logging.Logger) -> None:
        self._context = context
        self._jobs = context.collections.jobs
        self._logger = logger

    def live(self, job_id: str | None) -> list[Run]:
        """Return the runs that an owner has."""
        return self._where(_of_job(job_id, LIVE), live=True)

    def pending(self, job_id: str | None) -> list[Run]:
        """Return the runs that have no owner, in the order of their due times."""
        return sorted(self._where(_of_job(job_id, PENDING), live=False), key=lambda run: to_micros(run.due_at))

    def _where(self, condition: Document, live: bool) -> list[Run]:
        found = [
            self._read(entry, document)
            for document in self._jobs.find(condition)
            for entry in document["runs"]
            if ("owner" in entry) is live
        ]
        return [run for run in found if run is not None]

    def counts(self, job_ids: Sequence[str], now: int) -> dict[str, RunCounts]:
        """Return job id → how many of its runs have not ended, for those of these jobs that have any."""
        rows = self._jobs.aggregate([
            {"$match": {"_id": {"$in": list(job_ids)}, "runs": {"$type": "array"}}},
            {"$project": {
                "live": _number_of({"$ifNull": ["$$run.owner", False]}),
                "due": _number_of({"$and": [_PENDING, {"$lte": ["$$run.due", now]}]}),
                "waiting": _number_of({"$and": [_PENDING, {"$gt": ["$$run.due", now]}]}),
            }},
        ])  # fmt: skip
        found = {row["_id"]: RunCounts(row["live"], row["due"], row["waiting"]) for row in rows}
        return {job_id: counts for job_id, counts in found.items() if any(counts)}

    def to_cancel(self, owner: str) -> list[tuple[Run, str]]:
        """Return the runs of an owner that have a cancel request, and its reason."""
        found = [
            (self._read(entry, document), from_json_text(entry["cancel"]) or "")
            for document in self._jobs.find({"marks": end_mark(owner)})
            for entry in document["runs"]
            if entry.get("owner") == owner and "cancel" in entry
        ]
        return [(run, reason) for run, reason in found if run is not None]

    def cancel_requests(self, job_id: str) -> dict[str, str]:
        """Return run id → reason, for the live runs of a job that have a cancel request."""
        document = self._jobs.find_one({"_id": job_id}, {"runs": 1}) or {}
        asked = {entry["id"]: _cancel_request(entry) for entry in document.get("runs", ())}
        return {run_id: reason for run_id, reason in asked.items() if reason is not None}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> list[str]:
        """Delete cancel requests of runs of an owner that have the same reason; return the ids of the runs."""
        taken: list[str] = []
        these: Document = {"marks": end_mark(owner), "runs.id": {"$in": list(requests)}}
        for job_id in [row["_id"] for row in self._jobs.find(these, {"_id": 1})]:
            taken += self._withdraw(job_id, owner, requests)
        return taken

    def _withdraw(self, job_id: str, owner: str, requests: Mapping[str, str]) -> list[str]:
        taken: list[str] = []

        def edit(document: Document | None) -> Document:
            before: Document = document or {"_id": job_id, "here": False}
            heard = [
                entry for entry in before.get("runs", ())
                if entry.get("owner") == owner and entry["id"] in requests
                and _cancel_request(entry) == requests[entry["id"]]
            ]  # fmt: skip
            taken[:] = [entry["id"] for entry in heard]
            for entry in heard:
                before = _with_entry(before, entry, without(entry, "cancel"))
            return before if heard else document or before

        self._context.writer.edit(job_id, edit, notify=False)
        return taken

    def _read(self, entry: Document, document: Document) -> Run | None:
        try:
            return self._context.codec.run(entry, document)
        except CodecError as error:
            log_unreadable_run(self._logger, entry.get("id"), error)
            return None

    def add(self, run: Run, must_exist: bool = False) -> None:
        """Add a pending run to the document of its job, unless it is there already.

        There need not be such a job unless it ``must_exist``.

        :raises JobLookupError: if there is none and it must exist
        """

        def edit(document: Document | None) -> Document:
            if must_exist and (document is None or not document["here"]):
                raise JobLookupError(run.job.id)
            before: Document = {"_id": run.job.id, "here": False} if document is None else document
            runs: Sequence[Document] = before.get("runs", ())
            if any(entry["id"] == run.id for entry in runs):
                return before
            if len(runs) >= MAX_RUNS_PER_JOB:
                raise InvalidArgument(f"Job {run.job.id!r} has {len(runs)} runs; more cannot be stored", field="job_id")
            if run.fence > before.get("fence", 0):  # it was claimed before, and its job was forgotten since
                before = {**before, "fence": run.fence}
            return with_runs(before, [*runs, self._context.codec.run_entry(run, before)])

        self._context.writer.edit(run.job.id, edit)

    def discard_all(self, job_id: str | None) -> bool:
        """Remove the pending runs of one job or of all; false if there were none."""
        ids = [row["_id"] for row in self._jobs.find(_of_job(job_id, PENDING), {"_id": 1})]
        for found in ids:
            self.discard(found)
        return bool(ids)

    def discard(self, job_id: str, revoke: bool = False) -> None:
        """Remove the pending runs of a job; with ``revoke`` nothing follows its live ones."""
        turns: list[str] = []

        def edit(document: Document | None) -> Document:
            if document is None or not document.get("runs"):
                return document or {"_id": job_id, "here": False}
            turns[:] = [entry["freed"] for entry in document["runs"] if "owner" not in entry and "freed" in entry]
            mark = {"revoked": True} if revoke else {}
            return with_runs(document, [{**entry, **mark} for entry in document["runs"] if "owner" in entry])

        self._context.writer.edit(job_id, edit, notify=False)
        unblock_next(self._context, turns)

    def cancel(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool
    ) -> Run | None:
        """End a pending run as ``end`` says, or request that the owner of a live one cancels it; None if there is none.

        An earlier reason for a live one stays if this one ``keep_existing_reason``.
        """
        found_in: Document = {"$or": [LIVE, PENDING], "runs.id": run_id}
        row = self._jobs.find_one(found_in, {"_id": 1})
        if row is None:
            return None
        job_id: str = row["_id"]
        found: list[tuple[Run, Document]] = []

        def edit(document: Document | None) -> Document:
            del found[:]
            before: Document = document or {"_id": job_id, "here": False}
            entry = next((entry for entry in before.get("runs", ()) if entry["id"] == run_id), None)
            run = None if entry is None else self._read(entry, before)
            if entry is None or run is None:
                return document or before
            found.append((run, entry))
            if "owner" in entry:
                stays = keep_existing_reason and "cancel" in entry
                return before if stays else _with_entry(before, entry, {**entry, "cancel": json_text(reason)})
            return _called_off(before, entry, end(run))

        self._context.writer.move_records([self._context.writer.edit(job_id, edit)])
        unblock_next(self._context, [entry["freed"] for _, entry in found if "freed" in entry and "owner" not in entry])
        return found[0][0] if found else None


def _number_of(condition: Document) -> Document:
    return {"$size": {"$filter": {"input": "$runs", "as": "run", "cond": condition}}}


def _called_off(document: Document, entry: Document, end: Settlement) -> Document:
    """Return a document from which a pending run is gone, with a record of that."""
    others = [each for each in document["runs"] if each is not entry]
    after = with_runs(document, unblocked(others, entry.get("freed", "")))
    record = history_document(record_of(end.attempt), ":off")
    return {**after, "told": [*document.get("told", ()), record]}


def _with_entry(document: Document, entry: Document, changed: Document) -> Document:
    return with_runs(document, [changed if each is entry else each for each in document["runs"]])


def _cancel_request(entry: Document) -> str | None:
    """Return the reason of the cancel request of a live run, if it has one."""
    return from_json_text(entry.get("cancel")) if "owner" in entry else None


def _of_job(job_id: str | None, condition: Document) -> Document:
    return condition if job_id is None else {"_id": job_id, **condition}
