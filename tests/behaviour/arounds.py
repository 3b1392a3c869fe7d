"""What tests put around runs, at the top of a module so that child processes find it too."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from goscheduler import CurrentRun

here: ContextVar[list[str] | None] = ContextVar("here", default=None)


@contextmanager
def noting(run: CurrentRun) -> Iterator[None]:
    here.set([f"{run.job_id} in {os.getpid()}"])
    yield


@asynccontextmanager
async def noting_on_the_loop(run: CurrentRun) -> AsyncIterator[None]:
    here.set([f"{run.job_id} on the loop"])
    yield


def what_is_here() -> list[str] | None:
    return here.get()


async def what_is_here_later() -> list[str] | None:
    return here.get()
