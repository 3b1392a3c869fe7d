"""Runs in the MongoDB store that have not ended: listed, discarded, cancelled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, JobLookupError
from goscheduler.jobstores.mongodb.documents import (
    LIVE,
    MOST_RUNS,
    PENDING,
    Document,
    end_mark,
    freed,
    history_document,
    quoted,
    unquoted,
    with_runs,
    without,
)
from goscheduler.jobstores.mongodb.firing import StoreContext, free_held
from goscheduler.runs.records import record_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run, Settlement


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
        """Return the runs that nobody has yet, in the order of their due times."""
        return sorted(self._where(_of_job(job_id, PENDING), live=False), key=lambda run: to_micros(run.due_at))

    def _where(self, condition: Document, live: bool) -> list[Run]:
        found = [
            self._read(entry, document)
            for document in self._jobs.find(condition)
            for entry in document["runs"]
            if ("owner" in entry) is live
        ]
        return [run for run in found if run is not None]

    def to_cancel(self, owner: str) -> list[tuple[Run, str]]:
        """Return the runs of an owner that are to be ended, and why."""
        found = [
            (self._read(entry, document), unquoted(entry["cancel"]) or "")
            for document in self._jobs.find({"marks": end_mark(owner)})
            for entry in document["runs"]
            if entry.get("owner") == owner and "cancel" in entry
        ]
        return [(run, reason) for run, reason in found if run is not None]

    def cancel_requests(self, job_id: str) -> dict[str, str]:
        """Return run id → reason, of the live runs of a job that are to be ended."""
        document = self._jobs.find_one({"_id": job_id}, {"runs": 1}) or {}
        asked = {entry["id"]: _wished(entry) for entry in document.get("runs", ())}
        return {run_id: reason for run_id, reason in asked.items() if reason is not None}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> list[str]:
        """Forget that some runs of an owner are to be ended, where that is for the same reason; return their ids."""
        taken: list[str] = []
        these: Document = {"marks": end_mark(owner), "runs.id": {"$in": list(requests)}}
        for job_id in [row["_id"] for row in self._jobs.find(these, {"_id": 1})]:
            taken += self._take_back(job_id, owner, requests)
        return taken

    def _take_back(self, job_id: str, owner: str, requests: Mapping[str, str]) -> list[str]:
        taken: list[str] = []

        def edit(document: Document | None) -> Document:
            before: Document = document or {"_id": job_id, "here": False}
            heard = [
                entry for entry in before.get("runs", ())
                if entry.get("owner") == owner and entry["id"] in requests and _wished(entry) == requests[entry["id"]]
            ]  # fmt: skip
            taken[:] = [entry["id"] for entry in heard]
            for entry in heard:
                before = _with_entry(before, entry, without(entry, "cancel"))
            return before if heard else document or before

        self._context.writer.edit(job_id, edit, call=False)
        return taken

    def _read(self, entry: Document, document: Document) -> Run | None:
        try:
            return self._context.documents.run(entry, document)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", entry.get("id"), error)
            return None

    def add(self, run: Run, must_exist: bool = False) -> None:
        """Add a pending run to the document of its job; there need not be such a job unless it ``must_exist``.

        :raises JobLookupError: if there is none and it must exist
        """

        def edit(document: Document | None) -> Document:
            if must_exist and (document is None or not document["here"]):
                raise JobLookupError(run.job.id)
            before: Document = {"_id": run.job.id, "here": False} if document is None else document
            runs: Sequence[Document] = before.get("runs", ())
            if len(runs) >= MOST_RUNS:
                raise InvalidArgument(f"Job {run.job.id!r} has {len(runs)} runs; more cannot be stored", field="job_id")
            if run.fence > before.get("fence", 0):  # it was handed out before, and its job was forgotten since
                before = {**before, "fence": run.fence}
            return with_runs(before, [*runs, self._context.documents.run_entry(run, before)])

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

        self._context.writer.edit(job_id, edit, call=False)
        free_held(self._context, turns)

    def cancel(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool
    ) -> Run | None:
        """End a pending run as ``end`` says, or have the owner of a live one told; None if there is none.

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
                return before if stays else _with_entry(before, entry, {**entry, "cancel": quoted(reason)})
            return _called_off(before, entry, end(run))

        self._context.writer.pass_on([self._context.writer.edit(job_id, edit)])
        free_held(self._context, [entry["freed"] for _, entry in found if "freed" in entry and "owner" not in entry])
        return found[0][0] if found else None


def _called_off(document: Document, entry: Document, end: Settlement) -> Document:
    """Return a document from which a pending run is gone, with a record of that."""
    others = [each for each in document["runs"] if each is not entry]
    after = with_runs(document, freed(others, entry.get("freed", "")))
    record = history_document(record_of(end.attempt), ":off")
    return {**after, "told": [*document.get("told", ()), record]}


def _with_entry(document: Document, entry: Document, changed: Document) -> Document:
    return with_runs(document, [changed if each is entry else each for each in document["runs"]])


def _wished(entry: Document) -> str | None:
    """Return why a live run is to end, if it is."""
    return unquoted(entry.get("cancel")) if "owner" in entry else None


def _of_job(job_id: str | None, condition: Document) -> Document:
    return condition if job_id is None else {"_id": job_id, **condition}
