"""The schedules that a program declares."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.errors import DuplicateSchedule, InvalidArgument, ScheduleLookupError, shown
from goscheduler.periodic._schedule import Schedule, check_word
from goscheduler.tasks import PROCESS_TASKS, refuse_generator_function
from goscheduler.times import convert_to_datetime

if TYPE_CHECKING:
    from goscheduler.periodic.dispatch import Dispatcher

_F = TypeVar("_F", bound=Callable[..., Any])


class ScheduleRegistry:
    """Schedules by id, in the order of their registration. Any thread may use it.

    ``name`` tells the jobs of one registry from those of others in the same store. ``dispatch`` says what a firing
    does; without it the task is called by the scheduler.
    """

    def __init__(
        self, name: str = "default", *, dispatch: Dispatcher | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = check_word("name", name)
        self.dispatch = dispatch
        self._clock = clock
        self._schedules: dict[str, Schedule] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def register(self, schedule: Schedule) -> Schedule:
        """Add a schedule, and return it.

        :raises DuplicateSchedule: if there is one by this id
        """
        return self._put(schedule, None)

    def every(
        self,
        cron: str,
        *,
        id: str | None = None,
        job: str | None = None,
        payload: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        priority: str | int = "normal",
        enabled: bool = True,
        description: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[_F], _F]:
        """Return a decorator that registers a schedule for a function, which stays as it is.

        ``id`` is the name of the function if it is not given; ``job`` the name that the function has as a task here, in
        Celery or in Dramatiq, or else its module and name; ``description`` the first line of its docstring.
        """

        def decorate(func: _F) -> _F:
            refuse_generator_function(func)
            name = job or _name_as_task(func)
            text = _first_line(func) if description is None else description
            schedule = Schedule(
                id or _plain_name(func), cron, name, payload or {}, timezone, priority, enabled, text, options or {}
            )
            self._put(schedule, func)
            return func

        return decorate

    def unregister(self, schedule_id: str) -> Schedule:
        """Take a schedule out, and return it. Its job stays until the next sync.

        :raises ScheduleLookupError: if there is none
        """
        with self._lock:
            schedule = self._schedules.pop(schedule_id, None)
        if schedule is None:
            raise ScheduleLookupError(schedule_id)
        return schedule

    def get(self, schedule_id: str) -> Schedule | None:
        """Return a schedule, or None."""
        with self._lock:
            return self._schedules.get(schedule_id)

    def list(self) -> builtins.list[Schedule]:
        """Return all schedules, in the order in which they were registered."""
        with self._lock:
            return list(self._schedules.values())

    def next_run(self, schedule_id: str, after: datetime | str | None = None) -> datetime | None:
        """Return the first fire time of a schedule after a moment, by default now, whether it is enabled or not.

        A moment without a zone is meant in the zone of the schedule.

        :raises ScheduleLookupError: if there is no such schedule
        """
        schedule = self.get(schedule_id)
        if schedule is None:
            raise ScheduleLookupError(schedule_id)
        moment = convert_to_datetime(after, schedule.timezone, "after")
        return schedule.next_run(self._clock.now() if moment is None else moment)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that :meth:`every` was given, by the names under which they are called."""
        with self._lock:
            return dict(self._functions)

    def _put(self, schedule: Schedule, func: Callable[..., Any] | None) -> Schedule:
        if not isinstance(schedule, Schedule):
            raise TypeError(f"expected a Schedule, got {shown(schedule)}")
        with self._lock:
            if schedule.id in self._schedules:
                raise DuplicateSchedule(schedule.id)
            if func is not None:
                self._remember(schedule.job, func)
            self._schedules[schedule.id] = schedule
        return schedule

    def _remember(self, name: str, func: Callable[..., Any]) -> None:
        if self._functions.get(name, func) is not func:
            raise InvalidArgument(
                f"job must be given, because another function goes by {shown(name)} already", field="job", value=name
            )
        self._functions[name] = func

    def __len__(self) -> int:
        return len(self._schedules)

    def __iter__(self) -> Iterator[Schedule]:
        return iter(self.list())

    def __contains__(self, schedule_id: object) -> bool:
        return schedule_id in self._schedules

    def __repr__(self) -> str:
        return f"<ScheduleRegistry ({self.name!r}, {len(self)} schedules)>"


def _plain_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, also of the Celery task or Dramatiq actor that was made of one."""
    for found in (func, getattr(func, "fn", None), getattr(func, "run", None)):
        name = getattr(found, "__name__", None)
        if isinstance(name, str):
            return name
    raise TypeError(f"id and job must be given for {shown(func)}, which has no name")


def _name_as_task(func: Callable[..., Any]) -> str:
    names = (PROCESS_TASKS.name_of(func), getattr(func, "actor_name", None), getattr(func, "name", None))
    for name in names:
        if isinstance(name, str):
            return name
    return f"{func.__module__}.{getattr(func, '__qualname__', _plain_name(func))}"


def _first_line(func: Callable[..., Any]) -> str:
    return (func.__doc__ or "").strip().partition("\n")[0]
