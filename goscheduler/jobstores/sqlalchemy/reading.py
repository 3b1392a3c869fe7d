"""What people ask of the SQL store about many jobs at once, and do to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, func, or_, select
from sqlalchemy.engine import Connection

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError
from goscheduler.jobstores.sqlalchemy.history import page
from goscheduler.jobstores.sqlalchemy.job_search import JobSearch
from goscheduler.jobstores.sqlalchemy.jobs import StoredJobs
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.rows import JobRow
from goscheduler.jobstores.sqlalchemy.tables import ANY_TERM
from goscheduler.runs import queries
from goscheduler.runs.model import DeadLetter
from goscheduler.runs.queries import (
    Count,
    Edited,
    JobPage,
    JobPosition,
    JobQuery,
    LetterGroup,
    RunCounts,
    letter_groups,
)
from goscheduler.runs.records import HistoryQuery, Record
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job

#: So many jobs are edited or removed by one transaction.
JOBS_PER_TRANSACTION = 200

class StoredReads(StoredJobs):
    """The part of the SQL store that answers people."""

    def find_jobs(self, query: JobQuery) -> JobPage:
        until = SYSTEM_CLOCK.monotonic() + queries.SEARCH_SECONDS
        jobs: list[Job] = []
        after = query.after
        with self._database.searching() as connection:
            search = JobSearch(self._tables, connection, query, until)
            while not search.impossible:
                positions, following, complete = search.keys(after, query.limit - len(jobs))
                jobs += self._read_jobs(connection, positions, query)
                if following is None or not complete or len(jobs) >= query.limit:
                    return JobPage(jobs, following, complete)
                if SYSTEM_CLOCK.monotonic() >= until:
                    return JobPage(jobs, following, complete=False)
                after = following
        return JobPage([])

    def _read_jobs(
        self, connection: Connection, positions: Sequence[JobPosition], query: JobQuery
    ) -> Iterator[Job]:
        """Yield the jobs that stand there, without those that are gone and those that do not fit after all."""
        table = self._tables.jobs
        ids = [position.id for position in positions]
        these = select(table).where(self._dialect.column_in(table.c.id, ids))
        rows = {row.id: row for row in connection.execute(these)} if ids else {}
        for job_id in ids:
            if job_id in rows:
                job = self._rows.job(rows[job_id])
                if _is_known(rows[job_id]) or query.matches(job, ids):
                    yield job

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        with self._database.searching() as connection:
            search = JobSearch(self._tables, connection, query, 0)
            if search.impossible:
                return Count(0)
            number, unknown = search.count(cap)
            if unknown:
                number, _ = search.count(cap, known=True)
                rows = connection.execute(search.unknown().limit(cap + 1)).all()
                number += sum(query.matches(self._rows.job(row), [row.id]) for row in rows)
        return Count(min(number, cap), number <= cap)

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        runs, moment = self._tables.runs.c, to_micros(now)
        live = runs.owner.is_not(None)
        due = and_(runs.owner.is_(None), runs.due <= moment, or_(runs.ready.is_(None), runs.ready <= moment))
        sums = [func.sum(case((condition, 1), else_=0)) for condition in (live, due)]
        these = self._dialect.column_in(runs.job_id, job_ids)
        query = select(runs.job_id, *sums, func.count()).where(these).group_by(runs.job_id)
        with self._database.searching() as connection:
            rows = connection.execute(query).all() if job_ids else []
        return {row[0]: RunCounts(int(row[1]), int(row[2]), int(row[3] - row[1] - row[2])) for row in rows}

    def attempts(self, run_id: str, job_id: str | None = None) -> list[Record]:
        history = self._tables.history.c
        query = select(history.record).where(history.run_id == run_id)
        if job_id is not None:
            query = query.where(history.job_id == job_id)
        with self._database.searching() as connection:
            rows = connection.execute(query.order_by(history.finished.desc(), history.fence.desc())).all()
        return [self._rows.record(row) for row in rows]

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        dead = self._tables.dead
        with self._database.searching() as connection:
            row = connection.execute(select(dead).where(dead.c.run_id == run_id)).first()
        return None if row is None else self._rows.letter(row)

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        dead = self._tables.dead
        newest = page(dead, query._replace(limit=min(query.limit, queries.MOST_LETTERS)))
        with self._database.searching() as connection:
            rows = connection.execute(newest.with_only_columns(dead.c.record)).all()
        return letter_groups(self._rows.record(row) for row in rows)

    def edit_jobs(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        together = Edited()
        for portion in _portions(job_ids):
            edited = self._database.write(partial(self._edit_portion, portion, edit))
            together = Edited(
                [*together.changed, *edited.changed], [*together.unchanged, *edited.unchanged],
                [*together.missing, *edited.missing], {**together.refused, **edited.refused},
            )  # fmt: skip
        for job in together.changed:
            job._scheduler, job._jobstore_alias = self._scheduler, self._alias
        return together

    def _edit_portion(self, job_ids: Sequence[str], edit: Callable[[Job], Job], context: StoreContext) -> Edited:
        rows = self._locked(context, job_ids)
        changed: list[tuple[Job, JobRow]] = []
        unchanged: list[str] = []
        refused: dict[str, str] = {}
        for job_id in filter(rows.__contains__, job_ids):
            job = context.rows.job(rows[job_id])
            try:
                edited = edit(job)
                if edited is job:
                    unchanged.append(job_id)
                else:
                    changed.append((edited, context.rows.job_row(edited)))
            except (GoSchedulerError, ValueError, TypeError) as error:
                refused[job_id] = str(error)
        self._write_edited(context, [row for _, row in changed])
        missing = [job_id for job_id in job_ids if job_id not in rows]
        return Edited([job for job, _ in changed], unchanged, missing, refused)

    def _write_edited(self, context: StoreContext, edited: Sequence[JobRow]) -> None:
        rows = [row._asdict() for row in edited]
        for row in rows:
            del row["fence"]
        if rows:
            context.dialect.update_rows(context.connection, context.tables.jobs, rows)
            context.dialect.notify(context.connection, context.tables)

    def remove_jobs(self, job_ids: Sequence[str]) -> list[str]:
        removed: list[str] = []
        for portion in _portions(job_ids):
            removed += self._database.write(partial(self._remove_portion, portion))
        return removed

    def _remove_portion(self, job_ids: Sequence[str], context: StoreContext) -> list[str]:
        there = list(self._locked(context, job_ids, self._tables.jobs.c.id))
        context.dialect.delete_rows(context.connection, self._tables.jobs.c.id, there)
        return there

    def _locked(self, context: StoreContext, job_ids: Collection[str], *columns: Any) -> Mapping[str, Any]:
        """Lock jobs, as all processes in the order of their ids, and return id → row."""
        jobs = self._tables.jobs
        query = select(*(columns or (jobs,))).where(context.dialect.column_in(jobs.c.id, job_ids)).order_by(jobs.c.id)
        return {row.id: row for row in context.connection.execute(self._locking(query))}


def _is_known(row: Any) -> bool:
    """Tell whether the index has all that a job is found by."""
    return row.words is not None and row.terms != ANY_TERM


def _portions(job_ids: Iterable[str]) -> Iterator[Sequence[str]]:
    unique = list(dict.fromkeys(job_ids))
    for start in range(0, len(unique), JOBS_PER_TRANSACTION):
        yield unique[start : start + JOBS_PER_TRANSACTION]
