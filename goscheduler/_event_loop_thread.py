"""An event loop on a thread of its own, which runs coroutines for other threads."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


class EventLoopClosed(RuntimeError):
    """Raised for a coroutine that comes after the thread was closed."""


class EventLoopThread:
    """Runs coroutines for other threads. The thread begins with the first of them."""

    def __init__(self, name: str, before_end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Name the thread; ``before_end`` is awaited on it before it ends."""
        self._name = name
        self._before_end = before_end
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._closed = False

    def open(self) -> None:
        """Take coroutines again after :meth:`close`."""
        with self._lock:
            self._closed = False

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin to run the coroutine that ``make()`` returns.

        :raises EventLoopClosed: after :meth:`close`
        """
        import asyncio  # not at the top: heavy, and most programs have no coroutine

        with self._lock:
            if self._closed:
                raise EventLoopClosed("the event loop is closed")
            return asyncio.run_coroutine_threadsafe(make(), self._started())

    def close(self, timeout: float | None = None, for_good: bool = True) -> None:
        """Cancel what still runs there, and wait for the end of the thread, for at most ``timeout`` seconds.

        The next coroutine is refused or, unless it is ``for_good``, begins another thread.
        """
        with self._lock:
            thread, loop, ending = self._thread, self._loop, self._ending
            self._thread = self._loop = self._ending = None
            self._closed = for_good
        if thread is not None and loop is not None and ending is not None:
            loop.call_soon_threadsafe(ending.set)
            thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            ready = threading.Event()
            self._thread = threading.Thread(target=self._serve, args=(ready,), name=self._name, daemon=True)
            self._thread.start()
            ready.wait()
        assert self._loop is not None
        return self._loop

    def _serve(self, ready: threading.Event) -> None:
        import asyncio

        asyncio.run(self._until_the_end(ready))

    async def _until_the_end(self, ready: threading.Event) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        ending = self._ending = asyncio.Event()
        ready.set()
        await ending.wait()
        if self._before_end is not None:
            await self._before_end()
