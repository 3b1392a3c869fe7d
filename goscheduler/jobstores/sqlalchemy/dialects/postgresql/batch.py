"""Several statements in one message: one round trip, and one transaction.

A driver sends a statement and waits for its answer, and ``BEGIN`` and ``COMMIT`` are statements too. PostgreSQL takes a
text of many statements as well. It reads all of it before it does anything, and needs no further word from us: whoever
is frozen or cut off in the middle of sending has done nothing, and leaves no lock behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from goscheduler.clock import SYSTEM_CLOCK

#: Each statement sees what was written before it began, whatever the server does by default.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
COMMIT = "COMMIT"
BEGIN_READING = f"{BEGIN} READ ONLY"

#: The error by which a statement says that nothing of the message is to be written.
REFUSAL = "22012"

Answer = Sequence[Sequence[Any]]


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
        self.reads_on = False
        """Whether something is read when all is written."""
        self.sent_at = 0.0
        self.answers: list[Answer] = []
        """The rows that each of the statements gives, by its number, when all of them have been written."""

    def add(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Add a statement to what is sent, and return its number."""
        self._texts.append(self._cursor.mogrify(statement, parameters))
        return len(self._texts) - 1

    exec_driver_sql = add

    def read_on(self) -> None:
        """Have the rest only read, when all before it is written.

        A long answer waits until it is taken, and whoever is frozen takes nothing: no lock is held by then.
        """
        self._texts += [COMMIT, BEGIN_READING]
        self.reads_on = True

    def send(self) -> None:
        """Have it written."""
        self.sent_at = SYSTEM_CLOCK.monotonic()
        with self._cursor as cursor:
            cursor.execute(";\n".join([*self._texts, COMMIT]))
            answers = [_rows(cursor)]
            while cursor.nextset():
                answers.append(_rows(cursor))
        self.answers = answers

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


def _rows(cursor: Any) -> Answer:
    rows: Answer = cursor.fetchall() if cursor.description else ()
    return rows
