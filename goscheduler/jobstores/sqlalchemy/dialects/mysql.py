"""MySQL and MariaDB: SKIP LOCKED, and statements of literals because PyMySQL is slow for parameters and rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    Table,
    and_,
    bindparam,
    event,
    false,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import UserDefinedType

from goscheduler.errors import GoSchedulerError
from goscheduler.jobstores.sqlalchemy.bulk import (
    Batch,
    Changes,
    Columns,
    Names,
    RowSource,
    assignments,
    quote_identifiers,
    table_name,
    types_of,
)
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS, CONNECT_SECONDS, Dialect
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import ChangeListener
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.watcher import PeekCursor, Watcher

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy.due_work import DueWorkReader

#: Servers take statements of 16 or 64 megabytes by default.
MAX_STATEMENT_BYTES = 1_000_000
#: A longer answer comes row by row.
MAX_ANSWER_BYTES = 8_000_000
#: The pause between two polls: the server cannot notify.
WATCH_SECONDS = 0.15


class MySQL(Dialect):
    extra = "mysql"
    skips_locked = True
    locks_neighbours = True
    waiting_kinds = ("cancel IS NULL", "cancel IS NOT NULL")
    now = literal_column(
        "CAST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS SIGNED)", BigInteger
    )

    def connect_args(self) -> dict[str, Any]:
        return {"connect_timeout": CONNECT_SECONDS, "read_timeout": CALL_SECONDS, "write_timeout": CALL_SECONDS}

    def engine_options(self, url: URL) -> dict[str, Any]:
        # Rows that a statement only looked at must not stay locked, and no gaps between them.
        options = {"isolation_level": "READ COMMITTED", "pool_timeout": CONNECT_SECONDS}
        # Every transaction is ended before its connection is given back: one more word with the server is not needed.
        return {**options, "pool_reset_on_return": None}

    def warnings(self, connection: Connection) -> list[str]:
        value = connection.exec_driver_sql("SELECT @@innodb_flush_log_at_trx_commit").scalar()
        if value == 1:
            return []
        return [f"innodb_flush_log_at_trx_commit is {value}: a crash of the machine loses the last commits"]

    def adopt(self, engine: Engine) -> Engine:
        return engine.execution_options(isolation_level="READ COMMITTED")

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def connected(connection: Any, _record: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT VERSION()")
                is_mariadb = "MariaDB" in str(cursor.fetchone()[0])
                cursor.execute(f"SET SESSION group_concat_max_len = {MAX_ANSWER_BYTES}")
                if is_mariadb:
                    # A process that stands still in a transaction must not block the others for long.
                    cursor.execute(f"SET SESSION idle_transaction_timeout = {math.ceil(self.idle_seconds)}")

    def check_version(self, connection: Connection) -> None:
        version = connection.dialect.server_version_info or (0,)
        oldest = (10, 6) if _is_mariadb(connection) else (8, 0, 17)
        if tuple(version[:3]) < oldest:
            raise GoSchedulerError(
                f"The server is too old: MariaDB 10.6 or MySQL 8.0.17 is needed, this is {'.'.join(map(str, version))}"
            )

    def is_refusal(self, error: Exception) -> bool:
        return _mysql_code(error) in (1044, 1045, 1049, 1698)

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Nothing more: rows are locked one by one."""

    def listen(
        self, engine: Engine, tables: Tables, reader: DueWorkReader,
        wake: Callable[[], None], warn: Callable[[str], None],
    ) -> ChangeListener | None:  # fmt: skip
        watcher = Watcher(engine, PeekCursor, WATCH_SECONDS, reader, wake, warn)
        watcher.start()
        return watcher

    def is_retryable(self, error: DBAPIError) -> bool:
        return _mysql_code(error) in (1213, 1205)

    def has_ended_idle(self, error: DBAPIError, committing: bool = False) -> bool:
        # The server closes the connection and gives no reason. What could not be sent (2006) was not done; a lost
        # answer (2013) says nothing of a commit. A server that does not answer in time has closed nothing.
        lost = (2006,) if committing else (2006, 2013)
        return _mysql_code(error) in lost and "timed out" not in str(error.orig)

    def column_in(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        if not values:
            return false()
        listed = bindparam(None, list(values), type_=_Literals(), literal_execute=True)
        return column.op("IN", is_comparison=True)(listed)

    def fetch(self, connection: Connection, query: Any) -> Iterable[Sequence[Any]]:
        # The driver takes its time for every row and column, and little for one long text.
        columns = list(query.selected_columns)
        values = [func.coalesce(column, _NOTHING) if column.nullable else column for column in columns]
        line = func.concat(func.concat_ws(_NEXT_COLUMN, *values), _NEXT_ROW).label("line")
        each = query.with_only_columns(line).subquery().c.line
        together = func.group_concat(each.op("SEPARATOR")(literal_column("''")))
        text, count = connection.execute(select(together, func.count())).one()
        if not count:
            return ()
        # The answer is too long, or a row contains such a character.
        whole = text is not None and text.endswith("\0") and text.count("\0") == count
        if not whole or text.count("\1") != count * (len(columns) - 1):
            return super().fetch(connection, query)
        return _rows(text, columns)

    def insert_rows(self, connection: Connection, table: Table, columns: Columns, once: bool = False) -> None:
        if columns:
            batch = Batch.to_insert(columns)
            names = ", ".join(quote_identifiers(connection.dialect, (*batch.variable, *batch.constant)))
            head = f"INSERT {'IGNORE ' if once else ''}INTO {table_name(connection, table)} ({names}) VALUES "
            for values in _literal_rows(batch):
                connection.exec_driver_sql(head + values)

    def delete_rows(self, connection: Connection, key: Column[Any], keys: Collection[str], *which: Any) -> int:
        # In this order: to remove a quarter of a table by a list of keys, a server reads the whole of it, and waits for
        # every row that other processes have locked.
        if not keys:
            return 0
        given = _given(connection, key.table, Batch({key.name: list(keys)}))
        name = table_name(connection, key.table)
        also = and_(true(), *which).compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        return connection.exec_driver_sql(
            f"DELETE {name} FROM {given.source} STRAIGHT_JOIN {name} FORCE INDEX (PRIMARY) "
            f"ON {name}.{key.name} = {given.values[key.name]} WHERE {also}"
        ).rowcount

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Changes], added: Names = (), kept: Names = ()
    ) -> None:
        if rows:
            given = _given(connection, table, Batch.to_update(rows))
            name = table_name(connection, table)
            changes = assignments(connection, given, added, kept)
            # In this order: a server that reads the whole of a small table waits for every locked row of it.
            connection.exec_driver_sql(
                f"UPDATE {given.source} STRAIGHT_JOIN {name} AS there FORCE INDEX (PRIMARY) "
                f"ON there.id = {given.values['id']} SET {changes}"
            )


def _is_mariadb(connection: Connection) -> bool:
    return getattr(connection.dialect, "is_mariadb", False)


class _Literals(UserDefinedType[Any]):
    """A list of texts that becomes part of the statement: the driver takes long for a thousand parameters."""

    cache_ok = True

    def literal_processor(self, dialect: Any) -> Callable[[Sequence[str]], str]:
        return lambda values: f"({','.join(_literals(values))})"


def _rows(text: str, columns: Sequence[Any]) -> Iterator[list[Any]]:
    """Return the rows of a text, one at a time, as they are asked for."""
    numbers = [index for index, column in enumerate(columns) if isinstance(column.type, Integer)]
    texts = [index for index, column in enumerate(columns) if column.nullable and index not in numbers]
    for line in text[:-1].split("\0"):
        row: list[Any] = line.split("\1")
        for index in numbers:
            value = row[index]
            row[index] = None if value == "\2" else int(value)
        for index in texts:
            if row[index] == "\2":
                row[index] = None
        yield row


#: Characters that hardly any text has in it, so that many rows can be one text.
_NEXT_ROW: Any = literal_column("_utf8mb4 x'00'")
_NEXT_COLUMN: Any = literal_column("_utf8mb4 x'01'")
_NOTHING: Any = literal_column("_utf8mb4 x'02'")


def _literal(value: Any, charset: str = "_utf8mb4 ") -> str:
    """Return a value as it stands in a statement. Bytes that are given no character set take that of their column."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(int(value))
    return f"'{value}'" if _is_plain(value) else f"{charset}x'{value.encode().hex()}'"


def _is_plain(text: str) -> bool:
    """Tell whether a text means itself between quotation marks, in every mode of the server and to every driver."""
    return text.isascii() and "'" not in text and "\\" not in text and "%" not in text


def _literal_rows(batch: Batch) -> Iterator[str]:
    """Return rows as they stand in statements that add them, each not longer than a server takes."""
    # The server takes bytes as they are in less time than a text that says what it is.
    end = "".join([f",{_literal(value, charset='')}" for value in batch.constant.values()])
    columns = [_literals(values, charset="") for values in batch.variable.values()]
    rows = map(",".join, zip(*columns, strict=True))
    length = sum(sum(map(len, column)) for column in columns) + len(columns[0]) * (len(columns) + len(end) + 2)
    if length > MAX_STATEMENT_BYTES:
        return _portions(f"({row}{end})" for row in rows)
    return iter([f"({f'{end}),('.join(rows)}{end})"])  # in less time than row by row


def _literals(values: Sequence[Any], charset: str = "_utf8mb4 ") -> Sequence[str]:
    """Return the values of a column as they stand in a statement, many in less time than each by itself."""
    types = set(map(type, values))
    if types == {int}:
        return list(map(str, values))
    if types == {str} and _is_plain("".join(values)):
        return [f"'{value}'" for value in values]
    return [_literal(value, charset) for value in values]


def _portions(rows: Iterable[str]) -> Iterator[str]:
    """Return rows for statements that are not longer than a server takes."""
    portion: list[str] = []
    length = 0
    for row in rows:
        length += len(row)
        if portion and length > MAX_STATEMENT_BYTES:
            yield ",".join(portion)
            portion, length = [], len(row)
        portion.append(row)
    yield ",".join(portion)


def _given(connection: Connection, table: Table, batch: Batch) -> RowSource:
    # Names of their own, because those of the table would be ambiguous.
    paths = ", ".join(
        f"c{number} {type_name} PATH '$[{number}]'"
        for number, type_name in enumerate(types_of(connection.dialect, table, batch.variable))
    )
    values = {name: f"given.c{number}" for number, name in enumerate(batch.variable)}
    values.update({name: _literal(value) for name, value in batch.constant.items()})
    return RowSource(f"JSON_TABLE({_literal(batch.by_row())}, '$[*]' COLUMNS ({paths})) AS given", values, ())


def _mysql_code(error: Exception) -> Any:
    arguments = getattr(getattr(error, "orig", None), "args", None)
    return arguments[0] if arguments else None
