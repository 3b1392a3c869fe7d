"""What the SQL store has to know about a database, and nothing else does.

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

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sqlalchemy import Column, Table, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from goscheduler.jobstores.sqlalchemy.bulk import Changes, Columns, Names, rows_of
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import ChangeListener
from goscheduler.jobstores.sqlalchemy.tables import TURN, Tables

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy.due_work import DueWorkReader

#: How long a connection may take to be made, and how long one statement may take, in seconds. A lease lasts 30.
CONNECT_SECONDS = 5
CALL_SECONDS = 7
#: For what share of a lease a transaction may stand still before the server ends it, and the least of it in seconds.
IDLE_SHARE = 1 / 4
MIN_IDLE_SECONDS = 0.5


class Dialect:
    """A database of which nothing is known but that it has transactions: one writer at a time."""

    extra = "sqlalchemy"
    """What brings its driver."""
    skips_locked = False
    locks_neighbours = False
    """Whether a query that finds rows by an index and locks them may also lock one beside them."""
    now: ColumnElement[Any] | None = None
    """The present moment in microseconds, as the database knows it."""

    idle_seconds = float(CALL_SECONDS)
    """For how long a transaction may stand still, where the server can end it: its rows are locked meanwhile."""

    def set_lease(self, lease: float) -> None:
        """Take in how long a lease is, in seconds: whoever uses a short one does not want to wait long for the dead."""
        self.idle_seconds = min(float(CALL_SECONDS), max(MIN_IDLE_SECONDS, lease * IDLE_SHARE))

    def connect_args(self) -> dict[str, Any]:
        """Return what the driver is given beside the URL."""
        return {}

    def engine_options(self, url: URL) -> dict[str, Any]:
        """Return how the engine is made."""
        return {}

    def adopt(self, engine: Engine) -> Engine:
        """Return an engine that somebody else has made, as it is used here."""
        return engine

    def prepare(self, engine: Engine) -> None:
        """Set up what every connection needs."""

    def tune(self, engine: Engine) -> None:
        """Set up what makes the connections of an engine of our own quicker."""

    def after_fork(self) -> None:
        """Forget what belongs to the parent of a forked child."""

    def check_version(self, connection: Connection) -> None:
        """Raise if the server is too old."""
        connection.execute(select(literal_column("1")))

    def is_refusal(self, error: Exception) -> bool:
        """Tell whether the server answers, and does not want us: another try would be in vain."""
        return False

    def warnings(self, connection: Connection) -> list[str]:
        """Return what is unsafe about the settings of the database."""
        return []

    def takes_batches(self, engine: Engine) -> bool:
        """Tell whether several statements can be sent in one round trip."""
        return False

    def begin_reading(self, connection: Connection) -> None:
        """Begin to read. Each statement may see what was written since the one before."""
        connection.begin()

    @contextmanager
    def turn(self, writes: bool, first: bool = False) -> Iterator[None]:
        """Wait, in this process, until a connection may be used; what goes ``first`` waits for no other that writes."""
        yield

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Begin to write. Where rows that others have locked cannot be skipped, it keeps off all others who do."""
        turn = tables.meta.c.name == TURN
        connection.execute(update(tables.meta).where(turn).values(value=tables.meta.c.value + 1))

    def is_retryable(self, error: DBAPIError) -> bool:
        """Tell whether a transaction failed only because another one was in its way."""
        return False

    def notify(self, connection: Connection, tables: Tables, us_too: bool = False) -> None:
        """Tell the other processes, and ours if wanted, that there is something new, once it is written."""

    def listen(
        self, engine: Engine, tables: Tables, reader: DueWorkReader,
        wake: Callable[[], None], warn: Callable[[str], None],
    ) -> ChangeListener | None:  # fmt: skip
        """Call ``wake`` when somebody else has something new that ``reader`` did not see; None if none can tell."""
        return None

    def column_in(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        """Return the condition that a column has one of the values, of which there may be thousands."""
        return column.in_(list(values))

    def fetch(self, connection: Connection, query: Any) -> Iterable[Sequence[Any]]:
        """Return the rows of a query, of which there may be many."""
        return connection.execute(query).all()

    def insert_rows(self, connection: Connection, table: Table, columns: Columns, once: bool = False) -> None:
        """Add rows. With ``once``, a row that is there already is left alone."""
        if columns:
            connection.execute(insert(table), rows_of(columns))

    def delete_rows(self, connection: Connection, key: Column[Any], keys: Collection[str], *which: Any) -> int:
        """Remove the rows that have these keys and for which conditions hold; return how many there were."""
        if not keys:
            return 0
        return connection.execute(delete(key.table).where(self.column_in(key, keys), *which)).rowcount

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Changes], added: Names = (), kept: Names = ()
    ) -> None:
        """Set in each row, found by its ``id``, the other columns to what is given; all rows give the same ones.

        What is given for a column in ``added`` is added to what is there; in ``kept``, None changes nothing.
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
