"""A span for each attempt, linked to who added the job, to the attempt before it, and to the run that had died.

Jobs and runs carry the context in their metadata, as texts of the W3C: ``traceparent`` and ``tracestate`` of who added
them, and ``goscheduler.attempt`` of the attempt before. A link, not a parent: a job that fires for years would make one
trace without an end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from opentelemetry import context as otel_context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from goscheduler._version import __version__
from goscheduler.errors import described
from goscheduler.executors.around import Around, End
from goscheduler.executors.context import attempt_key
from goscheduler.logs import guarded_logger
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.times import to_micros
from goscheduler.triggers.cron import CronTrigger

if TYPE_CHECKING:
    from goscheduler.executors.context import CurrentRun
    from goscheduler.runs.model import Outcome, Run
    from goscheduler.schedulers.base import BaseScheduler

#: What a run carries of the attempt before it.
ATTEMPT = "goscheduler.attempt"
#: Of so many attempts it is remembered which span they had.
MOST_REMEMBERED = 10_000

_FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST})
_Key = TypeVar("_Key")
_propagator = TraceContextTextMapPropagator()
_logger = guarded_logger("goscheduler.telemetry")


class Tracing:
    """Encloses the attempts of one scheduler in spans, and has what it adds carry the context."""

    def __init__(self, scheduler: BaseScheduler, provider: TracerProvider | None = None) -> None:
        self._engine = scheduler.engine
        self._tracer = get_tracer("goscheduler", __version__, provider)
        self._ended: dict[tuple[str, int], SpanContext] = {}
        self._last: dict[str, SpanContext] = {}
        """Run id → the span of its last attempt in this process."""
        self._lock = threading.Lock()
        self._engine.arounds = (self, *self._engine.arounds)
        self._engine.carrier = self

    def remove(self) -> None:
        """Begin no more spans."""
        self._engine.arounds = tuple(around for around in self._engine.arounds if around is not self)
        if self._engine.carrier is self:
            self._engine.carrier = None

    # What encloses an attempt. Nothing here may cost a run.

    def begin(self, run: Run, started_at: datetime) -> End:
        try:
            span = self._tracer.start_span(
                run.job.func_ref or run.job.name, otel_context.Context(), SpanKind.CONSUMER,
                attributes_of(run, started_at), self._links(run), to_micros(started_at) * 1000,
            )  # fmt: skip
            self._remember(run, span.get_span_context())
            token = otel_context.attach(set_span_in_context(span))
        except Exception as error:
            _logger.warning("Run %s has no span: %s", run.id, described(error), extra={"run_id": run.id})
            return _nothing_to_end
        return partial(_end, span, token)

    def for_child(self, run: Run) -> Around | None:
        carried = _current_context()
        return AttachedContext(carried) if carried else None

    def enclose(self, run: CurrentRun) -> None:
        """The span encloses what the executor does as well, so it begins and ends further out."""

    # What jobs and runs carry.

    def context(self) -> Mapping[str, str]:
        return _current_context()

    def passed_on(self, run: Run) -> Mapping[str, str]:
        span = self._ended.get(attempt_key(run))
        return {} if span is None else {ATTEMPT: _text_of(span)}

    def names_of(self, run: Run) -> Mapping[str, str]:
        span = self._ended.get(attempt_key(run))
        if span is None:
            return {}
        return {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}

    def _links(self, run: Run) -> list[Link]:
        links = []
        carried = dict(run.job.options.metadata)
        adder = _context_of(carried)
        if adder is not None:
            links.append(Link(adder, {"scheduler.link": "added"}))
        # What the store has kept goes before what this process remembers: it may be of another process, and newer.
        before = _context_of({"traceparent": carried.get(ATTEMPT, "")}) or self._last.get(run.id)
        if before is not None:
            what = "dead_run" if run.source is Source.REDRIVE else "previous_attempt"
            links.append(Link(before, {"scheduler.link": what}))
        return links

    def _remember(self, run: Run, span: SpanContext) -> None:
        if not span.is_valid:
            return
        with self._lock:
            self._ended[attempt_key(run)] = self._last[run.id] = span
            _forget_oldest(self._ended)
            _forget_oldest(self._last)


class AttachedContext(NamedTuple):
    """Lets code in a child process see the span of its parent, whose texts these are."""

    carried: Mapping[str, str]

    def begin(self, run: Run, started_at: datetime) -> End:
        otel_context.attach(_propagator.extract(self.carried))
        return _nothing_to_end

    def for_child(self, run: Run) -> Around | None:
        return None

    def enclose(self, run: CurrentRun) -> None:
        """The function sees the span by its context."""


def attributes_of(run: Run, started_at: datetime) -> dict[str, str | int | float]:
    """Return the attributes of the span of an attempt."""
    job = run.job
    return {
        **dict(_attributes_of_trigger(run)),
        "messaging.system": "goscheduler",
        "messaging.operation.type": "process",
        "messaging.message.id": run.id,
        "scheduler.job.id": job.id,
        "scheduler.run.id": run.id,
        "scheduler.attempt": run.attempt,
        "scheduler.source": run.source.value,
        "scheduler.lateness": (started_at - run.due_at).total_seconds(),
        "scheduler.executor": job.executor,
    }


def _attributes_of_trigger(run: Run) -> Iterator[tuple[str, str]]:
    yield "faas.time", run.scheduled_at.isoformat()
    if run.source is not Source.MANUAL:
        yield "faas.trigger", "timer"
        if isinstance(run.job.trigger, CronTrigger):
            yield "faas.cron", str(run.job.trigger)


def _end(span: Span, token: object, outcome: Outcome) -> None:
    try:
        span.set_attribute("scheduler.outcome", outcome.kind.value)
        if outcome.kind in _FAILURES:
            _tell_of_failure(span, outcome)
        elif outcome.reason:
            span.set_attribute("scheduler.reason", outcome.reason)
        span.end()
        otel_context.detach(token)  # type: ignore[arg-type]
    except Exception as error:
        _logger.warning("A span could not be ended: %s", described(error))


def _tell_of_failure(span: Span, outcome: Outcome) -> None:
    error = outcome.error
    text = outcome.reason if error is None else described(error)
    span.set_attribute("error.type", outcome.kind.value if error is None else type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, text))
    if error is not None:
        frames = f"{outcome.traceback}{text}"
        span.add_event("exception", {
            "exception.type": type(error).__qualname__, "exception.message": text, "exception.stacktrace": frames,
        })  # fmt: skip


def _nothing_to_end(outcome: Outcome) -> None:
    """There is no span."""


def _current_context() -> dict[str, str]:
    carried: dict[str, str] = {}
    if get_current_span().get_span_context().is_valid:
        _propagator.inject(carried)
    return carried


def _context_of(carried: Mapping[str, str]) -> SpanContext | None:
    if not carried.get("traceparent"):
        return None
    span = get_current_span(_propagator.extract(carried, otel_context.Context())).get_span_context()
    return span if span.is_valid else None


def _text_of(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _forget_oldest(known: dict[_Key, SpanContext]) -> None:
    if len(known) > MOST_REMEMBERED:
        for key in list(known)[: MOST_REMEMBERED // 10]:
            del known[key]
