"""Firing and claiming in the MongoDB store: read, plan, write each document that no other process has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pymongo.errors import PyMongoError

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import admit, decide
from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Suspended
from goscheduler.jobstores.mongodb.documents import (
    Document,
    DocumentCodec,
    blocked_under,
    broken,
    history_document,
    is_claimable,
    json_text,
    rank_in,
    unblocked,
    with_runs,
    without,
    without_job,
)
from goscheduler.jobstores.mongodb.due_work import DueWorkReader
from goscheduler.jobstores.mongodb.limits import LimitPermits, Permit, release_permits
from goscheduler.jobstores.mongodb.writer import Change, Collections, Writer
from goscheduler.runs.limits import Ledger
from goscheduler.runs.plan import FiringPlan
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import claimed
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run

#: How often a batch is planned anew because another process has taken permits under the same limits.
MAX_PLANS_PER_BATCH = 8
#: How often a round passes on the turns of runs that were refused.
MAX_TURNS_PER_ROUND = 100
DISPLACED = "a newer run of its job takes its place"
UNREADABLE = "unreadable"
#: Errors that a document raises that another program has written, or that was changed by hand.
BROKEN = (AttributeError, KeyError, TypeError, ValueError)


class StoreContext(NamedTuple):
    """What the steps of one store share."""

    collections: Collections
    codec: DocumentCodec
    writer: Writer
    reader: DueWorkReader


class _Planned(NamedTuple):
    """The plan for the job of a document."""

    document: Document
    job: Job
    plan: FiringPlan
    after: Document
    """The document after the firing."""


class Firing:
    """One round of ``fire_due``."""

    def __init__(self, context: StoreContext, request: FireRequest, now: datetime) -> None:
        self._context = context
        self._request = request
        self._now = now
        self._with_records: list[Document] = []

    def fire(self) -> Fired:
        """Fire due jobs, and write all of it."""
        documents = self._context.reader.due("due", self._request, self._now)
        done: list[_Planned] = []
        error: Exception | None = None
        try:
            for group, limited in _by_limits(documents, lambda document: document.get("limits", ())):
                done += self._fire_limited(group) if limited else self._write(self._planned(group, Ledger()))
            self._context.writer.move_records(self._with_records, self._request.owner)
        except PyMongoError as caught:
            error = caught
        self._context.reader.took(len(done), len(documents))
        return Fired(
            [run for each in done for run in each.plan.start],
            [attempt for each in done for attempt in each.plan.records],
            [each.job for each in done if _is_over(each.plan)],
            [Suspended(each.job, each.plan.suspended) for each in done if each.plan.suspended is not None],
            error=error,
        )

    def _fire_limited(self, documents: Sequence[Document]) -> list[_Planned]:
        """Fire jobs that have limits: take permits, write the jobs, release the permits that are left."""
        context = self._context
        for _ in range(MAX_PLANS_PER_BATCH):
            permits = LimitPermits(context.collections, context.writer, _names(documents))
            planned = self._planned(documents, permits.ledger)
            wanted = [_permit(run) for each in planned for run in each.plan.start]
            if not permits.take(wanted, self._now):
                release_and_unblock(context, [place._replace(names=permits.taken) for place in wanted])
                continue
            done = self._write(planned)
            written = {run.id for each in done for run in each.plan.start}
            release_and_unblock(context, [place for place in wanted if place.run not in written])
            return done
        return []

    def _planned(self, documents: Sequence[Document], ledger: Ledger) -> list[_Planned]:
        return [self._planned_safely(document, ledger) for document in documents]

    def _planned_safely(self, document: Document, ledger: Ledger) -> _Planned:
        """Return the plan for a job; a broken document does not hold up the others."""
        try:
            return self._plan(document, ledger)
        except BROKEN as error:
            after = broken(document, error)
            return _Planned(document, self._context.codec.job(after), FiringPlan(suspended=str(error)), after)

    def _plan(self, document: Document, ledger: Ledger) -> _Planned:
        job = self._context.codec.job(document)
        live = waiting = 0
        for entry in document.get("runs", ()):
            live += "owner" in entry
            waiting += "owner" not in entry and entry["firing"]
        plan, fence = decide(job, self._request, self._now, live, waiting, document.get("fence", 0), ledger)
        if job.suspended is None:
            job.next_run_time = plan.next_run_time
        return _Planned(document, job, plan, self._after(document, plan, fence))

    def _write(self, planned: Sequence[_Planned]) -> list[_Planned]:
        """Write plans, and return those of documents that no other process has changed meanwhile."""
        made = self._context.writer.write([Change(each.document, each.after) for each in planned], self._request.owner)
        self._with_records += [after for _, after in made if "told" in after]
        ids = {change.before["_id"] for change in made}
        return [each for each in planned if each.job.id in ids]

    def _after(self, document: Document, plan: FiringPlan, fence: int) -> Document:
        if plan.suspended is not None:
            return {**without(document, "due"), "suspended": json_text(plan.suspended)}
        after = self._moved(document, plan)
        runs = list(document.get("runs", ()))
        if plan.cancel_live:
            runs = [{"cancel": json_text(DISPLACED), **entry} if "owner" in entry else entry for entry in runs]
        started = (*plan.start, *plan.wait)
        if started:
            after["fence"] = fence
            runs += [self._context.codec.run_entry(run, document, fired=True) for run in started]
        if plan.records:
            told = [history_document(record_of(attempt)) for attempt in plan.records]
            after["told"] = [*document.get("told", ()), *told]
        return with_runs(after, runs) if runs else after

    def _moved(self, document: Document, plan: FiringPlan) -> Document:
        """Return a document with the next time of its job, or without a job."""
        following = plan.next_run_time
        if following is not None:
            at = to_micros(following)
            return {**document, "next": at, "zone": zone_text(following), "due": {**document["lane"], "at": at}}
        if plan.waits:
            return without(document, "due", "next")
        if plan.keep:
            return {**without(document, "due", "next"), "finished": to_micros(self._now)}
        return without_job(document)


class Claiming:
    """One round of ``claim_runs``."""

    def __init__(self, context: StoreContext, request: FireRequest, now: datetime) -> None:
        self._context = context
        self._request = request
        self._now = now
        self._at = to_micros(now)
        self._room: dict[str, int] = {}

    def claim(self) -> Claimed:
        """Claim pending runs that are due."""
        done: list[_Attempt] = []
        for _ in range(MAX_TURNS_PER_ROUND):
            attempts, error = self._turn()
            done += attempts
            # Where a run was refused that had a turn, another one may have it now; after a claim the caller comes back.
            if error is not None or any(each.runs for each in done) or not any(map(_passes_on, attempts)):
                break
        runs = [run for each in done for run in each.runs]
        return Claimed(runs, more=any(each.blocked for each in done), error=error)

    def _turn(self) -> tuple[list[_Attempt], Exception | None]:
        """Claim from documents once, and return what was written, and what stopped it."""
        documents = self._context.reader.due("ready", self._request, self._now)
        self._room = dict(self._request.room)
        done: list[_Attempt] = []
        error: Exception | None = None
        try:
            for group, limited in _by_limits(documents, _claimable_names):
                done += self._attempts(group, limited)
        except PyMongoError as caught:
            error = caught
        self._context.reader.took(len(done), len(documents))
        return done, error

    def _attempts(self, documents: Sequence[Document], limited: bool) -> list[_Attempt]:
        """Claim from documents; where there are limits, take permits first."""
        context = self._context
        names = {name for document in documents for name in _claimable_names(document)} if limited else set()
        for _ in range(MAX_PLANS_PER_BATCH):
            room, permits = dict(self._room), LimitPermits(context.collections, context.writer, names)
            attempts = [self._attempt_safely(document, permits.ledger, room) for document in documents]
            wanted = [place for attempt in attempts for place in attempt.permits]
            if not permits.take(wanted, self._now):
                release_and_unblock(context, [place._replace(names=permits.taken) for place in wanted])
                continue
            self._room = room
            changes = context.writer.write([attempt.change for attempt in attempts], self._request.owner)
            made = {change.before["_id"] for change in changes}
            done = [attempt for attempt in attempts if attempt.change.before["_id"] in made]
            release_and_unblock(
                context,
                [place for each in attempts if each.change.before["_id"] not in made for place in each.permits],
            )
            # A run that ended between the read and the write has found no blocked run to unblock.
            blocked_on = {key.removeprefix("limit:") for attempt in done for key in attempt.blocked}
            keys = [key for attempt in done for key in attempt.keys]
            unblock_next(context, [*keys, *(f"limit:{name}" for name in permits.freed_limits(blocked_on))])
            return done
        return []

    def _attempt_safely(self, document: Document, ledger: Ledger, room: dict[str, int]) -> _Attempt:
        try:
            return self._attempt(document, ledger, room)
        except BROKEN as error:
            return _Attempt(Change(document, broken(document, error)), [], [], [], [])

    def _attempt(self, document: Document, ledger: Ledger, room: dict[str, int]) -> _Attempt:
        attempt = _Attempt(Change(document, {}), [], [], [], [])
        entries = list(document["runs"])
        live = sum("owner" in entry for entry in entries)
        fence = document.get("fence", 0)
        order = sorted(range(len(entries)), key=lambda index: _rank(entries[index]))
        turns = 1
        while turns:
            turns = 0
            for index in order:
                entry, keys = entries[index], len(attempt.keys)
                if not self._is_due(entry, room):
                    continue
                entries[index], fence = self._claimed_or_refused(entry, document, live, fence, ledger, attempt)
                if "owner" in entries[index]:
                    live += 1
                    room[entry["lane"]["executor"]] -= 1
                if f"job:{document['_id']}" in attempt.keys[keys:]:
                    entries = unblocked(entries, f"job:{document['_id']}")
                    turns += 1
        return attempt._replace(change=Change(document, with_runs({**document, "fence": fence}, entries)))

    def _is_due(self, entry: Document, room: dict[str, int]) -> bool:
        lane = entry["lane"]
        known = not lane["task"] or lane["task"] in self._request.tasks
        return is_claimable(entry) and entry["due"] <= self._at and known and room.get(lane["executor"], 0) > 0

    def _claimed_or_refused(
        self, entry: Document, document: Document, live: int, fence: int, ledger: Ledger, attempt: _Attempt
    ) -> tuple[Document, int]:
        """Return the entry of a run that was due, and the highest fence of its job."""
        try:
            run = self._context.codec.run(entry, document)
        except CodecError as error:
            if "freed" in entry:
                attempt.keys.append(entry["freed"])
            return set_aside(entry, str(error)), fence
        refusal, fence = admit(run, self._request, self._now, live, fence, ledger)
        if refusal is None:
            attempt.runs.append(claimed(run, self._request.owner, fence))
            mark = self._context.writer.mark()
            if run.job.options.limits:
                attempt.permits.append(_permit(run, mark))
            return {**without(entry, "freed"), "owner": self._request.owner, "fence": fence, "by": mark}, fence
        if entry.get("freed", refusal.key) != refusal.key:
            attempt.keys.append(entry["freed"])
        if refusal.until is not None:
            return {**without(entry, "freed"), "due": max(to_micros(refusal.until), entry["due"])}, fence
        attempt.blocked.append(refusal.key or "")
        return {**without(entry, "freed"), "held": refusal.key}, fence


class _Attempt(NamedTuple):
    """What claiming from one document would bring."""

    change: Change
    runs: list[Run]
    permits: list[Permit]
    """What these runs need under their limits."""
    keys: list[str]
    """Keys of runs that were unblocked and then refused for another reason: another run may try instead."""
    blocked: list[str]
    """Keys that runs are blocked on from now on."""


def _passes_on(attempt: _Attempt) -> bool:
    """Tell whether runs of other jobs may try, because one that had a turn under a limit was refused."""
    return any(key.startswith("limit:") for key in attempt.keys)


def set_aside(entry: Document, reason: str) -> Document:
    """Return the entry of a run that cannot be read: kept, and never claimed."""
    return {**without(entry, "owner", "freed"), "held": UNREADABLE, "unreadable": json_text(reason)}


def release_and_unblock(context: StoreContext, permits: Sequence[Permit], ended: bool = False) -> None:
    """Release permits, and unblock as many runs under the same limits; for ``ended`` see :func:`release_permits`.

    Permits of runs that were never written count too: another process may have found the limit full because of them.
    """
    release_permits(context.collections.limits, permits, ended)
    unblock_next(context, [f"limit:{name}" for place in permits for name in place.names])


def unblock_next(context: StoreContext, keys: Iterable[str]) -> None:
    """Unblock one run under a limit for each time that its key is given."""
    for key in keys:
        if key.startswith("limit:"):
            _unblock_one(context, key)


def _unblock_one(context: StoreContext, key: str) -> None:
    for _ in range(MAX_PLANS_PER_BATCH):
        # The index has the order of time. A sort by marks would compare all marks of a document.
        document = context.collections.jobs.find_one({"marks": blocked_under(key)})
        if document is None:
            return
        after = with_runs(document, unblocked(document["runs"], key))
        if context.writer.write([Change(document, after)]):
            context.writer.notify()
            return


def _by_limits(
    documents: Sequence[Document], names: Callable[[Document], Iterable[str]]
) -> list[tuple[list[Document], bool]]:
    """Return documents in groups: those without limits, and those with limits."""
    free: list[Document] = []
    limited: list[Document] = []
    for document in documents:
        (limited if list(names(document)) else free).append(document)
    return [(group, is_limited) for group, is_limited in ((free, False), (limited, True)) if group]


def _claimable_names(document: Document) -> list[str]:
    entries = [entry for entry in document.get("runs", ()) if isinstance(entry, dict) and is_claimable(entry)]
    return [name for entry in entries for name in entry.get("limits", ())]


def _names(documents: Iterable[Document]) -> set[str]:
    return {name for document in documents for name in document.get("limits", ())}


def _permit(run: Run, by: str | None = None) -> Permit:
    return Permit(run.id, [limit.name for limit in run.job.options.limits], by, run.job.id)


def _rank(entry: Document) -> tuple[int, int]:
    return rank_in({**entry["lane"], "at": entry["due"]})


def _is_over(plan: FiringPlan) -> bool:
    return plan.suspended is None and plan.next_run_time is None and not plan.keep
