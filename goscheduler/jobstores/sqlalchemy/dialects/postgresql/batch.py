"""Several statements sent to PostgreSQL as one text: one round trip, and one transaction.

The server reads the whole text before it runs any of it, and then needs nothing from the client. A client that is
frozen or cut off while it sends has written nothing and holds no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

#: Each statement sees what was committed before it began, whatever the default of the server is. A batch waits a little
#: longer for a row than a healthy process holds it.
BEGIN = ("BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL lock_timeout = '20ms'")
COMMIT = "COMMIT"

#: The error of a statement of :func:`abort_unless`.
ABORTED = "22012"
LOCK_TIMEOUT = "55P03"
CONFLICTS = ("40P01", "40001")
#: The server has written nothing of the batch, and a transaction that looks at the rows first may succeed.
NOT_WRITTEN = (ABORTED, LOCK_TIMEOUT, *CONFLICTS)


def abort_unless(condition: str) -> str:
    """Return a query that aborts the whole batch unless a condition holds: it divides by zero."""
    return f"SELECT 1 / CAST(({condition}) AS INTEGER)"


class StatementBatch:
    """Collects statements as if it were a connection, and sends them together.

    psycopg puts the parameters into the text, because the server takes no parameters for several statements.
    """

    def __init__(self, connection: Connection) -> None:
        self.dialect = connection.dialect
        self.get_execution_options = connection.get_execution_options
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection
        self._cursor = connection.dialect.loaded_dbapi.ClientCursor(self._driver)
        self._texts: list[str] = [*BEGIN]

    def exec_driver_sql(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Add a statement."""
        self._texts.append(self._cursor.mogrify(statement, parameters))

    def send(self) -> None:
        """Run all statements and commit them."""
        with self._cursor as cursor:
            cursor.execute(";\n".join([*self._texts, COMMIT]))

    def recover(self, error: Exception) -> bool:
        """Make the connection usable again after an error; false if it is broken and the outcome is unknown."""
        # The server can report the end of a session as the error of a statement; only another call tells them apart.
        try:
            self._driver.rollback()
        except self.dialect.loaded_dbapi.Error:
            pass
        else:
            if not self._driver.closed:
                return True
        self._connection.invalidate(error)
        return False
