"""A scheduler whose jobs become part of Django's transactions: rolled back, they never were.

==================================  ===================================================================
the transaction that is open        what becomes of ``add_job``
==================================  ===================================================================
of the database of the store        the job is written over Django's own connection, behind a savepoint
of it, by another driver            the job is added after the commit
of another database                 the job is added after the commit
none                                the job is added at once
==================================  ===================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from goscheduler.errors import ConflictingIdError
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

if TYPE_CHECKING:
    from goscheduler.job import Job

_logger = guarded_logger("goscheduler.django")
_ARGUMENTS = inspect.signature(BaseScheduler.add_job)


class DjangoScheduler(BackgroundScheduler):
    """Adds jobs to the transaction that is open, runs them as any scheduler does."""

    alias: str | None = None
    """The database of Django that keeps the jobs; None if they are kept elsewhere."""
    driver = ""
    """The package by which the job store speaks to that database."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._warned: set[str] = set()
        super().__init__(*args, **options)

    def add_job(self, /, func: Callable[..., Any] | str, *args: Any, **options: Any) -> Job:  # type: ignore[override]
        """Add a job as :meth:`BaseScheduler.add_job` does, as part of the transaction that is open in this thread."""
        database = self._open_transaction()
        if database is None or options.get("connection") is not None:
            return super().add_job(func, *args, **options)
        given = dict(_ARGUMENTS.bind(self, func, *args, **options).arguments)
        definition = {name: value for name, value in given.items() if name not in ("self", "trigger_args")}
        return self._add_within(database, {**definition, **given.get("trigger_args", {})})

    def add_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Add several jobs, all of them or none, as part of the transaction that is open in this thread."""
        database = self._open_transaction()
        if database is None:
            return super().add_jobs(definitions)
        with transaction.atomic(using=database):
            return [self._add_within(database, definition) for definition in definitions]

    def _open_transaction(self) -> str | None:
        """Return the database whose transaction is open in this thread: that of the store rather than another one."""
        if not self.engine.jobs.started:
            return None
        open_now = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
        return next((alias for alias in (self.alias, DEFAULT_DB_ALIAS, *open_now) if alias in open_now), None)

    def _add_within(self, database: str, definition: Mapping[str, Any]) -> Job:
        request = self._addition_of(definition)  # what makes no sense is refused before anything is written
        if database == self.alias and self._is_same_driver(database) and request.jobstore == "default":
            try:
                with transaction.atomic(using=database):  # what is refused leaves the transaction as it was
                    self.engine.jobs.add(request._replace(connection=connections[database].connection))
                return request.job
            except ConflictingIdError:
                if request.if_exists == "error":
                    raise
            if request.if_exists == "keep":
                return self.get_job(request.job.id) or request.job
            request = self._addition_of(definition)
        else:
            self._warn_once(database)
        transaction.on_commit(partial(self.engine.jobs.add, request), using=database)
        return request.job

    def _is_same_driver(self, database: str) -> bool:
        connections[database].ensure_connection()
        return type(connections[database].connection).__module__.partition(".")[0] == self.driver

    def _warn_once(self, database: str) -> None:
        if database in self._warned:
            return
        self._warned.add(database)
        where = "by another driver than Django's" if database == self.alias else "elsewhere"
        _logger.warning(
            'Transactions of the database "%s" cannot hold jobs, which are kept %s; adding jobs after the commit, so '
            "that a crash in between loses them", database, where,
        )  # fmt: skip
