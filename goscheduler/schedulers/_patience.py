"""Waiting for stores whose servers do not answer while a scheduler starts, or while a store is added to it.

Every step of a start that asks a store goes through :meth:`Patience.reach`, so an outage may begin at any of them. The
first failure is told, in the log and as an event; the end of the outage is told when the start is through.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import SchedulerNotRunningError, StoreUnavailable, described
from goscheduler.events import EventCode
from goscheduler.schedulers._outages import Outages

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine

#: The longest pause, in seconds, between two attempts to reach a store's server.
LONGEST_PAUSE = 5.0

T = TypeVar("T")


class GivenUp(SchedulerNotRunningError):
    """The scheduler was shut down while a store was waited for."""


class Patience:
    """Waits, during one start, for stores that do not answer: ``limit`` seconds in all, None for ever."""

    def __init__(self, engine: Engine, limit: float | None, hint: Callable[[], str]) -> None:
        self._engine = engine
        self._limit = limit
        self._hint = hint
        self._deadline = Deadline(SYSTEM_CLOCK, limit)
        self._outages = Outages()
        self._told: list[str] = []
        """Aliases of the stores that were waited for."""
        self._thread = threading.current_thread()
        self._given_up = threading.Event()
        self._over = threading.Event()
        self.succeeded = False

    def reach(self, alias: str, store: BaseJobStore, step: Callable[[], T]) -> T:
        """Return what ``step`` returns; while the store cannot be reached, try again.

        ``step`` has to bear being repeated after it was done without our hearing of it.

        :raises StoreUnavailable: if the time is over
        :raises GivenUp: if the start was given up
        """
        while True:
            if self._given_up.is_set():
                raise GivenUp
            try:
                result = step()
            except Exception as error:
                if not store.is_outage(error):
                    raise
                self._wait(alias, error)
                continue
            self._outages.ended(alias)
            return result

    def tell_of_recovery(self) -> None:
        """Say that the stores that were waited for are there."""
        for alias in self._told:
            self._engine.logger.info('Job store "%s" can be reached now', alias)
            self._engine.emit_scheduler_event(EventCode.SCHEDULER_RECOVERED, alias)

    def give_up(self) -> None:
        """Have the start end at its next step, or the pause that goes on."""
        self._given_up.set()

    def end(self) -> None:
        """Note that the start has succeeded or failed."""
        self._over.set()

    def wait_for_end(self, timeout: float | None) -> None:
        """Wait until the start has succeeded or failed."""
        self._over.wait(timeout)

    def is_current_thread(self) -> bool:
        """Tell whether the caller is what starts."""
        return self._thread is threading.current_thread()

    def _wait(self, alias: str, error: Exception) -> None:
        left = self._deadline.left()
        if left is not None and left <= 0:
            limit = f" within start_timeout, {self._limit:g} seconds" if self._limit else ""
            raise StoreUnavailable(f'Job store "{alias}" could not be reached{limit}: {described(error)}') from error
        if alias not in self._told:
            self._told.append(alias)
            self._engine.logger.warning(
                'Job store "%s" cannot be reached; the scheduler waits for it%s%s: %s', alias,
                "" if self._limit is None else f", for at most {self._limit:g} seconds", self._hint(), described(error),
            )
            self._engine.emit_scheduler_event(EventCode.SCHEDULER_DEGRADED, alias)
        pause = self._outages.failed(alias, SYSTEM_CLOCK.monotonic(), LONGEST_PAUSE)
        self._engine.logger.debug('Job store "%s" is tried again in %.1f seconds: %s', alias, pause, described(error))
        self._given_up.wait(pause if left is None else min(pause, left))
