"""Hears, on a connection of its own, what other processes tell through PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from sqlalchemy.engine import Engine

from goscheduler.errors import described

#: How long it is waited for the first word, at the start, in seconds: a busy machine must not be taken for a pooler.
SELF_TEST_SECONDS = 5.0
#: How long it is waited before another connection is tried, in seconds.
PAUSE = 1.0


class Listener:
    """One thread that waits for words on a channel."""

    def __init__(
        self, engine: Engine, channel: str, me: str, wake: Callable[[], None], warn: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._warn = warn
        self._channel = channel
        self._me = me
        self._wake = wake
        self._test = uuid4().hex
        self._heard_test = threading.Event()
        self._listening = threading.Event()
        self._stopped = threading.Event()
        self._silent = False
        """Whether it was told that nothing is heard."""
        self._thread = threading.Thread(target=self._run, name="goscheduler-sql-listener", daemon=True)

    def start(self) -> bool:
        """Begin to listen; false if a word of our own does not arrive, as behind a pooler of transactions."""
        self._thread.start()
        self._listening.wait(SELF_TEST_SECONDS)
        try:
            with self._engine.connect() as connection, connection.begin():
                tell(connection, self._channel, self._test)
        except BaseException:
            self.stop()
            raise
        if self._heard_test.wait(SELF_TEST_SECONDS):
            return True
        self.stop()
        return False

    def is_listening(self) -> bool:
        return self._listening.is_set()

    def stop(self) -> None:
        """End the thread; it notices within a moment."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:
                if self._heard_test.is_set() and not self._silent and not self._stopped.is_set():
                    self._silent = True
                    self._warn(f"other processes are not heard for now, the store is asked instead: {described(error)}")
                self._stopped.wait(PAUSE)

    def _listen(self) -> None:
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        try:
            connection.autocommit = True
            connection.execute(f'LISTEN "{self._channel}"')
            self._listening.set()
            self._silent = False
            self._wake()  # something may have been told while nobody listened
            while not self._stopped.is_set():
                self._hear(connection)
            connection.execute(f'UNLISTEN "{self._channel}"')  # a pooler would lend the connection to others
        finally:
            self._listening.clear()
            connection.close()

    def _hear(self, connection: Any) -> None:
        for word in connection.notifies(timeout=0.5, stop_after=1):
            if word.payload == self._test:
                self._heard_test.set()
            elif word.payload != self._me:
                self._wake()


def tell(connection: Any, channel: str, word: str) -> None:
    """Say a word on a channel, when the transaction is written."""
    connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (channel, word))
