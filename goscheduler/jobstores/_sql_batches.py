"""Many rows in one statement: what is the same in all of them is sent once, the rest as JSON.

One statement a row would not only take longer. A driver lets other threads run at each of them, and in a program with a
busy thread it then waits its turn a thousand times.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Table
from sqlalchemy.engine import Connection

Names = Collection[str]
Changes = Mapping[str, Any]

#: Texts stay as they are but for what JSON has to escape.
encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Row(Protocol):
    """A named tuple whose fields are columns of a table."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, index: int, /) -> Any: ...

    def _asdict(self) -> dict[str, Any]: ...


class Batch:
    """Rows that all give the same columns, by column."""

    __slots__ = ("same", "varying")

    def __init__(self, names: Iterable[str], rows: Sequence[Iterable[Any]], apart: Names = ()) -> None:
        self.same: dict[str, Any] = {}
        """Columns that have one value in all rows."""
        self.varying: dict[str, tuple[Any, ...]] = {}
        """The others, and in any case the first and those that are to be kept ``apart``."""
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            if self.varying and name not in apart and values.count(values[0]) == len(values):
                self.same[name] = values[0]
            else:
                self.varying[name] = values

    @classmethod
    def to_insert(cls, rows: Sequence[Row], apart: Names = ()) -> Batch:
        """Return rows without the columns that are empty in all of them."""
        batch = cls(rows[0]._fields, rows, apart)
        batch.same = {name: value for name, value in batch.same.items() if value is not None}
        return batch

    @classmethod
    def to_update(cls, rows: Sequence[Changes]) -> Batch:
        """Return rows of which only some columns are given, ``id`` first."""
        return cls(rows[0], [row.values() for row in rows])

    def by_row(self) -> str:
        """Return what varies as JSON, a list for each row."""
        return encode(list(zip(*self.varying.values(), strict=True)))

    def by_column(self) -> list[str]:
        """Return what varies as JSON, a text for each column."""
        return list(map(encode, self.varying.values()))


class Given(NamedTuple):
    """A batch as a statement can use it."""

    source: str
    """What to select from: a table that the database makes of JSON."""
    values: Mapping[str, str]
    """Column → how its value in a row is written."""
    parameters: tuple[Any, ...]


def insertion(connection: Connection, table: Table, given: Given) -> str:
    """Return the statement that adds the rows."""
    names, values = ", ".join(quoted(connection, given.values)), ", ".join(given.values.values())
    return f"INSERT INTO {named(connection, table)} ({names}) SELECT {values} FROM {given.source}"


#: The columns of a run that :func:`with_definitions` needs row by row.
OF_A_FIRING = ("job_id", "run")


def with_definitions(connection: Connection, jobs: Table, given: Given, joined: str = "{} || {}") -> Given:
    """Return runs with what defines their jobs put behind their texts; it need not go to us and back again."""
    # Not by a join: a database that knows little of its tables may read all jobs for it.
    found = f"FROM {named(connection, jobs)} AS job WHERE job.id = {given.values['job_id']}"
    definition = f"(SELECT job.definition {found})"
    return given._replace(values={**given.values, "run": joined.format(given.values["run"], definition)})


def assignments(connection: Connection, given: Given, added: Names, kept: Names, old: str) -> str:
    """Return what an update sets; ``old`` stands before the name of a column of the row that is there."""
    sets = []
    for name, value in given.values.items():
        there = f"{old}{quoted(connection, [name])[0]}"
        if name in added:
            value = f"{there} + {value}"
        elif name in kept:
            value = f"COALESCE({value}, {there})"
        if name != "id":
            sets.append(f"{quoted(connection, [name])[0]} = {value}")
    return ", ".join(sets)


def named(connection: Connection, table: Table) -> str:
    """Return the name of a table as it stands in a statement."""
    return str(connection.dialect.identifier_preparer.format_table(table))


def quoted(connection: Connection, names: Collection[str]) -> list[str]:
    """Return names of columns as they stand in a statement."""
    return [connection.dialect.identifier_preparer.quote(name) for name in names]


def types_of(connection: Connection, table: Table, names: Collection[str]) -> list[str]:
    """Return the types of columns, as a statement names them."""
    return [table.c[name].type.compile(connection.dialect) for name in names]
