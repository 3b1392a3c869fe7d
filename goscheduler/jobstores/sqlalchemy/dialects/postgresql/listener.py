"""Hears, on a connection of its own, that other processes have changed something."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from sqlalchemy.engine import Engine

from goscheduler.errors import described

#: How long it is waited for the first word, at the start, in seconds: a busy machine must not be taken for a pooler.
SELF_TEST_SECONDS = 5.0
#: How long it is waited before another connection is tried, in seconds.
RECONNECT_SECONDS = 1.0


class ChangeListener(ABC):
    """One thread with a connection, and another one when that breaks."""

    def __init__(self, engine: Engine, name: str, wake: Callable[[], None], warn: Callable[[str], None]) -> None:
        self._engine = engine
        self._wake = wake
        self._warn = warn
        self._stopped = threading.Event()
        self._silent = False
        """Whether it was told that nothing is heard."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def start(self) -> bool:
        """Begin to hear of others; false if that cannot be."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Tell whether the store need not be asked meanwhile."""

    @abstractmethod
    def _listen(self) -> None:
        """Hear of others until told to stop, or until the connection breaks."""

    def stop(self) -> None:
        """End the thread; it notices within a moment."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:
                if self._has_begun() and not self._silent and not self._stopped.is_set():
                    self._silent = True
                    self._warn(f"other processes are not heard for now, the store is asked instead: {described(error)}")
                self._stopped.wait(RECONNECT_SECONDS)

    def _has_begun(self) -> bool:
        """Tell whether others were to be heard by now."""
        return True


class Listener(ChangeListener):
    """Waits for words on a channel of PostgreSQL."""

    def __init__(
        self, engine: Engine, channel: str, me: str, wake: Callable[[], None], warn: Callable[[str], None]
    ) -> None:
        super().__init__(engine, "goscheduler-sql-listener", wake, warn)
        self._channel = channel
        self._me = me
        self._test = uuid4().hex
        self._heard_test = threading.Event()
        self._listening = threading.Event()

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

    def is_complete(self) -> bool:
        return self._listening.is_set()

    def _has_begun(self) -> bool:
        return self._heard_test.is_set()

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
                self._wait_for_notification(connection)
            connection.execute(f'UNLISTEN "{self._channel}"')  # a pooler would lend the connection to others
        finally:
            self._listening.clear()
            connection.close()

    def _wait_for_notification(self, connection: Any) -> None:
        for word in connection.notifies(timeout=0.5, stop_after=1):
            if word.payload == self._test:
                self._heard_test.set()
            elif word.payload != self._me:
                self._wake()


def tell(connection: Any, channel: str, word: str) -> None:
    """Say a word, one that needs no quoting, on a channel, when the transaction is written."""
    connection.exec_driver_sql(f"NOTIFY \"{channel}\", '{word}'")  # a query would have to be planned, and answered
