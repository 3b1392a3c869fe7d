"""Claiming in the SQL store: pending runs that are due become ours, are held until others have ended, or put off.

A run is held because others are live. These must not end unnoticed while that is written: whoever ends a run lets one
try that is held, and would not see this one. So their rows are locked first, which the end of a run waits for. Where
some of them are locked already they are just ending, and as many runs try again in a moment instead of being held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, select, update

from goscheduler.codec import CodecError
from goscheduler.jobstores._sql_firing import due_rows
from goscheduler.jobstores._sql_holds import Limits, Work, load_limits, lock, save_ledger, take_jobs, take_rows
from goscheduler.jobstores._sql_looking import Seen, claimable, let_try
from goscheduler.jobstores._sql_rows import DueRun, WaitingRun, quoted
from goscheduler.jobstores.base import Claimed, FireRequest
from goscheduler.runs.model import make
from goscheduler.runs.plan import Refusal, Standing
from goscheduler.runs.transitions import claimed
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Run

#: How soon it is tried again to get hold of what others have hold of.
SOON = timedelta(milliseconds=50)


class Claiming:
    """One transaction of ``claim_runs``."""

    def __init__(self, work: Work, request: FireRequest, seen: Seen) -> None:
        self._work = work
        self._request = request
        self._seen = seen
        self._now = seen.now
        self._room = dict(request.room)
        self._claimed: list[Run] = []
        self._new: list[Run] = []
        self._refused: list[tuple[DueRun, Refusal]] = []
        self._unreadable: list[tuple[str, str]] = []
        self._live: dict[str, list[str]] = {}
        """Job id → ids of its runs that were live."""
        self._busy_jobs: set[str] = set()
        self._busy_limits: set[str] = set()
        """What others have hold of: ids of jobs, and texts that name limits."""

    @property
    def left(self) -> bool:
        """Whether something is due that others have hold of, and that will soon be free."""
        return bool(self._busy_jobs or self._busy_limits)

    def start(self) -> Claimed:
        """Claim what is pending and due. What is refused leaves its place to others."""
        while self._claim_some():
            pass
        if self._seen.let_try:
            self._pass_turns_on()
        return Claimed(self._claimed)

    def _claim_some(self) -> bool:
        """Claim as much as there is room for; true if there may be room left, because some were refused or left."""
        waiting = self._waiting()
        if not waiting:
            return False
        busy_before = len(self._busy_jobs) + len(self._busy_limits)
        rows = self._taken(waiting)
        self._new, self._refused, self._unreadable = [], [], []
        limits = load_limits(self._work, [row.limits for row in rows])
        self._busy_limits.update(limits.busy)
        rows = [row for row in rows if row.limits not in self._busy_limits]
        self._live = self._live_runs({row.job_id for row in rows})
        live = Counter({job_id: len(ids) for job_id, ids in self._live.items()})
        for row in rows:
            self._claim_one(row, live, limits.ledger)
        self._write(limits)
        self._claimed += self._new
        left = len(self._busy_jobs) + len(self._busy_limits) > busy_before
        return left or bool(self._refused or self._unreadable)

    def _waiting(self) -> Sequence[WaitingRun | DueRun]:
        """Return runs that are due, without those that others have hold of."""
        runs, lanes = self._work.tables.runs, self._seen.due(self._seen.run_lanes)
        which = [*claimable(runs)]
        if self._busy_jobs:
            which.append(~self._work.dialect.among(runs.c.job_id, sorted(self._busy_jobs)))
        if self._busy_limits:
            which.append(runs.c.limits.not_in(sorted(self._busy_limits)))
        request = self._request._replace(room=self._room)
        if self._work.dialect.skips_locked:
            return due_rows(self._work, runs.c.ready, WaitingRun, lanes, request, self._now, *which)
        return due_rows(self._work, runs.c.ready, DueRun, lanes, request, self._now, *which)

    def _taken(self, waiting: Sequence[Any]) -> list[DueRun]:
        """Return those of the runs, in the same order, that nobody else starts, nor another one of their jobs."""
        if not self._work.dialect.skips_locked:
            return list(waiting)
        job_ids = {row.job_id for row in waiting}
        ours = take_jobs(self._work, job_ids)
        self._busy_jobs |= job_ids - ours
        runs = self._work.tables.runs
        run_ids = [row.id for row in waiting if row.job_id in ours]
        query = select(*[runs.c[name] for name in DueRun._fields])
        query = query.where(self._work.dialect.among(runs.c.id, run_ids), *claimable(runs))
        rows = [make(DueRun, row) for row in self._work.connection.execute(query)]
        found = {row.id: row for row in rows}
        return [found[run_id] for run_id in run_ids if run_id in found]

    def _live_runs(self, job_ids: set[str]) -> dict[str, list[str]]:
        runs = self._work.tables.runs
        query = select(runs.c.job_id, runs.c.id)
        query = query.where(self._work.dialect.among(runs.c.job_id, list(job_ids)), runs.c.owner.is_not(None))
        live: dict[str, list[str]] = {}
        for job_id, run_id in self._work.connection.execute(query):
            live.setdefault(job_id, []).append(run_id)
        return live

    def _claim_one(self, row: DueRun, live: Counter[str], ledger: Ledger) -> None:
        try:
            run = self._work.rows.run(row)
        except CodecError as error:
            self._unreadable.append((row.id, str(error)))
            return
        fence = max(row.fence + 1, instant(self._now))
        refusal = self._request.admit(run, Standing(live[run.job.id], 0, fence, ledger), self._now)
        if refusal is not None:
            self._refused.append((row, refusal))
            return
        live[run.job.id] += 1
        self._room[row.executor] -= 1
        self._new.append(claimed(run, self._request.owner, fence))

    def _write(self, limits: Limits) -> None:
        connection, tables, dialect, _ = self._work
        dialect.update_rows(connection, tables.runs, [
            {"id": run.id, "owner": run.owner, "fence": run.fence, "ready": None, "freed": None} for run in self._new
        ])  # fmt: skip
        if self._new:
            dialect.claimed_from(connection, tables.jobs, sorted({run.job.id for run in self._new}))
        for run_id, reason in self._unreadable:
            put_aside(self._work, run_id, reason)
        save_ledger(self._work, limits.ledger)
        ending = self._ending(limits)
        for row, refusal in self._refused:
            if refusal.key is not None and ending[refusal.key] > 0:
                ending[refusal.key] -= 1
                self._refuse(row, Refusal(refusal.key, self._now + SOON))
            else:
                self._refuse(row, refusal)

    def _ending(self, limits: Limits) -> Counter[str]:
        """Return key → how many of the runs under it are just ending. The others do not end until we have written."""
        keys = {refusal.key for _, refusal in self._refused if refusal.key is not None}
        if not keys or not self._work.dialect.skips_locked:
            return Counter()
        under: dict[str, list[str]] = {}
        for key in keys:
            kind, _, name = key.partition(":")
            under[key] = (self._live if kind == "job" else limits.live).get(name, [])
        all_of_them = sorted({run_id for ids in under.values() for run_id in ids})
        staying = lock(self._work, self._work.tables.runs.c.id, all_of_them)
        return Counter({key: sum(run_id not in staying for run_id in ids) for key, ids in under.items()})

    def _refuse(self, row: DueRun, refusal: Refusal) -> None:
        """Hold a run, or put it off. The next one under the key that let it try may try in its stead."""
        runs = self._work.tables.runs
        if refusal.until is not None:
            # Its due time stays, and with that its rank: it gets older.
            changes: dict[str, Any] = {"ready": max(instant(refusal.until), row.due), "freed": None}
        else:
            changes = {"held": refusal.key, "ready": None, "freed": None}
        self._work.connection.execute(update(runs).where(runs.c.id == row.id).values(changes))
        if row.freed is not None and row.freed != refusal.key:
            free_held(self._work, Counter([row.freed]))

    def _pass_turns_on(self) -> None:
        """Let others try in place of those that did not come to it, because their executor has no room here."""
        runs = self._work.tables.runs
        full = [executor for executor, room in self._room.items() if room <= 0]
        waiting = (*let_try(runs), runs.c.owner.is_(None), runs.c.executor.in_(full))
        query = select(runs.c.id, runs.c.freed).where(*waiting)
        rows = take_rows(self._work, query)
        self._work.dialect.update_rows(self._work.connection, runs, [{"id": row.id, "freed": None} for row in rows])
        free_held(self._work, Counter(row.freed for row in rows))


def put_aside(work: Work, run_id: str, reason: str) -> None:
    """Keep a run that cannot be read, where nobody claims it."""
    runs = work.tables.runs
    work.connection.execute(
        update(runs).where(runs.c.id == run_id).values(owner=None, ready=None, freed=None, cancel=quoted(reason))
    )


def is_held(work: Work) -> bool:
    """Tell whether there are runs that are held until others have ended."""
    runs = work.tables.runs
    return work.connection.execute(select(runs.c.id).where(runs.c.held.is_not(None)).limit(1)).first() is not None


def free_held(work: Work, keys: Counter[str]) -> bool:
    """Let as many runs that are held under each key try again as the key is counted; true if there were any.

    One query for all keys tells those under which anything is held: hundreds of ends are written at once, and a query
    for each of their jobs would take longer than a call may on a server that is busy.
    """
    runs = work.tables.runs
    if not keys or not is_held(work):
        return False
    freed = False
    holding = select(runs.c.held).where(work.dialect.among(runs.c.held, list(keys)), runs.c.freed.is_(None)).distinct()
    for key in sorted(work.connection.execute(holding).scalars()):
        ids = _held_longest(work, key, keys[key], runs.c.cancel.is_(None))
        if len(ids) < keys[key]:
            ids += _held_longest(work, key, keys[key] - len(ids), runs.c.cancel.is_not(None))
        if ids:
            change = update(runs).where(work.dialect.among(runs.c.id, ids))
            work.connection.execute(change.values(held=None, freed=key, ready=runs.c.due))
            freed = True
    return freed


def _held_longest(work: Work, key: str, most: int, *which: Any) -> list[str]:
    runs = work.tables.runs
    held = select(runs.c.id).where(runs.c.held == key, runs.c.freed.is_(None), *which).order_by(runs.c.due).limit(most)
    if not work.dialect.locks_neighbours:
        return [row.id for row in take_rows(work, held)]
    return _unlocked_first(work, held, most)


def _unlocked_first(work: Work, query: Select[Any], most: int) -> list[str]:
    """Return the ids of the first rows of a query that nobody else has locked, where it cannot skip them itself."""
    column = work.tables.runs.c.id
    taken: list[str] = []
    passed: set[str] = set()
    while len(taken) < most:
        rest = query.limit(most - len(taken)).where(~work.dialect.among(column, passed)) if passed else query
        ids = list(work.connection.execute(rest).scalars())
        if not ids:
            break
        passed.update(ids)
        locked = lock(work, column, ids)
        there = set(work.connection.execute(query.where(work.dialect.among(column, locked))).scalars())
        taken += [run_id for run_id in ids if run_id in there]
    return taken
