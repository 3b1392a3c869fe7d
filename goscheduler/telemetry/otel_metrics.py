"""The metrics of a scheduler as instruments of OpenTelemetry.

Counters and gauges are observable: they cost nothing until they are exported. Histograms are recorded on the thread
that has written the ends of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation, get_meter

from goscheduler._version import __version__
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.logs import guarded_logger
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.stats import BOUNDS
from goscheduler.runs.tally import DISPATCH, OTHER, OWN_TASKS, Times
from goscheduler.telemetry import catalog
from goscheduler.telemetry.catalog import METRICS, Kind, Metric

if TYPE_CHECKING:
    from goscheduler.runs.model import Settlement
    from goscheduler.schedulers.base import BaseScheduler
    from goscheduler.telemetry.families import Family
    from goscheduler.telemetry.metrics import Metrics

#: What is asked within so many seconds belongs to one export.
SAME_EXPORT_SECONDS = 1.0
#: The histograms that are recorded run by run.
RECORDED = (catalog.DURATION, catalog.LATENESS, catalog.DELAY, catalog.PROCESSING)

_SUCCEEDED = OutcomeKind.SUCCEEDED
_logger = guarded_logger("goscheduler.telemetry")


class Meters:
    """The instruments of one scheduler."""

    def __init__(
        self, scheduler: BaseScheduler, source: Metrics, provider: MeterProvider | None, histograms: bool,
        namespace: str,
    ) -> None:  # fmt: skip
        self._engine = scheduler.engine
        self._source: Metrics | None = source
        self._read: tuple[float, dict[Metric, Family]] = -math.inf, {}
        """When the numbers were read, and what they were: an export asks for each instrument by itself."""
        meter = get_meter("goscheduler", __version__, provider)
        prefix = f"{namespace}." if namespace else ""
        for metric in METRICS:
            if metric.kind is not Kind.HISTOGRAM:
                self._observe(meter, prefix, metric)
        if histograms:
            self._histograms = {metric: _histogram(meter, prefix, metric) for metric in RECORDED}
            self._engine.hears_ends = (*self._engine.hears_ends, self._record)

    def remove(self) -> None:
        """Tell nothing more."""
        self._source = None
        self._engine.hears_ends = tuple(hear for hear in self._engine.hears_ends if hear != self._record)

    def _observe(self, meter: Meter, prefix: str, metric: Metric) -> None:
        create = (
            meter.create_observable_counter if metric.kind is Kind.COUNTER else meter.create_observable_gauge
        )
        create(prefix + metric.instrument, [partial(self._observed, metric)], metric.unit, metric.help)

    def _observed(self, metric: Metric, options: CallbackOptions) -> Iterator[Observation]:
        source, now = self._source, SYSTEM_CLOCK.monotonic()
        if source is None:
            return
        if metric is METRICS[0] or now - self._read[0] > SAME_EXPORT_SECONDS:
            self._read = now, {family.metric: family for family in source.families()}
        found = self._read[1].get(metric)
        if found is not None:
            yield from _observations(found)

    def _record(self, settlements: Sequence[Settlement]) -> None:
        """Record how late attempts began and how long they took; on the thread that settles, which goes on."""
        try:
            for settlement in settlements:
                if settlement.attempt.outcome.started_at is not None:
                    self._record_one(settlement)
        except Exception:
            _logger.exception("The times of %d runs could not be recorded", len(settlements))

    def _record_one(self, settlement: Settlement) -> None:
        run, outcome = settlement.attempt.run, settlement.attempt.outcome
        assert outcome.started_at is not None
        late = max(0.0, (outcome.started_at - run.due_at).total_seconds())
        labels = {"schedule_id": self._name_of(run.job)}
        self._histograms[catalog.DURATION].record(outcome.seconds, labels)
        self._histograms[catalog.LATENESS].record(late, labels)
        task = run.job.task
        if task is not None and task.startswith(OWN_TASKS) and not task.startswith(DISPATCH):
            event = {"event": self._event_of(run.job.name)}
            self._histograms[catalog.PROCESSING].record(outcome.seconds, event)
            if outcome.kind is _SUCCEEDED:
                self._histograms[catalog.DELAY].record(late + outcome.seconds, event)

    def _name_of(self, job: Any) -> str:
        """Return the name under which the counters have the runs of a job, which stand below a bound."""
        tally = self._engine.tally
        name = "" if tally is None else tally.name_of(job)
        return name if tally is not None and name in tally.lines else OTHER

    def _event_of(self, event: str) -> str:
        tally = self._engine.tally
        return event if tally is not None and event in tally.messages else OTHER


def _histogram(meter: Meter, prefix: str, metric: Metric) -> Histogram:
    name = prefix + metric.instrument
    try:
        return meter.create_histogram(name, metric.unit, metric.help, explicit_bucket_boundaries_advisory=BOUNDS)
    except TypeError:  # the API of before 1.31 takes no advice
        return meter.create_histogram(name, metric.unit, metric.help)


def _observations(family: Family) -> Iterator[Observation]:
    names = family.metric.labels
    for labels, value in family.samples:
        if not isinstance(value, Times):
            yield Observation(value, dict(zip(names, labels, strict=True)))
