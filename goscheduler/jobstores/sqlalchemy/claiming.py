"""Claiming in the SQL store: a due pending run becomes ours, waits for another run to end, or is put off.

A run waits because others are live. The end of a run unblocks one waiting run, and would miss a run whose wait is not
committed yet. So a claim locks the rows of the live runs before it writes that a run waits. If such a row is locked
already, its run is just ending, and one run tries again in a moment instead of waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, text, update

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import admit
from goscheduler.jobstores.base import Claimed, FireRequest
from goscheduler.jobstores.sqlalchemy.bulk import table_name
from goscheduler.jobstores.sqlalchemy.due_work import DueWork, claimable, unblocked
from goscheduler.jobstores.sqlalchemy.firing import due_rows
from goscheduler.jobstores.sqlalchemy.locking import (
    Limits,
    StoreContext,
    lock,
    lock_jobs,
    lock_limits,
    lock_rows,
    save_ledger,
)
from goscheduler.jobstores.sqlalchemy.rows import DueRun, WaitingRun, json_text
from goscheduler.runs.model import unchecked_tuple
from goscheduler.runs.plan import Refusal
from goscheduler.runs.transitions import claimed
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Run

#: The pause before another try for rows that other processes have locked.
RETRY_LOCKED_AFTER = timedelta(milliseconds=50)
#: Keys in one search for waiting runs.
MAX_KEYS_PER_STATEMENT = 50
#: Further searches of one transaction, where runs that it found have to wait.
MAX_SEARCHES_PER_TRANSACTION = 4
#: Each search reads so many times more runs than the last. Runs that have to wait take no room.
SEARCH_GROWTH = 4


class Claiming:
    """One transaction of ``claim_runs``."""

    def __init__(self, context: StoreContext, request: FireRequest, due_work: DueWork) -> None:
        self._context = context
        self._request = request
        self._due_work = due_work
        self._now = due_work.now
        self._room = dict(request.room)
        self._claimed: list[Run] = []
        self._new: list[Run] = []
        self._refused: list[tuple[DueRun, Refusal]] = []
        self._unreadable: list[tuple[str, str]] = []
        self._live: dict[str, list[str]] = {}
        """Job id → ids of its runs that were live."""
        self._busy_jobs: set[str] = set()
        self._busy_limits: set[str] = set()
        """Ids of jobs and ``limits`` columns that another process has locked."""
        self._is_cut_short = False

    @property
    def left(self) -> bool:
        """Whether due work is left that another process has locked, or that the last search did not reach."""
        return bool(self._busy_jobs or self._busy_limits or self._is_cut_short)

    def start(self) -> Claimed:
        """Claim due pending runs. A refused run leaves its room to another.

        A long queue of runs that have to wait is left to further transactions: one that does not end in time has
        written nothing, and the next one would begin with the same runs.
        """
        self._is_cut_short = all(self._claim_some(SEARCH_GROWTH**look) for look in range(MAX_SEARCHES_PER_TRANSACTION))
        if self._due_work.unblocked:
            self._unblock_instead()
        return Claimed(self._claimed)

    def _claim_some(self, times: int) -> bool:
        """Claim as much as there is room for; true if there may be room left, because some were refused or left.

        So many ``times`` more runs are looked at than there is room for.
        """
        waiting = self._waiting(times)
        if not waiting:
            return False
        busy_before = len(self._busy_jobs) + len(self._busy_limits)
        rows = self._taken(waiting)
        self._new, self._refused, self._unreadable = [], [], []
        limits = lock_limits(self._context, [row.limits for row in rows])
        self._busy_limits.update(limits.busy)
        rows = [row for row in rows if row.limits not in self._busy_limits]
        self._live = self._live_runs({row.job_id for row in rows})
        live = Counter({job_id: len(ids) for job_id, ids in self._live.items()})
        for row in rows:
            if self._room[row.executor] > 0:
                self._claim_one(row, live, limits.ledger)
        self._write(limits)
        self._claimed += self._new
        left = len(self._busy_jobs) + len(self._busy_limits) > busy_before
        return left or bool(self._refused or self._unreadable)

    def _waiting(self, times: int) -> Sequence[WaitingRun | DueRun]:
        """Return due runs without those that another process has locked."""
        runs, queues = self._context.tables.runs, self._due_work.due(self._due_work.run_queues)
        which = [*claimable(runs)]
        if self._busy_jobs:
            which.append(~self._context.dialect.column_in(runs.c.job_id, sorted(self._busy_jobs)))
        if self._busy_limits:
            which.append(runs.c.limits.not_in(sorted(self._busy_limits)))
        request = self._request._replace(room={executor: room * times for executor, room in self._room.items()})
        if self._context.dialect.skips_locked:
            return due_rows(self._context, runs.c.ready, WaitingRun, queues, request, self._now, *which)
        return due_rows(self._context, runs.c.ready, DueRun, queues, request, self._now, *which)

    def _taken(self, waiting: Sequence[Any]) -> list[DueRun]:
        """Lock the runs and their jobs; return, in the same order, the runs that no other process starts."""
        if not self._context.dialect.skips_locked:
            return list(waiting)
        job_ids = {row.job_id for row in waiting}
        ours = lock_jobs(self._context, job_ids)
        self._busy_jobs |= job_ids - ours
        runs = self._context.tables.runs
        run_ids = [row.id for row in waiting if row.job_id in ours]
        query = select(*[runs.c[name] for name in DueRun._fields])
        query = query.where(self._context.dialect.column_in(runs.c.id, run_ids), *claimable(runs))
        rows = [unchecked_tuple(DueRun, row) for row in self._context.connection.execute(query)]
        found = {row.id: row for row in rows}
        return [found[run_id] for run_id in run_ids if run_id in found]

    def _live_runs(self, job_ids: set[str]) -> dict[str, list[str]]:
        runs = self._context.tables.runs
        query = select(runs.c.job_id, runs.c.id)
        query = query.where(self._context.dialect.column_in(runs.c.job_id, list(job_ids)), runs.c.owner.is_not(None))
        live: dict[str, list[str]] = {}
        for job_id, run_id in self._context.connection.execute(query):
            live.setdefault(job_id, []).append(run_id)
        return live

    def _claim_one(self, row: DueRun, live: Counter[str], ledger: Ledger) -> None:
        try:
            run = self._context.rows.run(row)
        except CodecError as error:
            self._unreadable.append((row.id, str(error)))
            return
        refusal, fence = admit(run, self._request, self._now, live[run.job.id], row.fence, ledger)
        if refusal is not None:
            self._refused.append((row, refusal))
            return
        live[run.job.id] += 1
        self._room[row.executor] -= 1
        self._new.append(claimed(run, self._request.owner, fence))

    def _write(self, limits: Limits) -> None:
        connection, tables, dialect, _ = self._context
        dialect.update_rows(connection, tables.runs, [
            {"id": run.id, "owner": run.owner, "fence": run.fence, "ready": None, "freed": None} for run in self._new
        ])  # fmt: skip
        for run_id, reason in self._unreadable:
            keep_unreadable(self._context, run_id, reason)
        save_ledger(self._context, limits.ledger)
        self._write_refusals(self._ending(limits))

    def _ending(self, limits: Limits) -> Counter[str]:
        """Return key → number of its live runs that are just ending. The others end after this transaction."""
        keys = {refusal.key for _, refusal in self._refused if refusal.key is not None}
        if not keys or not self._context.dialect.skips_locked:
            return Counter()
        under: dict[str, list[str]] = {}
        for key in keys:
            kind, _, name = key.partition(":")
            under[key] = (self._live if kind == "job" else limits.live).get(name, [])
        all_of_them = sorted({run_id for ids in under.values() for run_id in ids})
        staying = lock(self._context, self._context.tables.runs.c.id, all_of_them)
        return Counter({key: sum(run_id not in staying for run_id in ids) for key, ids in under.items()})

    def _write_refusals(self, ending: Counter[str]) -> None:
        """Hold the refused runs, or put them off. The next run under the key that let one try may try in its stead."""
        changes: list[dict[str, Any]] = []
        turns: Counter[str] = Counter()
        for row, refusal in self._refused:
            held, until = refusal.key, refusal.until
            if until is None and held is not None and ending[held] > 0:
                ending[held] -= 1
                until = self._now + RETRY_LOCKED_AFTER
            if until is not None:
                # Its due time stays, and with that its rank: it gets older.
                changes.append({"id": row.id, "held": None, "ready": max(to_micros(until), row.due), "freed": None})
            else:
                changes.append({"id": row.id, "held": held, "ready": None, "freed": None})
            if row.freed is not None and row.freed != held:
                turns[row.freed] += 1
        self._context.dialect.update_rows(self._context.connection, self._context.tables.runs, changes)
        unblock_next(self._context, turns)

    def _unblock_instead(self) -> None:
        """Unblock other runs instead of those whose executor has no room here."""
        runs = self._context.tables.runs
        full = [executor for executor, room in self._room.items() if room <= 0]
        waiting = (*unblocked(runs), runs.c.owner.is_(None), runs.c.executor.in_(full))
        query = select(runs.c.id, runs.c.freed).where(*waiting)
        rows = lock_rows(self._context, query)
        changes = [{"id": row.id, "freed": None} for row in rows]
        self._context.dialect.update_rows(self._context.connection, runs, changes)
        unblock_next(self._context, Counter(row.freed for row in rows))


def keep_unreadable(context: StoreContext, run_id: str, reason: str) -> None:
    """Keep a run that cannot be read, so that no process claims it."""
    runs = context.tables.runs
    context.connection.execute(
        update(runs).where(runs.c.id == run_id).values(owner=None, ready=None, freed=None, cancel=json_text(reason))
    )


def has_blocked_runs(context: StoreContext) -> bool:
    """Tell whether runs wait for other runs to end."""
    runs = context.tables.runs
    return context.connection.execute(select(runs.c.id).where(runs.c.held.is_not(None)).limit(1)).first() is not None


def unblock_next(context: StoreContext, keys: Counter[str]) -> bool:
    """Unblock as many waiting runs under each key as its count; true if there were any.

    It takes a few statements for any number of keys: the rows of jobs are locked meanwhile.
    """
    if not keys or not has_blocked_runs(context):
        return False
    rows = _lock_blocked_longest(context, keys, "cancel IS NULL")
    rows += _lock_blocked_longest(context, keys - Counter(row.held for row in rows), "cancel IS NOT NULL")
    context.dialect.update_rows(context.connection, context.tables.runs, [
        {"id": row.id, "held": None, "freed": row.held, "ready": row.due} for row in rows
    ])  # fmt: skip
    return bool(rows)


def _lock_blocked_longest(context: StoreContext, keys: Counter[str], condition: str) -> list[Any]:
    """Lock the runs that have been held longest under each key, as many as it is counted, and return their rows."""
    runs = context.tables.runs
    taken: list[Any] = []
    passed: set[str] = set()
    wanted = +keys
    while wanted:
        found = _first_blocked(context, wanted, condition, passed)
        ids = [run_id for key in wanted for run_id in found[key]]
        passed.update(ids)
        query = select(runs.c.id, runs.c.held, runs.c.due).where(context.dialect.column_in(runs.c.id, ids))
        left = Counter(wanted)
        for row in lock_rows(context, query.where(runs.c.held.is_not(None), runs.c.freed.is_(None))) if ids else ():
            if left[row.held] > 0:  # it may be held under another key by now
                left[row.held] -= 1
                taken.append(row)
        # Others have locked the rest of those that were found. Where fewer were found than wanted there are no more.
        wanted = Counter({key: left[key] for key, count in wanted.items() if left[key] and len(found[key]) == count})
    return taken


def _first_blocked(
    context: StoreContext, wanted: Counter[str], condition: str, passed: Collection[str]
) -> dict[str, list[str]]:
    """Return key → ids of the runs that have been held longest under it, without those that were ``passed``."""
    table = table_name(context.connection, context.tables.runs)
    found: dict[str, list[str]] = {key: [] for key in wanted}
    keys = sorted(wanted)
    for begin in range(0, len(keys), MAX_KEYS_PER_STATEMENT):
        portion = keys[begin : begin + MAX_KEYS_PER_STATEMENT]
        query = " UNION ALL ".join(
            f"SELECT * FROM (SELECT id, held FROM {table} WHERE held = :key_{number} AND freed IS NULL AND {condition}"
            f" ORDER BY due LIMIT {wanted[key] + len(passed)}) AS held_{number}"
            for number, key in enumerate(portion)
        )
        for run_id, key in context.connection.execute(text(query), {f"key_{n}": key for n, key in enumerate(portion)}):
            if run_id not in passed and len(found[key]) < wanted[key]:
                found[key].append(run_id)
    return found
