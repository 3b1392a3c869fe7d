"""The counters of a worker, and the live line that shows them on a terminal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from rich.console import Console
from rich.live import Live
from rich.text import Text

from goscheduler.cli._command_error import one_line
from goscheduler.events import EventCode, SchedulerEvent
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.times import EPOCH, local_timezone

#: Which event counts as what.
COUNTED = {
    EventCode.JOB_EXECUTED: "done",
    EventCode.JOB_ERROR: "failed",
    EventCode.JOB_RETRIED: "retried",
    EventCode.JOB_DEAD_LETTERED: "dead",
}
REFRESH_SECONDS = 0.5

_logger = guarded_logger("goscheduler.worker")


class Board:
    """Counts what a worker has finished, by events, and what it is running, by asking the scheduler."""

    def __init__(self, scheduler: BaseScheduler) -> None:
        self._scheduler = scheduler
        self._counts: Counter[str] = Counter()
        self._in_hand: Counter[str] = Counter()
        scheduler.add_listener(self.count, sum(COUNTED))

    def count(self, event: SchedulerEvent) -> None:
        """Take note of an event."""
        self._counts[COUNTED[EventCode(event.code)]] += 1

    def total(self) -> str:
        """Return the counters of what has ended."""
        return ", ".join(f"{self._counts[name]} {name}" for name in COUNTED.values())

    def line(self) -> str:
        """Return everything on one line."""
        in_hand = ", ".join(f"{self._in_hand[state]} {state}" for state in ("running", "queued"))
        return f"{in_hand}, {self.total()}, next due {self._next_due()}"

    def look(self) -> None:
        """Ask for what is running and queued here. It may take as long as the store does."""
        is_ours = self._scheduler.engine.leases.is_ours
        self._in_hand = Counter(run.state for run in self._scheduler.live_runs() if is_ours(run.owner))

    def _look_or_wait(self) -> None:
        try:
            self.look()
        except Exception as error:  # the scheduler says itself that a store is out; the old numbers stay
            _logger.debug("The live runs cannot be counted: %s", one_line(error))

    def _next_due(self) -> str:
        due = next_due(self._scheduler)
        if due is None:
            return "never"
        return f"{due.astimezone(local_timezone()):%H:%M:%S %Z}"

    @contextmanager
    def shown_on(self, console: Console) -> Iterator[None]:
        """Keep the line at the bottom of a terminal; what is printed meanwhile stands above it."""
        ended = threading.Event()

        def keep_looking() -> None:
            while not ended.wait(REFRESH_SECONDS):
                self._look_or_wait()

        # On a thread of its own, so that a store that hangs keeps neither the line nor signals waiting.
        threading.Thread(target=keep_looking, name="goscheduler-board", daemon=True).start()
        with Live(
            get_renderable=lambda: Text(self.line()), console=console, refresh_per_second=1 / REFRESH_SECONDS,
            transient=True,
        ):  # fmt: skip
            try:
                yield
            finally:
                ended.set()


def next_due(scheduler: BaseScheduler) -> datetime | None:
    """Return when the scheduler, as of its last round, has something to do; None if nothing is due ever."""
    loop = scheduler.engine.loop
    beyond = max(0.0, loop.seconds_until_due - scheduler.poll_interval)
    try:
        return EPOCH + timedelta(seconds=loop.sleeping_until + beyond)
    except OverflowError:  # infinity
        return None
