"""Tells OpenTelemetry of one scheduler: what it counts, how long its runs take, and a span for each attempt.

Only the API is used. Without an SDK that the program has set up, nothing of it goes anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from goscheduler.errors import InvalidArgument
from goscheduler.telemetry.metrics import Metrics
from goscheduler.telemetry.otel_metrics import Meters
from goscheduler.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from goscheduler.schedulers.base import BaseScheduler


class Instrumentation:
    """What :func:`instrument` has set up; :meth:`remove` takes it away."""

    def __init__(self, scheduler: BaseScheduler, meters: Meters | None, tracing: Tracing | None) -> None:
        self._scheduler = ref(scheduler)
        self._parts = [part for part in (meters, tracing) if part is not None]

    def remove(self) -> None:
        """Tell nothing more. Attempts that have begun keep their spans."""
        for part in self._parts:
            part.remove()
        scheduler = self._scheduler()
        if scheduler is not None and _instrumented.get(scheduler) is self:
            del _instrumented[scheduler]


_instrumented: WeakKeyDictionary[BaseScheduler, Instrumentation] = WeakKeyDictionary()


def instrument(
    scheduler: BaseScheduler,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    histograms: bool = True,
    namespace: str = "",
    *,
    metrics: bool = True,
    traces: bool = True,
    ids: Iterable[str] = (),
    cluster: bool = False,
) -> Instrumentation:
    """Tell OpenTelemetry of a scheduler from now on; best before it starts.

    The providers are those of the program if none are given. ``histograms`` are recorded run by run, and everything
    else is read when it is exported. ``namespace`` goes before the names of all instruments. ``ids`` names jobs that
    are told of one by one although no registry has them. With ``cluster``, the numbers of all processes that share the
    stores are told too: one process of them is enough for that.

    :raises InvalidArgument: if the scheduler is instrumented already; everything would be told twice
    """
    if scheduler in _instrumented:
        raise InvalidArgument("scheduler is instrumented already; call remove() of that first", field="scheduler")
    meters = None
    if metrics:
        source = Metrics(scheduler, ids=ids, cluster=cluster)
        meters = Meters(scheduler, source, meter_provider, histograms, namespace)
    tracing = Tracing(scheduler, tracer_provider) if traces else None
    made = _instrumented[scheduler] = Instrumentation(scheduler, meters, tracing)
    return made
