"""Many rows in one statement: constant values are sent once, the others as JSON.

One statement a row takes longer. A driver also lets other threads run at each statement, so a busy thread of the
program delays each of a thousand statements.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Table
from sqlalchemy.engine import Connection

Names = Collection[str]
Changes = Mapping[str, Any]
#: Rows by column, which takes fewer objects than row by row; empty if there are none.
Columns = Mapping[str, Sequence[Any]]

#: Texts stay as they are but for what JSON has to escape.
encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Row(Protocol):
    """A named tuple whose fields are columns of a table."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Any]: ...


def columns_of(rows: Iterable[Row]) -> Columns:
    """Return rows by column. They are taken one at a time: thousands keep the garbage collector busy."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        if not columns:
            columns = {name: [] for name in row._fields}
        for values, value in zip(columns.values(), row, strict=True):
            values.append(value)
    return columns


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Return rows one by one."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


class Batch:
    """Rows as constant and variable columns."""

    __slots__ = ("constant", "variable")

    def __init__(self, columns: Columns) -> None:
        self.constant: dict[str, Any] = {}
        """Columns that have one value in all rows."""
        self.variable: dict[str, Sequence[Any]] = {}
        """The others, and always the first column."""
        for name, values in columns.items():
            if self.variable and values.count(values[0]) == len(values):
                self.constant[name] = values[0]
            else:
                self.variable[name] = values

    @classmethod
    def to_insert(cls, columns: Columns) -> Batch:
        """Return rows without the columns that are empty in all of them."""
        batch = cls(columns)
        batch.constant = {name: value for name, value in batch.constant.items() if value is not None}
        return batch

    @classmethod
    def to_update(cls, rows: Sequence[Changes]) -> Batch:
        """Return rows of which only some columns are given, ``id`` first."""
        return cls({name: [row[name] for row in rows] for name in rows[0]})

    def by_row(self) -> str:
        """Return the variable columns as JSON, a list for each row."""
        return encode(list(zip(*self.variable.values(), strict=True)))

    def by_column(self) -> list[str]:
        """Return the variable columns as JSON, a text for each column."""
        return list(map(encode, self.variable.values()))

    def single_row(self) -> list[Any] | None:
        """Return the variable values of a single row; None for several rows."""
        columns = self.variable.values()
        return [values[0] for values in columns] if all(len(values) == 1 for values in columns) else None


class RowSource(NamedTuple):
    """A batch as a statement can use it."""

    source: str
    """The SQL to select from: a table that the database makes of JSON, or a row."""
    values: Mapping[str, str]
    """Column → how its value in a row is written."""
    parameters: tuple[Any, ...]


def insertion(connection: Connection, table: Table, given: RowSource) -> str:
    """Return the statement that adds the rows."""
    names, values = ", ".join(quote_identifiers(connection.dialect, given.values)), ", ".join(given.values.values())
    return f"INSERT INTO {table_name(connection, table)} ({names}) SELECT {values} FROM {given.source}"


def assignments(connection: Connection, given: RowSource, added: Names, kept: Names) -> str:
    """Return the SET clause of an update of the row ``there``."""
    changes = []
    for name, value in given.values.items():
        (column,) = quote_identifiers(connection.dialect, [name])
        if name in added:
            value = f"there.{column} + {value}"
        elif name in kept:
            value = f"COALESCE({value}, there.{column})"
        if name != "id":
            changes.append(f"{column} = {value}")
    return ", ".join(changes)


def table_name(connection: Connection, table: Table) -> str:
    """Return the name of a table as it stands in a statement."""
    return str(connection.dialect.identifier_preparer.format_table(table))


def quote_identifiers(dialect: Any, names: Collection[str]) -> list[str]:
    """Return names of columns as they stand in a statement."""
    return [dialect.identifier_preparer.quote(name) for name in names]


def types_of(dialect: Any, table: Table, names: Collection[str]) -> list[str]:
    """Return the types of columns, as a statement names them."""
    return [table.c[name].type.compile(dialect) for name in names]
