"""How the MongoDB store changes documents: each only if no other process has changed it since it was read.

Each version of a document has a token that is used once. A change names the token of the version that was read, so it
either finds just that version or does nothing; to lose is a normal answer. Many changes are one message. If the server
changed fewer documents than it was asked to, or if the connection broke before the answer came, the writer reads back
which documents have its tokens. A primary that steps down may pass on its last writes late, so such a read begins with
a write: when the majority has that write, it has all writes before it.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pymongo import DeleteMany, UpdateMany
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, ConnectionFailure, DuplicateKeyError
from pymongo.write_concern import WriteConcern

from goscheduler.jobstores.mongodb.documents import Document, indexed, is_empty, without

#: How many documents are changed by one statement, and by all the statements of one message.
DOCUMENTS_PER_STATEMENT = 100
DOCUMENTS_PER_MESSAGE = 1000
#: How often one change is tried before it fails because other processes are always quicker.
MAX_ATTEMPTS = 200
_DUPLICATE = 11000


class Collections(NamedTuple):
    """The collections of one store."""

    jobs: Collection[Document]
    history: Collection[Document]
    dead: Collection[Document]
    owners: Collection[Document]
    limits: Collection[Document]
    meta: Collection[Document]
    calls: Collection[Document]
    notes: Collection[Document]
    inbox: Collection[Document]
    refused: Collection[Document]


class Change(NamedTuple):
    """A document as it was read, and as it is to be; ``after`` without anything to know is deleted."""

    before: Document
    after: Document


class Writer:
    """Writes for one store."""

    def __init__(self, collections: Collections) -> None:
        self._jobs = collections.jobs
        self._history = collections.history
        self._meta = collections.meta
        self._notifications = collections.calls.with_options(write_concern=WriteConcern(w=0))
        self.name = uuid.uuid4().hex[:16]
        """The first part of all tokens of this process."""
        self._numbers = itertools.count(1)
        self.known: dict[str, Document] = {}
        """Run id → the document that this process wrote it into, for runs of its own: it is not read when these end."""

    def mark(self) -> str:
        """Return a token that no process has used."""
        return f"{self.name}-{next(self._numbers):x}"

    def add(self, document: Document) -> bool:
        """Add a document; false if there is one by its id."""
        return self._write_one(document["_id"], None, indexed(document), notify=True)

    def notify(self) -> None:
        """Let other processes peek at once. Nobody waits until they hear it: they also peek by themselves."""
        self._notifications.insert_one({"by": self.mark()})

    def catch_up(self) -> None:
        """Return when everything that was written so far can be read, or is gone with the server that had it."""
        self._meta.update_one({"_id": "reader"}, {"$set": {"by": self.mark()}}, upsert=True)

    def add_all(self, documents: Sequence[Document]) -> set[str]:
        """Add documents, and return the ids of those that could not be added: something is known of their jobs."""
        for document in documents:
            document.update(v=self.mark())
        taken = set(self._insert_all([indexed(document) for document in documents]))
        if not taken:
            self.notify()
        return taken

    def edit(self, job_id: str, edit: Callable[[Document | None], Document], notify: bool = True) -> Document:
        """Change one document as ``edit``, a pure function, says, even if other processes change it too."""
        for _ in range(MAX_ATTEMPTS):
            before = self._jobs.find_one({"_id": job_id})
            after = edit(before)
            if after is before:
                return after
            after = indexed(after)
            if self._write_one(job_id, before, after, notify):
                return after
        raise ConnectionFailure(f"Job {job_id!r} is changed by other processes all the time")

    def _write_one(self, job_id: str, before: Document | None, after: Document, notify: bool) -> bool:
        after["v"] = self.mark()
        try:
            written = self._replace(job_id, before, after)
        except ConnectionFailure:
            self.catch_up()
            if not self._jobs.count_documents({"_id": job_id, "v": after["v"]}, limit=1):
                raise
            written = True
        if written and notify:
            self.notify()
        return written

    def _replace(self, job_id: str, before: Document | None, after: Document) -> bool:
        if before is None:
            return is_empty(after) or self._insert(after)
        if is_empty(after):
            return self._jobs.delete_one({"_id": job_id, "v": before["v"]}).deleted_count == 1
        return self._jobs.replace_one({"_id": job_id, "v": before["v"]}, after).matched_count == 1

    def _insert(self, document: Document) -> bool:
        try:
            self._jobs.insert_one(document)
        except DuplicateKeyError:
            return False
        return True

    def _insert_all(self, documents: Sequence[Document]) -> list[str]:
        """Add documents, and return the ids of those of which there is one already."""
        try:
            self._jobs.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            return [documents[index]["_id"] for index in duplicates(error)]
        return []

    def write(self, changes: Sequence[Change], owner: str | None = None) -> list[Change]:
        """Write changes of different documents, and return those that were made.

        The writer remembers the documents of runs of ``owner``.
        """
        ready = [Change(before, after if is_empty(after) else indexed(after)) for before, after in changes]
        made: list[Change] = []
        for start in range(0, len(ready), DOCUMENTS_PER_MESSAGE):
            made += self._send(ready[start : start + DOCUMENTS_PER_MESSAGE])
        for before, after in made:
            self._remember(before, after, owner)
        return made

    def _remember(self, before: Document, after: Document, owner: str | None) -> None:
        if "broken" not in after:  # else what was in there may be anything
            for entry in before.get("runs", ()):
                self.known.pop(entry["id"], None)
        for entry in after.get("runs", ()) if owner is not None else ():
            if entry.get("owner") == owner:
                self.known[entry["id"]] = after

    def _send(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Write changes by one message, and return those that were made."""
        kept: list[Change] = []
        deleted: list[Change] = []
        for change in changes:
            change.after["v"] = self.mark()
            (deleted if is_empty(change.after) else kept).append(change)
        statements = [
            statement(group[start : start + DOCUMENTS_PER_STATEMENT])
            for statement, group in ((_update, kept), (_deletion, deleted))
            for start in range(0, len(group), DOCUMENTS_PER_STATEMENT)
        ]
        result = self._jobs.bulk_write(statements, ordered=False)
        return changes if result.matched_count + result.deleted_count == len(changes) else self._read_back(changes)

    def _read_back(self, group: Sequence[Change]) -> list[Change]:
        """Return which changes were made; if a document was changed again since, its runs tell."""
        ids = [change.before["_id"] for change in group]
        parts = {"v": 1, "runs.id": 1, "runs.by": 1}
        now = {found["_id"]: found for found in self._jobs.find({"_id": {"$in": ids}}, parts)}
        return [change for change in group if _is_made(change, now.get(change.before["_id"]))]

    def record(self, documents: Sequence[Document]) -> list[str]:
        """Write records into the history, and return the ids of those that were there already."""
        if not documents:
            return []
        try:
            self._history.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            return [documents[index]["_id"] for index in duplicates(error)]
        return []

    def move_records(self, documents: Iterable[Document], owner: str | None = None) -> None:
        """Move the records that wait in documents of jobs into the history."""
        waiting = [document for document in documents if document.get("told")]
        if waiting:
            self.record([record for document in waiting for record in document["told"]])
            self.write([Change(document, without(document, "told")) for document in waiting], owner)


def duplicates(error: BulkWriteError) -> list[int]:
    """Return the places of the documents that were there already; raise the error if there is more to it."""
    problems = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or any(problem["code"] != _DUPLICATE for problem in problems):
        raise error
    return [problem["index"] for problem in problems]


def _update(group: Sequence[Change]) -> Any:
    """Return one statement that changes many documents: a table of what each of them is to be.

    What stays and may be large is not sent again; no change removes it.
    """
    ids = [change.before["_id"] for change in group]
    values = [
        without(after, "definition") if after.get("definition") == before.get("definition") else after
        for before, after in group
    ]
    value: Document = {"$arrayElemAt": [{"$literal": values}, {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
    steps = [{"$replaceWith": {"$mergeObjects": [{"definition": "$definition"}, value]}}]
    return UpdateMany(as_read([change.before for change in group]), steps)


def _deletion(group: Sequence[Change]) -> Any:
    return DeleteMany(as_read([change.before for change in group]))


def as_read(documents: Sequence[Document]) -> Document:
    """Return the filter for documents as they were read: a token belongs to one version of one document."""
    return {
        "_id": {"$in": [document["_id"] for document in documents]},
        "v": {"$in": [document["v"] for document in documents]},
    }


def _is_made(change: Change, now: Document | None) -> bool:
    if now is None:  # no other process deletes the last runs of a document
        return is_empty(change.after)
    if now.get("v") == change.after["v"]:
        return True
    new = _claims(change.after) - _claims(change.before)
    return bool(new & _claims(now))


def _claims(document: Document) -> set[tuple[str, str]]:
    return {(entry["id"], entry.get("by", "")) for entry in document.get("runs", ())}
