"""What a service that watches cron jobs is told about a job: its schedule, zone and time limit. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from goscheduler.job import Job
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

LONGEST_SLUG = 50
#: So many fire times of a crontab line and of the trigger have to agree.
COMPARED = 30
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS = (("week", 10_080), ("day", 1_440), ("hour", 60), ("minute", 1))


def slug_of(job_id: str) -> str:
    """Return the name of a job's monitor: the id, or a readable form of it with a hash."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", job_id.lower()).strip("-")
    if slug == job_id and len(slug) <= LONGEST_SLUG:
        return slug
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:8]
    return f"{slug[: LONGEST_SLUG - 9].strip('-')}-{digest}".lstrip("-")


def monitor_config(job: Job, now: datetime) -> dict[str, Any] | None:
    """Return the configuration of a job's monitor; None if its schedule is not one that Sentry can express."""
    schedule = _schedule(job.trigger, now)
    if schedule is None:
        return None
    config: dict[str, Any] = {"schedule": schedule}
    if schedule["type"] == "crontab":
        config["timezone"] = str(getattr(job.trigger, "timezone", "UTC"))
    if job.timeout is not None:
        config["max_runtime"] = math.ceil(job.timeout / 60)
    if job.retry is not None and job.retry.max_attempts is not None:
        # A failed attempt that is tried again is no issue yet.
        config["failure_issue_threshold"] = job.retry.max_attempts
    return config


def _schedule(trigger: BaseTrigger, now: datetime) -> dict[str, Any] | None:
    if isinstance(trigger, CronTrigger):
        line = _crontab_line(trigger, now)
        return None if line is None else {"type": "crontab", "value": line}
    if isinstance(trigger, IntervalTrigger):
        minutes = trigger.interval.total_seconds() / 60
        units = [("minute", minutes)] if minutes % 60 else [(unit, minutes / of) for unit, of in _UNITS]
    elif isinstance(trigger, CalendarIntervalTrigger):
        units = [(unit, getattr(trigger, f"{unit}s")) for unit in ("year", "month", "week", "day")]
        units = [(unit, count) for unit, count in units if count]
        units = units if len(units) == 1 else []
    else:
        return None
    whole = ((unit, count) for unit, count in units if count >= 1 and count == int(count))
    return next(({"type": "interval", "value": int(count), "unit": unit} for unit, count in whole), None)


def _crontab_line(trigger: CronTrigger, now: datetime) -> str | None:
    """Return the crontab line that fires as the trigger does, or None if there is none."""
    field = {each.name: str(each) for each in trigger.fields}
    if field["second"] != "0":
        return None
    weekdays = re.sub(r"(?<![/\w])[0-6](?!\w)", lambda day: _WEEKDAYS[int(day[0])], field["day_of_week"])
    line = " ".join([field["minute"], field["hour"], field["day"], field["month"], weekdays])
    try:
        read = CronTrigger.from_crontab(line, timezone=trigger.timezone)
    except ValueError:
        return None
    return line if list(_times(read, now)) == list(_times(trigger, now)) else None


def _times(trigger: CronTrigger, now: datetime) -> Iterator[datetime]:
    """Yield fire times without jitter."""
    plain = CronTrigger(**{each.name: str(each) for each in trigger.fields}, timezone=trigger.timezone)
    yield from (plain if trigger.jitter else trigger).preview(COMPARED, after=now)
