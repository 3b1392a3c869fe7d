"""Transactions of the SQL store: each has a deadline, and reports an unknown outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from goscheduler._drivers.sql_watchdog import Watchdog
from goscheduler._urls import masked
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable, nearest
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS, Dialect
from goscheduler.jobstores.sqlalchemy.dialects.by_url import dialect_of
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import NOT_WRITTEN, StatementBatch
from goscheduler.jobstores.sqlalchemy.locking import MissingLimitsError, StoreContext, add_limits
from goscheduler.jobstores.sqlalchemy.rows import RowCodec
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.plugins import STORE_URLS, require_clear_login
from goscheduler.references import maybe_ref

_BACKENDS = [backend for backend, (plugin, _) in STORE_URLS.items() if plugin == "sqlalchemy"]
#: Attempts of a transaction that conflicts with others.
TRIES = 5

T = TypeVar("T")


class UnknownOutcome(StoreUnavailable):
    """The connection broke during a commit: the transaction may be committed or not."""


class Transactions:
    """Reads and writes for one store."""

    def __init__(self, tables: Tables, url: Any, given: Engine | str | None, options: Mapping[str, Any]) -> None:
        self._tables = tables
        self._owns_engine = given is None
        engine: Engine | None = maybe_ref(given)
        self.dialect: Dialect = _dialect(url if engine is None else engine.url)
        self.engine = self._create_engine(url, dict(options)) if engine is None else self.dialect.adopt(engine)
        self.dialect.prepare(self.engine)
        if self._owns_engine:
            self.dialect.tune(self.engine)
        self._rows: RowCodec | None = None
        self._watchdog = Watchdog()
        self._process = os.getpid()
        self._stop_listening: Callable[[], None] | None = None
        self._is_listening: Callable[[], bool] = lambda: False

    def _create_engine(self, url: Any, options: dict[str, Any]) -> Engine:
        arguments = {**self.dialect.connect_args(), **options.pop("connect_args", {})}
        # Parameters are what users store; they do not belong into messages.
        defaults = {"hide_parameters": True, **self.dialect.engine_options(make_url(url))}
        try:
            return create_engine(url, connect_args=arguments, **{**defaults, **options})
        except (ArgumentError, NoSuchModuleError) as error:
            raise _refused(url, error) from None
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{_shown(url)} needs a driver that is not installed ({error}); "
                f'install it with: pip install "goscheduler[{self.dialect.extra}]"',
                name=error.name,
            ) from error

    def open(self, rows: RowCodec) -> None:
        """Open the store, and check that the database answers.

        :raises StoreUnavailable: if it cannot be reached at the moment
        """
        self._rows = rows
        with self.reaching(), self.reading() as connection:
            self.dialect.check_version(connection)

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise errors of this package if the database cannot be reached or refuses the login."""
        try:
            yield
        except (OperationalError, PoolTimeout) as error:
            if self.dialect.is_refusal(error):
                raise GoSchedulerError(f"{_shown(self.engine.url)} refuses us: {_cause(error)}") from error
            raise StoreUnavailable(f"{_shown(self.engine.url)} cannot be reached: {_cause(error)}") from error

    def is_outage(self, error: BaseException) -> bool:
        """Tell whether a connection was lost or could not be made, or conflicts lasted too long."""
        if isinstance(error, PoolTimeout):
            return True
        if not isinstance(error, DBAPIError):
            return False
        # A failed connection attempt has no statement.
        unconnected = isinstance(error, OperationalError) and error.statement is None
        lost = error.connection_invalidated or self.dialect.is_retryable(error) or self.dialect.is_outage(error)
        return lost or (unconnected and not self.dialect.is_refusal(error))

    def close(self) -> None:
        """Close the connections and stop the threads."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        self._watchdog.stop()
        if self._owns_engine:
            self.engine.dispose()

    def after_fork(self) -> None:
        """Leave the connections to the parent, if this process is a forked child."""
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._watchdog, self._stop_listening = Watchdog(), None
            self._is_listening = lambda: False
            self.dialect.after_fork()
            self.engine.dispose(close=False)

    def listen(self, reader: Any, wake: Callable[[], None], warn: Callable[[str], None]) -> None:
        """Call ``wake`` when another process has something new that ``reader`` did not see, where that can be."""
        heard = self.dialect.listen(self.engine, self._tables, reader, wake, warn)
        if heard is not None:
            self._stop_listening, self._is_listening = heard.stop, heard.is_complete

    @property
    def is_listening(self) -> bool:
        """Whether changes by other processes arrive without polling."""
        return self._is_listening()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection for reading."""
        with self._connected(writes=False, seconds=CALL_SECONDS) as connection:
            self.dialect.begin_reading(connection)
            yield connection

    @contextmanager
    def searching(self) -> Iterator[Connection]:
        """Give a connection for questions whose best plan depends on what is looked for."""
        with self.reading() as connection, self.dialect.planning_anew(connection):
            yield connection

    def set_lease(self, lease: float) -> None:
        """Set the length of a lease in seconds."""
        before = self.dialect.idle_seconds
        self.dialect.set_lease(lease)
        if self._owns_engine and self.dialect.idle_seconds != before:
            self.engine.dispose()  # connections that have other limits

    def write(
        self, step: Callable[[StoreContext], T], seconds: float = CALL_SECONDS, first: bool = False
    ) -> T:
        """Commit ``step`` and return its result; it may be called more than once.

        A short write that cannot wait goes ``first``, where one process writes at a time.

        :raises UnknownOutcome: if the connection broke during the commit
        """
        tries_left = TRIES
        while True:
            try:
                return self._write_once(step, seconds, first)
            except MissingLimitsError as missing:
                self._add_limits(missing.names)
            except DBAPIError as error:
                tries_left = self._tries_after(error, tries_left)
                if not tries_left:
                    raise

    def _tries_after(self, error: DBAPIError, tries_left: int) -> int:
        """Return how often a transaction may be tried again that has failed, and so has written nothing."""
        if self.dialect.is_retryable(error):
            return tries_left - 1
        # Once: a process that stands still again, or a step that takes so long, would keep its caller waiting.
        return min(tries_left - 1, 1) if self.dialect.has_ended_idle(error) else 0

    def _add_limits(self, names: Collection[str]) -> None:
        """Add limits that are used for the first time."""
        if not self.dialect.skips_locked:
            self.write(lambda context: add_limits(context, names))
            return
        # Each commits by itself, so that no process that adds the same limit waits for this one.
        with self._connected(writes=True, seconds=CALL_SECONDS) as connection:
            committing = connection.execution_options(isolation_level="AUTOCOMMIT")
            add_limits(self._context(committing), names)

    def _write_once(self, step: Callable[[StoreContext], T], seconds: float, first: bool) -> T:
        with self._connected(writes=True, seconds=seconds, first=first) as connection:
            transaction = connection.begin()
            try:
                self.dialect.begin(connection, self._tables)
                result = step(self._context(connection))
            except BaseException:
                transaction.rollback()
                raise
            self._commit(transaction)
            return result

    def write_batch(self, step: Callable[[StoreContext], None]) -> bool:
        """Write what ``step`` writes without reading anything, in one round trip.

        False if nothing was written: the database takes no batches, a row was locked, or a statement aborted the batch.

        :raises UnknownOutcome: if the connection broke before the answer
        """
        if not self.dialect.takes_batches(self.engine):
            return False
        with self._connected(True, CALL_SECONDS, isolation_level="AUTOCOMMIT") as connection:
            batch: Any = StatementBatch(connection)
            self.dialect.begin(batch, self._tables)
            step(self._context(batch))
            try:
                batch.send()
            except connection.dialect.loaded_dbapi.Error as error:
                if not batch.recover(error):
                    raise _unknown(error) from error
                if error.sqlstate in NOT_WRITTEN:
                    return False
                is_taken = isinstance(error, connection.dialect.loaded_dbapi.IntegrityError)
                raise (IntegrityError if is_taken else DBAPIError)(None, None, error) from error
            return True

    def _context(self, connection: Connection) -> StoreContext:
        assert self._rows is not None, "the store was not started"
        return StoreContext(connection, self._tables, self.dialect, self._rows)

    @contextmanager
    def _connected(
        self, writes: bool, seconds: float, first: bool = False, **options: Any
    ) -> Iterator[Connection]:
        with (
            self.dialect.turn(writes, first),
            self.engine.connect() as connection,
            self._watchdog.over(connection, seconds),
        ):
            yield connection.execution_options(writes=writes, first=first, **options)

    def _commit(self, transaction: Any) -> None:
        try:
            transaction.commit()
        except DBAPIError as error:
            if self.dialect.is_retryable(error) or self.dialect.has_ended_idle(error, committing=True):
                raise
            raise _unknown(error) from error


def _unknown(error: BaseException) -> UnknownOutcome:
    return UnknownOutcome(f"The outcome of this write is unknown: {_cause(error)}")


def _dialect(url: Any) -> Dialect:
    if isinstance(url, str):
        require_clear_login(url, first_at=True)
    try:
        return dialect_of(url)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise _refused(url, error if isinstance(error, SQLAlchemyError) else "its port is no number") from None


def _refused(url: Any, reason: object) -> InvalidArgument:
    text = f"url must be a database URL such as sqlite:///jobs.db, got {_shown(url)}"
    return InvalidArgument(f"{text}: {_meant(_shown(url)) or reason}", field="url")


def _meant(url: str) -> str | None:
    """Return what was probably meant by a URL that SQLAlchemy refuses, as a question."""
    backend, _, rest = url.partition("://")
    if backend.startswith("sqlite") and rest and not rest.startswith("/"):
        return f"did you mean {backend}:///{rest}?"
    backend = backend.partition("+")[0]
    near = None if backend in _BACKENDS else nearest(backend, _BACKENDS)
    return near and f"did you mean {near}://?"


def _shown(url: Any) -> str:
    """Return a URL without its secrets."""
    return masked(url.render_as_string(hide_password=True) if isinstance(url, URL) else str(url))


def _cause(error: BaseException) -> str:
    """Return what the driver has to say, on one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]
