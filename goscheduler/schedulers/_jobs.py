"""Everything that can be done to jobs: find, change, pause, resume, remove; ``_adding`` has the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from goscheduler.errors import ConflictingIdError, JobLookupError, NeverFires, described, shown, survivable
from goscheduler.events import EventCode, SchedulerEvent
from goscheduler.job import copy_with
from goscheduler.options import check_name_of
from goscheduler.runs.queries import follows
from goscheduler.schedulers._adding import JobAdder
from goscheduler.schedulers._removal import Removal
from goscheduler.schedulers._upstream import refuse_itself
from goscheduler.triggers.after import AfterTrigger
from goscheduler.triggers.base import BaseTrigger

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.queries import Edited
    from goscheduler.schedulers._patience import Patience

FAR = datetime.max.replace(tzinfo=timezone.utc)


class Jobs(JobAdder):
    """The jobs of one scheduler: in its stores while it runs, pending while it is stopped."""

    def in_child(self) -> Jobs:
        """Return the same for a forked child, where the lock may be held by nobody."""
        child = Jobs(self._engine, self._wake)
        child.waiting, child.defaults, child.deferred = self.waiting, self.defaults, self.deferred
        return child

    def refuse_taken_ids(self, job_ids: Iterable[str], jobstore: str) -> None:
        """Raise ConflictingIdError if one of the ids is taken."""
        for job_id in job_ids:
            if self.find(job_id, jobstore) is not None:
                raise ConflictingIdError(job_id)

    def find(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Return a job, or None."""
        if not isinstance(job_id, str):
            return None
        for _, store in self.places(jobstore):
            job = store.lookup_job(job_id)
            if job is not None:
                return self._with_suspension(store, job)
        return None

    def all(self, jobstore: str | None = None) -> list[Job]:
        """Return all jobs, store by store."""
        found: list[Job] = []
        for _, store in self.places(jobstore):
            found += [self._with_suspension(store, job) for job in store.get_all_jobs()]
        return found

    def modify(self, job_id: str, jobstore: str | None, **changes: Any) -> Job:
        """Change a job; all changes or none. A new trigger gives a new next run time, unless the job is paused."""

        if "trigger" in changes:
            changes["trigger"] = self._ready(changes["trigger"], job_id, jobstore)

        def edit(job: Job) -> Job:
            edited = copy_with(job, **changes)
            running = getattr(job, "next_run_time", None) is not None or (follows(job) and not _is_over(job))
            if changes.get("next_run_time") is not None:
                edited.trigger = edited.trigger.starting_at(cast(datetime, edited.next_run_time))
                edited.stats = job.stats.resumed()
            elif "trigger" in changes and "next_run_time" not in changes and running:
                self._anchor(edited)
                edited.next_run_time = self.first_fire_time(edited)
            self._refuse_without_fire_time(edited)
            edited.suspended = None  # the change may have mended it; if not, it is suspended again
            _keep_paused(edited, job, "next_run_time" in changes)
            self._engine.following.keep(job._jobstore_alias, edited)
            return edited

        modified = self.edit(job_id, jobstore, edit)
        if "func" in changes:
            self._warn_of_unknown_task(modified)
        return self._with_upstream_kept(modified)

    def reschedule(self, job_id: str, jobstore: str | None, trigger: BaseTrigger) -> Job:
        """Give a job another trigger and compute its next run time from now."""
        started, trigger = self.started, self._ready(trigger, job_id, jobstore)

        def edit(job: Job) -> Job:
            edited = copy_with(job, trigger=trigger)
            self._anchor(edited)
            self._start_over(edited, started)
            self._engine.following.keep(job._jobstore_alias, edited)
            return edited

        return self._with_upstream_kept(self.edit(job_id, jobstore, edit))

    def _with_upstream_kept(self, job: Job) -> Job:
        if job._jobstore_alias is not None:
            self._engine.following.added(job._jobstore_alias, job)
        return job

    def pause(
        self, job_id: str, jobstore: str | None, by: str | None, reason: str = "", pause_id: str | None = None
    ) -> Job:
        """Take away the next run time, and note who wanted that and why."""
        return self.edit(job_id, jobstore, self.pausing(by, reason, pause_id))

    def pausing(self, by: str | None, reason: str, pause_id: str | None = None) -> Callable[[Job], Job]:
        """Return the edit that pauses a job."""
        who = f"process {os.getpid()} on {self._engine.host}" if by is None else check_name_of("by", by)
        why = check_name_of("reason", reason) if reason else None

        def edit(job: Job) -> Job:
            edited = copy_with(job, next_run_time=None)
            edited.stats = job.stats._replace(paused_by=who, pause_reason=why, pause_id=pause_id)
            return edited

        return edit

    def resume(self, job_id: str, jobstore: str | None) -> Job | None:
        """Compute the next run time from now. A job whose trigger has ended is removed, unless it is to be kept."""
        try:
            return self.edit(job_id, jobstore, self.resuming())
        except NeverFires:
            self.remove(job_id, jobstore)
            return None

    def resuming(self) -> Callable[[Job], Job]:
        """Return the edit that resumes a job; it raises NeverFires of a job that has no fire time left."""
        return partial(self._resumed, self.started)

    def _resumed(self, started: bool, job: Job) -> Job:
        edited = copy_with(job)
        if isinstance(job.trigger, AfterTrigger):
            edited.trigger = job.trigger.from_now(self._engine.clock.now())
        try:
            self._start_over(edited, started)
        except NeverFires:
            if not started or edited.auto_remove:
                raise
            edited.next_run_time = None
            edited.stats = edited.stats._replace(finished_at=job.stats.finished_at or self._engine.clock.now())
        return edited

    def remove(self, job_id: str, jobstore: str | None) -> None:
        """Remove a job. What it has in the queues of any process is not started any more."""
        _require_id(job_id)
        for alias, store in self.places(jobstore):
            try:
                store.remove_job(job_id)
            except JobLookupError:
                # A job that has fired for the last time is gone, but may have runs that wait: retries, a backlog.
                if alias is None or not store.discard_pending(job_id):
                    continue
            if alias is not None:
                self._call_off(store, [job_id]).wait(self._is_started)
            self._engine.logger.info("Removed job %s", job_id, extra={"job_id": job_id})
            self._tell(EventCode.JOB_REMOVED, job_id, alias)
            return
        raise JobLookupError(job_id)

    def remove_all(self, jobstore: str | None) -> None:
        """Remove all jobs of one store, or of all."""
        removals = []
        for alias, store in self.places(jobstore):
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

    def edit(self, job_id: str, jobstore: str | None, edit: Callable[[Job], Job]) -> Job:
        """Replace a job by ``edit(job)`` in one step of its store, and return it.

        :raises JobLookupError: if there is no such job
        """
        _require_id(job_id)
        for alias, store in self.places(jobstore):
            try:
                job = store.edit_job(job_id, edit)
            except JobLookupError:
                continue
            self._tell(EventCode.JOB_MODIFIED, job_id, alias)
            store.release(job_id)
            self._wake_for(job)
            return self._with_suspension(store, job)
        raise JobLookupError(job_id)

    def edit_several(
        self, alias: str | None, store: BaseJobStore, job_ids: Sequence[str], edit: Callable[[Job], Job]
    ) -> Edited:
        """Replace each of several jobs of one store by ``edit(job)``, each in a step of its own."""
        edited = store.edit_jobs(job_ids, edit)
        for job in edited.changed:
            self._tell(EventCode.JOB_MODIFIED, job.id, alias)
            if not store.shared:
                store.release(job.id)
        times = [job.next_run_time for job in edited.changed if getattr(job, "next_run_time", None) is not None]
        if times:
            self._wake_for(min(edited.changed, key=lambda job: getattr(job, "next_run_time", None) or FAR))
        return edited

    def remove_several(self, alias: str | None, store: BaseJobStore, job_ids: Sequence[str]) -> list[str]:
        """Remove jobs of one store, and return the ids of those that were there. After that no run of them starts."""
        removed = store.remove_jobs(job_ids)
        if alias is not None:
            self._call_off(store, removed).wait(self._is_started)
        for job_id in removed:
            self._tell(EventCode.JOB_REMOVED, job_id, alias)
        if removed:
            self._engine.logger.info("Removed %d jobs, from %s to %s", len(removed), removed[0], removed[-1])
        return removed

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
        job.stats = job.stats.resumed()
        if started:
            job.next_run_time = self.first_fire_time(job)
            return
        if hasattr(job, "next_run_time"):
            del job.next_run_time
        self._refuse_without_fire_time(job)

    def _ready(self, trigger: BaseTrigger, job_id: str, jobstore: str | None) -> BaseTrigger:
        """Return a trigger that a job is about to get; if others make that fire, checked and with its cursors."""
        if not isinstance(trigger, AfterTrigger):
            return trigger
        found = self.find(job_id, jobstore)
        if found is None:
            raise JobLookupError(job_id)
        changed = copy_with(found, trigger=trigger)
        if found._jobstore_alias is None:
            refuse_itself(changed)
            return trigger
        self._engine.following.check(found._jobstore_alias, changed)
        return self._engine.following.placed(found._jobstore_alias, job_id, trigger)

    def places(self, jobstore: str | None) -> Iterator[tuple[str | None, BaseJobStore]]:
        """Yield where jobs may be: the stores while running, else the waiting rooms."""
        started = self.started  # once: the scheduler may end while a store is asked
        places: Mapping[str, BaseJobStore] = self._engine.stores if started else self.waiting
        for alias, store in places.items():
            if jobstore is None or alias == jobstore:
                yield (alias if started else None), store

    def _with_suspension(self, store: BaseJobStore, job: Job) -> Job:
        """Show on the job why it is suspended, where the store could not write that into it.

        Who has found a job may ask its trigger, so the calendars that it refers to are looked for.
        """
        names = getattr(job.trigger, "calendar_names", ())
        if names:
            self._engine.calendars.learn(names)
        if not store.keeps_objects:
            job.stats = store.stats_of(job)
            if job.suspended is None and not store.shared:
                job.suspended = store.suspensions().get(job.id)
        return job


def _keep_paused(edited: Job, job: Job, time_given: bool) -> None:
    """Note of a job that is to follow others that it is paused, which a missing time alone does not say of it."""
    was_paused = getattr(job, "next_run_time", edited) is None and not follows(job) and not _is_over(job)
    if follows(edited) and getattr(edited, "next_run_time", edited) is None and (was_paused or time_given):
        edited.stats = edited.stats._replace(paused_by="modify_job")


def _is_over(job: Job) -> bool:
    return job.stats.finished_at is not None


def _require_id(job_id: object) -> None:
    if not isinstance(job_id, str):
        raise TypeError(f"job_id must be a string, got {shown(job_id)}")
