"""Makes the tables of the SQL store, and brings older ones up to date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Table, create_mock_engine, delete, insert, inspect, literal_column, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateColumn

from goscheduler.errors import GoSchedulerError, StoreUnavailable
from goscheduler.jobstores.sqlalchemy.rows import limit_names
from goscheduler.jobstores.sqlalchemy.tables import MYSQL, TURN, VERSION, Tables, exact_collation
from goscheduler.jobstores.sqlalchemy.views import views

SCHEMA = "schema"
Describe = Callable[[Connection], None]


class SchemaError(GoSchedulerError):
    """There are tables by our names that we cannot use."""


class SchemaStatus(NamedTuple):
    """The version of the tables."""

    version: int | None
    """None if there are none."""
    wanted: int = VERSION

    @property
    def current(self) -> bool:
        return self.version == self.wanted


def status(tables: Tables, connection: Connection) -> SchemaStatus:
    """Return which version of the tables is there.

    :raises SchemaError: if they are not ours, or of a newer version
    """
    there = set(inspect(connection).get_table_names(tables.metadata.schema))
    if tables.meta.name not in there:
        foreign = sorted(table.name for table in tables.metadata.tables.values() if table.name in there)
        if foreign:
            raise SchemaError(
                f'There is a table "{foreign[0]}" that goscheduler did not make; give another tablename to the store'
            )
        return SchemaStatus(None)
    if not {"name", "value"} <= _columns(tables.meta, connection):
        raise SchemaError(f'The table "{tables.meta.name}" is not of goscheduler; give another tablename to the store')
    version = connection.execute(select(tables.meta.c.value).where(tables.meta.c.name == SCHEMA)).scalar()
    if version is None:
        return SchemaStatus(None)
    if version > VERSION:
        raise SchemaError(
            f"The tables are of version {version}, made by a newer goscheduler; this one knows version {VERSION}. "
            "Install the newer one here too"
        )
    if version == VERSION:
        _check_columns(tables, there, connection)
    return SchemaStatus(version)


def bring_up_to_date(tables: Tables, engine: Engine, describe: Describe | None = None) -> bool:
    """Make the tables, or bring older ones to this version; false if nothing was to be done.

    ``describe`` writes into the rows of older jobs what they are found by.

    :raises SchemaError: if that cannot be
    :raises StoreUnavailable: if another process is about it, and takes long
    """
    if _look_fine(tables, engine):
        return False
    with _alone(tables, engine) as connection:
        version = status(tables, connection).version
        if version is None:
            _create(tables, connection)
        for number in range(version or VERSION, VERSION):
            STEPS[number](tables, connection)
            connection.execute(update(tables.meta).where(tables.meta.c.name == SCHEMA).values(value=number + 1))
        if version in range(VERSION) and describe is not None:
            describe(connection)
    return version != VERSION


def _look_fine(tables: Tables, engine: Engine) -> bool:
    """Tell whether the tables are current; false while another process makes them."""
    try:
        # On SQLite this waits for no writer, which may be a transaction of this very thread.
        with engine.connect().execution_options(writes=False) as connection, connection.begin():
            return status(tables, connection).current
    except SchemaError:
        return False


def statements(tables: Tables, engine: Engine) -> Iterator[str]:
    """Yield the SQL that makes the tables."""
    made: list[str] = []
    printer = create_mock_engine(engine.url, lambda ddl, *_: made.append(str(ddl.compile(engine)).strip()))
    for table in tables.metadata.sorted_tables:
        made.clear()
        table.create(printer, checkfirst=False)
        yield made[0]
        yield from sorted(made[1:])
    yield from views(tables, engine.dialect)
    for name, value in _FIRST_ROWS.items():
        meta = engine.dialect.identifier_preparer.format_table(tables.meta)
        yield f"INSERT INTO {meta} (name, value) VALUES ('{name}', {value})"


def _create(tables: Tables, connection: Connection) -> None:
    tables.meta.create(connection, checkfirst=True)  # first, because it marks the tables as ours
    tables.metadata.create_all(connection, checkfirst=True)
    _make_views(tables, connection)
    known = set(connection.execute(select(tables.meta.c.name)).scalars())
    for name, value in _FIRST_ROWS.items():
        if name not in known:
            connection.execute(insert(tables.meta), {"name": name, "value": value})


_FIRST_ROWS: Mapping[str, int] = {TURN: 0, SCHEMA: VERSION}


# Databases of MySQL do not undo a step that broke off: it is taken from the start again, and must bear that.


def _change_indexes(tables: Tables, connection: Connection) -> None:
    """Put other indexes in the place of those that MySQL has no use for."""
    if connection.dialect.name not in MYSQL:
        return
    for index in tables.complete:
        index.create(connection, checkfirst=True)
    for index in tables.partial:
        assert index.table is not None
        _drop_index(str(index.name), index.table, connection)


def _drop_index(name: str, table: Table, connection: Connection) -> None:
    if name in {there["name"] for there in inspect(connection).get_indexes(table.name, table.schema)}:
        prepared = connection.dialect.identifier_preparer
        schema = "" if table.schema is None else f"{prepared.quote_schema(table.schema)}."
        of_mysql = f"{name} ON {prepared.format_table(table)}"
        on_mysql = connection.dialect.name in MYSQL
        connection.exec_driver_sql(f"DROP INDEX {of_mysql if on_mysql else schema + prepared.quote(name)}")


def _compare_exactly(tables: Tables, connection: Connection) -> None:
    """Give all texts of MySQL a collation in which a space at the end makes a difference."""
    if connection.dialect.name not in MYSQL:
        return
    exact = exact_collation(connection.dialect)
    there = set(inspect(connection).get_table_names(tables.metadata.schema))
    for table in [table for table in tables.metadata.tables.values() if table.name in there]:
        place = connection.dialect.identifier_preparer.format_table(table)
        columns = connection.exec_driver_sql(f"SHOW FULL COLUMNS FROM {place}").mappings()
        # A large table takes longer than a call may; the server goes on with it, and the next try finds it done.
        if any(column["Collation"] not in (None, exact) for column in columns):
            connection.exec_driver_sql(f"ALTER TABLE {place} CONVERT TO CHARACTER SET utf8mb4 COLLATE {exact}")


def _add_search(tables: Tables, connection: Connection) -> None:
    """Give jobs what they are found by, and make the tables and views that other programs use."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # to make an index of a large table takes longer
    for table in (tables.jobs, tables.runs):
        _add_columns(table, connection)
    suspended = tables.jobs.c.suspended.is_not(None), tables.jobs.c.is_suspended.is_(None)
    connection.execute(update(tables.jobs).where(*suspended).values(is_suspended=1))
    tables.jobs_queue.create(connection, checkfirst=True)
    _drop_index(f"{tables.prefix}_jobs_due", tables.jobs, connection)
    tables.metadata.create_all(connection, checkfirst=True)
    _make_views(tables, connection)


def _add_columns(table: Table, connection: Connection) -> None:
    there = _columns(table, connection)
    place = connection.dialect.identifier_preparer.format_table(table)
    for column in table.columns:
        if column.name not in there:
            declared = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {place} ADD COLUMN {declared}")


def _make_views(tables: Tables, connection: Connection) -> None:
    for statement in views(tables, connection.dialect):
        connection.exec_driver_sql(statement)


def _count_usage(tables: Tables, connection: Connection) -> None:
    """Count the live runs under their limits, which was done at every start before."""
    usage, runs = tables.usage, tables.runs
    usage.create(connection, checkfirst=True)
    connection.execute(delete(usage))
    live = select(runs.c.id, runs.c.limits).where(runs.c.owner.is_not(None), runs.c.limits != "")
    found = connection.execute(live).all()
    rows = [{"run_id": run_id, "name": name} for run_id, text in found for name in limit_names(text)]
    if rows:
        connection.execute(insert(usage), rows)


#: Version → what leads from there to the next one.
STEPS: Mapping[int, Callable[[Tables, Connection], None]] = {
    1: _change_indexes, 2: _compare_exactly, 3: _add_search, 4: _count_usage,
}  # fmt: skip


def _check_columns(tables: Tables, there: Collection[str], connection: Connection) -> None:
    for table in tables.metadata.tables.values():
        columns = _columns(table, connection) if table.name in there else set()
        missing = [column.name for column in table.columns if column.name not in columns]
        if missing:
            raise SchemaError(
                f'The table "{table.name}" has no column "{missing[0]}": goscheduler did not make it. Give another '
                "tablename to the store, or remove the table"
            )


def _columns(table: Table, connection: Connection) -> set[str]:
    """Return the columns that a table has. To ask the catalogue for them would take ten times as long."""
    return set(connection.execute(select(literal_column("*")).select_from(table).limit(0)).keys())


@contextmanager
def _alone(tables: Tables, engine: Engine) -> Iterator[Connection]:
    """Give a transaction during which no other process makes the same tables."""
    with engine.connect() as connection:
        lock = _lock_of_server(tables, connection) if connection.dialect.name in MYSQL else nullcontext()
        with lock, connection.begin():
            if connection.dialect.name == "postgresql":
                _take_turn(tables, connection)
            yield connection


def _take_turn(tables: Tables, connection: Connection) -> None:
    """Hold a lock of PostgreSQL until the transaction ends."""
    try:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    except OperationalError as error:  # for longer than a call may take
        raise StoreUnavailable(f"{_busy(tables)}; pg_locks tells which: {error.orig}") from error


@contextmanager
def _lock_of_server(tables: Tables, connection: Connection) -> Iterator[None]:
    """Hold a lock of MySQL, which belongs to the connection, until what was done under it is written."""
    name = _lock_name(tables, connection)
    _wait_for(name, tables, connection)
    connection.rollback()  # the lock outlives the transaction in which it was asked for
    try:
        yield
    finally:
        if not connection.invalidated:  # else the server has released it
            connection.exec_driver_sql("SELECT RELEASE_LOCK(%s)", (name,))


def _lock_name(tables: Tables, connection: Connection) -> str:
    """Return a name for these tables among all of the server, which takes 64 characters."""
    database = tables.metadata.schema or connection.exec_driver_sql("SELECT DATABASE()").scalar()
    name = f"{database}.{tables.meta.name}"
    return name if len(name) <= 64 else sha256(name.encode()).hexdigest()


def _wait_for(lock: str, tables: Tables, connection: Connection) -> None:
    for _ in range(_TRIES):
        if connection.exec_driver_sql("SELECT GET_LOCK(%s, %s)", (lock, _TRY_SECONDS)).scalar():
            return
    raise StoreUnavailable(f"{_busy(tables)}; SELECT IS_USED_LOCK('{lock}') tells which")


def _busy(tables: Tables) -> str:
    return (
        f'Another process is making or changing the table "{tables.meta.name}" and those that belong to it, and takes '
        "long. Try again when it has ended, or end its connection to the server"
    )


_LOCK = 0x676F7363686564
_TRIES = 12
#: Less than a call to the server may take.
_TRY_SECONDS = 5
