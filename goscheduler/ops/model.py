"""What operations return: plain values under the names that JSON has, in the order in which people read them.

None stands for "there is none". What cannot be known from here is said where it can be mistaken for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class JobRow:
    """A job in a list."""

    id: str
    name: str
    state: str
    next_run_time: datetime | None
    trigger: str
    suspended: str | None
    jobstore: str | None
    executor: str
    task: str | None
    tags: Sequence[str]
    priority: int | None
    last_outcome: str | None
    last_run: datetime | None
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

    schedule: str
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
    last_error: str | None
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
class Page:
    """A part of a list."""

    items: Sequence[Any]
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
class ExecutorUseView:
    """How much an executor of a process has to do; None where that is not known."""

    alias: str
    running: int | None
    room: int | None


@dataclass(frozen=True)
class RunningView:
    """A run that a process executes."""

    run_id: str
    job_id: str
    started_at: datetime
    progress: float | None
    progress_note: str


@dataclass(frozen=True)
class ProcessView:
    """A process that shares a store."""

    owner: str
    jobstore: str
    host: str
    pid: int
    state: str | None
    """None if the process does not tell: it is of an older version, or has just begun."""
    version: str | None
    started_at: datetime | None
    expires_at: datetime | None
    reported_at: datetime | None
    executors: Sequence[ExecutorUseView]
    tasks: Sequence[str]
    runs: Sequence[RunningView]
    all_runs: bool
    """Whether all of its running runs are listed."""


@dataclass(frozen=True)
class LimitView:
    """What is used of a limit."""

    name: str
    jobstore: str
    live: int
    waiting: int
    starts: Mapping[str, int]
    """Length of a window in seconds → how many runs started within the window that ends now."""


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


@dataclass(frozen=True)
class Bucket:
    """What fires within one stretch of time."""

    start: datetime
    firings: int
    by_executor: Mapping[str, int]
    jobs: int
    clock_changes: bool
    """Whether a clock is put forward or back within it, in the zone of the answer."""


@dataclass(frozen=True)
class Forecast:
    """What fires when."""

    buckets: Sequence[Bucket]
    jobs: int
    """So many jobs were looked at."""
    complete: bool
    """False if there were too many jobs or times to look at all of them: then the counts are too low."""


@dataclass(frozen=True)
class TriggerView:
    """What a trigger means."""

    trigger: str
    schedule: str
    times: Sequence[FireTime]


@dataclass(frozen=True)
class Finding:
    """One thing that the doctor has looked at."""

    check: str
    verdict: str
    """"ok", "warning", "problem" or "unknown"."""
    message: str
    jobstore: str | None = None


@dataclass(frozen=True)
class AuditEntry:
    """Who did what."""

    id: str
    at: datetime
    actor: str
    role: str
    via: str
    operation: str
    arguments: Mapping[str, Any]
    reason: str
    result: str
    """"done", "failed", or "unknown" if the process was lost meanwhile."""
    outcome: Any
    """What came of it; of one that failed, why."""
    jobstore: str


@dataclass(frozen=True)
class AuditView:
    """A page of the audit."""

    items: Sequence[AuditEntry]
    next: str | None
    gaps: Sequence[str]
    """Ids of entries whose predecessor is missing: it was taken away, or its process was lost while it wrote."""


@dataclass(frozen=True)
class MessageRow:
    """A message that has not been delivered."""

    id: str
    event_name: str
    payload: str
    payload_is_base64: bool
    """Whether the payload is no text, and so given in this way."""
    content_type: str
    metadata: Mapping[str, str]
    scheduled_at: datetime | None
    state: str
    attempts: int
    last_error: str | None
    recurring: bool
    source: str


@dataclass(frozen=True)
class MessagePage(Page):
    """A part of the list of messages."""

    total: int | None = None
    """How many fit altogether, counted up to 10,000; None if they were not counted."""
    exact: bool = False
    """Whether there are no more than ``total``."""


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule that the program declares, or that it declares no longer."""

    id: str
    declared: bool
    schedule: Any
    state: Any
    """What has become of it; None if no sync has made a job of it."""


@dataclass(frozen=True)
class DocumentRow:
    """A document that has a time."""

    id: str
    sleep_until: datetime
    interval: Any


@dataclass(frozen=True)
class DocumentsView:
    """A collection of documents."""

    collection: str
    due: int
    exact: bool
    """False if more are due than were counted."""
    upcoming: Sequence[DocumentRow]
    malformed: Mapping[str, str]
    """Id → what is wrong."""


@dataclass(frozen=True)
class LockRow:
    """A lock that somebody has."""

    name: str
    fence: int
    until: datetime
    holder: str


@dataclass(frozen=True)
class StatsRow:
    """What happened within a minute, or ten, in all processes together."""

    start: datetime
    seconds: int
    counts: Mapping[str, int]
    lateness: Quantiles
    duration: Quantiles


@dataclass(frozen=True)
class Quantiles:
    """So many seconds a share of all did not exceed; None if there were none."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True)
class Overview:
    """How goscheduler fares, on one page."""

    counts: Mapping[str, int]
    """Of the last hour: what was fired, and how it ended."""
    lateness: Quantiles
    duration: Quantiles
    live: int
    processes: int
    jobs: CountView
    failing: CountView
    """Jobs whose last attempt failed."""
    paused: CountView
    suspended: CountView
    oldest_due: datetime | None
    """Since when the job that has waited longest has been due; None if none is."""
    top_failing: Sequence[LetterGroupView]
    next_jobs: Sequence[JobRow]
