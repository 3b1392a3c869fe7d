"""Jobs, runs and records as rows of the SQL store, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.jobstores._shared.records import (
    Records,
    history_record,
    history_text,
    read_zone,
    zone_text,
)
from goscheduler.jobstores.sqlalchemy.bulk import Columns
from goscheduler.jobstores.sqlalchemy.search_terms import terms_of, words_of
from goscheduler.runs.model import NO_STATS, DeadLetter, JobStats, OutcomeKind, Source
from goscheduler.runs.records import DEFAULT_EXECUTOR, record_of
from goscheduler.times import EPOCH, UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.records import Record


class JobRow(NamedTuple):
    id: str
    executor: str
    task: str | None
    priority: int
    due: int | None
    next_run: int | None
    zone: str
    fence: int
    suspended: str | None
    definition: str
    limits: str
    run_count: int
    last_run: int | None
    last_success: int | None
    last_error: str | None
    last_outcome: str | None
    paused_by: str | None
    finished: int | None
    pause_reason: str | None
    pause_id: str | None
    created_at: int | None
    created_by: str | None
    name: str
    is_suspended: int | None
    terms: str
    words: str | None


class RunRow(NamedTuple):
    id: str
    job_id: str
    executor: str
    task: str | None
    priority: int
    due: int
    ready: int | None
    owner: str | None
    fence: int
    firing: int
    revoked: int
    limits: str
    run: str
    attempt: int
    held: str | None = None


class DeadRow(NamedTuple):
    finished: int
    run_id: str
    fence: int
    job_id: str
    outcome: str
    error_type: str | None
    tags: str
    record: str
    run: str
    reason: str


class DueJob(NamedTuple):
    """The columns of a job that are needed to fire it."""

    executor: str
    priority: int
    due: int
    id: str
    zone: str
    fence: int
    limits: str
    definition: str


class WaitingRun(NamedTuple):
    """The columns of a pending run that are needed to see whether it can be claimed."""

    executor: str
    priority: int
    due: int
    id: str
    job_id: str
    limits: str


class LimitRow(NamedTuple):
    name: str
    state: str


class UsageRow(NamedTuple):
    run_id: str
    name: str


class DueRun(NamedTuple):
    """The columns of a pending run that are needed to claim it."""

    executor: str
    priority: int
    due: int
    id: str
    job_id: str
    ready: int
    owner: str | None
    fence: int
    freed: str | None
    limits: str
    run: str


_STATS = len(JobStats._fields)
_OF_HISTORY = ("finished", "run_id", "fence", "job_id", "outcome", "error_type", "tags", "record")


class RowCodec:
    """Writes and reads rows for one store."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._last = 0, "Z", EPOCH
        """The last due time that was read, because many jobs have the same."""

    def job_row(self, job: Job) -> JobRow:
        """Return a job as a row."""
        next_run = micros_or_none(job.next_run_time)
        options = job.options
        (
            count, last_run, last_success, error, outcome, paused_by, finished_at, pause_reason, pause_id, created_at,
            created_by,
        ) = job.stats  # fmt: skip
        return JobRow(
            job.id, options.executor or DEFAULT_EXECUTOR, job.task, job.priority,
            None if job.suspended is not None else next_run, next_run,
            "Z" if job.next_run_time is None else zone_text(job.next_run_time), 0, json_text(job.suspended),
            self.records.job_text(job), limits_text(job), count, micros_or_none(last_run), micros_or_none(last_success),
            json_text(error), None if outcome is None else outcome.value, paused_by, micros_or_none(finished_at),
            json_text(pause_reason), pause_id, micros_or_none(created_at), created_by,
            job.name, None if job.suspended is None else 1, terms_of(job), words_of(job),
        )  # fmt: skip

    def job(self, row: Any) -> Job:
        """Return the job of a row."""
        # In the order of the columns: names would cost more than the rest.
        job_id, executor, _, priority, _, next_run, zone, _, suspended, definition, limits, *others = row
        next_run_time = None if next_run is None else from_micros(next_run, UTC if zone == "Z" else read_zone(zone))
        stats = _stats(*others[:_STATS])
        job = self.records.job(job_id, definition, next_run_time, stats, read_json_text(suspended))
        return self._agreed(job, executor, priority, limits) if self.records.signs else job

    def due_job(self, row: DueJob) -> Job:
        """Return a job that is due, without its life."""
        executor, priority, due, job_id, zone, _, limits, definition = row
        last_due, last_zone, time = self._last
        if due != last_due or zone != last_zone:
            time = from_micros(due, UTC if zone == "Z" else read_zone(zone))
            self._last = due, zone, time
        job = self.records.job(job_id, definition, time)
        return self._agreed(job, executor, priority, limits) if self.records.signs else job

    def _agreed(self, job: Job, *written: Any) -> Job:
        meant = job.options.executor or DEFAULT_EXECUTOR, job.priority, limits_text(job)
        return self.records.agreed(job, written, meant)

    def run_row(self, run: Run, job_text: str | None = None) -> RunRow:
        """Return a run as a row, with the text of its job where the caller has it."""
        job = run.job
        due = to_micros(run.due_at)
        options = job.options
        return RunRow(
            run.id, job.id, options.executor or DEFAULT_EXECUTOR, job.task, options.priority, due,
            due if run.owner is None else None, run.owner, run.fence, 1 if run.source is Source.SCHEDULE else 0, 0,
            limits_text(job), self.records.run_text(run, job_text), run.attempt,
        )  # fmt: skip

    def run(self, row: Any) -> Run:
        """Return the run of a row."""
        run = self.records.run(row.id, row.run, row.owner, row.fence, max(row.due, row.ready or 0))
        run.job.next_run_time = run.scheduled_at  # as it was when it fired
        return run

    def history_columns(self, attempts: Iterable[Attempt]) -> Columns:
        """Return attempts that have ended by column, as the history keeps them."""
        columns: dict[str, list[Any]] = {name: [] for name in _OF_HISTORY}
        finished, run_id, fence, job_id, outcome, error_type, tags, text = columns.values()
        for record in map(record_of, attempts):  # one at a time: thousands would keep the garbage collector busy
            finished.append(to_micros(record.finished_at))
            run_id.append(record.run_id)
            fence.append(record.fence)
            job_id.append(record.job_id)
            outcome.append(str.__str__(record.outcome))
            error_type.append(record.error_type)
            tags.append(tags_text(record.tags) if record.tags else "")
            text.append(history_text(record))
        return columns if text else {}

    def dead_row(self, letter: DeadLetter) -> DeadRow:
        """Return a dead letter as a row."""
        record = letter.record
        return DeadRow(
            to_micros(record.finished_at), record.run_id, record.fence, record.job_id, record.outcome.value,
            record.error_type, tags_text(record.tags), history_text(record), self.records.run_text(letter.run),
            json_text(letter.reason) or "",
        )  # fmt: skip

    def letter(self, row: Any) -> DeadLetter:
        """Return the dead letter of a row."""
        record = self.record(row)
        run = self.records.run(row.run_id, row.run, record.owner, row.fence)
        return DeadLetter(run, record, read_json_text(row.reason) or "")

    def record(self, row: Any) -> Record:
        """Return the record of a row."""
        return history_record(row.record)


def json_text(words: str | None) -> str | None:
    """Return a text as JSON, so that any character survives every database."""
    return None if words is None else json.dumps(words)


def read_json_text(text: str | None) -> str | None:
    """Return what :func:`json_text` was given."""
    return None if text is None else str(json.loads(text))


def micros_or_none(time: datetime | None) -> int | None:
    """Return a time as a column holds it."""
    return None if time is None else to_micros(time)


def limits_text(job: Job) -> str:
    """Return the names of a job's limits, as a column holds them."""
    limits = job.options.limits
    return json.dumps([limit.name for limit in limits]) if limits else ""


def limit_names(text: str) -> list[str]:
    """Return the names in what :func:`limits_text` wrote."""
    return list(json.loads(text)) if text else []


def tags_text(tags: Sequence[str]) -> str:
    """Return tags so that one of them can be looked for."""
    return "".join(map(tag_text, tags))


def tag_text(tag: str) -> str:
    """Return how one tag stands among others: as JSON, in which no quotation mark stands alone."""
    return json.dumps(tag)


def _stats(
    run_count: int,
    last_run: int | None,
    last_success: int | None,
    last_error: str | None,
    last_outcome: str | None,
    paused_by: str | None,
    finished: int | None,
    pause_reason: str | None,
    pause_id: str | None,
    created_at: int | None,
    created_by: str | None,
) -> JobStats:
    if not (run_count or last_outcome or paused_by or finished or pause_reason or pause_id or created_at or created_by):
        return NO_STATS
    return JobStats(
        run_count, _time(last_run), _time(last_success), read_json_text(last_error),
        None if last_outcome is None else OutcomeKind(last_outcome), paused_by, _time(finished),
        read_json_text(pause_reason), pause_id, _time(created_at), created_by,
    )  # fmt: skip


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)
