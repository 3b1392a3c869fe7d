"""A job store in a SQL database: SQLite, PostgreSQL, MySQL, MariaDB, or any other that SQLAlchemy speaks to.

Several processes may use the same tables at once. A round that finds nothing due costs one query; a round that fires
costs one transaction for any number of jobs, and so does the end of any number of runs: on PostgreSQL one message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, JobLookupError, StoreUnavailable
from goscheduler.jobstores._shared.decisions import log_unreadable_run
from goscheduler.jobstores._shared.owner_info import owner_info, read_owner
from goscheduler.jobstores._shared.polling import Poll
from goscheduler.jobstores.base import Claimed, Fired, FireRequest
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.claiming import Claiming
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.settling import fits_batch, settle_in_batch
from goscheduler.jobstores.sqlalchemy.due_work import DueWork, DueWorkReader, QueueKey, earliest, to_cancel
from goscheduler.jobstores.sqlalchemy.firing import Firing, request_cancel
from goscheduler.jobstores.sqlalchemy.history import page, prune
from goscheduler.jobstores.sqlalchemy.inbox import StoredInbox
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.migrations import bring_up_to_date
from goscheduler.jobstores.sqlalchemy.notes import StoredNotes
from goscheduler.jobstores.sqlalchemy.reading import StoredReads
from goscheduler.jobstores.sqlalchemy.rows import read_json_text
from goscheduler.jobstores.sqlalchemy.settling import Settled, drop_pending, is_anything_lost, recover, retire, settle
from goscheduler.jobstores.sqlalchemy.tables import Tables, check_table_name
from goscheduler.jobstores.sqlalchemy.transactions import Transactions
from goscheduler.jobstores.sqlalchemy.usage import limit_usage
from goscheduler.jobstores.sqlalchemy.waiting import RETRY_LOCKED_AFTER, orphaned_keys, unblock_orphans
from goscheduler.jobstores.types import PartlySettled
from goscheduler.runs.model import DeadLetter, JobStats, Owner, Run, Settlement
from goscheduler.runs.queries import LimitUse
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer

__all__ = ["SQLAlchemyJobStore"]

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}


class SQLAlchemyJobStore(StoredReads, StoredNotes, StoredInbox):
    """Keeps jobs, runs and history in tables whose names begin with ``tablename``.

    Give ``url``, or ``engine``, which is then not closed. ``serializer`` says how arguments are written. The times of
    the database server count, not those of this machine, unless ``server_time`` is false. ``metadata`` and
    ``pickle_protocol`` are taken because APScheduler 3 has them, and have no effect.
    """

    lock_backend = "sql"

    def __init__(
        self,
        url: Any = None,
        engine: Engine | str | None = None,
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
        self._database = Transactions(self._tables, url, engine, engine_options or {})
        self._dialect = self._database.dialect
        self._serializer = serializer
        self._server_time = server_time and self._dialect.now is not None
        self._registered: set[str] = set()
        self._due_work_reader = DueWorkReader(self._tables, self._dialect, self._server_time)
        self._due_work: tuple[FireRequest, DueWork] | None = None
        """The last peek of ``fire_due``, for ``claim_runs`` of the same round."""
        self._has_blocked_runs = self._left = False
        """Whether runs wait for other runs; whether another process had locked due work in the last start."""
        self._poll = Poll()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> SQLAlchemyJobStore:
        """Return a store on the database of a URL. Where that names no driver, it is the one of our extras."""
        backend, separator, rest = url.partition("://")
        return cls(f"{_DRIVERS.get(backend, backend)}{separator}{rest}", **options)

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._database.after_fork()
        if scheduler is not None:
            self._database.set_lease(scheduler.lease)
        rows = self._codec(scheduler, alias)
        self._database.open(rows)
        try:
            bring_up_to_date(self._tables, self._database.engine, self._describing(rows))
            for warning in self.warnings():
                self._logger.warning('Job store "%s": %s', alias, warning)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise StoreUnavailable(f"the connection to the database was lost: {error.orig}") from error
            raise
        self._rows = rows

    def warnings(self) -> list[str]:
        with self._database.reading() as connection:
            return self._dialect.warnings(connection)

    def shutdown(self) -> None:
        self._database.close()

    def is_outage(self, error: BaseException) -> bool:
        return self._database.is_outage(error) or super().is_outage(error)

    def fire_due(self, request: FireRequest) -> Fired:
        began = SYSTEM_CLOCK.monotonic()
        self._left = False
        due_work = first = self._peek(request)
        fired = Fired()
        if any(request.room[executor] > 0 for executor, _ in due_work.due(due_work.job_queues)):
            fired = self._write_runs(Firing, request, due_work)
            request = request.after(fired.runs)
            due_work = self._peek(request)
        self._poll.found(bool(fired.runs))
        self._due_work, self._has_blocked_runs = (request, due_work), due_work.blocked
        return fired._replace(
            runs=[*fired.runs], next_due=self._next_due(due_work, due_work.job_queues, request),
            more=bool(due_work.out_of_capacity(due_work.job_queues, request.room)),
            now=first.now - timedelta(seconds=first.asked_at - began) if self._server_time else request.now,
        )  # fmt: skip

    def claim_runs(self, request: FireRequest) -> Claimed:
        due_work = self._peek_of_this_round(request)
        claimed, self._left = Claimed(), False
        due = due_work.due(due_work.run_queues)
        if any(request.room[executor] > 0 for executor, _ in due) or (due and due_work.blocked and due_work.unblocked):
            claimed = self._write_runs(Claiming, request, due_work)
            request = request.after(claimed.runs)
            due_work = self._peek(request)
        return claimed._replace(
            next_due=self._next_due(due_work, due_work.run_queues, request),
            more=due_work.blocked or bool(due_work.out_of_capacity(due_work.run_queues, request.room)),
            to_cancel=self._runs_to_cancel(request.owner) if due_work.to_cancel else (),
        )

    def _next_due(self, due_work: DueWork, queues: Mapping[QueueKey, int], request: FireRequest) -> datetime | None:
        """Return when work is due; soon, where another process has locked due work."""
        if self._left and due_work.due(queues):
            return due_work.now + RETRY_LOCKED_AFTER
        return earliest(queues, request.room)

    def _peek_of_this_round(self, request: FireRequest) -> DueWork:
        """Return the peek of ``fire_due`` if it was for the same request, else peek again."""
        due_work, self._due_work = self._due_work, None
        same = due_work is not None and due_work[0]._replace(plan=request.plan) == request
        return due_work[1] if due_work is not None and same else self._peek(request)

    def _write_runs(self, kind: type[Firing] | type[Claiming], request: FireRequest, due_work: DueWork) -> Any:
        def start(context: StoreContext) -> Any:
            step = kind(context, request, due_work)
            result, self._left = step.start(), step.left
            return result

        return self._database.write(start)

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        def end_at_once(context: StoreContext) -> None:
            settle_in_batch(context, settlements, self._has_blocked_runs)

        def end(context: StoreContext) -> Settled:
            settled = settle(context, settlements)
            if settled.more:
                self._dialect.notify(context.connection, self._tables)
            return settled

        if fits_batch(settlements) and self._database.write_batch(end_at_once):
            return ()
        settled = self._database.write(end)
        if settled.left:
            raise PartlySettled(settled.refused, settled.left)
        return settled.refused or ()

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        def add(context: StoreContext) -> None:
            there = self._locking(select(self._tables.jobs.c.id).where(self._tables.jobs.c.id == run.job.id))
            if must_exist and context.connection.execute(there).first() is None:
                raise JobLookupError(run.job.id)
            if not self._has_run(context.connection, run.id):
                self._add_pending(context, run)

        try:
            self._database.write(add)
        except IntegrityError:  # another process was as quick
            with self._database.reading() as connection:
                if not self._has_run(connection, run.id):
                    raise

    def _has_run(self, connection: Connection, run_id: str) -> bool:
        found = select(self._tables.runs.c.id).where(self._tables.runs.c.id == run_id)
        return connection.execute(found).first() is not None

    def _add_pending(self, context: StoreContext, run: Run) -> None:
        self._dialect.insert_rows(context.connection, self._tables.runs, columns_of([self._rows.run_row(run)]))
        self._dialect.notify(context.connection, self._tables)

    def discard_pending(self, job_id: str | None = None) -> bool:
        which = () if job_id is None else (self._tables.runs.c.job_id == job_id,)
        return bool(self._database.write(lambda context: drop_pending(context, *which)))

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_where(self._tables.runs.c.owner.is_not(None), job_id)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_where(self._tables.runs.c.owner.is_(None), job_id)

    def _runs_where(self, condition: Any, job_id: str | None) -> list[Run]:
        runs = self._tables.runs
        query = select(runs).where(condition).order_by(runs.c.due, runs.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(query if job_id is None else query.where(runs.c.job_id == job_id)).all()
        return [run for row in rows if (run := self._read_run(row)) is not None]

    def _read_run(self, row: Any) -> Run | None:
        try:
            return self._rows.run(row)
        except CodecError as error:
            log_unreadable_run(self._logger, row.id, error)
            return None

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        runs = self._tables.runs

        def cancel(context: StoreContext) -> Run | None:
            row = context.connection.execute(self._locking(select(runs).where(runs.c.id == run_id))).first()
            run = None if row is None else self._read_run(row)
            if run is not None and run.owner is None:
                drop_pending(context, runs.c.id == run_id)
                # Another fence, because no two records have the same position, and one may have been put back just now.
                called_off = self._rows.history_columns([end(run._replace(fence=run.fence + 1)).attempt])
                self._dialect.insert_rows(context.connection, self._tables.history, called_off, once=True)
            elif run is not None:
                request_cancel(context, runs.c.id == run_id, reason, keep_existing_reason)
                self._dialect.notify(context.connection, self._tables)
            return run

        return self._database.write(cancel)

    def _runs_to_cancel(self, owner: str) -> list[tuple[Run, str]]:
        runs = self._tables.runs
        with self._database.reading() as connection:
            rows = connection.execute(select(runs).where(*to_cancel(runs, owner))).all()
        return [(run, read_json_text(row.cancel) or "") for row in rows if (run := self._read_run(row)) is not None]

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        runs = self._tables.runs
        asked = runs.c.job_id == job_id, runs.c.owner.is_not(None), runs.c.cancel.is_not(None)
        with self._database.reading() as connection:
            rows = connection.execute(select(runs.c.id, runs.c.cancel).where(*asked)).all()
        return {row.id: read_json_text(row.cancel) or "" for row in rows}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        runs = self._tables.runs

        def withdraw(context: StoreContext) -> list[str]:
            requested = runs.c.owner == owner, runs.c.cancel.is_not(None)
            these = context.dialect.column_in(runs.c.id, list(requests)), *requested
            rows = context.connection.execute(self._locking(select(runs.c.id, runs.c.cancel).where(*these))).all()
            taken = [row.id for row in rows if read_json_text(row.cancel) == requests[row.id]]
            if taken:
                withdrawn = context.dialect.column_in(runs.c.id, taken)
                context.connection.execute(update(runs).where(withdrawn).values(cancel=None))
            return taken

        taken = self._database.write(withdraw)
        self._due_work_reader.forget_cancel_requests()
        return taken

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        owners = self._tables.owners
        account = owner_info(owner, now)

        def renew(context: StoreContext) -> bool:
            values = {"expires": to_micros(self._now(context.connection, now) + lease), "account": account}
            if owner.id in self._registered:
                change = update(owners).where(owners.c.id == owner.id).values(values)
                return context.connection.execute(change).rowcount > 0
            context.connection.execute(delete(owners).where(owners.c.id == owner.id))
            context.connection.execute(insert(owners), {"id": owner.id, **values})
            return True

        renewed = self._database.write(renew, first=True)
        self._registered.add(owner.id)
        return renewed

    def limit_usage(self, now: datetime) -> list[LimitUse]:
        with self._database.reading() as connection:
            return limit_usage(connection, self._tables, self._now(connection, now))

    def retire_owner(self, owner: str) -> None:
        def leave(context: StoreContext) -> None:
            if retire(context, owner):
                self._dialect.notify(context.connection, self._tables)

        self._database.write(leave)

    def owners(self, now: datetime) -> list[Owner]:
        owners = self._tables.owners
        with self._database.reading() as connection:
            moment = to_micros(self._now(connection, now))
            rows = connection.execute(select(owners).where(owners.c.expires > moment)).all()
        return [read_owner(row.id, row.account, from_micros(row.expires, UTC)) for row in rows]

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        def give_up(context: StoreContext) -> Sequence[Settlement]:
            settlements = recover(context, self._now(context.connection, now), decide)
            if unblock_orphans(context) or settlements:
                self._dialect.notify(context.connection, self._tables, us_too=True)
            return settlements

        with self._database.reading() as connection:
            lost = is_anything_lost(connection, self._tables, self._now(connection, now))
            if not lost and not orphaned_keys(connection, self._tables):
                return []
        return self._database.write(give_up)

    # History

    def history(self, query: HistoryQuery) -> list[Record]:
        with self._database.reading() as connection:
            rows = connection.execute(page(self._tables.history, query)).all()
        return [self._rows.record(row) for row in rows]

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        return self._database.write(lambda context: prune(context, retention, now, limit))

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        with self._database.reading() as connection:
            rows = connection.execute(page(self._tables.dead, query)).all()
        return [self._rows.letter(row) for row in rows]

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        dead = self._tables.dead

        def take(context: StoreContext) -> bool:
            row = context.connection.execute(self._locking(select(dead).where(dead.c.run_id == run_id))).first()
            if row is None:
                return False
            context.connection.execute(delete(dead).where(dead.c.run_id == run_id))
            if follow_up is not None:
                self._add_pending(context, follow_up(self._rows.letter(row)))
            return True

        return self._database.write(take)

    def stats_of(self, job: Job) -> JobStats:
        return job.stats

    def forget_job(self, job_id: str) -> None:
        runs = self._tables.runs

        def forget(context: StoreContext) -> None:
            # In this order: a process that ends a live run now may add a pending one, and the update waits for it.
            context.connection.execute(update(runs).where(runs.c.job_id == job_id).values(revoked=1))
            drop_pending(context, runs.c.job_id == job_id)

        self._database.write(forget)

    def subscribe(self, wake: Callable[[], None]) -> None:
        alias, warning = self._alias, self._logger.warning
        self._database.listen(self._due_work_reader, wake, lambda words: warning('Job store "%s": %s', alias, words))

    def poll_after(self) -> float:
        return math.inf if self._database.is_listening else self._poll.seconds

    # Inside

    def _peek(self, request: FireRequest) -> DueWork:
        with self._database.reading() as connection:
            return self._due_work_reader.peek(connection, request)

    def _now(self, connection: Connection, now: datetime) -> datetime:
        if not self._server_time or self._dialect.now is None:
            return now
        return from_micros(int(connection.execute(select(self._dialect.now)).scalar_one()), UTC)
