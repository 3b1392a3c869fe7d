"""The ends of runs in the stores on etcd and ZooKeeper, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.groups import Change, Groups, StoreContext, attempts, lost_all_races, write
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, group_of, stats_text
from goscheduler.jobstores._keyvalue.server import Found, Span, escape, new_token
from goscheduler.runs.model import DeadLetter, Run, Settlement
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import put_back, with_attempt

if TYPE_CHECKING:
    from goscheduler.runs.records import Record

#: How many ends of runs of one job are written in one part, at most.
MAX_ENDS_PER_JOB = 8


class RunEnd(NamedTuple):
    """How one run leaves its owner."""

    run: Run
    settlement: Settlement | None
    """None: it is put back as if it had never been handed out."""


class Settling:
    """Writes the ends of runs, as many as there are, each if it is still as it was."""

    def __init__(self, context: StoreContext, need_queue: Callable[[RunRow], None]) -> None:
        self._context = context
        self._need_queue = need_queue
        self.refused: list[Run] = []
        self.written: list[RunEnd] = []
        self.more = False
        """Whether there is something new to claim."""

    def end(self, ends: Iterable[RunEnd]) -> None:
        """Write all of these."""
        try:
            self._end(list(ends))
        except StoreUnavailable:
            self._context.doubts.note((end.run.id, end.run.fence) for end in self.written)  # they will be given again
            raise

    def _end(self, waiting: Sequence[RunEnd]) -> None:
        for number in attempts():
            lost = False
            while waiting and not lost:
                done, lost = self._try(waiting, most=max(1, 1000 >> (2 * number)))
                waiting = [end for end in waiting if id(end) not in done]
            if not waiting:
                return
        raise lost_all_races()

    def _try(self, ends: Sequence[RunEnd], most: int) -> tuple[set[int], bool]:
        """Write what can be written; return the identities of what is done with, and whether others were quicker."""
        rows = self._live_rows(ends)
        done = {id(end) for end in ends if id(end) not in rows}
        by_job: dict[str, list[tuple[RunEnd, RunRow]]] = {}
        ids: set[str] = set()
        for end in ends:
            row = rows.get(id(end))
            if row is None or row.id in ids:
                continue
            ids.add(row.id)
            by_job.setdefault(row.job_id, []).append((end, row))
        groups = Groups(self._context.server)
        groups.load(name for row in rows.values() for name in row.groups)
        changes = self._parts(by_job, groups)
        written = write(self._context, groups, changes, most)
        for change in written.changes:
            self.written += [allowed for _, allowed in change.result]
            done.update(id(end) for end, _ in change.result)
        if written.error is not None:
            raise written.error
        return done, written.lost

    def _live_rows(self, ends: Sequence[RunEnd]) -> dict[int, RunRow]:
        """Return the rows of the runs that are still live with the same fence; the others are refused."""
        found = self._context.server.read([("runs", escape(end.run.id)) for end in ends])
        rows = {}
        for end, each in zip(ends, found, strict=True):
            row = _read_row(self._context, each)
            if row is not None and row.owner is not None and row.fence == end.run.fence:
                rows[id(end)] = row
            elif not self._context.doubts.settled(end.run.id, end.run.fence):
                self.refused.append(end.run)
        return rows

    def _parts(self, by_job: dict[str, list[tuple[RunEnd, RunRow]]], groups: Groups) -> list[Change]:
        words = [escape(job_id) for job_id in by_job]
        found = self._context.server.read([key for job in words for key in (("jobs", job), ("lives", job))])
        changes = []
        for index, ends in enumerate(by_job.values()):
            change = Change()
            change.result = [(end, _allowed(end, row)) for end, row in ends[:MAX_ENDS_PER_JOB]]
            self._count(change, words[index], found[2 * index], found[2 * index + 1], ends[:MAX_ENDS_PER_JOB])
            for (_, allowed), (_, row) in zip(change.result, ends, strict=False):
                self._end_one(change, allowed, row, groups)
            changes.append(change)
        return changes

    def _count(
        self, change: Change, job: str, found: Found | None, stats: Found | None, ends: Sequence[tuple[RunEnd, RunRow]]
    ) -> None:
        """Count the attempts on their job, if that is still there."""
        row = None if found is None else _read_job(self._context, found)
        if row is None:
            if found is None:
                change.gone.add(f"j.{job}")
            return
        before = after = self._context.codec.stats(row, stats)
        for end, _ in ends:
            if end.settlement is not None:
                after = with_attempt(after, end.settlement.attempt)
        change.transaction.check(row.key)
        if after is before:
            return
        if stats is None:
            change.transaction.create(("lives", job), stats_text(after, row.born))
        else:
            change.transaction.replace(("lives", job), stats_text(after, row.born), stats.version)

    def _end_one(self, change: Change, end: RunEnd, row: RunRow, groups: Groups) -> None:
        follow_up = put_back(end.run) if end.settlement is None else end.settlement.follow_up
        if row.revoked:
            follow_up = None
        change.transaction.delete(row.place)
        change.leave(row, groups)
        if row.cancel is not None:
            change.transaction.delete(row.cancel_key)
        if follow_up is None:
            change.transaction.delete(row.key, row.version)
        else:
            self._follow_up(change, row, follow_up, groups)
        for name in row.groups:
            self.more |= unblock_next(self._context, change, name, groups)
        if end.settlement is not None:
            change.ends.append((end.run.id, end.run.fence))
            self._record(change, end.settlement)

    def _follow_up(self, change: Change, row: RunRow, run: Run, groups: Groups) -> None:
        following = self._context.codec.new_run(run)
        if row.cancel is not None:
            following = following._replace(cancel=row.cancel)
        change.transaction.replace(row.key, following.text, row.version)
        change.transaction.create(following.place)
        change.transaction.create(following.member)
        groups[following.groups[0]].take_in(following.member[2])
        self._need_queue(following)
        self.more = True

    def _record(self, change: Change, settlement: Settlement) -> None:
        record: Record = record_of(settlement.attempt)
        change.transaction.create(*history_entry(record))
        if settlement.dead is not None:
            letter = DeadLetter(settlement.attempt.run, record, settlement.dead)
            key, text = ("dead", escape(record.run_id)), self._context.codec.letter_text(letter)
            if self._context.server.read([key])[0] is None:
                change.transaction.create(key, text)
            else:
                change.transaction.replace(key, text)


def _allowed(end: RunEnd, row: RunRow) -> RunEnd:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    if end.settlement is None or not (row.revoked or row.cancel is not None):
        return end
    return RunEnd(end.run, end.settlement._replace(follow_up=None))


def unblock_next(context: StoreContext, change: Change, key: str, groups: Groups) -> bool:
    """Let the first run that is held in a group, given by its name or its key, try again; false if there is none."""
    name = group_of(key) if ":" in key else key
    group = groups[name]
    while group.blocked:
        member = group.blocked.pop(0)
        place = ("members", name, member)
        row = _read_row(context, context.server.read([("runs", member.split(".")[2])])[0])
        if row is None or row.place != place:
            continue
        unblocked = row.moved(blocked_on=None, unblocked_by=row.blocked_on)
        change.transaction.delete(place)
        change.transaction.delete(row.blocked_key)
        change.transaction.create(unblocked.place)
        change.transaction.create(unblocked.unblocked_key)
        change.transaction.replace(row.key, unblocked.text)
        change.left.add(name)
        return True
    return False


def drop_pending(context: StoreContext, change: Change, row: RunRow, groups: Groups) -> None:
    """Take a pending run away; if it had been let try, another one may."""
    change.transaction.delete(row.place)
    change.transaction.delete(row.key)
    change.leave(row, groups)
    if row.blocked_on is not None:
        group = groups[group_of(row.blocked_on)]
        group.blocked = [name for name in group.blocked if name != row.place[2]]
        change.transaction.delete(row.blocked_key)
        change.left.add(group.name)
    if row.unblocked_by is not None:
        change.transaction.delete(row.unblocked_key)
        unblock_next(context, change, row.unblocked_by, groups)


def put_aside(change: Change, row: RunRow, groups: Groups) -> None:
    """Keep a run that cannot be read where nobody claims it."""
    aside = ("aside", f"{row.key[1]}.{new_token()}")
    change.transaction.delete(row.place)
    change.transaction.create(aside)
    change.transaction.replace(row.key, row._replace(owner=None, place=aside).text)
    change.leave(row, groups)


def groups_of(row: RunRow) -> list[str]:
    """Return the groups that a run has to do with, also those that it waits for or has waited for."""
    return [*row.groups, *(group_of(key) for key in (row.blocked_on, row.unblocked_by) if key is not None)]


def rows_of_owner(context: StoreContext, owner: str) -> list[RunRow]:
    """Return the rows of the runs that an owner has, by the word that stands for him."""
    names = context.server.names([Span.of_prefix(("owned",), owner)])[0]
    return rows_named(context, [name.split(".")[1] for name in names])


def rows_named(context: StoreContext, words: Sequence[str]) -> list[RunRow]:
    """Return the rows of runs, given by the words that stand for them, as far as they can be read."""
    rows: list[RunRow] = []
    for start in range(0, len(words), 100):
        found = context.server.read([("runs", run) for run in words[start : start + 100]])
        rows += [row for each in found if (row := _read_row(context, each)) is not None]
    return rows


def _read_row(context: StoreContext, found: Found | None) -> RunRow | None:
    try:
        return None if found is None else context.codec.run_row(found)
    except CodecError:
        return None


def _read_job(context: StoreContext, found: Found) -> JobRow | None:
    try:
        return context.codec.job_row(found)
    except CodecError:
        return None
