"""Firing and claiming in the stores on etcd and ZooKeeper: look, read, plan, and write what is still as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.due_work import Entry, Looking, Seen
from goscheduler.jobstores._keyvalue.groups import Groups, Part, Work, Written, write, write_all
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, group_of, lane_of
from goscheduler.jobstores._keyvalue.server import Found, Key, Span, Step, unique
from goscheduler.jobstores._keyvalue.settling import free_next, put_aside, rows_named
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
ROUNDS = 12
#: How many of the live runs for which another one is held have to be live still when that is written.
WITNESSES = 16
DISPLACED = "a newer run of its job takes its place"


class _Told(NamedTuple):
    """What has happened to one job when its part is written."""

    runs: Sequence[Run] = ()
    records: Sequence[Attempt] = ()
    finished: Job | None = None
    suspended: Suspended | None = None


class Firing:
    """One call of ``fire_due``."""

    def __init__(self, work: Work, looking: Looking, request: FireRequest, seen: Seen) -> None:
        self._work = work
        self._looking = looking
        self._request = request
        self._seen = seen
        self.room = dict(request.room)
        self._told: list[_Told] = []
        self._steps: list[Step] = []
        self._error: Exception | None = None

    def fire(self, ours: Sequence[Run] = ()) -> Fired:
        """Fire what is due, as much as there is room for; ``ours`` are runs to be told of with the others."""
        self._told.append(_Told(ours))
        try:
            for number in range(ROUNDS):
                entries = self._due(number)
                if not entries:
                    break
                self._looking.contended = self._fire(entries, number)
                if not self._looking.contended:
                    break
        except StoreUnavailable as error:
            self._error = error
        return Fired(
            [run for told in self._told for run in told.runs],
            [record for told in self._told for record in told.records],
            [told.finished for told in self._told if told.finished is not None],
            [told.suspended for told in self._told if told.suspended is not None],
            error=self._error,
        )

    def left(self) -> Seen | None:
        """Return what there still is to do; None if that has to be looked for."""
        return None if self._looking.contended or self._error is not None else self._seen.after(self._steps)

    def _due(self, number: int) -> list[Entry]:
        """Return what is due: as it was seen a moment ago, unless others take it at the same time."""
        luck = self._looking.contended
        at_hand = None if number or luck else self._seen.at_hand(self.room)
        return self._looking.pick("due", self._request, self.room, luck) if at_hand is None else at_hand

    def _fire(self, entries: Sequence[Entry], number: int) -> bool:
        """Fire these; true if another look is worth while, because others were quicker."""
        server = self._work.server
        words = [entry.subject for entry in entries]
        found = server.read([key for job in words for key in (("jobs", job), ("lives", job))])
        groups = Groups(server)
        groups.load(f"j.{job}" for job in words)
        rows = [self._read(entry, found[2 * index]) for index, entry in enumerate(entries)]
        groups.open_ledger({name for row in rows if isinstance(row, JobRow) for name in row.limits})
        parts: list[Part] = []
        for index, row in enumerate(rows):
            if isinstance(row, JobRow):
                parts += self._planned(row, found[2 * index + 1], groups)
            elif row is not None:
                parts.append(row)
        most = max(1, 1000 >> (3 * number))
        written = write(self._work, groups, parts, most)
        self._take_in(written)
        rest = self._left_to_us(parts[len(written.parts) :]) if written.lost else []
        if rest:
            self._take_in(write(self._work, groups, rest, most))
        return written.lost

    def _left_to_us(self, parts: Sequence[Part]) -> list[Part]:
        """Return those of some parts whose jobs nobody else has fired meanwhile, if there were such at all."""
        if any(part.alone for part in parts):
            return []
        found = self._work.server.read([next(iter(part.step.deleted)) for part in parts])
        rest = [part for part, there in zip(parts, found, strict=True) if there is not None]
        return rest if len(rest) < len(parts) else []

    def _take_in(self, written: Written) -> None:
        for part in written.parts:
            told: _Told = part.told
            self._told.append(told)
            self._steps.append(part.step)
            for run in told.runs:
                self.room[run.job.executor] -= 1
        if written.error is not None:
            raise written.error

    def _read(self, entry: Entry, found: Found | None) -> JobRow | Part | None:
        """Return the row of a due job; or what to write where there is none that can be read."""
        place = ("due", entry.lane.name, entry.name)
        if found is None:
            part = Part()
            part.step.delete(place)
            part.told = _Told()
            return part
        try:
            row = self._work.rows.job_row(found)
        except CodecError as error:
            part = Part()
            part.step.delete(place)
            part.step.create(("suspended", f"{entry.subject}.{unique()}"))
            part.told = _Told(suspended=Suspended(self._work.rows.unreadable_job(entry.subject, found), str(error)))
            return part
        return row if row.place == place else None

    def _planned(self, row: JobRow, life: Found | None, groups: Groups) -> list[Part]:
        """Return what to write for a due job."""
        now = self._request.now
        job = self._work.rows.job(row)
        if job.suspended is not None:
            return [self._suspension(row, job, job.suspended)]
        group = groups[f"j.{row.key[1]}"]
        fence = max(row.fence + 1, to_micros(now))
        plan = self._request.plan(job, ConcurrencyState(len(group.live), group.firings, fence, groups.ledger), now)
        if plan.suspended is not None:
            return [self._suspension(row, job, plan.suspended)]
        parts = self._slices(row, plan, fence, groups)
        last = parts[-1]
        if plan.cancel_live:
            self._displace(last, [member[2:] for member in group.live])
        if plan.next_run_time is None and not plan.keep:
            if life is not None:
                last.step.delete(("lives", row.key[1]))
            if not last.touched:
                last.left.add(group.name)
                last.gone.add(group.name)
            last.told = last.told._replace(finished=job)
        job.next_run_time = plan.next_run_time
        return parts

    def _suspension(self, row: JobRow, job: Job, reason: str) -> Part:
        part = Part()
        suspended = row.moved(suspended=reason)
        part.step.delete(row.place)
        part.step.create(suspended.place)
        part.step.replace(row.key, suspended.text)
        part.told = _Told(suspended=Suspended(job, reason))
        return part

    def _slices(self, row: JobRow, plan: FiringPlan, fence: int, groups: Groups) -> list[Part]:
        """Return the plan in parts that the server takes, each of which leaves the job where the next one begins."""
        items: list[Run | Attempt] = sorted([*plan.start, *plan.wait, *plan.records], key=_scheduled)
        most = max(1, self._work.server.most_changes // 8)
        size = 2 * len(row.definition) + 1000
        most = min(most, max(1, self._work.server.most_bytes // size))
        parts = []
        for start in range(0, len(items), most):
            following = _scheduled(items[start + most]) if start + most < len(items) else plan.next_run_time
            keep = plan.keep or start + most < len(items)
            part, row = self._slice(row, items[start : start + most], following, keep, fence, groups)
            part.alone = len(items) > most
            parts.append(part)
        return parts or [self._slice(row, [], plan.next_run_time, plan.keep, fence, groups)[0]]

    def _slice(
        self, row: JobRow, items: Sequence[Run | Attempt], following: datetime | None, keep: bool, fence: int,
        groups: Groups,
    ) -> tuple[Part, JobRow]:  # fmt: skip
        part = Part()
        part.step.delete(row.place)
        moved = row
        if following is None and not keep:
            part.step.delete(row.key)
        else:
            moved = row.moved(
                next_run=None if following is None else to_micros(following), fence=fence,
                zone="Z" if following is None else zone_text(following),
                finished=to_micros(self._request.now) if following is None else None,
            )  # fmt: skip
            part.step.replace(row.key, moved.text)
            part.step.create(moved.place)
        runs = [item for item in items if isinstance(item, Run)]
        for run in runs:
            self._add_run(part, run, row.definition, groups)
        records = [item for item in items if isinstance(item, Attempt)]
        for attempt in records:
            part.step.create(*history_entry(record_of(attempt)))
        part.told = _Told([run for run in runs if run.owner is not None], records)
        return part, moved

    def _add_run(self, part: Part, run: Run, definition: str, groups: Groups) -> None:
        run_row = self._work.rows.new_run(run, definition)
        part.add_run(run_row, groups)
        if run.owner is None:
            self._looking.need(lane_of(run_row))
        else:
            part.runs.append((run_row.place, run))

    def _displace(self, part: Part, runs: Sequence[str]) -> None:
        found = self._work.server.read([("runs", run) for run in runs])
        for each in found:
            row = _readable(self._work, each)
            if row is not None and row.owner is not None:
                request_cancel(part, row, DISPLACED)


class Claiming:
    """One call of ``claim_runs``."""

    def __init__(self, work: Work, looking: Looking, request: FireRequest) -> None:
        self._work = work
        self._looking = looking
        self._request = request
        self.room = dict(request.room)
        self.claimed: list[Run] = []

    def claim(self) -> None:
        """Claim what is pending and due, as much as there is room for."""
        losses = 0
        for _ in range(ROUNDS):
            entries = self._looking.pick("ready", self._request, self.room, luck=losses > 1)
            if not entries:
                break
            losses += self._claim(entries, losses)

    def pass_on(self) -> bool:
        """Let others try instead of those that were let try and cannot start here for want of room; true if any can."""
        server = self._work.server
        rows = rows_named(self._work, server.names([Span(("freed",))])[0])
        idle = [row for row in rows if row.freed is not None and self.room.get(row.executor, 1) <= 0]
        groups = Groups(server)
        groups.load(group_of(row.freed) for row in idle if row.freed is not None)
        parts = []
        for row in idle:
            part = Part()
            if free_next(self._work, part, row.freed or "", groups):
                part.step.check(row.place)
                part.step.delete(row.trying)
                part.step.replace(row.key, row._replace(freed=None).text)
                parts.append(part)
        return bool(parts) and write_all(self._work, groups, parts)

    def _claim(self, entries: Sequence[Entry], number: int) -> bool:
        server = self._work.server
        groups = Groups(server)
        found = server.read([("runs", entry.subject) for entry in entries])
        parts: list[Part] = []
        rows: list[RunRow] = []
        for entry, each in zip(entries, found, strict=True):
            place = ("ready", entry.lane.name, entry.name)
            row = _readable(self._work, each)
            if row is None:
                parts.append(_set_apart(place, entry.subject, each))
            elif row.place == place:
                rows.append(row)
        groups.load(name for row in rows for name in row.groups)
        groups.load(group_of(row.freed) for row in rows if row.freed is not None)
        groups.open_ledger({name for row in rows for name in row.limits})
        for row in rows:
            parts.append(self._claim_one(row, groups))
        written = write(self._work, groups, parts, most=max(1, 1000 >> (2 * number)))
        for part in written.parts:
            runs: Sequence[Run] = part.told
            self.claimed += runs
            for run in runs:
                self.room[run.job.executor] -= 1
        if written.error is not None:
            raise written.error
        return written.lost

    def _claim_one(self, row: RunRow, groups: Groups) -> Part:
        now = self._request.now
        try:
            run = self._work.rows.run(row)
        except CodecError:
            part = Part()
            put_aside(part, row, groups)
            part.told = ()
            return part
        fence = max(row.fence + 1, to_micros(now))
        concurrency = ConcurrencyState(len(groups[row.groups[0]].live), 0, fence, groups.ledger)
        refusal = self._request.admit(run, concurrency, now)
        part = Part()
        part.told = ()
        part.step.delete(row.place)
        if refusal is not None:
            self._refuse(part, row, refusal, groups)
            return part
        ours = row.moved(owner=self._request.owner, fence=fence, freed=None)
        part.leave(row, groups)
        part.left.clear()
        part.enter(ours, groups)
        part.step.replace(row.key, ours.text)
        part.step.create(ours.place)
        if row.freed is not None:
            part.step.delete(row.trying)
        if row.cancel is not None:
            part.step.create(ours.ending)
        run = claimed(run, self._request.owner, fence)
        part.runs.append((ours.place, run))
        part.told = [run]
        return part

    def _refuse(self, part: Part, row: RunRow, refusal: Refusal, groups: Groups) -> None:
        if refusal.until is not None:
            moved = row.moved(due=max(to_micros(refusal.until), row.due), freed=None)
        else:
            moved = row.moved(held=refusal.key, freed=None)
            group = groups[moved.place[1]]
            for member in sorted(group.found)[:WITNESSES]:  # or the last of them may have ended meanwhile
                part.step.check(("members", group.name, member))
            group.take_in(moved.place[2])
            part.step.create(moved.waiting)
            part.touched.add(group.name)
        part.step.replace(row.key, moved.text)
        part.step.create(moved.place)
        if row.freed is not None:
            part.step.delete(row.trying)
        if row.freed is not None and row.freed != refusal.key:
            free_next(self._work, part, row.freed, groups)


def request_cancel(part: Part, row: RunRow, reason: str, keep_existing_reason: bool = True) -> None:
    """Have the owner of a live run told to end it. An earlier reason stays if this one ``keep_existing_reason``."""
    if row.cancel is not None and keep_existing_reason:
        return
    part.step.check(row.place)
    part.step.replace(row.key, row._replace(cancel=reason).text, row.version)
    if row.cancel is None:
        part.step.create(row.ending)


def _readable(work: Work, found: Found | None) -> RunRow | None:
    try:
        return None if found is None else work.rows.run_row(found)
    except CodecError:
        return None


def _set_apart(place: Key, run: str, found: Found | None) -> Part:
    """Keep something of which it cannot be told which run it is where nobody claims it; or forget an empty entry."""
    part = Part()
    part.step.delete(place)
    if found is not None:
        part.step.create(("aside", f"{run}.{unique()}"))
    part.told = ()
    return part


def _scheduled(item: Run | Attempt) -> datetime:
    return item.scheduled_at if isinstance(item, Run) else item.run.scheduled_at
