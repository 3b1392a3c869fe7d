"""Jobs, runs and records as rows of the SQL store, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.jobstores._records import Records, history_record, history_text, read_zone, zone_text
from goscheduler.runs.model import NEWBORN, DeadLetter, JobLife, OutcomeKind, Source
from goscheduler.times import UTC, from_instant, instant

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run
    from goscheduler.runs.records import Record


class Rows:
    """Writes and reads rows for one store."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def job_row(self, job: Job) -> dict[str, Any]:
        """Return a job as a row."""
        next_run = moment(job.next_run_time)
        life = job.life
        return {
            "id": job.id,
            "executor": job.executor,
            "task": job.task,
            "priority": job.priority,
            "due": None if job.suspended is not None else next_run,
            "next_run": next_run,
            "zone": "Z" if job.next_run_time is None else zone_text(job.next_run_time.tzinfo),
            "fence": 0,
            "suspended": quoted(job.suspended),
            "definition": self.records.job_text(job),
            "limits": limits_text(job),
            "run_count": life.run_count,
            "last_run": moment(life.last_run),
            "last_success": moment(life.last_success),
            "last_error": quoted(life.last_error),
            "last_outcome": None if life.last_outcome is None else life.last_outcome.value,
            "paused_by": life.paused_by,
            "finished": moment(life.finished_at),
        }

    def job(self, row: Any) -> Job:
        """Return the job of a row."""
        # In the order of the columns: names would cost more than the rest.
        job_id, _, _, _, _, next_run, zone, _, suspended, definition, _, *life = row
        next_run_time = None if next_run is None else from_instant(next_run, UTC if zone == "Z" else read_zone(zone))
        return self.records.job(job_id, definition, next_run_time, _life(*life), unquoted(suspended))

    def run_row(self, run: Run, job_text: str | None = None) -> dict[str, Any]:
        """Return a run as a row."""
        job = run.job
        due = instant(run.due_at)
        return {
            "id": run.id,
            "job_id": job.id,
            "executor": job.executor,
            "task": job.task,
            "priority": job.priority,
            "due": due,
            "ready": due if run.owner is None else None,
            "owner": run.owner,
            "fence": run.fence,
            "firing": 1 if run.source is Source.SCHEDULE else 0,
            "revoked": 0,
            "limits": limits_text(job),
            "run": self.records.run_text(run, job_text),
        }

    def run(self, row: Any) -> Run:
        """Return the run of a row."""
        run = self.records.run(row.id, row.run, row.owner, row.fence, max(row.due, row.ready or 0))
        run.job.next_run_time = run.scheduled_at  # as it was when it fired
        return run

    def history_row(self, record: Record) -> dict[str, Any]:
        """Return a record as a row."""
        finished, run_id, fence = record.position
        return {
            "finished": instant(finished),
            "run_id": run_id,
            "fence": fence,
            "job_id": record.job_id,
            "outcome": record.outcome.value,
            "error_type": record.error_type,
            "tags": tags_text(record.tags),
            "record": history_text(record),
        }

    def dead_row(self, letter: DeadLetter) -> dict[str, Any]:
        """Return a dead letter as a row."""
        run = self.records.run_text(letter.run)
        return {**self.history_row(letter.record), "run": run, "reason": quoted(letter.reason)}

    def letter(self, row: Any) -> DeadLetter:
        """Return the dead letter of a row."""
        record = self.record(row)
        run = self.records.run(row.run_id, row.run, record.owner, row.fence)
        return DeadLetter(run, record, unquoted(row.reason) or "")

    def record(self, row: Any) -> Record:
        """Return the record of a row."""
        return history_record(row.record)


def quoted(words: str | None) -> str | None:
    """Return what somebody has to say so that every database takes it."""
    return None if words is None else json.dumps(words)


def unquoted(text: str | None) -> str | None:
    """Return what :func:`quoted` was given."""
    return None if text is None else str(json.loads(text))


def moment(time: datetime | None) -> int | None:
    """Return a moment as a column holds it."""
    return None if time is None else instant(time)


def limits_text(job: Job) -> str:
    """Return the names of a job's limits, as a column holds them."""
    return json.dumps([limit.name for limit in job.limits]) if job.limits else ""


def limit_names(text: str) -> list[str]:
    """Return the names in what :func:`limits_text` wrote."""
    return list(json.loads(text)) if text else []


def tags_text(tags: Sequence[str]) -> str:
    """Return tags so that one of them can be looked for."""
    return "".join(map(tag_text, tags))


def tag_text(tag: str) -> str:
    """Return how one tag stands among others: as JSON, in which no quotation mark stands alone."""
    return json.dumps(tag)


def _life(
    run_count: int,
    last_run: int | None,
    last_success: int | None,
    last_error: str | None,
    last_outcome: str | None,
    paused_by: str | None,
    finished: int | None,
) -> JobLife:
    if not run_count and last_outcome is None and paused_by is None and finished is None:
        return NEWBORN
    return JobLife(
        run_count, _time(last_run), _time(last_success), unquoted(last_error),
        None if last_outcome is None else OutcomeKind(last_outcome), paused_by, _time(finished),
    )  # fmt: skip


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_instant(microseconds, UTC)
