"""Firing and claiming in the SQL store: each is one transaction, in which the rows at hand belong to us."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import case, delete, func, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from goscheduler.codec import CodecError
from goscheduler.jobstores._records import zone_text
from goscheduler.jobstores._sql_batches import Columns
from goscheduler.jobstores._sql_dialects import Dialect
from goscheduler.jobstores._sql_looking import AT_ONCE, Lane, Seen, claimable, known_task, let_try
from goscheduler.jobstores._sql_rows import DueJob, DueRun, Rows, limit_names, quoted
from goscheduler.jobstores._sql_tables import Tables
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Suspended
from goscheduler.runs.limits import Ledger
from goscheduler.runs.model import make
from goscheduler.runs.plan import AGEING, Standing, rank_of
from goscheduler.runs.transitions import claimed
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.plan import FiringPlan, Refusal


Due = TypeVar("Due", DueJob, DueRun)


class Work(NamedTuple):
    """What the steps below work with."""

    connection: Connection
    tables: Tables
    dialect: Dialect
    rows: Rows


class Decisions:
    """What the plan of a request says about due jobs, as rows."""

    def __init__(self, rows: Rows, request: FireRequest, now: datetime) -> None:
        self._rows = rows
        self._request = request
        self.now = now
        self._stamp = instant(now)
        self.started: list[Run] = []
        self.begun: list[Run] = []
        """Those that are started, and those that stay pending."""
        self._definitions: set[str] = set()
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
        plan = self._request.plan(job, make(Standing, (live, waiting, fence, ledger)), self.now)
        if plan.suspended is not None:
            self.suspended.append(Suspended(job, plan.suspended))
            return
        self._definitions.add(row.definition)
        self._advance(job, plan, fence)
        self.started += plan.start
        self.begun += plan.start
        self.begun += plan.wait
        self.records += plan.records
        if plan.displace:
            self.displaced.append(job.id)

    def _advance(self, job: Job, plan: FiringPlan, fence: int) -> None:
        following = plan.next_run_time
        if following is None and not plan.keep:
            self.gone.append(job.id)
            self.finished.append(job)
            job.next_run_time = None
            return
        time = None if following is None else instant(following)
        self.moved.append({
            "id": job.id, "due": time, "next_run": time, "fence": fence,
            "zone": "Z" if following is None else zone_text(following.tzinfo),
            "finished": instant(self.now) if following is None else None,
        })  # fmt: skip
        job.next_run_time = following

    def is_plain(self) -> bool:
        """Tell whether every job starts runs, and moves on or is gone, and nothing else happens."""
        return (
            0 < len(self.begun) == len(self.started)
            and not (self.records or self.suspended or self.displaced)
            and all(change["due"] is not None for change in self.moved)
        )

    @property
    def definition(self) -> str | None:
        """What defines each of the jobs, if they differ in nothing but their ids."""
        return next(iter(self._definitions)) if len(self._definitions) == 1 else None

    def run_columns(self) -> Columns:
        """Return the runs that are to be added, as :meth:`Rows.fired_columns` gives them."""
        return self._rows.fired_columns(self.begun)

    def fired(self) -> Fired:
        """Return what a store answers."""
        return Fired(self.started, self.records, self.finished, self.suspended)

    def fired_of(self, job_ids: Collection[str]) -> Fired:
        """Return what a store answers that has written this about these jobs only; it is plain."""
        started = [run for run in self.started if run.job.id in job_ids]
        return Fired(started, finished=[job for job in self.finished if job.id in job_ids])


class Firing:
    """One transaction of ``fire_due``."""

    def __init__(self, work: Work, request: FireRequest, seen: Seen) -> None:
        self._work = work
        self._request = request
        self._seen = seen
        self._decisions = Decisions(work.rows, request, seen.now)

    def fire(self) -> Fired:
        """Fire what is due, and write all of it."""
        lanes = self._seen.due(self._seen.job_lanes)
        due = self._work.tables.jobs.c.due
        rows = _due_rows(self._work, due, DueJob, lanes, self._request, self._seen.now)
        if rows:
            ledger = load_ledger(self._work, _limits_of(rows))
            standing = self._standings([row.id for row in rows])
            rows.reverse()
            while rows:  # each is let go of at once, or the garbage collector would look at all of them again and again
                row = rows.pop()
                self._decisions.decide(row, *standing.get(row.id, (0, 0)), ledger)
            self._write(ledger)
        return self._decisions.fired()

    def _standings(self, job_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return job id → (live runs, fire times that wait), of the jobs that have any runs."""
        runs = self._work.tables.runs
        live = func.sum(case((runs.c.owner.is_(None), 0), else_=1))
        waiting = func.sum(case((runs.c.owner.is_(None), runs.c.firing), else_=0))
        of_these = self._work.dialect.among(runs.c.job_id, job_ids)
        query = select(runs.c.job_id, live, waiting).where(of_these).group_by(runs.c.job_id)
        found = self._work.connection.execute(query)
        return {job_id: (int(live), int(waiting)) for job_id, live, waiting in found}

    def _write(self, ledger: Ledger) -> None:
        connection, tables, dialect, rows = self._work
        decided = self._decisions
        if decided.displaced:
            self._displace(decided.displaced)
        dialect.insert_fired(connection, tables, decided.run_columns(), decided.definition)
        if decided.gone:
            connection.execute(delete(tables.jobs).where(dialect.among(tables.jobs.c.id, decided.gone)))
        dialect.update_rows(connection, tables.jobs, decided.moved)
        history = rows.history_columns(decided.records)
        dialect.insert_rows(connection, tables.history, history, once=True)
        dialect.update_rows(connection, tables.jobs, [
            {"id": job.id, "suspended": quoted(reason), "due": None} for job, reason in decided.suspended
        ])  # fmt: skip
        save_ledger(self._work, ledger)

    def _displace(self, job_ids: Sequence[str]) -> None:
        runs = self._work.tables.runs
        query = select(runs.c.id).where(self._work.dialect.among(runs.c.job_id, job_ids))
        if self._work.dialect.skips_locked:
            # Who is ending one of them at this moment may be waiting for the rows of our jobs.
            query = query.with_for_update(skip_locked=True)
        ids = list(self._work.connection.execute(query).scalars())
        tell_to_end(self._work, self._work.dialect.among(runs.c.id, ids), "a newer run of its job takes its place")


class Claiming:
    """One transaction of ``claim_runs``. Nobody else starts or ends runs meanwhile."""

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

    def claim(self) -> Claimed:
        """Claim what is pending and due. What is refused leaves its place to others."""
        while self._claim_some():
            pass
        if self._seen.let_try:
            self._pass_turns_on()
        return Claimed(self._claimed)

    def _claim_some(self) -> bool:
        """Claim as much as there is room for; true if there may be room left, because some were refused."""
        lanes = self._seen.due(self._seen.run_lanes)
        request = self._request._replace(room=self._room)
        runs = self._work.tables.runs
        rows = _due_rows(self._work, runs.c.ready, DueRun, lanes, request, self._now, *claimable(runs))
        if not rows:
            return False
        self._new, self._refused, self._unreadable = [], [], []
        ledger = load_ledger(self._work, _limits_of(rows))
        live = self._live_counts({row.job_id for row in rows})
        for row in rows:
            self._claim_one(row, live, ledger)
        self._write(ledger)
        self._claimed += self._new
        return bool(self._refused or self._unreadable)

    def _live_counts(self, job_ids: Iterable[str]) -> Counter[str]:
        runs = self._work.tables.runs
        query = (
            select(runs.c.job_id, func.count())
            .where(self._work.dialect.among(runs.c.job_id, list(job_ids)), runs.c.owner.is_not(None))
            .group_by(runs.c.job_id)
        )
        return Counter(dict(map(tuple, self._work.connection.execute(query))))

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

    def _write(self, ledger: Ledger) -> None:
        connection, tables, dialect, _ = self._work
        dialect.update_rows(connection, tables.runs, [
            {"id": run.id, "owner": run.owner, "fence": run.fence, "ready": None, "freed": None} for run in self._new
        ])  # fmt: skip
        for row, refusal in self._refused:
            self._refuse(row, refusal)
        for run_id, reason in self._unreadable:
            put_aside(self._work, run_id, reason)
        save_ledger(self._work, ledger)

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
        rows = self._work.connection.execute(select(runs.c.id, runs.c.freed).where(*waiting)).all()
        self._work.dialect.update_rows(self._work.connection, runs, [{"id": row.id, "freed": None} for row in rows])
        free_held(self._work, Counter(row.freed for row in rows))


def _due_rows(
    work: Work,
    time: Any,
    kind: type[Due],
    lanes: Sequence[Lane],
    request: FireRequest,
    now: datetime,
    *which: Any,
) -> list[Due]:
    """Return rows that are due by a column, the lowest rank first, no more than there is room for; they are locked."""
    table = time.table
    found: dict[str, list[Due]] = {}
    for executor, priority in lanes:
        room = min(request.room[executor], AT_ONCE)
        if room > 0:
            query = (
                select(*[table.c[name] for name in kind._fields])
                .where(table.c.executor == executor, table.c.priority == priority, time <= instant(now))
                .where(known_task(table, request.tasks), *which)
                .order_by(time)
                .limit(room)
            )
            if work.dialect.skips_locked:
                query = query.with_for_update(skip_locked=True)
            rows = work.dialect.fetch(work.connection, query)
            found.setdefault(executor, []).extend(map(partial(make, kind), rows))
    most = {executor: min(room, AT_ONCE) for executor, room in request.room.items()}
    if len(lanes) > 1:
        found = {executor: sorted(rows, key=rank) for executor, rows in found.items()}
    return [row for executor, rows in found.items() for row in rows[: most[executor]]]


def together(foreseen: Fired, rest: Fired) -> Fired:
    """Return what was fired in two steps, of which the first has only started runs, as if it had been one."""
    runs = [*foreseen.runs, *rest.runs]
    if foreseen.runs and rest.runs:
        runs.sort(key=lambda run: rank_of(run.job, instant(run.due_at)))
    return rest._replace(runs=runs, finished=[*foreseen.finished, *rest.finished])


def rank(row: Sequence[Any]) -> tuple[int, int]:
    """Return where a row stands among those of its executor: the lowest goes first."""
    _, priority, due, *_ = row
    return due + priority * AGEING, due


def _limits_of(rows: Sequence[DueJob] | Sequence[DueRun]) -> list[str]:
    return [name for text in {row.limits for row in rows} for name in limit_names(text)]


def load_ledger(work: Work, names: Iterable[str]) -> Ledger:
    """Return how limits stand. Nobody else can start something under them until the transaction has ended."""
    wanted = sorted(set(names))
    if not wanted:
        return Ledger()
    connection, tables, dialect, _ = work
    limits, runs = tables.limits, tables.runs
    known = set(connection.execute(select(limits.c.name).where(limits.c.name.in_(wanted))).scalars())
    for name in wanted:
        if name not in known:
            _add_limit(work, name)
    query = select(limits.c.name, limits.c.state).where(limits.c.name.in_(wanted)).order_by(limits.c.name)
    if dialect.skips_locked:
        query = query.with_for_update()
    rates = {name: json.loads(state) for name, state in connection.execute(query)}
    live: Counter[str] = Counter()
    for (text,) in connection.execute(select(runs.c.limits).where(runs.c.owner.is_not(None), runs.c.limits != "")):
        live.update(limit_names(text))
    return Ledger(live, {name: state for name, state in rates.items() if state})


def _add_limit(work: Work, name: str) -> None:
    try:
        with work.connection.begin_nested():
            work.connection.execute(work.tables.limits.insert().values(name=name, state="[]"))
    except IntegrityError:
        return  # somebody else was quicker


def save_ledger(work: Work, ledger: Ledger) -> None:
    """Write what was started under limits with a rate."""
    limits = work.tables.limits
    for name, state in ledger.changed.items():
        work.connection.execute(update(limits).where(limits.c.name == name).values(state=json.dumps(state)))


def tell_to_end(work: Work, which: Any, reason: str, yields: bool = True) -> None:
    """Have the owners of live runs told to end them. An earlier reason stays if this one ``yields``."""
    runs = work.tables.runs
    live = update(runs).where(which, runs.c.owner.is_not(None))
    if yields:
        live = live.where(runs.c.cancel.is_(None))
    work.connection.execute(live.values(cancel=quoted(reason)))


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
    """Let as many runs that are held under each key try again as the key is counted; true if there were any."""
    runs = work.tables.runs
    if not keys or not is_held(work):
        return False
    freed = False
    for key in sorted(keys):
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
    query = select(runs.c.id).where(runs.c.held == key, runs.c.freed.is_(None), *which).order_by(runs.c.due).limit(most)
    if work.dialect.skips_locked:
        query = query.with_for_update(skip_locked=True)
    return list(work.connection.execute(query).scalars())
