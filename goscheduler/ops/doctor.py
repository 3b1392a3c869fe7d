"""The doctor: looks for what will keep jobs from running, before it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.ops.access import Role
from goscheduler.ops.model_around import Finding
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.runs.health import MOST_NAMES, SKEW, clock_trouble, named
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import JobQuery, next_time

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.processes import Process

OK, WARNING, PROBLEM, UNKNOWN = "ok", "warning", "problem", "unknown"
VERDICTS = (OK, WARNING, PROBLEM, UNKNOWN)
#: So many jobs are looked at.
MOST_JOBS = 10_000
PAGE = 1000
COUNT_CAP = 10_000


class Patient(NamedTuple):
    """A store, and what was found out about it."""

    alias: str
    store: BaseJobStore
    jobs: list[Job]
    """The first jobs that wait to be fired."""
    processes: list[Process]
    now: datetime


@operation(Role.VIEWER, whole=True)
def doctor(call: Call, jobstore: Store = None) -> list[Finding]:
    """Look for what keeps jobs from running, or will: unknown tasks, missing executors, clocks, unsafe settings."""
    findings: list[Finding] = []
    for alias, store in call.stores(jobstore):
        living = [process for process in call.scheduler.processes() if process.jobstore == alias]
        patient = Patient(alias, store, _jobs(store), living, call.now)
        for check in CHECKS:
            findings += [
                Finding(check.__name__.removeprefix("_check_"), verdict, message, alias)
                for verdict, message in check(patient)
            ]
    return findings


def _jobs(store: BaseJobStore) -> list[Job]:
    """Return the first jobs that wait to be fired."""
    query = JobQuery(limit=PAGE)
    found: list[Job] = []
    while len(found) < MOST_JOBS:
        page = store.find_jobs(query)
        found += [job for job in page.jobs if next_time(job) is not None]
        if page.next is None:
            break
        query = query._replace(after=page.next)
    return found


def _check_processes(patient: Patient) -> Iterator[tuple[str, str]]:
    if not patient.store.shared:
        yield UNKNOWN, "the store serves one process, which cannot be seen from outside"
    elif patient.processes and all(each.report and each.report.state == "paused" for each in patient.processes):
        yield PROBLEM, f"{len(patient.processes)} alive, and all of them are paused"
    elif patient.processes:
        hosts = sorted({process.host for process in patient.processes})
        yield OK, f"{len(patient.processes)} alive, on {named(hosts)}"
    elif patient.jobs:
        yield PROBLEM, "no process fires the jobs of this store"
    else:
        yield OK, "none, and nothing is to be fired"


def _check_tasks(patient: Patient) -> Iterator[tuple[str, str]]:
    wanted = {job.task for job in patient.jobs if job.task is not None}
    if not patient.processes:
        yield UNKNOWN, "no process tells which tasks it knows"
        return
    missing = sorted(wanted.difference(*(process.tasks for process in patient.processes)))
    if missing:
        yield PROBLEM, f"no process knows {named(missing)}, which jobs are to run"
    else:
        yield OK, f"all {len(wanted)} tasks of the first {len(patient.jobs)} jobs are known to a process"


def _check_executors(patient: Patient) -> Iterator[tuple[str, str]]:
    wanted = {job.executor for job in patient.jobs}
    if not patient.processes:
        yield UNKNOWN, "no process tells which executors it has"
        return
    missing = sorted(wanted.difference(*(process.executors for process in patient.processes)))
    if missing:
        yield PROBLEM, f"no process has the executor {named(missing)}, which jobs are to run in"
    else:
        yield OK, f"all {len(wanted)} that jobs name are there"


def _check_clocks(patient: Patient) -> Iterator[tuple[str, str]]:
    told = [each for each in patient.processes if each.report is not None and each.report.written_at is not None]
    trouble = clock_trouble(told, patient.now)
    if not told:
        yield UNKNOWN, "no process tells the time"
    elif trouble:
        yield WARNING, trouble
    else:
        yield OK, f"those of {len(told)} processes agree within {SKEW.total_seconds():.0f} s, as far as can be told"


def _check_settings(patient: Patient) -> Iterator[tuple[str, str]]:
    warnings = patient.store.warnings()
    for warning in warnings:
        yield WARNING, warning
    if not warnings:
        yield OK, "no setting of the store is known to lose jobs"


def _check_versions(patient: Patient) -> Iterator[tuple[str, str]]:
    versions = sorted({each.report.version for each in patient.processes if each.report is not None})
    if len(versions) > 1:
        yield WARNING, f"the processes are of several versions: {named(versions)}"
    else:
        yield OK, f"all processes are of version {versions[0]}" if versions else "no process tells its version"


def _check_overdue(patient: Patient) -> Iterator[tuple[str, str]]:
    late = patient.now - (next_time(patient.jobs[0]) or patient.now) if patient.jobs else timedelta(0)
    if late > timedelta(minutes=1):
        yield WARNING, f"job {patient.jobs[0].id!r} has been due for {late.total_seconds():.0f} s"
    else:
        yield OK, "nothing has been due for more than a minute"


def _check_suspended(patient: Patient) -> Iterator[tuple[str, str]]:
    page = patient.store.find_jobs(JobQuery(state=JobState.SUSPENDED, limit=MOST_NAMES))
    if page.jobs:
        count = patient.store.count_jobs(JobQuery(state=JobState.SUSPENDED), COUNT_CAP)
        more = "" if count.exact else "more than "
        reasons = "; ".join(f"{job.id!r}: {job.suspended}" for job in page.jobs)
        yield WARNING, f"{more}{count.number} jobs are suspended, among them {reasons}"
    else:
        yield OK, "no job is suspended"


CHECKS: tuple[Callable[[Patient], Iterator[tuple[str, str]]], ...] = (
    _check_processes, _check_tasks, _check_executors, _check_overdue, _check_suspended, _check_clocks,
    _check_versions, _check_settings,
)  # fmt: skip
