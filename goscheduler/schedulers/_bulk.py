"""Several jobs added at once: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from goscheduler.errors import InvalidArgument
from goscheduler.schedulers._pending_jobs import AddRequest

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._jobs import Jobs


def add_several(jobs: Jobs, additions: Sequence[AddRequest]) -> None:
    """Put jobs where they belong, filling in what was left open; if one is refused, none is added."""
    undo: list[Callable[[], object]] = []
    try:
        waiting = [addition for addition in additions if _let_wait(jobs, addition, undo)]
        written = [addition for addition in additions if addition not in waiting] if waiting else additions
        for addition in written:
            jobs._store(addition.jobstore)
            jobs._complete(addition)
        _write(jobs, written, undo)
    except BaseException:
        for action in reversed(undo):
            action()
        raise
    for addition in written:
        jobs._announce(addition)


def _let_wait(jobs: Jobs, addition: AddRequest, undo: list[Callable[[], object]]) -> bool:
    if addition.connection is not None:
        raise InvalidArgument("connection cannot be given to add_jobs; use add_job", field="connection")
    jobs._warn_of_unknown_task(addition.job)
    if not jobs._let_wait(addition):
        return False
    room = jobs.waiting[addition.jobstore]
    undo.append(lambda: room.remove_job(addition.job.id))
    return True


def _write(jobs: Jobs, additions: Sequence[AddRequest], undo: list[Callable[[], object]]) -> None:
    by_store: dict[str, list[AddRequest]] = {}
    for addition in additions:
        if addition.if_exists == "error":
            by_store.setdefault(addition.jobstore, []).append(addition)
        else:
            undo.append(jobs._write(addition))
    for alias, new in by_store.items():
        store = jobs._store(alias)
        for addition in new:
            jobs._refuse_transient(addition.job, store)
        store.add_jobs([addition.job for addition in new])
        undo.append(partial(_forget_all, jobs, store, new))


def _forget_all(jobs: Jobs, store: BaseJobStore, additions: Sequence[AddRequest]) -> None:
    for addition in reversed(additions):
        jobs._forget(store, addition.job)
