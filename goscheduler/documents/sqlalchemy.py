"""Documents in a table of the user's own, through SQLAlchemy.

A row is locked in a transaction of its own: the row that is due longest is found, on servers that can do so passing
over those that others are locking, and changed if its ``sleep_until`` is still what was read. It is read as a whole
afterwards, so that a row that cannot be read keeps nobody from the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.documents.model import Document, Fields
from goscheduler.errors import GoSchedulerError, InvalidArgument, shown
from goscheduler.runs.queries import Count
from goscheduler.times import EPOCH

try:
    from sqlalchemy import ColumnElement, Select, Table, create_engine, delete, func, not_, select, update
    from sqlalchemy.engine import URL, Connection, Engine, make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

    from goscheduler.documents._sql_columns import DEFAULTS, TIME_FORM, Columns, moment_of, read_columns
except ImportError as error:
    raise ImportError(
        f"documents in a SQL table need a package that is not installed ({error}); "
        'pip install "goscheduler[sqlalchemy]"',
        name=error.name,
    ) from error

__all__ = ["SQLAlchemyDocumentStore"]

#: How many rows are tried in one step where others cannot be passed over, and how often a transaction is tried.
CANDIDATES = 20
TRIES = 5
#: SQLSTATE of PostgreSQL and numbers of MySQL for "another transaction was in the way".
IN_THE_WAY = {"40001", "40P01", 1020, 1205, 1213}

T = TypeVar("T")
Key = tuple[Any, ...]


class Locked(NamedTuple):
    """A row that is ours now."""

    key: Key
    seen: Any
    """What its ``sleep_until`` was."""


class SQLAlchemyDocumentStore(DocumentStore):
    """Finds its documents in the rows of ``table``, the name of one or a :class:`sqlalchemy.Table`.

    ``engine`` is an engine, or a URL, for which one is made. The rows need a primary key, and a column with a date and
    time that may be NULL; what has no zone is UTC. ``condition`` is an expression on the table, or a dict of columns
    and values, that rows must match to be processed. The columns of ``interval``, ``repeat_until`` and ``auto_remove``
    may be missing if they are not named otherwise.
    """

    def __init__(
        self,
        engine: Engine | str,
        table: Table | str,
        *,
        sleep_until: str = DEFAULTS.sleep_until,
        interval: str = DEFAULTS.interval,
        repeat_until: str = DEFAULTS.repeat_until,
        auto_remove: str = DEFAULTS.auto_remove,
        condition: ColumnElement[bool] | Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(table, (Table, str)):
            raise TypeError(f"table must be the name of a table or a sqlalchemy.Table, got {shown(table)}")
        if condition is not None and not isinstance(condition, (ColumnElement, Mapping)):
            raise TypeError(f"condition must be an expression of SQLAlchemy or a dict, got {shown(condition)}")
        self._fields = Fields(sleep_until, interval, repeat_until, auto_remove)
        self._owns_engine = not isinstance(engine, Engine)
        self._engine = _engine_of(engine)
        self._writing = _for_locking(self._engine)
        self._table = table
        self._condition = condition
        self._read: Columns | None = None

    def open(self) -> None:
        """Look at the table.

        :raises InvalidArgument: if it is not there, or not as it must be
        """
        columns = read_columns(self._engine, self._table, self._fields)
        wanted = self._wanted(columns.table)
        if select(*columns.key).where(*wanted).get_final_froms() != [columns.table]:
            raise InvalidArgument(
                f"condition is about something else than {columns.table.name}; give the Table that it is made of as "
                "table, not the name of one",
                field="condition",
            )
        self._read, self.resolution = columns, columns.times.resolution

    def close(self) -> None:
        if self._owns_engine:
            self._engine.dispose()

    def lock_next(self, now: datetime, until: datetime) -> Document | None:
        while True:
            locked = self._lock_one(now, until)
            if locked is None:
                return None
            document = self._read_row(locked, until)
            if document is not None:  # else somebody has removed it just now
                return document

    def update(self, document: Document, sleep_until: datetime | None) -> bool:
        times = self._columns.times
        return self._change(document.id, times.stored(document.locked_until), times.stored(sleep_until))

    def remove(self, document: Document) -> bool:
        columns = self._columns
        held = columns.held() == columns.times.stored(document.locked_until)
        statement = delete(columns.table).where(columns.is_row(document.id), held)
        return self._in_transaction(lambda connection: connection.execute(statement).rowcount == 1)

    def upcoming(self, limit: int) -> list[Upcoming]:
        columns = self._columns
        dated = [*self._holding_time(), columns.sleep_until.is_not(None)]
        statement = select(*columns.key, columns.held(), *columns.others()).where(*dated)
        with self._engine.connect() as connection:
            rows = connection.execute(statement.order_by(columns.sleep_until).limit(limit)).all()
        size = len(columns.key)
        found = []
        for row in rows:
            interval, last, auto_remove = row[size + 1 :]
            last = moment_of(last) or last if isinstance(last, str) else last
            found.append(Upcoming.of(tuple(row[:size]), moment_of(row[size]) or EPOCH, interval, last, auto_remove))
        return found

    def count_due(self, now: datetime, cap: int) -> Count:
        due = self._due(now).order_by(None).limit(cap + 1).subquery()
        with self._engine.connect() as connection:
            number = connection.execute(select(func.count()).select_from(due)).scalar_one()
        return Count(min(number, cap), number <= cap)

    def malformed(self, limit: int) -> list[Malformed]:
        columns = self._columns
        holds_time = columns.holds_time()
        if holds_time is None:
            return []  # the database keeps everything else out
        bad = [columns.sleep_until.is_not(None), not_(holds_time), *self._wanted(columns.table)]
        with self._engine.connect() as connection:
            found = connection.execute(select(*columns.key, columns.held()).where(*bad).limit(limit)).all()
        return [Malformed(tuple(row[:-1]), row[-1], TIME_FORM) for row in found]

    @property
    def _columns(self) -> Columns:
        if self._read is None:
            self.open()
        assert self._read is not None
        return self._read

    def _lock_one(self, now: datetime, until: datetime) -> Locked | None:
        due = self._due(now)
        lock = self._columns.times.stored(until)
        if self._columns.skips_locked:
            return self._in_transaction(lambda connection: self._lock_first(connection, due, lock))
        while True:
            with self._engine.connect() as connection:
                candidates = connection.execute(due.limit(CANDIDATES)).all()
            for *key, seen in candidates:
                if self._change(tuple(key), self._columns.times.as_read(seen), lock):
                    return Locked(tuple(key), seen)
            if len(candidates) < CANDIDATES:
                return None

    def _lock_first(self, connection: Connection, due: Select[Any], lock: ColumnElement[Any]) -> Locked | None:
        row = connection.execute(due.limit(1).with_for_update(skip_locked=True)).one_or_none()
        if row is None:
            return None
        *key, seen = row
        if not self._set(connection, tuple(key), self._columns.times.as_read(seen), lock):
            raise GoSchedulerError(f"The column {self._columns.sleep_until.name} does not hold what was read from it")
        return Locked(tuple(key), seen)

    def _due(self, now: datetime) -> Select[Any]:
        columns = self._columns
        conditions = [*self._holding_time(), columns.held() <= columns.times.stored(now)]
        return select(*columns.key, columns.held()).where(*conditions).order_by(columns.sleep_until)

    def _holding_time(self) -> list[ColumnElement[bool]]:
        """Return the conditions that a row is wanted and holds a time, where it may hold something else."""
        holds_time = self._columns.holds_time()
        return [*self._wanted(self._columns.table), *([] if holds_time is None else [holds_time])]

    def _wanted(self, table: Table) -> list[ColumnElement[bool]]:
        if not isinstance(self._condition, Mapping):
            return [] if self._condition is None else [self._condition]
        unknown = [name for name in self._condition if name not in table.columns]
        if unknown:
            raise InvalidArgument(
                f"condition names a column that table {table.name} does not have: {shown(unknown[0])}",
                field="condition",
                value=unknown[0],
            )
        return [table.columns[name] == value for name, value in self._condition.items()]

    def _change(self, key: Key, seen: ColumnElement[Any], value: ColumnElement[Any]) -> bool:
        return self._in_transaction(lambda connection: self._set(connection, key, seen, value))

    def _set(self, connection: Connection, key: Key, seen: ColumnElement[Any], value: ColumnElement[Any]) -> bool:
        columns = self._columns
        statement = update(columns.table).where(columns.is_row(key), columns.held() == seen)
        return connection.execute(statement.values({columns.sleep_until: value})).rowcount == 1

    def _read_row(self, locked: Locked, until: datetime) -> Document | None:
        columns = self._columns
        statement = select(columns.table).where(columns.is_row(locked.key))
        with self._engine.connect() as connection:
            row = connection.execute(statement).mappings().one_or_none()
        if row is None:
            return None
        content: dict[str, Any] = {column.name: row[column] for column in columns.table.columns}
        due = moment_of(locked.seen) or EPOCH
        name = columns.sleep_until.name
        content[name] = _alike(due, content[name], locked.seen)
        others = {field: content[name] for field, name in columns.names.items()}
        if isinstance(others.get("repeat_until"), str):
            others["repeat_until"] = moment_of(others["repeat_until"]) or others["repeat_until"]
        return Document(locked.key, content, due, until, **others)

    def _in_transaction(self, step: Callable[[Connection], T]) -> T:
        """Return what ``step`` returns, having written what it wrote; it may be called more than once."""
        for tries_left in reversed(range(TRIES)):
            try:
                with self._writing.begin() as connection:
                    return step(connection)
            except DBAPIError as error:
                if not tries_left or not _was_in_the_way(error):
                    raise
        raise AssertionError("unreachable")


def _engine_of(engine: Any) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if not isinstance(engine, (str, URL)):
        raise TypeError(f"engine must be a sqlalchemy.Engine or the URL of a database, got {type(engine).__name__}")
    try:
        return create_engine(engine, hide_parameters=True)
    except (ArgumentError, NoSuchModuleError):
        # The address itself is not told: it may hold a password.
        raise InvalidArgument("engine must be a database URL such as sqlite:///documents.db", field="engine") from None
    except ModuleNotFoundError as error:
        extra = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
        wanted = extra.get(make_url(engine).get_backend_name(), "sqlalchemy")
        raise ImportError(
            f'This database needs a driver that is not installed ({error}); pip install "goscheduler[{wanted}]"',
            name=error.name,
        ) from error


def _for_locking(engine: Engine) -> Engine:
    """Return the engine with transactions that lock rows, and rows only, whatever the user has set for his own.

    Without transactions nothing would be locked; MySQL's own default would also lock the gaps between rows, and so what
    others write there.
    """
    if engine.dialect.name in ("postgresql", "mysql", "mariadb"):
        return engine.execution_options(isolation_level="READ COMMITTED")
    return engine


def _alike(due: datetime, now_held: Any, seen: Any) -> Any:
    """Return a time in the form in which the user's table gives times."""
    if not isinstance(now_held, datetime):
        return seen
    return due.replace(tzinfo=None) if now_held.tzinfo is None else due


def _was_in_the_way(error: DBAPIError) -> bool:
    codes = [getattr(error.orig, "sqlstate", None), *getattr(error.orig, "args", ())[:1]]
    return any(isinstance(code, (str, int)) and code in IN_THE_WAY for code in codes)
