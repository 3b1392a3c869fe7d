"""Tasks: functions that jobs find by a name of their own.

A job that names a task stores that name and nothing else, so the function may be moved or renamed: register it under
the same name, or give the old name as an alias. There is one registry for the process, filled by :func:`task`, and one
for each scheduler, filled by its ``register``, which is asked first.

Registries need no lock: each step is one operation on a dictionary, and :attr:`TaskRegistry.edition` is changed last.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from sys import intern
from types import MethodType
from typing import Any, NamedTuple, NoReturn, TypeVar
from weakref import WeakSet

from goscheduler._program import MAIN
from goscheduler._resolver import MissingFunction, Resolver, UnresolvedFunction
from goscheduler.errors import InvalidArgument, shown
from goscheduler.logs import GuardedLogger
from goscheduler.references import obj_to_ref, ref_to_obj

LONGEST_NAME = 255

_LOGGER = GuardedLogger(logging.getLogger("goscheduler.tasks"))
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

_F = TypeVar("_F", bound=Callable[..., Any])


def task(name: str, *, aliases: Iterable[str] = (), pass_job: bool = False) -> Callable[[_F], _F]:
    """Return a decorator that makes a function known to every scheduler of the process, under ``name`` and ``aliases``.

    A name that is registered already leads to the new function from then on. With ``pass_job`` the function gets the
    current run, as ``current_run()`` returns it, in its last parameter.

    :raises InvalidArgument: if a name is empty, too long, not printable, or has a colon in it
    """
    names = check_names(name, aliases)

    def decorate(func: _F) -> _F:
        register(PROCESS_TASKS, names, func, _LOGGER, pass_job)
        return func

    return decorate


def register(
    tasks: TaskRegistry, names: tuple[str, ...], func: Callable[..., Any], logger: GuardedLogger, pass_job: bool = False
) -> None:
    """Put a function into a registry, and say so if it replaces another."""
    before = tasks.put(names, PassJob(func) if pass_job else func)
    if before is not None and _key(before) != _key(func):
        logger.info('Task "%s" was %s and is %s from now on', names[0], shown(before), shown(func))


class PassJob:
    """A function that gets the current run in its last parameter, beside the arguments of its job."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise TypeError(f"a task must be a callable, got {shown(func)}")
        *_, last = inspect.signature(func).parameters.values() or (None,)
        if last is None or last.kind not in (last.POSITIONAL_OR_KEYWORD, last.KEYWORD_ONLY):
            raise TypeError(f"pass_job: the last parameter of {shown(func)} must be one that takes the job by its name")
        self.func = func
        self.parameter = last.name
        """The name under which the function takes the run."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters that are left for the arguments of a job."""
        *others, _ = inspect.signature(self.func).parameters.values()
        return inspect.Signature(others)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs, **{self.parameter: _give_run()})

    def __repr__(self) -> str:
        return repr(self.func)


def pass_runs_from(give_run: Callable[[], object]) -> None:
    """Have ``give_run`` called for the run that a :class:`PassJob` passes on."""
    global _give_run
    _give_run = give_run


def _no_run() -> NoReturn:
    raise RuntimeError("there are no runs before executors are imported")


_give_run: Callable[[], object] = _no_run


class TaskRegistry:
    """Functions by name. One that has a ``parent`` asks it for what it does not have itself."""

    def __init__(self, parent: TaskRegistry | None = None) -> None:
        self.registered_only = False
        """Whether jobs may be of registered tasks only."""
        self.resolver = Resolver()
        """Finds the functions of jobs that go by a reference."""
        self.when_changed: Callable[[], None] = _nobody_cares
        """Called after something was registered here or in the parent, on the thread that did it."""
        self._parent = parent
        self._functions: dict[str, Callable[..., Any]] = {}
        self._names_by_alias: dict[str, str] = {}
        self._names_by_function: dict[object, str] = {}
        self._stamp = object()
        self._children: WeakSet[TaskRegistry] = WeakSet()
        if parent is not None:
            parent._children.add(self)

    @property
    def edition(self) -> tuple[object, ...]:
        """A value that is another one after something was registered, here or in the parent, or can be found now."""
        return (self._stamp, self.resolver.edition, *(self._parent.edition if self._parent is not None else ()))

    def put(self, names: tuple[str, ...], func: Callable[..., Any]) -> Callable[..., Any] | None:
        """Register a function under a name and its aliases, and return the one that had the name before.

        :raises TypeError: if it is no callable, or a generator function
        """
        code = func.func if isinstance(func, PassJob) else func
        if not callable(code):
            raise TypeError(f"a task must be a callable, got {shown(code)}")
        refuse_generator_function(code)
        self.resolver.program.has_code_in(getattr(code, "__module__", None) or MAIN)
        name, *aliases = names
        before = self._functions.get(name)
        self._functions[name] = func
        if before is not None and self._names_by_function.get(_key(before)) == name:
            del self._names_by_function[_key(before)]
        self._names_by_function[_key(func)] = name
        self._names_by_alias.update(dict.fromkeys(aliases, name))
        self._changed()
        return before

    def find(self, name: str) -> Callable[..., Any] | None:
        """Return the function that is registered under a name or an alias now, or None."""
        func = self._functions.get(self._main_name(name))
        return func if func is not None or self._parent is None else self._parent.find(name)

    def names(self) -> tuple[str, ...]:
        """Return all names and aliases under which something is registered."""
        own = {*self._functions, *self._names_by_alias}
        return tuple(sorted(own if self._parent is None else own.union(self._parent.names())))

    def name_of(self, func: Callable[..., Any]) -> str | None:
        """Return the name under which a job finds this very function, or None if it is no task."""
        key = _key(func)
        name = self._names_by_function.get(key)
        if name is None and self._parent is not None:
            name = self._parent._names_by_function.get(key)
        return name if name is not None and _key(self.find(name)) == key else None

    def _main_name(self, name: str) -> str:
        """Return what a name is an alias of. A name that is one in its own right is no alias, whoever came first."""
        if name in self._functions:
            return name
        if name in self._names_by_alias:
            return self._names_by_alias[name]
        return name if self._parent is None else self._parent._main_name(name)

    def _changed(self) -> None:
        self._stamp = object()
        self.when_changed()
        for child in list(self._children):
            child.when_changed()


class UnknownTask:
    """Stands for a function that is not registered here; calling it raises LookupError."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise LookupError(unknown_task(self.name))

    def __repr__(self) -> str:
        return f"<unknown task {self.name!r}>"


class StoredReference(NamedTuple):
    """A reference read from a store, which is followed only into allowed modules."""

    ref: str


def unknown_task(name: str) -> str:
    """Return the reason why a job of an unregistered task cannot be run."""
    return f'no task named "{name}" is registered here'


class Target(NamedTuple):
    """The function of a job, with its reference and task."""

    func: Callable[..., Any]
    func_ref: str | None
    """What is stored in place of the function; None if it cannot be found again by any name."""
    task: str | None
    """The name of its task, if it goes by that."""


def resolve(given: object, tasks: TaskRegistry) -> Target:
    """Return the target for what a user gives: a function, a reference, or the name of a task; or for what was stored.

    The task need not be known here, because a process that only adds jobs need not have the functions. A name with a
    dot must be: that is more likely a reference whose colon was forgotten.
    """
    if isinstance(given, UnknownTask):
        return _task_target(given.name, tasks)
    if isinstance(given, UnresolvedFunction) or (isinstance(given, MissingFunction) and not given.unreadable):
        return Target(given, given.ref, None)
    if isinstance(given, StoredReference):
        return _reference_target(given.ref, tasks.resolver.require(given.ref), tasks)
    if isinstance(given, str) and given and ":" not in given:
        target = _task_target(given, tasks)
        if "." in given and isinstance(target.func, UnknownTask):
            raise InvalidArgument(
                f"Invalid reference {shown(given)}: expected 'module:attribute', or the name of a task, which must be "
                "registered first if it has a dot in it",
                field="func",
                value=given,
            )
        return target
    return _function_target(given, tasks)


def _task_target(name: str, tasks: TaskRegistry) -> Target:
    check_task_name(name, "func")
    func = tasks.find(name)
    return Target(UnknownTask(name) if func is None else func, name, name)


def _function_target(given: object, tasks: TaskRegistry) -> Target:
    func = ref_to_obj(given) if isinstance(given, str) else given
    if not callable(func):
        raise TypeError(f"func must be a callable or a textual reference to one, got {shown(given)}")
    name = None if isinstance(given, str) else tasks.name_of(func)
    if name is not None:
        return _task_target(name, tasks)
    ref = given if isinstance(given, str) else _reference_to(func)
    target = _reference_target(ref, func, tasks)
    if ref is not None:
        tasks.resolver.program.gave(ref)
    return target


def _reference_target(ref: str | None, func: Callable[..., Any], tasks: TaskRegistry) -> Target:
    refuse_generator_function(func)
    if tasks.registered_only:
        given = func if ref is None else ref
        raise InvalidArgument(
            f"func must be a registered task, got {shown(given)}: the scheduler has registered_only=True. Register the "
            'function, with @task("name") or scheduler.register("name", function), and give its name',
            field="func",
            value=given,
        )
    return Target(func, ref, None)


def _reference_to(func: Callable[..., Any]) -> str | None:
    try:
        return intern(obj_to_ref(func))  # one string for all jobs of a function
    except ValueError:
        return None  # good enough for the memory store; others refuse it when it is added


def restore(ref: str) -> Target:
    """Return the target for what was stored.

    Nothing is known here of the scheduler. What was registered with it alone is put in when the job is due.
    """
    target = task_or_reference(ref)
    return _task_target(ref, PROCESS_TASKS) if isinstance(target, UnknownTask) else Target(ref_to_obj(ref), ref, None)


def task_or_reference(ref: str) -> UnknownTask | str:
    """Return what a program has written in such a way that :func:`resolve` takes the name of any task, known or not."""
    return UnknownTask(ref) if isinstance(ref, str) and ref and ":" not in ref else ref


def stored_target(ref: str) -> UnknownTask | StoredReference:
    """Return what somebody else has written in such a way that :func:`resolve` does not believe all of it."""
    return UnknownTask(ref) if ":" not in ref else StoredReference(ref)


def check_names(name: object, aliases: object) -> tuple[str, ...]:
    """Return the name of a task with its aliases behind it, or raise."""
    if callable(name):
        raise TypeError(
            f'a task needs a name under which jobs find it, as in task("name") or register("name"), got {shown(name)}'
        )
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise TypeError(f"aliases must be a collection of names, got {shown(aliases)}")
    return (check_task_name(name), *(check_task_name(alias, "aliases") for alias in aliases))


def check_task_name(name: object, field: str = "name") -> str:
    """Return the name of a task, or raise."""
    if not isinstance(name, str):
        raise TypeError(f"{field}: the name of a task must be a string, got {shown(name)}")
    for wrong, expected in (
        (not name, "must not be empty"),
        (len(name) > LONGEST_NAME, f"must be at most {LONGEST_NAME} characters long"),
        (not name.isprintable(), "must be printable"),
        (":" in name, "must have no colon, which marks a reference module:function"),
    ):
        if wrong:
            raise InvalidArgument(f"{field}: the name of a task {expected}, got {shown(name)}", field=field, value=name)
    return name


def refuse_generator_function(func: object) -> None:
    """Raise TypeError for a function whose call would only make a generator."""
    if getattr(getattr(func, "__code__", None), "co_flags", 0) & _GENERATOR:
        raise TypeError(f"func must not be a generator function, got {shown(func)}: calling it would run nothing")


def _key(func: object) -> object:
    """Return what tells functions apart; a bound method is another object each time that it is asked for."""
    if isinstance(func, PassJob):
        func = func.func
    return func if isinstance(func, MethodType) else id(func)


def _nobody_cares() -> None:
    """Be the default of :attr:`TaskRegistry.when_changed`."""


#: The tasks that every scheduler of the process knows.
PROCESS_TASKS = TaskRegistry()
