"""Moves runs that an earlier version packed together into the documents of their jobs.

That version wrote the live runs of up to 100 jobs that had fired for the last time into one document, with an
``ObjectId`` for its ``_id`` and the mark "flight". Each run there brings the id of its job as ``job`` and the text of
its job as ``definition``. This version does not write such documents.

Each document is unpacked in a transaction, so that a process that stalls halfway cannot add a run that has ended since.
A server without transactions can have such documents only in a copy of the data of another server, and there no process
works on them; it takes the same steps one by one.
"""

from __future__ import annotations

from typing import Any

from pymongo import InsertOne, ReadPreference, ReplaceOne
from pymongo.errors import BulkWriteError, OperationFailure
from pymongo.read_concern import ReadConcern

from goscheduler.jobstores.mongodb.documents import Document, indexed, without
from goscheduler.jobstores.mongodb.writer import Collections, Writer, duplicates

_PACKED: Document = {"marks": "flight"}
#: Error codes of servers that have no transactions.
NO_TRANSACTIONS = (20, 263)


def unpack_runs(collections: Collections, writer: Writer) -> None:
    """Move all packed runs into the documents of their jobs."""
    jobs = collections.jobs

    def unpack(session: Any) -> None:
        packed = jobs.find_one({"_id": packed_id}, session=session)
        if packed is None:  # another process has unpacked it
            return
        ids = [entry["job"] for entry in packed["runs"]]
        before = {row["_id"]: row for row in jobs.find({"_id": {"$in": ids}}, session=session)}
        after = dict(before)
        for entry in packed["runs"]:
            after[entry["job"]] = _with_run(after.get(entry["job"]), entry)
        marked = {job_id: {**indexed(document), "v": writer.mark()} for job_id, document in after.items()}
        statements: list[Any] = [
            ReplaceOne({"_id": job_id, "v": before[job_id]["v"]}, document) if job_id in before else InsertOne(document)
            for job_id, document in marked.items()
        ]
        result = jobs.bulk_write(statements, session=session)
        if result.inserted_count + result.matched_count == len(statements):
            jobs.delete_one({"_id": packed_id}, session=session)

    while (found := jobs.find_one(_PACKED, {"_id": 1})) is not None:
        packed_id = found["_id"]
        try:
            with jobs.database.client.start_session() as session:
                session.with_transaction(unpack, ReadConcern("local"), jobs.write_concern, ReadPreference.PRIMARY)
        except BulkWriteError as error:
            duplicates(error)  # another process has just added one of these jobs
        except OperationFailure as error:
            if error.code not in NO_TRANSACTIONS:
                raise
            unpack(None)


def _with_run(document: Document | None, entry: Document) -> Document:
    """Return the document of a job with a run that was packed."""
    definition, run = entry["definition"], without(entry, "job", "definition")
    if document is None:
        return {"_id": entry["job"], "here": False, "definition": definition, "fence": entry["fence"], "runs": [run]}
    runs = document.get("runs", [])
    if any(each["id"] == entry["id"] for each in runs):
        return document  # a process without transactions stopped halfway
    if document.get("definition") != definition:
        run["definition"] = definition
    return {**document, "fence": max(document.get("fence", 0), entry["fence"]), "runs": [*runs, run]}
