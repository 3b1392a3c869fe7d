"""Jobs and runs for display: plain values under the names that JSON has, in the order of reading."""

from __future__ import annotations

from goscheduler.cli._print import View
from goscheduler.errors import shown
from goscheduler.job import Job
from goscheduler.runs.model import DeadLetter, LiveRun
from goscheduler.runs.records import Record
from goscheduler.schedulers.base import BaseScheduler

JOB_COLUMNS = ("id", "name", "state", "next_run_time", "trigger")
RUN_COLUMNS = ("finished_at", "job_id", "outcome", "attempt", "seconds", "run_id", "error")
LIVE_COLUMNS = ("state", "job_id", "due_at", "started_at", "attempt", "run_id", "progress")
DEAD_COLUMNS = ("finished_at", "job_id", "attempt", "run_id", "error", "reason")


def job_row(job: Job) -> View:
    """Return what a list shows of a job."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "next_run_time": job.next_run_time,
        "trigger": str(job.trigger),
        "suspended": job.suspended,
        "jobstore": job.jobstore,
        "executor": job.executor,
        "task": job.func_ref,
        "tags": job.tags,
    }


def job_facts(scheduler: BaseScheduler, job: Job) -> View:
    """Return all that is known of a job."""
    return {
        **job_row(job),
        "schedule": job.trigger.explain(),
        "why_not_running": scheduler.why(job.id),
        "description": job.description,
        "args": [shown(value) for value in job.args],
        "kwargs": {name: shown(value) for name, value in job.kwargs.items()},
        "misfire_grace_time": job.misfire_grace_time,
        "coalesce": job.coalesce,
        "max_instances": job.max_instances,
        "run_count": job.run_count,
        "last_run": job.last_run,
        "last_success": job.last_success,
        "last_error": job.last_error,
    }


def record_row(record: Record) -> View:
    """Return a record of the history, with its error on one line beside the parts, and its cursor."""
    row = {**record._asdict(), "error": error_line(record), "lateness": record.lateness, "cursor": record.cursor}
    return {name: row[name] for name in sorted(row, key=lambda name: name == "traceback")}  # the long one comes last


def error_line(record: Record) -> str:
    """Return why an attempt did not succeed, on one line; empty if it did."""
    if record.error_type is None:
        return record.reason
    return f"{record.error_type}: {record.error_message}".removesuffix(": ")


def letter_row(letter: DeadLetter) -> View:
    """Return a dead letter: the record of its last attempt, and why there is no other."""
    return {**record_row(letter.record), "reason": letter.reason}


def live_row(run: LiveRun) -> View:
    """Return a run that has not ended."""
    facts = run._asdict()
    return {"run_id": facts.pop("id"), **facts}
