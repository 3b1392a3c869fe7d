"""The metrics of one scheduler: its own counters, and what its stores tell."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from goscheduler.runs.tally import MARK, Tally
from goscheduler.telemetry import catalog
from goscheduler.telemetry.families import Family, Sample, families_of_counters, families_of_process
from goscheduler.telemetry.looks import Kept, Schedules, cluster_families, marks_in, schedules_of
from goscheduler.telemetry.prometheus import prometheus_text

if TYPE_CHECKING:
    from goscheduler.ops.source import Source
    from goscheduler.schedulers.base import BaseScheduler


class Metrics:
    """The metrics of one scheduler, which counts by schedule and task from now on.

    ``ids`` names jobs that are to be told of one by one although no registry has them. With ``cluster``, the numbers of
    all processes that share its stores are there too. Every name begins with ``namespace``, if there is one.
    """

    def __init__(
        self, scheduler: BaseScheduler, *, ids: Iterable[str] = (), cluster: bool = False, namespace: str = ""
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._prefix = f"{namespace}_" if namespace else ""
        self._kept = Kept(scheduler)
        self._ids = tuple(ids)
        self._marks: set[str] = set()
        if not scheduler.engine.observing:
            start_counting(scheduler, self._ids)

    def text(self) -> str:
        """Return the metrics as Prometheus reads them."""
        return prometheus_text(self.families(), self._prefix)

    def families(self) -> list[Family]:
        """Return the metrics that have numbers."""
        scheduler = self._scheduler
        tally = scheduler.engine.statistics.tallied()
        found = self._families_of_stores(tally)
        if tally is not None:
            found += [*families_of_counters(tally), *families_of_process(scheduler)]
        return _in_order(found)

    def _families_of_stores(self, tally: Tally | None) -> list[Family]:
        marks = self._known_marks(tally)
        schedules = cast("Schedules", self._kept.get("schedules", lambda: self._look(marks)))
        found = list(schedules.families)
        if self._cluster:
            found += cast("list[Family]", self._kept.get("cluster", lambda: cluster_families(self._scheduler)))
        return found

    def _look(self, marks: Iterable[str]) -> Schedules:
        schedules = schedules_of(self._scheduler, sorted(marks), self._ids)
        if schedules.alive is not None:
            self._scheduler.engine.statistics.tallied(schedules.alive)
        return schedules

    def _known_marks(self, tally: Tally | None) -> set[str]:
        """Return the tags of the registries that are known: of what was run, of what is declared, of what is there."""
        declared = {f"{MARK}{name}" for name in self._scheduler.engine.registries}
        seen = tally.marks if tally is not None else set()
        if self._cluster:
            seen = seen | cast("set[str]", self._kept.get("marks", lambda: marks_in(self._scheduler)))
        self._marks |= seen | declared
        return self._marks


class ClusterMetrics(Metrics):
    """The metrics of whoever looks in from outside: those of all processes together, and its own if it runs jobs."""

    def __init__(self, source: Source, *, namespace: str = "") -> None:
        super().__init__(source.scheduler, cluster=True, namespace=namespace)


def start_counting(scheduler: BaseScheduler, ids: Iterable[str] = ()) -> None:
    """Have a scheduler count by schedule and task from now on; ``ids`` are counted one by one beside the others."""
    engine = scheduler.engine
    if engine.tally is None:
        engine.tally = Tally(ids)
    else:
        engine.tally.ids.update(ids)


def metrics_text(scheduler: BaseScheduler) -> str:
    """Return the metrics of a scheduler as Prometheus reads them, for a route of your own.

    The scheduler counts from the first call on, so make one before it starts.
    """
    with _making:
        metrics = _metrics_of.get(scheduler)
        if metrics is None:
            metrics = _metrics_of[scheduler] = Metrics(scheduler)
    return metrics.text()


_metrics_of: WeakKeyDictionary[BaseScheduler, Metrics] = WeakKeyDictionary()
_making = threading.Lock()


def _in_order(families: Iterable[Family]) -> list[Family]:
    """Return one family for each metric, in the order of the catalog.

    What a store says of a schedule goes before what this process has counted, unless that is newer.
    """
    merged: dict[str, dict[tuple[str, ...], Sample]] = {}
    for metric, samples in families:
        known = merged.setdefault(metric.name, {})
        for sample in samples:
            before = known.get(sample.labels)
            known[sample.labels] = sample if before is None else _newer(before, sample)
    return [Family(metric, list(merged[metric.name].values())) for metric in catalog.METRICS if merged.get(metric.name)]


def _newer(one: Sample, other: Sample) -> Sample:
    if isinstance(one.value, float) and isinstance(other.value, float):
        return max(one, other, key=lambda sample: cast("float", sample.value))
    return other
