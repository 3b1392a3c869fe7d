"""Firing and claiming in the stores on etcd and ZooKeeper: look, read, plan, and write what is still as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.due_work import DueWork, DueWorkReader, Entry
from goscheduler.jobstores._keyvalue.groups import Change, Groups, StoreContext, Written, write, write_all
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, group_of, queue_of
from goscheduler.jobstores._keyvalue.server import Found, Key, Span, Transaction, new_token
from goscheduler.jobstores._keyvalue.settling import put_aside, rows_named, unblock_next
from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Fired, FireRequest, Suspended
from goscheduler.runs.model import Attempt, Run
from goscheduler.runs.plan import ConcurrencyState
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import claimed
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import FiringPlan, Refusal

#: How many times one round looks again because others were quicker.
MAX_ROUNDS = 12
#: How many of the live runs for which another one is held have to be live still when that is written.
MAX_CHECKED_MEMBERS = 16
DISPLACED = "a newer run of its job takes its place"


class _JobResult(NamedTuple):
    """What has happened to one job when its part is written."""

    runs: Sequence[Run] = ()
    records: Sequence[Attempt] = ()
    finished: Job | None = None
    suspended: Suspended | None = None


class Firing:
    """One call of ``fire_due``."""

    def __init__(self, context: StoreContext, reader: DueWorkReader, request: FireRequest, work: DueWork) -> None:
        self._context = context
        self._reader = reader
        self._request = request
        self._work = work
        self.room = dict(request.room)
        self._results: list[_JobResult] = []
        self._steps: list[Transaction] = []
        self._error: Exception | None = None

    def fire(self, ours: Sequence[Run] = ()) -> Fired:
        """Fire what is due, as much as there is room for; ``ours`` are runs to be told of with the others."""
        self._results.append(_JobResult(ours))
        try:
            for number in range(MAX_ROUNDS):
                entries = self._due(number)
                if not entries:
                    break
                self._reader.contended = self._fire(entries, number)
                if not self._reader.contended:
                    break
        except StoreUnavailable as error:
            self._error = error
        return Fired(
            [run for result in self._results for run in result.runs],
            [record for result in self._results for record in result.records],
            [result.finished for result in self._results if result.finished is not None],
            [result.suspended for result in self._results if result.suspended is not None],
            error=self._error,
        )

    def left(self) -> DueWork | None:
        """Return what there still is to do; None if that has to be looked for."""
        return None if self._reader.contended or self._error is not None else self._work.after(self._steps)

    def _due(self, number: int) -> list[Entry]:
        """Return what is due: as it was seen a moment ago, unless others take it at the same time."""
        at_random = self._reader.contended
        at_hand = None if number or at_random else self._work.at_hand(self.room)
        return self._reader.pick("due", self._request, self.room, at_random) if at_hand is None else at_hand

    def _fire(self, entries: Sequence[Entry], number: int) -> bool:
        """Fire these; true if another look is worth while, because others were quicker."""
        server = self._context.server
        words = [entry.subject for entry in entries]
        found = server.read([key for job in words for key in (("jobs", job), ("lives", job))])
        groups = Groups(server)
        groups.load(f"j.{job}" for job in words)
        rows = [self._read(entry, found[2 * index]) for index, entry in enumerate(entries)]
        groups.open_ledger({name for row in rows if isinstance(row, JobRow) for name in row.limits})
        changes: list[Change] = []
        for index, row in enumerate(rows):
            if isinstance(row, JobRow):
                changes += self._planned(row, found[2 * index + 1], groups)
            elif row is not None:
                changes.append(row)
        most = max(1, 1000 >> (3 * number))
        written = write(self._context, groups, changes, most)
        self._take_in(written)
        rest = self._left_to_us(changes[len(written.changes) :]) if written.lost else []
        if rest:
            self._take_in(write(self._context, groups, rest, most))
        return written.lost

    def _left_to_us(self, changes: Sequence[Change]) -> list[Change]:
        """Return those of some parts whose jobs nobody else has fired meanwhile, if there were such at all."""
        if any(change.alone for change in changes):
            return []
        found = self._context.server.read([next(iter(change.transaction.deleted)) for change in changes])
        rest = [change for change, there in zip(changes, found, strict=True) if there is not None]
        return rest if len(rest) < len(changes) else []

    def _take_in(self, written: Written) -> None:
        for change in written.changes:
            result: _JobResult = change.result
            self._results.append(result)
            self._steps.append(change.transaction)
            for run in result.runs:
                self.room[run.job.executor] -= 1
        if written.error is not None:
            raise written.error

    def _read(self, entry: Entry, found: Found | None) -> JobRow | Change | None:
        """Return the row of a due job; or what to write where there is none that can be read."""
        place = ("due", entry.queue.name, entry.name)
        if found is None:
            change = Change()
            change.transaction.delete(place)
            change.result = _JobResult()
            return change
        try:
            row = self._context.codec.job_row(found)
        except CodecError as error:
            change = Change()
            change.transaction.delete(place)
            change.transaction.create(("suspended", f"{entry.subject}.{new_token()}"))
            change.result = _JobResult(
                suspended=Suspended(self._context.codec.unreadable_job(entry.subject, found), str(error))
            )
            return change
        return row if row.place == place else None

    def _planned(self, row: JobRow, stats: Found | None, groups: Groups) -> list[Change]:
        """Return what to write for a due job."""
        now = self._request.now
        job = self._context.codec.job(row)
        if job.suspended is not None:
            return [self._suspension(row, job, job.suspended)]
        group = groups[f"j.{row.key[1]}"]
        fence = max(row.fence + 1, to_micros(now))
        plan = self._request.plan(job, ConcurrencyState(len(group.live), group.firings, fence, groups.ledger), now)
        if plan.suspended is not None:
            return [self._suspension(row, job, plan.suspended)]
        changes = self._slices(row, plan, fence, groups)
        last = changes[-1]
        if plan.cancel_live:
            self._displace(last, [member[2:] for member in group.live])
        if plan.next_run_time is None and not plan.keep:
            if stats is not None:
                last.transaction.delete(("lives", row.key[1]))
            if not last.bumped:
                last.left.add(group.name)
                last.gone.add(group.name)
            last.result = last.result._replace(finished=job)
        job.next_run_time = plan.next_run_time
        return changes

    def _suspension(self, row: JobRow, job: Job, reason: str) -> Change:
        change = Change()
        suspended = row.moved(suspended=reason)
        change.transaction.delete(row.place)
        change.transaction.create(suspended.place)
        change.transaction.replace(row.key, suspended.text)
        change.result = _JobResult(suspended=Suspended(job, reason))
        return change

    def _slices(self, row: JobRow, plan: FiringPlan, fence: int, groups: Groups) -> list[Change]:
        """Return the plan in parts that the server takes, each of which leaves the job where the next one begins."""
        items: list[Run | Attempt] = sorted([*plan.start, *plan.wait, *plan.records], key=_scheduled)
        most = max(1, self._context.server.max_changes // 8)
        size = 2 * len(row.definition) + 1000
        most = min(most, max(1, self._context.server.max_bytes // size))
        changes = []
        for start in range(0, len(items), most):
            following = _scheduled(items[start + most]) if start + most < len(items) else plan.next_run_time
            keep = plan.keep or start + most < len(items)
            change, row = self._slice(row, items[start : start + most], following, keep, fence, groups)
            change.alone = len(items) > most
            changes.append(change)
        return changes or [self._slice(row, [], plan.next_run_time, plan.keep, fence, groups)[0]]

    def _slice(
        self, row: JobRow, items: Sequence[Run | Attempt], following: datetime | None, keep: bool, fence: int,
        groups: Groups,
    ) -> tuple[Change, JobRow]:  # fmt: skip
        change = Change()
        change.transaction.delete(row.place)
        moved = row
        if following is None and not keep:
            change.transaction.delete(row.key)
        else:
            moved = row.moved(
                next_run=None if following is None else to_micros(following), fence=fence,
                zone="Z" if following is None else zone_text(following),
                finished=to_micros(self._request.now) if following is None else None,
            )  # fmt: skip
            change.transaction.replace(row.key, moved.text)
            change.transaction.create(moved.place)
        runs = [item for item in items if isinstance(item, Run)]
        for run in runs:
            self._add_run(change, run, row.definition, groups)
        records = [item for item in items if isinstance(item, Attempt)]
        for attempt in records:
            change.transaction.create(*history_entry(record_of(attempt)))
        change.result = _JobResult([run for run in runs if run.owner is not None], records)
        return change, moved

    def _add_run(self, change: Change, run: Run, definition: str, groups: Groups) -> None:
        run_row = self._context.codec.new_run(run, definition)
        change.add_run(run_row, groups)
        if run.owner is None:
            self._reader.need(queue_of(run_row))
        else:
            change.runs.append((run_row.place, run))

    def _displace(self, change: Change, runs: Sequence[str]) -> None:
        found = self._context.server.read([("runs", run) for run in runs])
        for each in found:
            row = _readable(self._context, each)
            if row is not None and row.owner is not None:
                request_cancel(change, row, DISPLACED)


class Claiming:
    """One call of ``claim_runs``."""

    def __init__(self, context: StoreContext, reader: DueWorkReader, request: FireRequest) -> None:
        self._context = context
        self._reader = reader
        self._request = request
        self.room = dict(request.room)
        self.claimed: list[Run] = []

    def claim(self) -> None:
        """Claim what is pending and due, as much as there is room for."""
        losses = 0
        for _ in range(MAX_ROUNDS):
            entries = self._reader.pick("ready", self._request, self.room, at_random=losses > 1)
            if not entries:
                break
            losses += self._claim(entries, losses)

    def pass_on(self) -> bool:
        """Let others try instead of those that were let try and cannot start here for want of room; true if any can."""
        server = self._context.server
        rows = rows_named(self._context, server.names([Span(("freed",))])[0])
        idle = [row for row in rows if row.unblocked_by is not None and self.room.get(row.executor, 1) <= 0]
        groups = Groups(server)
        groups.load(group_of(row.unblocked_by) for row in idle if row.unblocked_by is not None)
        changes = []
        for row in idle:
            change = Change()
            if unblock_next(self._context, change, row.unblocked_by or "", groups):
                change.transaction.check(row.place)
                change.transaction.delete(row.unblocked_key)
                change.transaction.replace(row.key, row._replace(unblocked_by=None).text)
                changes.append(change)
        return bool(changes) and write_all(self._context, groups, changes)

    def _claim(self, entries: Sequence[Entry], number: int) -> bool:
        server = self._context.server
        groups = Groups(server)
        found = server.read([("runs", entry.subject) for entry in entries])
        changes: list[Change] = []
        rows: list[RunRow] = []
        for entry, each in zip(entries, found, strict=True):
            place = ("ready", entry.queue.name, entry.name)
            row = _readable(self._context, each)
            if row is None:
                changes.append(_set_apart(place, entry.subject, each))
            elif row.place == place:
                rows.append(row)
        groups.load(name for row in rows for name in row.groups)
        groups.load(group_of(row.unblocked_by) for row in rows if row.unblocked_by is not None)
        groups.open_ledger({name for row in rows for name in row.limits})
        for row in rows:
            changes.append(self._claim_one(row, groups))
        written = write(self._context, groups, changes, most=max(1, 1000 >> (2 * number)))
        for change in written.changes:
            runs: Sequence[Run] = change.result
            self.claimed += runs
            for run in runs:
                self.room[run.job.executor] -= 1
        if written.error is not None:
            raise written.error
        return written.lost

    def _claim_one(self, row: RunRow, groups: Groups) -> Change:
        now = self._request.now
        try:
            run = self._context.codec.run(row)
        except CodecError:
            change = Change()
            put_aside(change, row, groups)
            change.result = ()
            return change
        fence = max(row.fence + 1, to_micros(now))
        concurrency = ConcurrencyState(len(groups[row.groups[0]].live), 0, fence, groups.ledger)
        refusal = self._request.admit(run, concurrency, now)
        change = Change()
        change.result = ()
        change.transaction.delete(row.place)
        if refusal is not None:
            self._refuse(change, row, refusal, groups)
            return change
        ours = row.moved(owner=self._request.owner, fence=fence, unblocked_by=None)
        change.leave(row, groups)
        change.left.clear()
        change.enter(ours, groups)
        change.transaction.replace(row.key, ours.text)
        change.transaction.create(ours.place)
        if row.unblocked_by is not None:
            change.transaction.delete(row.unblocked_key)
        if row.cancel is not None:
            change.transaction.create(ours.cancel_key)
        run = claimed(run, self._request.owner, fence)
        change.runs.append((ours.place, run))
        change.result = [run]
        return change

    def _refuse(self, change: Change, row: RunRow, refusal: Refusal, groups: Groups) -> None:
        if refusal.until is not None:
            moved = row.moved(due=max(to_micros(refusal.until), row.due), unblocked_by=None)
        else:
            moved = row.moved(blocked_on=refusal.key, unblocked_by=None)
            group = groups[moved.place[1]]
            for member in sorted(group.found)[:MAX_CHECKED_MEMBERS]:  # or the last of them may have ended meanwhile
                change.transaction.check(("members", group.name, member))
            group.take_in(moved.place[2])
            change.transaction.create(moved.blocked_key)
            change.bumped.add(group.name)
        change.transaction.replace(row.key, moved.text)
        change.transaction.create(moved.place)
        if row.unblocked_by is not None:
            change.transaction.delete(row.unblocked_key)
        if row.unblocked_by is not None and row.unblocked_by != refusal.key:
            unblock_next(self._context, change, row.unblocked_by, groups)


def request_cancel(change: Change, row: RunRow, reason: str, keep_existing_reason: bool = True) -> None:
    """Have the owner of a live run told to end it. An earlier reason stays if this one ``keep_existing_reason``."""
    if row.cancel is not None and keep_existing_reason:
        return
    change.transaction.check(row.place)
    change.transaction.replace(row.key, row._replace(cancel=reason).text, row.version)
    if row.cancel is None:
        change.transaction.create(row.cancel_key)


def _readable(context: StoreContext, found: Found | None) -> RunRow | None:
    try:
        return None if found is None else context.codec.run_row(found)
    except CodecError:
        return None


def _set_apart(place: Key, run: str, found: Found | None) -> Change:
    """Keep something of which it cannot be told which run it is where nobody claims it; or forget an empty entry."""
    change = Change()
    change.transaction.delete(place)
    if found is not None:
        change.transaction.create(("aside", f"{run}.{new_token()}"))
    change.result = ()
    return change


def _scheduled(item: Run | Attempt) -> datetime:
    return item.scheduled_at if isinstance(item, Run) else item.run.scheduled_at
