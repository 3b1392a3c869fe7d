"""Jobs, runs and records as the Redis store writes them, and back.

States are arrays of strings, an empty one where there is no value; ``lua/common.lua`` names their places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import described
from goscheduler.jobstores._shared.records import Records, history_text, read_zone, zone_text
from goscheduler.jobstores.redis.facts import origin_of, parted_facts_of
from goscheduler.runs.model import NO_STATS, JobStats, OutcomeKind, Source
from goscheduler.runs.records import DEFAULT_EXECUTOR, Record, record_of
from goscheduler.runs.transitions import with_attempt
from goscheduler.times import EPOCH, UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run, Settlement

#: Makes every moment from the year 1 on a positive number, so that digits sort as moments do.
_YEAR_1 = 62_135_596_800_000_000
_SUCCEEDED = OutcomeKind.SUCCEEDED
_BROKEN = "its state is broken"

_dumps = json.JSONEncoder(separators=(",", ":")).encode
#: Accepts what the JSON of Lua accepts.
_read = json.JSONDecoder(strict=False).decode


class JobState(NamedTuple):
    """What changes about a job at every firing."""

    stamp: str
    """Made up by the writer, so that no two writes leave the same state."""
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
    def read(cls, text: str) -> JobState | None:
        """Return the state of this text, or None if it cannot be read."""
        try:
            values = _read(text)
            if type(values) is not list or not all(type(value) is str for value in values):
                return None
            state = cls(*values)
            int(state.fence), int(state.due or 0)
        except (RecursionError, TypeError, ValueError):
            return None
        return state

    @property
    def text(self) -> str:
        return _dumps(self)

    @property
    def idle_list(self) -> str:
        """The list that has the job while it waits for no time."""
        return idle_list("suspended" if self.suspended else "ended" if self.finished else "paused", self.lane)


class RunState(NamedTuple):
    """What changes about a run."""

    job_id: str
    lane: str
    due: str
    owner: str
    fence: str
    blocked_on: str
    unblocked_by: str
    cancel: str
    firing_flag: str
    revoked: str
    limits: str

    @classmethod
    def read(cls, text: str) -> RunState:
        """Return the state of this text.

        :raises CodecError: if it cannot be read
        """
        try:
            state = cls(*json.loads(text))
            int(state.due), int(state.fence)
        except (TypeError, ValueError) as error:
            raise CodecError(_BROKEN) from error
        return state


class Rows:
    """Writes and reads the rows of one store."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._last = "", "", EPOCH
        """Time and zone of the job that was read last, with their meaning: many jobs have the same."""

    def job_state(self, job: Job, stamp: str) -> JobState:
        """Return the state of a job."""
        next_run = moment(job.next_run_time)
        return JobState(
            stamp, lane_of(job), "" if job.suspended is not None else next_run, next_run,
            "Z" if job.next_run_time is None else zone_text(job.next_run_time), "0", json_text(job.suspended),
            limits_text(job), json_text(job.stats.paused_by), moment(job.stats.finished_at),
        )  # fmt: skip

    def job(self, job_id: str, state: JobState | None, definition: str, stats_row: str, facts: str = "") -> Job:
        """Return a job; one that cannot be read is suspended."""
        try:
            if state is None:
                raise CodecError(_BROKEN)
            stats = _stats(stats_row, state, facts)
            next_run_time = None if state.next_run == "" else self._next_time(state)
            suspended = read_json_text(state.suspended)
        except Exception as error:  # another program may have written anything there
            reason = f"its record cannot be read: {described(error)}"
            return self.records.job(job_id, definition, None, NO_STATS, reason)
        job = self.records.job(job_id, definition, next_run_time, stats, suspended)
        if not self.records.signs:
            return job
        lane = _lane(job.options.executor or DEFAULT_EXECUTOR, job.options.priority, None)[: -len('""]')]
        # The task of a function depends on the registrations of this process.
        return self.records.agreed(job, (state.lane[: len(lane)], state.limits), (lane, limits_text(job)))

    def _next_time(self, state: JobState) -> datetime:
        last_run, last_zone, time = self._last
        if state.next_run != last_run or state.zone != last_zone:
            time = from_micros(int(state.next_run), read_zone(state.zone))
            self._last = state.next_run, state.zone, time
        return time

    def run(self, run_id: str, state: RunState, text: str) -> Run:
        """Return a run.

        :raises CodecError: if it, or its job, cannot be read
        """
        run = self.records.run(run_id, text, state.owner or None, int(state.fence), int(state.due))
        if run.job.suspended is not None:
            raise CodecError(f"Run {run_id} cannot be read: {run.job.suspended}")
        return run

    def pending(self, run: Run) -> list[str]:
        """Return the row of a pending run."""
        return [
            run.job.id, self.records.run_text(run), lane_of(run.job), str(to_micros(run.due_at)), str(run.fence),
            firing_flag(run), limits_text(run.job),
        ]  # fmt: skip

    def settlement(self, settlement: Settlement) -> tuple[list[Any], str]:
        """Return the row of the end of a run, and the text of its record, which the row does not have."""
        attempt, follow_up, dead = settlement
        following: Any = False
        letter: Any = False
        if follow_up is not None:
            _, text, lane, due, _, is_firing, limits = self.pending(follow_up)
            following = [text, lane, due, is_firing, limits]
        if dead is not None:
            letter = [self.records.run_text(attempt.run), json_text(dead)]
        row = record_row(record_of(attempt))
        text, row[-1] = row[-1], ""
        row += following, letter, *_stats_change(attempt)
        return row, text


def record_row(record: Record) -> list[Any]:
    """Return the row of a record."""
    finished = to_micros(record.finished_at)
    good = int(record.outcome is _SUCCEEDED)
    return [record.run_id, str(record.fence), str(finished), digits(finished), good, history_text(record)]


def new_jobs_text(jobs: Iterable[tuple[Job, JobState, str]]) -> str:
    """Return jobs, with their states and definitions, as lists in the order of the arguments of Redis commands."""
    ids: list[str] = []
    states: list[str] = []
    definitions: list[str] = []
    stats: list[str] = []
    suspended: list[str] = []
    finished: list[str] = []
    facts: dict[str, list[str]] = {}
    due: dict[str, list[str]] = {}
    idle: dict[str, list[str]] = {}
    for job, state, definition in jobs:
        line, others = parted_facts_of(job)
        facts.setdefault(line, []).extend((job.id, others))
        ids.append(job.id)
        states += job.id, state.text
        definitions += job.id, definition
        if has_stats(job):
            stats += job.id, stats_text(job.stats)
        if state.due:
            due.setdefault(state.lane, []).extend((state.due, job.id))
        else:
            idle.setdefault(state.idle_list, []).extend(("0", job.id))
        if state.suspended:
            suspended.append(job.id)
        if state.finished:
            finished += state.finished, job.id
    return dumps({
        "ids": ids, "states": states, "definitions": definitions, "stats": stats, "facts": facts, "due": due,
        "suspended": suspended, "finished": finished, "idle": idle,
    })  # fmt: skip


@lru_cache(maxsize=256)
def digits(microseconds: int) -> str:
    """Return a moment in digits that sort as text."""
    return f"{microseconds + _YEAR_1:020d}"


def as_text(reply: Any) -> str:
    """Return a reply of the server as text; bytes that are no UTF-8 become question marks."""
    return reply if isinstance(reply, str) else bytes(reply or b"").decode("utf-8", "replace")


def dumps(value: Any) -> str:
    """Return a value as JSON for the script."""
    return _dumps(value)


def json_text(words: str | None) -> str:
    """Return words as JSON, so that the script can store any character; an empty text for None."""
    return "" if words is None else _dumps(words)


def read_json_text(text: str) -> str | None:
    """Return the words that :func:`json_text` was given."""
    return None if text == "" else str(json.loads(text))


def moment(time: datetime | None) -> str:
    """Return a moment as a state holds it."""
    return "" if time is None else str(to_micros(time))


def lane_of(job: Job) -> str:
    """Return the lane of a job: its executor, priority and task."""
    options = job.options
    return _lane(options.executor or DEFAULT_EXECUTOR, options.priority, job.task)


@lru_cache(maxsize=1024)
def _lane(executor: str, priority: int, task: str | None) -> str:
    return _dumps([executor, priority, task or ""])


def idle_list(why: str, lane: str) -> str:
    """Return the list of the jobs of a lane that wait for no time because they are paused, suspended or ended."""
    return f"idle:{why}:{lane}"


def limits_text(job: Job) -> str:
    """Return the names of a job's limits."""
    return _dumps([limit.name for limit in job.limits]) if job.limits else ""


def limit_names(text: str) -> Sequence[str]:
    """Return the names in what :func:`limits_text` wrote."""
    return json.loads(text) if text else ()


def firing_flag(run: Run) -> str:
    """Return whether a run stands for a fire time."""
    return "1" if run.source is Source.SCHEDULE else "0"


def has_stats(job: Job) -> bool:
    """Tell whether a job has any of the statistics that :func:`stats_text` writes."""
    return job.stats is not NO_STATS and job.stats[:5] != NO_STATS[:5]


def stats_text(stats: JobStats) -> str:
    """Return the statistics of a job, but for those that its state and its facts hold."""
    count, last_run, last_success, last_error, last_outcome, *_ = stats
    outcome = "" if last_outcome is None else last_outcome.value
    return _dumps([str(count), moment(last_run), moment(last_success), json_text(last_error), outcome])


def _stats(text: str, state: JobState, facts: str) -> JobStats:
    origin = origin_of(facts)
    if not text and not state.paused_by and not state.finished and not any(origin):
        return NO_STATS
    count, last_run, last_success, last_error, outcome = json.loads(text or '["0","","","",""]')
    return JobStats(
        int(count), _time(last_run), _time(last_success), read_json_text(last_error),
        OutcomeKind(outcome) if outcome else None, read_json_text(state.paused_by), _time(state.finished),
        *origin,
    )  # fmt: skip


def _stats_change(attempt: Attempt) -> Sequence[str]:
    """Return how an attempt changes the statistics: runs to add, last run, error and outcome, empty if unchanged.

    The last success is the end of the record.
    """
    count, last_run, _, last_error, last_outcome, *_ = with_attempt(NO_STATS, attempt)
    if last_outcome is None:
        return ()
    return str(count), moment(last_run), json_text(last_error), str.__str__(last_outcome)


def _time(text: str) -> datetime | None:
    return None if text == "" else from_micros(int(text), UTC)
