"""The locks of the documents in hand, and a thread that renews them.

A lock knows which tokens may be the right one: a renewal that was not answered may have been written or not, so until
the next answer there are two. Losing a lock is a normal return: another program has set ``sleepUntil``, and that stays.

The end of a lock is computed before the store is asked for it. So a process trusts a lock from the moment before the
request: a late answer shortens the trust, and a process that stood still has lost it when it wakes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from goscheduler.clock import Clock
from goscheduler.documents._rules import NextState
from goscheduler.documents.base import DocumentStore
from goscheduler.documents.model import Document, round_up
from goscheduler.errors import described, shown
from goscheduler.logs import GuardedLogger

_logger = GuardedLogger(logging.getLogger("goscheduler.documents"))

#: A renewal that failed is tried again after this part of the time between two of them.
SOONER = 4
#: For which share of its time a lock is trusted. Other processes compare its end with their own clocks, and those may
#: be ahead of ours by the rest.
TRUSTED = 0.5


class DocumentLock:
    """One document in hand."""

    __slots__ = ("asked_at", "document", "mutex", "over", "renew_at", "tokens")

    def __init__(self, document: Document, asked_at: float, renew_at: float) -> None:
        self.document = document
        self.asked_at = asked_at
        self.renew_at = renew_at
        self.tokens = [document.locked_until]
        self.over = False
        # Held over a call of the store, for this document alone: a renewal under way changes the token that whoever
        # finishes the document has to show.
        self.mutex = threading.Lock()

    @property
    def locked_until(self) -> datetime:
        """When the lock runs out, as far as is known."""
        return self.tokens[0]


class DocumentLocks:
    """All documents in hand of one scheduler."""

    def __init__(
        self, store: DocumentStore, clock: Clock, lock_duration: timedelta, tell: Callable[[Exception, Document], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._lock_duration = lock_duration
        self._tell = tell
        self._trusted = lock_duration.total_seconds() * TRUSTED
        self._period = lock_duration.total_seconds() / 3
        self._changed = threading.Condition()
        self._locks: set[DocumentLock] = set()
        self._ending = False
        self._teller: threading.Thread | None = None
        self._thread = threading.Thread(target=self._renew_for_ever, name="goscheduler-documents-locks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> DocumentLock | None:
        """Lock the document that has been due longest, and begin to renew its lock; None if none is due."""
        asked_at = self._clock.monotonic()
        document = self._store.lock_next(self._clock.now(), self._lock_end())
        if document is None:
            return None
        lock = DocumentLock(document, asked_at, asked_at + self._period)
        with self._changed:
            self._locks.add(lock)
            self._changed.notify()
        return lock

    def ensure(self, lock: DocumentLock) -> bool:
        """Tell whether a lock is ours at this moment; it is renewed first if it was asked for too long ago."""
        with lock.mutex:
            if lock.over:
                return False
            return self._is_trusted(lock) or (self._renewed(lock) and self._is_trusted(lock))

    def _is_trusted(self, lock: DocumentLock) -> bool:
        return self._clock.monotonic() < lock.asked_at + self._trusted

    def _lock_end(self) -> datetime:
        return round_up(self._clock.now() + self._lock_duration, self._store.resolution)

    def drop(self, lock: DocumentLock) -> None:
        """Renew a lock no more."""
        with self._changed:
            self._locks.discard(lock)
        with lock.mutex:
            lock.over = True

    def settle(self, lock: DocumentLock, next_state: NextState) -> bool:
        """Write what becomes of a document; false if it was taken from us. Its lock is not renewed any more."""
        with lock.mutex:
            written = any(self._written(lock, token, next_state) for token in lock.tokens)
        self.drop(lock)
        return written

    def _written(self, lock: DocumentLock, token: datetime, next_state: NextState) -> bool:
        document = lock.document._replace(locked_until=token)
        if next_state.remove:
            return self._store.remove(document)
        return self._store.update(document, next_state.sleep_until)

    def renew_due(self) -> float | None:
        """Renew what has to be renewed by now; return the seconds until the next one, None if nothing is in hand."""
        now = self._clock.monotonic()
        with self._changed:
            due = [lock for lock in self._locks if lock.renew_at <= now]
        for lock in due:
            self._renew(lock)
        with self._changed:
            following = min((lock.renew_at for lock in self._locks), default=None)
        return None if following is None else max(0.0, following - self._clock.monotonic())

    def _renew(self, lock: DocumentLock) -> None:
        try:
            with lock.mutex:
                kept = not lock.over and self._renewed(lock)
        except Exception as error:
            lock.renew_at = self._clock.monotonic() + self._period / SOONER
            self._tell_aside(error, lock.document)
            return
        if not kept:
            self.drop(lock)

    def _tell_aside(self, error: Exception, document: Document) -> None:
        """Tell the user of an error on another thread: whatever he does, the other locks have to be renewed in time."""
        _logger.warning("The lock of document %s could not be renewed: %s", shown(document.id), described(error))
        if self._teller is None or not self._teller.is_alive():
            name = "goscheduler-documents-error"
            self._teller = threading.Thread(target=self._tell, args=[error, document], name=name, daemon=True)
            self._teller.start()

    def _renewed(self, lock: DocumentLock) -> bool:
        """Renew a lock; false if it was taken from us. The caller has the mutex of the lock."""
        asked_at = self._clock.monotonic()
        until = self._lock_end()
        old, lock.tokens = lock.tokens, list(dict.fromkeys([*lock.tokens, until]))
        for token in old:
            if self._store.update(lock.document._replace(locked_until=token), until):
                lock.tokens = [until]
                lock.asked_at, lock.renew_at = asked_at, asked_at + self._period
                return True
        lock.over = True
        return False

    def _renew_for_ever(self) -> None:
        while True:
            wait = self.renew_due()
            with self._changed:
                if self._ending:
                    return
                if wait is not None or not self._locks:
                    self._changed.wait(wait)
                if self._ending:
                    return
