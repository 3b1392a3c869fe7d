"""The scheduler of documents: :class:`DocumentScheduler`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import tzinfo
from types import TracebackType
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.documents._settings import Duration, Hooks, Settings, read_concurrency, read_duration
from goscheduler.documents._worker import DocumentWorker
from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.errors import InvalidArgument, SchedulerAlreadyRunningError, shown
from goscheduler.runs.queries import Count
from goscheduler.times import astimezone, local_timezone

__all__ = ["DocumentScheduler"]

#: So many documents are listed or counted at most.
MOST_LISTED = 100_000


class DocumentScheduler:
    """Calls a function for each document of a store when its time has come.

    Any number of processes may do so with the documents of one store; while one has locked a document, no other gets
    it. All functions may be coroutine functions. Lengths of time are seconds, a timedelta, or text such as ``"10m"``.

    ``on_document`` gets the document as it was before it was locked. If it raises, the document is processed again when
    its lock has run out. ``on_error`` gets the errors of the store, of the functions and of fields that make no sense;
    if it needs a second argument, that is the document, or None. ``on_idle`` is called once when there is nothing left
    to do. Crontab lines are read in ``timezone``, that of the machine if it is left out.
    """

    def __init__(
        self,
        store: DocumentStore,
        on_document: Callable[[Any], Any],
        *,
        on_start: Callable[[], Any] | None = None,
        on_stop: Callable[[], Any] | None = None,
        on_idle: Callable[[], Any] | None = None,
        on_error: Callable[..., Any] | None = None,
        next_delay: Duration = 0,
        reprocess_delay: Duration = 0,
        idle_delay: Duration = 0,
        lock_duration: Duration = 600,
        concurrency: int = 1,
        timezone: str | tzinfo | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not isinstance(store, DocumentStore):
            raise TypeError(f"store must be a DocumentStore, got {shown(store)}")
        self._store = store
        self._hooks = Hooks(on_document, on_start, on_stop, on_idle, on_error)
        self._settings = Settings(
            _seconds("next_delay", next_delay),
            read_duration("reprocess_delay", reprocess_delay),
            _seconds("idle_delay", idle_delay),
            read_duration("lock_duration", lock_duration, positive=True),
            read_concurrency(concurrency),
            astimezone(timezone) or local_timezone(),
        )
        self._clock = clock
        self._starting = threading.Lock()
        self._worker: DocumentWorker | None = None

    def start(self) -> None:
        """Begin to process documents, on threads of its own; nothing happens if that was done before.

        Documents that are in hand since an earlier start are waited for. Returns when ``on_start`` has ended.

        :raises InvalidArgument: if the store cannot be used, because of a column that does not exist for example
        """
        if self._is_inside():
            if self.is_running():
                return
            raise SchedulerAlreadyRunningError
        with self._starting:
            if self.is_running():
                return
            if self._worker is not None:
                _has_ended(self._worker, None)
            worker = self._worker = DocumentWorker(self._store, self._hooks, self._settings, self._clock)
            worker.thread.start()
            worker.begun.wait()
        if worker.failure is not None:
            _has_ended(worker, None)
            raise worker.failure

    def stop(self, timeout: Duration | None = None) -> bool:
        """Take no more documents, let those in hand come to their end, and call ``on_stop``; true if all that is done.

        With ``timeout`` it returns after that time at the latest; what is in hand goes on. Called inside one of the
        user's functions it does not wait. Nothing happens if it was done before.
        """
        worker = self._worker
        limit = None if timeout is None else _seconds("timeout", timeout)
        if worker is None:
            return True
        worker.stop()
        return False if worker.hook_runner.is_calling() else _has_ended(worker, limit)

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until it has been stopped and everything has ended; false if that has not happened in time."""
        limit = None if timeout is None else _seconds("timeout", timeout)
        return self._worker is None or _has_ended(self._worker, limit)

    def is_running(self) -> bool:
        """Tell whether it has been started and not been stopped."""
        worker = self._worker
        return worker is not None and worker.thread.is_alive() and not worker.stopping.is_set()

    def is_processing(self) -> bool:
        """Tell whether a document is in hand, also after :meth:`stop`."""
        worker = self._worker
        return worker is not None and worker.thread.is_alive() and worker.in_hand > 0

    def is_idle(self) -> bool:
        """Tell whether it runs, and has found nothing to do."""
        return self._worker is not None and self.is_running() and self._worker.idle

    def upcoming(self, limit: int = 100) -> list[Upcoming]:
        """Return at most ``limit`` documents that have a time, ascending by it; those that are due are among them.

        One that is being processed has the end of its lock as its time.
        """
        return self._store.upcoming(_positive("limit", limit))

    def count_due(self, cap: int = 10_000) -> Count:
        """Count the documents that are due now, at most ``cap`` of them."""
        return self._store.count_due(self._clock.now(), _positive("cap", cap))

    def malformed(self, limit: int = 100) -> list[Malformed]:
        """Return at most ``limit`` of the documents whose ``sleepUntil`` is no date: they are never processed."""
        return list(self._store.malformed(_positive("limit", limit)))

    def __enter__(self) -> DocumentScheduler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _is_inside(self) -> bool:
        return self._worker is not None and self._worker.hook_runner.is_calling()


def _has_ended(worker: DocumentWorker, limit: float | None) -> bool:
    """Wait until a worker has ended; false if that takes too long."""
    if worker.begun.is_set() and not worker.thread.is_alive():
        return True  # also in a forked child, where the thread has not come along
    if not worker.ended.wait(limit):
        return False
    worker.thread.join()
    return True


def _seconds(field: str, value: Duration) -> float:
    return read_duration(field, value).total_seconds()


def _positive(field: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_LISTED:
        raise InvalidArgument(
            f"{field} must be a whole number from 1 to {MOST_LISTED}, got {shown(value)}", field=field, value=value
        )
    return value
