"""PostgreSQL: SKIP LOCKED, and changes are pushed by NOTIFY.

The server ends the transaction of a process that stands still, so that it does not block the others. The time limits
belong to the connection. A pooler such as PgBouncer refuses that, or takes no notice, and lends one connection of
the server to many: behind it, and on an engine of the user, every transaction sets its own limits, and nothing is
prepared that the next connection would not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from uuid import uuid4

from sqlalchemy import BigInteger, Table, event, func, literal_column, text
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from goscheduler.jobstores.sqlalchemy.bulk import Batch, RowSource, quote_identifiers, table_name, types_of
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS, CONNECT_SECONDS, number_of
from goscheduler.jobstores.sqlalchemy.dialects.json_rows import JSONDialect
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import CONFLICTS
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import Listener, tell
from goscheduler.jobstores.sqlalchemy.tables import Tables

#: Stands for the limits of a connection until it is made: by then it is known how long a lease is.
_OPTIONS = "goscheduler"
#: The server says that it has ended a transaction that was idle for too long.
_ENDED_IDLE = "25P03"


class PostgreSQL(JSONDialect):
    extra = "postgresql"
    skips_locked = True
    now = literal_column("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)", BigInteger)

    def __init__(self) -> None:
        self._me = uuid4().hex
        self._sets_limits = False
        """Whether every transaction sets its limits, because the connection has none."""
        self._connects = False
        """Whether the connections are made by us."""

    def connect_args(self) -> dict[str, Any]:
        return {
            "connect_timeout": CONNECT_SECONDS,
            "options": _OPTIONS,
            "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
            "tcp_user_timeout": CALL_SECONDS * 1000,
        }  # fmt: skip

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {"isolation_level": "READ COMMITTED", "pool_timeout": CONNECT_SECONDS}

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "do_connect")
        def connect(dialect: Any, _record: Any, arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
            if parameters.get("options") != _OPTIONS:
                return None  # an engine of the user
            self._connects = True
            others = {name: value for name, value in parameters.items() if name != "options"}
            if not self._sets_limits:
                options = " ".join(f"-c {name}={value}" for name, value in self._limits().items())
                try:
                    return dialect.connect(*arguments, **others, options=options)
                except dialect.loaded_dbapi.OperationalError as error:
                    if "unsupported startup parameter" not in str(error):
                        raise
                    self._sets_limits = True
            return _preparing_nothing(dialect.connect(*arguments, **others))

    def _limits(self) -> dict[str, str]:
        """Return settings of the server, in its own words."""
        limits = {"statement_timeout": CALL_SECONDS, "idle_in_transaction_session_timeout": self.idle_seconds}
        return {name: _in_words(seconds) for name, seconds in limits.items()}

    def check_version(self, connection: Connection) -> None:
        limits = self._limits()
        names = ", ".join(f"current_setting('{name}')" for name in limits)
        if tuple(connection.exec_driver_sql(f"SELECT {names}").one()) != tuple(limits.values()):
            self._sets_limits = True
            if self._connects:
                _preparing_nothing(connection.connection.driver_connection)

    def warnings(self, connection: Connection) -> list[str]:
        if connection.exec_driver_sql("SHOW synchronous_commit").scalar() != "off":
            return []
        return ["synchronous_commit is off: a crash of the server loses the last commits"]

    def adopt(self, engine: Engine) -> Engine:
        return engine.execution_options(isolation_level="READ COMMITTED")

    def is_refusal(self, error: Exception) -> bool:
        return any(word in str(error) for word in ("authentication failed", "does not exist", "permission denied"))

    def takes_batches(self, engine: Engine) -> bool:
        return engine.dialect.driver == "psycopg"

    def begin_reading(self, connection: Connection) -> None:
        # The driver then sends the query alone, without BEGIN before and COMMIT after it, each of which is waited for.
        connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def planning_anew(self, connection: Connection) -> Iterator[None]:
        driver = connection.connection.driver_connection
        threshold = getattr(driver, "prepare_threshold", None)
        if driver is not None and threshold is not None:
            driver.prepare_threshold = None
        try:
            yield
        finally:
            if driver is not None and threshold is not None:
                driver.prepare_threshold = threshold

    def begin(self, connection: Connection, tables: Tables) -> None:
        limits = self._limits() if self._sets_limits else {}
        if limits:
            steps = [f"set_config('{name}', '{value}', true)" for name, value in limits.items()]
            connection.exec_driver_sql(f"SELECT {', '.join(steps)}")

    def notify(self, connection: Connection, tables: Tables, us_too: bool = False) -> None:
        tell(connection, _channel(tables), "" if us_too else self._me)

    def listen(
        self, engine: Engine, tables: Tables, reader: Any, wake: Callable[[], None], warn: Callable[[str], None]
    ) -> Listener | None:
        if engine.dialect.driver != "psycopg":
            return None
        listener = Listener(engine, _channel(tables), self._me, wake, warn)
        if listener.start():
            return listener
        warn("NOTIFY does not arrive, as behind a transaction pooler; the scheduler polls for changes")
        return None

    def is_retryable(self, error: DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in CONFLICTS

    def has_ended_idle(self, error: DBAPIError, committing: bool = False) -> bool:
        return getattr(error.orig, "sqlstate", None) == _ENDED_IDLE

    def column_in(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        each = text("ARRAY(SELECT json_array_elements_text(CAST(:those AS JSON)))")
        return column == func.any(each.bindparams(those=json.dumps(list(values))))

    def blocked_longest(self, connection: Connection, runs: Table, most: Mapping[str, int]) -> Iterable[Sequence[Any]]:
        return connection.exec_driver_sql(*_blocked_longest(connection, runs, most)).all()

    def unblock_in_batch(self, connection: Connection, tables: Tables, keys: Mapping[str, int]) -> None:
        """Unblock as many runs under each key as its count, and tell the other processes if there are any."""
        search, parameters = _blocked_longest(connection, tables.runs, keys, " FOR UPDATE SKIP LOCKED")
        connection.exec_driver_sql(
            f"WITH found AS ({search}), unblocked AS (UPDATE {table_name(connection, tables.runs)} AS there"
            " SET held = NULL, freed = found.held, ready = there.due FROM found WHERE there.id = found.id RETURNING 1)"
            f" SELECT pg_notify('{_channel(tables)}', '{self._me}') WHERE EXISTS (SELECT 1 FROM unblocked)",
            parameters,
        )

    def source(self, connection: Connection, table: Table, batch: Batch) -> RowSource:
        return row_source(connection, table, batch)


def _blocked_longest(
    connection: Connection, runs: Table, most: Mapping[str, int], locking: str = ""
) -> tuple[str, tuple[str, ...]]:
    """Return a search for the runs that have been held longest under each key, and its parameters.

    It has one plan for all keys: to plan a search for each of them takes longer than the searches.
    """
    texts = "json_array_elements_text(CAST(%s AS JSON))"
    query = (
        f"SELECT run.id, run.held FROM ROWS FROM ({texts}, {texts}) AS given (held, most) CROSS JOIN LATERAL ("
        f"SELECT there.id, there.held FROM {table_name(connection, runs)} AS there WHERE there.held = given.held"
        f" AND there.freed IS NULL ORDER BY there.due LIMIT CAST(given.most AS BIGINT){locking}) AS run"
    )
    return query, (json.dumps(list(most)), json.dumps(list(most.values())))


def _in_words(seconds: float) -> str:
    """Return a time as the server shows it."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


def _preparing_nothing(connection: Any) -> Any:
    """Return a connection of the driver that leaves nothing behind on the server."""
    if hasattr(connection, "prepare_threshold"):
        connection.prepare_threshold = None
    return connection


def row_source(connection: Connection, table: Table, batch: Batch) -> RowSource:
    """Return rows as a table that a statement can select from: one JSON text a column, or a single row as it is.

    The driver takes long for real arrays, and the server longer to plan for JSON than to write one row.
    """
    row = batch.single_row()
    form = _form(connection.dialect, table, tuple(batch.variable), tuple(batch.constant), row is not None)
    return RowSource(*form, (*batch.constant.values(), *(batch.by_column() if row is None else row)))


@lru_cache(maxsize=256)
def _form(
    dialect: Any, table: Table, variable: Sequence[str], constant: Sequence[str], is_one: bool
) -> tuple[str, Mapping[str, str]]:
    """Return what to select from, and how each value is written; kept, because it takes longer than to send it."""
    names = quote_identifiers(dialect, variable)
    casts = [name.partition(" COLLATE")[0] for name in types_of(dialect, table, (*variable, *constant))]
    places = [*(f"given.{name}" for name in names), *["%s"] * len(constant)]
    values = [f"CAST({place} AS {type_name})" for place, type_name in zip(places, casts, strict=True)]
    texts = ", ".join(["%s" if is_one else "json_array_elements_text(CAST(%s AS JSON))"] * len(names))
    source = f"(VALUES ({texts}))" if is_one else f"ROWS FROM ({texts})"
    return f"{source} AS given ({', '.join(names)})", dict(zip((*variable, *constant), values, strict=True))


def _channel(tables: Tables) -> str:
    return f"goscheduler_{number_of(tables)}"
