"""What operations on jobs and runs return: plain values under the names that JSON has, in the order of reading.

None stands for "there is none". What cannot be known from here is said where it can be mistaken for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

#: What a page has rows of.
Row = TypeVar("Row")


@dataclass(frozen=True)
class JobRow:
    """A job in a list."""

    id: str
    name: str
    state: str
    next_run_time: datetime | None
    trigger: str
    schedule: str
    suspended: str | None
    jobstore: str | None
    executor: str
    task: str | None
    tags: Sequence[str]
    priority: int | None
    last_outcome: str | None
    last_outcomes: Sequence[str]
    """How the last attempts ended, the newest first, as far as that was asked for."""
    last_run: datetime | None
    last_error: str | None
    paused_by: str | None
    pause_reason: str | None


@dataclass(frozen=True)
class LimitOfJob:
    """A limit that a job shares with others."""

    name: str
    concurrency: int | None
    rate: str | None


@dataclass(frozen=True)
class RetryOfJob:
    """How a job is tried again."""

    attempts: int | None
    """None stands for any number of attempts."""
    backoff: str


@dataclass(frozen=True)
class Gap:
    """A fire time that has passed and of which no run is known."""

    at: datetime
    reason: str
    """What the history says of it: that it was missed or skipped, and why; or that nothing is known."""


@dataclass(frozen=True)
class JobView(JobRow):
    """All that is known of a job."""

    why_not_running: str
    description: str
    args: Any
    kwargs: Any
    metadata: Mapping[str, str]
    misfire_grace_time: float | None
    coalesce: bool
    max_instances: int
    overlap: str
    timeout: float | None
    retry: RetryOfJob | None
    dead_letter: bool
    limits: Sequence[LimitOfJob]
    on_crash: str
    max_crashes: int
    auto_remove: bool
    run_count: int
    last_success: datetime | None
    created_at: datetime | None
    created_by: str | None
    live: int
    due: int
    waiting: int
    """Runs that a process has, pending runs that are due, and pending runs that are not due yet."""
    last_runs: Sequence[RunRow]
    """The last five records."""
    gaps: Sequence[Gap]
    """What should have run within the last day and did not."""
    etag: str | None
    """Names this definition of the job; None if the definition cannot be read here."""


@dataclass(frozen=True)
class RunRow:
    """An attempt at a run that has ended, or a fire time that was not run."""

    run_id: str
    job_id: str
    job_name: str
    task: str | None
    tags: Sequence[str]
    executor: str
    source: str
    attempt: int
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime
    seconds: float
    lateness: float
    outcome: str
    reason: str
    error_type: str | None
    error_message: str
    error: str
    """Error type and message, or the reason, on one line."""
    result: str | None
    progress: float | None
    progress_note: str
    owner: str | None
    host: str
    fence: int
    coalesced: int
    fire_times: int
    crashes: int
    cursor: str
    traceback: str


@dataclass(frozen=True)
class LiveRunView:
    """A run that has not ended."""

    run_id: str
    job_id: str
    job_name: str
    state: str
    scheduled_at: datetime
    due_at: datetime
    started_at: datetime | None
    attempt: int
    source: str
    owner: str | None
    host: str
    pid: int
    progress: float | None
    progress_note: str


@dataclass(frozen=True)
class RunView:
    """A run: where it stands, and all of its attempts, newest first."""

    run_id: str
    live: LiveRunView | None
    attempts: Sequence[RunRow]
    dead: bool
    """Whether it is among the dead letters."""


@dataclass(frozen=True)
class LetterGroupView:
    """Dead letters of one task that died of errors of one kind."""

    task: str | None
    error_type: str | None
    signature: str
    size: int
    first: datetime
    last: datetime
    job_ids: Sequence[str]
    run_id: str
    jobstore: str


@dataclass(frozen=True)
class LetterGroups:
    """Dead letters in groups, the largest group first."""

    groups: Sequence[LetterGroupView]
    window: int
    """At most so many of the newest dead letters of each store were looked at."""
    complete: bool
    """Whether these were all."""


@dataclass(frozen=True)
class LettersView:
    """What became of all dead letters that fit."""

    count: int
    examples: Sequence[str]
    """Ids of some of the runs."""
    complete: bool
    """False if there were more than are dealt with at once: do the same again."""


@dataclass(frozen=True)
class CountView:
    """How many there are."""

    number: int
    exact: bool
    """False if there are more, which were not counted."""


@dataclass(frozen=True)
class Page(Generic[Row]):
    """A part of a list."""

    items: Sequence[Row]
    next: str | None
    """The cursor of the page that follows, None behind the last one."""
    complete: bool = True
    """False if a search gave up before the page was full; it goes on at ``next``."""


@dataclass(frozen=True)
class WhyView:
    """Why a job is not running."""

    id: str
    state: str
    sentence: str
    executor: str
    limits: Sequence[str]
    next_run_time: datetime | None
    processes: int
    """How many processes fire the jobs of its store and have its executor."""


@dataclass(frozen=True)
class FireTime:
    """A fire time to come."""

    at: datetime
    offset: str
    zone: str
    clock_changes: bool
    """Whether the offset is another one than that of the time before."""


@dataclass(frozen=True)
class ChangeView:
    """What became of the jobs or runs that were named."""

    changed: Sequence[str]
    unchanged: Sequence[str]
    failed: Mapping[str, str]
    """Id → why nothing was done."""
    undo_id: str | None = None
    """Of a pause: what ``resume_jobs(pause_id=…)`` takes to resume exactly these jobs."""
    run_ids: Mapping[str, str] | None = None
    """Of ``run_jobs``: job id → the id of its run."""


@dataclass(frozen=True)
class EditView:
    """A job that was edited, or would be."""

    id: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    """Only what differs."""
    etag: str | None
    done: bool


@dataclass(frozen=True)
class NextView:
    """A job whose next run is not as its schedule says, once."""

    id: str
    before: datetime | None
    """When it was to run next."""
    next_run_time: datetime | None


@dataclass(frozen=True)
class BulkPreview:
    """What an act on many jobs would touch."""

    ticket: str
    """Start the act with it, within ten minutes."""
    act: str
    filters: Mapping[str, Any]
    count: int
    exact: bool
    examples: Sequence[str]


@dataclass(frozen=True)
class BulkView:
    """An act on many jobs."""

    id: str
    act: str
    filters: Mapping[str, Any]
    by: str
    reason: str
    state: str
    jobstore: str
    started_at: datetime
    changed: int
    unchanged: int
    refused: int
    reasons: Mapping[str, str]
