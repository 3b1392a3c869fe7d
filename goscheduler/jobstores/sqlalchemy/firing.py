"""Firing in the SQL store: one transaction, in which the rows at hand belong to us."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import and_, case, func, select, update

from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Fired, FireRequest, Suspended
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.due_work import AT_ONCE, QueueKey, Seen, claimable, known_task
from goscheduler.jobstores.sqlalchemy.holds import Work, being_claimed, load_limits, save_ledger, take_rows
from goscheduler.jobstores.sqlalchemy.rows import DueJob, DueRun, Rows, WaitingRun, quoted
from goscheduler.runs.model import unchecked_tuple
from goscheduler.runs.plan import PRIORITY_STEP_US, ConcurrencyState
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.limits import Ledger
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.plan import FiringPlan


#: How often one transaction looks for further jobs, because of those it found some share limits with other processes.
MOST_LOOKS = 4

Due = TypeVar("Due", DueJob, DueRun, WaitingRun)


class Decisions:
    """What the plan of a request says about due jobs, as rows."""

    def __init__(self, rows: Rows, request: FireRequest, now: datetime) -> None:
        self._rows = rows
        self._request = request
        self.now = now
        self._stamp = to_micros(now)
        self.started: list[Run] = []
        self.begun: list[Run] = []
        """Those that are started, and those that stay pending."""
        self.definitions: list[str] = []
        """What defines the job of each of these, as it stands in the job's row."""
        self.records: list[Attempt] = []
        self.gone: list[str] = []
        self.finished: list[Job] = []
        self.moved: list[dict[str, Any]] = []
        self.suspended: list[Suspended] = []
        self.displaced: list[str] = []

    def decide(self, row: DueJob, live: int, waiting: int, ledger: Ledger) -> None:
        """Take in what is to become of a job."""
        job = self._rows.due_job(row)
        if job.suspended is not None:
            self.suspended.append(Suspended(job, job.suspended))
            return
        fence = max(row.fence + 1, self._stamp)
        plan = self._request.plan(job, unchecked_tuple(ConcurrencyState, (live, waiting, fence, ledger)), self.now)
        if plan.suspended is not None:
            self.suspended.append(Suspended(job, plan.suspended))
            return
        self._advance(job, plan, fence)
        self.started += plan.start
        self.begun += plan.start
        self.begun += plan.wait
        self.definitions += [row.definition] * (len(plan.start) + len(plan.wait))
        self.records += plan.records
        if plan.cancel_live:
            self.displaced.append(job.id)

    def _advance(self, job: Job, plan: FiringPlan, fence: int) -> None:
        following = plan.next_run_time
        if following is None and not plan.keep:
            self.gone.append(job.id)
            self.finished.append(job)
            job.next_run_time = None
            return
        time = None if following is None else to_micros(following)
        self.moved.append({
            "id": job.id, "due": time, "next_run": time, "fence": fence,
            "zone": "Z" if following is None else zone_text(following),
            "finished": to_micros(self.now) if following is None else None,
        })  # fmt: skip
        job.next_run_time = following

    def fired(self) -> Fired:
        """Return what a store answers."""
        return Fired(self.started, self.records, self.finished, self.suspended)


class Firing:
    """One transaction of ``fire_due``."""

    def __init__(self, work: Work, request: FireRequest, seen: Seen) -> None:
        self._work = work
        self._request = request
        self._seen = seen
        self._decisions = Decisions(work.rows, request, seen.now)
        self.left = False
        """Whether something is due that others have hold of, and that will soon be free."""

    def start(self) -> Fired:
        """Fire what is due, and write all of it."""
        rows, ledger = self._take()
        if rows:
            concurrency = self._standings([row.id for row in rows])
            rows = self._undisturbed(rows, concurrency)
            rows.reverse()
            while rows:  # each is let go of at once, or the garbage collector would look at all of them again and again
                row = rows.pop()
                live, waiting, _ = concurrency.get(row.id, (0, 0, 0))
                self._decisions.decide(row, live, waiting, ledger)
            self._write(ledger)
        return self._decisions.fired()

    def _take(self) -> tuple[list[DueJob], Ledger]:
        """Return due jobs that are ours for now, as are their limits. What others have hold of is left for later."""
        lanes = self._seen.due(self._seen.job_lanes)
        jobs = self._work.tables.jobs
        busy: set[str] = set()
        for _ in range(MOST_LOOKS):
            which = [jobs.c.limits.not_in(sorted(busy))] if busy else []
            rows = due_rows(self._work, jobs.c.due, DueJob, lanes, self._request, self._seen.now, *which)
            limits = load_limits(self._work, [row.limits for row in rows])
            self.left = self.left or not rows or bool(limits.busy)
            if not limits.busy:
                break
            busy.update(limits.busy)
        return [row for row in rows if row.limits not in limits.busy], limits.ledger

    def _standings(self, job_ids: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Return job id → (live runs, fire times that wait, runs that can be claimed), of the jobs that have any."""
        runs = self._work.tables.runs
        live = func.sum(case((runs.c.owner.is_(None), 0), else_=1))
        waiting = func.sum(case((runs.c.owner.is_(None), runs.c.firing), else_=0))
        ready = func.sum(case((and_(*claimable(runs)), 1), else_=0))
        of_these = self._work.dialect.among(runs.c.job_id, job_ids)
        query = select(runs.c.job_id, live, waiting, ready).where(of_these).group_by(runs.c.job_id)
        found = self._work.connection.execute(query)
        return {job_id: (int(live), int(waiting), int(ready)) for job_id, live, waiting, ready in found}

    def _undisturbed(self, rows: list[DueJob], concurrency: dict[str, tuple[int, int, int]]) -> list[DueJob]:
        """Return the jobs of which nobody else starts a run, and count anew those of which somebody could have."""
        if not self._work.dialect.skips_locked:
            return rows
        job_ids = [job_id for job_id, (_, _, ready) in concurrency.items() if ready]
        if not job_ids:
            return rows
        others = being_claimed(self._work, job_ids)
        self.left = self.left or bool(others)
        for job_id in job_ids:
            del concurrency[job_id]
        concurrency.update(self._standings(job_ids))
        return [row for row in rows if row.id not in others]

    def _write(self, ledger: Ledger) -> None:
        connection, tables, dialect, rows = self._work
        decided = self._decisions
        if decided.displaced:
            self._displace(decided.displaced)
        dialect.insert_rows(connection, tables.runs, columns_of(map(rows.run_row, decided.begun, decided.definitions)))
        if decided.gone:
            dialect.delete_rows(connection, tables.jobs.c.id, decided.gone)
        dialect.update_rows(connection, tables.jobs, decided.moved)
        history = rows.history_columns(decided.records)
        dialect.insert_rows(connection, tables.history, history, once=True)
        dialect.update_rows(connection, tables.jobs, [
            {"id": job.id, "suspended": quoted(reason), "due": None} for job, reason in decided.suspended
        ])  # fmt: skip
        save_ledger(self._work, ledger)

    def _displace(self, job_ids: Sequence[str]) -> None:
        runs = self._work.tables.runs
        # Who is ending one of them at this moment may be waiting for the rows of our jobs, so it is not waited for.
        query = select(runs.c.id).where(self._work.dialect.among(runs.c.job_id, job_ids))
        ids = [row.id for row in take_rows(self._work, query)]
        request_cancel(self._work, self._work.dialect.among(runs.c.id, ids), "a newer run of its job takes its place")


def due_rows(
    work: Work,
    time: Any,
    kind: type[Due],
    lanes: Sequence[QueueKey],
    request: FireRequest,
    now: datetime,
    *which: Any,
) -> list[Due]:
    """Return rows that are due by a column, the lowest rank first, no more than there is room for.

    Jobs are locked. Runs that wait are not, or who has hold of the job of one would find others in the way.
    """
    table = time.table
    found: dict[str, list[Due]] = {}
    for executor, priority in lanes:
        room = min(request.room[executor], AT_ONCE)
        if room > 0:
            query = (
                select(*[table.c[name] for name in kind._fields])
                .where(table.c.executor == executor, table.c.priority == priority, time <= to_micros(now))
                .where(known_task(table, request.tasks), *which)
                .order_by(time)
                .limit(room)
            )
            rows = _fetched(work, query, table is work.tables.jobs)
            found.setdefault(executor, []).extend(map(partial(unchecked_tuple, kind), rows))
    most = {executor: min(room, AT_ONCE) for executor, room in request.room.items()}
    if len(lanes) > 1:
        found = {executor: sorted(rows, key=rank) for executor, rows in found.items()}
    return [row for executor, rows in found.items() for row in rows[: most[executor]]]


def _fetched(work: Work, query: Any, locking: bool) -> Iterable[Sequence[Any]]:
    if not work.dialect.skips_locked:
        return work.dialect.fetch(work.connection, query)
    if locking:
        return work.dialect.fetch(work.connection, query.with_for_update(skip_locked=True))
    # Put together into one text, a query that does not lock has crashed MariaDB 10.11.
    return work.connection.execute(query).all()


def rank(row: Sequence[Any]) -> tuple[int, int]:
    """Return where a row stands among those of its executor: the lowest goes first."""
    _, priority, due, *_ = row
    return due + priority * PRIORITY_STEP_US, due


def request_cancel(work: Work, which: Any, reason: str, keep_existing_reason: bool = True) -> None:
    """Have the owners of live runs told to end them. An earlier reason stays if this one ``keep_existing_reason``."""
    runs = work.tables.runs
    live = update(runs).where(which, runs.c.owner.is_not(None))
    if keep_existing_reason:
        live = live.where(runs.c.cancel.is_(None))
    work.connection.execute(live.values(cancel=quoted(reason)))
