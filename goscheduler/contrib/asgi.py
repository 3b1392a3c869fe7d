"""A lifespan for FastAPI, Starlette, Litestar and other ASGI applications: it starts a scheduler and shuts it down.

Each process that serves has a lifespan; the supervisor of ``uvicorn --workers`` or ``--reload`` has none. So nothing is
started at import, and the scheduler runs where the requests are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from goscheduler.contrib import _starting
from goscheduler.contrib._roles import check_role, problem_with_workers
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.schedulers.base import BaseScheduler

__all__ = ["lifespan"]

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

_logger = guarded_logger("goscheduler.contrib")


def lifespan(
    scheduler: BaseScheduler, *, inner: Lifespan | None = None, role: str = "run", timeout: float | None = None
) -> Lifespan:
    """Return a lifespan in which ``scheduler`` runs jobs or, in the role "add", only adds them.

    ``inner`` is the lifespan that the application has besides; the scheduler starts inside of it, so that its jobs may
    use what it opens. The state has the scheduler as ``request.state.scheduler``, beside what ``inner`` yields. At the
    end running jobs are waited for, for at most ``timeout`` seconds. A lifespan in the role "off" neither starts the
    scheduler nor shuts it down.

    :raises InvalidArgument: if ``role`` is not "run", "add" or "off"
    """
    check_role(role)

    @asynccontextmanager
    async def span(app: Any) -> AsyncIterator[dict[str, Any]]:
        async with _nothing(app) if inner is None else inner(app) as state:
            is_ours = await _start(scheduler, role)
            try:
                _put_into_state(app, scheduler)
                yield {**(state or {}), "scheduler": scheduler}
            finally:
                if is_ours:
                    await _shut_down(scheduler, timeout)

    return span


@asynccontextmanager
async def _nothing(app: Any) -> AsyncIterator[None]:
    yield


async def _start(scheduler: BaseScheduler, role: str) -> bool:
    """Start a scheduler, and tell whether that was done: what somebody else has started is theirs to shut down."""
    if role == "off":
        _logger.info("The scheduler is not started: its role is 'off'")
        return False
    problem = problem_with_workers(_starting.look_around(), _starting.is_shared(scheduler)) if role == "run" else ""
    if problem:
        _logger.warning("%s", problem)
    if isinstance(scheduler, AsyncIOScheduler):
        await scheduler.aio.start(only_adds=role == "add")
    else:
        await asyncio.to_thread(scheduler.start, only_adds=role == "add")
    return True


async def _shut_down(scheduler: BaseScheduler, timeout: float | None) -> None:
    if not scheduler.running:
        return
    if isinstance(scheduler, AsyncIOScheduler):
        await scheduler.shutdown(timeout=timeout)
    else:
        await asyncio.to_thread(scheduler.shutdown, True, timeout)


def _put_into_state(app: Any, scheduler: BaseScheduler) -> None:
    """Let applications find the scheduler whose framework does not take the state that is yielded, as Litestar."""
    state = getattr(app, "state", None)
    if state is not None:
        state.scheduler = scheduler
