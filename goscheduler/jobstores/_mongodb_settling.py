"""Settling in the MongoDB store: how runs end, what follows them, and who is lost.

The end of a run concerns two documents, its record in the history and the document of its job. **The record decides**:
its id is the claim that it ends, run id and fence, so of all who want to end a claim the first wins and the others are
refused. It says what follows, too. Then it is applied: the run leaves the document of its job, or waits there again.

==========================================  ==========================================================================
a crash after                               leaves
==========================================  ==========================================================================
nothing was written                         a live run, whose owner is lost: ended by ``recover_runs`` as it decides
the record                                  a live run that has a record: ``recover_runs`` applies what the record says
the record and the dead letter              the same; writing a dead letter again changes nothing
the document of the job                     a place under a limit that nobody has: given back within seconds
==========================================  ==========================================================================
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from goscheduler.codec import CodecError
from goscheduler.jobstores._mongodb_documents import (
    LIVE,
    Document,
    freed,
    full_text,
    history_document,
    life_of,
    owner_mark,
    quoted,
    with_life,
    with_runs,
    without,
)
from goscheduler.jobstores._mongodb_firing import Work, free_held, leave_places, set_aside
from goscheduler.jobstores._mongodb_limits import tidy
from goscheduler.jobstores._mongodb_writing import MOST_TRIES, Change
from goscheduler.jobstores._records import changed_head, history_record
from goscheduler.runs.model import Outcome, Run, Settlement
from goscheduler.runs.plan import keys_of
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import lived
from goscheduler.times import instant

#: How many documents with records on their way one look takes.
LOST_AT_ONCE = 500
#: For how long it is remembered that an owner was given up.
REMEMBERED = timedelta(days=1)


class Ends:
    """Writes ends of runs for one store."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._unsure: set[str] = set()
        """Ids of records of ours that may have been written, and are not known to be applied: the server went away."""

    def settle(self, settlements: Sequence[Settlement], owner: str | None) -> tuple[list[Settlement], bool]:
        """Write how runs ended; return those that were refused, and whether other runs may go on because of it."""
        ids = {settlement.attempt.run.job.id for settlement in settlements}
        documents = self._documents(ids)
        refused: list[Settlement] = []
        ends: list[_End] = []
        for settlement in settlements:
            document = documents.get(settlement.attempt.run.job.id, {})
            end = _End.of(settlement, document, self._work.writer.name)
            if end.entry is None and end.record["_id"] not in self._unsure:
                refused.append(settlement)
            else:
                ends.append(end)
        accepted = self._decide(ends)
        if len(accepted) < len(ends):
            refused += [end.settlement for end in ends if end not in accepted]
        for settlement in refused:
            self._work.writer.known.pop(settlement.attempt.run.job.id, None)
        try:
            return refused, self.apply(accepted, documents, owner)
        except BaseException:
            self._unsure |= {end.record["_id"] for end in accepted}  # or they would be refused the next time
            raise

    def _documents(self, job_ids: Iterable[str]) -> dict[str, Document]:
        """Return the documents of jobs, where possible as we have written them."""
        known = self._work.writer.known
        found = {job_id: known[job_id] for job_id in job_ids if job_id in known}
        missing = [job_id for job_id in job_ids if job_id not in found]
        if missing:
            found.update((row["_id"], row) for row in self._work.collections.jobs.find({"_id": {"$in": missing}}))
        return found

    def _decide(self, ends: Sequence[_End]) -> list[_End]:
        """Write the records, and return those ends that nobody else has decided otherwise before."""
        ids = {end.record["_id"] for end in ends}
        try:
            there = set(self._work.writer.record([end.record for end in ends]))
        except BaseException:
            self._unsure |= ids
            raise
        if there:
            history = self._work.collections.history
            ours = {"_id": {"$in": list(there & self._unsure)}, "by": self._work.writer.name}
            there -= {row["_id"] for row in history.find(ours, {"_id": 1})}
        self._unsure -= ids
        return [end for end in ends if end.record["_id"] not in there]

    def apply(self, ends: Sequence[_End], documents: dict[str, Document], owner: str | None) -> bool:
        """Take what has ended out of the documents of its jobs, and let others go on; false if there are none."""
        work = self._work
        letters = [end.letter for end in ends if end.letter is not None]
        for letter in letters:
            work.collections.dead.replace_one({"_id": letter["_id"]}, letter, upsert=True)
        pending = _by_job(ends)
        eased = any(end.entry is None or "limits" in end.entry for end in ends)
        for _ in range(MOST_TRIES):
            changes = [
                Change(documents[job_id], after)
                for job_id, group in pending.items()
                if job_id in documents and (after := _applied(documents[job_id], group)) is not None
            ]
            eased = eased or any(change.after.get("runs") for change in changes)
            made = {change.before["_id"] for change in work.writer.write(changes, owner)}
            left = [change.before["_id"] for change in changes if change.before["_id"] not in made]
            pending = {job_id: pending[job_id] for job_id in left}
            if not pending:
                break
            documents = {row["_id"]: row for row in work.collections.jobs.find({"_id": {"$in": list(pending)}})}
        self._ease(ends)
        return eased

    def _ease(self, ends: Sequence[_End]) -> None:
        """Give back places under limits, and let runs try that are held under them."""
        leave_places(self._work, [(end.run_id, end.entry.get("limits", ())) for end in ends if end.entry is not None])

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up owners whose lease has lapsed, and settle what they had."""
        lost_owners = self._give_up(instant(now))
        documents = self._documents_of(list(lost_owners))
        ends: list[_End] = []
        for document in documents.values():
            ends += self._lost(document, lost_owners, decide)
        decided = self._decide(ends)
        others = [end for end in ends if end not in decided]
        self.apply([*decided, *self._as_recorded(others)], documents, None)
        self._mend(now)
        return [end.settlement for end in decided]

    def _give_up(self, now: int) -> dict[str, str]:
        """Return owner → host of all that have runs and no lease, or whose lease has lapsed; they cannot come back."""
        owners = self._work.collections.owners
        # Who has runs is read before who is alive: an owner is alive before it has runs.
        marks = self._work.collections.jobs.distinct("marks", LIVE)
        having = {mark.removeprefix("owner:") for mark in marks if mark.startswith("owner:")}
        lapsed = {"expires": {"$lte": now}, "given_up": {"$exists": False}}
        owners.update_many(lapsed, {"$set": {"given_up": now}})
        known = {row["_id"]: row for row in owners.find({})}
        for owner in having - known.keys():
            owners.update_one({"_id": owner}, {"$setOnInsert": {"given_up": now, "expires": now}}, upsert=True)
        return {
            owner: _host(known.get(owner)) for owner in having if owner not in known or "given_up" in known[owner]
        }

    def _lost(self, document: Document, owners: dict[str, str], decide: Callable[[Run, str], Settlement]) -> list[_End]:
        ends = []
        for entry in document["runs"]:
            if entry.get("owner") not in owners:
                continue
            try:
                run = self._work.documents.run(entry, document)
            except CodecError as error:
                self._set_aside(document["_id"], entry["id"], str(error))
                continue
            ends.append(_End.of(decide(run, owners[entry["owner"]]), document, self._work.writer.name))
        return ends

    def retire(self, owner: str) -> None:
        """Make pending again what an owner has, but for what has a record already."""
        documents = self._documents_of([owner])
        claims = {
            f"{entry['id']}:{entry['fence']}": job_id
            for job_id, document in documents.items()
            for entry in document["runs"]
            if entry.get("owner") == owner
        }
        over = set(self._work.collections.history.distinct("_id", {"_id": {"$in": list(claims)}}))
        for job_id in set(claims.values()):
            self._work.writer.edit(job_id, lambda document: _put_back(document, owner, over))
        entries = [entry for document in documents.values() for entry in document["runs"]]
        leave_places(
            self._work, [(entry["id"], entry.get("limits", ())) for entry in entries if entry.get("owner") == owner]
        )
        self._work.writer.known.clear()

    def _documents_of(self, owners: Sequence[str]) -> dict[str, Document]:
        rows = self._work.collections.jobs.find({"marks": {"$in": [owner_mark(owner) for owner in owners]}})
        return {row["_id"]: row for row in rows}

    def _set_aside(self, job_id: str, run_id: str, reason: str) -> None:
        def edit(document: Document | None) -> Document:
            assert document is not None
            runs = [set_aside(entry, reason) if entry["id"] == run_id else entry for entry in document["runs"]]
            return with_runs(document, runs)

        self._work.writer.edit(job_id, edit)

    def _as_recorded(self, ends: Sequence[_End]) -> list[_End]:
        """Return ends as the records say that others have written."""
        history = self._work.collections.history
        rows = {row["_id"]: row for row in history.find({"_id": {"$in": [end.record["_id"] for end in ends]}})}
        return [end.as_recorded(rows[end.record["_id"]]) for end in ends if end.record["_id"] in rows]

    def _mend(self, now: datetime) -> None:
        """Finish what somebody who was lost has left half done."""
        work = self._work
        work.writer.pass_on(list(work.collections.jobs.find({"marks": "told"}).limit(LOST_AT_ONCE)))
        free_held(work, [f"limit:{name}" for name in tidy(work.collections, work.writer, now)])
        work.collections.owners.delete_many({"given_up": {"$lt": instant(now - REMEMBERED)}})


class _End:
    """The end of one claim."""

    def __init__(self, settlement: Settlement, record: Document, entry: Document | None) -> None:
        self.settlement = settlement
        self.record = record
        self.entry = entry
        self.run_id: str = record["run_id"]

    @classmethod
    def of(cls, settlement: Settlement, document: Document, writer: str) -> _End:
        """Return what is to be written for a settlement; without an entry if the run is not live with this fence."""
        run = settlement.attempt.run
        record = history_document(record_of(settlement.attempt))
        record["by"] = writer
        entry = _entry(document, run.id, run.fence)
        follow_up = settlement.follow_up
        if follow_up is not None:
            record["follow_up"] = {
                "due": instant(follow_up.due_at), "attempt": follow_up.attempt, "source": follow_up.source.value,
                "crashes": follow_up.crashes,
            }  # fmt: skip
        if settlement.dead is not None and entry is not None:
            record["dead"] = {"reason": quoted(settlement.dead), "run": full_text(entry, document)}
        return cls(settlement, record, entry)

    def as_recorded(self, record: Document) -> _End:
        """Return the end of the same claim as somebody else has recorded it."""
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


def _entry(document: Document, run_id: str, fence: int) -> Document | None:
    """Return the entry of a live run that was handed out with this fence."""
    for entry in document.get("runs", ()):
        if entry["id"] == run_id and entry["fence"] == fence and "owner" in entry:
            found: Document = entry
            return found
    return None


def _by_job(ends: Iterable[_End]) -> dict[str, list[_End]]:
    groups: dict[str, list[_End]] = {}
    for end in ends:
        groups.setdefault(end.record["job_id"], []).append(end)
    return groups


def _applied(document: Document, ends: Sequence[_End]) -> Document | None:
    """Return the document of a job after the ends of some of its runs; None if they have left it already."""
    runs: list[Document] = list(document.get("runs", ()))
    keys: Counter[str] = Counter()
    changed = document
    followed = False
    for end in ends:
        entry = _entry({"runs": runs}, end.run_id, end.record["fence"])
        if entry is None:
            continue
        follow_up = _following(entry, end.record)
        runs = [each for each in runs if each is not entry] + ([] if follow_up is None else [follow_up])
        keys[keys_of(end.settlement.attempt.run, ())[0]] += 1
        followed = followed or follow_up is not None
        if document["here"]:
            changed = with_life(changed, lived(life_of(changed), end.settlement.attempt))
    if not keys:
        return None
    for key, count in keys.items():
        runs = freed(runs, key, count)
    return with_runs(changed, runs)


def _following(entry: Document, record: Document) -> Document | None:
    """Return the run that waits in place of one that has ended. Nothing follows what was cancelled or revoked."""
    what = record.get("follow_up")
    if what is None or "cancel" in entry or "revoked" in entry:
        return None
    text = changed_head(entry["text"], **what)
    return {**without(entry, "owner"), "text": text, "due": what["due"], "firing": what["source"] == "schedule"}


def _put_back(document: Document | None, owner: str, over: set[str]) -> Document:
    """Return a document in which what an owner had is pending again; nothing follows a run that was revoked."""
    assert document is not None, "a document with live runs is not deleted"
    runs: list[Document] = []
    for entry in document["runs"]:
        if entry.get("owner") != owner:
            runs.append(entry)
        elif "revoked" not in entry and f"{entry['id']}:{entry['fence']}" not in over:
            runs.append(without(entry, "owner"))
    return with_runs(document, freed(runs, f"job:{document['_id']}", len(document["runs"])))


def _host(row: Any) -> str:
    return "" if row is None else json.loads(row.get("account", '[""]'))[0]
