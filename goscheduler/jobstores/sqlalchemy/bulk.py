"""Many rows in one statement: what is the same in all of them is sent once, the rest as JSON.

One statement a row would not only take longer. A driver lets other threads run at each of them, and in a program with a
busy thread it then waits its turn a thousand times.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
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

    def __getitem__(self, index: int, /) -> Any: ...


def columns_of(rows: Sequence[Row]) -> Columns:
    """Return rows by column."""
    # Not by a zip of all rows: it takes an iterator for each of thousands.
    return {name: list(map(itemgetter(index), rows)) for index, name in enumerate(rows[0]._fields)} if rows else {}


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Return rows one by one."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def in_order(columns: Columns) -> Columns:
    """Return rows in the order of their first two columns."""
    first, second, *_ = columns.values()
    keys = second if first.count(first[0]) == len(first) else list(zip(first, second, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if order == list(range(len(keys))):
        return columns
    reordered = itemgetter(*order)
    return {name: reordered(values) for name, values in columns.items()}


class Batch:
    """Rows as they are sent: what is the same in all of them, and the rest."""

    __slots__ = ("same", "varying")

    def __init__(self, columns: Columns, apart: Names = ()) -> None:
        self.same: dict[str, Any] = {}
        """Columns that have one value in all rows."""
        self.varying: dict[str, Sequence[Any]] = {}
        """The others, and in any case the first and those that are to be kept ``apart``."""
        for name, values in columns.items():
            if self.varying and name not in apart and values.count(values[0]) == len(values):
                self.same[name] = values[0]
            else:
                self.varying[name] = values

    @classmethod
    def to_insert(cls, columns: Columns, apart: Names = ()) -> Batch:
        """Return rows without the columns that are empty in all of them."""
        batch = cls(columns, apart)
        batch.same = {name: value for name, value in batch.same.items() if value is not None}
        return batch

    @classmethod
    def to_update(cls, rows: Sequence[Changes]) -> Batch:
        """Return rows of which only some columns are given, ``id`` first."""
        return cls({name: [row[name] for row in rows] for name in rows[0]})

    def by_row(self) -> str:
        """Return what varies as JSON, a list for each row."""
        return encode(list(zip(*self.varying.values(), strict=True)))

    def by_column(self) -> list[str]:
        """Return what varies as JSON, a text for each column."""
        return list(map(encode, self.varying.values()))

    def only_row(self) -> list[Any] | None:
        """Return what would vary if there is one row; none if there are more."""
        columns = self.varying.values()
        return [values[0] for values in columns] if all(len(values) == 1 for values in columns) else None


class Given(NamedTuple):
    """A batch as a statement can use it."""

    source: str
    """What to select from: a table that the database makes of JSON, or a row."""
    values: Mapping[str, str]
    """Column → how its value in a row is written."""
    parameters: tuple[Any, ...]


def insertion(connection: Connection, table: Table, given: Given) -> str:
    """Return the statement that adds the rows."""
    names, values = ", ".join(quoted(connection.dialect, given.values)), ", ".join(given.values.values())
    return f"INSERT INTO {named(connection, table)} ({names}) SELECT {values} FROM {given.source}"


#: The columns of a run that :func:`with_definitions` needs row by row.
OF_A_FIRING = ("job_id", "run")


def with_definitions(
    connection: Connection, jobs: Table, given: Given, joined: str = "{run} || {definition}"
) -> Given:
    """Return runs with what defines their jobs put behind their texts; it need not go to us and back again.

    ``joined`` is how a whole text is made of it, of what is given, and of the id of the job.
    """
    # Not by a join: a database that knows little of its tables may read all jobs for it.
    found = f"FROM {named(connection, jobs)} AS job WHERE job.id = {given.values['job_id']}"
    return with_definition(given, f"(SELECT job.definition {found})", joined)


def with_definition(given: Given, definition: str, joined: str) -> Given:
    """Return runs with a definition, as it stands in a statement, put behind their texts."""
    return given._replace(values={**given.values, "run": joined.format_map({**given.values, "definition": definition})})


def assignments(connection: Connection, given: Given, added: Names, kept: Names, old: str) -> str:
    """Return what an update sets; ``old`` stands before the name of a column of the row that is there."""
    sets = []
    for name, value in given.values.items():
        there = f"{old}{quoted(connection.dialect, [name])[0]}"
        if name in added:
            value = f"{there} + {value}"
        elif name in kept:
            value = f"COALESCE({value}, {there})"
        if name != "id":
            sets.append(f"{quoted(connection.dialect, [name])[0]} = {value}")
    return ", ".join(sets)


def named(connection: Connection, table: Table) -> str:
    """Return the name of a table as it stands in a statement."""
    return str(connection.dialect.identifier_preparer.format_table(table))


def quoted(dialect: Any, names: Collection[str]) -> list[str]:
    """Return names of columns as they stand in a statement."""
    return [dialect.identifier_preparer.quote(name) for name in names]


def types_of(dialect: Any, table: Table, names: Collection[str]) -> list[str]:
    """Return the types of columns, as a statement names them."""
    return [table.c[name].type.compile(dialect) for name in names]
