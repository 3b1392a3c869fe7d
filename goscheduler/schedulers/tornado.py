"""A scheduler for Tornado programs.

Tornado runs on asyncio, so this is an AsyncIOScheduler that knows an IOLoop: see there, also for ``aio``.
"""

from __future__ import annotations

from typing import Any

from goscheduler.config import SchedulerConfig
from goscheduler.errors import InvalidArgument, SchedulerNotRunningError, shown
from goscheduler.executors.asyncio import running_loop
from goscheduler.executors.base import BaseExecutor
from goscheduler.references import maybe_ref
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.schedulers.base import BaseScheduler

try:
    from tornado.ioloop import IOLoop
except ImportError as error:
    raise ImportError(
        'TornadoScheduler needs Tornado; install it with: pip install "goscheduler[tornado]"', name=error.name
    ) from error

__all__ = ["BaseScheduler", "SchedulerNotRunningError", "TornadoScheduler"]


class TornadoScheduler(AsyncIOScheduler):
    """Runs coroutine functions on an IOLoop: the one given as ``io_loop``, else the one that is running at
    ``start()``, else the current one of the thread."""

    extra_options = (*(name for name in AsyncIOScheduler.extra_options if name != "event_loop"), "io_loop")
    _ioloop: IOLoop | None = None

    def _apply(self, config: SchedulerConfig) -> None:
        given: Any = maybe_ref(config.extra.get("io_loop"))
        if given is not None and not hasattr(given, "asyncio_loop"):
            raise InvalidArgument(
                f"io_loop must be an IOLoop of Tornado, got {shown(given)}", field="io_loop", value=given
            )
        super()._apply(config)
        self.given_loop = None if given is None else given.asyncio_loop
        self._given_ioloop: IOLoop | None = given
        self._ioloop = given or IOLoop.current(instance=False)

    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start for an IOLoop that runs, or that will: ``start()`` may well come before ``IOLoop.current().start()``.

        :meth:`AsyncIOScheduler.start` says more.
        """
        if not self.running and not only_adds:
            self._ioloop = self._given_ioloop or self._loop_of_caller()
            self.given_loop = None if self._ioloop is None else self._ioloop.asyncio_loop  # type: ignore[attr-defined]
        super().start(paused, only_adds=only_adds)

    def _loop_of_caller(self) -> IOLoop | None:
        """Return the loop that runs here, or else the one that will; None if ``aio.start()`` has noted one."""
        if running_loop() is not None:
            return IOLoop.current()
        if self._callers_loop is not None:
            return None
        # Tornado's loop of this thread may have changed since the scheduler was made, by asyncio.run for instance.
        return IOLoop.current()

    def _create_default_executor(self) -> BaseExecutor:
        from goscheduler.executors.tornado import TornadoExecutor

        return TornadoExecutor()
