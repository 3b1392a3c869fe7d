"""The jobs in the tables of the SQL store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.jobstores._shared.records import Records
from goscheduler.jobstores.base import SharedJobStore
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS, Dialect
from goscheduler.jobstores.sqlalchemy.external_connection import adopt_connection
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.migrations import SchemaStatus, bring_up_to_date, statements, status
from goscheduler.jobstores.sqlalchemy.rows import RowCodec, read_json_text
from goscheduler.jobstores.sqlalchemy.search_terms import terms_of, words_of
from goscheduler.jobstores.sqlalchemy.tables import ANY_TERM, Tables
from goscheduler.jobstores.sqlalchemy.transactions import Transactions
from goscheduler.runs.queries import is_readable
from goscheduler.runs.records import Retention
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer

#: How many rows are written by one statement, so that each has time enough.
MAX_ROWS_PER_STATEMENT = 5000


class StoredJobs(SharedJobStore):
    """The part of the SQL store that has to do with jobs; runs are none of its business."""

    _tables: Tables
    _database: Transactions
    _dialect: Dialect
    _rows: RowCodec
    _serializer: Serializer | None

    def _codec(self, scheduler: Any, alias: str) -> RowCodec:
        return RowCodec(Records(scheduler, alias, self._serializer, self._tables.jobs.fullname))

    def _describing(self, rows: RowCodec) -> Callable[[Connection], None]:
        """Return what writes into the rows of older jobs what they are found by. One that cannot be read is left."""
        jobs = self._tables.jobs

        def describe(connection: Connection) -> None:
            portion = select(jobs).where(jobs.c.terms == ANY_TERM).order_by(jobs.c.id).limit(MAX_ROWS_PER_STATEMENT)
            last = ""
            while found := connection.execute(portion.where(jobs.c.id > last)).all():
                last = found[-1].id
                read = [job for job in map(rows.job, found) if is_readable(job)]
                self._dialect.update_rows(connection, jobs, [
                    {"id": job.id, "name": job.name, "terms": terms_of(job), "words": words_of(job)} for job in read
                ])  # fmt: skip

        return describe

    def schema_status(self) -> SchemaStatus:
        """Return which version of the tables is there; the store need not be started.

        :raises SchemaError: if they are not ours, or of a newer version
        """
        with self._database.reaching(), self._database.reading() as connection:
            return status(self._tables, connection)

    def upgrade_schema(self) -> bool:
        """Make the tables or bring them up to date; false if nothing was to be done. The store need not be started."""
        with self._database.reaching():
            with self._database.reading() as connection:
                self._dialect.check_version(connection)
            describe = self._describing(self._codec(None, "default"))
            return bring_up_to_date(self._tables, self._database.engine, describe)

    def schema_sql(self) -> list[str]:
        """Return the statements that make the tables."""
        return list(statements(self._tables, self._database.engine))

    def lookup_job(self, job_id: str) -> Job | None:
        jobs = self._tables.jobs
        with self._database.reading() as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
        return None if row is None else self._rows.job(row)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        jobs = self._tables.jobs
        return self._jobs(select(jobs).where(jobs.c.due <= to_micros(now)).order_by(jobs.c.due, jobs.c.id))

    def get_next_run_time(self) -> datetime | None:
        jobs = self._tables.jobs
        with self._database.reading() as connection:
            time = connection.execute(select(func.min(jobs.c.due))).scalar()
        return None if time is None else from_micros(time, UTC)

    def count_waiting(self, task: str | None = None) -> int:
        jobs = self._tables.jobs
        query = select(func.count()).select_from(jobs).where(jobs.c.due.is_not(None))
        with self._database.reading() as connection:
            return int(connection.execute(query if task is None else query.where(jobs.c.task == task)).scalar_one())

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        jobs = self._tables.jobs
        due = jobs.c.due <= to_micros(until), jobs.c.executor.not_in(executors)
        query = select(jobs.c.executor, func.count()).where(*due).group_by(jobs.c.executor)
        with self._database.reading() as connection:
            return {executor: int(count) for executor, count in connection.execute(query)}

    def get_all_jobs(self) -> list[Job]:
        jobs = self._tables.jobs
        return self._jobs(select(jobs).order_by(jobs.c.next_run.is_(None), jobs.c.next_run, jobs.c.id))

    def _jobs(self, query: Any) -> list[Job]:
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [self._rows.job(row) for row in rows]

    def add_job(self, job: Job) -> None:
        self.add_jobs([job])

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        portions = [
            columns_of(list(map(self._rows.job_row, jobs[start : start + MAX_ROWS_PER_STATEMENT])))
            for start in range(0, len(jobs), MAX_ROWS_PER_STATEMENT)
        ]

        def add(context: StoreContext) -> None:
            for columns in portions:
                self._dialect.insert_rows(context.connection, self._tables.jobs, columns)
            self._dialect.notify(context.connection, self._tables)

        try:
            if len(portions) > 1 or not self._database.write_batch(add):
                self._database.write(add, seconds=CALL_SECONDS * len(portions))
        except IntegrityError:
            raise ConflictingIdError(self._taken([job.id for job in jobs])) from None

    def add_job_with(self, connection: Any, job: Job) -> None:
        there = adopt_connection(connection, self._database.engine)
        row = self._rows.job_row(job)
        jobs = self._tables.jobs
        # Before a refusal by the database spoils the transaction; asked inside of it, which may have added it itself.
        if there.execute(select(jobs.c.id).where(jobs.c.id == job.id)).first() is not None:
            raise ConflictingIdError(job.id)
        try:
            self._dialect.insert_rows(there, self._tables.jobs, columns_of([row]))
            self._dialect.notify(there, self._tables, us_too=True)
        except Exception as error:
            if type(getattr(error, "orig", error)).__name__ in ("IntegrityError", "UniqueViolation"):
                raise ConflictingIdError(job.id) from None
            raise

    def _taken(self, job_ids: Sequence[str]) -> str:
        """Return the first of the ids that is taken, or else the first that is there twice."""
        jobs = self._tables.jobs
        with self._database.reading() as connection:
            query = select(jobs.c.id).where(self._dialect.column_in(jobs.c.id, job_ids))
            taken = set(connection.execute(query).scalars())
        counts = Counter(job_ids)
        return next((job_id for job_id in job_ids if job_id in taken or counts[job_id] > 1), job_ids[0])

    def update_job(self, job: Job) -> None:
        self._database.write(lambda context: self._replace(context, job))

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        jobs = self._tables.jobs

        def change(context: StoreContext) -> Job:
            row = context.connection.execute(self._locking(select(jobs).where(jobs.c.id == job_id))).first()
            if row is None:
                raise JobLookupError(job_id)
            edited = edit(self._rows.job(row))
            self._replace(context, edited)
            return edited

        edited = self._database.write(change)
        edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
        return edited

    def _replace(self, context: StoreContext, job: Job) -> None:
        jobs = self._tables.jobs
        row = self._rows.job_row(job)._asdict()
        del row["fence"]
        if context.connection.execute(update(jobs).where(jobs.c.id == job.id).values(row)).rowcount == 0:
            raise JobLookupError(job.id)
        self._dialect.notify(context.connection, self._tables)

    def remove_job(self, job_id: str) -> None:
        jobs = self._tables.jobs
        statement = delete(jobs).where(jobs.c.id == job_id)
        if self._database.write(lambda context: context.connection.execute(statement).rowcount) == 0:
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        self._database.write(lambda context: context.connection.execute(delete(self._tables.jobs)))

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        jobs, runs = self._tables.jobs, self._tables.runs
        busy = select(runs.c.job_id).where(runs.c.job_id == jobs.c.id).exists()
        query = select(jobs).where(jobs.c.finished.is_not(None), ~busy).order_by(jobs.c.finished).limit(limit)

        def remove(context: StoreContext) -> list[str]:
            rows = context.connection.execute(self._locking(query)).all()
            removed = [row.id for row in rows if retention.has_outlived(self._rows.job(row).stats, now)]
            self._dialect.delete_rows(context.connection, jobs.c.id, removed)
            return removed

        return self._database.write(remove)

    def suspensions(self) -> Mapping[str, str]:
        jobs = self._tables.jobs
        with self._database.reading() as connection:
            rows = connection.execute(select(jobs.c.id, jobs.c.suspended).where(jobs.c.suspended.is_not(None))).all()
        return {row.id: read_json_text(row.suspended) or "" for row in rows}

    def release(self, job_id: str) -> bool:
        jobs = self._tables.jobs
        suspended = (jobs.c.id == job_id, jobs.c.suspended.is_not(None))
        with self._database.reading() as connection:
            if connection.execute(select(jobs.c.id).where(*suspended)).first() is None:
                return False
        change = update(jobs).where(*suspended).values(suspended=None, is_suspended=None, due=jobs.c.next_run)
        return self._database.write(lambda context: context.connection.execute(change).rowcount > 0)

    def _locking(self, query: Any) -> Any:
        return query.with_for_update() if self._dialect.skips_locked else query
