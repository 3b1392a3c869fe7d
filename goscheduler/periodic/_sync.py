"""Makes the jobs of a store those that a registry declares.

The jobs of the registry are read and compared; then changed ones are edited, each in a step that no firing can come
between, new ones are added in one step, and those that are no longer declared are removed. A crash in between leaves
some of it done, and the next sync does the rest. Several processes may do this at once: who comes second finds that an
id is taken, or gone, and compares again. With different declarations the one that comes last wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.errors import (
    ConflictingIdError,
    InvalidArgument,
    JobLookupError,
    ScheduleConflict,
    SchedulerNotRunningError,
    shown,
)
from goscheduler.job import Job
from goscheduler.options import filled_in
from goscheduler.periodic._diff import (
    DesiredJob,
    ScheduleDiff,
    SyncPlan,
    compare,
    disabled_by,
    mark_of,
    plan_of,
    rewritten,
)
from goscheduler.periodic._registry import ScheduleRegistry
from goscheduler.periodic._state import owned_jobs
from goscheduler.periodic.dispatch import PERSISTENT, Dispatcher, check_dispatcher, dispatching_task, doubt_about
from goscheduler.runs.tally import DISPATCH
from goscheduler.schedulers._pending_jobs import AddRequest
from goscheduler.tasks import register, task_or_reference

if TYPE_CHECKING:
    from goscheduler.periodic._schedule import Schedule
    from goscheduler.schedulers.base import BaseScheduler

#: How often the jobs are compared while others keep changing them.
TRIES = 10
#: So many ids of schedules that are new are looked for one by one; for more of them all jobs are read.
MOST_LOOKUPS = 8


def sync(
    scheduler: BaseScheduler,
    registry: ScheduleRegistry,
    prune: bool,
    dry_run: bool,
    dispatch: Dispatcher | None,
    jobstore: str,
) -> SyncPlan:
    """Bring a job store in line with a registry, at once or, while the scheduler is stopped, when it starts."""
    work = _Sync(scheduler, registry, prune, dispatch, jobstore)
    work.tell_of_doubts()
    if dry_run:
        return plan_of(work.compare())
    work.register_tasks()
    scheduler.engine.registries.add(registry.name)
    pending = tuple(work.desired())  # what is wrong with a schedule is an error now, not at the start
    if scheduler.engine.jobs.defer(jobstore, work.carry_out):
        return SyncPlan(pending=pending)
    return work.carry_out()


def diff_schedules(
    scheduler: BaseScheduler,
    registry: ScheduleRegistry,
    prune: bool = True,
    *,
    dispatch: Dispatcher | None = None,
    jobstore: str = "default",
) -> ScheduleDiff:
    """Return what ``scheduler.sync`` with the same arguments would do now, field by field. Nothing is written.

    :raises ScheduleConflict: if an id is taken by a job that the registry does not own
    :raises SchedulerNotRunningError: before the start of the scheduler
    """
    return _Sync(scheduler, registry, prune, dispatch, jobstore).compare()


class _Sync:
    """One sync: what it is to do, and what it has done so far."""

    def __init__(
        self, scheduler: BaseScheduler, registry: ScheduleRegistry, prune: bool, dispatch: Dispatcher | None, alias: str
    ) -> None:
        if not isinstance(registry, ScheduleRegistry):
            raise TypeError(f"registry must be a ScheduleRegistry, got {shown(registry)}")
        dispatch = registry.dispatch if dispatch is None else dispatch
        if dispatch is not None:
            check_dispatcher(dispatch)
        self._scheduler = scheduler
        self._registry = registry
        self._prune = prune
        self._dispatch = dispatch
        self._alias = alias
        self._contested = False
        self._done: dict[str, list[str]] = {"added": [], "changed": [], "removed": []}
        self._details: dict[str, str] = {}

    @property
    def _task(self) -> str:
        """The name of the task that hands firings over; one for each registry, which may have its own dispatcher."""
        return f"{DISPATCH}{self._registry.name}"

    def tell_of_doubts(self) -> None:
        """Warn of tasks that the queue may not know: it takes a misspelt one, and the firing counts as a success."""
        for schedule in self._registry.list():
            if self._dispatch is not None and (doubt := doubt_about(self._dispatch, schedule.job)):
                text = 'Schedule "%s" is handed over all the same: %s'
                self._scheduler.engine.logger.warning(text, schedule.id, doubt)

    def register_tasks(self) -> None:
        """Make known here what the firings call."""
        tasks, logger = self._scheduler.task_registry, self._scheduler.engine.logger
        if self._dispatch is not None:
            tasks.put((self._task,), dispatching_task(self._dispatch, self._scheduler))
            return
        for name, func in self._registry.functions().items():
            if ":" not in name:
                register(tasks, (name,), func, logger)

    def compare(self) -> ScheduleDiff:
        """Return what is to be done.

        :raises SchedulerNotRunningError: while the store cannot be asked
        """
        if not self._scheduler.engine.jobs.started:
            raise SchedulerNotRunningError
        return self._compare(self.desired())

    def carry_out(self) -> SyncPlan:
        """Do what is to be done, and return what was."""
        for _ in range(TRIES):
            desired = self.desired()
            plan = plan_of(self._compare(desired))
            try:
                self._apply(plan, desired)
            except ScheduleConflict:
                raise
            except (ConflictingIdError, JobLookupError) as error:
                self._contested = True
                logger = self._scheduler.engine.logger
                logger.debug("Another process changes the same schedules (%s); comparing again", error)
                continue
            return self._account(plan)
        raise InvalidArgument(
            f"the schedules of the registry {self._registry.name!r} were changed by others {TRIES} times while they "
            "were compared; give registries of different programs different names",
            field="registry",
            value=self._registry.name,
        )

    def _compare(self, desired: dict[str, DesiredJob]) -> ScheduleDiff:
        store = self._scheduler.engine.jobs.store(self._alias)
        found = owned_jobs(store, self._registry.name)
        new = desired.keys() - {job.id for job in found}
        # Somebody else's jobs have ids, too.
        if len(new) > MOST_LOOKUPS:
            found += [job for job in store.get_all_jobs() if job.id in new]
        else:
            found += [job for job in map(store.lookup_job, new) if job is not None]
        return compare(desired, found, self._registry.name, self._prune)

    def _apply(self, plan: SyncPlan, desired: dict[str, DesiredJob]) -> None:
        self._note(plan)
        for one in plan.changed:
            self._change(desired[one])
            self._done["changed"].append(one)
        additions = [self._addition(desired[one]) for one in plan.added]
        # All or none is quick; but where others add the same, each would keep the others from adding anything.
        self._add([[one] for one in additions] if self._contested else [additions])
        for one in plan.removed:
            self._remove(one)

    def _add(self, batches: Iterable[list[AddRequest]]) -> None:
        """Add what can be added, and then raise what kept the rest from it."""
        clash: ConflictingIdError | None = None
        for batch in batches:
            try:
                self._scheduler.engine.jobs.add_many(batch)
                self._done["added"] += [addition.job.id for addition in batch]
            except ConflictingIdError as error:
                clash = error
        if clash is not None:
            raise clash

    def _note(self, plan: SyncPlan) -> None:
        known = (*self._done["added"], *self._done["changed"])
        self._details.update({one: text for one, text in plan.details.items() if one not in known})

    def _change(self, desired: DesiredJob) -> None:
        first = self._first_time(desired.job)
        self._scheduler.engine.jobs.edit(desired.job.id, self._alias, lambda job: rewritten(job, desired, first))

    def _first_time(self, job: Job) -> datetime | None:
        return self._scheduler.engine.jobs.first_fire_time(job)

    def _addition(self, desired: DesiredJob) -> AddRequest:
        job = desired.job
        if not desired.enabled:
            job.next_run_time = None
            job.stats = job.stats._replace(paused_by=disabled_by(desired.registry))
        return AddRequest(job, self._alias, "error", time_given=not desired.enabled)

    def _remove(self, one: str) -> None:
        try:
            self._scheduler.engine.jobs.remove(one, self._alias)
        except JobLookupError:
            self._scheduler.engine.logger.debug('Schedule "%s" was removed by another process', one)
        else:
            self._done["removed"].append(one)

    def _account(self, plan: SyncPlan) -> SyncPlan:
        """Return what this sync has done in all of its rounds."""
        added, changed = _once(self._done["added"]), _once(self._done["changed"])
        written = {*added, *changed}
        plan = SyncPlan(
            added=added,
            changed=tuple(one for one in changed if one not in added),
            unchanged=tuple(one for one in plan.unchanged if one not in written),
            removed=_once(self._done["removed"]),
            orphaned=plan.orphaned,
            details={one: text for one, text in self._details.items() if one in written},
        )
        summary = str(plan).rpartition("\n")[-1]
        self._scheduler.engine.logger.info('Schedules of the registry "%s": %s', self._registry.name, summary)
        return plan

    def desired(self) -> dict[str, DesiredJob]:
        """Return the jobs that the schedules are to be, by id."""
        return {schedule.id: self._wish(schedule) for schedule in self._registry.list()}

    def _wish(self, schedule: Schedule) -> DesiredJob:
        scheduler = self._scheduler
        try:
            job = Job(scheduler, schedule.id, name=schedule.id, trigger=schedule.trigger(), args=(),
                      **self._call(schedule), **self._options(schedule))  # fmt: skip
        except (ValueError, TypeError, LookupError) as error:
            raise InvalidArgument(
                f"schedule {shown(schedule.id)} cannot be made a job: {error}", field="registry", value=schedule.id
            ) from error
        job.options = filled_in(job.options, scheduler.engine.jobs.defaults)
        return DesiredJob(job, self._registry.name, schedule.enabled)

    def _call(self, schedule: Schedule) -> dict[str, Any]:
        payload = deepcopy(dict(schedule.payload))
        if self._dispatch is None:
            return {"func": task_or_reference(schedule.job), "kwargs": payload}
        parcel = {"job": schedule.job, "payload": payload, "priority": schedule.urgency}
        return {"func": task_or_reference(self._task), "kwargs": parcel}

    def _options(self, schedule: Schedule) -> dict[str, Any]:
        options = {"priority": schedule.urgency, "description": schedule.description, **schedule.options}
        if self._dispatch is not None:
            options.setdefault("retry", PERSISTENT)
        return {**options, "tags": (mark_of(self._registry.name), *schedule.options.get("tags", ()))}


def _once(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
