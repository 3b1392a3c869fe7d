"""The ends of runs in the stores on etcd and ZooKeeper, and what follows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import RunRow, group_of, stats_text
from goscheduler.jobstores._keyvalue.server import Found, escape, new_token
from goscheduler.jobstores._keyvalue.transaction import (
    MAX_CHANGES_PER_TRANSACTION,
    Change,
    attempts,
    lost_all_races,
    write,
)
from goscheduler.jobstores._shared.decisions import allowed
from goscheduler.runs.model import DeadLetter, Run, Settlement
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import put_back, with_attempt

#: How many ends of runs of one job one change writes.
MAX_ENDS_PER_JOB = 8


class RunEnd(NamedTuple):
    """How one run leaves its owner."""

    run: Run
    settlement: Settlement | None
    """None puts the run back as if no process had ever claimed it."""


class Settling:
    """Writes the ends of runs, each only if its run is live with the same fence."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self.refused: list[Run] = []
        self.written: list[RunEnd] = []
        self.has_new_work = False
        """Whether there is something new to claim."""

    def end(self, ends: Sequence[RunEnd]) -> None:
        """Write all of these."""
        for number in attempts():
            lost = False
            while ends and not lost:
                done, lost = self._try(ends, limit=max(1, MAX_CHANGES_PER_TRANSACTION >> (2 * number)))
                ends = [end for end in ends if id(end) not in done]
            if not ends:
                return
        raise lost_all_races()

    def _try(self, ends: Sequence[RunEnd], limit: int) -> tuple[set[int], bool]:
        """Write as many ends as possible; return which of them are done, and whether other processes were faster."""
        rows = self._live_rows(ends)
        done = {id(end) for end in ends if id(end) not in rows}
        by_job: dict[str, dict[str, tuple[RunEnd, RunRow]]] = {}
        for end in ends:
            if (row := rows.get(id(end))) is not None:
                by_job.setdefault(row.job_id, {}).setdefault(row.id, (end, row))
        groups = Groups(self._context.server, (name for row in rows.values() for name in row.groups))
        changes = self._changes({job: list(each.values())[:MAX_ENDS_PER_JOB] for job, each in by_job.items()}, groups)
        written = write(self._context.server, groups, changes, limit)
        for change in written.changes:
            self.written += [end for _, end in change.result]
            done.update(id(end) for end, _ in change.result)
        if written.error is not None:
            raise written.error
        return done, written.lost

    def _live_rows(self, ends: Sequence[RunEnd]) -> dict[int, RunRow]:
        """Return the rows of the runs that are still live with the same fence; the others are refused."""
        found = self._context.server.read([("runs", escape(end.run.id)) for end in ends])
        rows = {}
        for end, each in zip(ends, found, strict=True):
            row = self._context.codec.readable_run_row(each)
            if row is not None and row.owner is not None and row.fence == end.run.fence:
                rows[id(end)] = row
            else:
                self.refused.append(end.run)
        return rows

    def _changes(self, by_job: dict[str, list[tuple[RunEnd, RunRow]]], groups: Groups) -> list[Change]:
        names = [escape(job_id) for job_id in by_job]
        found = self._context.server.read([key for job in names for key in (("jobs", job), ("lives", job))])
        changes = []
        for index, ends in enumerate(by_job.values()):
            change = Change([(end, _allowed(end, row)) for end, row in ends])
            self._update_stats(change, names[index], found[2 * index], found[2 * index + 1], [end for end, _ in ends])
            for (_, end), (_, row) in zip(change.result, ends, strict=True):
                self._end_one(change, end, row, groups)
            changes.append(change)
        return changes

    def _update_stats(
        self, change: Change, job: str, found: Found | None, stats: Found | None, ends: Sequence[RunEnd]
    ) -> None:
        """Count the attempts in the statistics of their job, if the job still exists."""
        if found is None:
            change.gone.add(f"j.{job}")
        row = self._context.codec.readable_job_row(found)
        if row is None:
            return
        before = after = self._context.codec.stats(row, stats)
        for end in ends:
            if end.settlement is not None:
                after = with_attempt(after, end.settlement.attempt)
        change.check(row.key)
        if after is before:
            return
        if stats is None:
            change.create(("lives", job), stats_text(after, row.born))
        else:
            change.replace(("lives", job), stats_text(after, row.born), stats.version)

    def _end_one(self, change: Change, end: RunEnd, row: RunRow, groups: Groups) -> None:
        follow_up = put_back(end.run) if end.settlement is None else end.settlement.follow_up
        if row.revoked:
            follow_up = None
        change.leave_groups(row, groups)
        if follow_up is None:
            change.remove(row)
        else:
            self._follow_up(change, row, follow_up, groups)
        for name in row.groups:
            self.has_new_work |= unblock_next(self._context, change, name, groups)
        if end.settlement is not None:
            self._record(change, end.settlement)

    def _follow_up(self, change: Change, row: RunRow, run: Run, groups: Groups) -> None:
        following = self._context.codec.new_run(run)
        if row.cancel is not None:
            following = following._replace(cancel=row.cancel)
        change.move(row, following)
        change.create(following.member)
        groups[following.groups[0]].add(following.member[2])
        self._context.need_queue(following)
        self.has_new_work = True

    def _record(self, change: Change, settlement: Settlement) -> None:
        record = record_of(settlement.attempt)
        change.create(*history_entry(record))
        if settlement.dead is not None:
            letter = DeadLetter(settlement.attempt.run, record, settlement.dead)
            key, text = ("dead", escape(record.run_id)), self._context.codec.letter_text(letter)
            if self._context.server.read([key])[0] is None:
                change.create(key, text)
            else:
                change.replace(key, text)


def _allowed(end: RunEnd, row: RunRow) -> RunEnd:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    if end.settlement is None:
        return end
    return RunEnd(end.run, allowed(end.settlement, row.revoked or row.cancel is not None))


def unblock_next(context: StoreContext, change: Change, key: str, groups: Groups) -> bool:
    """Unblock the first blocked run of a group, given by its name or its key; false if there is none."""
    name = group_of(key) if ":" in key else key
    group = groups[name]
    while group.blocked:
        member = group.blocked.pop(0)
        place = ("members", name, member)
        row = context.codec.readable_run_row(context.server.read([("runs", member.split(".")[2])])[0])
        if row is None or row.place != place:
            continue
        change.move(row, row.moved(blocked_on=None, unblocked_by=row.blocked_on))
        change.left.add(name)
        return True
    return False


def drop_pending(context: StoreContext, change: Change, row: RunRow, groups: Groups) -> None:
    """Delete a pending run; if it had been unblocked, unblock another one instead."""
    change.remove(row)
    change.leave_groups(row, groups)
    if row.blocked_on is not None:
        group = groups[group_of(row.blocked_on)]
        group.blocked = [name for name in group.blocked if name != row.place[2]]
        change.left.add(group.name)
    if row.unblocked_by is not None:
        unblock_next(context, change, row.unblocked_by, groups)


def put_aside(change: Change, row: RunRow, groups: Groups) -> None:
    """Keep a run that cannot be read, in a place where no process claims it."""
    change.move(row, row._replace(owner=None, place=("aside", f"{row.key[1]}.{new_token()}")))
    change.leave_groups(row, groups)


def groups_of(row: RunRow) -> list[str]:
    """Return the groups of a run, and those that block it or have blocked it."""
    return [*row.groups, *(group_of(key) for key in (row.blocked_on, row.unblocked_by) if key is not None)]
