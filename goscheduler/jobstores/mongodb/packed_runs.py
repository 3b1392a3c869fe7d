"""Runs of jobs that are over by having fired, in the MongoDB store: many of them in one document, a flight.

Who fires many jobs for the last time deletes their documents and writes all their runs into a few new ones, in a
transaction. That costs half of what it does to write each run into the document of its job. A run ends there as in any
document. Whatever else is to happen to it, be it cancelled, tried again or recovered, happens in the document of its
job: before that it **lands** there. So a flight holds live runs of one owner, and nothing else.

A job that is added again, or asked to run, while its last run flies has a document that does not know of that run. Such
a document is ``new`` until the job fires or a run of it is claimed. Before that, one question asks the flights for runs
of all new jobs of a batch, and what they have lands. A later flight has none: it would have deleted the document.

A server that is no member of a replica set has no transactions, and no flights.

A process that is killed in the middle of a transaction leaves it open, and the server keeps everybody from what it has
touched for a minute. So it is noted with the owner which sessions it uses, and who waits in vain ends those of all the
others: whoever is alive only has to try again.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymongo
from bson import ObjectId
from pymongo import DeleteOne, InsertOne, ReadPreference, ReplaceOne
from pymongo.errors import BulkWriteError, ConfigurationError, ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from goscheduler.jobstores.mongodb.documents import FLIGHT, Document, indexed, is_empty, with_runs, without
from goscheduler.jobstores.mongodb.writer import MOST_TRIES, Change, Collections, Writer, as_read, duplicates
from goscheduler.runs.model import Source
from goscheduler.runs.plan import FiringPlan

#: How many runs are worth a flight, and how many one holds at most: what is left of one is written anew when some end.
FEWEST = 20
MOST = 100
#: How long the text of a job may be that goes along with its run.
LONGEST_TEXT = 10_000
#: How many flights land at once.
LANDING = 20
#: For how many batches at most none takes off, when others have snatched at the same jobs.
LONGEST_REST = 32
#: After how many landings in vain it is thought that somebody was killed.
IN_VAIN = 50
#: Seconds for ending a transaction when the deadline has passed.
LAST_WORD = 1.0
#: Codes of what servers say that have no transactions, or not for this.
_NO_TRANSACTIONS = (20, 263)


class _Changed(Exception):
    """Nothing was written: somebody else was quicker, or it cannot be done in this way."""


def can_fly(document: Document, plan: FiringPlan) -> bool:
    """Tell whether no more is left of a job, when it has fired as planned, than one live run of it."""
    return (
        len(plan.start) == 1
        and plan.next_run_time is None
        and not (plan.keep or plan.wait or plan.records or plan.cancel_live or plan.suspended)
        and not ("runs" in document or "told" in document or "limits" in document)
        and plan.start[0].source is Source.SCHEDULE
        and len(document["definition"]) <= LONGEST_TEXT
    )


class Flights:
    """The flights of one store."""

    def __init__(self, collections: Collections, writer: Writer) -> None:
        self._jobs = collections.jobs
        self._owners = collections.owners.with_options(write_concern=WriteConcern(w=1))
        self._writer = writer
        self._owner: str | None = None
        self._noted: set[bytes] = set()
        self.possible = True
        """Whether the server has transactions, as far as is known."""
        self._rest = self._resting = 0

    def belong_to(self, owner: str) -> None:
        """Note with an owner which sessions we use."""
        if owner != self._owner:
            self._owner, self._noted = owner, set()

    def may_take_off(self, count: int) -> bool:
        """Tell whether so many jobs may fly; not for some time after others have snatched at the same ones."""
        if not self.possible or count < FEWEST:
            return False
        self._resting = max(0, self._resting - 1)
        return not self._resting

    def take_off(self, documents: Sequence[Document], entries: Sequence[Document]) -> bool:
        """Delete documents of jobs, and write the entries of their runs; false if that failed."""
        if not documents:
            return False
        try:
            self._fly(documents, entries)
        except _Changed:
            self._rest = min(2 * self._rest + 1, LONGEST_REST)
            self._resting = self._rest + 1
            return False
        self._rest = 0
        return True

    def _fly(self, documents: Sequence[Document], entries: Sequence[Document]) -> None:
        flights = [self._marked(_flight([*entries[start : start + MOST]])) for start in range(0, len(entries), MOST)]
        with self._transaction() as session:
            if self._jobs.delete_many(as_read(documents), session=session).deleted_count < len(documents):
                raise _Changed
            self._jobs.insert_many(flights, session=session)
        for flight in flights:
            self._writer.known.update((entry["id"], flight) for entry in flight["runs"])

    def insert_all(self, documents: Sequence[Document]) -> Iterable[str]:
        """Add documents of jobs, all or none; return the ids of jobs that there are, or all if something else is."""
        if self._insert(documents):
            return ()
        if not self.possible:
            return self._writer.insert_all_plainly(documents)
        ids = [document["_id"] for document in documents]
        there = self._jobs.find({"_id": {"$in": ids}, "here": True}, {"_id": 1})
        return [row["_id"] for row in there] or ids

    def _insert(self, documents: Sequence[Document]) -> bool:
        if not self.possible:
            return False
        try:
            with self._transaction() as session:
                self._jobs.insert_many(documents, session=session)
        except BulkWriteError as error:
            duplicates(error)
            return False
        except _Changed:
            return False
        return True

    def completed(self, documents: Sequence[Document], place: str) -> Sequence[Document]:
        """Return documents that have all live runs of their jobs: what flights had of new ones has landed.

        One that somebody has changed meanwhile at ``place`` is left for the next look.
        """
        new = [document["_id"] for document in documents if "new" in document]
        if not new or not self.possible:
            return documents
        flights = self._jobs.find({"marks": FLIGHT, "runs.job": {"$in": new}}, {"runs.job": 1})
        flying = {entry["job"] for flight in flights for entry in flight["runs"]}.intersection(new)
        if not flying:
            return documents
        self.land_jobs(flying)
        landed = {row["_id"]: row for row in self._jobs.find({"_id": {"$in": list(flying)}})}
        latest = [landed.get(document["_id"], {}) if document["_id"] in flying else document for document in documents]
        return [now for now, before in zip(latest, documents, strict=True) if now.get(place) == before[place]]

    def land(self, condition: Document, jobs: Collection[str] | None = None) -> None:
        """Move runs out of the flights that a condition finds; all, or those of some jobs."""
        for number in range(1, MOST_TRIES):
            flights = list(self._jobs.find({**condition, "marks": FLIGHT}).limit(LANDING))
            if not flights:
                return
            try:
                self._land(flights, jobs)
            except _Changed:
                if number % IN_VAIN == 0:
                    self.free()
        raise ConnectionFailure("Runs are changed by others all the time")

    def land_jobs(self, jobs: Collection[str]) -> None:
        """Move the runs of some jobs out of flights."""
        self.land({"runs.job": {"$in": list(jobs)}}, jobs)

    def free(self) -> None:
        """End the transactions of all other owners, because one of them may have been killed."""
        others: Document = {"_id": {"$ne": self._owner}, "sessions": {"$exists": True}}
        sessions = [{"id": each} for row in self._owners.find(others, {"sessions": 1}) for each in row["sessions"]]
        if sessions:
            self._jobs.database.client.admin.command("killSessions", sessions)

    def _land(self, flights: Sequence[Document], jobs: Collection[str] | None) -> None:
        """Move runs into the documents of their jobs; there need not be any."""
        landing = [entry for flight in flights for entry in flight["runs"] if jobs is None or entry["job"] in jobs]
        gone = {entry["id"] for entry in landing}
        with self._transaction() as session:
            ids = [entry["job"] for entry in landing]
            before = {row["_id"]: row for row in self._jobs.find({"_id": {"$in": ids}}, session=session)}
            after = dict(before)
            for entry in landing:
                after[entry["job"]] = _landed(entry, after.get(entry["job"]))
            changes = [Change(before.get(job_id, {}), document) for job_id, document in after.items()]
            for flight in flights:
                rest = [entry for entry in flight["runs"] if entry["id"] not in gone]
                changes.append(Change(flight, with_runs(flight, rest)))
            self._write(changes, session)
        for run_id in gone:
            self._writer.known.pop(run_id, None)

    def _write(self, changes: Sequence[Change], session: Any) -> None:
        statements = [self._statement(change) for change in changes]
        try:
            result = self._jobs.bulk_write(statements, ordered=False, session=session)
        except BulkWriteError as error:
            duplicates(error)
            raise _Changed from None
        if result.inserted_count + result.matched_count + result.deleted_count < len(changes):
            raise _Changed

    def _statement(self, change: Change) -> Any:
        before, after = change
        if not before:
            return InsertOne(self._marked(after))
        as_read = {"_id": before["_id"], "v": before["v"]}
        return DeleteOne(as_read) if is_empty(after) else ReplaceOne(as_read, self._marked(after))

    def _marked(self, document: Document) -> Document:
        return {**indexed(document), "v": self._writer.mark()}

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Make what is done inside together, or not at all.

        Without transactions it is done step by step: there flights can only have come with a copy of the data.
        """
        if not self.possible:
            yield None
            return
        try:
            with self._jobs.database.client.start_session(causal_consistency=False) as session:
                self._note(session)
                session.start_transaction(ReadConcern("local"), self._jobs.write_concern, ReadPreference.PRIMARY)
                try:
                    yield session
                except BaseException:
                    _last_word(session.abort_transaction)
                    raise
                _commit(session)
        except OperationFailure as error:
            self.possible = error.code not in _NO_TRANSACTIONS
            if self.possible and not error.has_error_label("TransientTransactionError"):
                raise
            raise _Changed from None
        except ConfigurationError:  # a server without sessions
            self.possible = False
            raise _Changed from None

    def _note(self, session: Any) -> None:
        """Let the others know whose session this is, before anything is done in it."""
        session_id = session.session_id["id"]
        if self._owner is None or session_id in self._noted:
            return
        change = {"$addToSet": {"sessions": session_id}}
        if self._owners.update_one({"_id": self._owner}, change).matched_count:
            self._noted.add(session_id)


def _commit(session: Any) -> None:
    """Commit a transaction. Where the answer is lost, or there was no time to ask, it is asked for once more."""
    try:
        session.commit_transaction()
    except PyMongoError as error:
        if not error.has_error_label("UnknownTransactionCommitResult"):
            raise
        _last_word(session.commit_transaction)


def _last_word(end: Callable[[], None]) -> None:
    """End a transaction, also after the deadline: the server keeps one that is left open, and what it has touched
    from all others, for a minute."""

    def in_time() -> None:
        with pymongo.timeout(LAST_WORD):
            end()

    contextvars.Context().run(in_time)


def _flight(entries: list[Document]) -> Document:
    return {"_id": ObjectId(), "here": False, "runs": entries}


def _landed(entry: Document, document: Document | None) -> Document:
    """Return the document of a job with a run in it that came by a flight."""
    definition, run = entry["definition"], without(entry, "job", "definition")
    if document is None:
        return {"_id": entry["job"], "here": False, "definition": definition, "fence": entry["fence"], "runs": [run]}
    if any(each["id"] == entry["id"] for each in document.get("runs", ())):
        return document  # step by step: somebody has come this far, and no further
    if document.get("definition") != definition:
        run["definition"] = definition
    fence = max(document.get("fence", 0), entry["fence"])
    return {**document, "fence": fence, "runs": [*document.get("runs", ()), run]}
