"""The methods of a scheduler that are about when jobs fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from goscheduler.calendars.base import Calendar
from goscheduler.config import parse_settings
from goscheduler.errors import InvalidArgument, shown
from goscheduler.job import Job, new_id
from goscheduler.runs.backfill import Backfill, BackfillProgress
from goscheduler.runs.blackouts import Blackout
from goscheduler.schedulers._backfill import Backfills, job_of, moment_of
from goscheduler.schedulers._blackouts import checked
from goscheduler.schedulers._chains import chained, shorten
from goscheduler.schedulers._ics import ImportedEvent, plan_import
from goscheduler.schedulers._list_methods import ListMethods
from goscheduler.schedulers._once import moment_ahead, put_off, without_next
from goscheduler.times import astimezone
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendar import zone_of

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
        trigger and of :meth:`add_job`; options that say how a job runs are for all steps. A chain that replaces a
        longer one removes its further steps.
        """
        chain_id = new_id() if id is None else id
        jobs = self.add_jobs(chained(steps, trigger, chain_id, delay, options))
        if options.get("replace_existing") or options.get("if_exists") == "replace":
            shorten(self.engine, chain_id, [job.id for job in jobs], options.get("jobstore", "default"))
        return jobs

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

    def backfill(
        self,
        job_id: str,
        start: datetime | timedelta | str,
        end: datetime | timedelta | str,
        reprocess: str = "missing",
        at_once: int = 1,
        newest_first: bool = False,
        dry_run: bool = False,
        jobstore: str | None = None,
    ) -> Backfill:
        """Run a job for its fire times of the past, from ``start`` on and before ``end``. A length of time means that
        long ago; the job sees the old time in ``current_run().scheduled_at``.

        ``reprocess`` says which: those that were not run ("missing"), also those whose last attempt did not go well
        ("failed"), or "all". Called again with the same arguments while it is under way, it goes on: each time is run
        once. With ``dry_run`` nothing is asked for.

        :raises JobLookupError: if there is no such job
        :raises InvalidArgument: if the job follows others, there are more than 1,000 fire times, or an argument makes
            no sense
        """
        job = job_of(self.engine.jobs.find(job_id, jobstore), job_id)
        if job.trigger.upstream:
            text = f"job_id: the job {shown(job_id)} follows others; a job that follows others has no fire times"
            raise InvalidArgument(text, field="job_id", value=job_id)
        now, zone = self.clock.now(), zone_of(job.trigger) or self.timezone
        first, last = moment_of("start", start, now, zone), moment_of("end", end, now, zone)
        return self._backfills.start(job, first, last, reprocess, at_once, newest_first, dry_run)

    def cancel_backfill(self, backfill_id: str) -> int:
        """Call off the runs of a backfill that wait, and return how many there were. Those that go on do so.

        :raises RunLookupError: if there is no such backfill
        """
        return self._backfills.cancel(backfill_id)

    def backfills(self, job_id: str | None = None, jobstore: str | None = None) -> list[BackfillProgress]:
        """Return how far backfills have come, newest first."""
        return self._backfills.all(jobstore, job_id)

    def add_blackout(
        self,
        start: datetime | timedelta | str | None,
        end: datetime | timedelta | str,
        tag: str | None = None,
        job_id: str | None = None,
        action: str = "hold",
        reason: str = "",
        jobstore: str | None = None,
    ) -> Blackout:
        """Hold jobs back, or leave their fire times out, from ``start`` (None: now) to ``end``. A length of time means
        that long from now.

        With "hold" a job that is due meanwhile fires once at the end, with "skip" it is recorded as skipped. It is
        about the jobs with ``tag``, about one job, or about all; every process that shares the stores goes by it.

        :raises InvalidArgument: for arguments that make no sense
        """
        now = self.clock.now()
        first = now if start is None else moment_ahead(start, now, self.timezone, "start")
        last = moment_ahead(end, now, self.timezone, "end")
        blackout = checked(first, last, now, tag, job_id, action, reason)
        add = partial(self.engine.blackouts.add, blackout, jobstore)
        if not self.engine.jobs.defer(jobstore or "default", add):
            add()
        return blackout

    def remove_blackout(self, blackout_id: str) -> None:
        """End a blackout, or call one off that is to come. Jobs that it has put off to its end fire now, if their
        history tells so. Runs of jobs with ``coalesce=False`` that wait already for its end do so.

        :raises InvalidArgument: if there is none by this id
        """
        self.engine.blackouts.remove(blackout_id)

    def blackouts(self, jobstore: str | None = None) -> list[Blackout]:
        """Return the blackouts to come, in force, and of the last 30 days; those that end last first."""
        return self.engine.blackouts.all(jobstore)

    def import_ics(
        self,
        /,
        source: str | bytes,
        task: str,
        *,
        timezone: tzinfo | str | None = None,
        dry_run: bool = False,
        **options: Any,
    ) -> list[ImportedEvent]:
        """Add the events of a calendar file, given as its content, as jobs of a task; return what becomes of each.

        All of them are added, or none. The id of a job is the UID of its event, its name the summary; what an event
        lasts, in seconds, is in its metadata. Events that are over or cancelled are left out. ``options`` are those of
        :meth:`add_job`, and go for all. Times without a zone are in ``timezone``, by default that of the scheduler.

        :raises InvalidArgument: naming every line that cannot be understood
        :raises ConflictingIdError: if there is a job by the id of an event
        """
        from goscheduler.triggers.ics import read_ics  # few programs need it

        zone = self.timezone if timezone is None else astimezone(timezone)
        told, jobs = plan_import(read_ics(source, zone), task, self.clock.now(), options)
        if not dry_run:
            self.add_jobs(jobs)
        return told

    @property
    def _backfills(self) -> Backfills:
        return Backfills(self.engine, self._runs, self._wake_unless_paused)
