"""The ends of runs in the stores on etcd and ZooKeeper, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.groups import Groups, Part, Work, attempts, overtaken, write
from goscheduler.jobstores._keyvalue.history import history_entry
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, group_of, life_text
from goscheduler.jobstores._keyvalue.server import Found, Span, unique, word
from goscheduler.runs.model import DeadLetter, Run, Settlement
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import put_back, with_attempt

if TYPE_CHECKING:
    from goscheduler.runs.records import Record

#: How many ends of runs of one job are written in one part, at most.
TOGETHER = 8


class End(NamedTuple):
    """How one run leaves its owner."""

    run: Run
    settlement: Settlement | None
    """None: it is put back as if it had never been handed out."""


class Settling:
    """Writes the ends of runs, as many as there are, each if it is still as it was."""

    def __init__(self, work: Work, need_lane: Callable[[RunRow], None]) -> None:
        self._work = work
        self._need_lane = need_lane
        self.refused: list[Run] = []
        self.written: list[End] = []
        self.more = False
        """Whether there is something new to claim."""

    def end(self, ends: Iterable[End]) -> None:
        """Write all of these."""
        try:
            self._end(list(ends))
        except StoreUnavailable:
            self._work.doubts.note((end.run.id, end.run.fence) for end in self.written)  # they will be given again
            raise

    def _end(self, waiting: Sequence[End]) -> None:
        for number in attempts():
            lost = False
            while waiting and not lost:
                done, lost = self._try(waiting, most=max(1, 1000 >> (2 * number)))
                waiting = [end for end in waiting if id(end) not in done]
            if not waiting:
                return
        raise overtaken()

    def _try(self, ends: Sequence[End], most: int) -> tuple[set[int], bool]:
        """Write what can be written; return the identities of what is done with, and whether others were quicker."""
        rows = self._rows(ends)
        done = {id(end) for end in ends if id(end) not in rows}
        by_job: dict[str, list[tuple[End, RunRow]]] = {}
        seen: set[str] = set()
        for end in ends:
            row = rows.get(id(end))
            if row is None or row.id in seen:
                continue
            seen.add(row.id)
            by_job.setdefault(row.job_id, []).append((end, row))
        groups = Groups(self._work.server)
        groups.load(name for row in rows.values() for name in row.groups)
        parts = self._parts(by_job, groups)
        written = write(self._work, groups, parts, most)
        for part in written.parts:
            self.written += [allowed for _, allowed in part.told]
            done.update(id(end) for end, _ in part.told)
        if written.error is not None:
            raise written.error
        return done, written.lost

    def _rows(self, ends: Sequence[End]) -> dict[int, RunRow]:
        """Return the rows of the runs that are still live with the same fence; the others are refused."""
        found = self._work.server.read([("runs", word(end.run.id)) for end in ends])
        rows = {}
        for end, each in zip(ends, found, strict=True):
            row = _read_row(self._work, each)
            if row is not None and row.owner is not None and row.fence == end.run.fence:
                rows[id(end)] = row
            elif not self._work.doubts.settled(end.run.id, end.run.fence):
                self.refused.append(end.run)
        return rows

    def _parts(self, by_job: dict[str, list[tuple[End, RunRow]]], groups: Groups) -> list[Part]:
        words = [word(job_id) for job_id in by_job]
        found = self._work.server.read([key for job in words for key in (("jobs", job), ("lives", job))])
        parts = []
        for index, ends in enumerate(by_job.values()):
            part = Part()
            part.told = [(end, _allowed(end, row)) for end, row in ends[:TOGETHER]]
            self._count(part, words[index], found[2 * index], found[2 * index + 1], ends[:TOGETHER])
            for (_, allowed), (_, row) in zip(part.told, ends, strict=False):
                self._end_one(part, allowed, row, groups)
            parts.append(part)
        return parts

    def _count(
        self, part: Part, job: str, found: Found | None, life: Found | None, ends: Sequence[tuple[End, RunRow]]
    ) -> None:
        """Count the attempts on their job, if that is still there."""
        row = None if found is None else _read_job(self._work, found)
        if row is None:
            if found is None:
                part.gone.add(f"j.{job}")
            return
        before = after = self._work.rows.life(row, life)
        for end, _ in ends:
            if end.settlement is not None:
                after = with_attempt(after, end.settlement.attempt)
        part.step.check(row.key)
        if after is before:
            return
        if life is None:
            part.step.create(("lives", job), life_text(after, row.born))
        else:
            part.step.replace(("lives", job), life_text(after, row.born), life.version)

    def _end_one(self, part: Part, end: End, row: RunRow, groups: Groups) -> None:
        follow_up = put_back(end.run) if end.settlement is None else end.settlement.follow_up
        if row.revoked:
            follow_up = None
        part.step.delete(row.place)
        part.leave(row, groups)
        if row.cancel is not None:
            part.step.delete(row.ending)
        if follow_up is None:
            part.step.delete(row.key, row.version)
        else:
            self._follow_up(part, row, follow_up, groups)
        for name in row.groups:
            self.more |= free_next(self._work, part, name, groups)
        if end.settlement is not None:
            part.ends.append((end.run.id, end.run.fence))
            self._record(part, end.settlement)

    def _follow_up(self, part: Part, row: RunRow, run: Run, groups: Groups) -> None:
        following = self._work.rows.new_run(run)
        if row.cancel is not None:
            following = following._replace(cancel=row.cancel)
        part.step.replace(row.key, following.text, row.version)
        part.step.create(following.place)
        part.step.create(following.member)
        groups[following.groups[0]].take_in(following.member[2])
        self._need_lane(following)
        self.more = True

    def _record(self, part: Part, settlement: Settlement) -> None:
        record: Record = record_of(settlement.attempt)
        part.step.create(*history_entry(record))
        if settlement.dead is not None:
            letter = DeadLetter(settlement.attempt.run, record, settlement.dead)
            key, text = ("dead", word(record.run_id)), self._work.rows.letter_text(letter)
            if self._work.server.read([key])[0] is None:
                part.step.create(key, text)
            else:
                part.step.replace(key, text)


def _allowed(end: End, row: RunRow) -> End:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    if end.settlement is None or not (row.revoked or row.cancel is not None):
        return end
    return End(end.run, end.settlement._replace(follow_up=None))


def free_next(work: Work, part: Part, key: str, groups: Groups) -> bool:
    """Let the first run that is held in a group, given by its name or its key, try again; false if there is none."""
    name = group_of(key) if ":" in key else key
    group = groups[name]
    while group.held:
        held = group.held.pop(0)
        place = ("members", name, held)
        row = _read_row(work, work.server.read([("runs", held.split(".")[2])])[0])
        if row is None or row.place != place:
            continue
        freed = row.moved(held=None, freed=row.held)
        part.step.delete(place)
        part.step.delete(row.waiting)
        part.step.create(freed.place)
        part.step.create(freed.trying)
        part.step.replace(row.key, freed.text)
        part.left.add(name)
        return True
    return False


def drop_pending(work: Work, part: Part, row: RunRow, groups: Groups) -> None:
    """Take a pending run away; if it had been let try, another one may."""
    part.step.delete(row.place)
    part.step.delete(row.key)
    part.leave(row, groups)
    if row.held is not None:
        group = groups[group_of(row.held)]
        group.held = [name for name in group.held if name != row.place[2]]
        part.step.delete(row.waiting)
        part.left.add(group.name)
    if row.freed is not None:
        part.step.delete(row.trying)
        free_next(work, part, row.freed, groups)


def put_aside(part: Part, row: RunRow, groups: Groups) -> None:
    """Keep a run that cannot be read where nobody claims it."""
    aside = ("aside", f"{row.key[1]}.{unique()}")
    part.step.delete(row.place)
    part.step.create(aside)
    part.step.replace(row.key, row._replace(owner=None, place=aside).text)
    part.leave(row, groups)


def groups_of(row: RunRow) -> list[str]:
    """Return the groups that a run has to do with, also those that it waits for or has waited for."""
    return [*row.groups, *(group_of(key) for key in (row.held, row.freed) if key is not None)]


def rows_of_owner(work: Work, owner: str) -> list[RunRow]:
    """Return the rows of the runs that an owner has, by the word that stands for him."""
    names = work.server.names([Span.of_prefix(("owned",), owner)])[0]
    return rows_named(work, [name.split(".")[1] for name in names])


def rows_named(work: Work, words: Sequence[str]) -> list[RunRow]:
    """Return the rows of runs, given by the words that stand for them, as far as they can be read."""
    rows: list[RunRow] = []
    for start in range(0, len(words), 100):
        found = work.server.read([("runs", run) for run in words[start : start + 100]])
        rows += [row for each in found if (row := _read_row(work, each)) is not None]
    return rows


def _read_row(work: Work, found: Found | None) -> RunRow | None:
    try:
        return None if found is None else work.rows.run_row(found)
    except CodecError:
        return None


def _read_job(work: Work, found: Found) -> JobRow | None:
    try:
        return work.rows.job_row(found)
    except CodecError:
        return None
