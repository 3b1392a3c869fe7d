"""Locks in a SQL database: one row a name, taken by one statement, timed by the clock of the server.

The table ``goscheduler_locks`` has ``name``, ``token``, ``fence`` and ``expires`` (microseconds since 1970, 0 when it
was released). It is made when it is first needed. A row outlives the holder for its fence, see
:mod:`goscheduler.locks.base`.

It is a row, and not an advisory lock of PostgreSQL or ``GET_LOCK`` of MySQL: those belong to a connection, so they end
when a pool or a proxy closes it, or go on when that lends it to somebody else, and they have neither time nor fence.

Each statement is a transaction of its own, so that a process that stands still in the middle keeps no row locked.
SQLite and databases of which nothing is known have no clock to ask: there that of this machine counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, finalize

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    case,
    delete,
    insert,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import Connection, Engine, Row
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import Pool
from sqlalchemy.sql.expression import ColumnElement

from goscheduler._drivers.sql_watchdog import Watchdog
from goscheduler.errors import GoSchedulerError, StoreUnavailable, described
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.dialects.by_url import dialect_of
from goscheduler.jobstores.sqlalchemy.tables import check_table_name
from goscheduler.locks.base import (
    LONGEST_CALL,
    LONGEST_KEY,
    LONGEST_TOKEN,
    HeldLock,
    LockBackend,
    holder_of,
    key_listed_as,
    key_of,
    key_prefix,
    name_of,
    new_token,
)
from goscheduler.times import SECOND, UTC, from_micros, to_micros

DEFAULT_TABLE = "goscheduler_locks"
#: How many old rows are removed at once.
SWEPT_AT_ONCE = 1000
#: How often a statement is tried that others are in the way of.
TRIES = 5

T = TypeVar("T")


class _Statements(NamedTuple):
    """What is sent, for one table. ``key``, ``token``, and ``ttl`` and ``kept`` in microseconds are given when it is;
    ``now`` is too where the database does not know it."""

    table: Table
    take: Any
    add: Any
    look: Any
    release: Any
    extend: Any
    held: Any
    end: Any
    old: Any
    forget: Any


class SQLLocks(LockBackend):
    """Keeps locks in the table ``table``, in ``schema`` if that is given."""

    def __init__(
        self, engine: Engine, table: str = DEFAULT_TABLE, schema: str | None = None, *,
        dialect: Dialect | None = None, owns_engine: bool = False,
    ) -> None:  # fmt: skip
        self._dialect = dialect or dialect_of(engine.url)
        self._engine = engine
        self._owns_engine = owns_engine
        self._commits_each = engine.dialect.name in ("postgresql", "mysql", "mariadb")
        schema = None if schema is None else check_table_name("schema", schema)
        self._send = _statements(check_table_name("table", table), schema, self._dialect.now)
        self._table = self._send.table

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        send = self._send
        values = self._values(name, token, ttl)

        def acquire(connection: Connection) -> int | None:
            if not connection.execute(send.take, values).rowcount:
                if connection.execute(send.look, values).first() is not None:
                    return None
                connection.execute(send.add, values)
            row = connection.execute(send.look, values).first()
            return int(row.fence) if row is not None and row.token == token else None

        try:
            return self._run(acquire, within)
        except IntegrityError:  # the first two to use a name came at once, and this is the second
            return None

    def release(self, name: str, token: str, within: float) -> bool:
        values = self._values(name, token)
        return self._run(lambda connection: connection.execute(self._send.release, values).rowcount > 0, within)

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        values = self._values(name, token, ttl)
        return self._run(lambda connection: connection.execute(self._send.extend, values).rowcount > 0, within)

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        first = key_prefix(prefix)
        values = self._timed({"first": first, "end": f"{first}\x7f", "most": limit})
        none: Sequence[Row[Any]] = ()
        rows = self._run(lambda connection: connection.execute(self._send.held, values).all(), within, or_else=none)
        return [
            HeldLock(name_of(row.name), row.fence, from_micros(row.expires, UTC), holder_of(row.token)) for row in rows
        ]

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        values = self._timed({"key": key_listed_as(name), "given_fence": fence, "given_token": new_token()})
        step = self._send.end
        return self._run(lambda connection: connection.execute(step, values).rowcount > 0, within, or_else=False)

    def sweep(self, within: float) -> None:
        values = self._timed({"kept": round(self.kept * SECOND)})

        def forget(connection: Connection) -> None:
            # Looked for first: MySQL locks every row that a DELETE has to look at.
            if old := connection.execute(self._send.old, values).scalars().all():
                connection.execute(self._send.forget, {**values, "names": old})

        self._run(forget, within)

    def _values(self, name: str, token: str, ttl: float = 0.0) -> dict[str, Any]:
        return self._timed({"key": key_of(name), "given_token": token, "ttl": round(ttl * SECOND)})

    def _timed(self, values: dict[str, Any]) -> dict[str, Any]:
        return values if self._dialect.now is not None else {**values, "now": to_micros(self.clock.now())}

    @property
    def server(self) -> Hashable:
        return id(self._engine.pool)

    def close(self) -> None:
        if self._owns_engine:
            self._engine.dispose()

    def _run(self, step: Callable[[Connection], T], within: float, or_else: T | None = None) -> T:
        """Return what a step returns, which may be tried more than once; ``or_else``, if given, without a table."""
        for tries_left in reversed(range(TRIES)):
            try:
                return self._run_once(step, within)
            except IntegrityError:
                raise
            except DBAPIError as error:
                if or_else is not None and _lacks_table(error):
                    return or_else
                if not tries_left or not (self._dialect.is_retryable(error) or self._made_table(error, within)):
                    raise self._explained(error) from error
            except PoolTimeout as error:
                raise StoreUnavailable("No connection to the database became free in time") from error
            except self._engine.dialect.loaded_dbapi.Error as error:  # outside of any statement
                raise StoreUnavailable(f"The database did not answer: {described(error)}") from error
        raise AssertionError("unreachable")

    def _run_once(self, step: Callable[[Connection], T], within: float) -> T:
        with self._connected(within) as connection, connection.begin():
            return step(connection)

    @contextmanager
    def _connected(self, within: float) -> Iterator[Connection]:
        with (
            self._dialect.turn(writes=True),
            self._engine.connect() as connection,
            _watchdog_of(self._engine.pool).over(connection, within),
            _hurried(connection.connection.driver_connection, within),
        ):
            yield connection.execution_options(isolation_level="AUTOCOMMIT") if self._commits_each else connection

    def _made_table(self, error: DBAPIError, within: float) -> bool:
        """Make the table if that is what was missing. Somebody else may have made it meanwhile, or do so right now."""
        if not _lacks_table(error):
            return False
        try:
            with self._connected(within) as connection, connection.begin():
                self._table.create(connection, checkfirst=True)
        except DBAPIError as problem:
            if not self._is_there(within):
                raise self._explained(problem) from problem
        return True

    def _is_there(self, within: float) -> bool:
        try:
            with self._connected(within) as connection:
                return inspect(connection).has_table(self._table.name, schema=self._table.schema)
        except DBAPIError as error:
            raise self._explained(error) from error

    def _explained(self, error: DBAPIError) -> Exception:
        """Return an error in our own words, without what was sent."""
        cause = " ".join(str(error.orig).split())[:300]
        if isinstance(error, OperationalError) and self._dialect.is_refusal(error):
            return GoSchedulerError(f"The database refuses us: {cause}")
        if error.connection_invalidated or isinstance(error, (OperationalError, InterfaceError)):
            return StoreUnavailable(f"The database did not answer: {cause}")
        return GoSchedulerError(f"The table of locks {self._table.fullname} cannot be used: {cause}")


@lru_cache(maxsize=64)
def _statements(name: str, schema: str | None, now: ColumnElement[Any] | None) -> _Statements:
    if now is None:
        now = bindparam("now", type_=BigInteger)
    table = _table(name, schema)
    rows = table.c
    token, until = bindparam("given_token", type_=String), now + bindparam("ttl", type_=BigInteger)
    ended = now - bindparam("kept", type_=BigInteger)
    old = and_(rows.expires < ended, rows.fence < ended)
    ours = and_(rows.name == bindparam("key", type_=String), rows.token == token)
    grown = case((rows.fence >= now, rows.fence + 1), else_=now)
    # MySQL sees in each assignment what those before it have done, so the fence comes first.
    take = (
        update(table)
        .where(rows.name == bindparam("key", type_=String), or_(rows.expires <= now, rows.token == token))
        .ordered_values(
            (rows.fence, case((and_(rows.token == token, rows.expires > 0), rows.fence), else_=grown)),
            (rows.token, token),
            (rows.expires, until),
        )
    )
    return _Statements(
        table,
        take,
        insert(table).values(name=bindparam("key", type_=String), token=token, fence=now, expires=until),
        select(rows.token, rows.fence).where(rows.name == bindparam("key", type_=String)),
        update(table).where(ours, or_(rows.expires > now, rows.expires == 0)).values(expires=0),
        update(table).where(ours, rows.expires > now).values(expires=until),
        select(rows.name, rows.token, rows.fence, rows.expires)
        .where(rows.name >= bindparam("first", type_=String), rows.name < bindparam("end", type_=String))
        .where(rows.expires > now)
        .order_by(rows.name)
        .limit(bindparam("most", type_=Integer)),
        update(table)
        .where(rows.name == bindparam("key", type_=String), rows.fence == bindparam("given_fence", type_=BigInteger))
        .where(rows.expires > now)
        .values(expires=0, token=token),
        select(rows.name).where(old).limit(SWEPT_AT_ONCE),
        delete(table).where(rows.name.in_(bindparam("names", expanding=True)), old),
    )


def _table(name: str, schema: str | None) -> Table:
    exact = mysql.VARCHAR(LONGEST_KEY, charset="ascii", collation="ascii_bin")
    ordered = postgresql.VARCHAR(LONGEST_KEY, collation="C")
    key = String(LONGEST_KEY).with_variant(exact, "mysql", "mariadb").with_variant(ordered, "postgresql")
    return Table(
        name,
        MetaData(schema=schema),
        Column("name", key, primary_key=True),
        Column("token", String(LONGEST_TOKEN), nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("expires", BigInteger, nullable=False),
    )


def _lacks_table(error: DBAPIError) -> bool:
    """Tell whether this is how a database says that there is no such table."""
    arguments = getattr(error.orig, "args", ())
    return (
        getattr(error.orig, "sqlstate", None) == "42P01"  # PostgreSQL
        or arguments[:1] == (1146,)  # MySQL
        or "no such table" in str(error.orig)  # SQLite
        or (type(error) is DatabaseError and not error.connection_invalidated)  # Oracle
    )


@contextmanager
def _hurried(driver: Any, within: float) -> Iterator[None]:
    """Let PyMySQL wait no longer for an answer, for once; it has no way to be asked for that."""
    if not hasattr(driver, "_read_timeout"):
        yield
        return
    usual, driver._read_timeout = driver._read_timeout, within
    try:
        yield
    finally:
        driver._read_timeout = usual


_guard = threading.Lock()
_watchdogs: WeakKeyDictionary[Pool, Watchdog] = WeakKeyDictionary()


def _watchdog_of(pool: Pool) -> Watchdog:
    """Return what ends overdue calls on the connections of a pool, and ends itself with the pool."""
    with _guard:
        watchdog = _watchdogs.get(pool)
        if watchdog is None:
            watchdog = _watchdogs[pool] = Watchdog()
            finalize(pool, watchdog.stop)
        return watchdog


def _after_fork() -> None:
    global _guard, _watchdogs
    _guard, _watchdogs = threading.Lock(), WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def of_store(store: Any, owns_engine: bool = False) -> LockBackend:
    """Return the locks beside the tables of a job store."""
    database, meta = store._database, store._tables.meta
    name = f"{meta.name.removesuffix('_meta')}_locks"
    return SQLLocks(database.engine, name, meta.schema, dialect=database.dialect, owns_engine=owns_engine)


def of_url(store: Any) -> LockBackend:
    """Return the locks beside the tables of a job store that was made for nothing else."""
    return of_store(store, owns_engine=True)


def of_client(engine: Engine) -> LockBackend:
    """Return the locks in the usual table of the database of an engine."""
    return SQLLocks(engine)
