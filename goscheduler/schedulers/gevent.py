"""A scheduler for gevent programs.

Where gevent has patched the standard library before the scheduler was imported, all of it runs on the hub that calls
``start()``: each of its threads is a greenlet, and a store yields as far as its driver does. Without patching the
scheduler has threads of its own, and only jobs and listeners run on the hub.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from goscheduler.errors import SchedulerAlreadyRunningError
from goscheduler.events import SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.gevent import is_on_thread_of, waiting_stops
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.schedulers.blocking import BlockingScheduler

try:
    import gevent
    from gevent.event import Event
    from gevent.hub import get_hub
except ImportError as error:
    raise ImportError(
        'GeventScheduler needs gevent; install it with: pip install "goscheduler[gevent]"', name=error.name
    ) from error

__all__ = ["BaseScheduler", "BlockingScheduler", "GeventScheduler"]


class GeventScheduler(BackgroundScheduler):
    """Runs jobs as greenlets on the hub of the thread that calls ``start()``, and calls listeners there."""

    _hub: Any = None
    _threads: Any = None
    """Those of the hub."""
    _watcher: Any = None
    """It keeps the hub turning, and tells it when the scheduler has stopped."""

    def start(self, paused: bool = False, *, only_adds: bool = False) -> Any:
        """Start, and return a greenlet that ends when the scheduler has been shut down: ``start().join()``."""
        if self.running:
            raise SchedulerAlreadyRunningError
        self._hub, ended = get_hub(), Event()
        self._threads = self._hub.threadpool  # now, because it cannot be made any more when the interpreter ends
        watcher = self._hub.loop.async_()
        watcher.start(ended.set)
        try:
            super().start(paused, only_adds=only_adds)
        except BaseException:
            _close(watcher)
            raise
        self._watcher = watcher
        if self.engine.stopped.is_set():
            watcher.send()
        return gevent.spawn(_stay, ended, watcher)

    def _shut_down(self, finish: Callable[[], None]) -> None:
        if self._hub is not None and waiting_stops(self._hub) and not self._is_called_from_inside():
            self._threads.apply(finish)  # the hub turns meanwhile
        else:
            super()._shut_down(finish)

    def _finish_shutdown(self, wait: bool, timeout: float | None) -> None:
        try:
            super()._finish_shutdown(wait, timeout)
        finally:
            watcher, self._watcher = self._watcher, None
            if watcher is not None:  # else start() has yet to look whether we are through
                watcher.send()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._hub = self._watcher = None  # they belong to the parent

    def _dispatch_event(self, event: SchedulerEvent) -> None:
        """Call the listeners on the hub, and return when they have ended."""
        if self._hub is None or self.engine.bus.dispatch == "sync" or is_on_thread_of(self._hub):
            super()._dispatch_event(event)
            return
        delivered = threading.Event()
        deliver = partial(copy_context().run, self._deliver, event, delivered)
        self._hub.loop.run_callback_threadsafe(gevent.spawn, deliver)
        delivered.wait()

    def _deliver(self, event: SchedulerEvent, delivered: threading.Event) -> None:
        try:
            super()._dispatch_event(event)
        finally:
            delivered.set()

    def _create_default_executor(self) -> BaseExecutor:
        from goscheduler.executors.gevent import GeventExecutor

        return GeventExecutor()


def _stay(ended: Event, watcher: Any) -> None:
    try:
        ended.wait()
    finally:
        _close(watcher)


def _close(watcher: Any) -> None:
    watcher.stop()
    watcher.close()
