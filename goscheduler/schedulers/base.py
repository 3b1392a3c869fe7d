"""The public face of a scheduler: short methods, each of which calls the part that does the work.

- ``_settings``: configuration; ``_lifecycle``: start, pause, shutdown; ``_only_adds``: a start that never fires;
  ``_process``: fork and exit of the process
- ``_jobs``: what can be done to jobs; ``_pending_jobs``: jobs added before the start
- ``_diagnosis``: where a job stands
- ``_tick``: one round, the path of a firing; ``_settle``: the end of a run; ``_announce``: events about both
- ``_cancellation``: timeouts and cancellation; ``_lease``: who we are to shared stores; ``_housekeeping``: lost runs
- ``_list_methods``: the methods about many jobs and about processes; ``_bulk``: acts on many jobs
- ``_time_methods``: the methods about when jobs fire; ``_given_trigger``: the trigger that a caller means
- ``_run_methods``: the methods about runs; ``_runs``: history and dead letters;
  ``_reconciliation``: what a store may have done unheard
- ``_engine``: what the parts share; ``_components``: executors and stores; ``_outages``: stores that do not answer
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

from goscheduler import errors, events
from goscheduler._typed import typed_add_job, typed_modify_job, typed_reschedule_job, typed_scheduled_job
from goscheduler._version import __version__
from goscheduler.calls import Call, spread
from goscheduler.errors import InvalidArgument, JobLookupError, shown
from goscheduler.event_bus import Listener
from goscheduler.events import EVENT_ANY
from goscheduler.executors.base import BaseExecutor
from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.options import CHECKS, check_name_of
from goscheduler.runs.model import JobState
from goscheduler.schedulers import _export, _lifecycle
from goscheduler.schedulers._components import component
from goscheduler.schedulers._diagnosis import Diagnosis, collect_facts, refresh, state_of, why_not_running
from goscheduler.schedulers._given_trigger import given_trigger
from goscheduler.schedulers._listing import print_jobs
from goscheduler.schedulers._pending_jobs import AddRequest
from goscheduler.schedulers._settings import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED
from goscheduler.schedulers._time_methods import TimeMethods
from goscheduler.tasks import check_names, register, stored_target
from goscheduler.triggers.base import BaseTrigger
from goscheduler.util import undefined

if TYPE_CHECKING:
    from goscheduler.periodic import ScheduleRegistry, ScheduleState, SyncPlan
    from goscheduler.periodic.dispatch import Dispatcher

__all__ = ["STATE_PAUSED", "STATE_RUNNING", "STATE_STOPPED", "BaseScheduler"]

IF_EXISTS = ("error", "replace", "keep")

_F = TypeVar("_F", bound=Callable[..., Any])


class BaseScheduler(TimeMethods):
    """Runs jobs at the right time. Use one of the subclasses."""

    def add_executor(self, /, executor: BaseExecutor | str, alias: str = "default", **executor_opts: Any) -> None:
        """Add an executor, given as an instance or as the name of a plug-in and its options.

        :raises ValueError: if there is one by this alias
        """
        instance = component("executor", executor, executor_opts)
        self._components.add_executor(alias, instance)
        if self.running and not self.engine.observing:
            self.engine.jobs.release_suspended(alias)
            self._wake_unless_paused()

    def remove_executor(self, alias: str, shutdown: bool = True) -> None:
        """Remove an executor. Jobs that name it are suspended when they come due.

        :raises KeyError: if there is none by this alias
        """
        self._components.remove_executor(alias, shutdown)

    def add_jobstore(self, /, jobstore: BaseJobStore | str, alias: str = "default", **jobstore_opts: Any) -> None:
        """Add a job store, given as an instance or as the name of a plug-in and its options.

        While the scheduler runs, a store whose server is down is waited for, as at the start.

        :raises ValueError: if there is one by this alias
        :raises StoreUnavailable: if its server could not be reached within ``start_timeout``
        """
        self._add_store(alias, component("jobstore", jobstore, jobstore_opts))
        self._wake_unless_paused()

    def remove_jobstore(self, alias: str, shutdown: bool = True) -> None:
        """Remove a job store; its jobs stay in it.

        :raises KeyError: if there is none by this alias
        """
        self._components.remove_store(alias, shutdown)

    @overload
    def register(self, name: str, func: _F, aliases: Iterable[str] = (), *, pass_job: bool = False) -> _F: ...

    @overload
    def register(self, name: str, *, aliases: Iterable[str] = (), pass_job: bool = False) -> Callable[[_F], _F]: ...

    def register(
        self, name: str, func: Any = undefined, aliases: Iterable[str] = (), *, pass_job: bool = False
    ) -> Any:
        """Make a function known to this scheduler as the task ``name``; without ``func``, return a decorator.

        It goes before a task of the process by that name. A name that is taken leads to the new function from then on.
        With ``pass_job`` the function gets the current run, as ``current_run()`` returns it, in its last parameter.

        :raises InvalidArgument: if a name is empty, too long, not printable, or has a colon in it
        """
        names = check_names(name, aliases)

        def decorate(task: _F) -> _F:
            register(self.task_registry, names, task, self._logger, pass_job)
            return task

        return decorate if func is undefined else decorate(func)

    def add_listener(self, callback: Listener, mask: int = EVENT_ANY) -> None:
        """Call ``callback(event)`` for every event whose code is in ``mask``."""
        self.engine.bus.add_listener(callback, mask)

    def remove_listener(self, callback: Listener) -> None:
        """Stop calling ``callback``; an unknown one is fine."""
        self.engine.bus.remove_listener(callback)

    @typed_add_job
    def add_job(
        self,
        /,
        func: Callable[..., Any] | str | Call[Any],
        trigger: BaseTrigger | str | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        id: str | None = None,
        name: str | None = None,
        misfire_grace_time: Any = undefined,
        coalesce: Any = undefined,
        max_instances: Any = undefined,
        next_run_time: Any = undefined,
        jobstore: str = "default",
        executor: Any = undefined,
        replace_existing: bool = False,
        *,
        if_exists: str | None = None,
        retry: Any = undefined,
        dead_letter: Any = undefined,
        timeout: Any = undefined,
        priority: Any = undefined,
        overlap: Any = undefined,
        limits: Any = undefined,
        on_crash: Any = undefined,
        max_crashes: Any = undefined,
        auto_remove: Any = undefined,
        tags: Any = undefined,
        description: Any = undefined,
        metadata: Any = undefined,
        connection: Any = None,
        **trigger_args: Any,
    ) -> Job:
        """Add a job and return it.

        ``func`` is a function, its reference or task, or a function with its arguments: ``call(send, order.id)``.
        ``trigger`` is a trigger, the name of one with its options in ``trigger_args``, a sentence such as "every
        weekday at 09:00", or None for "once, now". ``next_run_time`` overrides the first run; None adds the job paused.
        ``if_exists`` says what to do about an id that is taken: "error" (the default), "replace" (the same as
        ``replace_existing``; the next run time stays unless the trigger has changed) or "keep". Before :meth:`start`
        the job is pending. ``connection`` is one to the database of the job store, whose transaction the job becomes
        part of: rolled back, the job never was.

        :raises ConflictingIdError: if the id is taken
        :raises NeverFires: if the trigger has no fire time
        :raises ValueError, TypeError, LookupError: for arguments that make no sense; nothing is added then
        """
        addition = self._addition({
            "func": func, "trigger": trigger, "args": args, "kwargs": kwargs, "id": id, "name": name,
            "misfire_grace_time": misfire_grace_time, "coalesce": coalesce, "max_instances": max_instances,
            "next_run_time": next_run_time, "jobstore": jobstore, "executor": executor,
            "replace_existing": replace_existing, "if_exists": if_exists, "retry": retry, "dead_letter": dead_letter,
            "timeout": timeout, "priority": priority, "overlap": overlap, "limits": limits, "on_crash": on_crash,
            "max_crashes": max_crashes, "auto_remove": auto_remove, "tags": tags, "description": description,
            "metadata": metadata, "connection": connection,
        }, trigger_args)  # fmt: skip
        self.engine.jobs.add(addition)
        return addition.job

    def add_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Add several jobs at once, all of them or none, and return them. Each is given as the arguments of one
        :meth:`add_job`. In a database this is many times quicker than one by one.

        :raises ConflictingIdError: if an id is taken
        """
        additions = list(map(self._addition_of, definitions))
        self.engine.jobs.add_many(additions)
        return [addition.job for addition in additions]

    def _addition_of(self, definition: Mapping[str, Any]) -> AddRequest:
        """Return what a mapping with the arguments of ``add_job`` asks for, checked."""
        if not isinstance(definition, Mapping) or "func" not in definition:
            raise TypeError(f"a job must be a mapping with the arguments of add_job, got {shown(definition)}")
        trigger_args = {name: definition[name] for name in definition if name not in _ADD_JOB_OPTIONS}
        return self._addition(definition, trigger_args)

    def add_request(self, fields: Mapping[str, Any], *, jobstore: str = "default", by: str | None = None) -> Job:
        """Add the job or the message that a request asks for, in the form of one in the inbox of a store; return its
        job. ``by`` goes before what the request says of it.

        :raises InvalidArgument: naming the field that is unknown or makes no sense; nothing is added then
        :raises ConflictingIdError: if the id is taken
        """
        addition = self.engine.inbox.addition(fields, jobstore, None if by is None else check_name_of("by", by))
        self.engine.jobs.add(addition)
        return addition.job

    def _addition(self, given: Mapping[str, Any], trigger_args: Mapping[str, Any]) -> AddRequest:
        """Return what the arguments of ``add_job`` ask for, checked."""
        given = spread(given)
        jobstore = given.get("jobstore", "default")
        if not isinstance(jobstore, str):
            raise TypeError(f"jobstore must be a string, got {shown(jobstore)}")
        options = {key: given[key] for key in given if key in CHECKS and given[key] is not undefined}
        next_run_time = given.get("next_run_time", undefined)
        times = {} if next_run_time is undefined else {"next_run_time": next_run_time}
        args, kwargs = given.get("args"), given.get("kwargs")
        job = Job(
            self, given.get("id"), func=given["func"], args=() if args is None else args,
            kwargs={} if kwargs is None else kwargs, name=given.get("name"),
            trigger=self._create_trigger(given.get("trigger"), trigger_args), **times, **options,
        )  # fmt: skip
        exists = _check_if_exists(given.get("if_exists"), given.get("replace_existing", False))
        connection = given.get("connection")
        return AddRequest(job, jobstore, exists, time_given=bool(times), connection=connection)

    @typed_scheduled_job
    def scheduled_job(
        self,
        trigger: BaseTrigger | str,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        id: str | None = None,
        name: str | None = None,
        misfire_grace_time: Any = undefined,
        coalesce: Any = undefined,
        max_instances: Any = undefined,
        next_run_time: Any = undefined,
        jobstore: str = "default",
        executor: Any = undefined,
        *,
        replace_existing: bool = True,
        **options: Any,
    ) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job; by default it replaces one with the same id.

        ``options`` are the other arguments of :meth:`add_job`, ``if_exists`` among them, and those of the trigger.
        """

        def decorate(func: _F) -> _F:
            self.add_job(
                func, trigger, args, kwargs, id, name, misfire_grace_time, coalesce, max_instances, next_run_time,
                jobstore, executor, replace_existing, **options,
            )
            return func

        return decorate

    @typed_modify_job
    def modify_job(self, /, job_id: str, jobstore: str | None = None, **changes: Any) -> Job:
        """Change attributes of a job, all of them or none. A new trigger gives a new next run time.

        :raises JobLookupError: if there is no such job
        """
        return self.engine.jobs.modify(job_id, jobstore, **changes)

    @typed_reschedule_job
    def reschedule_job(
        self,
        /,
        job_id: str,
        jobstore: str | None = None,
        trigger: BaseTrigger | str | None = None,
        **trigger_args: Any,
    ) -> Job:
        """Give a job another trigger and compute its next run from now.

        :raises JobLookupError: if there is no such job
        """
        return self.engine.jobs.reschedule(job_id, jobstore, self._create_trigger(trigger, trigger_args))

    def pause_job(
        self, job_id: str, jobstore: str | None = None, *, by: str | None = None, reason: str = "",
        pause_id: str | None = None,
    ) -> Job:  # fmt: skip
        """Stop firing a job until :meth:`resume_job`. ``by`` and ``reason`` say who wants that and why, for those who
        ask :meth:`why`; :meth:`resume_jobs` finds it by ``pause_id``.

        :raises JobLookupError: if there is no such job
        """
        return self.engine.jobs.pause(job_id, jobstore, by, reason, pause_id)

    def resume_job(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Fire a paused job again, from now on; None if its trigger has ended, and the job is removed then.

        :raises JobLookupError: if there is no such job
        """
        return self.engine.jobs.resume(job_id, jobstore)

    def get_job(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Return a job, or None."""
        return self.engine.jobs.find(job_id, jobstore)

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Remove a job. After that no new run of it starts.

        :raises JobLookupError: if there is no such job
        """
        self.engine.jobs.remove(job_id, jobstore)

    def remove_all_jobs(self, jobstore: str | None = None) -> None:
        """Remove all jobs of one store, or of all."""
        self.engine.jobs.remove_all(jobstore)

    def run_now(self, job_id: str, jobstore: str | None = None) -> str:
        """Run a job once, now, without moving its schedule. Return the id of the run.

        :raises JobLookupError: if there is no such job, or the scheduler is stopped
        """
        return self._runs.run_now(self.get_job(job_id, jobstore), job_id)

    def job_state(self, job: Job) -> JobState:
        """Return where a job stands at this moment; the same as ``job.state``.

        What the job says of its life and of its next run time is as of the same moment then.
        """
        current = None if job.pending else self.get_job(job.id, job._jobstore_alias)
        found = self._inquiry(current or job, gone=self.running and not job.pending and current is None)
        refresh(job, found)
        return state_of(found)

    def why(self, job_id: str, jobstore: str | None = None) -> str:
        """Return why a job is not running now, in a sentence.

        :raises JobLookupError: if there is no such job
        """
        job = self.get_job(job_id, jobstore)
        if job is None:
            raise JobLookupError(job_id)
        return why_not_running(self._inquiry(job))

    def sync(
        self,
        registry: ScheduleRegistry,
        prune: bool = True,
        dry_run: bool = False,
        *,
        dispatch: Dispatcher | None = None,
        jobstore: str = "default",
    ) -> SyncPlan:
        """Make the jobs of a store those that a registry declares, and return what was added, changed and removed.

        A schedule that is not changed keeps its next run, one that is changed keeps its state. Jobs that were made by
        hand are left alone. ``prune`` removes what the registry no longer declares; ``dry_run`` only tells. Before
        :meth:`start` this waits for it. ``dispatch`` goes before the one of the registry.

        :raises ScheduleConflict: if an id is taken by a job that the registry does not own; nothing is written then
        """
        from goscheduler.periodic._sync import sync  # few programs need it

        return sync(self, registry, prune, dry_run, dispatch, jobstore)

    def schedule_state(self, schedule_id: str, jobstore: str | None = None) -> ScheduleState:
        """Return what a schedule that :meth:`sync` has made a job has lived through.

        :raises JobLookupError: if there is none
        """
        from goscheduler.periodic._state import state_of_schedule

        return state_of_schedule(self.get_job(schedule_id, jobstore), schedule_id)

    def print_jobs(self, jobstore: str | None = None, out: IO[str] | None = None) -> None:
        """Print a list of the jobs, by store."""
        print_jobs(self._listing(jobstore), sys.stdout if out is None else out)

    def export_jobs(self, outfile: Any, jobstore: str | None = None) -> None:
        """Write the jobs as JSON to a path or a text file. They hold no code, only references to functions.

        :raises RuntimeError: while stopped
        """
        if not self.running:
            raise RuntimeError("The scheduler must have been started for jobs to be exported")
        definitions = [job.__getstate__() for job in self.get_jobs(jobstore)]
        for definition in definitions:
            del definition["life"]
        _export.write_jobs(definitions, outfile, __version__)

    def import_jobs(self, infile: Any, jobstore: str = "default") -> None:
        """Add the jobs of a file that :meth:`export_jobs`, here or in APScheduler 3.11, has written.

        :raises ConflictingIdError: if an id is taken; nothing is added then
        :raises InvalidArgument: if a job of it runs code that is not the program's own and that ``allowed_modules``
            does not name
        """
        jobs = [self._job_from(state) for state in _export.read_jobs(infile)]
        self.engine.jobs.refuse_taken_ids([job.id for job in jobs], jobstore)
        for job in jobs:
            self.engine.jobs.add(AddRequest(job, jobstore, "error", time_given=True, imported=True))

    def _inquiry(self, job: Job, gone: bool = False) -> Diagnosis:
        return collect_facts(self.engine, job, self.state == STATE_RUNNING, gone)

    def _job_from(self, state: Mapping[str, Any]) -> Job:
        options = {name: value for name, value in state.items() if name in CHECKS}
        definition = {name: state[name] for name in ("func", "args", "kwargs", "name", "trigger", "next_run_time")}
        definition["func"] = stored_target(definition["func"])
        return Job(self, state["id"], **definition, **options)

    def _create_trigger(self, trigger: BaseTrigger | str | None, options: Mapping[str, Any]) -> BaseTrigger:
        return given_trigger(trigger, options, self.timezone, _ADD_JOB_OPTIONS)

    def _listing(self, jobstore: str | None) -> dict[str | None, list[Job]]:
        if not self.running:
            return {None: self.get_jobs(jobstore)}
        return {
            alias: self.get_jobs(alias) for alias in sorted(self.engine.stores) if jobstore in (None, alias)
        }


_ADD_JOB_OPTIONS = frozenset(list(inspect.signature(BaseScheduler.add_job).parameters)[1:-1])


def __getattr__(name: str) -> Any:
    """Return what users of APScheduler 3 import from here although it lives elsewhere: events, errors and the like."""
    for home in (events, errors, _lifecycle):
        if not name.startswith("_") and hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _check_if_exists(if_exists: str | None, replace_existing: bool) -> str:
    if if_exists is None:
        return "replace" if replace_existing else "error"
    if if_exists not in IF_EXISTS:
        raise InvalidArgument(
            f"if_exists must be one of {', '.join(IF_EXISTS)}, got {if_exists!r}", field="if_exists", value=if_exists
        )
    return if_exists
