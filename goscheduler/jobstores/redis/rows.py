"""Jobs, runs and records as the Redis store writes them, and back.

Heads are arrays of strings, an empty one where there is nothing; ``lua/common.lua`` names their places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import described
from goscheduler.jobstores._shared.records import Records, history_text, read_zone, zone_text
from goscheduler.runs.model import NO_STATS, JobStats, OutcomeKind, Source
from goscheduler.runs.records import DEFAULT_EXECUTOR, Record, record_of
from goscheduler.runs.transitions import with_attempt
from goscheduler.times import EPOCH, UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run, Settlement

#: Makes every moment from the year 1 on a positive number, so that digits sort as moments do.
_YEAR_1 = 62_135_596_800_000_000
_BROKEN = "its head is broken"

_dumps = json.JSONEncoder(separators=(",", ":")).encode
#: Takes what the JSON of Lua takes.
_read = json.JSONDecoder(strict=False).decode


class JobHead(NamedTuple):
    """What changes about a job at every firing."""

    stamp: str
    """Made up by who wrote it, so that no two writes leave the same head."""
    lane: str
    due: str
    """When it fires next, if it can."""
    next_run: str
    zone: str
    fence: str
    suspended: str
    limits: str
    paused_by: str
    finished: str

    @classmethod
    def read(cls, text: str) -> JobHead | None:
        """Return the head that is written so, or None if it is none."""
        try:
            values = _read(text)
            "".join(values)
            head = cls(*values)
            int(head.fence), int(head.due or 0)
        except (RecursionError, TypeError, ValueError):
            return None
        return head

    @property
    def text(self) -> str:
        return _dumps(self)


class RunHead(NamedTuple):
    """What changes about a run."""

    job_id: str
    lane: str
    due: str
    owner: str
    fence: str
    held: str
    freed: str
    cancel: str
    firing: str
    revoked: str
    limits: str

    @classmethod
    def read(cls, text: str) -> RunHead:
        """Return the head that is written so.

        :raises CodecError: if it is none
        """
        try:
            head = cls(*json.loads(text))
            int(head.due), int(head.fence)
        except (TypeError, ValueError) as error:
            raise CodecError(_BROKEN) from error
        return head


class Rows:
    """Writes and reads for one store."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._last = "", "", EPOCH
        """Time and zone of the job that was read last, and what they mean: many jobs have the same."""

    def job_head(self, job: Job, stamp: str) -> JobHead:
        """Return the head of a job."""
        next_run = moment(job.next_run_time)
        return JobHead(
            stamp, lane_of(job), "" if job.suspended is not None else next_run, next_run,
            "Z" if job.next_run_time is None else zone_text(job.next_run_time), "0", quoted(job.suspended),
            limits_text(job), quoted(job.stats.paused_by), moment(job.stats.finished_at),
        )  # fmt: skip

    def job(self, job_id: str, head: JobHead | None, definition: str, life: str) -> Job:
        """Return a job; one that cannot be read is suspended."""
        try:
            if head is None:
                raise CodecError(_BROKEN)
            lived_through = _life(life, head)
            next_run_time = None if head.next_run == "" else self._next_time(head)
            suspended = unquoted(head.suspended)
        except Exception as error:  # whatever somebody has written there
            reason = f"its record cannot be read: {described(error)}"
            return self.records.job(job_id, definition, None, NO_STATS, reason)
        job = self.records.job(job_id, definition, next_run_time, lived_through, suspended)
        if not self.records.signs:
            return job
        lane = _lane(job.options.executor or DEFAULT_EXECUTOR, job.options.priority, None)[: -len('""]')]
        # Which task it is depends on what this process has registered.
        return self.records.agreed(job, (head.lane[: len(lane)], head.limits), (lane, limits_text(job)))

    def _next_time(self, head: JobHead) -> datetime:
        last_run, last_zone, time = self._last
        if head.next_run != last_run or head.zone != last_zone:
            time = from_micros(int(head.next_run), read_zone(head.zone))
            self._last = head.next_run, head.zone, time
        return time

    def run(self, run_id: str, head: RunHead, text: str) -> Run:
        """Return a run.

        :raises CodecError: if it, or its job, cannot be read
        """
        run = self.records.run(run_id, text, head.owner or None, int(head.fence), int(head.due))
        if run.job.suspended is not None:
            raise CodecError(f"Run {run_id} cannot be read: {run.job.suspended}")
        return run

    def pending(self, run: Run) -> list[str]:
        """Return what is written of a pending run."""
        return [
            run.job.id, self.records.run_text(run), lane_of(run.job), str(to_micros(run.due_at)), str(run.fence),
            firing(run), limits_text(run.job),
        ]  # fmt: skip

    def settlement(self, settlement: Settlement) -> list[Any]:
        """Return what is written of the end of a run."""
        attempt, follow_up, dead = settlement
        following: Any = False
        letter: Any = False
        if follow_up is not None:
            _, text, lane, due, _, is_firing, limits = self.pending(follow_up)
            following = [text, lane, due, is_firing, limits]
        if dead is not None:
            letter = [self.records.run_text(attempt.run), quoted(dead)]
        return [record_row(record_of(attempt)), following, letter, _life_change(attempt)]


def record_row(record: Record) -> list[Any]:
    """Return a record as the script takes it."""
    finished = to_micros(record.finished_at)
    good = int(record.outcome is OutcomeKind.SUCCEEDED)
    return [record.run_id, str(record.fence), str(finished), digits(finished), good, history_text(record)]


def new_jobs_text(jobs: Iterable[tuple[Job, JobHead, str]]) -> str:
    """Return jobs, with their heads and definitions, as lists that the commands of Redis take as they are."""
    ids: list[str] = []
    heads: list[str] = []
    definitions: list[str] = []
    lives: list[str] = []
    suspended: list[str] = []
    finished: list[str] = []
    due: dict[str, list[str]] = {}
    for job, head, definition in jobs:
        ids.append(job.id)
        heads += job.id, head.text
        definitions += job.id, definition
        if job.stats is not NO_STATS:
            lives += job.id, life_text(job.stats)
        if head.due:
            due.setdefault(head.lane, []).extend((head.due, job.id))
        if head.suspended:
            suspended.append(job.id)
        if head.finished:
            finished += head.finished, job.id
    return dumps({
        "ids": ids, "heads": heads, "definitions": definitions, "lives": lives, "due": due, "suspended": suspended,
        "finished": finished,
    })  # fmt: skip


def digits(microseconds: int) -> str:
    """Return a moment in digits that sort as moments do."""
    return f"{microseconds + _YEAR_1:020d}"


def as_text(reply: Any) -> str:
    """Return what a server sent as text, whoever wrote it; bytes that are none become question marks."""
    return reply if isinstance(reply, str) else bytes(reply or b"").decode("utf-8", "replace")


def dumps(value: Any) -> str:
    """Return a value as the script reads it."""
    return _dumps(value)


def quoted(words: str | None) -> str:
    """Return what somebody has to say so that the JSON of Lua takes it."""
    return "" if words is None else _dumps(words)


def unquoted(text: str) -> str | None:
    """Return what :func:`quoted` was given."""
    return None if text == "" else str(json.loads(text))


def moment(time: datetime | None) -> str:
    """Return a moment as a head holds it."""
    return "" if time is None else str(to_micros(time))


def lane_of(job: Job) -> str:
    """Return the lane that a job waits in."""
    options = job.options
    return _lane(options.executor or DEFAULT_EXECUTOR, options.priority, job.task)


@lru_cache(maxsize=1024)
def _lane(executor: str, priority: int, task: str | None) -> str:
    return _dumps([executor, priority, task or ""])


def limits_text(job: Job) -> str:
    """Return the names of a job's limits."""
    return _dumps([limit.name for limit in job.limits]) if job.limits else ""


def limit_names(text: str) -> Sequence[str]:
    """Return the names in what :func:`limits_text` wrote."""
    return json.loads(text) if text else ()


def firing(run: Run) -> str:
    """Return whether a run stands for a fire time of its own."""
    return "1" if run.source is Source.SCHEDULE else "0"


def life_text(life: JobStats) -> str:
    """Return what a job has lived through; who paused it and when it finished stands in its head."""
    count, last_run, last_success, last_error, last_outcome, _, _ = life
    outcome = "" if last_outcome is None else last_outcome.value
    return _dumps([str(count), moment(last_run), moment(last_success), quoted(last_error), outcome])


def _life(text: str, head: JobHead) -> JobStats:
    if not text and not head.paused_by and not head.finished:
        return NO_STATS
    count, last_run, last_success, last_error, outcome = json.loads(text or '["0","","","",""]')
    return JobStats(
        int(count), _time(last_run), _time(last_success), unquoted(last_error),
        OutcomeKind(outcome) if outcome else None, unquoted(head.paused_by), _time(head.finished),
    )  # fmt: skip


def _life_change(attempt: Attempt) -> list[str] | Literal[False]:
    """Return what an attempt changes: how many runs to add, and the other fields, empty where they stay."""
    count, last_run, last_success, last_error, last_outcome, _, _ = with_attempt(NO_STATS, attempt)
    if last_outcome is None:
        return False
    return [str(count), moment(last_run), moment(last_success), quoted(last_error), str.__str__(last_outcome)]


def _time(text: str) -> datetime | None:
    return None if text == "" else from_micros(int(text), UTC)
