"""Makes views of what a scheduler knows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError, encode
from goscheduler.errors import GoSchedulerError, shown
from goscheduler.ops.model import (
    BulkView,
    FireTime,
    Gap,
    JobRow,
    JobView,
    LetterGroupView,
    LimitOfJob,
    LiveRunView,
    RetryOfJob,
    RunRow,
)
from goscheduler.ops.model_around import ExecutorUseView, LimitView, ProcessView, RunningView
from goscheduler.ops.values import fields_of, plain
from goscheduler.runs.queries import RunCounts
from goscheduler.times import UTC, from_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.bulk import Bulk
    from goscheduler.runs.model import DeadLetter, JobState, LiveRun
    from goscheduler.runs.processes import Process
    from goscheduler.runs.queries import LetterGroup, LimitUse
    from goscheduler.runs.records import Record
    from goscheduler.runs.retry import Retry

NO_RUNS = RunCounts()


def job_row(job: Job, state: JobState, last: Sequence[Record] = ()) -> JobRow:
    """Return what a list shows of a job; ``last`` are its newest records, if these are to be shown."""
    stats = job.stats
    return JobRow(
        job.id, job.name, state.value, getattr(job, "next_run_time", None), str(job.trigger),
        job.trigger.explain(), job.suspended, job.jobstore, job.executor, job.func_ref, job.tags, job.priority,
        None if stats.last_outcome is None else stats.last_outcome.value, [record.outcome.value for record in last],
        stats.last_run, stats.last_error, stats.paused_by, stats.pause_reason,
    )  # fmt: skip


def job_view(
    job: Job, state: JobState, why: str, counts: RunCounts, last: Sequence[Record], gaps: Sequence[Gap]
) -> JobView:
    """Return all that is known of a job."""
    return JobView(
        **fields_of(job_row(job, state, last)),
        why_not_running=why,
        description=job.description,
        args=[_shown_value(value) for value in job.args],
        kwargs={name: _shown_value(value) for name, value in job.kwargs.items()},
        metadata=job.metadata,
        misfire_grace_time=job.misfire_grace_time,
        coalesce=job.coalesce,
        max_instances=job.max_instances,
        overlap=job.overlap,
        timeout=job.timeout,
        retry=_retry_view(job.retry),
        dead_letter=job.dead_letter,
        limits=[LimitOfJob(limit.name, limit.concurrency, limit.rate) for limit in job.limits],
        on_crash=job.on_crash,
        max_crashes=job.max_crashes,
        auto_remove=job.auto_remove,
        run_count=job.run_count,
        last_success=job.last_success,
        created_at=job.created_at,
        created_by=job.created_by,
        live=counts.live,
        due=counts.due,
        waiting=counts.waiting,
        last_runs=[run_row(record) for record in last],
        gaps=gaps,
        etag=etag_of(job),
    )


def _shown_value(value: object) -> Any:
    """Return an argument as JSON has it; one that JSON does not have is shown as text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return shown(value)
    return value


def _retry_view(retry: Retry | None) -> RetryOfJob | None:
    if retry is None:
        return None
    backoff = retry.backoff
    steps = {
        "fixed": f"{backoff.base:g} s each time",
        "linear": f"{backoff.base:g} s longer each time, at most {backoff.cap:g} s",
        "exponential": f"{backoff.base:g} s, {backoff.factor:g} times as long each time, at most {backoff.cap:g} s",
    }
    return RetryOfJob(retry.max_attempts, steps[backoff.kind])


def etag_of(job: Job) -> str | None:
    """Return a name for the definition of a job and its pause: an edit changes it, a firing does not.

    None if the definition cannot be read or stored, so that nobody can edit it by this name.
    """
    try:
        definition = job.__getstate__()
        del definition["life"]
        paused = job.stats.paused_by, job.stats.pause_id, definition.pop("next_run_time") is None
        text = json.dumps([encode(definition), paused], sort_keys=True)
    except (CodecError, GoSchedulerError, ValueError, TypeError, AttributeError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def run_row(record: Record) -> RunRow:
    """Return a record of the history, with its error on one line beside the parts, and its cursor."""
    values = {name: plain_enum(value) for name, value in record._asdict().items()}
    return RunRow(**values, lateness=record.lateness, error=error_line(record), cursor=record.cursor)


def letter_row(letter: DeadLetter) -> RunRow:
    """Return a dead letter: the record of its last attempt, and why there is no other."""
    return run_row(letter.record._replace(reason=letter.reason))


def error_line(record: Record) -> str:
    """Return why an attempt did not succeed, on one line; empty if it did."""
    if record.error_type is None:
        return record.reason
    return f"{record.error_type}: {record.error_message}".removesuffix(": ")


def live_row(run: LiveRun) -> LiveRunView:
    """Return a run that has not ended."""
    values = {name: plain_enum(value) for name, value in run._asdict().items()}
    return LiveRunView(run_id=values.pop("id"), **values)


def plain_enum(value: Any) -> Any:
    """Return an enumeration as its text, anything else as it is."""
    return getattr(value, "value", value)


def group_view(group: LetterGroup, jobstore: str) -> LetterGroupView:
    """Return a group of dead letters."""
    return LetterGroupView(**group._asdict(), jobstore=jobstore)


def process_view(process: Process) -> ProcessView:
    """Return a process that shares a store."""
    report = process.report
    uses = [
        ExecutorUseView(alias, None, None) if use is None else ExecutorUseView(alias, use.running, use.room)
        for alias, use in process.executors.items()
    ]
    runs = () if report is None else report.runs
    return ProcessView(
        process.owner, process.jobstore, process.host, process.pid, None if report is None else report.state,
        None if report is None else report.version, process.started_at, process.expires_at,
        None if report is None else report.written_at, uses, process.tasks,
        [RunningView(run.id, run.job_id, run.started_at, run.progress, run.progress_note) for run in runs],
        report is not None and report.complete,
    )  # fmt: skip


def limit_view(use: LimitUse, jobstore: str) -> LimitView:
    """Return what is used of a limit."""
    return LimitView(use.name, jobstore, use.live, use.waiting, {f"{w:g}": n for w, n in use.starts.items()})


def bulk_view(bulk: Bulk, jobstore: str) -> BulkView:
    """Return an act on many jobs."""
    return BulkView(
        bulk.id, bulk.act, bulk.filters, bulk.by, bulk.reason, bulk.state, jobstore,
        from_micros(bulk.started_at, UTC), bulk.changed, bulk.unchanged, bulk.refused, bulk.reasons,
    )  # fmt: skip


def fire_times(times: Sequence[datetime]) -> list[FireTime]:
    """Return fire times, each with its offset."""
    found: list[FireTime] = []
    for at in times:
        offset = f"{at:%z}"
        changes = bool(found) and found[-1].offset != f"{offset[:3]}:{offset[3:5]}"
        found.append(FireTime(at, f"{offset[:3]}:{offset[3:5]}", str(at.tzname()), changes))
    return found


def definition_of(job: Job) -> Mapping[str, Any]:
    """Return what an edit may change, as people read it."""
    return {
        "name": job.name, "trigger": str(job.trigger), "args": [_shown_value(value) for value in job.args],
        "kwargs": {name: _shown_value(value) for name, value in job.kwargs.items()},
        **{
            name: plain(_shown_value(plain(getattr(job, name))))
            for name in (
                "executor", "misfire_grace_time", "coalesce", "max_instances", "overlap", "timeout", "priority",
                "tags", "description", "metadata", "on_crash", "max_crashes", "auto_remove",
            )
        },
    }  # fmt: skip
