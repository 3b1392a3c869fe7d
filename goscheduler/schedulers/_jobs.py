"""Everything that can be done to jobs: add, find, change, pause, resume, remove.

The path of one ``add_job``: the façade builds the job, which checks every argument → :meth:`Jobs.add` → stopped: into a
waiting room; running: options and first fire time are filled in → ``store.add_job`` (an id that is taken is refused or
replaced, in one step of the store) → the event → the loop is woken if the job is due before it would wake by itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from goscheduler.errors import (
    ConflictingIdError,
    JobLookupError,
    NeverFires,
    TransientJobError,
    described,
    shown,
    survivable,
)
from goscheduler.events import EventCode, JobEvent, SchedulerEvent
from goscheduler.options import DEFAULTS, JobOptions, check_name_of, filled_in
from goscheduler.schedulers._pending_jobs import AddRequest, PendingJobStore, add_waiting
from goscheduler.schedulers._removal import Removal
from goscheduler.tasks import UnknownTask
from goscheduler.times import utc_timestamp
from goscheduler.triggers.base import BaseTrigger

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience

#: How often an add or replace is tried while others keep adding and removing the same id.
ADD_TRIES = 5


class Jobs:
    """The jobs of one scheduler, in its stores while it runs and in the waiting room while it is stopped."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake
        self.waiting: dict[str, PendingJobStore] = {}
        """Jobs added before the start, by the alias of the store that they are meant for."""
        self.started = False
        """Whether jobs go into the stores; changed by :meth:`begin` and :meth:`end` only."""
        self.defaults: JobOptions = DEFAULTS
        self._switch = threading.Lock()
        self._foreign_modules: set[str] = set()
        """Modules of others that jobs run, and that were warned of."""

    def begin(self, patience: Patience) -> None:
        """Let jobs go into the stores from now on, those that were waiting first of all."""
        with self._switch:
            self.started = True
        add_waiting(self, patience)

    def end(self) -> None:
        """Let jobs wait from now on."""
        with self._switch:
            self.started = False

    def in_child(self) -> Jobs:
        """Return the same for a forked child, where the lock may be held by nobody."""
        child = Jobs(self._engine, self._wake)
        child.waiting, child.defaults = self.waiting, self.defaults
        return child

    def add(self, addition: AddRequest) -> None:
        """Put a job where it belongs, filling in what was left open."""
        self._warn_of_unknown_task(addition.job)
        if self._let_wait(addition):
            return
        store = self._store(addition.jobstore)  # an unknown alias is an error before anything is written
        self._complete(addition)
        if addition.connection is not None:
            self._refuse_transient(addition.job, store)
            store.add_job_with(addition.connection, addition.job)
            addition.job._jobstore_alias = addition.jobstore  # not told: it may be rolled back
            return
        self._write(addition)
        self._announce(addition)

    def _let_wait(self, addition: AddRequest) -> bool:
        """Keep a job for the start; false if that has been."""
        if self.started:
            return False
        if addition.connection is not None:
            raise RuntimeError("connection can be given once the scheduler has been started, not before")
        self._refuse_without_fire_time(addition.job)
        with self._switch:
            if self.started:
                return False
            addition.job._waits_for = addition.jobstore
            self.waiting.setdefault(addition.jobstore, PendingJobStore()).put(addition)
        self._engine.logger.info("Adding job tentatively -- it will be properly scheduled when the scheduler starts")
        return True

    def refuse_taken_ids(self, job_ids: Iterable[str], jobstore: str) -> None:
        """Raise ConflictingIdError if one of the ids is taken."""
        for job_id in job_ids:
            if self.find(job_id, jobstore) is not None:
                raise ConflictingIdError(job_id)

    def find(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Return a job, or None."""
        if not isinstance(job_id, str):
            return None
        for _, store in self._places(jobstore):
            job = store.lookup_job(job_id)
            if job is not None:
                return self._with_suspension(store, job)
        return None

    def all(self, jobstore: str | None = None) -> list[Job]:
        """Return all jobs, store by store."""
        found: list[Job] = []
        for _, store in self._places(jobstore):
            found += [self._with_suspension(store, job) for job in store.get_all_jobs()]
        return found

    def modify(self, job_id: str, jobstore: str | None, **changes: Any) -> Job:
        """Change a job; all changes or none. A new trigger gives a new next run time, unless the job is paused."""

        def edit(job: Job) -> Job:
            edited = job._edited(**changes)
            running = getattr(job, "next_run_time", None) is not None
            if changes.get("next_run_time") is not None:
                edited.trigger = edited.trigger.starting_at(cast(datetime, edited.next_run_time))
                edited.life = job.life._replace(paused_by=None, finished_at=None)
            elif "trigger" in changes and "next_run_time" not in changes and running:
                self._anchor(edited)
                edited.next_run_time = self._first_fire_time(edited)
            self._refuse_without_fire_time(edited)
            edited.suspended = None  # the change may have mended it; if not, it is suspended again
            return edited

        modified = self._edit(job_id, jobstore, edit)
        if "func" in changes:
            self._warn_of_unknown_task(modified)
        return modified

    def reschedule(self, job_id: str, jobstore: str | None, trigger: BaseTrigger) -> Job:
        """Give a job another trigger and compute its next run time from now."""
        started = self.started

        def edit(job: Job) -> Job:
            edited = job._edited(trigger=trigger)
            self._anchor(edited)
            self._start_over(edited, started)
            return edited

        return self._edit(job_id, jobstore, edit)

    def pause(self, job_id: str, jobstore: str | None, by: str | None) -> Job:
        """Take away the next run time, and note who wanted that."""
        who = f"process {os.getpid()} on {self._engine.host}" if by is None else check_name_of("by", by)

        def edit(job: Job) -> Job:
            edited = job._edited(next_run_time=None)
            edited.life = job.life._replace(paused_by=who)
            return edited

        return self._edit(job_id, jobstore, edit)

    def resume(self, job_id: str, jobstore: str | None) -> Job | None:
        """Compute the next run time from now. A job whose trigger has ended is removed, unless it is to be kept."""
        try:
            return self._edit(job_id, jobstore, partial(self._resumed, self.started))
        except NeverFires:
            self.remove(job_id, jobstore)
            return None

    def _resumed(self, started: bool, job: Job) -> Job:
        edited = job._edited()
        try:
            self._start_over(edited, started)
        except NeverFires:
            if not started or edited.auto_remove:
                raise
            edited.next_run_time = None
            edited.life = edited.life._replace(finished_at=job.life.finished_at or self._engine.clock.now())
        return edited

    def remove(self, job_id: str, jobstore: str | None) -> None:
        """Remove a job. What it has in the queues of any process is not started any more."""
        _require_id(job_id)
        for alias, store in self._places(jobstore):
            try:
                store.remove_job(job_id)
            except JobLookupError:
                # A job that has fired for the last time is gone, but may have runs that wait: retries, a backlog.
                if alias is None or not store.discard_pending(job_id):
                    continue
            if alias is not None:
                self._call_off(store, [job_id]).wait(self._is_started)
            self._engine.logger.info("Removed job %s", job_id)
            self._tell(EventCode.JOB_REMOVED, job_id, alias)
            return
        raise JobLookupError(job_id)

    def remove_all(self, jobstore: str | None) -> None:
        """Remove all jobs of one store, or of all."""
        removals = []
        for alias, store in self._places(jobstore):
            job_ids = [job.id for job in store.get_all_jobs()]
            store.remove_all_jobs()
            if alias is not None:
                removals.append(self._call_off(store, job_ids))
            store.discard_pending()
        for removal in removals:  # not before all owners were told
            removal.wait(self._is_started)
        self._engine.emit([SchedulerEvent(EventCode.ALL_JOBS_REMOVED, jobstore)])

    def release_suspended(self, executor: str) -> None:
        """Let suspended jobs fire again whose executor has come; in a store that does not answer, when it does."""
        for alias, store in self._engine.stores.items():
            try:
                self._engine.release_suspended(alias, store, lambda job, _: executor == job.executor)
            except BaseException as error:
                if not survivable(error):
                    raise
                self._engine.new_executors.setdefault(alias, set()).add(executor)
                self._engine.logger.warning(
                    'Job store "%s" does not answer: %s; its jobs for executor "%s" are looked for when it does',
                    alias, described(error), executor,
                )

    def release_all_suspended(self, patience: Patience) -> None:
        """Let all suspended jobs fire again, at the start."""
        for alias, store in self._engine.stores.items():
            patience.reach(alias, store, partial(self._engine.release_suspended, alias, store, lambda *_: True))

    def _complete(self, addition: AddRequest) -> None:
        """Fill in what the definition leaves open: options by their defaults, the first fire time by the trigger."""
        job = addition.job
        job.options = filled_in(job.options, self.defaults)
        if not hasattr(job, "next_run_time"):
            self._anchor(job)
            job.next_run_time = self._first_fire_time(job)
        elif job.next_run_time is None:
            self._anchor(job)
        elif not addition.imported:
            job.trigger = job.trigger.starting_at(job.next_run_time)

    def _write(self, addition: AddRequest) -> Callable[[], object]:
        """Write a job into its store, and return what takes that back."""
        job, store = addition.job, self._store(addition.jobstore)
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

        def replace(existing: Job) -> Job:
            same = existing.trigger.same_schedule_as(trigger) and not addition.time_given
            job.trigger = existing.trigger if same else trigger
            job.next_run_time = existing.next_run_time if same else next_run_time
            job.life = existing.life if same else existing.life._replace(paused_by=None, finished_at=None)
            replaced[:] = [existing._edited()]
            return job

        if addition.if_exists == "replace":
            store.edit_job(job.id, replace)
            return partial(store.update_job, replaced[0])
        existing = store.lookup_job(job.id)
        if existing is None:
            raise JobLookupError(job.id)
        job._adopt(existing)
        return lambda: None

    def _forget(self, store: BaseJobStore, job: Job) -> None:
        try:
            store.remove_job(job.id)
        except JobLookupError:
            self._engine.logger.debug('Job "%s" was gone already', job.id)

    def _announce(self, addition: AddRequest) -> None:
        job, alias = addition.job, addition.jobstore
        job._jobstore_alias = alias
        self._tell(EventCode.JOB_ADDED, job.id, alias)
        store = self._store(alias)
        if not store.shared:  # one that is shared keeps with the job itself why it is suspended
            store.release(job.id)
        self._engine.logger.info('Added job "%s" to job store "%s"', job.name, alias)
        self._wake_for(job)

    def _edit(self, job_id: str, jobstore: str | None, edit: Callable[[Job], Job]) -> Job:
        _require_id(job_id)
        for alias, store in self._places(jobstore):
            try:
                job = store.edit_job(job_id, edit)
            except JobLookupError:
                continue
            self._tell(EventCode.JOB_MODIFIED, job_id, alias)
            store.release(job_id)
            self._wake_for(job)
            return self._with_suspension(store, job)
        raise JobLookupError(job_id)

    def _call_off(self, store: BaseJobStore, job_ids: Sequence[str]) -> Removal:
        """Let nothing start any more of jobs that are gone: here at once, elsewhere when they have heard of it."""
        removal = Removal(self._engine, store)
        if job_ids:
            for job_id in job_ids:
                store.forget_job(job_id)
            gone = set(job_ids)
            found = store.live_runs(job_ids[0] if len(gone) == 1 else None)
            removal.call_off([run for run in found if run.job.id in gone])
        return removal

    def _is_started(self) -> bool:
        return self.started

    def _start_over(self, job: Job, started: bool) -> None:
        """Let a job fire from now on or, before the start, from then on.

        The caller has looked whether the scheduler is ``started`` before it asked the store: it may end meanwhile.
        """
        job.suspended = None
        job.life = job.life._replace(paused_by=None, finished_at=None)
        if started:
            job.next_run_time = self._first_fire_time(job)
            return
        if hasattr(job, "next_run_time"):
            del job.next_run_time
        self._refuse_without_fire_time(job)

    def _anchor(self, job: Job) -> None:
        job.trigger = job.trigger.anchored(self._engine.clock.now())

    def _refuse_without_fire_time(self, job: Job) -> None:
        """Raise if a job that gets its time later would get none."""
        if not hasattr(job, "next_run_time"):
            self._first_fire_time(job._edited(trigger=job.trigger.anchored(self._engine.clock.now())))

    def _first_fire_time(self, job: Job) -> datetime:
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

    def _warn_of_unknown_task(self, job: Job) -> None:
        """Say what becomes of a job whose task another process may know, or may not."""
        if isinstance(job.func, UnknownTask):
            self._engine.logger.warning(
                'Job "%s" (%s) is of the task "%s", which is not registered here; it waits until it is', job.name,
                job.id, job.task,
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
            )

    def _store(self, alias: str) -> BaseJobStore:
        try:
            return self._engine.stores[alias]
        except KeyError:
            raise KeyError(f"No such job store: {alias}") from None

    def _places(self, jobstore: str | None) -> Iterator[tuple[str | None, BaseJobStore]]:
        """Yield where jobs may be: the stores while running, else the waiting rooms."""
        started = self.started  # once: the scheduler may end while a store is asked
        places: Mapping[str, BaseJobStore] = self._engine.stores if started else self.waiting
        for alias, store in places.items():
            if jobstore is None or alias == jobstore:
                yield (alias if started else None), store

    def _with_suspension(self, store: BaseJobStore, job: Job) -> Job:
        """Show on the job why it is suspended, where the store could not write that into it."""
        if not store.keeps_objects:
            job.life = store.stats_of(job)
            if job.suspended is None and not store.shared:
                job.suspended = store.suspensions().get(job.id)
        return job

    def _wake_for(self, job: Job) -> None:
        next_run_time = getattr(job, "next_run_time", None)
        if self.started and next_run_time is not None and utc_timestamp(next_run_time) < self._engine.sleeping_until:
            self._wake()

    def _tell(self, code: EventCode, job_id: str, alias: str | None) -> None:
        if self._engine.bus.wants(code):
            self._engine.emit([JobEvent(code, job_id, alias)])


def _require_id(job_id: object) -> None:
    if not isinstance(job_id, str):
        raise TypeError(f"job_id must be a string, got {shown(job_id)}")
