"""Firing in the SQL store: one transaction that locks due jobs, plans them and writes their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import and_, case, func, select, update

from goscheduler.jobstores._shared.decisions import decide
from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Fired, FireRequest, Suspended
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.due_work import MAX_JOBS_PER_TRANSACTION, DueWork, QueueKey, claimable, known_task
from goscheduler.jobstores.sqlalchemy.locking import (
    StoreContext,
    being_claimed,
    lock_limits,
    lock_rows,
    save_ledger,
)
from goscheduler.jobstores.sqlalchemy.rows import DueJob, DueRun, RowCodec, WaitingRun, json_text
from goscheduler.jobstores.sqlalchemy.usage import add_usage
from goscheduler.jobstores.sqlalchemy.waiting import changes_of_refused
from goscheduler.runs.model import unchecked_tuple
from goscheduler.runs.plan import PRIORITY_STEP_US
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.plan import FiringPlan, Refusal


#: Further searches of one transaction, where another process has locked limits of the jobs it found.
MAX_SEARCHES_PER_TRANSACTION = 4

Due = TypeVar("Due", DueJob, DueRun, WaitingRun)


class Decisions:
    """Plans of due jobs, collected for a few statements."""

    def __init__(self, rows: RowCodec, request: FireRequest, now: datetime) -> None:
        self._rows = rows
        self._request = request
        self.now = now
        self.started: list[Run] = []
        self.new_runs: list[Run] = []
        """Started and pending runs."""
        self.definitions: list[str] = []
        """The job text of each of these, as in the job's row."""
        self.refused: list[tuple[Run, str, Refusal]] = []
        """Pending runs that a limit is in the way of, with the job text."""
        self.records: list[Attempt] = []
        self.removed: list[str] = []
        self.finished: list[Job] = []
        self.advanced: list[dict[str, Any]] = []
        self.suspended: list[Suspended] = []
        self.to_cancel_live: list[str] = []

    def decide(self, row: DueJob, live: int, waiting: int, ledger: Ledger) -> None:
        """Plan a job."""
        job = self._rows.due_job(row)
        plan, fence = decide(job, self._request, self.now, live, waiting, row.fence, ledger)
        if plan.suspended is not None:
            self.suspended.append(Suspended(job, plan.suspended))
            return
        self._advance(job, plan, fence)
        self.started += plan.start
        self.new_runs += plan.start
        if plan.wait_for is None:
            self.new_runs += plan.wait
        else:
            self.refused += [(run, row.definition, plan.wait_for) for run in plan.wait]
        self.definitions += [row.definition] * (len(self.new_runs) - len(self.definitions))
        self.records += plan.records
        if plan.cancel_live:
            self.to_cancel_live.append(job.id)

    def _advance(self, job: Job, plan: FiringPlan, fence: int) -> None:
        following = plan.next_run_time
        if following is None and not plan.keep:
            self.removed.append(job.id)
            self.finished.append(job)
            job.next_run_time = None
            return
        time = None if following is None else to_micros(following)
        self.advanced.append({
            "id": job.id, "due": time, "next_run": time, "fence": fence,
            "zone": "Z" if following is None else zone_text(following),
            "finished": to_micros(self.now) if following is None and not plan.waits else None,
        })  # fmt: skip
        job.next_run_time = following

    def fired(self) -> Fired:
        """Return the answer of ``fire_due``."""
        return Fired(self.started, self.records, self.finished, self.suspended)


class Firing:
    """One transaction of ``fire_due``."""

    def __init__(self, context: StoreContext, request: FireRequest, due_work: DueWork) -> None:
        self._context = context
        self._request = request
        self._due_work = due_work
        self._decisions = Decisions(context.rows, request, due_work.now)
        self.left = False
        """Whether another process has locked due work, so that the next round comes soon."""

    def start(self) -> Fired:
        """Fire due jobs."""
        rows, ledger = self._take()
        if rows:
            concurrency = self._count_runs([row.id for row in rows])
            rows = self._without_jobs_being_claimed(rows, concurrency)
            rows.reverse()
            while rows:  # dropped one by one, to spare the garbage collector
                row = rows.pop()
                live, waiting, _ = concurrency.get(row.id, (0, 0, 0))
                self._decisions.decide(row, live, waiting, ledger)
            self._write(ledger)
        return self._decisions.fired()

    def _take(self) -> tuple[list[DueJob], Ledger]:
        """Lock due jobs and their limits. Jobs that another process has locked wait for a later round."""
        queues = self._due_work.due(self._due_work.job_queues)
        jobs = self._context.tables.jobs
        busy: set[str] = set()
        for _ in range(MAX_SEARCHES_PER_TRANSACTION):
            which = [jobs.c.limits.not_in(sorted(busy))] if busy else []
            rows = due_rows(self._context, jobs.c.due, DueJob, queues, self._request, self._due_work.now, *which)
            limits = lock_limits(self._context, [row.limits for row in rows])
            self.left = self.left or not rows or bool(limits.busy)
            if not limits.busy:
                break
            busy.update(limits.busy)
        return [row for row in rows if row.limits not in limits.busy], limits.ledger

    def _count_runs(self, job_ids: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Return job id → (live runs, fire times that wait, runs that can be claimed), of the jobs that have any."""
        runs = self._context.tables.runs
        live = func.sum(case((runs.c.owner.is_(None), 0), else_=1))
        waiting = func.sum(case((runs.c.owner.is_(None), runs.c.firing), else_=0))
        ready = func.sum(case((and_(*claimable(runs)), 1), else_=0))
        of_these = self._context.dialect.column_in(runs.c.job_id, job_ids)
        query = select(runs.c.job_id, live, waiting, ready).where(of_these).group_by(runs.c.job_id)
        found = self._context.connection.execute(query)
        return {job_id: (int(live), int(waiting), int(ready)) for job_id, live, waiting, ready in found}

    def _without_jobs_being_claimed(
        self, rows: list[DueJob], concurrency: dict[str, tuple[int, int, int]]
    ) -> list[DueJob]:
        """Leave out jobs of which another process claims a run, and count the runs of the others again."""
        if not self._context.dialect.skips_locked:
            return rows
        job_ids = [job_id for job_id, (_, _, ready) in concurrency.items() if ready]
        if not job_ids:
            return rows
        others = being_claimed(self._context, job_ids)
        self.left = self.left or bool(others)
        for job_id in job_ids:
            del concurrency[job_id]
        concurrency.update(self._count_runs(job_ids))
        return [row for row in rows if row.id not in others]

    def _write(self, ledger: Ledger) -> None:
        connection, tables, dialect, rows = self._context
        decided = self._decisions
        if decided.to_cancel_live:
            self._cancel_live(decided.to_cancel_live)
        new_runs = columns_of(map(rows.run_row, decided.new_runs, decided.definitions))
        dialect.insert_rows(connection, tables.runs, new_runs)
        add_usage(self._context, decided.started)
        if decided.removed:
            dialect.delete_rows(connection, tables.jobs.c.id, decided.removed)
        dialect.update_rows(connection, tables.jobs, decided.advanced)
        history = rows.history_columns(decided.records)
        dialect.insert_rows(connection, tables.history, history, once=True)
        dialect.update_rows(connection, tables.jobs, [
            {"id": job.id, "suspended": json_text(reason), "is_suspended": 1, "due": None}
            for job, reason in decided.suspended
        ])  # fmt: skip
        save_ledger(self._context, ledger)
        self._write_refused(ledger)

    def _write_refused(self, ledger: Ledger) -> None:
        """Write the pending runs that a limit is in the way of; last, because that locks live runs."""
        decided, rows = self._decisions, self._context.rows
        refused = ((run.id, to_micros(run.due_at), refusal) for run, _, refusal in decided.refused)
        changes = changes_of_refused(self._context, refused, decided.now, ledger, {})
        new_runs = columns_of(
            rows.run_row(run, definition)._replace(held=change["held"], ready=change["ready"])
            for (run, definition, _), change in zip(decided.refused, changes, strict=True)
        )
        self._context.dialect.insert_rows(self._context.connection, self._context.tables.runs, new_runs)

    def _cancel_live(self, job_ids: Sequence[str]) -> None:
        runs = self._context.tables.runs
        # A process that ends one of them may wait for the rows of our jobs, so this transaction skips locked runs.
        query = select(runs.c.id).where(self._context.dialect.column_in(runs.c.job_id, job_ids))
        ids = [row.id for row in lock_rows(self._context, query)]
        these = self._context.dialect.column_in(runs.c.id, ids)
        request_cancel(self._context, these, "a newer run of its job takes its place")


def due_rows(
    context: StoreContext,
    time: Any,
    kind: type[Due],
    queues: Sequence[QueueKey],
    request: FireRequest,
    now: datetime,
    *which: Any,
) -> list[Due]:
    """Return rows that are due by a column, the lowest rank first, no more than there is room for.

    Jobs are locked. Pending runs are not, because the process that locks their job locks them.
    """
    table = time.table
    found: dict[str, list[Due]] = {}
    for executor, priority in queues:
        room = min(request.room[executor], MAX_JOBS_PER_TRANSACTION)
        if room > 0:
            query = (
                select(*[table.c[name] for name in kind._fields])
                .where(table.c.executor == executor, table.c.priority == priority, time <= to_micros(now))
                .where(known_task(table, request.tasks), *which)
                .order_by(time)
                .limit(room)
            )
            rows = _fetch_due(context, query, table is context.tables.jobs)
            found.setdefault(executor, []).extend(map(partial(unchecked_tuple, kind), rows))
    most = {executor: min(room, MAX_JOBS_PER_TRANSACTION) for executor, room in request.room.items()}
    if len(queues) > 1:
        found = {executor: sorted(rows, key=rank) for executor, rows in found.items()}
    return [row for executor, rows in found.items() for row in rows[: most[executor]]]


def _fetch_due(context: StoreContext, query: Any, locking: bool) -> Iterable[Sequence[Any]]:
    if not context.dialect.skips_locked:
        return context.dialect.fetch(context.connection, query)
    if locking:
        return context.dialect.fetch(context.connection, query.with_for_update(skip_locked=True))
    # Put together into one text, a query that does not lock has crashed MariaDB 10.11.
    return context.connection.execute(query).all()


def rank(row: Sequence[Any]) -> tuple[int, int]:
    """Return the rank of a row among those of its executor: the lowest goes first."""
    _, priority, due, *_ = row
    return due + priority * PRIORITY_STEP_US, due


def request_cancel(context: StoreContext, which: Any, reason: str, keep_existing_reason: bool = True) -> None:
    """Request the cancellation of live runs; ``keep_existing_reason`` keeps the reason of an earlier request."""
    runs = context.tables.runs
    live = update(runs).where(which, runs.c.owner.is_not(None))
    if keep_existing_reason:
        live = live.where(runs.c.cancel.is_(None))
    context.connection.execute(live.values(cancel=json_text(reason)))
