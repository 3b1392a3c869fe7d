"""A scheduler for Twisted programs.

It fires on a thread of its own, so no store is ever waited for on the reactor. Coroutine functions and functions that
give a Deferred run on the reactor, all others in the reactor's thread pool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from goscheduler.config import SchedulerConfig
from goscheduler.errors import SchedulerNotRunningError
from goscheduler.executors.base import BaseExecutor
from goscheduler.references import maybe_ref
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

try:
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure
    from twisted.python.threadable import isInIOThread
except ImportError as error:
    raise ImportError(
        'TwistedScheduler needs Twisted; install it with: pip install "goscheduler[twisted]"', name=error.name
    ) from error

__all__ = ["BaseScheduler", "SchedulerNotRunningError", "TwistedScheduler"]

#: How often somebody who waits for the reactor looks whether it still runs, in seconds.
LOOK_SECONDS = 0.25


class TwistedScheduler(BackgroundScheduler):
    """Runs jobs on a reactor and its threads: the one given as ``reactor``, else the global one.

    A reactor that stops shuts the scheduler down first, and waits for the jobs that run.
    """

    extra_options = (*BackgroundScheduler.extra_options, "reactor")
    turned_by = "reactor.run()"
    _reactor: Any = None
    _trigger: Any = None

    def _apply(self, config: SchedulerConfig) -> None:
        super()._apply(config)
        self._given_reactor = maybe_ref(config.extra.get("reactor"))
        self._reactor = self._given_reactor or self._reactor
        self.engine.bus.run_coroutine = self._run_listener

    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start, before ``reactor.run()`` or on a reactor that runs."""
        if not self.running:
            self._reactor = self._given_reactor or _global_reactor()
        super().start(paused, only_adds=only_adds)
        if self._trigger is None:
            self._trigger = self._reactor.addSystemEventTrigger("before", "shutdown", self._end_with_reactor)

    def _shut_down(self, finish: Callable[[], None]) -> Deferred[None] | None:
        """Shut down; on the reactor without blocking it, and then the Deferred says when that is done."""
        if not self._is_on_reactor() or self._is_called_from_inside():
            super()._shut_down(finish)
            return None
        done: Deferred[None] = Deferred()

        def shut_down() -> None:
            try:
                finish()
            except BaseException:
                self._reactor.callFromThread(done.errback, Failure())  # type: ignore[no-untyped-call]
            else:
                self._reactor.callFromThread(done.callback, None)

        threading.Thread(target=shut_down, name="goscheduler-shutdown").start()
        return done

    def _finish_shutdown(self, wait: bool, timeout: float | None) -> None:
        try:
            super()._finish_shutdown(wait, timeout)
        finally:
            if self._reactor.running:
                self._reactor.callFromThread(self._forget_reactor)

    def _end_with_reactor(self) -> Any:
        self._trigger = None
        with suppress(SchedulerNotRunningError):
            return self.shutdown()

    def _forget_reactor(self) -> None:
        if self._trigger is not None and not self.running:
            self._reactor.removeSystemEventTrigger(self._trigger)
            self._trigger = None

    def _is_on_reactor(self) -> bool:
        running = self._reactor is not None and self._reactor.running
        return running and bool(isInIOThread())  # type: ignore[no-untyped-call]

    def _await_shutdown(self) -> None:
        if self._is_on_reactor() and not self.engine.stopped.is_set():
            raise RuntimeError("The scheduler is still shutting down; wait for what shutdown() returned before start()")
        super()._await_shutdown()

    def _create_default_executor(self) -> BaseExecutor:
        from goscheduler.executors.twisted import TwistedExecutor

        return TwistedExecutor()

    def _run_listener(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run a coroutine listener on the reactor. With sync dispatch it is only begun, as it may wait for us."""
        ended: Future[object] = Future()
        self._reactor.callFromThread(copy_context().run, _watch, coroutine, ended)
        if self.engine.bus.dispatch == "sync":
            return None
        while True:
            try:
                return ended.result(LOOK_SECONDS)
            except NotYet:
                if ended.done():
                    raise
                if not self.running and not self._reactor.running:
                    raise RuntimeError("the reactor has stopped; the coroutine listener was not called") from None


def _watch(coroutine: Coroutine[Any, Any, object], ended: Future[object]) -> None:
    """Begin a coroutine on the reactor, and have ``ended`` tell how it ended."""
    deferred = Deferred.fromCoroutine(coroutine)
    deferred.addCallbacks(ended.set_result, lambda failure: ended.set_exception(failure.value))


def _global_reactor() -> Any:
    from twisted.internet import reactor  # to import it is to install it, and programs choose one of their own first

    return reactor
