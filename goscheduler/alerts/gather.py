"""Gathers what the rules of an alert need to know, and no more, from a scheduler or an observer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.alerts.facts import Facts, JobFacts, RunningFacts
from goscheduler.alerts.rules import quantile
from goscheduler.errors import GoSchedulerError
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import letter_groups, stored_state
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goscheduler.alerts.match import Match
    from goscheduler.job import Job
    from goscheduler.runs.processes import Process
    from goscheduler.schedulers.base import BaseScheduler

#: So many jobs, failing jobs, records and letters are looked at; jobs that are due are counted so far.
MOST_JOBS, MOST_FAILING, MOST_RECORDS, MOST_LETTERS, COUNT_CAP = 1000, 200, 500, 1000, 10_000
#: The records of one failing job.
OF_ONE_JOB = 50
#: A usual duration is told of so many runs.
LEAST_RUNS = 5
#: A lost process is told of for so long. One whose lease was to go on for longer has left in good order.
LOST_FOR, LAPSING = timedelta(minutes=10), timedelta(seconds=5)
MISSED_WITHIN = timedelta(days=1)
FAILED = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST)


def gather(scheduler: BaseScheduler, match: Match, needs: Iterable[str], memory: ProcessMemory) -> Facts:
    """Return what is needed, as of now.

    :raises Exception: whatever a store raises that does not answer
    """
    now = scheduler.clock.now()
    found: dict[str, Any] = {}
    for name in needs:
        found.update(_GATHERERS[name](scheduler, match, now, memory))
    return Facts(now, match.title, **found)


def _jobs(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    if not match.jobs:
        return {"jobs": [_job_facts(job) for job in scheduler.get_jobs(limit=MOST_JOBS, **match.query())]}
    known = {job_id: scheduler.get_job(job_id, match.filters.get("jobstore")) for job_id in match.jobs}
    return {
        "jobs": [_job_facts(job) for job in known.values() if job is not None],
        "absent": [job_id for job_id, job in known.items() if job is None],
    }


def _job_facts(job: Job) -> JobFacts:
    obstacle = ""
    if job.suspended is not None:
        obstacle = f"suspended: {job.suspended}"
    elif stored_state(job) is JobState.PAUSED:
        obstacle = f"paused by {job.stats.paused_by}" if job.stats.paused_by else "paused"
    return JobFacts(job.id, job.trigger, job.last_success, job.created_at, obstacle)


def _failing(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    jobs: list[tuple[str, str | None]] = [(job_id, None) for job_id in match.jobs]
    if not match.jobs:
        for outcome in FAILED:
            fitting = scheduler.find_jobs(limit=MOST_FAILING, **match.query(last_outcome=outcome.value)).jobs
            jobs += [(job.id, job.jobstore) for job in fitting]
    return {"failing": {job_id: scheduler.runs(job_id, store, OF_ONE_JOB) for job_id, store in jobs[:MOST_FAILING]}}


def _records(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    job_id = match.jobs[0] if len(match.jobs) == 1 else None
    records = scheduler.runs(job_id, match.filters.get("jobstore"), MOST_RECORDS, tag=match.filters.get("tag"))
    return {"records": [record for record in records if match.fits(record)]}


def _missed(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    records = scheduler.runs(
        None, match.filters.get("jobstore"), MOST_RECORDS, outcome="missed", since=now - MISSED_WITHIN,
        tag=match.filters.get("tag"),
    )  # fmt: skip
    return {"missed": [record for record in records if match.fits(record)]}


def _running(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    live = [run for run in scheduler.live_runs() if run.started_at is not None]
    ids = set(match.jobs)
    if match.filters and not ids:
        ids = {job.id for job in scheduler.get_jobs(limit=MOST_JOBS, **match.query())}
    meant = [run for run in live if not (match.jobs or match.filters) or run.job_id in ids]
    return {
        "running": [
            RunningFacts(run.job_id, (now - run.started_at).total_seconds(), usual_seconds(scheduler, run.job_id))
            for run in meant[:MOST_FAILING]
            if run.started_at is not None
        ]
    }  # fmt: skip


def usual_seconds(scheduler: BaseScheduler, job_id: str) -> float | None:
    """Return the seconds that 95 of 100 successful runs of a job did not exceed; None if there were too few."""
    records = scheduler.runs(job_id, limit=OF_ONE_JOB, outcome="succeeded")
    seconds = sorted(record.seconds for record in records)
    return quantile(seconds, 0.95) if len(seconds) >= LEAST_RUNS else None


def _due(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    if match.jobs:
        found = [scheduler.get_job(job_id, match.filters.get("jobstore")) for job_id in match.jobs]
        times = [job.next_run_time for job in found if job is not None and job.suspended is None]
        due = [time for time in times if time is not None and time < now]
        return {"due": len(due), "oldest_due": (now - min(due, default=now)).total_seconds()}
    query = match.query(due_before=now)
    number = scheduler.count_jobs(cap=COUNT_CAP, **query).number
    first = scheduler.find_jobs(limit=1, **query).jobs if number else ()
    oldest = [job.next_run_time for job in first[:1] if job.next_run_time is not None]
    return {"due": number, "oldest_due": max(0.0, (now - min(oldest, default=now)).total_seconds())}


def _limits(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    return {"limits": scheduler.limit_usage(match.filters.get("jobstore"))}


def _letters(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    letters = scheduler.dead_letters(
        None, match.filters.get("jobstore"), MOST_LETTERS, tag=match.filters.get("tag")
    )
    return {"letters": letter_groups(letter.record for letter in letters if match.fits(letter.record))}


def _processes(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    states = [None if each.report is None else each.report.state for each in scheduler.processes()]
    engine = scheduler.engine
    alone = not engine.observing and any(not store.shared for store in engine.stores.values())
    states += [engine.state()] if alone else []  # who has a store to itself is in no list
    return {"processes": sum(state in (None, "running", "starting") for state in states)}


def _lost(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    return {"lost": memory.lost(scheduler.processes(), now)}


def _checks(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    return {"checks": scheduler.health().checks}


def _suspended(scheduler: BaseScheduler, match: Match, now: datetime, memory: ProcessMemory) -> dict[str, Any]:
    jobs = scheduler.find_jobs(limit=MOST_FAILING, **match.query(state="suspended")).jobs
    return {"suspended": {job.id: job.suspended or "" for job in jobs if not match.jobs or job.id in match.jobs}}


_GATHERERS: Mapping[str, Callable[[BaseScheduler, Match, datetime, ProcessMemory], dict[str, Any]]] = {
    "jobs": _jobs, "failing": _failing, "records": _records, "missed": _missed, "running": _running, "due": _due,
    "limits": _limits, "letters": _letters, "processes": _processes, "lost": _lost, "checks": _checks,
    "suspended": _suspended,
}  # fmt: skip


class ProcessMemory:
    """The processes that were alive when somebody looked last: one that has lapsed since then is lost."""

    def __init__(self, text: str | None = None) -> None:
        self._known = _read_memory(text)

    @property
    def text(self) -> str:
        """What is remembered, as a note keeps it."""
        return json.dumps(self._known, separators=(",", ":"))

    def lost(self, living: Sequence[Process], now: datetime) -> list[str]:
        """Return the processes that were lost in the last minutes, and remember those that live."""
        alive = {each.owner: each for each in living if each.expires_at is not None}
        gone = {owner: known for owner, known in self._known.items() if owner not in alive}
        lost = {owner: known for owner, known in gone.items() if _was_lost(from_micros(known[1], UTC), now)}
        self._known = {
            **{owner: (f"{each.host}:{each.pid}", to_micros(each.expires_at or now)) for owner, each in alive.items()},
            **lost,
        }  # fmt: skip
        return [name for name, _ in lost.values()]


def _was_lost(expired_at: datetime, now: datetime) -> bool:
    return now - LOST_FOR < expired_at <= now + LAPSING


def _read_memory(text: str | None) -> dict[str, tuple[str, int]]:
    try:
        told = {} if text is None else json.loads(text)
        return {str(owner): (str(name), int(expires)) for owner, (name, expires) in told.items()}
    except (ValueError, TypeError, AttributeError, GoSchedulerError):
        return {}
