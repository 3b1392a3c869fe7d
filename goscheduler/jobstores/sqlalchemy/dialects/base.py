"""The port between the SQL store and one kind of database.

================  =======================  =====================================  ===================  =================
database          a job is fired by one    runs are counted by one                the present moment   hears of changes
                  because of               because of
================  =======================  =====================================  ===================  =================
SQLite            ``BEGIN IMMEDIATE``      ``BEGIN IMMEDIATE``                    this machine's       by watching the
                                                                                                       file
PostgreSQL        ``SKIP LOCKED``          the rows of their jobs and limits,     the server's         by ``LISTEN``,
                                           by ``SKIP LOCKED``                                          else by polling
MySQL, MariaDB    ``SKIP LOCKED``          the same                               the server's         by asking often
any other         a row of ``meta``, which every writer changes first             this machine's       by polling
================  =======================  =====================================  ===================  =================
Each of those that are known has a module of its own; :mod:`goscheduler.jobstores.sqlalchemy.dialects` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sqlalchemy import Column, Table, bindparam, delete, func, insert, literal_column, select, text, update
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from goscheduler.jobstores.sqlalchemy.bulk import Changes, Columns, Names, rows_of, table_name
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import ChangeListener
from goscheduler.jobstores.sqlalchemy.tables import TURN, Tables

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy.due_work import DueWorkReader

#: Time limits of a connection attempt and of one statement. A lease lasts 30 seconds by default.
CONNECT_SECONDS = 5
CALL_SECONDS = 7
#: The server ends a transaction that is idle for this share of a lease, but for no less than these seconds.
IDLE_SHARE = 1 / 4
MIN_IDLE_SECONDS = 0.5
#: Keys in one search for waiting runs.
MAX_KEYS_PER_STATEMENT = 50


class Dialect:
    """Any database with transactions: one writer at a time."""

    extra = "sqlalchemy"
    """The extra of this package that installs the driver."""
    skips_locked = False
    locks_neighbours = False
    """Whether a query that finds rows by an index and locks them may also lock one beside them."""
    now: ColumnElement[Any] | None = None
    """The present moment in microseconds, as the database knows it."""

    waiting_kinds: Sequence[str] = ("1 = 1",)
    """Conditions that tell apart runs that wait: an index has those of each kind in the order of their due time."""

    idle_seconds = float(CALL_SECONDS)
    """After this time the server ends an idle transaction, where it can, because that keeps rows locked."""

    def set_lease(self, lease: float) -> None:
        """Set the idle limit from the length of a lease in seconds."""
        self.idle_seconds = min(float(CALL_SECONDS), max(MIN_IDLE_SECONDS, lease * IDLE_SHARE))

    def connect_args(self) -> dict[str, Any]:
        """Return arguments for the driver beside the URL."""
        return {}

    def engine_options(self, url: URL) -> dict[str, Any]:
        """Return options for ``create_engine``."""
        return {}

    def adopt(self, engine: Engine) -> Engine:
        """Return an engine of the user with the options that the store needs."""
        return engine

    def prepare(self, engine: Engine) -> None:
        """Set up every connection of an engine."""

    def tune(self, engine: Engine) -> None:
        """Set up faster settings for connections of the store's own engine."""

    def after_fork(self) -> None:
        """Forget locks that belong to the parent of a forked child."""

    def check_version(self, connection: Connection) -> None:
        """Raise if the server is too old."""
        connection.execute(select(literal_column("1")))

    def is_refusal(self, error: Exception) -> bool:
        """Tell whether the server refuses the login, so that a retry is useless."""
        return False

    def warnings(self, connection: Connection) -> list[str]:
        """Return warnings about unsafe settings of the database."""
        return []

    def takes_batches(self, engine: Engine) -> bool:
        """Tell whether several statements can be sent in one round trip."""
        return False

    def begin_reading(self, connection: Connection) -> None:
        """Begin to read. Each statement may see what was written since the one before."""
        connection.begin()

    @contextmanager
    def planning_anew(self, connection: Connection) -> Iterator[None]:
        """Have each statement planned for its values, where one that comes again is planned for any values."""
        yield

    @contextmanager
    def turn(self, writes: bool, first: bool = False) -> Iterator[None]:
        """Wait for the other threads of this process; a write that goes ``first`` waits for no other write."""
        yield

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Begin to write. A database that cannot skip locked rows admits one writer at a time."""
        turn = tables.meta.c.name == TURN
        connection.execute(update(tables.meta).where(turn).values(value=tables.meta.c.value + 1))

    def is_retryable(self, error: DBAPIError) -> bool:
        """Tell whether a transaction failed because of a conflict with another one."""
        return False

    def has_ended_idle(self, error: DBAPIError, committing: bool = False) -> bool:
        """Tell whether the server has ended a transaction that stood still, and so certainly wrote nothing.

        An error while ``committing`` has to prove that; before that it is enough that the server closed the connection.
        """
        return False

    def is_outage(self, error: DBAPIError) -> bool:
        """Tell whether a transaction failed because the database let nobody in, though the connection is there."""
        return False

    def notify(self, connection: Connection, tables: Tables, us_too: bool = False) -> None:
        """Notify the other processes, and this one if ``us_too``, when the transaction commits."""

    def listen(
        self, engine: Engine, tables: Tables, reader: DueWorkReader,
        wake: Callable[[], None], warn: Callable[[str], None],
    ) -> ChangeListener | None:  # fmt: skip
        """Call ``wake`` when another process has added work that ``reader`` did not see; None if that is impossible."""
        return None

    def column_in(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        """Return the condition that a column has one of up to thousands of values."""
        return column.in_(list(values))

    def fetch(self, connection: Connection, query: Any) -> Iterable[Sequence[Any]]:
        """Return the rows of a query with a large result."""
        return connection.execute(query).all()

    def insert_rows(self, connection: Connection, table: Table, columns: Columns, once: bool = False) -> None:
        """Insert rows; with ``once``, keep rows that exist."""
        if columns:
            connection.execute(insert(table), rows_of(columns))

    def delete_rows(self, connection: Connection, key: Column[Any], keys: Collection[str], *which: Any) -> int:
        """Delete the rows with these keys that meet the conditions; return their number."""
        if not keys:
            return 0
        return connection.execute(delete(key.table).where(self.column_in(key, keys), *which)).rowcount

    def blocked_longest(self, connection: Connection, runs: Table, most: Mapping[str, int]) -> Iterable[Sequence[Any]]:
        """Return id and key of the runs that have been held longest under each key, no more than ``most`` of it."""
        query = select(runs.c.held).where(self.column_in(runs.c.held, sorted(most))).distinct()
        keys = sorted(connection.execute(query).scalars())
        for kind in self.waiting_kinds:
            for begin in range(0, len(keys), MAX_KEYS_PER_STATEMENT):
                portion = keys[begin : begin + MAX_KEYS_PER_STATEMENT]
                union = " UNION ALL ".join(
                    f"SELECT * FROM (SELECT id, held FROM {table_name(connection, runs)} WHERE held = :key_{number}"
                    f" AND freed IS NULL AND {kind} ORDER BY due LIMIT {most[key]}) AS held_{number}"
                    for number, key in enumerate(portion)
                )
                yield from connection.execute(text(union), {f"key_{n}": key for n, key in enumerate(portion)}).all()

    def unblock_in_batch(self, connection: Connection, tables: Tables, keys: Mapping[str, int]) -> None:
        """Unblock runs, where the database takes batches."""
        raise NotImplementedError

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Changes], added: Names = (), kept: Names = ()
    ) -> None:
        """Update rows by ``id``; all of them give the same columns.

        A value for a column in ``added`` is added to the old one. For a column in ``kept``, None keeps the old one.
        """
        if rows:
            columns = {name: table.c[name] for name in rows[0] if name != "id"}
            changes: dict[str, Any] = {name: bindparam(f"new_{name}", type_=old.type) for name, old in columns.items()}
            changes.update({name: columns[name] + changes[name] for name in added})
            changes.update({name: func.coalesce(changes[name], columns[name]) for name in kept})
            connection.execute(
                update(table).where(table.c.id == bindparam("row_id")).values(changes),
                [{"row_id": row["id"], **{f"new_{name}": row[name] for name in columns}} for row in rows],
            )


def number_of(tables: Tables) -> int:
    """Return a number that stands for these tables among all of a server."""
    return crc32(f"goscheduler {tables.meta.fullname}".encode())
