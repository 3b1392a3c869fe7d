"""Firing in the stores on etcd and ZooKeeper: read the due jobs, plan, and write what has not changed since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.due_work import DueWork, DueWorkReader, Entry
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow
from goscheduler.jobstores._keyvalue.server import Found, new_token
from goscheduler.jobstores._keyvalue.transaction import MAX_CHANGES_PER_TRANSACTION, Change, Written, write
from goscheduler.jobstores._shared.decisions import decide
from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Fired, FireRequest, Suspended
from goscheduler.runs.model import Attempt, Run
from goscheduler.runs.plan import REPLACED_BY_NEWER_RUN
from goscheduler.runs.records import record_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import FiringPlan

#: How often one round reads the due jobs again because other processes were faster.
MAX_ROUNDS = 12


class _JobResult(NamedTuple):
    """What has happened to one job when its change is written."""

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
        self._changes: list[Change] = []
        self._error: Exception | None = None

    def fire(self) -> Fired:
        """Fire the due jobs for which there is room."""
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

    def remaining_work(self) -> DueWork | None:
        """Return the work that remains; None if it has to be read."""
        contended = self._reader.contended or self._error is not None
        return None if contended else self._work.after(self._changes)

    def _due(self, number: int) -> list[Entry]:
        """Return the due jobs: those of the peek before this firing, unless other processes take them too."""
        contended = self._reader.contended
        peeked = None if number or contended else self._work.jobs_for(self.room)
        return self._reader.pick("due", self._request, self.room, contended) if peeked is None else peeked

    def _fire(self, entries: Sequence[Entry], number: int) -> bool:
        """Fire these jobs; true if other processes were faster with some of them."""
        server = self._context.server
        names = [entry.subject for entry in entries]
        found = server.read([key for job in names for key in (("jobs", job), ("lives", job))])
        groups = Groups(server, (f"j.{job}" for job in names))
        rows = [self._read(entry, found[2 * index]) for index, entry in enumerate(entries)]
        groups.open_ledger({name for row in rows if isinstance(row, JobRow) for name in row.limits})
        changes: list[Change] = []
        for index, row in enumerate(rows):
            if isinstance(row, JobRow):
                changes += self._planned(row, found[2 * index + 1], groups)
            elif row is not None:
                changes.append(row)
        limit = max(1, MAX_CHANGES_PER_TRANSACTION >> (3 * number))
        written = write(server, groups, changes, limit)
        self._take_over(written)
        rest = self._still_due(changes[len(written.changes) :]) if written.lost else []
        if rest:
            self._take_over(write(server, groups, rest, limit))
        return written.lost

    def _still_due(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of jobs that no other process has fired; none if that is true of all of them."""
        if any(change.alone for change in changes):
            return []
        found = self._context.server.read([next(iter(change.deleted)) for change in changes])
        rest = [change for change, there in zip(changes, found, strict=True) if there is not None]
        return rest if len(rest) < len(changes) else []

    def _take_over(self, written: Written) -> None:
        for change in written.changes:
            result: _JobResult = change.result
            self._results.append(result)
            self._changes.append(change)
            for run in result.runs:
                self.room[run.job.executor] -= 1
        if written.error is not None:
            raise written.error

    def _read(self, entry: Entry, found: Found | None) -> JobRow | Change | None:
        """Return the row of a due job; or the change that deals with a missing or unreadable row."""
        change = Change(_JobResult())
        change.delete(entry.place)
        if found is None:
            return change
        try:
            row = self._context.codec.job_row(found)
        except CodecError as error:
            change.create(("suspended", f"{entry.subject}.{new_token()}"))
            job = self._context.codec.unreadable_job(entry.subject, found)
            change.result = _JobResult(suspended=Suspended(job, str(error)))
            return change
        return row if row.place == entry.place else None

    def _planned(self, row: JobRow, stats: Found | None, groups: Groups) -> list[Change]:
        """Return what to write for a due job."""
        job, group = self._context.codec.job(row), groups[f"j.{row.key[1]}"]
        live, waiting = len(group.live), group.firings
        plan, fence = decide(job, self._request, self._request.now, live, waiting, row.fence, groups.ledger)
        if plan.suspended is not None:
            return [_suspension(row, job, plan.suspended)]
        changes = self._slices(row, plan, fence, groups)
        last = changes[-1]
        if plan.cancel_live:
            self._cancel_live(last, [member[2:] for member in group.live])
        if plan.next_run_time is None and not plan.keep:
            if stats is not None:
                last.delete(("lives", row.key[1]))
            if not last.bumped:
                last.left.add(group.name)
                last.gone.add(group.name)
            last.result = last.result._replace(finished=job)
        job.next_run_time = plan.next_run_time
        return changes

    def _slices(self, row: JobRow, plan: FiringPlan, fence: int, groups: Groups) -> list[Change]:
        """Return the plan in changes that the server can take; each leaves the job where the next one begins."""
        items: list[Run | Attempt] = sorted([*plan.start, *plan.wait, *plan.records], key=_scheduled)
        limit = max(1, self._context.server.max_changes // 8)
        size = 2 * len(row.definition) + 1000
        limit = min(limit, max(1, self._context.server.max_bytes // size))
        changes = []
        for start in range(0, len(items), limit):
            following = _scheduled(items[start + limit]) if start + limit < len(items) else plan.next_run_time
            keep = plan.keep or start + limit < len(items)
            change, row = self._slice(row, items[start : start + limit], following, keep, fence, groups, plan.waits)
            change.alone = len(items) > limit
            changes.append(change)
        return changes or [self._slice(row, [], plan.next_run_time, plan.keep, fence, groups, plan.waits)[0]]

    def _slice(
        self, row: JobRow, items: Sequence[Run | Attempt], following: datetime | None, keep: bool, fence: int,
        groups: Groups, waits: bool,
    ) -> tuple[Change, JobRow]:  # fmt: skip
        runs = [item for item in items if isinstance(item, Run)]
        records = [item for item in items if isinstance(item, Attempt)]
        change = Change(_JobResult([run for run in runs if run.owner is not None], records))
        moved = row
        if following is None and not keep:
            change.remove(row)
        else:
            moved = row.moved(
                next_run=None if following is None else to_micros(following), fence=fence,
                zone="Z" if following is None else zone_text(following),
                finished=to_micros(self._request.now) if following is None and not waits else None,
            )  # fmt: skip
            change.move(row, moved)
        for run in runs:
            run_row = self._context.codec.new_run(run, row.definition)
            change.add_run(run_row, groups)
            if run.owner is None:
                self._context.need_queue(run_row)
        for attempt in records:
            change.create(*history_entry(record_of(attempt)))
        return change, moved

    def _cancel_live(self, change: Change, runs: Sequence[str]) -> None:
        for row in self._context.run_rows(runs):
            if row.owner is not None:
                request_cancel(change, row, REPLACED_BY_NEWER_RUN)


def _suspension(row: JobRow, job: Job, reason: str) -> Change:
    change = Change(_JobResult(suspended=Suspended(job, reason)))
    change.move(row, row.moved(suspended=reason))
    return change


def _scheduled(item: Run | Attempt) -> datetime:
    return item.scheduled_at if isinstance(item, Run) else item.run.scheduled_at


def request_cancel(change: Change, row: RunRow, reason: str, keep_existing_reason: bool = True) -> None:
    """Ask the owner of a live run to cancel it. An earlier reason stays if this one ``keep_existing_reason``."""
    if row.cancel is None or not keep_existing_reason:
        change.move(row, row._replace(cancel=reason))
