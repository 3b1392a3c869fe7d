"""Metrics with their numbers, as Prometheus and OpenTelemetry both read them: made of the counters of this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from goscheduler._version import __version__
from goscheduler.telemetry import catalog
from goscheduler.telemetry.catalog import Metric

if TYPE_CHECKING:
    from goscheduler.runs.tally import MessageLine, Tally, Times
    from goscheduler.schedulers.base import BaseScheduler


class Sample(NamedTuple):
    """One number, or for a histogram many times, under values of the labels."""

    labels: tuple[str, ...]
    value: float | Times


class Family(NamedTuple):
    """One metric with all of its samples."""

    metric: Metric
    samples: list[Sample]


_OF_MESSAGES = {
    "scheduled": catalog.SCHEDULED, "delivered": catalog.DELIVERED, "cancelled": catalog.CANCELLED,
    "recovered": catalog.RECOVERED, "dlq": catalog.DLQ, "rescheduled": catalog.RESCHEDULED,
}  # fmt: skip


def families_of_counters(tally: Tally) -> list[Family]:
    """Return the metrics that are counted run by run."""
    lines = sorted(tally.lines.items())
    return [
        Family(catalog.RUNS, [
            Sample((name, word), number) for name, line in lines for word, number in sorted(line.by_outcome.items())
        ]),
        Family(catalog.DURATION, [Sample((name,), line.duration) for name, line in lines]),
        Family(catalog.LATENESS, [Sample((name,), line.lateness) for name, line in lines]),
        Family(catalog.LAST_RUN, [
            Sample((name,), line.last_run.timestamp()) for name, line in lines if line.last_run is not None
        ]),
        Family(catalog.LOCK_FAILURES, [Sample((name,), line.lock_failures) for name, line in lines]),
        Family(catalog.RETRIES, [Sample((name,), line.retries) for name, line in lines]),
        Family(catalog.MISSED, [
            Sample((name, reason), number) for name, line in lines for reason, number in sorted(line.not_run.items())
        ]),
        Family(catalog.STORE_CALLS, [Sample(key, times) for key, times in sorted(tally.calls.items())]),
        Family(catalog.STORE_ERRORS, [
            Sample((store,), number) for store, number in sorted(tally.store_errors.items())
        ]),
        *_families_of_messages(tally.messages),
    ]  # fmt: skip


def _families_of_messages(messages: Mapping[str, MessageLine]) -> list[Family]:
    lines = sorted(messages.items())
    return [
        *(
            Family(metric, [Sample((event,), line.counts[word]) for event, line in lines])
            for word, metric in _OF_MESSAGES.items()
        ),
        Family(catalog.FAILED, [
            Sample((event, reason), number) for event, line in lines for reason, number in sorted(line.failures.items())
        ]),
        Family(catalog.DELAY, [Sample((event,), line.delay) for event, line in lines]),
        Family(catalog.PROCESSING, [Sample((event,), line.processing) for event, line in lines]),
    ]  # fmt: skip


def families_of_process(scheduler: BaseScheduler) -> list[Family]:
    """Return what this process has in hand at this moment."""
    engine = scheduler.engine
    leases = sorted(engine.leases.seconds_left().items()) if scheduler.running else ()
    return [
        Family(catalog.RUNS_LIVE, list(_live_runs(scheduler)) if scheduler.running else []),
        Family(catalog.LEASE_LEFT, [Sample((alias,), seconds) for alias, seconds in leases]),
        Family(catalog.BUILD_INFO, [Sample((__version__,), 1)]),
    ]


def _live_runs(scheduler: BaseScheduler) -> Iterable[Sample]:
    engine = scheduler.engine
    running = Counter(run.job.executor for run in engine.running.running())
    for alias, executor in sorted(() if engine.observing else engine.executors.items()):
        yield Sample((alias, "running"), running[alias])
        live = executor.live()
        if live is not None:
            yield Sample((alias, "queued"), max(0, live - running[alias]))
