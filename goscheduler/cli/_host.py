"""A scheduler of any kind, started on a thread of its own.

``start()`` of a blocking scheduler does not return, that of an asyncio scheduler needs a running event loop. On a
thread of its own each gets what it needs, and the main thread stays free to hear signals.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, cast

from goscheduler.cli._command_error import FAILED, CommandError, one_line
from goscheduler.cli._stores import require_store, tell_of_narrow_sight
from goscheduler.cli._target import find_scheduler
from goscheduler.errors import SchedulerNotRunningError, StoreUnavailable
from goscheduler.events import EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_STARTED, SchedulerEvent
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.schedulers.base import BaseScheduler

#: How long signals may go unheard at most.
LOOK_SECONDS = 0.25


class HostEventKind(Enum):
    """The kinds of events that the main thread waits for."""

    STARTED = "started"
    ENDED = "ended"
    FAILED = "failed"
    SIGNAL = "signal"


class HostEvent(NamedTuple):
    kind: HostEventKind
    error: BaseException | None = None
    signal: int = 0


class Host:
    """Starts and ends one scheduler, and puts what happens into ``events``."""

    def __init__(self, scheduler: BaseScheduler) -> None:
        self.scheduler = scheduler
        # A simple queue, because a signal may interrupt whoever waits for it, and put something in.
        self.events: SimpleQueue[HostEvent] = SimpleQueue()

    def start(self, paused: bool = False) -> None:
        """Begin to start the scheduler; events follow."""
        started = HostEvent(HostEventKind.STARTED)
        self.scheduler.add_listener(lambda _: self.events.put(started), EVENT_SCHEDULER_STARTED)
        self._on_a_thread(self._serve, paused)

    def stop(self) -> None:
        """Begin to end the scheduler: nothing fires any more, and what runs comes to its end."""
        self._on_a_thread(self._shut_down)

    def hear_of_outage(self, event: SchedulerEvent) -> None:
        """Report a store that cannot be reached."""
        error = StoreUnavailable(f'job store "{event.alias}" cannot be reached')
        self.events.put(HostEvent(HostEventKind.FAILED, error))

    def next_event(self) -> HostEvent:
        """Wait for the next event and return it.

        A signal that comes just before the wait begins does not end it: Python calls its handler after the wait. So
        no wait is long.
        """
        while True:
            try:
                return self.events.get(timeout=LOOK_SECONDS)
            except Empty:
                continue

    def _on_a_thread(self, target: Callable[..., object], *args: object) -> None:
        threading.Thread(target=self._guarded, args=(target, *args), name="goscheduler-host", daemon=True).start()

    def _guarded(self, target: Callable[..., object], *args: object) -> None:
        try:
            target(*args)
        except BaseException as error:  # handed to the main thread, which decides
            self.events.put(HostEvent(HostEventKind.FAILED, error))

    def _serve(self, paused: bool) -> None:
        if isinstance(self.scheduler, AsyncIOScheduler):
            self._serve_on_a_loop(self.scheduler, paused)
        elif self.scheduler.turned_by and not paused:
            raise RuntimeError(
                f"{type(self.scheduler).__name__} runs its jobs on a loop that only {self.scheduler.turned_by} turns; "
                "start it in a program of its own, or use a BackgroundScheduler here"
            )
        else:
            staying: Any = cast(Any, self.scheduler).start(paused)
            if staying is None:
                self.scheduler.engine.stopped.wait()
            else:
                staying.join()  # a greenlet, whose hub has to turn
        self.events.put(HostEvent(HostEventKind.ENDED))

    def _serve_on_a_loop(self, scheduler: AsyncIOScheduler, paused: bool) -> None:
        async def serve() -> None:
            await scheduler.aio.start(paused)
            await asyncio.to_thread(scheduler.engine.stopped.wait)

        if scheduler.given_loop is None:
            asyncio.run(serve())
        else:
            scheduler.given_loop.run_until_complete(serve())

    def _shut_down(self) -> None:
        try:
            self.scheduler.shutdown()
        except SchedulerNotRunningError:
            return  # it has ended by itself


def found(target: str | None) -> BaseScheduler:
    """Return the scheduler that is looked into. What its module prints, or logs to stdout, goes to stderr.

    Only results belong on stdout: other programs read them.
    """
    with redirect_stdout(sys.stderr):
        return find_scheduler(target)


@contextmanager
def started(scheduler: BaseScheduler, store: str | None = None) -> Iterator[BaseScheduler]:
    """Give a scheduler, started without firing, and shut it down. Nobody waits here for a store that is down."""
    _forget_additions(scheduler)
    host = Host(scheduler)
    scheduler.add_listener(host.hear_of_outage, EVENT_SCHEDULER_DEGRADED)
    host.start(paused=True)
    _await(host, HostEventKind.STARTED)
    scheduler.remove_listener(host.hear_of_outage)
    try:
        require_store(scheduler.engine.stores, store)
        tell_of_narrow_sight(scheduler.engine.stores)
        yield scheduler
    finally:
        host.stop()
        _await(host, HostEventKind.ENDED)


def _forget_additions(scheduler: BaseScheduler) -> None:
    """Drop the jobs that the module adds, where the store knows them from the worker: looking must change nothing."""
    for alias, store in scheduler.engine.stores.items():
        if not store.keeps_objects and scheduler.get_jobs(alias):
            scheduler.remove_all_jobs(alias)


def _await(host: Host, kind: HostEventKind) -> None:
    event = host.next_event()
    while event.kind is not kind:
        if event.error is not None:
            raise CommandError(f"the scheduler cannot be used: {one_line(event.error)}", FAILED) from event.error
        event = host.next_event()
