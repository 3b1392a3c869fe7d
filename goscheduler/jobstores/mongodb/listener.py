"""Notifications in MongoDB: a process hears on a thread of its own that another one has changed what is due.

Notifications are in a collection of a fixed size; a tailable cursor waits at its end. A change stream would tell the
same, but for it the server reads all that any process writes, which costs a third of what firing costs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pymongo import CursorType
from pymongo.collection import Collection
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.writer import Writer

#: For how long the server waits for the next notification before it answers.
MAX_AWAIT_MS = 1000
#: Seconds until the listener tries again after an error.
RETRY_SECONDS = 2.0


class Listener:
    """Calls ``wake`` when another process has made something due."""

    def __init__(
        self, notifications: Collection[Document], writer: Writer, wake: Callable[[], None], logger: logging.Logger
    ) -> None:
        # A notification comes after its change is durable, so it need not be durable itself.
        self._notifications = notifications.with_options(read_concern=ReadConcern("local"))
        self._writer = writer
        self._wake = wake
        self._logger = logger
        self._over = threading.Event()
        self.listening = threading.Event()
        """Set while this process hears of changes."""
        self._thread = threading.Thread(target=self._run, name="goscheduler-mongodb", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2 * MAX_AWAIT_MS / 1000)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._listen()
            except PyMongoError as error:
                if not self._over.is_set():
                    self._logger.info(
                        "MongoDB does not notify of changes for now (%s); the store is polled until it does",
                        type(error).__name__,
                    )
            finally:
                self.listening.clear()
            self._over.wait(RETRY_SECONDS)

    def _listen(self) -> None:
        start = self._writer.mark()
        self._notifications.insert_one({"by": start})
        tail = self._notifications.find({}, cursor_type=CursorType.TAILABLE_AWAIT)
        with tail.max_await_time_ms(MAX_AWAIT_MS) as messages:
            while messages.alive and not self._over.is_set():
                for message in messages:  # ends when none has come for a while
                    self._handle(str(message.get("by")), start)

    def _handle(self, sender: str, start: str) -> None:
        """Wake for the first notification of our own, and for those of other processes that come after it."""
        if sender == start:
            self.listening.set()
            self._wake()  # for changes before the listener was ready
        elif self.listening.is_set() and not sender.startswith(f"{self._writer.name}-"):
            self._wake()
