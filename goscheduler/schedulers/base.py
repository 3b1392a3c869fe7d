"""The public face of a scheduler: short methods, each of which calls the part that does the work.

A scheduler class supplies only how to wait and how to be woken (:meth:`BaseScheduler._begin_loop`,
:meth:`BaseScheduler._end_loop`, :meth:`BaseScheduler.wakeup`); everything else is here and in the modules beside it:

- ``_jobs``: what can be done to jobs; ``_pending``: jobs added before the start
- ``_tick``: one round, the path of a firing; ``_settle``: the end of a run; ``_announce``: events about both
- ``_engine``: what the parts share; ``_components``: executors and stores; ``_outages``: stores that do not answer
- ``_lifecycle``: fork and exit
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from typing import IO, Any, TypeVar

from goscheduler import errors, events
from goscheduler._version import __version__
from goscheduler.bus import EventBus, Listener
from goscheduler.clock import SYSTEM_CLOCK, Clock, Deadline
from goscheduler.config import DEFAULT_PREFIXES, SchedulerConfig, collect_settings, parse_settings
from goscheduler.errors import (
    InvalidArgument,
    SchedulerAlreadyRunningError,
    SchedulerNotRunningError,
    UnknownOption,
    shown,
    survivable,
)
from goscheduler.events import EVENT_ANY, EventCode, SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.context import id_of_current_run
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.logs import GuardedLogger
from goscheduler.options import CHECKS, DEFAULTS, check_timeout, parse_options
from goscheduler.plugins import create_plugin, create_trigger
from goscheduler.runs.model import Outcome, Run
from goscheduler.schedulers import _export, _lifecycle
from goscheduler.schedulers._components import Components, component
from goscheduler.schedulers._engine import Engine
from goscheduler.schedulers._jobs import Jobs
from goscheduler.schedulers._listing import print_jobs
from goscheduler.schedulers._pending import Addition
from goscheduler.schedulers._settle import Settler
from goscheduler.schedulers._tick import process_due
from goscheduler.triggers.base import BaseTrigger
from goscheduler.util import undefined

STATE_STOPPED = 0
STATE_RUNNING = 1
STATE_PAUSED = 2

#: Seconds that outcomes and events are given at the end, even when jobs have used up the limit of a shutdown. Only a
#: store or a listener that hangs needs them.
LAST_WORDS = 0.5

IF_EXISTS = ("error", "replace", "keep")

_F = TypeVar("_F", bound=Callable[..., Any])


class BaseScheduler(ABC):
    """Runs jobs at the right time. Use one of the subclasses."""

    extra_options: tuple[str, ...] = ("clock",)
    """Options that this class knows beyond the common ones."""

    def __init__(self, gconfig: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.state = STATE_STOPPED
        self._lock = threading.RLock()
        self._engine = Engine(SYSTEM_CLOCK, EventBus(_GUARDED, self._overridden_dispatch()), _GUARDED)
        self._components = Components(self._engine, self)
        self._jobs = Jobs(self._engine, self._wake_unless_paused)
        self._settler = Settler(self._engine, self._wake_unless_paused)
        self._engine.report = self._settler.report
        self._stopped = threading.Event()
        self._stopped.set()
        self.configure({} if gconfig is None else gconfig, **options)
        _lifecycle.remember(self)

    def configure(
        self, gconfig: Mapping[str, Any] | None = None, prefix: str | Iterable[str] | None = DEFAULT_PREFIXES,
        **options: Any,
    ) -> None:
        """Replace the configuration; only while stopped. Pending jobs and listeners stay.

        :raises SchedulerAlreadyRunningError: if the scheduler runs
        """
        if self.state != STATE_STOPPED:
            raise SchedulerAlreadyRunningError
        self._configure(collect_settings(gconfig, prefix, options))

    def _configure(self, config: dict[str, Any]) -> None:
        """Check and apply settings. A subclass may take its own out of ``config`` before it calls this."""
        self._apply(parse_settings(config, self.extra_options))

    def _apply(self, config: SchedulerConfig) -> None:
        executors = {alias: create_plugin("executor", alias, value) for alias, value in config.executors.items()}
        stores = {alias: create_plugin("jobstore", alias, value) for alias, value in config.jobstores.items()}
        self.timezone: tzinfo = config.timezone
        self.jobstore_retry_interval = config.jobstore_retry_interval
        self._logger = self._engine.logger = GuardedLogger(config.logger or _LOGGER)
        self._engine.clock = config.extra.get("clock") or SYSTEM_CLOCK
        self._engine.bus.dispatch = config.event_dispatch
        self._engine.executors, self._engine.stores = executors, stores
        self._jobs.defaults = parse_options(config.job_defaults, DEFAULTS, where="job_defaults")

    @property
    def clock(self) -> Clock:
        return self._engine.clock

    @property
    def running(self) -> bool:
        """True from :meth:`start` to :meth:`shutdown`, also while paused."""
        return self.state != STATE_STOPPED

    def start(self, paused: bool = False) -> None:
        """Start executors and stores, add the pending jobs, and begin to fire, unless ``paused``.

        If anything fails the scheduler is stopped again as if nothing had happened, and the error is raised.

        :raises SchedulerAlreadyRunningError: if it runs
        """
        _lifecycle.refuse_uwsgi_without_threads()
        while not self._start_unless_shutting_down(STATE_PAUSED if paused else STATE_RUNNING):
            self._await_shutdown()
        self._logger.info("Scheduler started")
        self._engine.tell_of_scheduler(EventCode.SCHEDULER_STARTED)
        self._begin_loop()

    def _start_unless_shutting_down(self, state: int) -> bool:
        with self._lock:
            if self.state != STATE_STOPPED:
                raise SchedulerAlreadyRunningError
            if not self._stopped.is_set():
                return False
            self._start_parts()
            self._prepare_loop()
            self._stopped.clear()
            self.state = state
            return True

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> Any:
        """Stop firing, and with ``wait`` let what has been started end, for at most ``timeout`` seconds.

        Events are delivered before it returns. Called from inside a job or a listener it returns at once, and the rest
        happens when that job or listener has ended.

        :raises SchedulerNotRunningError: if it is stopped
        """
        check_timeout(timeout)
        with self._lock:
            if self.state == STATE_STOPPED:
                raise SchedulerNotRunningError
            self.state = STATE_STOPPED
        return self._shut_down(wait, timeout)

    def _shut_down(self, wait: bool, timeout: float | None) -> Any:
        if self._is_called_from_inside():
            threading.Thread(
                target=self._finish_shutdown, args=(wait, timeout), name="goscheduler-shutdown"
            ).start()
        else:
            self._finish_shutdown(wait, timeout)

    def pause(self) -> None:
        """Stop firing; what runs goes on. What comes due meanwhile meets the misfire rule on :meth:`resume`."""
        self._change_state(STATE_RUNNING, STATE_PAUSED, EventCode.SCHEDULER_PAUSED, "Paused scheduler job processing")

    def resume(self) -> None:
        """Fire again."""
        self._change_state(STATE_PAUSED, STATE_RUNNING, EventCode.SCHEDULER_RESUMED, "Resumed scheduler job processing")
        self.wakeup()

    @abstractmethod
    def wakeup(self) -> None:
        """Ask for a round now. Callable from any thread."""

    def add_executor(self, executor: BaseExecutor | str, alias: str = "default", **executor_opts: Any) -> None:
        """Add an executor, given as an instance or as the name of a plug-in and its options.

        :raises ValueError: if there is one by this alias
        """
        instance = component("executor", executor, executor_opts)
        self._components.add_executor(alias, instance)
        if self.running:
            self._jobs.release_suspended()
            self._wake_unless_paused()

    def remove_executor(self, alias: str, shutdown: bool = True) -> None:
        """Remove an executor. Jobs that name it are suspended when they come due.

        :raises KeyError: if there is none by this alias
        """
        self._components.remove_executor(alias, shutdown)

    def add_jobstore(self, jobstore: BaseJobStore | str, alias: str = "default", **jobstore_opts: Any) -> None:
        """Add a job store, given as an instance or as the name of a plug-in and its options.

        :raises ValueError: if there is one by this alias
        """
        instance = component("jobstore", jobstore, jobstore_opts)
        self._components.add_store(alias, instance)
        self._wake_unless_paused()

    def remove_jobstore(self, alias: str, shutdown: bool = True) -> None:
        """Remove a job store; its jobs stay in it.

        :raises KeyError: if there is none by this alias
        """
        self._components.remove_store(alias, shutdown)

    def add_listener(self, callback: Listener, mask: int = EVENT_ANY) -> None:
        """Call ``callback(event)`` for every event whose code is in ``mask``."""
        self._engine.bus.add_listener(callback, mask)

    def remove_listener(self, callback: Listener) -> None:
        """Stop calling ``callback``; an unknown one is fine."""
        self._engine.bus.remove_listener(callback)

    def add_job(
        self,
        func: Callable[..., Any] | str,
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
        tags: Any = undefined,
        description: Any = undefined,
        **trigger_args: Any,
    ) -> Job:
        """Add a job and return it.

        ``trigger`` is a trigger, the name of one with its options in ``trigger_args``, or None for "once, now".
        ``next_run_time`` overrides the first run; None adds the job paused. ``if_exists`` says what to do about an id
        that is taken: "error" (the default), "replace" (the same as ``replace_existing``; the next run time stays
        unless the trigger has changed) or "keep". Before :meth:`start` the job is pending.

        :raises ConflictingIdError: if the id is taken
        :raises NeverFires: if the trigger has no fire time
        :raises ValueError, TypeError, LookupError: for arguments that make no sense; nothing is added then
        """
        given = {
            "misfire_grace_time": misfire_grace_time, "coalesce": coalesce, "max_instances": max_instances,
            "executor": executor, "tags": tags, "description": description,
        }
        if not isinstance(jobstore, str):
            raise TypeError(f"jobstore must be a string, got {shown(jobstore)}")
        options = {key: value for key, value in given.items() if value is not undefined}
        times = {} if next_run_time is undefined else {"next_run_time": next_run_time}
        job = Job(
            self, id, func=func, args=() if args is None else args, kwargs={} if kwargs is None else kwargs, name=name,
            trigger=self._create_trigger(trigger, trigger_args), **times, **options,
        )
        exists = _check_if_exists(if_exists, replace_existing)
        self._jobs.add(Addition(job, jobstore, exists, time_given=bool(times)))
        return job

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
        **options: Any,
    ) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job, replacing one with the same id."""

        def decorate(func: _F) -> _F:
            self.add_job(
                func, trigger, args, kwargs, id, name, misfire_grace_time, coalesce, max_instances, next_run_time,
                jobstore, executor, True, **options,
            )
            return func

        return decorate

    def modify_job(self, job_id: str, jobstore: str | None = None, **changes: Any) -> Job:
        """Change attributes of a job, all of them or none. A new trigger gives a new next run time.

        :raises JobLookupError: if there is no such job
        """
        return self._jobs.modify(job_id, jobstore, **changes)

    def reschedule_job(
        self, job_id: str, jobstore: str | None = None, trigger: BaseTrigger | str | None = None, **trigger_args: Any
    ) -> Job:
        """Give a job another trigger and compute its next run from now.

        :raises JobLookupError: if there is no such job
        """
        return self._jobs.reschedule(job_id, jobstore, self._create_trigger(trigger, trigger_args))

    def pause_job(self, job_id: str, jobstore: str | None = None) -> Job:
        """Stop firing a job until :meth:`resume_job`.

        :raises JobLookupError: if there is no such job
        """
        return self._jobs.pause(job_id, jobstore)

    def resume_job(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Fire a paused job again, from now on; None if its trigger has ended, and the job is removed then.

        :raises JobLookupError: if there is no such job
        """
        return self._jobs.resume(job_id, jobstore)

    def get_jobs(self, jobstore: str | None = None, pending: Any = None) -> list[Job]:
        """Return all jobs: the pending ones while stopped, else those in the stores. ``pending`` has no effect."""
        if pending is not None:
            warnings.warn("the pending option of get_jobs() has no effect", DeprecationWarning, stacklevel=2)
        return self._jobs.all(jobstore)

    def get_job(self, job_id: str, jobstore: str | None = None) -> Job | None:
        """Return a job, or None."""
        return self._jobs.find(job_id, jobstore)

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Remove a job. After that no new run of it starts.

        :raises JobLookupError: if there is no such job
        """
        self._jobs.remove(job_id, jobstore)

    def remove_all_jobs(self, jobstore: str | None = None) -> None:
        """Remove all jobs of one store, or of all."""
        self._jobs.remove_all(jobstore)

    def print_jobs(self, jobstore: str | None = None, out: IO[str] | None = None) -> None:
        """Print a list of the jobs, by store."""
        print_jobs(self._listing(jobstore), sys.stdout if out is None else out)

    def export_jobs(self, outfile: Any, jobstore: str | None = None) -> None:
        """Write the jobs as JSON to a path or a text file. They hold no code, only references to functions.

        :raises RuntimeError: while stopped
        """
        if not self.running:
            raise RuntimeError("The scheduler must have been started for jobs to be exported")
        _export.write_jobs([job.__getstate__() for job in self.get_jobs(jobstore)], outfile, __version__)

    def import_jobs(self, infile: Any, jobstore: str = "default") -> None:
        """Add the jobs of a file that :meth:`export_jobs`, here or in APScheduler 3.11, has written.

        :raises ConflictingIdError: if an id is taken; nothing is added then
        """
        jobs = [self._job_from(state) for state in _export.read_jobs(infile)]
        self._jobs.refuse_taken_ids([job.id for job in jobs], jobstore)
        for job in jobs:
            self._jobs.add(Addition(job, jobstore, "error", time_given=True))

    def may_start(self, run: Run) -> bool:
        """Tell an executor whether a run that it was given may still be started."""
        return self._engine.may_start(run)

    def report(self, run: Run, outcome: Outcome) -> None:
        """Take the outcome of a run from an executor."""
        self._settler.report(run, outcome)

    def _job_from(self, state: Mapping[str, Any]) -> Job:
        options = {name: value for name, value in state.items() if name in CHECKS}
        definition = {name: state[name] for name in ("func", "args", "kwargs", "name", "trigger", "next_run_time")}
        return Job(self, state["id"], **definition, **options)

    def _create_trigger(self, trigger: BaseTrigger | str | None, options: Mapping[str, Any]) -> BaseTrigger:
        if isinstance(trigger, BaseTrigger):
            for name in options:
                raise UnknownOption(name, _ADD_JOB_OPTIONS, where="add_job beside a trigger instance")
            return trigger
        if trigger is not None and not isinstance(trigger, str):
            raise TypeError(f"Expected a trigger instance or string, got {type(trigger).__name__} instead")
        created: BaseTrigger = create_trigger(
            "date" if trigger is None else trigger, options, self.timezone, _ADD_JOB_OPTIONS
        )
        return created

    def _create_default_executor(self) -> BaseExecutor:
        """Return the executor that is used when none by the alias "default" was configured."""
        return ThreadPoolExecutor()

    def _create_default_jobstore(self) -> BaseJobStore:
        """Return the store that is used when none by the alias "default" was configured."""
        return MemoryJobStore()

    def _create_lock(self) -> Any:
        """Return a lock that fits how this scheduler waits."""
        return threading.RLock()

    def _dispatch_event(self, event: SchedulerEvent) -> None:
        """Call the listeners with one event. Every event goes through here, on the thread that delivers."""
        self._engine.bus.deliver(event)

    def _overridden_dispatch(self) -> Callable[[SchedulerEvent], None] | None:
        """Return ``_dispatch_event`` where a subclass has its own; else the bus needs no detour."""
        overridden = type(self)._dispatch_event is not BaseScheduler._dispatch_event
        return self._dispatch_event if overridden else None

    def _process_jobs(self) -> float | None:
        """Fire what is due. Return the seconds until the next round, None for "until woken"."""
        if self.state != STATE_RUNNING:
            return None
        try:
            return process_due(self._engine, self.jobstore_retry_interval)
        except BaseException as error:
            if not survivable(error):
                raise
            self._logger.exception("A round of the scheduler failed; trying again in a second")
            return 1.0

    def _prepare_loop(self) -> None:  # noqa: B027 - not every way of waiting needs it
        """Get ready for :meth:`_begin_loop`; called while the state is about to change."""

    @abstractmethod
    def _begin_loop(self) -> None:
        """Begin to call :meth:`_process_jobs`, waiting in between for as long as it says or until woken."""

    @abstractmethod
    def _end_loop(self, timeout: float | None) -> None:
        """Stop calling :meth:`_process_jobs`, and return when the last call has ended or ``timeout`` is over."""

    def _start_parts(self) -> None:
        self._engine.begin_life()
        if "default" not in self._engine.executors:
            self._components.add_executor("default", self._create_default_executor())
        if "default" not in self._engine.stores:
            self._components.add_store("default", self._create_default_jobstore())
        self._components.start()
        try:
            self._start_settling()
            self._jobs.started = True
            self._jobs.add_waiting()
            self._jobs.release_suspended()
        except BaseException:
            self._stop_parts(wait=False, deadline=Deadline(self.clock, None))
            raise

    def _start_settling(self) -> None:
        self._settler.start()

    def _finish_shutdown(self, wait: bool, timeout: float | None) -> None:
        try:
            deadline = Deadline(self.clock, timeout)
            self._end_loop(deadline.left())
            self._stop_parts(wait, deadline)
            self._logger.info("Scheduler has been shut down")
            self._engine.tell_of_scheduler(EventCode.SCHEDULER_SHUTDOWN)
            self._engine.bus.close(deadline.left(at_least=LAST_WORDS))
        finally:
            self._stopped.set()

    def _stop_parts(self, wait: bool, deadline: Deadline) -> None:
        """Stop the parts in the order in which work flows through them."""
        self._components.stop_executors(wait, deadline)
        self._settler.stop(deadline.left(at_least=LAST_WORDS))
        self._jobs.started = False
        self._components.stop_stores()

    def _is_called_from_inside(self) -> bool:
        """Tell whether the caller is a job, a listener or a thread that a shutdown would wait for."""
        return (
            id_of_current_run() is not None
            or self._engine.bus.is_called_from_listener()
            or self._settler.is_current_thread()
        )

    def _await_shutdown(self) -> None:
        """Wait for a shutdown that is going on; from inside what it waits for, that cannot be waited for."""
        if self._is_called_from_inside():
            raise SchedulerAlreadyRunningError
        self._stopped.wait()

    def _change_state(self, old: int, new: int, code: EventCode, message: str) -> None:
        with self._lock:
            if self.state == STATE_STOPPED:
                raise SchedulerNotRunningError
            if self.state != old:
                return
            self.state = new
        self._logger.info(message)
        self._engine.tell_of_scheduler(code)

    def _wake_unless_paused(self) -> None:
        if self.state == STATE_RUNNING:
            self.wakeup()

    def _listing(self, jobstore: str | None) -> dict[str | None, list[Job]]:
        if not self.running:
            return {None: self.get_jobs(jobstore)}
        return {
            alias: self.get_jobs(alias) for alias in sorted(self._engine.stores) if jobstore in (None, alias)
        }

    def _after_fork(self) -> None:
        """Become a stopped scheduler in a forked child: the threads stayed with the parent."""
        self._lock = threading.RLock()
        self.state = STATE_STOPPED
        self._stopped.set()
        self._jobs.started = False
        self._engine.bus.forget_thread()
        self._settler = Settler(self._engine, self._wake_unless_paused)
        self._engine.report = self._settler.report
        self._components.forget()

    def __getstate__(self) -> Any:
        raise TypeError(
            "Schedulers cannot be serialized. Ensure that you are not passing a scheduler instance as an argument to a "
            "job, or scheduling an instance method where the instance contains a scheduler as an attribute."
        )


_LOGGER = logging.getLogger("goscheduler.scheduler")
_GUARDED = GuardedLogger(_LOGGER)
_ADD_JOB_OPTIONS = tuple(inspect.signature(BaseScheduler.add_job).parameters)[1:-1]


def __getattr__(name: str) -> Any:
    """Return an event or error: users of APScheduler 3 import these from here, although they live elsewhere."""
    for home in (events, errors):
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
