"""A scheduler for asyncio programs.

It fires on a thread of its own, so no store is ever waited for on the event loop; coroutine functions run on the loop.
Methods that go to a store, such as ``add_job``, do so on the caller's thread: with a store that does I/O, call them
through :attr:`AsyncIOScheduler.aio`, ``await scheduler.aio.add_job(...)``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from goscheduler.config import SchedulerConfig
from goscheduler.errors import SchedulerNotRunningError
from goscheduler.executors.asyncio import AsyncIOExecutor, running_loop
from goscheduler.executors.base import BaseExecutor
from goscheduler.refs import maybe_ref
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

__all__ = ["AsyncIOScheduler", "BaseScheduler", "SchedulerNotRunningError"]


class AsyncIOScheduler(BackgroundScheduler):
    """Runs coroutine functions on an event loop: the one given as ``event_loop``, else that running at ``start()``."""

    extra_options = (*BackgroundScheduler.extra_options, "event_loop")
    _eventloop: asyncio.AbstractEventLoop | None = None
    _callers_loop: asyncio.AbstractEventLoop | None = None
    """The loop on which ``aio.start()`` was called."""

    def _apply(self, config: SchedulerConfig) -> None:
        super()._apply(config)
        self._given_loop = maybe_ref(config.extra.get("event_loop"))
        self._engine.bus.run_coroutine = self._run_listener

    @property
    def aio(self) -> OffLoop:
        """This scheduler's methods, run on another thread and awaited."""
        return OffLoop(self)

    def start(self, paused: bool = False) -> None:
        """Start on the running event loop, unless another one was given.

        :raises RuntimeError: if no loop is running and none was given
        """
        if not self.running:
            given = self._given_loop or self._callers_loop
            self._eventloop = asyncio.get_running_loop() if given is None or given.is_closed() else given
        super().start(paused)

    def _shut_down(self, finish: Callable[[], None]) -> Awaitable[None]:
        """Shut down; on the event loop without blocking it, and then the result can be awaited."""
        loop = running_loop()
        if loop is not None and loop is self._eventloop and not self._is_called_from_inside():
            return loop.run_in_executor(None, finish)
        super()._shut_down(finish)
        return _Done()

    def _await_shutdown(self) -> None:
        if running_loop() is not None and not self._stopped.is_set():
            raise RuntimeError("The scheduler is still shutting down; await scheduler.shutdown() before start()")
        super()._await_shutdown()

    def _create_default_executor(self) -> BaseExecutor:
        return AsyncIOExecutor()

    def _run_listener(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run a coroutine listener on the loop. With sync dispatch it is only started: the loop may wait for us."""
        loop = self._eventloop
        if loop is None or loop.is_closed():
            coroutine.close()
            raise RuntimeError("the event loop is closed; the coroutine listener was not called")
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return None if self._engine.bus.dispatch == "sync" else future.result()


class OffLoop:
    """Calls methods of a scheduler on another thread: ``job = await scheduler.aio.add_job(...)``."""

    def __init__(self, scheduler: AsyncIOScheduler) -> None:
        self._scheduler = scheduler

    def start(self, paused: bool = False) -> Awaitable[None]:
        """Start the scheduler, for the loop that is running here."""
        self._scheduler._callers_loop = asyncio.get_running_loop()
        return asyncio.to_thread(self._scheduler.start, paused)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._scheduler, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"{name!r} is not a method of the scheduler")

        def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            return asyncio.to_thread(method, *args, **kwargs)

        return call


class _Done:
    """What there is to await when everything has happened already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield
