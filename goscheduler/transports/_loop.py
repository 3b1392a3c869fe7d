"""Transports whose client has coroutines only."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, TypeVar

from goscheduler._event_loop_thread import EventLoopClosed, EventLoopThread
from goscheduler.errors import TransportUnavailable
from goscheduler.transports.base import BaseTransport, Delivery

T = TypeVar("T")

#: How long after its own limit a coroutine is waited for. Only a loop that is stuck lets this pass.
GRACE = 5.0


class LoopTransport(BaseTransport):
    """A transport whose client has coroutines only. They run on a thread of their own."""

    def __init__(self, thread_name: str) -> None:
        self._thread = EventLoopThread(thread_name, self._farewell)

    def start(self) -> None:
        self._thread.open()

    def close(self) -> None:
        """Let go of all connections, and end their thread."""
        self._thread.close(GRACE)

    def publish(self, event_name: str, message: Delivery) -> None:
        problem = self.publish_many([message])[0]
        if problem is not None:
            raise problem

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send several side by side, and return for each None or what ``publish`` would have raised."""
        try:
            return self._run(lambda: self._send_all(messages), self._seconds_for(messages))
        except TransportUnavailable as problem:
            return [problem for _ in messages]

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]], within: float) -> T:
        """Return what the coroutine returns that ``make()`` returns. It keeps to the limit ``within`` by itself.

        :raises TransportUnavailable: if the transport was closed before its end
        """
        try:
            future = self._thread.submit(make)
        except EventLoopClosed:
            raise TransportUnavailable("the transport is closed") from None
        try:
            return future.result(within + GRACE)
        except CancelledError:
            raise TransportUnavailable("the transport was closed meanwhile") from None
        except NoAnswer:
            future.cancel()
            raise TransportUnavailable(f"no answer within {within:g} s") from None

    async def _send_all(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send messages, and return for each None or what went wrong; on the thread."""
        raise NotImplementedError

    def _seconds_for(self, messages: Sequence[Delivery]) -> float:
        """Return how long that takes at most."""
        raise NotImplementedError

    async def _farewell(self) -> None:
        """Let go of connections; on the thread, before it ends."""
        raise NotImplementedError
