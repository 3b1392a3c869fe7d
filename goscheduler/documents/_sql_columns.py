"""What the SQL document store has to know about a table and its database: columns, keys, how times are kept.

==================  ==============================================================  ===============================
database            ``sleep_until`` holds                                           one of several processes locks
==================  ==============================================================  ===============================
PostgreSQL          an instant, or UTC if the column has no zone                    by ``SKIP LOCKED``
MySQL, MariaDB      UTC, to whole seconds unless the column has a fraction          by ``SKIP LOCKED`` from 8.0, 10.6
SQLite              text as SQLAlchemy writes it, ``2026-01-31 08:00:00.000000``    by comparing, then changing
any other           UTC, to whole seconds                                           by comparing, then changing
==================  ==============================================================  ===============================
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, NamedTuple

from sqlalchemy import Column, DateTime, MetaData, String, Table, and_, func, inspect, literal, not_, null, type_coerce
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

from goscheduler.documents.model import Fields, in_utc
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import UTC, convert_to_datetime

DEFAULTS = Fields("sleep_until", "interval", "repeat_until", "auto_remove")
#: The fields that a table may lack.
OTHERS = ("interval", "repeat_until", "auto_remove")

#: How a time looks like in a text column of SQLite. Others do not compare as times do.
TIME_IN_TEXT = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*"
TIME_FORM = "text such as 2026-01-31 08:00:00.000000, in UTC"

#: The first versions that pass over rows which others have locked.
SKIPPING = {"postgresql": (9, 5), "mysql": (8, 0, 1), "mariadb": (10, 6)}


class Times(NamedTuple):
    """The representation of times in a column."""

    type: TypeEngine[Any]
    aware: bool
    resolution: timedelta

    def stored(self, moment: datetime | None) -> ColumnElement[Any]:
        """Return a time as it is written and compared, NULL for None."""
        if moment is None:
            return null()
        return self.as_read(moment if self.aware else moment.astimezone(UTC).replace(tzinfo=None))

    def as_read(self, value: Any) -> ColumnElement[Any]:
        """Return what was read from the column, as it is written and compared."""
        in_text = isinstance(self.type, String) and isinstance(value, datetime)
        return literal(value.strftime("%Y-%m-%d %H:%M:%S.%f") if in_text else value, self.type)


class Columns(NamedTuple):
    """A table that can be used."""

    table: Table
    sleep_until: Column[Any]
    key: tuple[Column[Any], ...]
    times: Times
    names: Mapping[str, str]
    """Which of the other three fields the table has, and what the columns are called."""
    skips_locked: bool

    def is_row(self, key: tuple[Any, ...]) -> ColumnElement[bool]:
        """Return the condition that a row has this primary key."""
        return and_(*(column == value for column, value in zip(self.key, key, strict=True)))

    def others(self) -> list[ColumnElement[Any]]:
        """Return the other three columns as they are read for a list: NULL for one that the table does not have.

        On SQLite a time is read as text, because one that is none would keep all rows from being read.
        """
        found: dict[str, ColumnElement[Any]] = {name: self.table.c[column] for name, column in self.names.items()}
        if "repeat_until" in found and isinstance(self.times.type, String):
            found["repeat_until"] = type_coerce(found["repeat_until"], self.times.type)
        return [found.get(name, null()).label(f"goscheduler_{name}") for name in OTHERS]

    def holds_time(self) -> ColumnElement[bool] | None:
        """Return the condition that there is a time, where a column may hold something else."""
        if not isinstance(self.times.type, String):
            return None
        raw = self.held()
        fraction = func.substr(raw, len("2026-01-31 08:00:00") + 1)
        return and_(
            raw.op("GLOB")(TIME_IN_TEXT),
            not_(fraction.op("GLOB")("*[^0-9.]*")),
            func.julianday(raw).is_not(None),
        )

    def held(self) -> ColumnElement[Any]:
        """Return ``sleep_until`` as this store reads and compares it, whatever type the user's table gives it."""
        return type_coerce(self.sleep_until, self.times.type)


def read_columns(engine: Engine, table: Table | str, fields: Fields) -> Columns:
    """Return what is needed of a table, after a look into the database.

    :raises InvalidArgument: if the table cannot be used
    """
    with engine.connect() as connection:
        real = _reflected(connection, table)
        skips_locked = _skips_locked(connection)
    used = real if isinstance(table, str) else table
    sleep_until = _column(real, used, "sleep_until", fields.sleep_until)
    if not sleep_until.nullable:
        raise _refused(
            f"column {fields.sleep_until} of {real.name} must allow NULL, which marks a document that is not due"
        )
    if not real.primary_key.columns:
        raise _refused(f"table {real.name} has no primary key to identify its rows")
    names = _other_names(real, used, fields)
    if "repeat_until" in names:
        _times(real.c[names["repeat_until"]], "repeat_until", engine.dialect.name)
    return Columns(
        used,
        used.c[sleep_until.name],
        tuple(used.c[column.name] for column in real.primary_key.columns),
        _times(sleep_until, "sleep_until", engine.dialect.name),
        names,
        skips_locked,
    )


def _reflected(connection: Connection, table: Table | str) -> Table:
    name, schema = (table, None) if isinstance(table, str) else (table.name, table.schema)
    try:
        return Table(name, MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)
    except NoSuchTableError:
        known = inspect(connection).get_table_names(schema=schema)
        raise _refused(f"there is no table {shown(name)}{_near(name, known)}") from None


def _column(real: Table, used: Table, field: str, name: str) -> Column[Any]:
    """Return a column as it is in the database."""
    if name not in real.columns or name not in used.columns:
        hint = _near(name, real.columns.keys())
        raise InvalidArgument(
            f"{field} names a column that table {real.name} does not have: {shown(name)}{hint}", field=field, value=name
        )
    return real.columns[name]


def _other_names(real: Table, used: Table, fields: Fields) -> dict[str, str]:
    """Return the other columns. One under its default name may be missing: the table has no use for it."""
    names = {}
    for field in OTHERS:
        name = getattr(fields, field)
        if name in real.columns or name != getattr(DEFAULTS, field):
            names[field] = _column(real, used, field, name).name
    return names


def _times(column: Column[Any], field: str, dialect: str) -> Times:
    if dialect == "sqlite" and isinstance(column.type, (DateTime, String)):
        return Times(String(), False, timedelta(microseconds=1))
    if not isinstance(column.type, DateTime):
        raise InvalidArgument(
            f"column {column.name} must hold a date and time, its type is {shown(str(column.type))[1:-1]}",
            field=field,
            value=column.name,
        )
    aware = bool(column.type.timezone) and dialect not in ("mysql", "mariadb")
    return Times(DateTime(timezone=aware), aware, _resolution(column.type, dialect))


def _resolution(type: DateTime, dialect: str) -> timedelta:
    """Return the distance of two neighbouring times in a column. Where it is not known, seconds are safe."""
    digits = 0
    if dialect == "postgresql":
        precision = getattr(type, "precision", None)
        digits = 6 if precision is None else precision
    elif dialect in ("mysql", "mariadb"):
        digits = getattr(type, "fsp", None) or 0
    return timedelta(microseconds=10 ** (6 - digits))


def _skips_locked(connection: Connection) -> bool:
    dialect = connection.dialect
    name = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    return name in SKIPPING and tuple(dialect.server_version_info or ()) >= SKIPPING[name]


def _near(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known)[:20])}" if known else ""


def _refused(message: str) -> InvalidArgument:
    return InvalidArgument(message, field="table")


def moment_of(value: Any) -> datetime | None:
    """Return what a column holds as a time in UTC; None if it is none."""
    if isinstance(value, datetime):
        return in_utc(value)
    try:
        moment = convert_to_datetime(str(value), UTC, "sleep_until")
    except ValueError:
        return None
    return None if moment is None else in_utc(moment)
