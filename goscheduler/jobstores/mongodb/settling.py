"""Settling in the MongoDB store: the ends of runs, what follows them, and the runs of lost owners.

The end of a run changes two documents, its record in the history and the document of its job. **The record decides**:
its id is the claim that it ends, run id and fence. Of several processes that end a claim the first wins, and the store
refuses the others. The record also says what follows. Then the store applies it: the run leaves the document of its
job, or waits there again.

==========================================  ==========================================================================
a crash after                               leaves
==========================================  ==========================================================================
nothing was written                         a live run with a lost owner: ``recover_runs`` ends it
the record                                  a live run that has a record: ``recover_runs`` applies what the record says
the record and the dead letter              the same; writing a dead letter again changes nothing
the document of the job                     a permit of no run: it is released within seconds
==========================================  ==========================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.owner_info import host_of
from goscheduler.jobstores._shared.records import changed_head, history_record
from goscheduler.jobstores.mongodb.documents import (
    LIVE,
    Document,
    full_text,
    history_document,
    json_text,
    owner_mark,
    stats_of,
    unblocked,
    with_runs,
    with_stats,
    without,
)
from goscheduler.jobstores.mongodb.firing import StoreContext, release_and_unblock, set_aside, unblock_next
from goscheduler.jobstores.mongodb.limits import Permit, reclaim_orphans
from goscheduler.jobstores.mongodb.writer import MAX_ATTEMPTS, Change
from goscheduler.runs.model import Outcome, Run, Settlement
from goscheduler.runs.plan import keys_of
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import with_attempt
from goscheduler.times import to_micros

#: The id of a run, and the fence that it was handed out with.
Claim = tuple[str, int]

#: How many documents with records on their way into the history one recovery handles.
MAX_DOCUMENTS_MENDED = 500
#: For how long the store remembers that an owner was given up.
GIVEN_UP_KEPT_FOR = timedelta(days=1)


class Settling:
    """Writes the ends of runs for one store."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._unsure: set[str] = set()
        """Ids of records that this process may have written, and may not have applied: the server did not answer."""

    def settle(self, settlements: Sequence[Settlement], owner: str | None) -> tuple[list[Settlement], bool]:
        """Write how runs ended; return the refused ones, and whether other runs may start because of the others."""
        documents = self._documents([settlement.attempt.run for settlement in settlements])
        entries = _live_entries(documents.values())
        refused: list[Settlement] = []
        ends: list[_End] = []
        for settlement in settlements:
            run = settlement.attempt.run
            document, entry = documents.get(run.id, {}), entries.get((run.id, run.fence))
            end = _End.of(settlement, document, entry, self._context.writer.name)
            if entry is None and end.record["_id"] not in self._unsure:
                refused.append(settlement)
            else:
                ends.append(end)
        accepted = self._decide(ends)
        if len(accepted) < len(ends):
            refused += [end.settlement for end in ends if end not in accepted]
        for settlement in refused:
            self._context.writer.known.pop(settlement.attempt.run.id, None)
        try:
            return refused, self.apply(accepted, documents, owner)
        except BaseException:
            self._unsure |= {end.record["_id"] for end in accepted}  # or the next attempt would be refused
            raise

    def _documents(self, runs: Sequence[Run]) -> dict[str, Document]:
        """Return run id → the document that the run is in, where possible as this process has written it."""
        known = self._context.writer.known
        found = {run.id: document for run in runs if (document := known.get(run.id)) is not None}
        missing = {run.job.id for run in runs if run.id not in found}
        return {**self._read(missing), **found} if missing else found

    def _read(self, job_ids: Collection[str]) -> dict[str, Document]:
        """Return run id → the document that the run is in, for all runs of some jobs."""
        rows = self._context.collections.jobs.find({"_id": {"$in": list(job_ids)}})
        return {entry["id"]: row for row in rows for entry in row.get("runs", ())}

    def _decide(self, ends: Sequence[_End]) -> list[_End]:
        """Write the records, and return the ends that no other process has decided before."""
        ids = {end.record["_id"] for end in ends}
        try:
            there = set(self._context.writer.record([end.record for end in ends]))
        except BaseException:
            self._unsure |= ids
            raise
        if there:
            history = self._context.collections.history
            ours = {"_id": {"$in": list(there & self._unsure)}, "by": self._context.writer.name}
            there -= {row["_id"] for row in history.find(ours, {"_id": 1})}
        self._unsure -= ids
        return [end for end in ends if end.record["_id"] not in there]

    def apply(self, ends: Sequence[_End], documents: dict[str, Document], owner: str | None) -> bool:
        """Take ended runs out of the documents of their jobs; return whether other runs may start because of it."""
        context = self._context
        letters = [end.letter for end in ends if end.letter is not None]
        for letter in letters:
            context.collections.dead.replace_one({"_id": letter["_id"]}, letter, upsert=True)
        freed_limits = any(end.entry is None or "limits" in end.entry for end in ends)
        pending = ends
        for _ in range(MAX_ATTEMPTS):
            groups, elsewhere = _by_document(pending, documents)
            changes = [
                Change(document, after)
                for document, group in groups.values()
                if (after := _applied(document, group)) is not None
            ]
            freed_limits = freed_limits or any("runs" in after for _, after in changes)
            made = {change.before["_id"] for change in context.writer.write(changes, owner)}
            left = [change.before["_id"] for change in changes if change.before["_id"] not in made]
            pending = [*elsewhere, *(end for document_id in left for end in groups[document_id][1])]
            if not pending:
                break
            documents = self._read({end.job_id for end in pending})
        for end in ends:
            context.writer.known.pop(end.run_id, None)  # also if another process has applied it
        self._ease(ends)
        return freed_limits

    def _ease(self, ends: Sequence[_End]) -> None:
        """Release the permits of ended runs, and unblock runs that wait for them."""
        entries = [end.entry for end in ends if end.entry is not None and "limits" in end.entry]
        release_and_unblock(self._context, [Permit.of(entry) for entry in entries], ended=True)

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up owners whose lease has lapsed, and settle their runs."""
        lost_owners = self._give_up(to_micros(now))
        rows = self._documents_of(list(lost_owners))
        ends = [end for row in rows for end in self._lost(row, lost_owners, decide)]
        decided = self._decide(ends)
        others = [end for end in ends if end not in decided]
        documents = {entry["id"]: row for row in rows for entry in row["runs"]}
        self.apply([*decided, *self._as_recorded(others)], documents, None)
        self._mend(now)
        return [end.settlement for end in decided]

    def _give_up(self, now: int) -> dict[str, str]:
        """Return owner → host of owners with runs and without a lease; they cannot renew it any more."""
        owners = self._context.collections.owners
        # Owners with runs are read before leases: an owner has a lease before it has runs.
        marks = self._context.collections.jobs.distinct("marks", LIVE)
        having = {mark.removeprefix("owner:") for mark in marks if mark.startswith("owner:")}
        lapsed = {"expires": {"$lte": now}, "given_up": {"$exists": False}}
        owners.update_many(lapsed, {"$set": {"given_up": now}})
        known = {row["_id"]: row for row in owners.find({})}
        for owner in having - known.keys():
            owners.update_one({"_id": owner}, {"$setOnInsert": {"given_up": now, "expires": now}}, upsert=True)
        return {
            owner: host_of(known.get(owner, {}).get("account", ""))
            for owner in having
            if owner not in known or "given_up" in known[owner]
        }

    def _lost(self, document: Document, owners: dict[str, str], decide: Callable[[Run, str], Settlement]) -> list[_End]:
        ends = []
        for entry in document["runs"]:
            if entry.get("owner") not in owners:
                continue
            try:
                run = self._context.codec.run(entry, document)
            except CodecError as error:
                self._set_aside(document["_id"], entry["id"], str(error))
                continue
            ends.append(_End.of(decide(run, owners[entry["owner"]]), document, entry, self._context.writer.name))
        return ends

    def retire(self, owner: str) -> None:
        """Make the runs of an owner pending again, but for those that have a record already."""
        documents = self._documents_of([owner])
        claims = {
            f"{entry['id']}:{entry['fence']}": document["_id"]
            for document in documents
            for entry in document["runs"]
            if entry.get("owner") == owner
        }
        over = set(self._context.collections.history.distinct("_id", {"_id": {"$in": list(claims)}}))
        for job_id in set(claims.values()):
            self._context.writer.edit(job_id, partial(_put_back, job_id, owner, over))
        entries = [entry for document in documents for entry in document["runs"] if entry.get("owner") == owner]
        release_and_unblock(self._context, [Permit.of(entry) for entry in entries], ended=True)
        self._context.writer.known.clear()

    def _documents_of(self, owners: Sequence[str]) -> list[Document]:
        """Return the documents of jobs in which owners have runs."""
        if not owners:
            return []
        marks = [owner_mark(owner) for owner in owners]
        return list(self._context.collections.jobs.find({"marks": {"$in": marks}}))

    def _set_aside(self, job_id: str, run_id: str, reason: str) -> None:
        def edit(document: Document | None) -> Document:
            if document is None or "runs" not in document:  # it has ended meanwhile
                return {"_id": job_id, "here": False} if document is None else document
            runs = [set_aside(entry, reason) if entry["id"] == run_id else entry for entry in document["runs"]]
            return with_runs(document, unblocked(runs, f"job:{job_id}"))

        self._context.writer.edit(job_id, edit)

    def _as_recorded(self, ends: Sequence[_End]) -> list[_End]:
        """Return ends as the records of other processes have them."""
        history = self._context.collections.history
        rows = {row["_id"]: row for row in history.find({"_id": {"$in": [end.record["_id"] for end in ends]}})}
        return [end.as_recorded(rows[end.record["_id"]]) for end in ends if end.record["_id"] in rows]

    def _mend(self, now: datetime) -> None:
        """Finish what a lost process has left half done."""
        context = self._context
        context.writer.move_records(list(context.collections.jobs.find({"marks": "told"}).limit(MAX_DOCUMENTS_MENDED)))
        unblock_next(context, [f"limit:{name}" for name in reclaim_orphans(context.collections, context.writer, now)])
        context.collections.owners.delete_many({"given_up": {"$lt": to_micros(now - GIVEN_UP_KEPT_FOR)}})


class _End:
    """The end of one claim."""

    __slots__ = ("claim", "entry", "job_id", "record", "run_id", "settlement")

    def __init__(self, settlement: Settlement, record: Document, entry: Document | None) -> None:
        self.settlement = settlement
        self.record = record
        self.entry = entry
        self.run_id: str = record["run_id"]
        self.job_id: str = record["job_id"]
        self.claim: Claim = self.run_id, record["fence"]

    @classmethod
    def of(cls, settlement: Settlement, document: Document, entry: Document | None, writer: str) -> _End:
        """Return what to write for a settlement; without an entry if the run is not live with this fence."""
        record = history_document(record_of(settlement.attempt))
        record["by"] = writer
        follow_up = settlement.follow_up
        if follow_up is not None:
            record["follow_up"] = {
                "due": to_micros(follow_up.due_at), "attempt": follow_up.attempt, "source": follow_up.source.value,
                "crashes": follow_up.crashes,
            }  # fmt: skip
        if settlement.dead is not None and entry is not None:
            record["dead"] = {"reason": json_text(settlement.dead), "run": full_text(entry, document)}
        return cls(settlement, record, entry)

    def as_recorded(self, record: Document) -> _End:
        """Return the end of the same claim as another process has recorded it."""
        told = history_record(record["record"])
        account = told.reason or ": ".join(filter(None, (told.error_type, told.error_message)))
        outcome = Outcome(told.outcome, reason=account, started_at=told.started_at)
        attempt = self.settlement.attempt._replace(outcome=outcome, finished_at=told.finished_at)
        return _End(self.settlement._replace(attempt=attempt), record, self.entry)

    @property
    def letter(self) -> Document | None:
        """The dead letter, if there is to be one."""
        if "dead" not in self.record:
            return None
        return {**without(self.record, "dead", "by", "follow_up"), **self.record["dead"], "_id": self.run_id}


def _live_entries(documents: Iterable[Document]) -> dict[Claim, Document]:
    """Return claim → entry of all live runs."""
    different = {id(document): document for document in documents}
    return {
        _claim(entry): entry
        for document in different.values()
        for entry in document.get("runs", ())
        if "owner" in entry
    }


def _claim(entry: Document) -> Claim:
    return entry["id"], entry["fence"]


def _by_document(
    ends: Iterable[_End], documents: dict[str, Document]
) -> tuple[dict[Any, tuple[Document, list[_End]]], list[_End]]:
    """Return the id of a document → the document and the ends of runs in it; and the ends to search for again.

    This process may know two versions of one document: a run that is not in the version to change has not ended.
    """
    groups: dict[Any, tuple[Document, list[_End]]] = {}
    elsewhere: list[_End] = []
    for end in ends:
        document = documents.get(end.run_id)
        if document is None:
            continue
        chosen, group = groups.setdefault(document["_id"], (document, []))
        (group if chosen["v"] == document["v"] else elsewhere).append(end)
    return groups, elsewhere


def _applied(document: Document, ends: Sequence[_End]) -> Document | None:
    """Return a document after the ends of some runs in it; None if these runs have left it already."""
    live = _live_entries([document])
    over = [end for end in ends if end.claim in live]
    if not over:
        return None
    claims = {end.claim for end in over}
    runs: list[Document] = [entry for entry in document["runs"] if _claim(entry) not in claims]
    follow_ups = [_following(live[end.claim], end.record) for end in over]
    runs += [entry for entry in follow_ups if entry is not None]
    if not runs and not document["here"]:
        return without(document, "runs")
    if any("held" in entry for entry in runs):
        for key, count in Counter(keys_of(end.settlement.attempt.run, ())[0] for end in over).items():
            runs = unblocked(runs, key, count)
    changed = document
    if document["here"]:
        for end in over:
            changed = with_stats(changed, with_attempt(stats_of(changed), end.settlement.attempt))
    return with_runs(changed, runs)


def _following(entry: Document, record: Document) -> Document | None:
    """Return the run that waits in place of one that has ended; None after a run that was cancelled or revoked."""
    what = record.get("follow_up")
    if what is None or "cancel" in entry or "revoked" in entry:
        return None
    text = changed_head(entry["text"], **what)
    return {**without(entry, "owner"), "text": text, "due": what["due"], "firing": what["source"] == "schedule"}


def _put_back(job_id: str, owner: str, over: set[str], document: Document | None) -> Document:
    """Return a document in which the runs of an owner are pending again; nothing follows a run that was revoked."""
    if document is None or "runs" not in document:  # they have ended meanwhile
        return {"_id": job_id, "here": False} if document is None else document
    runs: list[Document] = []
    for entry in document["runs"]:
        if entry.get("owner") != owner:
            runs.append(entry)
        elif "revoked" not in entry and f"{entry['id']}:{entry['fence']}" not in over:
            runs.append(without(entry, "owner"))
    return with_runs(document, unblocked(runs, f"job:{document['_id']}", len(document["runs"])))
