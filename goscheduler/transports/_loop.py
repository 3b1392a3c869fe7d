"""An event loop on a thread of its own, for clients that have coroutines only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, TypeVar

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
        self._thread.close()

    def publish(self, event_name: str, message: Delivery) -> None:
        problem = self.publish_many([message])[0]
        if problem is not None:
            raise problem

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send several side by side, and return for each None or what ``publish`` would have raised."""
        try:
            return self._thread.run(lambda: self._send_all(messages), self._seconds_for(messages))
        except TransportUnavailable as problem:
            return [problem for _ in messages]

    async def _send_all(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send messages, and return for each None or what went wrong; on the thread."""
        raise NotImplementedError

    def _seconds_for(self, messages: Sequence[Delivery]) -> float:
        """Return how long that takes at most."""
        raise NotImplementedError

    async def _farewell(self) -> None:
        """Let go of connections; on the thread, before it ends."""
        raise NotImplementedError


class EventLoopThread:
    """Runs coroutines for other threads. The thread begins with the first of them."""

    def __init__(self, name: str, farewell: Callable[[], Awaitable[None]]) -> None:
        """Name the thread; ``farewell`` is awaited on it before it ends."""
        self._name = name
        self._farewell = farewell
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._closed = False

    def open(self) -> None:
        """Take coroutines again after ``close``."""
        with self._lock:
            self._closed = False

    def run(self, step: Callable[[], Coroutine[Any, Any, T]], within: float) -> T:
        """Return what the coroutine returns that ``step()`` makes. It keeps to the limit ``within`` by itself.

        :raises TransportUnavailable: if the thread was closed before its end
        """
        with self._lock:
            if self._closed:
                raise TransportUnavailable("the transport is closed")
            future = asyncio.run_coroutine_threadsafe(step(), self._started())
        try:
            return future.result(within + GRACE)
        except CancelledError:
            raise TransportUnavailable("the transport was closed meanwhile") from None
        except NoAnswer:
            future.cancel()
            raise TransportUnavailable(f"no answer within {within:g} s") from None

    def close(self) -> None:
        """End the thread, and with it what runs there."""
        with self._lock:
            thread, loop, ending = self._thread, self._loop, self._ending
            self._thread = self._loop = self._ending = None
            self._closed = True
        if thread is None or loop is None or ending is None:
            return
        loop.call_soon_threadsafe(ending.set)
        thread.join(GRACE)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            ready = threading.Event()
            self._thread = threading.Thread(target=self._serve, args=(ready,), name=self._name, daemon=True)
            self._thread.start()
            ready.wait()
        assert self._loop is not None
        return self._loop

    def _serve(self, ready: threading.Event) -> None:
        asyncio.run(self._until_the_end(ready))

    async def _until_the_end(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        ending = self._ending = asyncio.Event()
        ready.set()
        await ending.wait()
        await self._farewell()
