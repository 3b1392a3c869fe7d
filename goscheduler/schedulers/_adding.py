"""Jobs that are added, one or many: before the start they wait, after it they go into their store.

The path of one ``add_job``: the façade builds the job, which checks every argument → :meth:`JobAdder.add` → stopped:
the job is pending; running: options and first fire time are filled in → ``store.add_job`` (an id that is taken is
refused or replaced, in one step of the store) → the event → the loop is woken if the job is due before the loop would
wake by itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from goscheduler.errors import (
    ConflictingIdError,
    InvalidArgument,
    JobLookupError,
    NeverFires,
    TransientJobError,
    shown,
)
from goscheduler.events import EventCode, JobEvent
from goscheduler.executors._log import fields_of_job
from goscheduler.job import copy_with, mark_pending, take_over
from goscheduler.options import DEFAULTS, JobOptions, filled_in
from goscheduler.schedulers._carrying import note_adding
from goscheduler.schedulers._pending_jobs import AddRequest, PendingJobStore, add_waiting
from goscheduler.schedulers._upstream import refuse_itself
from goscheduler.tasks import UnknownTask
from goscheduler.times import utc_timestamp

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience

#: How often an add or replace is tried while others keep adding and removing the same id.
ADD_TRIES = 5


class JobAdder:
    """Adds jobs to the stores of one scheduler while it runs, and keeps them for the start while it is stopped."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake
        self.waiting: dict[str, PendingJobStore] = {}
        """Jobs added before the start, by the alias of the store that they are meant for."""
        self.started = False
        """Whether jobs go into the stores; changed by :meth:`begin` and :meth:`end` only."""
        self.came_with_start: Mapping[str, Collection[str]] = {}
        """Alias → the jobs that the last start has added, while it carries out what was deferred."""
        self.deferred: list[tuple[str, Callable[[], object]]] = []
        """What waits until jobs can go into the stores, with the alias of the store that it goes to."""
        self.defaults: JobOptions = DEFAULTS
        self._switch = threading.Lock()
        self._foreign_modules: set[str] = set()
        """Modules of others that jobs run, and that were warned of."""

    def begin(self, patience: Patience) -> None:
        """Let jobs go into the stores from now on, those that were waiting first of all."""
        with self._switch:
            self.started = True
        self.came_with_start = {alias: frozenset(room.additions) for alias, room in self.waiting.items()}
        add_waiting(self, patience)

    def end(self) -> None:
        """Let jobs wait from now on."""
        with self._switch:
            self.started = False

    def has_waiting(self) -> bool:
        """Tell whether jobs, or something that was deferred, wait for the stores."""
        return bool(self.deferred) or any(room.additions for room in self.waiting.values())

    def defer(self, alias: str, action: Callable[[], object]) -> bool:
        """Have the next start call ``action`` for the store ``alias``; False if the scheduler has started already."""
        with self._switch:
            if not self.started:
                self.deferred.append((alias, action))
            return not self.started

    def carry_out_deferred(self, patience: Patience) -> None:
        """Do what was deferred. Nothing is deferred any more once :meth:`begin` was called."""
        while self.deferred:
            alias, action = self.deferred[0]
            store = self._engine.stores.get(alias)
            if store is None:
                action()  # says itself what is wrong
            else:
                patience.reach(alias, store, action)
            del self.deferred[0]  # not before: what raises is done again by the next start
        self.came_with_start = {}

    def add(self, addition: AddRequest) -> None:
        """Put a job where it belongs, filling in what was left open."""
        note_adding(self._engine, addition.job, self.defaults)
        self._warn_of_unknown_task(addition.job)
        if self._let_wait(addition):
            return
        store = self.store(addition.jobstore)  # an unknown alias is an error before anything is written
        self._engine.following.check(addition.jobstore, addition.job)
        self.complete(addition)
        if addition.connection is not None:
            self._refuse_transient(addition.job, store)
            self._engine.following.added(addition.jobstore, addition.job)  # while no lock of SQLite is held for it
            store.add_job_with(addition.connection, addition.job)
            addition.job._jobstore_alias = addition.jobstore  # not told: it may be rolled back
            return
        self._write(addition)
        self.announce(addition.job, addition.jobstore)

    def add_many(self, additions: Sequence[AddRequest]) -> None:
        """Put jobs where they belong, as :meth:`add` does; if one is refused, none is added."""
        undo: list[Callable[[], object]] = []
        try:
            waiting = [addition for addition in additions if self._let_one_of_many_wait(addition, undo)]
            to_write = [addition for addition in additions if addition not in waiting] if waiting else additions
            beside = beside_each_other(to_write)
            for addition in to_write:
                self.store(addition.jobstore)  # an unknown alias is an error before anything is written
                self._engine.following.check(addition.jobstore, addition.job, beside[addition.jobstore])
                self.complete(addition)
            self._write_many(to_write, undo)
        except BaseException:
            for action in reversed(undo):
                action()
            raise
        for addition in to_write:
            self.announce(addition.job, addition.jobstore)

    def _let_one_of_many_wait(self, addition: AddRequest, undo: list[Callable[[], object]]) -> bool:
        if addition.connection is not None:
            raise InvalidArgument("connection cannot be given to add_jobs; use add_job", field="connection")
        note_adding(self._engine, addition.job, self.defaults)
        self._warn_of_unknown_task(addition.job)
        if not self._let_wait(addition):
            return False
        undo.append(partial(self.waiting[addition.jobstore].remove_job, addition.job.id))
        return True

    def _write_many(self, additions: Sequence[AddRequest], undo: list[Callable[[], object]]) -> None:
        """Write jobs, those that must be new in one step for each store; ``undo`` gets what takes that back."""
        new_jobs: dict[str, list[Job]] = {}
        for addition in additions:
            if addition.if_exists == "error":
                new_jobs.setdefault(addition.jobstore, []).append(addition.job)
            else:
                undo.append(self._write(addition))
        for alias, jobs in new_jobs.items():
            store = self.store(alias)
            for job in jobs:
                self._refuse_transient(job, store)
            store.add_jobs(jobs)
            undo.extend(partial(self._forget, store, job) for job in jobs)

    def _let_wait(self, addition: AddRequest) -> bool:
        """Keep a job for the start; false if that has been."""
        if self.started:
            return False
        if addition.connection is not None:
            raise RuntimeError("connection can be given once the scheduler has been started, not before")
        self._refuse_without_fire_time(addition.job)
        refuse_itself(addition.job)
        with self._switch:
            if self.started:
                return False
            mark_pending(addition.job, addition.jobstore)
            self.waiting.setdefault(addition.jobstore, PendingJobStore()).put(addition)
        text = "Adding job tentatively -- it will be properly scheduled when the scheduler starts"
        self._engine.logger.info(text, extra={"job_id": addition.job.id})
        return True

    def store(self, alias: str) -> BaseJobStore:
        """Return the store ``alias`` of the scheduler.

        :raises KeyError: if there is none by this alias
        """
        try:
            return self._engine.stores[alias]
        except KeyError:
            raise KeyError(f"No such job store: {alias}") from None

    def first_fire_time(self, job: Job) -> datetime | None:
        """Return when a job fires for the first time, counted from now; None if it waits for others.

        :raises NeverFires: if its trigger has no fire time
        """
        if job.trigger.upstream:
            return None
        first = job.trigger.get_next_fire_time(None, self._engine.clock.now())
        if first is None:
            raise NeverFires(
                f"the trigger {job.trigger} has no fire time left, so the job {shown(job.name)} would never run",
                field="trigger",
                value=job.trigger,
            )
        if not isinstance(first, datetime) or first.utcoffset() is None:
            raise TypeError(
                f"the trigger {job.trigger} must answer with a datetime that has a time zone, got {shown(first)}"
            )
        return first

    def complete(self, addition: AddRequest) -> None:
        """Fill in what the definition leaves open: options by their defaults, the first fire time by the trigger."""
        job, paused = addition.job, getattr(addition.job, "next_run_time", addition) is None
        self._engine.following.prepare(addition.jobstore, job, paused and not addition.imported)
        job.options = filled_in(job.options, self.defaults)
        if job.stats.created_at is None:
            job.stats = job.stats._replace(created_at=self._engine.clock.now())
        if not hasattr(job, "next_run_time"):
            self._anchor(job)
            job.next_run_time = self.first_fire_time(job)
        elif job.next_run_time is None:
            self._anchor(job)
        elif not addition.imported:
            job.trigger = job.trigger.starting_at(job.next_run_time)
        self._engine.following.keep(addition.jobstore, job)

    def _write(self, addition: AddRequest) -> Callable[[], object]:
        """Write a job into its store, and return what takes that back."""
        job, store = addition.job, self.store(addition.jobstore)
        self._refuse_transient(job, store)
        for _ in range(ADD_TRIES):
            try:
                store.add_job(job)
                return partial(self._forget, store, job)
            except ConflictingIdError:
                if addition.if_exists == "error":
                    raise
            try:
                return self._use_existing(store, addition)
            except JobLookupError:
                continue  # removed by somebody else just now: add it after all
        raise ConflictingIdError(job.id)

    def _use_existing(self, store: BaseJobStore, addition: AddRequest) -> Callable[[], object]:
        job, trigger, next_run_time = addition.job, addition.job.trigger, addition.job.next_run_time
        replaced: list[Job] = []
        paused_by = job.stats.paused_by

        def replace(existing: Job) -> Job:
            same = existing.trigger.same_schedule_as(trigger) and not addition.time_given
            job.trigger = existing.trigger if same else trigger
            job.next_run_time = existing.next_run_time if same else next_run_time
            job.stats = existing.stats if same else existing.stats.resumed()._replace(paused_by=paused_by)
            self._engine.following.keep(addition.jobstore, job)
            replaced[:] = [copy_with(existing)]
            return job

        if addition.if_exists == "replace":
            store.edit_job(job.id, replace)
            return partial(store.update_job, replaced[0])
        existing = store.lookup_job(job.id)
        if existing is None:
            raise JobLookupError(job.id)
        take_over(job, existing)
        return lambda: None

    def _forget(self, store: BaseJobStore, job: Job) -> None:
        try:
            store.remove_job(job.id)
        except JobLookupError:
            self._engine.logger.debug('Job "%s" was gone already', job.id, extra={"job_id": job.id})

    def announce(self, job: Job, alias: str) -> None:
        """Tell that a job was added to a store, and wake the loop if it is due before that wakes."""
        job._jobstore_alias = alias
        self._engine.statistics.count_added([job])
        self._tell(EventCode.JOB_ADDED, job.id, alias)
        store = self.store(alias)
        if not store.shared:  # one that is shared keeps with the job itself why it is suspended
            store.release(job.id)
        if self._engine.logger.isEnabledFor(logging.INFO):
            fields = fields_of_job(job)
            self._engine.logger.info('Added job "%s" to job store "%s"', job.name, alias, extra=fields)
        self._engine.following.added(alias, job)
        self._wake_for(job)

    def _anchor(self, job: Job) -> None:
        job.trigger = job.trigger.anchored(self._engine.clock.now())

    def _refuse_without_fire_time(self, job: Job) -> None:
        """Raise if a job that gets its time later would get none."""
        if not hasattr(job, "next_run_time"):
            self.first_fire_time(copy_with(job, trigger=job.trigger.anchored(self._engine.clock.now())))

    def _warn_of_unknown_task(self, job: Job) -> None:
        """Say what becomes of a job whose task another process may know, or may not."""
        if isinstance(job.func, UnknownTask) and not self._engine.observing:
            self._engine.logger.warning(
                'Job "%s" (%s) is of the task "%s", which is not registered here; it waits until it is', job.name,
                job.id, job.task, extra={"job_id": job.id, "task": job.task},
            )

    def _refuse_transient(self, job: Job, store: BaseJobStore) -> None:
        """Refuse a function that cannot be found again, unless the store keeps objects as they are."""
        if job.func_ref is None and not store.keeps_objects:
            raise TransientJobError(
                job.id,
                f"its callable ({shown(job.func)}) cannot be found again by name. Give a function at the top of a "
                'module, or a reference "module:function"',
            )
        if store.shared and job.task is None:
            self._warn_of_foreign_code(job)

    def _warn_of_foreign_code(self, job: Job) -> None:
        """Say, once for each module, that processes which have not added a job themselves refuse to run it."""
        ref = job.func_ref or ""
        module = ref.partition(":")[0]
        if module not in self._foreign_modules and self._engine.tasks.resolver.is_foreign(ref):
            self._foreign_modules.add(module)
            self._engine.logger.warning(
                'Job "%s" (%s) runs %s, which is not code of this program. A process that did not add it suspends it '
                'unless its scheduler has allowed_modules=["%s"]', job.name, job.id, ref, module,
                extra={"job_id": job.id, "task": ref},
            )

    def _wake_for(self, job: Job) -> None:
        next_run_time = getattr(job, "next_run_time", None)
        sleeping_until = self._engine.loop.sleeping_until
        if self.started and next_run_time is not None and utc_timestamp(next_run_time) < sleeping_until:
            self._wake()

    def _tell(self, code: EventCode, job_id: str, alias: str | None) -> None:
        if self._engine.bus.wants(code):
            self._engine.emit([JobEvent(code, job_id, alias)])


def beside_each_other(additions: Iterable[AddRequest]) -> dict[str, dict[str, Job]]:
    """Return alias of a store → the jobs that are added to it together, by id."""
    jobs: dict[str, dict[str, Job]] = {}
    for addition in additions:
        jobs.setdefault(addition.jobstore, {})[addition.job.id] = addition.job
    return jobs
