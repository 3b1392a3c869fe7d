"""Streams that send an answer at once, and again whenever it has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from goscheduler.errors import StoreUnavailable
from goscheduler.ops.errors import TooMany

#: Seconds between two looks.
INTERVAL = 2.0

M = TypeVar("M", bound=Message)


class Watches:
    """The streams of one server. Each occupies a thread of the server, so they are few."""

    def __init__(self, most: int, interval: float = INTERVAL) -> None:
        self._most = most
        self._interval = interval
        self._lock = threading.Lock()
        self._wakers: set[threading.Event] = set()
        self._stopped = False

    def changes(self, context: Any, look: Callable[[], M]) -> Iterator[M]:
        """Yield what ``look`` finds, at once and whenever it is something else, until the call or the server ends.

        :raises TooMany: if there are as many streams as there may be
        :raises StoreUnavailable: when the server ends
        """
        waker = self._begin(context)
        seen: bytes | None = None
        while context.is_active() and not self._stopped:
            found = look()
            text = found.SerializeToString(deterministic=True)
            if text != seen:
                seen = text
                yield found
            waker.wait(self._interval)
        if self._stopped:
            raise StoreUnavailable("the server shuts down")

    def stop(self) -> None:
        """End all streams, and those to come."""
        with self._lock:
            self._stopped = True
            for waker in self._wakers:
                waker.set()

    def _begin(self, context: Any) -> threading.Event:
        waker = threading.Event()
        with self._lock:
            if len(self._wakers) >= self._most:
                raise TooMany(f"{self._most} streams go on, which is the most: end one, or ask now and then")
            self._wakers.add(waker)
        if not context.add_callback(lambda: self._end(waker)):
            self._end(waker)  # the call has ended before it began
        return waker

    def _end(self, waker: threading.Event) -> None:
        with self._lock:
            self._wakers.discard(waker)
        waker.set()
