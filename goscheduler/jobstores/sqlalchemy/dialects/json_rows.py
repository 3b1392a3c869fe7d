"""Databases that read many rows out of one JSON text, so that a batch of any size is one statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from sqlalchemy import Table
from sqlalchemy.engine import Connection

from goscheduler.jobstores.sqlalchemy.bulk import (
    Batch,
    Changes,
    Columns,
    Names,
    RowSource,
    assignments,
    insertion,
    table_name,
)
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect


class JSONDialect(Dialect):
    """Writes rows with ``INSERT … SELECT`` and ``UPDATE … FROM``, as SQLite and PostgreSQL understand them."""

    @abstractmethod
    def source(self, connection: Connection, table: Table, batch: Batch) -> RowSource:
        """Return rows as a table that a statement can select from."""

    def insert_rows(self, connection: Connection, table: Table, columns: Columns, once: bool = False) -> None:
        if columns:
            given = self.source(connection, table, Batch.to_insert(columns))
            tail = " WHERE true ON CONFLICT DO NOTHING" if once else ""
            connection.exec_driver_sql(insertion(connection, table, given) + tail, given.parameters)

    def update_rows(
        self, connection: Connection, table: Table, rows: Sequence[Changes], added: Names = (), kept: Names = ()
    ) -> None:
        if rows:
            given = self.source(connection, table, Batch.to_update(rows))
            changes = assignments(connection, given, added, kept)
            connection.exec_driver_sql(
                f"UPDATE {table_name(connection, table)} AS there SET {changes} FROM {given.source} "
                f"WHERE there.id = {given.values['id']}",
                given.parameters,
            )
