"""How a process hears through MongoDB that another one has changed what is due: calls, listened to on its own thread.

Calls stand in a collection of a fixed size, whose end can be waited at. A change stream would tell the same, but the
server would look through all that anybody writes for it, which takes a third of what firing takes.
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

#: For how long, in milliseconds, the server holds a question that it has no answer to.
PATIENCE = 1000
#: Seconds until it is tried again after an error.
PAUSE = 2.0


class Waking:
    """Calls ``wake`` when somebody else has made a change that others are to know of."""

    def __init__(
        self, calls: Collection[Document], writer: Writer, wake: Callable[[], None], logger: logging.Logger
    ) -> None:
        # A call comes after what it tells of is safe, so the call itself need not be.
        self._calls = calls.with_options(read_concern=ReadConcern("local"))
        self._writer = writer
        self._wake = wake
        self._logger = logger
        self._over = threading.Event()
        self.listening = threading.Event()
        """Set while changes are heard of."""
        self._thread = threading.Thread(target=self._run, name="goscheduler-mongodb", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2 * PATIENCE / 1000)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._listen()
            except PyMongoError as error:
                if not self._over.is_set():
                    self._logger.info("Changes in MongoDB are not heard of for now: %s", type(error).__name__)
            finally:
                self.listening.clear()
            self._over.wait(PAUSE)

    def _listen(self) -> None:
        start = self._writer.mark()
        self._calls.insert_one({"by": start})
        with self._calls.find({}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(PATIENCE) as calls:
            while calls.alive and not self._over.is_set():
                for call in calls:  # those that are there; ends when nothing has come for a while
                    self._hear(str(call.get("by")), start)

    def _hear(self, caller: str, start: str) -> None:
        """Wake for a call of somebody else that came after our own at the start, and for that one."""
        if caller == start:
            self.listening.set()
            self._wake()  # for what has happened while nobody listened
        elif self.listening.is_set() and not caller.startswith(f"{self._writer.name}-"):
            self._wake()
