"""How a process hears through MongoDB that another one has changed what is due: a change stream, on its own thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from goscheduler.jobstores._mongodb_documents import Document
from goscheduler.jobstores._mongodb_writing import CALL

#: For how long, in milliseconds, the server holds a question that it has no answer to.
PATIENCE = 1000
#: Seconds until it is tried again after an error.
PAUSE = 2.0


class Waking:
    """Calls ``wake`` when somebody else has made a change that others are to know of.

    Only one small document is watched: a server that watched jobs would spend more on that than on firing them.
    """

    def __init__(
        self, meta: Collection[Document], writer: str, wake: Callable[[], None], logger: logging.Logger
    ) -> None:
        self._meta = meta
        self._wake = wake
        self._logger = logger
        self._steps = _calls_of_others(writer)
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
        with self._meta.watch(self._steps, max_await_time_ms=PATIENCE) as stream:
            self.listening.set()
            self._wake()  # for what has happened while nobody listened
            while not self._over.is_set():
                if stream.try_next() is not None:
                    self._wake()


def _calls_of_others(writer: str) -> list[Document]:
    """Return which changes are heard of: those of the document of calls, unless they are ours."""
    caller = {"$ifNull": ["$updateDescription.updatedFields.by", "$fullDocument.by"]}
    return [
        {"$match": {"documentKey": CALL}},
        {"$project": {"by": caller}},
        {"$match": {"by": {"$type": "string", "$not": {"$regex": f"^{writer}-"}}}},
    ]
