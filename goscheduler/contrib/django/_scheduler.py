"""A scheduler whose jobs become part of Django's transactions: rolled back, they never were.

==================================  ===================================================================
the transaction that is open        what becomes of ``add_job``
==================================  ===================================================================
of the database of the store        the job is written over Django's own connection, behind a savepoint
of it, by another driver            the job is added after the commit
of another database                 the job is added after the commit
any, and the job follows others     it and what is added with it are added after the commit, all of them or none
none                                the job is added at once
==================================  ===================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from goscheduler.contrib.django._transactions import WRITES, CommitCallback, added_in, outside_of_transactions
from goscheduler.errors import ConflictingIdError
from goscheduler.logs import guarded_logger
from goscheduler.schedulers._adding import beside_each_other
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.schedulers._pending_jobs import AddRequest

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
        return self._add_within(database, [{**definition, **given.get("trigger_args", {})}])[0]

    def add_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Add several jobs, all of them or none, as part of the transaction that is open in this thread."""
        database = self._open_transaction()
        if database is None:
            return super().add_jobs(definitions)
        return self._add_within(database, list(definitions))

    def _open_transaction(self) -> str | None:
        """Return the database whose transaction is open in this thread: that of the store rather than another one."""
        if not self.engine.jobs.started:
            return None
        open_now = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
        return next((alias for alias in (self.alias, DEFAULT_DB_ALIAS, *open_now) if alias in open_now), None)

    def _add_within(self, database: str, definitions: Sequence[Mapping[str, Any]]) -> list[Job]:
        requests = [self._addition_of(each) for each in definitions]  # nonsense is refused before anything is written
        if any(request.job.trigger.upstream for request in requests):
            self._check_followers(database, requests)
            transaction.on_commit(CommitCallback(requests, self.engine.jobs.add_many), using=database)
            return [request.job for request in requests]
        with transaction.atomic(using=database) if len(requests) > 1 else nullcontext():
            return [self._add_one(database, *each) for each in zip(requests, definitions, strict=True)]

    def _check_followers(self, database: str, requests: Sequence[AddRequest]) -> None:
        """Raise at the call what would be raised after the commit."""
        earlier = added_in(database)
        taken, beside = beside_each_other(earlier), beside_each_other([*earlier, *requests])
        for request in requests:
            store, job_id = self.engine.jobs.store(request.jobstore), request.job.id
            self.engine.following.check(request.jobstore, request.job, beside[request.jobstore])
            is_taken = job_id in taken.get(request.jobstore, {}) or store.lookup_job(job_id) is not None
            if is_taken and request.if_exists == "error":
                raise ConflictingIdError(job_id)

    def _add_one(self, database: str, request: AddRequest, definition: Mapping[str, Any]) -> Job:
        if database == self.alias and self._is_same_driver(database) and request.jobstore == "default":
            try:
                with transaction.atomic(using=database):  # what is refused leaves the transaction as it was
                    self.engine.jobs.add(request._replace(connection=connections[database].connection))
                    transaction.on_commit(CommitCallback([request], None), using=database)
                return request.job
            except ConflictingIdError:
                if request.if_exists == "error":
                    raise
            if request.if_exists == "keep":
                return self.get_job(request.job.id) or request.job
            request = self._addition_of(definition)
        else:
            self._warn_once(database)
        transaction.on_commit(CommitCallback([request], self.engine.jobs.add_many), using=database)
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


for _name in WRITES:
    setattr(DjangoScheduler, _name, outside_of_transactions(getattr(BackgroundScheduler, _name)))
