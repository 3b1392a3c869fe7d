"""Calls the user's functions, plain ones and coroutine functions, and waits for their end.

Coroutines of one scheduler all run on one event loop, on a thread of its own that is started for the first of them, so
that they can share what belongs to a loop, such as an HTTP client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import Any

from goscheduler._event_loop_thread import EventLoopThread

_runner: ContextVar[HookRunner | None] = ContextVar("goscheduler_document_hooks", default=None)


class HookRunner:
    """Calls the hooks of one scheduler."""

    def __init__(self) -> None:
        self._thread = EventLoopThread("goscheduler-documents-asyncio")

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in a context of its own, and wait for the end of what it returns, if that can be awaited."""
        copy_context().run(self._call, function, arguments)

    def is_calling(self) -> bool:
        """Tell whether this code was called from here, at whatever distance."""
        return _runner.get() is self

    def close(self) -> None:
        """End the event loop, if there is one. A coroutine that is called after that gets another one."""
        self._thread.close(for_good=False)

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        _runner.set(self)
        result = function(*arguments)
        if isinstance(result, Awaitable):
            self._await(result)

    def _await(self, awaitable: Awaitable[Any]) -> None:
        error = self._thread.submit(lambda: _awaited(awaitable)).result()
        if error is not None:
            raise error


async def _awaited(awaitable: Awaitable[Any]) -> BaseException | None:
    """Await something; what would end the whole loop, and so all coroutines on it, is returned instead of raised."""
    try:
        await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return error
    return None
