"""Database connections around each run: Django closes stale ones around each request, and a worker has none."""

from __future__ import annotations

from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING

from django.db import close_old_connections, reset_queries

from goscheduler.executors.context import run_in_hand

if TYPE_CHECKING:
    from goscheduler.executors.context import CurrentRun


def clean_connections(run: CurrentRun) -> CleanConnections:
    """Return what closes connections that are broken or too old, before a run and after it."""
    return CleanConnections()


class CleanConnections:
    """Closes stale connections on the thread that runs the job, or on the one that its coroutine asks databases on."""

    def __enter__(self) -> None:
        self._clean()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._clean()

    async def __aenter__(self) -> None:
        await self._clean_of_loop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        await self._clean_of_loop()

    def _clean(self) -> None:
        clean()
        if iscoroutinefunction(run_in_hand().job.func):  # on a loop of its own, whose databases have this thread
            from asgiref.sync import SyncToAsync

            SyncToAsync.single_thread_executor.submit(clean).result()

    async def _clean_of_loop(self) -> None:
        from asgiref.sync import sync_to_async

        await sync_to_async(clean, thread_sensitive=True)()


def clean() -> None:
    """Close the connections of this thread that are broken or too old, and forget the queries that DEBUG keeps."""
    close_old_connections()
    reset_queries()
