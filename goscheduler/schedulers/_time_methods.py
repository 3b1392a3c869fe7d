"""The methods of a scheduler that are about when jobs fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from goscheduler.calendars.base import Calendar
from goscheduler.config import parse_settings
from goscheduler.job import Job, new_id
from goscheduler.schedulers._chains import chained
from goscheduler.schedulers._list_methods import ListMethods
from goscheduler.schedulers._once import moment_ahead, put_off, without_next
from goscheduler.triggers.base import BaseTrigger

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goscheduler._typed import ScheduledJob
    from goscheduler.typing import JobArgs

_F = TypeVar("_F", bound=Callable[..., Any])


class TimeMethods(ListMethods):
    """Says when jobs fire: in words, by calendars, and once not as the schedule says."""

    if TYPE_CHECKING:
        scheduled_job: ScheduledJob

        def add_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[Job]: ...

    @property
    def lease(self) -> float:
        """For how long, in seconds, a shared store takes this scheduler for alive after it was heard of last."""
        return self.engine.leases.length

    @property
    def poll_interval(self) -> float:
        """The longest rest, in seconds, before the stores are asked for work that nobody has told of."""
        return self.engine.poll_interval

    @poll_interval.setter
    def poll_interval(self, seconds: float) -> None:
        self.engine.poll_interval = parse_settings({"poll_interval": seconds}).poll_interval

    def every(
        self,
        what: str | float | timedelta,
        *,
        on: str | int | Iterable[str] | None = None,
        at: str | time | Iterable[str | time] | None = None,
        start_date: datetime | date | str | None = None,
        end_date: datetime | date | str | None = None,
        timezone: tzinfo | str | None = None,
        jitter: float | str | None = None,
        **options: Unpack[JobArgs],
    ) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job: ``@scheduler.every("mon-fri", at="09:00", id="mail")``.

        The schedule is that of :func:`goscheduler.every`; ``options`` are those of :meth:`scheduled_job`.
        """
        from goscheduler.triggers.every import every  # few programs need it

        zone = self.timezone if timezone is None else timezone
        trigger = every(what, on=on, at=at, start_date=start_date, end_date=end_date, timezone=zone, jitter=jitter)
        return self.scheduled_job(trigger, **options)

    def chain(
        self,
        /,
        steps: Iterable[Callable[..., Any] | str | Mapping[str, Any]],
        trigger: BaseTrigger | str | None = None,
        *,
        id: str | None = None,
        delay: timedelta | float | str | None = None,
        **options: Any,
    ) -> list[Job]:
        """Add a job for each step, all of them or none: the first fires by the trigger, each other one ``delay`` after
        the one before has succeeded. The ids are ``id``, ``id.2``, ``id.3`` and so on.

        A step is a function, or a mapping with arguments of :meth:`add_job` of its own. ``options`` are those of the
        trigger and of :meth:`add_job`; options that say how a job runs are for all steps.
        """
        return self.add_jobs(chained(steps, trigger, new_id() if id is None else id, delay, options))

    def add_calendar(self, name: str, calendar: object) -> None:
        """Make a calendar known by a name, in place of any other. Triggers refer to it with ``Named(name)``, or with
        ``calendar=name``; what they leave out changes with it.

        It goes into the stores, where other processes find it, before :meth:`start` with the start. In one process, all
        schedulers have the same calendars. An object of another library that has ``is_session(day)`` or
        ``is_working_day(day)`` will do; it is not stored, and every process adds it by itself.

        :raises InvalidArgument: if it is no calendar, or refers to itself
        """
        write = partial(self.engine.calendars.write, name, self.engine.calendars.add(name, calendar))
        if not self.engine.jobs.defer("default", write):
            write()

    def remove_calendar(self, name: str) -> None:
        """Forget a calendar, here and in the stores. Jobs that refer to it are suspended when they come due."""
        self.engine.calendars.remove(name)

    def calendars(self) -> dict[str, Calendar]:
        """Return the calendars that are known by a name, those in the stores among them."""
        return self.engine.calendars.all()

    def skip_next(self, job_id: str, jobstore: str | None = None) -> Job:
        """Leave out the next run of a job; the one after it is as the schedule says.

        :raises JobLookupError: if there is no such job
        :raises InvalidArgument: if it is paused
        :raises NeverFires: if there is no run after the next one
        """
        return self.engine.jobs.edit(job_id, jobstore, partial(without_next, now=self.clock.now()))

    def postpone(self, job_id: str, until: datetime | timedelta | str, jobstore: str | None = None) -> Job:
        """Put off the next run of a job, once: it is at ``until``, or after this length of time from now. Fire times
        up to then are left out, and those that follow are as the schedule says.

        :raises JobLookupError: if there is no such job
        :raises InvalidArgument: if it is paused, or ``until`` is no moment after its next run time
        """
        moment = moment_ahead(until, self.clock.now(), self.timezone)
        return self.engine.jobs.edit(job_id, jobstore, partial(put_off, until=moment))
