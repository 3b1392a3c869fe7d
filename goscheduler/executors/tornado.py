"""An executor on the event loop of a TornadoScheduler."""

from __future__ import annotations

from functools import partial

from goscheduler.executors.asyncio import AsyncIOExecutor
from goscheduler.executors.base import BaseExecutor, run_coroutine_job, run_job
from goscheduler.executors.pool import positive_int
from goscheduler.tasks import PassJob

try:
    from tornado.gen import is_coroutine_function as is_tornado_coroutine
except ImportError as error:
    raise ImportError(
        'TornadoExecutor needs Tornado; install it with: pip install "goscheduler[tornado]"', name=error.name
    ) from error

__all__ = ["BaseExecutor", "TornadoExecutor", "run_coroutine_job", "run_job"]


class TornadoExecutor(AsyncIOExecutor):
    """Runs coroutine functions, native ones and those of ``tornado.gen``, on the IOLoop of the scheduler, and all
    others in up to ``max_workers`` threads.

    A shutdown and a cancellation do what they do in an :class:`AsyncIOExecutor`.
    """

    _scheduler_class = "a TornadoScheduler"

    def __init__(self, max_workers: int | str = 10) -> None:
        self.max_workers = positive_int("max_workers", max_workers)

    def _thread_count(self) -> int:
        return self.max_workers

    def _runs_on_loop(self, func: object) -> bool:
        if super()._runs_on_loop(func):
            return True
        while isinstance(func, (partial, PassJob)):
            func = func.func
        return callable(func) and is_tornado_coroutine(func)
