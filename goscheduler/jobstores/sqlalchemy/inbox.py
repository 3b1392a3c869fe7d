"""The inbox of the SQL store: a table to which programs in any language add what they want."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from goscheduler.errors import ConflictingIdError, GoSchedulerError, described
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.jobs import StoredJobs
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.rows import JobRow
from goscheduler.jobstores.sqlalchemy.transactions import TRIES
from goscheduler.runs.queries import Drained, InboxEntry
from goscheduler.runs.records import storable

if TYPE_CHECKING:
    from goscheduler.job import Job

Read = Callable[[InboxEntry], "Job"]


class StoredInbox(StoredJobs):
    """The part of the SQL store that takes requests of other programs."""

    def drain_inbox(self, limit: int, read: Read) -> Drained:
        with self._database.reading() as connection:
            if connection.execute(select(self._tables.inbox.c.id).limit(1)).first() is None:
                return Drained([], {}, False)
        tries_left = TRIES
        while True:
            try:
                return self._database.write(lambda context: self._drain(context, limit, read))
            except IntegrityError:  # another process has added a job of the same id meanwhile: the next look finds it
                tries_left -= 1
                if not tries_left:
                    raise

    def _drain(self, context: StoreContext, limit: int, read: Read) -> Drained:
        connection, tables, dialect, _ = context
        inbox = tables.inbox
        query = select(inbox).order_by(inbox.c.id).limit(limit)
        entries = connection.execute(query.with_for_update(skip_locked=True) if dialect.skips_locked else query).all()
        if not entries:
            return Drained([], {}, False)
        jobs, rows, refused = self._read_entries(context, entries, read)
        dialect.insert_rows(connection, tables.jobs, columns_of(rows))
        kept = [
            {"id": entry.id, "request": entry.request, "created": entry.created, "reason": refused[str(entry.id)]}
            for entry in entries
            if str(entry.id) in refused
        ]
        if kept:
            connection.execute(insert(tables.inbox_refused), kept)
        connection.execute(delete(inbox).where(inbox.c.id.in_([entry.id for entry in entries])))
        if jobs:
            dialect.notify(connection, tables)
        return Drained(jobs, refused, len(entries) >= limit)

    def _read_entries(
        self, context: StoreContext, entries: Any, read: Read
    ) -> tuple[list[Job], list[JobRow], dict[str, str]]:
        """Return the jobs that were asked for, their rows, and why the other entries are refused."""
        wanted: dict[str, tuple[Job, JobRow]] = {}
        refused: dict[str, str] = {}
        for entry in entries:
            name = str(entry.id)
            try:
                job = read(InboxEntry(name, entry.request))
                wanted[name] = job, context.rows.job_row(job)
            except (GoSchedulerError, ValueError, TypeError) as error:
                refused[name] = storable(described(error))
        jobs = context.tables.jobs
        these = context.dialect.column_in(jobs.c.id, [job.id for job, _ in wanted.values()])
        taken = set(context.connection.execute(select(jobs.c.id).where(these)).scalars()) if wanted else set()
        for name, (job, _) in list(wanted.items()):
            if job.id in taken:
                refused[name] = str(ConflictingIdError(job.id))
                del wanted[name]
            taken.add(job.id)
        return [job for job, _ in wanted.values()], [row for _, row in wanted.values()], refused
