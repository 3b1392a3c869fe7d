"""Metrics as the parser of Prometheus reads them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from goscheduler import Retry, fixed
from goscheduler.events import EVENT_LEASE_LOST
from goscheduler.messages import Message, MessageScheduler
from goscheduler.observer import Observer
from goscheduler.ops.source import Source
from goscheduler.periodic import Schedule, ScheduleRegistry
from goscheduler.runs.stats import BOUNDS
from goscheduler.runs.tally import MOST_SERIES, OTHER
from goscheduler.telemetry import ClusterMetrics, Metrics, metrics_text
from goscheduler.telemetry.catalog import METRICS, Kind
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.transports.callable import CallableTransport

Samples = Callable[[str], Any]


def tick() -> None:
    pass


def crash() -> None:
    raise ValueError("no luck")


def _labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _registry() -> ScheduleRegistry:
    registry = ScheduleRegistry("app")
    registry.register(Schedule(id="nightly", cron="0 2 * * *", job="app.tick"))
    return registry


def test_a_schedule_counts_under_its_id_and_everything_else_under_its_task(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler)
    scheduler.register("app.tick", tick)
    scheduler.sync(_registry())
    with scheduler:
        scheduler.add_job("app.tick", "interval", hours=1, id="by-hand")
        scheduler.advance("48h")
        found = samples(metrics.text())
        runs = found["scheduler_runs_total"]
        assert runs[_labels(schedule_id="nightly", status="succeeded")] == 2
        assert runs[_labels(schedule_id="app.tick", status="succeeded")] == 48
        next_run = scheduler.get_job("nightly").next_run_time.timestamp()
        assert found["scheduler_next_run_timestamp"] == {_labels(schedule_id="nightly"): next_run}
        assert _labels(schedule_id="nightly") in found["scheduler_last_run_timestamp"]


def test_a_job_that_is_named_counts_under_its_id(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["by-hand"])
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="by-hand")
        scheduler.add_job(tick, "interval", hours=1, id="not-named")
        scheduler.advance("1h")
        found = samples(metrics.text())
    names = {dict(labels)["schedule_id"] for labels in found["scheduler_runs_total"]}
    assert "by-hand" in names
    assert "not-named" not in names
    assert len(names) == 2


def test_a_paused_schedule_has_no_next_run(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler)
    scheduler.register("app.tick", tick)
    scheduler.sync(_registry())
    with scheduler:
        scheduler.pause_job("nightly")
        assert "scheduler_next_run_timestamp" not in samples(metrics.text())


def test_failures_retries_and_missed_fire_times_are_counted(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["fails", "late"])
    with scheduler:
        scheduler.add_job(crash, id="fails", retry=Retry(max_attempts=3, backoff=fixed(1)))
        scheduler.add_job(
            tick, "interval", minutes=1, id="late", misfire_grace_time=1, coalesce=False, max_instances=9
        )
        scheduler.advance(10)
        scheduler.pause()
        scheduler.advance("5m")
        scheduler.resume()
        scheduler.advance(0)
        found = samples(metrics.text())
    assert found["scheduler_runs_total"][_labels(schedule_id="fails", status="failed")] == 3
    assert found["scheduler_retries_total"][_labels(schedule_id="fails")] == 2
    missed = found["scheduler_missed_total"][_labels(schedule_id="late", reason="missed")]
    assert missed == 5
    assert found["scheduler_runs_total"][_labels(schedule_id="late", status="missed")] == missed


def test_a_histogram_has_all_steps_and_each_counts_those_before_it(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["a"])
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.advance("3h")
        found = samples(metrics.text())
    buckets = found["scheduler_run_duration_seconds_bucket"]
    steps = [buckets[_labels(schedule_id="a", le=f"{bound:g}")] for bound in BOUNDS]
    assert steps == sorted(steps)
    assert buckets[_labels(schedule_id="a", le="+Inf")] == 3
    assert found["scheduler_run_duration_seconds_count"][_labels(schedule_id="a")] == 3
    assert found["scheduler_run_lateness_seconds_sum"][_labels(schedule_id="a")] == 0


def test_every_name_of_the_catalog_is_what_the_parser_expects_of_its_kind() -> None:
    assert len({metric.name for metric in METRICS}) == len({metric.instrument for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name


def test_labels_are_escaped(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=['a "quoted" \\ name'])
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1, id='a "quoted" \\ name')
        scheduler.advance("1h")
        found = samples(metrics.text())
    assert found["scheduler_runs_total"][_labels(schedule_id='a "quoted" \\ name', status="succeeded")] == 1


def test_a_thousand_series_are_kept_and_what_comes_after_them_counts_as_other(
    samples: Samples, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "goscheduler")  # a thousand tracebacks take their time
    scheduler = ManualScheduler()
    ids = [f"job-{number}" for number in range(MOST_SERIES + 200)]
    metrics = Metrics(scheduler, ids=ids)
    with scheduler:
        scheduler.add_jobs([{"func": tick if number % 2 else crash, "id": name} for number, name in enumerate(ids)])
        scheduler.advance(1)
        scheduler.add_jobs([{"func": crash if number % 2 else tick, "id": name} for number, name in enumerate(ids)])
        scheduler.advance(1)
        found = samples(metrics.text())
    runs = found["scheduler_runs_total"]
    assert sum(runs.values()) == 2 * len(ids)
    for name in ("scheduler_runs_total", "scheduler_retries_total", "scheduler_run_duration_seconds_count"):
        assert len(found[name]) <= MOST_SERIES
        assert any(dict(labels)["schedule_id"] == OTHER for labels in found[name])


def test_a_schedule_that_is_gone_is_forgotten_an_hour_later(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["a"])
    with scheduler:
        scheduler.add_job(tick, "interval", minutes=1, id="a")
        scheduler.advance("2m")
        scheduler.remove_job("a")
        assert _labels(schedule_id="a", status="succeeded") in samples(metrics.text())["scheduler_runs_total"]
        scheduler.advance("59m")
        assert _labels(schedule_id="a", status="succeeded") in samples(metrics.text())["scheduler_runs_total"]
        scheduler.advance("2m")
        metrics.text()  # it looks
        assert "scheduler_runs_total" not in samples(metrics.text())


def test_a_schedule_that_is_there_and_does_not_fire_is_kept(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["a"])
    with scheduler:
        scheduler.add_job(tick, "interval", hours=24, id="a")
        scheduler.advance("25h")
        for _ in range(3):
            scheduler.advance("2h")
            assert _labels(schedule_id="a", status="succeeded") in samples(metrics.text())["scheduler_runs_total"]


def test_messages_are_counted_by_event(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, cluster=True)
    refused = {"refused"}

    def publish(event: str, message: Any) -> None:
        if event in refused:
            raise ConnectionError("no route")

    with scheduler:
        messages = MessageScheduler(
            scheduler=scheduler, transport=CallableTransport(publish), max_retries=2, backoff=1, jitter=0, workers=0
        )
        messages.start()
        messages.schedule(Message("sent", "x"))
        messages.schedule_after(60, "sent", "x")
        messages.schedule_after(3600, "sent", "x")
        messages.schedule(Message("refused", "x"))
        scheduler.advance("10m")
        found = samples(metrics.text())
        messages.stop()
    sent, refused_event = _labels(event="sent"), _labels(event="refused")
    assert found["scheduled_messages_total"][sent] == 3
    assert found["scheduled_messages_delivered_total"][sent] == 2
    assert found["schedule_delivery_delay_seconds_count"][sent] == 2
    failures = {dict(labels)["reason"]: count for labels, count in found["scheduled_messages_failed_total"].items()}
    attempts = found["schedule_processing_duration_seconds_count"][refused_event]
    assert sum(failures.values()) == attempts == found["scheduled_messages_rescheduled_total"][refused_event] + 1
    assert found["scheduled_messages_dlq_total"][refused_event] == 1
    assert found["scheduled_messages_pending"][_labels(name="messages", store="default")] == 1
    assert found["scheduled_messages_stuck"][_labels(name="messages", store="default")] == 0


def test_a_namespace_goes_before_every_name() -> None:
    scheduler = ManualScheduler()
    text = Metrics(scheduler, namespace="billing").text()
    assert "billing_scheduler_build_info" in text
    assert "\nscheduler_" not in text


def test_an_observer_tells_of_the_cluster_and_keeps_it_for_a_while(
    samples: Samples, sqlite_url: str, running: Callable[..., Any]
) -> None:
    scheduler = running(jobstores={"default": sqlite_url})
    scheduler.register("app.tick", tick)
    scheduler.sync(_registry())
    scheduler.start()
    scheduler.add_job(tick, "interval", hours=1, id="waits")
    scheduler.add_job(tick, "interval", hours=1, id="paused", next_run_time=None)
    with Observer(sqlite_url) as observer:
        metrics = ClusterMetrics(Source(observer))
        found = samples(metrics.text())
        jobs = {dict(labels)["state"]: number for labels, number in found["scheduler_jobs"].items()}
        assert (jobs["scheduled"], jobs["paused"]) == (2, 1)
        assert found["scheduler_dead_letters"][_labels(store="default")] == 0
        assert found["scheduler_oldest_due_seconds"][_labels(store="default")] == 0
        assert sum(found["scheduler_processes"].values()) == 1
        assert _labels(schedule_id="nightly") in found["scheduler_next_run_timestamp"]
        assert "scheduler_runs_total" not in found
        scheduler.remove_job("waits")
        assert samples(metrics.text()) == found


def test_a_store_that_does_not_answer_costs_its_numbers_and_nothing_else(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = ManualScheduler()
    metrics = Metrics(scheduler, ids=["a"], cluster=True)
    with scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.advance("1h")

        def fail(*_: Any) -> None:
            raise ConnectionError("gone")

        for name in ("find_jobs", "lookup_job", "count_jobs"):
            monkeypatch.setattr(scheduler.engine.stores["default"], name, fail)
        found = samples(metrics.text())
        assert found["scheduler_runs_total"][_labels(schedule_id="a", status="succeeded")] == 1
        assert "scheduler_jobs" not in found


def test_counters_go_on_when_a_scheduler_is_started_again(samples: Samples) -> None:
    scheduler = ManualScheduler()
    metrics_text(scheduler)
    for _ in range(2):
        scheduler.start()
        scheduler.add_job(tick, id="once")
        scheduler.advance(1)
        scheduler.shutdown()
    assert sum(samples(metrics_text(scheduler))["scheduler_runs_total"].values()) == 2


def test_a_result_that_the_store_refuses_is_a_lock_failure(
    samples: Samples, sqlite_url: str, running: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running(jobstores={"default": sqlite_url})
    metrics = Metrics(scheduler, ids=["a"])
    scheduler.start(paused=True)
    monkeypatch.setattr(scheduler.engine.stores["default"], "settle", lambda settlements: list(settlements))
    recorder = EventRecorder(scheduler)
    scheduler.add_job(tick, id="a")
    scheduler.resume()
    recorder.wait_for(EVENT_LEASE_LOST)
    scheduler.shutdown()
    assert samples(metrics.text()).get("scheduler_lock_failures_total") == {_labels(schedule_id="a"): 1}


