"""What users put around each run: functions that return a context manager for the run that is about to begin.

The context manager is entered where the function of the job is called, by the code that calls it, so that it gets the
exception of the job with its frames. It can raise another one in its place. It cannot make a success of a failure: what
``__exit__`` returns does not count, or ``contextlib.suppress`` would turn a job that failed into one that succeeded
with the result None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.executors.around import Around, End
from goscheduler.executors.context import CurrentRun
from goscheduler.references import get_callable_name, obj_to_ref, ref_to_obj

if TYPE_CHECKING:
    from goscheduler.executors.base import BaseExecutor
    from goscheduler.runs.model import Outcome, Run

MakeManager = Callable[[CurrentRun], Any]


class Enclosure:
    """A function of the user's as an :class:`~goscheduler.executors.around.Around`."""

    def __init__(self, given: MakeManager | str) -> None:
        """Check what was given.

        :raises InvalidArgument: if it cannot be called with a run, or cannot return a context manager
        :raises LookupError: if it is a reference that leads nowhere
        """
        self.given = given
        self.make: MakeManager = ref_to_obj(given) if isinstance(given, str) else given
        _check(self.make, given)
        self.ref, self.no_ref = _reference(given)
        self.name = self.ref or get_callable_name(self.make)

    def begin(self, run: Run, started_at: datetime) -> End:
        return _nothing_to_end

    def for_child(self, run: Run) -> Around | None:
        return self

    def enclose(self, run: CurrentRun) -> Layer:
        return Layer(self, run)

    def __reduce__(self) -> tuple[Any, ...]:
        return Enclosure, (self.ref,)


class Layer:
    """One context manager around one run. It is made inside of those that are further out."""

    __slots__ = ("_enclosure", "_is_async", "_manager", "_run")

    def __init__(self, enclosure: Enclosure, run: CurrentRun) -> None:
        self._enclosure, self._run = enclosure, run

    def __enter__(self) -> None:
        self._manager = manager = self._enclosure.make(self._run)
        if not _has(manager, "__enter__", "__exit__"):
            raise TypeError(_why_not(self._enclosure.name, manager))
        type(manager).__enter__(manager)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        type(self._manager).__exit__(self._manager, kind, error, frames)

    async def __aenter__(self) -> None:
        self._manager = manager = self._enclosure.make(self._run)
        self._is_async = _has(manager, "__aenter__", "__aexit__")
        if self._is_async:
            await type(manager).__aenter__(manager)
        elif _has(manager, "__enter__", "__exit__"):
            type(manager).__enter__(manager)
        else:
            raise TypeError(_why_not(self._enclosure.name, manager))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if self._is_async:
            await type(self._manager).__aexit__(self._manager, kind, error, frames)
        else:
            type(self._manager).__exit__(self._manager, kind, error, frames)


def read_enclosures(value: object) -> tuple[Enclosure, ...]:
    """Return what ``around`` asks for: functions and references in a list, or references in a text with commas."""
    if isinstance(value, str):
        given: Iterable[Any] = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, Iterable) and not isinstance(value, (Mapping, bytes)):
        given = value
    else:
        raise InvalidArgument(
            f"around must be a list of functions or of references such as 'myapp.tracing:span', got {shown(value)}",
            field="around",
            value=value,
        )
    return tuple(Enclosure(each) for each in given)


def refuse_unnamed(arounds: Iterable[Around], executors: Mapping[str, BaseExecutor]) -> None:
    """Raise if something without a name is to enclose runs of an executor that runs them in other processes."""
    unnamed = [each for each in arounds if isinstance(each, Enclosure) and each.ref is None]
    remote = [alias for alias, executor in executors.items() if executor.in_other_processes]
    if unnamed and remote:
        first = unnamed[0]
        raise InvalidArgument(
            f'around: {first.name} cannot go to other processes, in which executor "{remote[0]}" runs jobs: '
            f"{first.no_ref}. Define it at the top of a module, or give a reference such as 'myapp.tracing:span'",
            field="around",
            value=first.given,
        )


def _check(make: object, given: object) -> None:
    name = shown(given)
    if _has(make, "__enter__") or _has(make, "__aenter__"):
        problem = f"{name} is a context manager; give the function that returns one, so that each run has its own"
    elif not callable(make):
        problem = f"{name} cannot be called; expected a function that takes the run and returns a context manager"
    elif inspect.iscoroutinefunction(make) or inspect.isasyncgenfunction(make):
        problem = f"{name} must return an async context manager; decorate it with contextlib.asynccontextmanager"
    elif inspect.isgeneratorfunction(make):
        problem = f"{name} must return a context manager; decorate it with contextlib.contextmanager"
    else:
        problem = _problem_with_call(make, name)
    if problem:
        raise InvalidArgument(f"around: {problem}", field="around", value=given)


def _problem_with_call(make: Callable[..., Any], name: str) -> str:
    try:
        inspect.signature(make).bind(None)
    except ValueError:  # it does not tell its signature
        return ""
    except TypeError as error:
        return f"{name} is called with one argument, the current run: {error}"
    return ""


def _reference(given: MakeManager | str) -> tuple[str | None, str]:
    """Return the reference under which other processes find a function, or why there is none."""
    if isinstance(given, str):
        return given, ""
    try:
        return obj_to_ref(given), ""
    except ValueError as error:
        return None, str(error)


def _has(value: object, *methods: str) -> bool:
    return all(hasattr(type(value), method) for method in methods)


def _why_not(name: str, returned: object) -> str:
    if inspect.iscoroutine(returned):
        returned.close()
    if _has(returned, "__aenter__"):
        return (
            f"around: {name} returned an async context manager, and the job is not a coroutine function on an event "
            "loop; return one that has __enter__ and __exit__ too"
        )
    return f"around: {name} must return a context manager, got {shown(returned)}"


def _nothing_to_end(outcome: Outcome) -> None:
    """The context manager is left where the function was called."""
