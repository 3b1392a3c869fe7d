"""What of a job should have run and did not, as far as trigger and history tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import survivable
from goscheduler.ops.model import Gap
from goscheduler.runs.model import OutcomeKind
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Record
    from goscheduler.schedulers.base import BaseScheduler

#: So many fire times, and so many records, are looked at.
MOST_TIMES = 1500
MOST_RECORDS = 5000
#: So many gaps are told of.
MOST_GAPS = 50
#: The ends of a fire time that was not run.
NOT_RUN = frozenset({OutcomeKind.MISSED, OutcomeKind.SKIPPED})
NO_RECORD = "the history has no record of it"


def gaps_of(scheduler: BaseScheduler, job: Job, since: datetime, until: datetime) -> list[Gap]:
    """Return the fire times between two moments for which nothing ran, newest first.

    A time of which there is no record counts only where records of that time would be kept: after the oldest one that
    there is, and after the job was added. One that waits or goes on is no gap.
    """
    records = scheduler.runs(job.id, job.jobstore, MOST_RECORDS, since=since)
    told = [Gap(record.scheduled_at, _reason(record)) for record in records if record.outcome in NOT_RUN]
    known = {to_micros(record.scheduled_at) for record in records}
    known |= {to_micros(run.scheduled_at) for run in scheduler.live_runs(job.id, job.jobstore)}
    begin = _known_since(job, records, since)
    times = list(_times(job, since, until))
    stood_for = _stood_for(records, times)
    unknown = [
        Gap(time, NO_RECORD)
        for time in times
        if time > begin and to_micros(time) not in known and time not in stood_for
    ]
    inside = [gap for gap in told + unknown if since <= gap.at <= until]
    return sorted(inside, key=lambda gap: gap.at, reverse=True)[:MOST_GAPS]


def _reason(record: Record) -> str:
    more = f" (and {record.fire_times - 1} more times)" if record.fire_times > 1 else ""
    return f"{record.outcome.value}{f': {record.reason}' if record.reason else ''}{more}"


def _known_since(job: Job, records: list[Record], since: datetime) -> datetime:
    """Return the moment behind which a run without a record is one that did not happen."""
    oldest = min((record.scheduled_at for record in records), default=None)
    added = job.created_at
    if oldest is None and added is None:
        return datetime.max.replace(tzinfo=since.tzinfo)
    return max(moment for moment in (oldest if added is None else added, since) if moment is not None)


def _stood_for(records: list[Record], times: list[datetime]) -> set[datetime]:
    """Return the fire times that have no record of their own, because that of a newer one stands for them."""
    found: set[datetime] = set()
    for record in records:
        others = record.coalesced + record.fire_times - 1
        if others:
            place = bisect_left(times, record.scheduled_at)
            found.update(times[max(0, place - others) : place])
    return found


def _times(job: Job, since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield fire times of the job's trigger between two moments, before its next one; none if it cannot tell."""
    following = getattr(job, "next_run_time", None)
    if job.suspended is not None or following is None:
        return
    try:
        yield from job.trigger.between(since, min(until, following), MOST_TIMES)
    except BaseException as error:
        if not survivable(error):
            raise
