"""Every metric that there is: its name in Prometheus, its instrument in OpenTelemetry, its labels and its meaning."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(str, Enum):
    """What can be done with the numbers of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Origin(str, Enum):
    """Who knows the numbers."""

    PROCESS = "process"
    """The process that runs the jobs, about itself."""
    STORES = "stores"
    """Whoever can read the job stores: the numbers are about all processes together."""


class Metric(NamedTuple):
    """One metric."""

    name: str
    """In Prometheus."""
    kind: Kind
    labels: tuple[str, ...]
    instrument: str
    """Its name in OpenTelemetry, from which an exporter to Prometheus makes ``name``."""
    unit: str
    help: str
    origin: Origin = Origin.PROCESS


C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
S = Origin.STORES

RUNS = Metric(
    "scheduler_runs_total", C, ("schedule_id", "status"), "scheduler.runs", "",
    "Attempts that have ended and fire times that were not run, by outcome.",
)  # fmt: skip
DURATION = Metric(
    "scheduler_run_duration_seconds", H, ("schedule_id",), "scheduler.run.duration", "s",
    "How long attempts took.",
)  # fmt: skip
LATENESS = Metric(
    "scheduler_run_lateness_seconds", H, ("schedule_id",), "scheduler.run.lateness", "s",
    "How long after they were due attempts began.",
)  # fmt: skip
LAST_RUN = Metric(
    "scheduler_last_run_timestamp", G, ("schedule_id",), "scheduler.last_run.timestamp", "",
    "When the last attempt began, in seconds since 1970.",
)  # fmt: skip
NEXT_RUN = Metric(
    "scheduler_next_run_timestamp", G, ("schedule_id",), "scheduler.next_run.timestamp", "",
    "When the schedule fires next, in seconds since 1970; absent while it is paused or suspended.", S,
)  # fmt: skip
LOCK_FAILURES = Metric(
    "scheduler_lock_failures_total", C, ("schedule_id",), "scheduler.lock_failures", "",
    "Results that a job store has refused because another process has the run by now.",
)  # fmt: skip
RETRIES = Metric(
    "scheduler_retries_total", C, ("schedule_id",), "scheduler.retries", "",
    "Attempts that failed and are followed by another one.",
)  # fmt: skip
MISSED = Metric(
    "scheduler_missed_total", C, ("schedule_id", "reason"), "scheduler.missed", "",
    "Fire times that were not run: missed, later than the grace time; skipped, because others were running.",
)  # fmt: skip
RUNS_LIVE = Metric(
    "scheduler_runs_live", G, ("executor", "state"), "scheduler.runs.live", "",
    "Runs that this process has, queued or running.",
)  # fmt: skip
LEASE_LEFT = Metric(
    "scheduler_lease_seconds_left", G, ("store",), "scheduler.lease_seconds_left", "",
    "For how many seconds the lease of this process lasts if it is not renewed.",
)  # fmt: skip
STORE_CALLS = Metric(
    "scheduler_store_call_seconds", H, ("store", "call"), "scheduler.store.call", "s",
    "How long the calls took that fire, claim, settle and renew.",
)  # fmt: skip
STORE_ERRORS = Metric(
    "scheduler_store_errors_total", C, ("store",), "scheduler.store_errors", "",
    "Calls of a job store that raised an error.",
)  # fmt: skip
BUILD_INFO = Metric(
    "scheduler_build_info", G, ("version",), "scheduler.build.info", "",
    "Always 1; the label tells the version of goscheduler.",
)  # fmt: skip

SCHEDULED = Metric(
    "scheduled_messages_total", C, ("event",), "scheduled_messages", "",
    "Messages that this process has scheduled.",
)  # fmt: skip
DELIVERED = Metric(
    "scheduled_messages_delivered_total", C, ("event",), "scheduled_messages.delivered", "",
    "Messages that were published.",
)  # fmt: skip
FAILED = Metric(
    "scheduled_messages_failed_total", C, ("event", "reason"), "scheduled_messages.failed", "",
    "Attempts to publish that failed, by the type of the error.",
)  # fmt: skip
CANCELLED = Metric(
    "scheduled_messages_cancelled_total", C, ("event",), "scheduled_messages.cancelled", "",
    "Messages that were cancelled after they were due.",
)  # fmt: skip
RECOVERED = Metric(
    "scheduled_messages_recovered_total", C, ("event",), "scheduled_messages.recovered", "",
    "Messages that were taken over from a process that was lost.",
)  # fmt: skip
DLQ = Metric(
    "scheduled_messages_dlq_total", C, ("event",), "scheduled_messages.dlq", "",
    "Messages that became dead letters.",
)  # fmt: skip
RESCHEDULED = Metric(
    "scheduled_messages_rescheduled_total", C, ("event",), "scheduled_messages.rescheduled", "",
    "Messages that are tried again later.",
)  # fmt: skip
DELAY = Metric(
    "schedule_delivery_delay_seconds", H, ("event",), "schedule.delivery.delay", "s",
    "How long after they were due messages were published.",
)  # fmt: skip
PROCESSING = Metric(
    "schedule_processing_duration_seconds", H, ("event",), "schedule.processing.duration", "s",
    "How long an attempt to publish took.",
)  # fmt: skip
PENDING = Metric(
    "scheduled_messages_pending", G, ("store", "name"), "scheduled_messages.pending", "",
    "Messages that wait for their time, by the name of their scheduler.", S,
)  # fmt: skip
STUCK = Metric(
    "scheduled_messages_stuck", G, ("store", "name"), "scheduled_messages.stuck", "",
    "Messages that a process took and has not published for five minutes.", S,
)  # fmt: skip

JOBS = Metric(
    "scheduler_jobs", G, ("store", "state"), "scheduler.jobs", "",
    "Jobs in the stores by state, at most 10,000 of each.", S,
)  # fmt: skip
OLDEST_DUE = Metric(
    "scheduler_oldest_due_seconds", G, ("store",), "scheduler.oldest_due", "s",
    "For how long the job that is due for longest has been due; 0 if none is due.", S,
)  # fmt: skip
DEAD_LETTERS = Metric(
    "scheduler_dead_letters", G, ("store",), "scheduler.dead_letters", "",
    "Dead letters, at most 10,000.", S,
)  # fmt: skip
LIMIT_IN_USE = Metric(
    "scheduler_limit_in_use", G, ("store", "limit"), "scheduler.limit.in_use", "",
    "Live runs that count under a limit.", S,
)  # fmt: skip
LIMIT_WAITING = Metric(
    "scheduler_limit_waiting", G, ("store", "limit"), "scheduler.limit.waiting", "",
    "Runs that wait because of a limit.", S,
)  # fmt: skip
PROCESSES = Metric(
    "scheduler_processes", G, ("store", "state"), "scheduler.processes", "",
    "Processes that share a store and are alive.", S,
)  # fmt: skip
CLOCK_SKEW = Metric(
    "scheduler_clock_skew_seconds", G, ("store",), "scheduler.clock_skew", "s",
    "How far the clocks of the processes of a store differ, as far as can be told.", S,
)  # fmt: skip

METRICS = (
    RUNS, DURATION, LATENESS, LAST_RUN, NEXT_RUN, LOCK_FAILURES, RETRIES, MISSED, RUNS_LIVE, LEASE_LEFT, STORE_CALLS,
    STORE_ERRORS, BUILD_INFO, SCHEDULED, DELIVERED, FAILED, CANCELLED, RECOVERED, DLQ, RESCHEDULED, DELAY, PROCESSING,
    PENDING, STUCK, JOBS, OLDEST_DUE, DEAD_LETTERS, LIMIT_IN_USE, LIMIT_WAITING, PROCESSES, CLOCK_SKEW,
)  # fmt: skip
