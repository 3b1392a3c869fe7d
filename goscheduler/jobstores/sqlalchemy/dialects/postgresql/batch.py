"""Several statements in one message: one round trip, and one transaction.

A driver sends a statement and waits for its answer, and ``BEGIN`` and ``COMMIT`` are statements too. PostgreSQL takes a
text of many statements as well. It reads all of it before it does anything, and needs no further word from us: whoever
is frozen or cut off in the middle of sending has done nothing, and leaves no lock behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

#: Each statement sees what was written before it began, whatever the server does by default.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
COMMIT = "COMMIT"

#: The error by which a statement says that nothing of the message is to be written.
REFUSAL = "22012"


def unless(condition: str) -> str:
    """Return a query that refuses the whole message, unless something is so: it divides by zero."""
    return f"SELECT 1 / CAST(({condition}) AS INTEGER)"


class Message:
    """Statements for psycopg, which puts their parameters into the text itself.

    Rows are written to it as to a connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = connection.dialect
        self.get_execution_options = connection.get_execution_options
        self._driver: Any = connection.connection.driver_connection
        self._cursor = connection.dialect.loaded_dbapi.ClientCursor(self._driver)
        self._texts: list[str] = [BEGIN]

    def exec_driver_sql(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Add a statement to what is sent."""
        self._texts.append(self._cursor.mogrify(statement, parameters))

    def send(self) -> None:
        """Have it written."""
        with self._cursor as cursor:
            cursor.execute(";\n".join([*self._texts, COMMIT]))

    def take_back(self, error: Exception) -> bool:
        """Get the connection in order after an error; false if it is broken, and the end of the message not known."""
        if self._is_in_order():
            return True
        self.connection.invalidate(error)
        return False

    def _is_in_order(self) -> bool:
        # An end of the session can be told as an error of a statement; only a word with the server shows which it is.
        try:
            self._driver.rollback()
        except self.dialect.loaded_dbapi.Error:
            return False
        return not self._driver.closed
