"""Instruments and spans, as a real SDK of OpenTelemetry receives them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import traced_node
import warm
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from goscheduler import ProcessPoolExecutor, Retry, ThreadPoolExecutor, fixed
from goscheduler.errors import InvalidArgument
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_EXECUTED
from goscheduler.messages import Message, MessageScheduler
from goscheduler.telemetry import Metrics, instrument
from goscheduler.telemetry.catalog import METRICS, STORE_CALLS, Kind, Metric
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.transports.callable import CallableTransport

ROOT = Path(__file__).resolve().parent.parent.parent
NODE = Path(traced_node.__file__)


class Traces:
    """A provider whose spans stay in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name, the oldest first."""
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.attributes.get("scheduler.attempt", 0))


class Numbers:
    """A provider whose metrics are read by hand."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def read(self) -> dict[str, Any]:
        """Return instrument → points."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
def numbers() -> Iterator[Numbers]:
    made = Numbers()
    yield made
    made.provider.shutdown()


def _id(span: Any) -> str:
    return f"{span.context.span_id:016x}"


def _links(span: ReadableSpan) -> dict[str, str]:
    return {str(link.attributes["scheduler.link"]): f"{link.context.span_id:016x}" for link in span.links}


def tick() -> None:
    pass


def fail() -> None:
    raise ConnectionError("no route")


async def current_of_coroutine() -> str:
    return traced_node.current()


# Instruments


def test_instruments_yield_the_names_of_prometheus(numbers: Numbers) -> None:
    """An exporter to Prometheus writes dots as underscores and appends the unit, and ``_total`` to counters."""
    units = {"s": "_seconds", "": ""}

    def exported(metric: Metric) -> str:
        end = "_total" if metric.kind is Kind.COUNTER else ""
        return f"{metric.instrument.replace('.', '_')}{units[metric.unit]}{end}"

    assert {metric.name: exported(metric) for metric in METRICS} == {
        metric.name: metric.name for metric in METRICS
    }  # fmt: skip


def test_counters_gauges_and_histograms_reach_the_sdk(numbers: Numbers) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, numbers.provider, traces=False, ids=["a"], cluster=True)
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.advance("3h")
        found = numbers.read()
    [runs] = found["scheduler.runs"].data.data_points
    assert (dict(runs.attributes), runs.value) == ({"schedule_id": "a", "status": "succeeded"}, 3)
    assert found["scheduler.runs"].data.is_monotonic
    [times] = found["scheduler.run.duration"].data.data_points
    assert (dict(times.attributes), times.count) == ({"schedule_id": "a"}, 3)
    assert found["scheduler.run.duration"].unit == "s"
    assert {point.attributes["state"] for point in found["scheduler.jobs"].data.data_points} >= {"scheduled", "paused"}
    assert "scheduler.next_run.timestamp" in found


def test_opentelemetry_and_prometheus_are_told_the_same(numbers: Numbers) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, numbers.provider, traces=False)
    metrics = Metrics(scheduler)
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1)
        scheduler.add_job(fail, retry=Retry(max_attempts=2, backoff=fixed(1)))
        scheduler.advance("3h")
        read = {name for name, metric in numbers.read().items() if metric.data.data_points}
        told = {family.metric.instrument for family in metrics.families() if family.samples}
    assert read == told - {STORE_CALLS.instrument}


def test_histograms_can_be_left_out_and_names_can_have_a_namespace(numbers: Numbers) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, numbers.provider, traces=False, histograms=False, namespace="billing")
    with scheduler:
        scheduler.add_job(tick)
        scheduler.advance(1)
        found = numbers.read()
    assert "billing.scheduler.runs" in found
    assert all(name.startswith("billing.") for name in found)
    assert "billing.scheduler.run.duration" not in found


def test_what_was_removed_tells_nothing_more(numbers: Numbers, traces: Traces) -> None:
    scheduler = ManualScheduler()
    told = instrument(scheduler, numbers.provider, traces.provider)
    told.remove()
    with scheduler:
        scheduler.add_job(tick)
        scheduler.advance(1)
    assert [name for name, metric in numbers.read().items() if metric.data.data_points] == []
    assert traces.spans(f"{__name__}:tick") == []


def test_a_scheduler_is_instrumented_once_until_that_is_removed(traces: Traces) -> None:
    scheduler = ManualScheduler()
    told = instrument(scheduler, tracer_provider=traces.provider)
    with pytest.raises(InvalidArgument, match="already"):
        instrument(scheduler)
    told.remove()
    instrument(scheduler, tracer_provider=traces.provider).remove()


# Spans


def test_the_span_of_an_attempt_tells_what_it_is(traces: Traces) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    scheduler.register("app.tick", tick)
    with scheduler:
        scheduler.add_job("app.tick", "cron", hour=2, id="nightly")
        scheduler.advance("24h")
        [record] = scheduler.runs("nightly")
    [span] = traces.spans("app.tick")
    assert span.kind is SpanKind.CONSUMER
    assert span.parent is None
    attributes = dict(span.attributes)
    assert attributes.pop("faas.cron")
    assert attributes == {
        "faas.trigger": "timer", "faas.time": record.scheduled_at.isoformat(), "messaging.system": "goscheduler",
        "messaging.operation.type": "process", "messaging.message.id": record.run_id, "scheduler.job.id": "nightly",
        "scheduler.run.id": record.run_id, "scheduler.attempt": 1, "scheduler.source": "schedule",
        "scheduler.lateness": 0.0, "scheduler.executor": "default", "scheduler.outcome": "succeeded",
    }  # fmt: skip


def test_a_failure_is_an_error_of_the_span_with_its_exception(traces: Traces) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    with scheduler:
        scheduler.add_job(fail, id="a")
        scheduler.advance(1)
    [span] = traces.spans(f"{__name__}:fail")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ConnectionError"
    [event] = span.events
    assert event.name == "exception"
    assert "in fail" in event.attributes["exception.stacktrace"]


def test_a_span_is_linked_to_who_added_the_job_and_to_the_attempt_before_it(traces: Traces) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    with scheduler:
        with traces.tracer.start_as_current_span("request") as request:
            scheduler.add_job(fail, id="a", retry=Retry(max_attempts=2, backoff=fixed(1)), metadata={"tenant": "x"})
        assert scheduler.get_job("a").metadata["tenant"] == "x"
        scheduler.advance(10)
        [letter] = scheduler.dead_letters("a")
        scheduler.redrive(letter.run.id)
        scheduler.advance(1)
    first, second, redriven = traces.spans(f"{__name__}:fail")
    assert _links(first) == {"added": _id(request)}
    assert _links(second) == {"added": _id(request), "previous_attempt": _id(first)}
    assert _links(redriven) == {"added": _id(request), "dead_run": _id(second)}
    assert len({span.context.trace_id for span in (request, first, second, redriven)}) == 4


def test_a_run_by_hand_is_linked_to_who_asked_for_it(traces: Traces) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    with scheduler:
        scheduler.add_job(tick, "interval", hours=24, id="a")
        with traces.tracer.start_as_current_span("click") as click:
            scheduler.run_now("a")
        scheduler.advance("25h")
    links = {span.attributes["scheduler.source"]: _links(span) for span in traces.spans(f"{__name__}:tick")}
    assert links == {"manual": {"added": _id(click)}, "schedule": {}}


def test_metadata_of_the_defaults_stays_and_what_has_no_room_is_left_out(traces: Traces) -> None:
    scheduler = ManualScheduler(job_defaults={"metadata": {"tenant": "x"}})
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    with scheduler, traces.tracer.start_as_current_span("request"):
        assert set(scheduler.add_job(tick, "interval", hours=1).metadata) == {"tenant", "traceparent"}
        full = {"name": "x" * 4090}
        assert scheduler.add_job(tick, "interval", hours=1, metadata=full).metadata == full


def test_every_executor_calls_the_function_inside_of_its_span(traces: Traces, running: Callable[..., Any]) -> None:
    executors = {"default": ThreadPoolExecutor(1), "children": ProcessPoolExecutor(1)}
    scheduler = running(executors=executors)
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    for executor in executors:
        scheduler.add_job(traced_node.current, id=executor, executor=executor)
    scheduler.add_job(current_of_coroutine, id="coroutine")
    seen = {job: recorder.wait_for(EVENT_JOB_EXECUTED, job).retval for job in ("default", "children", "coroutine")}
    scheduler.shutdown()
    spans = traces.spans("traced_node:current") + traces.spans(f"{__name__}:current_of_coroutine")
    assert {str(span.attributes["scheduler.job.id"]): _id(span) for span in spans} == seen


def test_a_coroutine_on_the_loop_is_inside_of_its_span_and_its_neighbours_are_not(traces: Traces) -> None:
    import asyncio

    from goscheduler import AsyncIOScheduler

    async def main() -> tuple[dict[str, str], str]:
        scheduler = AsyncIOScheduler(timezone="UTC")
        instrument(scheduler, tracer_provider=traces.provider, metrics=False)
        ended: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        scheduler.add_listener(lambda event: loop.call_soon_threadsafe(ended.put_nowait, event), EVENT_JOB_EXECUTED)
        scheduler.start()
        for name in ("a", "b"):
            scheduler.add_job(current_of_coroutine, id=name)
        events = [await asyncio.wait_for(ended.get(), 60) for _ in range(2)]
        outside = f"{get_current_span().get_span_context().span_id:016x}"
        await scheduler.aio.shutdown()
        return {event.job_id: event.retval for event in events}, outside

    seen, outside = asyncio.run(main())
    spans = traces.spans(f"{__name__}:current_of_coroutine")
    assert {str(span.attributes["scheduler.job.id"]): _id(span) for span in spans} == seen
    assert outside == "0" * 16


def test_a_message_carries_the_context_of_who_scheduled_it_to_its_receiver(traces: Traces) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    received: list[Any] = []
    with scheduler:
        transport = CallableTransport(lambda event, message: received.append(message))
        messages = MessageScheduler(scheduler=scheduler, transport=transport, workers=0)
        messages.start()
        with traces.tracer.start_as_current_span("order") as order:
            messages.schedule(Message("sent", "x", {"tenant": "x"}))
        scheduler.advance(1)
        messages.stop()
    [message] = received
    assert message.metadata["tenant"] == "x"
    assert message.metadata["traceparent"].split("-")[2] == _id(order)
    assert message.headers()["traceparent"] == message.metadata["traceparent"]
    [span] = traces.spans("goscheduler.messages")
    assert _links(span) == {"added": _id(order)}


def test_what_fails_in_a_tracer_costs_a_line_and_no_run(traces: Traces, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    [tracing] = scheduler.engine.arounds

    class Broken:
        def start_span(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("no spans today")

    tracing._tracer = Broken()
    with scheduler:
        scheduler.add_job(tick, id="a")
        scheduler.advance(1)
        [record] = scheduler.runs("a")
    assert record.outcome.value == "succeeded"
    assert "no spans today" in caplog.text


# Two processes


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_links_cross_from_process_to_process(
    kind: str, url_of: Callable[[str], str], traces: Traces, running: Callable[..., Any]
) -> None:
    """This process adds and has the first attempt, another one has the second, and that of the dead letter."""
    url = url_of(kind)
    scheduler = running(jobstores={"default": url})
    scheduler.register("traced.fail", traced_node.fail)
    instrument(scheduler, tracer_provider=traces.provider, metrics=False)
    scheduler.start()
    recorder = EventRecorder(scheduler)
    with traces.tracer.start_as_current_span("request") as request:
        scheduler.add_job("traced.fail", id="a", retry=Retry(max_attempts=1, backoff=fixed(1)))
    recorder.wait_for(EVENT_JOB_DEAD_LETTERED, "a")
    scheduler.pause()
    [letter] = scheduler.dead_letters("a")
    node = warm.start(
        "-u", str(NODE), url, stdin=warm.PIPE, stdout=warm.PIPE, text=True, cwd=NODE.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
        scheduler.redrive(letter.run.id)
        span = json.loads(node.stdout.readline())
    finally:
        assert node.stdin is not None
        node.stdin.close()
        node.wait()
        assert node.stdout is not None
        node.stdout.close()
    [first] = traces.spans("traced.fail")
    assert span["attributes"]["scheduler.attempt"] == 2
    assert dict(span["links"]) == {"added": _id(request), "dead_run": _id(first)}
    assert span["span"] != _id(first)


