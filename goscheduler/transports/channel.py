"""A transport inside the process: messages go to subscribers, or into a queue from which they are fetched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, Full, Queue
from typing import Any

from goscheduler.errors import InvalidArgument, TransportUnavailable, shown
from goscheduler.transports.base import BaseTransport, Delivery

#: How many messages wait to be fetched before no more are taken.
ROOM = 10_000

Subscriber = Callable[[Delivery], object]


class ChannelTransport(BaseTransport):
    """Hands messages to the functions that have subscribed; without any, keeps them for :meth:`get`.

    A function that raises fails the delivery, which is tried again. The queue takes ``maxsize`` messages; when it is
    full, what comes due is tried again later.
    """

    def __init__(self, maxsize: int = ROOM) -> None:
        if isinstance(maxsize, bool) or not isinstance(maxsize, int) or maxsize < 1:
            raise InvalidArgument(
                f"maxsize must be a positive integer, got {shown(maxsize)}", field="maxsize", value=maxsize
            )
        self._queue: Queue[Delivery] = Queue(maxsize)
        self._subscribers: tuple[tuple[Subscriber, str | None], ...] = ()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> ChannelTransport:
        """Return the channel of this process that ``channel:name`` names; see :func:`channel`."""
        return channel(url.partition(":")[2].removeprefix("//"), **options)

    def subscribe(self, function: Subscriber, event_name: str | None = None) -> None:
        """Call ``function(message)`` for every message from now on, or for those of one event name.

        It is called on the thread that delivers.
        """
        if not callable(function):
            raise TypeError(f"function must be a callable, got {shown(function)}")
        with _CHANGING:
            self._subscribers = (*self._subscribers, (function, event_name))

    def get(self, timeout: float | None = None) -> Delivery | None:
        """Return the next message of the queue; None if there is none within ``timeout`` seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except Empty:
            return None

    def publish(self, event_name: str, message: Delivery) -> None:
        subscribers = self._subscribers
        if subscribers:
            for function, wanted in subscribers:
                if wanted is None or wanted == event_name:
                    function(message)
            return
        try:
            self._queue.put_nowait(message)
        except Full:
            raise TransportUnavailable(
                f"the channel is full: {self._queue.maxsize} messages wait to be fetched"
            ) from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self._queue.qsize()} of {self._queue.maxsize})>"


def channel(name: str, **options: Any) -> ChannelTransport:
    """Return the channel that has this name in this process; ``options`` count when it is made, at the first call."""
    with _CHANGING:
        if name not in _channels:
            _channels[name] = ChannelTransport(**options)
        return _channels[name]


_channels: dict[str, ChannelTransport] = {}
_CHANGING = threading.Lock()
