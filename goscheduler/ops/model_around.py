"""What the other operations return, those on what is around the jobs; see :mod:`goscheduler.ops.model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from goscheduler.ops.model import CountView, FireTime, JobRow, LetterGroupView, Page


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
class LimitRun:
    """A run that counts under a limit, or waits for it."""

    run_id: str
    job_id: str
    since: datetime | None
    """Since when it runs, or waits; None if that is not known here."""
    host: str
    pid: int
    """The process that has it; empty and 0 while it waits."""


@dataclass(frozen=True)
class LimitView:
    """What is used of a limit."""

    name: str
    jobstore: str
    live: int
    waiting: int
    starts: Mapping[str, int]
    """Length of a window in seconds → how many runs started within the window that ends now."""
    concurrency: int | None = None
    """The highest figure that the jobs give that were looked at; None if there is none, or nobody has asked."""
    rates: Sequence[str] = ()
    holders: Sequence[LimitRun] | None = None
    queue: Sequence[LimitRun] | None = None
    """Who holds it and who waits for it, for longest first; None if nobody has asked."""


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
class FiringRow:
    """A job that fires within a stretch of time."""

    id: str
    jobstore: str | None
    executor: str
    schedule: str
    first: datetime
    firings: int


@dataclass(frozen=True)
class Firings:
    """What fires within a stretch of time."""

    items: Sequence[FiringRow]
    jobs: int
    """So many jobs fire in it."""
    complete: bool
    """False if there were too many jobs to look at all of them."""


@dataclass(frozen=True)
class StoreView:
    """A job store."""

    alias: str
    kind: str
    address: str
    """Its URL without secrets; empty if it was made of no URL."""


@dataclass(frozen=True)
class About:
    """What answers, and whom."""

    version: str
    timezone: str
    stores: Sequence[StoreView]
    read_only: bool
    name: str
    role: str
    """Who asks, and as what."""
    only_stores: Sequence[str] | None
    only_tags: Sequence[str] | None
    """What they may see; None for everything."""
    see_arguments: bool


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
class CheckView:
    """One thing that a check of health has looked at."""

    name: str
    status: str
    """"healthy", "degraded" or "unhealthy"."""
    message: str
    """Why it is not healthy; empty if it is."""


@dataclass(frozen=True)
class HealthView:
    """How goscheduler fares, for probes."""

    status: str
    """The worst of all checks: "healthy", "degraded" or "unhealthy"."""
    message: str
    latency_ms: float
    """How long the slowest store took to answer."""
    pending: int | None
    """How many jobs wait for their time, counted up to 10,000; None if a store did not answer."""
    stuck: int | None
    """How many runs should have begun, or ended, long ago."""
    details: Mapping[str, str]
    checked_at: datetime
    checks: Sequence[CheckView]


@dataclass(frozen=True)
class AlertView:
    """Where an alert stands about one target."""

    id: str
    alert: str
    rule: str
    target: str
    state: str
    """"ok", "pending" or "firing"."""
    message: str
    since: datetime
    """Since when it is in this state."""
    told_at: datetime | None
    """When a notice became due last, while it fires."""
    acknowledged_by: str | None
    acknowledged_until: datetime | None
    """None if it is acknowledged for as long as it fires, or not at all."""
    acknowledge_reason: str | None
    silenced_by: str | None
    silenced_until: datetime | None
    silence_reason: str | None
    not_sent: int
    """How many notices wait to be sent."""


@dataclass(frozen=True)
class SilenceView:
    """For how long nothing is told of an alert."""

    id: str
    """The name of the alert, or the id of one of its targets."""
    by: str
    reason: str
    until: datetime | None
    """None if it has ended."""


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
    status: str
    """"done", "failed", or "unknown" if the process was lost meanwhile."""
    outcome: Any
    """What came of it; of one that failed, why."""
    jobstore: str
    address: str = ""
    """Where the request came from; empty if it came from no network, as those of the command line."""


@dataclass(frozen=True)
class AuditView:
    """A page of the audit."""

    items: Sequence[AuditEntry]
    next: str | None
    gaps: Sequence[str]
    """Ids of entries whose predecessor is missing: it was taken away, or its process was lost while it wrote."""
    complete: bool = True
    """False if a search gave up before the page was full; it goes on at ``next``."""


@dataclass(frozen=True)
class RecurrenceView:
    """When a message comes again."""

    interval: float | None
    """Seconds between two deliveries; None if a crontab line says when."""
    cron: str | None
    timezone: str
    max_occurrences: int | None
    until: datetime | None


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
    created_at: datetime | None
    """None if an earlier version stored it."""
    retries: int
    """How many attempts at this delivery have failed."""
    recurrence: RecurrenceView | None
    occurrences: int
    """How many times of its recurrence lie before the one that it waits for."""


@dataclass(frozen=True)
class MessagePage(Page[MessageRow]):
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
    words: str = ""
    """When it fires, as it is declared."""


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
