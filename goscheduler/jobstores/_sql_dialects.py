"""What the SQL store has to know about each database, and nothing else does.

================  =======================  =====================================  ===================  =================
database          a job is fired by one    runs are counted by one                the present moment   hears of changes
                  because of               because of
================  =======================  =====================================  ===================  =================
SQLite            ``BEGIN IMMEDIATE``      ``BEGIN IMMEDIATE``                    this machine's       by polling
PostgreSQL        ``SKIP LOCKED``          an advisory lock, shared by those who  the server's         by ``LISTEN``,
                                           add and end runs                                            else by polling
MySQL, MariaDB    ``SKIP LOCKED``          a row of ``meta``, locked in the same  the server's         by polling
                                           way
any other         a row of ``meta``, which every writer changes first             this machine's       by polling
================  =======================  =====================================  ===================  =================
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any
from uuid import uuid4
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    Table,
    bindparam,
    event,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import ColumnElement

from goscheduler.errors import GoSchedulerError
from goscheduler.jobstores._sql_listening import Listener, tell
from goscheduler.jobstores._sql_tables import TURN, Tables

#: How long a connection may take to be made, and how long one statement may take, in seconds. A lease lasts 30.
CONNECT_SECONDS = 5
CALL_SECONDS = 7

_ONCE = " ON CONFLICT DO NOTHING"

Row = Mapping[str, Any]
Names = Collection[str]


class Dialect:
    """A database of which nothing is known but that it has transactions: one writer at a time."""

    extra = "sqlalchemy"
    """What brings its driver."""
    skips_locked = False
    now: ColumnElement[Any] | None = None
    """The present moment in microseconds, as the database knows it."""

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

    @contextmanager
    def turn(self, writes: bool) -> Iterator[None]:
        """Wait, in this process, until a connection may be used."""
        yield

    def begin(self, connection: Connection, tables: Tables, alone: bool | None) -> None:
        """Begin to write. What starts or ends runs gives ``alone``: True keeps off all others that do, until the end of
        the transaction, and False those that want to be alone."""
        turn = tables.meta.c.name == TURN
        connection.execute(update(tables.meta).where(turn).values(value=tables.meta.c.value + 1))

    def may_try_again(self, error: DBAPIError) -> bool:
        """Tell whether a transaction failed only because another one was in its way."""
        return False

    def notify(self, connection: Connection, tables: Tables, us_too: bool = False) -> None:
        """Tell the other processes, and ours if wanted, that there is something new, once it is written."""

    def listen(
        self, engine: Engine, tables: Tables, wake: Callable[[], None], warn: Callable[[str], None]
    ) -> Listener | None:
        """Call ``wake`` whenever somebody else tells of something new; None if that cannot be heard."""
        return None

    def among(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        """Return the condition that a column has one of the values, of which there may be thousands."""
        return column.in_(list(values))

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Row], once: bool = False) -> None:
        """Add rows, all of which give the same columns. With ``once``, a row that is there already is left alone."""
        if rows:
            connection.execute(insert(table), list(rows))

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Row], added: Names = (), kept: Names = ()
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


class SQLite(Dialect):
    def __init__(self, url: URL) -> None:
        self._in_memory = url.database in (None, "", ":memory:") or "mode=memory" in str(url)
        # A thread that finds the file locked by another one sleeps and looks again; a lock wakes it at once.
        self._lock = threading.Lock()

    def connect_args(self) -> dict[str, Any]:
        return {"timeout": CONNECT_SECONDS, "check_same_thread": False}

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {"poolclass": StaticPool} if self._in_memory else {"pool_timeout": CONNECT_SECONDS}

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # or the driver would begin transactions when it sees fit
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.close()

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            writes = connection.get_execution_options().get("writes", True)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    @contextmanager
    def turn(self, writes: bool) -> Iterator[None]:
        if writes or self._in_memory:
            with self._lock:
                yield
        else:
            yield

    def begin(self, connection: Connection, tables: Tables, alone: bool | None) -> None:
        """Nothing more: the transaction was begun as the only one that writes."""

    def among(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Row], once: bool = False) -> None:
        if rows:
            columns, values = _filled(rows)
            marks = ", ".join("?" * len(columns))
            connection.exec_driver_sql(
                f"INSERT INTO {_named(connection, table)} ({_listed(connection, columns)}) VALUES ({marks})"
                f"{_ONCE if once else ''}",
                values,
            )

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Row], added: Names = (), kept: Names = ()
    ) -> None:
        if rows:
            columns = [name for name in rows[0] if name != "id"]
            sets = _changes(connection, columns, added, kept, "?")
            connection.exec_driver_sql(
                f"UPDATE {_named(connection, table)} SET {sets} WHERE id = ?",
                [(*(row[name] for name in columns), row["id"]) for row in rows],
            )


class PostgreSQL(Dialect):
    extra = "postgresql"
    skips_locked = True
    now = literal_column("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)", BigInteger)

    def __init__(self) -> None:
        self._me = uuid4().hex

    def connect_args(self) -> dict[str, Any]:
        return {
            "connect_timeout": CONNECT_SECONDS,
            "options": f"-c statement_timeout={CALL_SECONDS}s -c idle_in_transaction_session_timeout={CALL_SECONDS}s",
            "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
            "tcp_user_timeout": CALL_SECONDS * 1000,
        }  # fmt: skip

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {"isolation_level": "READ COMMITTED", "pool_timeout": CONNECT_SECONDS}

    def warnings(self, connection: Connection) -> list[str]:
        if connection.exec_driver_sql("SHOW synchronous_commit").scalar() != "off":
            return []
        return ["synchronous_commit is off: what was written last is lost when the server crashes"]

    def adopt(self, engine: Engine) -> Engine:
        return engine.execution_options(isolation_level="READ COMMITTED")

    def is_refusal(self, error: Exception) -> bool:
        return any(word in str(error) for word in ("authentication failed", "does not exist", "permission denied"))

    def begin(self, connection: Connection, tables: Tables, alone: bool | None) -> None:
        if alone is not None:
            kind = "" if alone else "_shared"
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock{kind}({_number_of(tables)})")

    def notify(self, connection: Connection, tables: Tables, us_too: bool = False) -> None:
        tell(connection, _channel(tables), "" if us_too else self._me)

    def listen(
        self, engine: Engine, tables: Tables, wake: Callable[[], None], warn: Callable[[str], None]
    ) -> Listener | None:
        if engine.dialect.driver != "psycopg":
            return None
        listener = Listener(engine, _channel(tables), self._me, wake, warn)
        if listener.start():
            return listener
        warn("NOTIFY does not arrive, as behind a pooler of transactions; changes of others are looked for by polling")
        return None

    def may_try_again(self, error: DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in ("40P01", "40001")

    def among(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        each = text("ARRAY(SELECT json_array_elements_text(CAST(:those AS JSON)))")
        return column == func.any(each.bindparams(those=json.dumps(list(values))))

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Row], once: bool = False) -> None:
        if rows:
            columns, values = _filled(rows)
            connection.exec_driver_sql(
                f"INSERT INTO {_named(connection, table)} ({_listed(connection, columns)}) "
                f"SELECT * FROM {_given_rows(connection, table, columns)}{_ONCE if once else ''}",
                _by_column(values),
            )

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Row], added: Names = (), kept: Names = ()
    ) -> None:
        if rows:
            columns = list(rows[0])
            sets = _changes(connection, columns, added, kept, "new.{}", "old.")
            connection.exec_driver_sql(
                f"UPDATE {_named(connection, table)} AS old SET {sets} "
                f"FROM {_given_rows(connection, table, columns)} WHERE old.id = new.id",
                _by_column([tuple(row.values()) for row in rows]),
            )


class MySQL(Dialect):
    extra = "mysql"
    skips_locked = True
    now = literal_column(
        "CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS SIGNED)", BigInteger
    )

    def connect_args(self) -> dict[str, Any]:
        return {"connect_timeout": CONNECT_SECONDS, "read_timeout": CALL_SECONDS, "write_timeout": CALL_SECONDS}

    def engine_options(self, url: URL) -> dict[str, Any]:
        # Rows that a statement only looked at must not stay locked, and no gaps between them.
        return {"isolation_level": "READ COMMITTED", "pool_timeout": CONNECT_SECONDS}

    def warnings(self, connection: Connection) -> list[str]:
        value = connection.exec_driver_sql("SELECT @@innodb_flush_log_at_trx_commit").scalar()
        if value == 1:
            return []
        return [f"innodb_flush_log_at_trx_commit is {value}: what was written last is lost when the machine crashes"]

    def adopt(self, engine: Engine) -> Engine:
        return engine.execution_options(isolation_level="READ COMMITTED")

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def connected(connection: Any, _record: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                if "MariaDB" in str(cursor.fetchone()[0]):
                    # Who stands still in the middle of a transaction must not keep the others off for long.
                    cursor.execute(f"SET SESSION idle_transaction_timeout = {CALL_SECONDS}")

    def check_version(self, connection: Connection) -> None:
        version = connection.dialect.server_version_info or (0,)
        oldest = (10, 6) if getattr(connection.dialect, "is_mariadb", False) else (8, 0, 4)
        if tuple(version[:3]) < oldest:
            raise GoSchedulerError(
                f"The server is too old: MariaDB 10.6 or MySQL 8.0.4 is needed, this is {'.'.join(map(str, version))}"
            )

    def is_refusal(self, error: Exception) -> bool:
        return _mysql_code(error) in (1044, 1045, 1049, 1698)

    def begin(self, connection: Connection, tables: Tables, alone: bool | None) -> None:
        if alone is not None:
            how = "FOR UPDATE" if alone else "LOCK IN SHARE MODE"
            meta = _named(connection, tables.meta)
            connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE name = '{TURN}' {how}")

    def may_try_again(self, error: DBAPIError) -> bool:
        return _mysql_code(error) in (1213, 1205)

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Row], once: bool = False) -> None:
        if rows:
            columns, values = _filled(rows)
            marks = ", ".join(["%s"] * len(columns))
            insert_into = "INSERT IGNORE INTO" if once else "INSERT INTO"
            connection.exec_driver_sql(
                f"{insert_into} {_named(connection, table)} ({_listed(connection, columns)}) VALUES ({marks})",
                values,
            )

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Row], added: Names = (), kept: Names = ()
    ) -> None:
        if rows:
            columns = list(rows[0])
            sets = _changes(connection, columns, added, kept, "newer.new_{}")
            connection.exec_driver_sql(
                f"UPDATE {_named(connection, table)} JOIN {_json_table(connection, table, columns)} AS newer "
                f"ON id = newer.new_id SET {sets}",
                (_encode([tuple(row.values()) for row in rows]),),
            )


def dialect_of(url: str | URL) -> Dialect:
    """Return what is known about the database of a URL."""
    url = make_url(url)
    backend = url.get_backend_name()
    if backend == "sqlite":
        return SQLite(url)
    return {"postgresql": PostgreSQL, "mysql": MySQL, "mariadb": MySQL}.get(backend, Dialect)()


def _mysql_code(error: Exception) -> Any:
    arguments = getattr(getattr(error, "orig", None), "args", None)
    return arguments[0] if arguments else None


def _channel(tables: Tables) -> str:
    return f"goscheduler_{_number_of(tables)}"


def _named(connection: Connection, table: Table) -> str:
    return str(connection.dialect.identifier_preparer.format_table(table))


def _quoted(connection: Connection, names: Sequence[str]) -> list[str]:
    return [connection.dialect.identifier_preparer.quote(name) for name in names]


def _listed(connection: Connection, names: Sequence[str]) -> str:
    return ", ".join(_quoted(connection, names))


def _given_rows(connection: Connection, table: Table, columns: Sequence[str]) -> str:
    """Return rows, called ``new``, that are made of one JSON text a column: the driver takes long for real arrays."""
    names = _quoted(connection, columns)
    types = [table.c[name].type.compile(connection.dialect).partition(" COLLATE")[0] for name in columns]
    casts = ", ".join(f"CAST({name} AS {type_name}) AS {name}" for name, type_name in zip(names, types, strict=True))
    texts = ", ".join(["json_array_elements_text(CAST(%s AS JSON))"] * len(columns))
    return f"(SELECT {casts} FROM ROWS FROM ({texts}) AS given ({', '.join(names)})) AS new"


def _by_column(rows: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
    return tuple(map(_encode, zip(*rows, strict=True)))


def _filled(rows: Sequence[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns in which at least one row has something, and the rows: empty ones need not be sent."""
    empty = [name for name, value in rows[0].items() if value is None and all(row[name] is None for row in rows)]
    columns = [name for name in rows[0] if name not in empty]
    return columns, list(map(itemgetter(*columns), rows))


_encode = json.JSONEncoder(separators=(",", ":")).encode


def _changes(
    connection: Connection, columns: Sequence[str], added: Names, kept: Names, form: str, old: str = ""
) -> str:
    """Return the assignments of an update. ``form`` says how a new value is written, ``old`` goes before an old one."""
    changes = []
    for name in _quoted(connection, columns):
        value = form.format(name)
        if name in added:
            value = f"{old}{name} + {value}"
        elif name in kept:
            value = f"COALESCE({value}, {old}{name})"
        if name != "id":
            changes.append(f"{name} = {value}")
    return ", ".join(changes)


def _json_table(connection: Connection, table: Table, columns: Sequence[str]) -> str:
    """Return a table that is made of a JSON text, a list of lists; its columns have ``new_`` before their names."""
    types = [table.c[name].type.compile(connection.dialect) for name in columns]
    names = _quoted(connection, columns)
    paths = ", ".join(
        f"new_{name} {type_name} PATH '$[{number}]'"
        for number, (name, type_name) in enumerate(zip(names, types, strict=True))
    )
    return f"JSON_TABLE(%s, '$[*]' COLUMNS ({paths}))"


def _number_of(tables: Tables) -> int:
    """Return a number for the advisory lock of these tables."""
    return crc32(f"goscheduler {tables.meta.fullname}".encode())
