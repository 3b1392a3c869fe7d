"""What is different once in a schedule: a run that is left out, a run that is later. The trigger stays as it is, so the
job is back on its schedule by itself."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from goscheduler.errors import InvalidArgument, NeverFires, shown
from goscheduler.job import copy_with
from goscheduler.times import convert_to_datetime, datetime_utc_add, parse_duration, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job


def without_next(job: Job, now: datetime) -> Job:
    """Return a job that leaves out its next run."""
    left_out = _next_of(job)
    following = job.trigger.get_next_fire_time(left_out, max(now, left_out, key=to_micros))
    if following is None:
        message = f"job {shown(job.id)} has no run after the next one, at {left_out}; pause or remove it"
        raise NeverFires(message, field="job_id", value=job.id)
    return _at(job, following)


def put_off(job: Job, until: datetime) -> Job:
    """Return a job whose next run is at ``until``."""
    due = _next_of(job)
    if to_micros(until) <= to_micros(due):
        message = f"until must be after the next run time {due}, got {until}"
        raise InvalidArgument(message, field="until", value=until)
    closed = job.trigger.closed(until)
    if closed:
        message = f"until must be while the calendar of the job is open, got {until}: {closed}"
        raise InvalidArgument(message, field="until", value=until)
    return _at(job, until.astimezone(due.tzinfo))


def moment_ahead(
    until: datetime | timedelta | str, now: datetime, zone: tzinfo, field: str = "until"
) -> datetime:  # fmt: skip
    """Return the moment that is meant: one with or without a zone, or a length of time from now."""
    if isinstance(until, timedelta):
        return datetime_utc_add(now, until)
    if isinstance(until, str):
        try:
            return datetime_utc_add(now, parse_duration(until))
        except (InvalidArgument, OverflowError):
            pass  # no length of time, so it is to be a date and time
    moment = convert_to_datetime(until, zone, field)
    if moment is None:
        raise InvalidArgument(f"{field} must be a date and time, or a length of time, got None", field=field)
    return moment


def _next_of(job: Job) -> datetime:
    time: datetime | None = getattr(job, "next_run_time", None)
    if time is None:
        raise InvalidArgument(f"job {shown(job.id)} has no next run: it is paused, or at its end", field="job_id")
    return time


def _at(job: Job, time: datetime) -> Job:
    edited = copy_with(job)
    edited.next_run_time = time
    return edited
