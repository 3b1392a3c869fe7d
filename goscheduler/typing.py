"""The types of the arguments that schedulers take, for type checkers, editors and wrappers of your own.

Import from here under ``if TYPE_CHECKING``; nothing in it is needed when a program runs::

    if TYPE_CHECKING:
        from typing_extensions import Unpack
        from goscheduler.typing import JobArgs

    def nightly(func: Callable[[], object], **options: Unpack[JobArgs]) -> Job:
        return scheduler.add_job(func, "cron", hour=2, **options)

A test compares these with the signatures that they describe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from typing import TypeAlias

    from typing_extensions import Required

    from goscheduler.calendars.base import Calendar
    from goscheduler.calls import Call
    from goscheduler.runs.limits import Limit
    from goscheduler.runs.retry import Retry
    from goscheduler.triggers.base import BaseTrigger

    #: What a job runs: a function, a reference ``module:function``, the name of a task, or a function with arguments.
    Func: TypeAlias = Callable[..., Any] | str | Call[Any]
    IfExists: TypeAlias = Literal["error", "replace", "keep"]
    Args: TypeAlias = Iterable[Any] | None
    Kwargs: TypeAlias = Mapping[str, Any] | None
    Moment: TypeAlias = datetime | date | str
    Zone: TypeAlias = tzinfo | str | None
    Names: TypeAlias = list[str] | tuple[str, ...] | AbstractSet[str]


class OptionArgs(TypedDict, total=False):
    """The options that say how a job is run, as they can be changed as well."""

    executor: str
    misfire_grace_time: float | None
    coalesce: bool
    max_instances: int
    retry: Retry | int | None
    dead_letter: bool | None
    timeout: float | timedelta | None
    priority: int
    overlap: Literal["skip", "queue", "cancel_running", "allow"]
    limits: Limit | Iterable[Limit] | None
    on_crash: Literal["rerun", "fail", "dead"]
    max_crashes: int
    auto_remove: bool
    tags: Names
    description: str
    metadata: Mapping[str, str] | Iterable[tuple[str, str]]


class RestArgs(OptionArgs, total=False):
    """The arguments of ``add_job`` that follow ``name``."""

    next_run_time: Moment | None
    jobstore: str
    replace_existing: bool
    if_exists: IfExists | None
    connection: object


class JobArgs(RestArgs, total=False):
    """The arguments of ``add_job`` beside the function, the trigger and what the trigger takes."""

    args: Args
    kwargs: Kwargs
    id: str | None
    name: str | None


class JobChanges(OptionArgs, total=False):
    """The arguments of ``modify_job``."""

    func: Func
    trigger: BaseTrigger
    args: Iterable[Any]
    kwargs: Mapping[str, Any]
    name: str
    next_run_time: Moment | None


class CalendarArgs(TypedDict, total=False):
    """What may stand beside any trigger."""

    calendar: Calendar | str
    on_closed: Literal["skip", "after", "before"]


class CronArgs(CalendarArgs, total=False):
    """The arguments of the trigger "cron"."""

    year: int | str | None
    month: int | str | None
    day: int | str | None
    week: int | str | None
    day_of_week: int | str | None
    hour: int | str | None
    minute: int | str | None
    second: int | str | None
    start_date: Moment | None
    end_date: Moment | None
    timezone: Zone
    jitter: float | str | None


class IntervalArgs(CalendarArgs, total=False):
    """The arguments of the trigger "interval"."""

    weeks: float | str
    days: float | str
    hours: float | str
    minutes: float | str
    seconds: float | str
    start_date: Moment | None
    end_date: Moment | None
    timezone: Zone
    jitter: float | str | None


class DateArgs(CalendarArgs, total=False):
    """The arguments of the trigger "date"."""

    run_date: Moment | None
    timezone: Zone


class CalendarIntervalArgs(CalendarArgs, total=False):
    """The arguments of the trigger "calendarinterval"."""

    years: int | str
    months: int | str
    weeks: int | str
    days: int | str
    hour: int | str
    minute: int | str
    second: int | str
    start_date: date | str | None
    end_date: date | str | None
    timezone: Zone
    jitter: float | str | None


class RRuleArgs(CalendarArgs, total=False):
    """The arguments of the trigger "rrule"."""

    rule: Required[str]
    dtstart: Moment | None
    timezone: Zone
    rdates: Iterable[Moment]
    exdates: Iterable[Moment]


class CombiningArgs(CalendarArgs, total=False):
    """The arguments of the triggers "and" and "or"."""

    triggers: Required[Iterable[BaseTrigger]]
    jitter: float | str | None
    timezone: Zone


class AfterArgs(TypedDict, total=False):
    """The arguments of the trigger "after"."""

    after: Required[str | Iterable[str]]
    on: Literal["success", "failure", "end"]
    delay: timedelta | float | str | None


class PlainJob(RestArgs, CalendarArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for a trigger that is an object, or a sentence of :func:`every`."""


class CronJob(RestArgs, CronArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "cron"."""


class IntervalJob(RestArgs, IntervalArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "interval"."""


class DateJob(RestArgs, DateArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "date"."""


class CalendarIntervalJob(RestArgs, CalendarIntervalArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "calendarinterval"."""


class RRuleJob(RestArgs, RRuleArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "rrule"."""


class CombiningJob(RestArgs, CombiningArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for "and" and "or"."""


class AfterJob(RestArgs, AfterArgs, total=False):
    """The arguments of ``add_job`` after ``name``, for a job that follows others."""
