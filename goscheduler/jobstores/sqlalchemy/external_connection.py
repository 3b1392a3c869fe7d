"""Connections that users hand over, so that a job becomes part of their own transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy.engine import Connection, Engine

from goscheduler.errors import shown


class DriverConnection:
    """A connection of a driver, with as much of the face of SQLAlchemy's as it takes to write rows."""

    def __init__(self, connection: Any, engine: Engine) -> None:
        self._connection = connection
        self.dialect = engine.dialect

    def exec_driver_sql(self, statement: str, parameters: Any = ()) -> None:
        cursor = self._connection.cursor()
        try:
            if isinstance(parameters, list):
                cursor.executemany(statement, parameters)
            else:
                cursor.execute(statement, parameters)
        finally:
            cursor.close()

    def execute(self, query: Any) -> FirstRow:
        """Return the first row of a query, as SQLAlchemy would give it."""
        compiled = query.compile(dialect=self.dialect)
        values = compiled.params
        cursor = self._connection.cursor()
        try:
            positions = compiled.positiontup
            cursor.execute(str(compiled), values if positions is None else [values[name] for name in positions])
            return FirstRow(cursor.fetchone())
        finally:
            cursor.close()


class FirstRow(NamedTuple):
    """What a query of a driver has found first."""

    row: Any

    def first(self) -> Any:
        return self.row


def adopt_connection(connection: Any, engine: Engine) -> Any:
    """Return what rows can be written with: for a connection or session of SQLAlchemy, or a connection of the driver.

    :raises TypeError: for anything else
    """
    if isinstance(connection, Connection):
        return _of_same_database(connection, connection.engine, engine)
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        session_connection = connection.connection()
        if isinstance(session_connection, Connection):
            return _of_same_database(session_connection, session_connection.engine, engine)
    module = engine.dialect.dbapi.__name__ if engine.dialect.dbapi is not None else ""
    family = type(connection).__module__.partition(".")[0]
    if callable(getattr(connection, "cursor", None)) and family == module.partition(".")[0]:
        return DriverConnection(connection, engine)
    raise TypeError(
        "connection must be a connection or session of SQLAlchemy, or a connection of the driver "
        f"{module.partition('.')[0]}, got {shown(connection)}"
    )


def _of_same_database(connection: Connection, theirs: Engine, ours: Engine) -> Connection:
    if theirs.dialect.name != ours.dialect.name:
        raise TypeError(f"connection is one to {theirs.dialect.name}, but the jobs are kept in {ours.dialect.name}")
    return connection
