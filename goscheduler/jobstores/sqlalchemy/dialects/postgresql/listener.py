"""Listens on its own connection for changes by other processes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from sqlalchemy.engine import Engine

from goscheduler.errors import described

#: The time for the first notification at the start. A busy machine must not look like a pooler.
SELF_TEST_SECONDS = 5.0
#: The pause before another connection attempt.
RECONNECT_SECONDS = 1.0


class ChangeListener(ABC):
    """A thread with a connection, which it replaces when it breaks."""

    def __init__(self, engine: Engine, name: str, wake: Callable[[], None], warn: Callable[[str], None]) -> None:
        self._engine = engine
        self._wake = wake
        self._warn = warn
        self._stopped = threading.Event()
        self._silent = False
        """Whether the lost connection was logged."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def start(self) -> bool:
        """Start the thread; false if no change can arrive."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Tell whether the scheduler need not poll."""

    @abstractmethod
    def _listen(self) -> None:
        """Receive changes until stopped, or until the connection breaks."""

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
                    self._warn(f"changes by other processes do not arrive; the scheduler polls: {described(error)}")
                self._stopped.wait(RECONNECT_SECONDS)

    def _has_begun(self) -> bool:
        """Tell whether changes have arrived before."""
        return True


class Listener(ChangeListener):
    """Waits for notifications on a channel of PostgreSQL."""

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
        """Start to listen; false if our own notification does not arrive, as behind a transaction pooler."""
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
            self._wake()  # a change may have come while the connection was down
            while not self._stopped.is_set():
                self._wait_for_notification(connection)
            connection.execute(f'UNLISTEN "{self._channel}"')  # a pooler may lend the connection to another client
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
    """Send a payload that needs no quoting to a channel, when the transaction commits."""
    connection.exec_driver_sql(f"NOTIFY \"{channel}\", '{word}'")  # a query would have to be planned, and answered
