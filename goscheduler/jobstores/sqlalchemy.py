"""A job store in a SQL database: SQLite, PostgreSQL, MySQL, MariaDB, or any other that SQLAlchemy speaks to.

Several processes may use the same tables at once. A round that finds nothing due costs one query; a round that fires
costs one transaction for any number of jobs, and so does the end of any number of runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from goscheduler.codec import CodecError
from goscheduler.errors import ConflictingIdError, InvalidArgument, JobLookupError
from goscheduler.jobstores._polling import Poll
from goscheduler.jobstores._records import Records
from goscheduler.jobstores._sql_dialects import Dialect, dialect_of
from goscheduler.jobstores._sql_firing import Claiming, Firing, Work, tell_to_end
from goscheduler.jobstores._sql_looking import Looking, Seen
from goscheduler.jobstores._sql_rows import Rows, tag_text, unquoted
from goscheduler.jobstores._sql_settling import prune, recover, settle
from goscheduler.jobstores._sql_tables import Tables, check_table_name, create
from goscheduler.jobstores.base import BaseJobStore, Claimed, Fired, FireRequest
from goscheduler.runs.model import DeadLetter, JobLife, Owner, Run, Settlement
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.times import UTC, from_instant, instant

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer

__all__ = ["SQLAlchemyJobStore"]


class SQLAlchemyJobStore(BaseJobStore):
    """Keeps jobs, runs and history in tables whose names begin with ``tablename``.

    Give ``url``, or ``engine``, which is then not closed. ``serializer`` says how arguments are written. The times of
    the database server count, not those of this machine, unless ``server_time`` is false.
    """

    shared = True

    def __init__(
        self,
        url: str | None = None,
        engine: Engine | None = None,
        tablename: str = "goscheduler",
        metadata: Any = None,
        pickle_protocol: int | None = None,
        tableschema: str | None = None,
        engine_options: Mapping[str, Any] | None = None,
        *,
        serializer: Serializer | None = None,
        server_time: bool = True,
    ) -> None:
        if (url is None) == (engine is None):
            raise InvalidArgument("Need either 'engine' or 'url' defined", field="url")
        schema = None if tableschema is None else check_table_name("tableschema", tableschema)
        self._tables = Tables(check_table_name("tablename", tablename), schema)
        self._dialect: Dialect = dialect_of(engine.url if engine is not None else url)
        self._owns_engine = engine is None
        self._engine = engine if engine is not None else self._create_engine(url, dict(engine_options or {}))
        self._dialect.prepare(self._engine)
        self._serializer = serializer
        self._server_time = server_time and self._dialect.now is not None
        self._registered: set[str] = set()
        self._looking = Looking(self._tables, self._dialect, self._server_time)
        self._seen: tuple[datetime, Seen] | None = None
        """What ``fire_due`` has seen last, for the ``claim_runs`` of the same round, if nothing was written since."""
        self._poll = Poll()
        self._notified = False

    def _create_engine(self, url: Any, options: dict[str, Any]) -> Engine:
        arguments = {**self._dialect.connect_args, **options.pop("connect_args", {})}
        return create_engine(url, connect_args=arguments, **{**self._dialect.engine_options, **options})

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._rows = Rows(Records(scheduler, alias, self._serializer))
        with self._engine.begin() as connection:
            create(self._tables, connection)

    def shutdown(self) -> None:
        if self._owns_engine:
            self._engine.dispose()

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        jobs = self._tables.jobs
        with self._reading() as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
        return None if row is None else self._rows.job(row)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        jobs = self._tables.jobs
        return self._jobs(select(jobs).where(jobs.c.due <= instant(now)).order_by(jobs.c.due, jobs.c.id))

    def get_next_run_time(self) -> datetime | None:
        jobs = self._tables.jobs
        with self._reading() as connection:
            earliest = connection.execute(select(func.min(jobs.c.due))).scalar()
        return None if earliest is None else from_instant(earliest, UTC)

    def get_all_jobs(self) -> list[Job]:
        jobs = self._tables.jobs
        return self._jobs(select(jobs).order_by(jobs.c.next_run.is_(None), jobs.c.next_run, jobs.c.id))

    def add_job(self, job: Job) -> None:
        row = self._rows.job_row(job)
        try:
            with self._writing() as work:
                work.connection.execute(insert(self._tables.jobs), row)
                self._dialect.notify(work.connection, self._tables)
        except IntegrityError:
            raise ConflictingIdError(job.id) from None

    def update_job(self, job: Job) -> None:
        with self._writing() as work:
            self._replace(work, job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        jobs = self._tables.jobs
        with self._writing() as work:
            query = select(jobs).where(jobs.c.id == job_id)
            row = work.connection.execute(query.with_for_update() if self._dialect.skips_locked else query).first()
            if row is None:
                raise JobLookupError(job_id)
            edited = edit(self._rows.job(row))
            self._replace(work, edited)
        edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
        return edited

    def _replace(self, work: Work, job: Job) -> None:
        jobs = self._tables.jobs
        row = self._rows.job_row(job)
        del row["fence"]
        if work.connection.execute(update(jobs).where(jobs.c.id == job.id).values(row)).rowcount == 0:
            raise JobLookupError(job.id)
        self._dialect.notify(work.connection, self._tables)

    def remove_job(self, job_id: str) -> None:
        jobs = self._tables.jobs
        with self._writing() as work:
            if work.connection.execute(delete(jobs).where(jobs.c.id == job_id)).rowcount == 0:
                raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        with self._writing() as work:
            work.connection.execute(delete(self._tables.jobs))

    def _jobs(self, query: Any) -> list[Job]:
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [self._rows.job(row) for row in rows]

    # Firing

    def fire_due(self, request: FireRequest) -> Fired:
        seen = self._look(request)
        fired = Fired()
        if seen.job_due is not None and seen.job_due <= instant(seen.now):
            with self._writing() as work:
                fired = Firing(work, request, seen.now).fire()
            seen = self._look(request)
        self._poll.found(bool(fired.runs))
        self._seen = (request.now, seen)
        return fired._replace(next_due=_time(seen.job_due), more=seen.crowded)

    def claim_runs(self, request: FireRequest) -> Claimed:
        seen = self._seen[1] if self._seen is not None and self._seen[0] == request.now else self._look(request)
        claimed = Claimed()
        if seen.run_due is not None and seen.run_due <= instant(seen.now):
            with self._writing() as work:
                claimed = Claiming(work, request, seen.now).claim()
            seen = self._look(request)
        return claimed._replace(
            next_due=_time(seen.run_due), more=claimed.more or seen.crowded,
            to_end=self._to_end(request.owner) if seen.to_end else (),
        )  # fmt: skip

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        with self._writing() as work:
            refused, more = settle(work, settlements)
            if more:
                self._dialect.notify(work.connection, self._tables)
        return refused

    def add_run(self, run: Run) -> None:
        with self._writing() as work:
            self._dialect.insert_rows(work.connection, self._tables.runs, [self._rows.run_row(run)])
            self._dialect.notify(work.connection, self._tables)

    def discard_pending(self, job_id: str | None = None) -> bool:
        runs = self._tables.runs
        statement = delete(runs).where(runs.c.owner.is_(None))
        with self._writing() as work:
            done = work.connection.execute(statement if job_id is None else statement.where(runs.c.job_id == job_id))
            return done.rowcount > 0

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_where(self._tables.runs.c.owner.is_not(None), job_id)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_where(self._tables.runs.c.owner.is_(None), job_id)

    def _runs_where(self, condition: Any, job_id: str | None) -> list[Run]:
        runs = self._tables.runs
        query = select(runs).where(condition).order_by(runs.c.due, runs.c.id)
        with self._reading() as connection:
            rows = connection.execute(query if job_id is None else query.where(runs.c.job_id == job_id)).all()
        return [run for row in rows if (run := self._read_run(row)) is not None]

    def _read_run(self, row: Any) -> Run | None:
        try:
            return self._rows.run(row)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", row.id, error)
            return None

    def cancel_run(self, run_id: str, reason: str, end: Callable[[Run], Settlement]) -> Run | None:
        runs = self._tables.runs
        query = select(runs).where(runs.c.id == run_id)
        with self._writing() as work:
            row = work.connection.execute(query.with_for_update() if self._dialect.skips_locked else query).first()
            run = None if row is None else self._read_run(row)
            if run is None:
                return None
            if run.owner is None:
                work.connection.execute(delete(runs).where(runs.c.id == run_id))
                record = record_of(end(run).attempt)
                self._dialect.insert_rows(work.connection, self._tables.history, [self._rows.history_row(record)])
            else:
                tell_to_end(work, runs.c.id == run_id, reason)
                self._dialect.notify(work.connection, self._tables)
            return run

    def _to_end(self, owner: str) -> list[tuple[Run, str]]:
        runs = self._tables.runs
        with self._reading() as connection:
            rows = connection.execute(select(runs).where(runs.c.owner == owner, runs.c.cancel.is_not(None))).all()
        return [(run, unquoted(row.cancel) or "") for row in rows if (run := self._read_run(row)) is not None]

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        owners = self._tables.owners
        account = json.dumps([owner.host, owner.pid, instant(owner.started_at or now), owner.executors, owner.tasks])
        with self._writing() as work:
            values = {"expires": instant(self._now(work.connection, now) + lease), "account": account}
            renewed = work.connection.execute(update(owners).where(owners.c.id == owner.id).values(values)).rowcount
            if not renewed and owner.id in self._registered:
                return False
            if not renewed:
                work.connection.execute(insert(owners), {"id": owner.id, **values})
        self._registered.add(owner.id)
        return True

    def retire_owner(self, owner: str) -> None:
        runs, owners = self._tables.runs, self._tables.owners
        with self._writing() as work:
            rows = work.connection.execute(select(runs).where(runs.c.owner == owner)).all()
            self._dialect.update_rows(work.connection, runs, "id", [
                {"id": row.id, "owner": None, "ready": row.due, "cancel": None} for row in rows
            ])  # fmt: skip
            work.connection.execute(delete(owners).where(owners.c.id == owner))
            if rows:
                self._dialect.notify(work.connection, self._tables)

    def owners(self, now: datetime) -> list[Owner]:
        owners = self._tables.owners
        with self._reading() as connection:
            moment = instant(self._now(connection, now))
            rows = connection.execute(select(owners).where(owners.c.expires > moment)).all()
        return [_owner(row.id, row.account) for row in rows]

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        with self._writing() as work:
            settlements = recover(work, self._now(work.connection, now), decide)
            if settlements:
                self._dialect.notify(work.connection, self._tables)
        return settlements

    # History

    def history(self, query: HistoryQuery) -> list[Record]:
        with self._reading() as connection:
            rows = connection.execute(self._page(self._tables.history, query)).all()
        return [self._rows.record(row) for row in rows]

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        with self._writing() as work:
            return prune(work, retention, now, limit)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        jobs, runs = self._tables.jobs, self._tables.runs
        busy = select(runs.c.job_id)
        query = select(jobs).where(jobs.c.finished.is_not(None), jobs.c.id.not_in(busy)).order_by(jobs.c.finished)
        with self._writing() as work:
            rows = work.connection.execute(query.limit(limit)).all()
            removed = [row.id for row in rows if retention.has_outlived(self._rows.job(row).life, now)]
            work.connection.execute(delete(jobs).where(jobs.c.id.in_(removed)))
        return removed

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        with self._reading() as connection:
            rows = connection.execute(self._page(self._tables.dead, query)).all()
        return [self._letter(row) for row in rows]

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        dead = self._tables.dead
        query = select(dead).where(dead.c.run_id == run_id)
        with self._writing() as work:
            row = work.connection.execute(query.with_for_update() if self._dialect.skips_locked else query).first()
            if row is None:
                return False
            work.connection.execute(delete(dead).where(dead.c.run_id == run_id))
            if follow_up is not None:
                run = follow_up(self._letter(row))
                self._dialect.insert_rows(work.connection, self._tables.runs, [self._rows.run_row(run)])
                self._dialect.notify(work.connection, self._tables)
        return True

    def _letter(self, row: Any) -> DeadLetter:
        record = self._rows.record(row)
        run = self._rows.records.run(row.run_id, row.run, record.owner, row.fence)
        return DeadLetter(run, record, unquoted(row.reason) or "")

    def _page(self, table: Any, query: HistoryQuery) -> Any:
        """Return the statement for what is asked for, newest first."""
        columns = table.c
        statement = select(table)
        if query.job_id is not None:
            statement = statement.where(columns.job_id == query.job_id)
        if query.outcomes is not None:
            statement = statement.where(columns.outcome.in_([kind.value for kind in query.outcomes]))
        if query.error_type is not None:
            statement = statement.where(columns.error_type == query.error_type)
        if query.since is not None:
            statement = statement.where(columns.finished >= instant(query.since))
        if query.until is not None:
            statement = statement.where(columns.finished < instant(query.until))
        if query.tag is not None:
            statement = statement.where(columns.tags.contains(tag_text(query.tag), autoescape=True))
        if query.before is not None:
            finished, run_id, fence = query.before
            statement = statement.where(or_(
                columns.finished < finished,
                (columns.finished == finished) & (columns.run_id < run_id),
                (columns.finished == finished) & (columns.run_id == run_id) & (columns.fence < fence),
            ))  # fmt: skip
        order = (columns.finished.desc(), columns.run_id.desc(), columns.fence.desc())
        return statement.order_by(*order).limit(query.limit)

    # Suspension

    def suspensions(self) -> Mapping[str, str]:
        jobs = self._tables.jobs
        with self._reading() as connection:
            rows = connection.execute(select(jobs.c.id, jobs.c.suspended).where(jobs.c.suspended.is_not(None))).all()
        return {row.id: unquoted(row.suspended) or "" for row in rows}

    def release(self, job_id: str) -> bool:
        jobs = self._tables.jobs
        statement = update(jobs).where(jobs.c.id == job_id, jobs.c.suspended.is_not(None))
        with self._writing() as work:
            return work.connection.execute(statement.values(suspended=None, due=jobs.c.next_run)).rowcount > 0

    def life_of(self, job: Job) -> JobLife:
        return job.life

    def forget_job(self, job_id: str) -> None:
        runs = self._tables.runs
        with self._writing() as work:
            work.connection.execute(delete(runs).where(runs.c.job_id == job_id, runs.c.owner.is_(None)))
            work.connection.execute(update(runs).where(runs.c.job_id == job_id).values(revoked=1))

    def forget_live_runs(self) -> None:
        """Nothing: the runs of earlier starts belong to their owners, and are given up when their leases lapse."""
        self._engine.dispose(close=False)

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._notified = self._dialect.listen(self._engine, self._tables, wake)

    def poll_after(self) -> float:
        return math.inf if self._notified else self._poll.seconds

    # Inside

    def _look(self, request: FireRequest) -> Seen:
        with self._reading() as connection:
            return self._looking.look(connection, request)

    def _now(self, connection: Connection, now: datetime) -> datetime:
        if not self._server_time or self._dialect.now is None:
            return now
        return from_instant(int(connection.execute(select(self._dialect.now)).scalar_one()), UTC)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            connection = connection.execution_options(writes=False)
            with connection.begin():
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[Work]:
        with self._engine.begin() as connection:
            yield Work(connection, self._tables, self._dialect, self._rows, self._looking)
        self._looking.forget()
        self._seen = None


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_instant(microseconds, UTC)


def _owner(owner_id: str, account: str) -> Owner:
    host, pid, started_at, executors, tasks = json.loads(account)
    return Owner(owner_id, host, pid, from_instant(started_at, UTC), tuple(executors), tuple(tasks))
