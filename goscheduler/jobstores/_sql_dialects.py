"""What the SQL store has to know about each database, and nothing else does.

================  ==============================  =====================================  ==========================
database          others are kept off by          the present moment                     hears of changes by
================  ==============================  =====================================  ==========================
SQLite            ``BEGIN IMMEDIATE``             this machine's clock                   polling
PostgreSQL        ``FOR UPDATE SKIP LOCKED``      ``clock_timestamp()``                  ``LISTEN``, else polling
MySQL, MariaDB    ``FOR UPDATE SKIP LOCKED``      ``SYSDATE(6)`` as UTC                  polling
any other         rows compared when written      this machine's clock                   polling
================  ==============================  =====================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Table, bindparam, delete, event, insert, literal_column, text, update
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.sql.elements import ColumnElement

from goscheduler.jobstores._sql_tables import Tables

#: How many values one statement may name.
AT_ONCE = 1000


class Dialect:
    """A database of which nothing is known: rows are compared when they are written."""

    skips_locked = False
    exclusive = False
    """Whether one writer at a time has the whole database for itself."""
    now: ColumnElement[Any] | None = None
    """The present moment in microseconds, as the database knows it."""
    connect_args: Mapping[str, Any] = {}
    engine_options: Mapping[str, Any] = {}

    def prepare(self, engine: Engine) -> None:
        """Set up what every connection needs."""

    def notify(self, connection: Connection, tables: Tables) -> None:
        """Tell the other processes, when the transaction is written, that there is something new."""

    def listen(self, engine: Engine, tables: Tables, wake: Callable[[], None]) -> bool:
        """Call ``wake`` whenever somebody tells of something new; false if that cannot be heard."""
        return False

    def update_rows(self, connection: Connection, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Set in each row, found by its ``key``, the other columns to what is given; all rows give the same ones."""
        if rows:
            columns = [name for name in rows[0] if name != key]
            statement = (
                update(table)
                .where(table.c[key] == bindparam(f"key_{key}"))
                .values({name: bindparam(f"new_{name}") for name in columns})
            )
            connection.execute(
                statement, [{f"key_{key}": row[key], **{f"new_{name}": row[name] for name in columns}} for row in rows]
            )

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows."""
        if rows:
            connection.execute(insert(table), list(rows))

    def upsert(self, connection: Connection, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Set rows, whether or not they are there."""
        for row in rows:
            connection.execute(delete(table).where(table.c[key] == row[key]))
        self.insert_rows(connection, table, rows)


class SQLite(Dialect):
    exclusive = True
    connect_args: Mapping[str, Any] = {"timeout": 5.0}

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # or the driver would begin transactions when it sees fit
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.close()

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            writes = connection.get_execution_options().get("writes", True)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class PostgreSQL(Dialect):
    skips_locked = True
    now = literal_column("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)", BigInteger)

    def update_rows(self, connection: Connection, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        columns = list(rows[0])
        types = {name: table.c[name].type.compile(connection.dialect) for name in columns}
        arrays = ", ".join(f"CAST(:{name} AS {_array_of(types[name])})" for name in columns)
        quoted = connection.dialect.identifier_preparer
        sets = ", ".join(f"{quoted.quote(name)} = new.{quoted.quote(name)}" for name in columns if name != key)
        names = ", ".join(quoted.quote(name) for name in columns)
        connection.execute(
            text(
                f"UPDATE {quoted.format_table(table)} AS old SET {sets} "
                f"FROM unnest({arrays}) AS new({names}) WHERE old.{quoted.quote(key)} = new.{quoted.quote(key)}"
            ),
            {name: [row[name] for row in rows] for name in columns},
        )

    def insert_rows(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        columns = list(rows[0])
        types = {name: table.c[name].type.compile(connection.dialect) for name in columns}
        arrays = ", ".join(f"CAST(:{name} AS {_array_of(types[name])})" for name in columns)
        quoted = connection.dialect.identifier_preparer
        names = ", ".join(quoted.quote(name) for name in columns)
        connection.execute(
            text(f"INSERT INTO {quoted.format_table(table)} ({names}) SELECT * FROM unnest({arrays})"),
            {name: [row[name] for row in rows] for name in columns},
        )


class MySQL(Dialect):
    skips_locked = True
    now = literal_column(
        "CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS SIGNED)", BigInteger
    )
    connect_args: Mapping[str, Any] = {"connect_timeout": 5, "read_timeout": 7, "write_timeout": 7}
    # Rows that a statement only looked at must not stay locked, and no gaps between them.
    engine_options: Mapping[str, Any] = {"isolation_level": "READ COMMITTED"}


def dialect_of(url: Any) -> Dialect:
    """Return what is known about the database of a URL."""
    return _DIALECTS.get(make_url(url).get_backend_name(), Dialect)()


_DIALECTS: Mapping[str, type[Dialect]] = {
    "sqlite": SQLite,
    "postgresql": PostgreSQL,
    "mysql": MySQL,
    "mariadb": MySQL,
}


def _array_of(type_name: str) -> str:
    return f"{type_name.split('(')[0]}[]"
