"""Polls a database that cannot notify: a thread repeats the last peek of the scheduler often and cheaply.

It wakes the scheduler if the answer contains new work: a job or run that is due earlier, or a cancel request. Writers
write nothing extra for it. Firings and ends of other processes, and this process's own writes, do not wake it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection, Engine

from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import ChangeListener

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy.due_work import DueWorkReader, PeekResult

#: The wait for the end of the thread.
STOP_SECONDS = 10.0


class PeekCursor:
    """Repeats the last peek on one connection.

    The driver is asked, and not SQLAlchemy, which takes as long as the driver for it.
    """

    def __init__(self, connection: Connection) -> None:
        self._dialect = connection.dialect
        driver: Any = connection.connection
        # Or it would see what it saw at first, for ever.
        self._dialect.set_isolation_level(driver.dbapi_connection, "AUTOCOMMIT")
        self._cursor = driver.dbapi_connection.cursor()
        self._last: PeekResult | None = None
        self._statement: tuple[str, Any] = ("", ())

    def peek(self, result: PeekResult) -> PeekResult:
        """Return the answer of now to the query of an earlier ``result``."""
        if not self._is_about(result):
            self._statement = result.question.as_statement(self._dialect, result.owner)
        self._last = result._replace(row=self._row(*self._statement))
        return self._last

    def _is_about(self, result: PeekResult) -> bool:
        """Tell whether the same was asked here last."""
        return self._last is not None and self._last.question is result.question and self._last.owner == result.owner

    def _row(self, statement: str, parameters: Any = ()) -> Any:
        self._cursor.execute(statement, parameters)
        return self._cursor.fetchone()


class FilePeekCursor(PeekCursor):
    """The same of a file of SQLite, which says at next to no cost whether anybody has written to it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._version: Any = None

    def peek(self, result: PeekResult) -> PeekResult:
        version = self._row("PRAGMA data_version")  # it changes with every commit of another connection
        if version == self._version and self._last is not None and self._is_about(result):
            return self._last
        self._version = version
        return super().peek(result)


class Watcher(ChangeListener):
    """Compares after every pause."""

    def __init__(
        self, engine: Engine, view: type[PeekCursor], pause: float, reader: DueWorkReader,
        wake: Callable[[], None], warn: Callable[[str], None],
    ) -> None:  # fmt: skip
        super().__init__(engine, "goscheduler-sql-watcher", wake, warn)
        self._view = view
        self._pause = pause
        self._reader = reader
        self._outdated: PeekResult | None = None
        """The answer that the loop was woken for: it will ask again before it rests."""
        self._watching = False
        self._rest = threading.Lock()
        """Held until the thread is to end: to wait for it takes less than for an event, and is most of the work."""

    def start(self) -> bool:
        self._rest.acquire()
        self._thread.start()
        return True

    def is_complete(self) -> bool:
        return self._watching

    def stop(self) -> None:
        """End the thread, and wait for it: SQLite tidies up when the last connection to a file is closed."""
        if not self._stopped.is_set():
            super().stop()
            self._rest.release()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def _listen(self) -> None:
        with self._engine.connect() as connection:
            # First of all: the pool may be small, and a connection that is dead must not go back into it.
            connection.detach()
            view = self._view(connection)
            self._watching, self._silent = True, False
            try:
                while not self._rest.acquire(timeout=self._pause):
                    self._compare(view)
            finally:
                self._watching = False

    def _compare(self, view: PeekCursor) -> None:
        result = self._reader.answer
        if result is not None and result is not self._outdated and view.peek(result).has_more_than(result):
            self._outdated = result
            self._wake()
