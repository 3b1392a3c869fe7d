"""Delivers events to listeners, in order, without making the scheduler wait for them.

By default a thread of the bus's own calls the listeners, so a slow one delays only other listeners. ``dispatch="sync"``
calls them on the thread where the event happens. A listener that raises is logged, and the others are called.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple

from goscheduler.errors import shown
from goscheduler.events import EVENT_ANY, EVENT_JOB_STARTED, SchedulerEvent
from goscheduler.logs import GuardedLogger

Listener = Callable[[Any], object]


_delivering: ContextVar[EventBus | None] = ContextVar("goscheduler_delivering", default=None)


class _Subscription(NamedTuple):
    callback: Listener
    mask: int


class EventBus:
    """The listeners of one scheduler and the way to them."""

    def __init__(self, logger: GuardedLogger, detour: Callable[[SchedulerEvent], None] | None = None) -> None:
        self.dispatch = "thread"
        self._detour = detour
        self.run_coroutine: Callable[[Coroutine[Any, Any, object]], object] = _run_to_end
        """Runs the coroutine of an ``async def`` listener to its end; an asyncio scheduler puts its own loop here."""
        self._logger = logger
        self._subscriptions: tuple[_Subscription, ...] = ()
        self._wanted = 0
        self.hears_starts = False
        """Whether a listener wants to hear of starts; looked at for every run."""
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Iterable[SchedulerEvent] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def add_listener(self, callback: Listener, mask: int = EVENT_ANY) -> None:
        """Call ``callback(event)`` for every event whose code is in ``mask``. The same one may be added twice."""
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__} instead")
        if not isinstance(mask, int):
            raise TypeError(f"mask must be a sum of event codes, got {shown(mask)}")
        with self._lock:
            self._replace((*self._subscriptions, _Subscription(callback, int(mask))))

    def remove_listener(self, callback: Listener) -> None:
        """Forget every subscription of ``callback``; an unknown one is fine."""
        with self._lock:
            self._replace(tuple(s for s in self._subscriptions if s.callback != callback))

    def wants(self, code: int) -> bool:
        """Tell whether anybody listens, so that an event nobody hears need not be made."""
        return self._detour is not None or bool(int.__and__(self._wanted, code))

    def post(self, events: Iterable[SchedulerEvent]) -> None:
        """Deliver events after all that were posted before."""
        if not self._wanted and self._detour is None:
            return
        if self.dispatch == "sync":
            copy_context().run(self._deliver, events)
            return
        if self._thread is None or not self._thread.is_alive():
            self._start_thread()
        self._queue.put(events)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything posted so far was delivered; false if that took longer than ``timeout``.

        Called from a listener it returns at once, since that listener is what it would wait for.
        """
        thread = self._thread
        if thread is None or not thread.is_alive() or self.is_called_from_listener():
            return True
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is left and end the thread; if ``timeout`` is over before that, the thread stays and goes on."""
        delivered = self.flush(timeout)
        with self._lock:
            if delivered and self._thread is not None:
                self._queue.put(None)
                self._thread = None

    def is_called_from_listener(self) -> bool:
        """Tell whether the caller is a listener of this bus, or a coroutine that a listener has started."""
        return _delivering.get() is self

    def forget_thread(self) -> None:
        """Start afresh in a forked child, where the thread does not exist and locks may be held by nobody."""
        self._lock = threading.Lock()
        self._queue = SimpleQueue()
        self._thread = None

    def _replace(self, subscriptions: tuple[_Subscription, ...]) -> None:
        self._subscriptions = subscriptions
        self._wanted = 0
        for subscription in subscriptions:
            self._wanted |= subscription.mask
        self.hears_starts = bool(int.__and__(self._wanted, EVENT_JOB_STARTED))

    def _start_thread(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, args=(self._queue,), name="goscheduler-events", daemon=True
                )
                self._thread.start()

    def _run(self, queue: SimpleQueue[Iterable[SchedulerEvent] | threading.Event | None]) -> None:
        while (item := queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            else:
                self._deliver(item)

    def deliver(self, event: SchedulerEvent) -> None:
        """Call the listeners that want this event, here and now."""
        code = event.code
        for callback, mask in self._subscriptions:
            if int.__and__(mask, code):
                self._call(callback, event)

    def _deliver(self, events: Iterable[SchedulerEvent]) -> None:
        _delivering.set(self)
        for event in events:
            if self._detour is None:
                self.deliver(event)
            else:
                self._call(self._detour, event)

    def _call(self, callback: Listener, event: SchedulerEvent) -> None:
        try:
            result = callback(event)
            if result is not None and inspect.iscoroutine(result):
                self.run_coroutine(result)
        except BaseException:
            self._logger.exception("Error notifying listener %r of %r; calling the other listeners", callback, event)


def _run_to_end(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine on a loop of its own; on another thread where a loop is running on this one."""
    import asyncio  # heavy, and most listeners are plain functions

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    thread = threading.Thread(target=asyncio.run, args=(coroutine,), name="goscheduler-listener")
    thread.start()
    thread.join()
    return None
