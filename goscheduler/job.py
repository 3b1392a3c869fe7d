"""A job: what to run and when.

Users get jobs from ``add_job`` and ``get_job`` and never build them. A job is a definition, its ``next_run_time`` (None
while it is paused), and a handle: its methods call the scheduler that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from os import urandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from goscheduler._typed import ModifyJob, RescheduleJob, typed_reschedule
from goscheduler.calls import spread
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.options import (
    CHECKS,
    DEFAULTS,
    OPEN,
    OPTION_NAMES,
    JobOptions,
    check_job_id,
    check_name,
    parse_options,
)
from goscheduler.references import check_callable_args, get_callable_name, obj_to_ref
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import NO_STATS, JobState, JobStats
from goscheduler.runs.queries import follows
from goscheduler.runs.retry import Retry
from goscheduler.tasks import Target, TaskRegistry, UnknownTask, resolve, restore
from goscheduler.times import convert_to_datetime, to_micros
from goscheduler.triggers.base import BaseTrigger
from goscheduler.util import undefined

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goscheduler.typing import JobChanges

STATE_VERSION = 1

_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})


class JobHost(Protocol):
    """The methods of a scheduler that its jobs call."""

    timezone: tzinfo
    task_registry: TaskRegistry

    @property
    def modify_job(self) -> ModifyJob[Job]: ...

    @property
    def reschedule_job(self) -> RescheduleJob[Job]: ...

    def pause_job(self, job_id: str, jobstore: str | None = None) -> Job: ...

    def resume_job(self, job_id: str, jobstore: str | None = None) -> Job | None: ...

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None: ...

    def job_state(self, job: Job) -> JobState: ...


class Job:
    """A function, its arguments, the trigger that says when, and the options that say how."""

    __slots__ = (
        "__weakref__",
        "_jobstore_alias",
        "_scheduler",
        "_waits_for",
        "args",
        "func",
        "func_ref",
        "id",
        "kwargs",
        "name",
        "next_run_time",
        "options",
        "stats",
        "suspended",
        "task",
        "trigger",
    )

    _scheduler: JobHost
    _jobstore_alias: str | None
    _waits_for: str | None
    """While the job is pending: the alias of the store that it is meant for."""
    id: str
    name: str
    func: Callable[..., Any]
    func_ref: str | None
    """Where the function is found again, ``module:qualname`` or its task; None if it can only live in memory."""
    task: str | None
    """The name of the task that the job runs; None if it goes by the function itself."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    trigger: BaseTrigger
    next_run_time: datetime | None
    """The next fire time; None while the job is paused, or waits for others. A pending job may not have one yet."""
    options: JobOptions
    stats: JobStats
    """Statistics of the job, as of when it was read from its store."""
    suspended: str | None
    """Why the job cannot be run for now, or None."""

    def __init__(
        self,
        scheduler: JobHost,
        id: str | None = None,
        *,
        func: object = None,
        args: object = (),
        kwargs: object = _NO_KWARGS,
        trigger: object = None,
        name: str | None = None,
        **others: Any,
    ) -> None:
        self._scheduler = scheduler
        self._jobstore_alias = self._waits_for = None
        self.suspended = None
        self.stats = NO_STATS
        self.options = OPEN
        self.id = new_id() if id is None else check_job_id(id)
        self._set_call(*self._checked_call(func, args, kwargs))
        self.name = (self.task or get_callable_name(self.func)) if name is None else check_name(name)
        self.trigger = _check_trigger(trigger).for_job(self.id)
        if others:  # the next run time and options
            self._modify(**others)

    @property
    def executor(self) -> str:
        return self.options.executor or DEFAULTS.executor

    @property
    def misfire_grace_time(self) -> float | None:
        return _decided("misfire_grace_time", self.options.misfire_grace_time)

    @property
    def coalesce(self) -> bool:
        return _decided("coalesce", self.options.coalesce)

    @property
    def max_instances(self) -> int:
        return _decided("max_instances", self.options.max_instances)

    @property
    def retry(self) -> Retry | None:
        return self.options.retry or DEFAULTS.retry

    @property
    def dead_letter(self) -> bool:
        """Whether a run of this job whose last attempt failed is kept among the dead letters."""
        wanted = self.options.dead_letter
        return wanted if isinstance(wanted, bool) else self.retry is not None

    @property
    def timeout(self) -> float | None:
        return _decided("timeout", self.options.timeout)

    @property
    def priority(self) -> int:
        return _decided("priority", self.options.priority)

    @property
    def overlap(self) -> str:
        return _decided("overlap", self.options.overlap)

    @property
    def limits(self) -> tuple[Limit, ...]:
        return self.options.limits or DEFAULTS.limits

    @property
    def on_crash(self) -> str:
        return _decided("on_crash", self.options.on_crash)

    @property
    def max_crashes(self) -> int:
        return _decided("max_crashes", self.options.max_crashes)

    @property
    def auto_remove(self) -> bool:
        return _decided("auto_remove", self.options.auto_remove)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.options.tags or DEFAULTS.tags

    @property
    def description(self) -> str:
        return self.options.description or DEFAULTS.description

    @property
    def metadata(self) -> dict[str, str]:
        """Names and texts for programs."""
        return dict(self.options.metadata or DEFAULTS.metadata)

    @property
    def created_at(self) -> datetime | None:
        """When the job was added; None if that was with an older version."""
        return self.stats.created_at

    @property
    def created_by(self) -> str | None:
        """Who added the job, where that was said."""
        return self.stats.created_by

    @property
    def run_count(self) -> int:
        """How many attempts at runs of it were started and have ended."""
        return self.stats.run_count

    @property
    def last_run(self) -> datetime | None:
        """When the last attempt was started."""
        return self.stats.last_run

    @property
    def last_success(self) -> datetime | None:
        """When the last attempt that went well ended."""
        return self.stats.last_success

    @property
    def last_error(self) -> str | None:
        """What the last attempt that did not go well had to say."""
        return self.stats.last_error

    @property
    def state(self) -> JobState:
        """Where the job stands at this moment; asks its store, and refreshes its statistics and next run time."""
        return self._scheduler.job_state(self)

    @property
    def pending(self) -> bool:
        """True while the job waits for its scheduler to start and is in no store yet."""
        return self._jobstore_alias is None

    @property
    def jobstore(self) -> str | None:
        """The alias of the store that has the job; of a pending job, the alias of the store that it is meant for."""
        return self._jobstore_alias or self._waits_for

    def modify(self, **changes: Unpack[JobChanges]) -> Job:
        """Change attributes of the job; all of them or, if one is refused, none."""
        return self._take_over(self._scheduler.modify_job(self.id, self.jobstore, **changes))

    @typed_reschedule
    def reschedule(self, trigger: BaseTrigger | str | None, **trigger_args: Any) -> Job:
        """Give the job another trigger and compute its next run from now."""
        return self._take_over(self._scheduler.reschedule_job(self.id, self.jobstore, trigger, **trigger_args))

    def pause(self) -> Job:
        """Stop firing until :meth:`resume`."""
        return self._take_over(self._scheduler.pause_job(self.id, self.jobstore))

    def resume(self) -> Job:
        """Fire again, from now on. A job whose trigger has ended meanwhile is removed."""
        resumed = self._scheduler.resume_job(self.id, self.jobstore)
        return self if resumed is None else self._take_over(resumed)

    def remove(self) -> None:
        """Remove the job. After that no new run of it starts."""
        self._scheduler.remove_job(self.id, self.jobstore)

    def _take_over(self, stored: Job) -> Job:
        """Make this handle show what the store has now."""
        if stored is not self:
            for name in _COPIED:
                if hasattr(stored, name):
                    setattr(self, name, getattr(stored, name))
                elif hasattr(self, name):
                    delattr(self, name)
        return self

    def _copy_with(self, **changes: Any) -> Job:
        """Return a copy with the changes; raises and leaves no trace if one is refused."""
        copy = Job.__new__(Job)._take_over(self)
        copy._modify(**changes)
        return copy

    def _modify(self, **changes: Any) -> None:
        """Check all changes, then apply them."""
        if "id" in changes:
            raise ValueError("The job ID may not be changed")
        changes = dict(spread(changes))
        approved: dict[str, Any] = {}
        call = None
        if "func" in changes or "args" in changes or "kwargs" in changes:
            unchanged = UnknownTask(self.task) if self.task else self.func
            call = self._checked_call(
                changes.pop("func", unchanged), changes.pop("args", self.args), changes.pop("kwargs", self.kwargs)
            )
        if "name" in changes:
            approved["name"] = check_name(changes.pop("name"))
        if "trigger" in changes:
            approved["trigger"] = _check_trigger(changes.pop("trigger")).for_job(self.id)
        if "next_run_time" in changes:
            approved["next_run_time"] = convert_to_datetime(
                changes.pop("next_run_time"), self._scheduler.timezone, "next_run_time"
            )
        if options := {name: changes.pop(name) for name in list(changes) if name in CHECKS}:
            approved["options"] = parse_options(options, self.options)
        if changes:
            raise AttributeError(f"The following are not modifiable attributes of Job: {', '.join(changes)}")
        if call is not None:
            self._set_call(*call)
        for name, value in approved.items():
            setattr(self, name, value)

    def _checked_call(self, func: Any, args: Any, kwargs: Any) -> tuple[Target, tuple[Any, ...], dict[str, Any]]:
        """Check function and arguments together, because they must fit each other."""
        target = resolve(func, self._scheduler.task_registry)
        if type(args) is not tuple and (isinstance(args, str) or not isinstance(args, Iterable)):
            raise TypeError("args must be a non-string iterable")
        if type(kwargs) is not dict and (isinstance(kwargs, str) or not isinstance(kwargs, Mapping)):
            raise TypeError("kwargs must be a dict-like object")
        args, kwargs = tuple(args), dict(kwargs)
        check_callable_args(target.func, args, kwargs)
        return target, args, kwargs

    def _set_call(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func, self.func_ref, self.task = target
        self.args, self.kwargs = args, kwargs

    @property
    def stored_args(self) -> tuple[Any, ...]:
        """The arguments as they are stored: those of a bound method have its object first, if that is needed."""
        return self.args if self.func_ref is None else _args_with_self(self.func, self.func_ref, self.args)

    def __getstate__(self) -> dict[str, Any]:
        """Return the definition as plain values, with the function as a reference.

        :raises ValueError: if the function cannot be found again by a reference
        """
        if self.func_ref is None:
            raise ValueError(
                f"This Job cannot be serialized since the reference to its callable ({self.func!r}) could not be "
                "determined. Consider giving a textual reference (module:function name) instead."
            )
        state = {name: getattr(self.options, name) for name in OPTION_NAMES}
        state.update(
            version=STATE_VERSION,
            id=self.id,
            func=self.func_ref,
            trigger=self.trigger,
            args=self.args if self.task else _args_with_self(self.func, self.func_ref, self.args),
            kwargs=self.kwargs,
            name=self.name,
            next_run_time=self.next_run_time,
            life=self.stats.as_state(),
        )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state. Whoever loads a job must set ``_scheduler`` and ``_jobstore_alias`` itself."""
        if state.get("version", 1) > STATE_VERSION:
            raise ValueError(
                f"Job has version {state['version']}, but only version {STATE_VERSION} can be handled"
            )
        self._jobstore_alias = self._waits_for = None
        self.suspended = None
        self.stats = JobStats.from_state(state["life"]) if "life" in state else NO_STATS
        self.id = state["id"]
        self.func, self.func_ref, self.task = restore(state["func"])
        self.trigger = state["trigger"]
        self.args = tuple(state["args"])
        self.kwargs = dict(state["kwargs"])
        self.name = state["name"]
        self.next_run_time = state["next_run_time"]
        self.options = parse_options({name: state[name] for name in OPTION_NAMES if name in state})

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Job) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Job (id={self.id} name={self.name})>"

    def __str__(self) -> str:
        return f"{self.name} (trigger: {self.trigger}, {self._status()})"

    def _status(self) -> str:
        if not hasattr(self, "next_run_time"):
            return "pending"
        if self.suspended is not None:
            return f"suspended: {self.suspended}"
        if self.next_run_time is None:
            waits = f"waits for {', '.join(self.trigger.upstream)}" if follows(self) else "paused"
            return waits if self.stats.finished_at is None else "finished"
        return f"next run at: {self.next_run_time.strftime('%Y-%m-%d %H:%M:%S %Z')}"


_T = TypeVar("_T")


def new_id() -> str:
    """Return an id that no other job has, behind those of the jobs made before.

    Jobs that are added together stand together in every database then, whose indexes are in the order of ids.
    """
    return f"{to_micros(SYSTEM_CLOCK.now()):014x}{urandom(9).hex()}"


def _decided(name: str, value: _T) -> _T:
    if value is undefined:
        raise AttributeError(f"{name} was left open; it is filled in when the scheduler starts")
    return value


def copy_with(job: Job, **changes: Any) -> Job:
    """Return a copy of a job with changes; raises and leaves no trace if one is refused."""
    return job._copy_with(**changes)


def take_over(job: Job, stored: Job) -> Job:
    """Make a handle show what another one of the same job has, and return it."""
    return job._take_over(stored)


def mark_pending(job: Job, jobstore: str) -> None:
    """Note for which store a job waits."""
    job._waits_for = jobstore


_COPIED = tuple(name for name in Job.__slots__ if name != "__weakref__")


def _check_trigger(value: object) -> BaseTrigger:
    if not isinstance(value, BaseTrigger):
        raise TypeError(f"Expected a trigger instance, got {type(value).__name__} instead")
    return value


def _args_with_self(func: Callable[..., Any], func_ref: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the object of a bound method first, where the reference leads to the plain function of its class."""
    owner = getattr(func, "__self__", None)
    if owner is None or isinstance(owner, type) or not hasattr(func, "__func__"):
        return args
    return args if func_ref != obj_to_ref(func) else (owner, *args)
