"""The methods of schedulers that take a trigger, as type checkers and editors see them.

A name of a trigger decides which other arguments there are: after "cron" an editor offers ``hour``, and a type checker
refuses ``hours``. So each of these methods has an overload for each built-in trigger. They stand here and not in the
façade, which they would bury, and they are written once for both forms of a method: ``scheduler.add_job`` returns a
job, ``scheduler.aio.add_job`` something to await.

A trigger of a plug-in is given as an instance, or its options by ``**mapping``: its names are not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goscheduler.job import Job
    from goscheduler.triggers.base import BaseTrigger
    from goscheduler.typing import (
        AfterArgs,
        AfterJob,
        Args,
        CalendarArgs,
        CalendarIntervalArgs,
        CalendarIntervalJob,
        CombiningArgs,
        CombiningJob,
        CronArgs,
        CronJob,
        DateArgs,
        DateJob,
        Func,
        IntervalArgs,
        IntervalJob,
        JobChanges,
        Kwargs,
        PlainJob,
        RRuleArgs,
        RRuleJob,
    )

_R_co = TypeVar("_R_co", covariant=True)
_F = TypeVar("_F", bound=Callable[..., Any])


class AddJob(Protocol[_R_co]):
    """Adds a job."""

    @overload
    def __call__(
        self, func: Func, trigger: Literal["cron"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[CronJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["interval"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[IntervalJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["date"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[DateJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["calendarinterval"], args: Args = ..., kwargs: Kwargs = ...,
        id: str | None = ..., name: str | None = ..., **options: Unpack[CalendarIntervalJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["rrule"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[RRuleJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["and", "or"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[CombiningJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: Literal["after"] | None = ..., args: Args = ..., kwargs: Kwargs = ...,
        id: str | None = ..., name: str | None = ..., **options: Unpack[AfterJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: None = ..., args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[DateJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: BaseTrigger | str, args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[PlainJob],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, func: Func, trigger: BaseTrigger | str | None, args: Args, kwargs: Kwargs, id: str | None,
        name: str | None, /, *more: Any, **options: Any,
    ) -> _R_co: ...  # fmt: skip


class ScheduledJob(Protocol):
    """Returns a decorator that adds the function as a job."""

    @overload
    def __call__(
        self, trigger: Literal["cron"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[CronJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["interval"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[IntervalJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["date"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[DateJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["calendarinterval"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[CalendarIntervalJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["rrule"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[RRuleJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["and", "or"], args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[CombiningJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: Literal["after"] | None = ..., args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[AfterJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: BaseTrigger | str, args: Args = ..., kwargs: Kwargs = ..., id: str | None = ...,
        name: str | None = ..., **options: Unpack[PlainJob],
    ) -> Callable[[_F], _F]: ...  # fmt: skip

    @overload
    def __call__(
        self, trigger: BaseTrigger | str, args: Args, kwargs: Kwargs, id: str | None, name: str | None, /, *more: Any,
        **options: Any,
    ) -> Callable[[_F], _F]: ...  # fmt: skip


class RescheduleJob(Protocol[_R_co]):
    """Gives a job, named by its id, another trigger."""

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["cron"], **trigger_args: Unpack[CronArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["interval"],
        **trigger_args: Unpack[IntervalArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["date"], **trigger_args: Unpack[DateArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["calendarinterval"],
        **trigger_args: Unpack[CalendarIntervalArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["rrule"], **trigger_args: Unpack[RRuleArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["and", "or"],
        **trigger_args: Unpack[CombiningArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., *, trigger: Literal["after"] | None = ...,
        **trigger_args: Unpack[AfterArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None = ..., trigger: BaseTrigger | str | None = ...,
        **trigger_args: Unpack[CalendarArgs],
    ) -> _R_co: ...  # fmt: skip

    @overload
    def __call__(
        self, job_id: str, jobstore: str | None, trigger: BaseTrigger | str | None, /, **trigger_args: Any,
    ) -> _R_co: ...  # fmt: skip


class Reschedule(Protocol):
    """Gives a job another trigger."""

    @overload
    def __call__(self, trigger: Literal["cron"], **trigger_args: Unpack[CronArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["interval"], **trigger_args: Unpack[IntervalArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["date"], **trigger_args: Unpack[DateArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["calendarinterval"], **trigger_args: Unpack[CalendarIntervalArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["rrule"], **trigger_args: Unpack[RRuleArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["and", "or"], **trigger_args: Unpack[CombiningArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: Literal["after"] | None, **trigger_args: Unpack[AfterArgs]) -> Job: ...

    @overload
    def __call__(self, trigger: BaseTrigger | str | None, **trigger_args: Unpack[CalendarArgs]) -> Job: ...


class ModifyJob(Protocol[_R_co]):
    """Changes attributes of a job."""

    def __call__(self, job_id: str, jobstore: str | None = ..., **changes: Unpack[JobChanges]) -> _R_co: ...


def typed_add_job(method: Callable[..., Job]) -> AddJob[Job]:
    """Return a method as it is, under the type that it has for callers; so do the following."""
    return cast("AddJob[Job]", method)


def typed_scheduled_job(method: Callable[..., Callable[[_F], _F]]) -> ScheduledJob:
    return cast("ScheduledJob", method)


def typed_reschedule_job(method: Callable[..., Job]) -> RescheduleJob[Job]:
    return cast("RescheduleJob[Job]", method)


def typed_reschedule(method: Callable[..., Job]) -> Reschedule:
    return cast("Reschedule", method)


def typed_modify_job(method: Callable[..., Job]) -> ModifyJob[Job]:
    return cast("ModifyJob[Job]", method)
