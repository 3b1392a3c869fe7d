"""Claiming in the SQL store: a due pending run becomes ours, waits for another run to end, or is put off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import admit
from goscheduler.jobstores.base import Claimed, FireRequest
from goscheduler.jobstores.sqlalchemy.due_work import DueWork, claimable, unblocked
from goscheduler.jobstores.sqlalchemy.firing import due_rows
from goscheduler.jobstores.sqlalchemy.locking import (
    Limits,
    StoreContext,
    lock_jobs,
    lock_limits,
    lock_rows,
    save_ledger,
)
from goscheduler.jobstores.sqlalchemy.rows import DueRun, WaitingRun, json_text
from goscheduler.jobstores.sqlalchemy.usage import add_usage, remove_usage
from goscheduler.jobstores.sqlalchemy.waiting import changes_of_refused, unblock_next
from goscheduler.runs.model import unchecked_tuple
from goscheduler.runs.plan import Refusal
from goscheduler.runs.transitions import claimed

if TYPE_CHECKING:
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Run

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
        # Limits first: runs that are locked in vain would be missed by the process that has locked their limits.
        limits = lock_limits(self._context, [row.limits for row in waiting])
        self._busy_limits.update(limits.busy)
        rows = self._taken([row for row in waiting if row.limits not in self._busy_limits])
        self._new, self._refused, self._unreadable = [], [], []
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
        if not self._context.dialect.skips_locked or not waiting:
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
        return [found[row.id] for row in waiting if row.id in found and found[row.id].limits == row.limits]

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
        add_usage(self._context, self._new)
        save_ledger(self._context, limits.ledger)
        self._write_refusals(limits.ledger)

    def _write_refusals(self, ledger: Ledger) -> None:
        """Hold the refused runs, or put them off. The next run under the key that let one try may try in its stead."""
        refused = ((row.id, row.due, refusal) for row, refusal in self._refused)
        freed = {row.id: row.freed for row, _ in self._refused}
        changes = changes_of_refused(self._context, refused, self._now, ledger, self._live, freed)
        self._context.dialect.update_rows(self._context.connection, self._context.tables.runs, changes)
        held = {change["id"]: change["held"] for change in changes}
        turns = Counter(row.freed for row, _ in self._refused if row.freed is not None and row.freed != held[row.id])
        unblock_next(self._context, turns)

    def _unblock_instead(self) -> None:
        """Unblock other runs instead of those whose executor has no room here."""
        runs = self._context.tables.runs
        full = [executor for executor, room in self._room.items() if room <= 0]
        if not full:
            return
        waiting = (*unblocked(runs), runs.c.owner.is_(None), runs.c.executor.in_(full))
        query = select(runs.c.id, runs.c.freed).where(*waiting)
        rows = lock_rows(self._context, query)
        changes = [{"id": row.id, "freed": None} for row in rows]
        self._context.dialect.update_rows(self._context.connection, runs, changes)
        unblock_next(self._context, Counter(row.freed for row in rows))


def keep_unreadable(context: StoreContext, run_id: str, reason: str) -> None:
    """Keep a run that cannot be read, so that no process claims it."""
    runs = context.tables.runs
    remove_usage(context, [run_id])
    context.connection.execute(
        update(runs).where(runs.c.id == run_id).values(owner=None, ready=None, freed=None, cancel=json_text(reason))
    )
