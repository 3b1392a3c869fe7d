"""Calls the user's functions, plain ones and coroutine functions, and waits for their end.

Coroutines of one scheduler all run on one event loop, on a thread of its own that is started for the first of them, so
that they can share what belongs to a loop, such as an HTTP client.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_caller: ContextVar[Caller | None] = ContextVar("goscheduler_documents_caller", default=None)


class Caller:
    """Calls functions for one scheduler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: EventLoopThread | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in a context of its own, and wait for the end of what it returns, if that can be awaited."""
        copy_context().run(self._call, function, arguments)

    def is_calling(self) -> bool:
        """Tell whether this code was called from here, at whatever distance."""
        return _caller.get() is self

    def close(self) -> None:
        """End the event loop, if there is one."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        _caller.set(self)
        result = function(*arguments)
        if isinstance(result, Awaitable):
            self._event_loop().run(result)

    def _event_loop(self) -> EventLoopThread:
        with self._lock:
            if self._loop is None:
                self._loop = EventLoopThread()
            return self._loop


class EventLoopThread:
    """An event loop on a thread."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._running: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="goscheduler-documents-asyncio", daemon=True)
        self._thread.start()
        self._ready.wait()

    def run(self, awaitable: Awaitable[Any]) -> None:
        """Wait until something has been awaited; raise what that raises."""
        import asyncio  # not at the top: heavy, and most programs have no coroutine

        assert self._running is not None
        error = asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._running).result()
        if error is not None:
            raise error

    def close(self) -> None:
        """Cancel what the user's coroutines have left behind, and end the thread."""
        assert self._running is not None
        assert self._ending is not None
        self._running.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _serve(self) -> None:
        import asyncio

        asyncio.run(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        import asyncio

        self._running, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._ending.wait()


async def _awaited(awaitable: Awaitable[Any]) -> BaseException | None:
    """Await something; what would end the whole loop, and so all coroutines on it, is returned instead of raised."""
    try:
        await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return error
    return None
