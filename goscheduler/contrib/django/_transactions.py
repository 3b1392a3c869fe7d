"""What may be done in a transaction of Django, and what a transaction has added so far.

Only what adds jobs can be part of a transaction, or waits for its commit. Everything else that writes uses a connection
of the store: it would stay when the transaction rolls back, and on SQLite wait for the lock of its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import TransactionManagementError

from goscheduler.schedulers._pending_jobs import AddRequest

#: What writes and does not add jobs.
WRITES = (
    "add_blackout", "add_request", "ask_process", "backfill", "cancel_backfill", "cancel_run", "discard_dead_letter",
    "import_jobs", "modify_job", "pause_job", "pause_jobs", "postpone", "redrive", "redrive_all", "remove_all_jobs",
    "remove_blackout", "remove_job", "remove_jobs", "reschedule_job", "resume_job", "resume_jobs", "run_jobs",
    "run_now", "skip_next", "sync",
)  # fmt: skip


class CommitCallback(NamedTuple):
    """Jobs of a transaction. Django calls it after the commit, and forgets it with a savepoint that is rolled back."""

    requests: Sequence[AddRequest]
    act: Callable[[Sequence[AddRequest]], object] | None
    """What adds them after the commit; None if they are written already."""

    def __call__(self) -> None:
        if self.act is not None:
            self.act(self.requests)


def added_in(database: str) -> list[AddRequest]:
    """Return what the open transaction of a database has added, or will add after its commit."""
    callbacks = (callback for _, callback, *_ in connections[database].run_on_commit)
    return [request for each in callbacks if isinstance(each, CommitCallback) for request in each.requests]


def outside_of_transactions(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises TransactionManagementError while a transaction is open in this thread."""
    name = method.__name__

    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        database = _database_in_transaction()
        if database is not None:
            using = "" if database == DEFAULT_DB_ALIAS else f', using="{database}"'
            raise TransactionManagementError(
                f"scheduler.{name}() cannot be part of a transaction, and one is open; only add_job, add_jobs and "
                f"chain can. Call it after the commit: transaction.on_commit(lambda: scheduler.{name}(…){using})"
            )
        return method(*args, **options)

    return call


def _database_in_transaction() -> str | None:
    """Return a database with an open transaction; those that a ``TestCase`` has around each test do not count."""
    for connection in connections.all(initialized_only=True):
        if any(not block._from_testcase for block in connection.atomic_blocks):
            return str(connection.alias)
    return None
