"""Figures: what was fired and how it ended, minute by minute, counted by each process and added up by who asks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import FaultyMemoryStore, note
from lease_doubles import BegunExecutor, Cluster, SharedStore
from retry_doubles import play

from goscheduler.errors import InvalidArgument
from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, Settlement
from goscheduler.runs.stats import BOUNDS, COUNTERS, STEPS, Figures, Histogram, read_figures, total_of
from goscheduler.testing import ManualScheduler

NOW = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)


def counted(stats):
    """Return what was counted at all."""
    return {name: number for name, number in total_of(stats).counts.items() if number}


# Pure


def ended(seconds=0.0, late=0.0, kind=OutcomeKind.SUCCEEDED, **more):
    run = Run("run", ManualScheduler().add_job(note, args=["x"]), NOW, NOW, "owner", 1)
    outcome = Outcome(kind, started_at=NOW + timedelta(seconds=late), seconds=seconds)
    return Settlement(Attempt(run, outcome, NOW), **more)


@pytest.mark.parametrize(("seconds", "step"), [
    (0, 0), (0.0009, 0), (0.001, 1), (0.0019, 1), (0.002, 2), (1.0, 10), (3600, 22), (16_000, 24), (17_000, 25),
    (10**9, 25),
])  # fmt: skip
def test_a_time_is_counted_in_the_step_that_has_it(seconds, step):
    figures = Figures()
    figures.add_ends([ended(seconds, seconds)])
    stats = figures.of(0, 60)
    assert stats.duration.steps.index(1) == stats.lateness.steps.index(1) == step
    assert len(stats.duration.steps) == STEPS
    assert step == 0 or seconds >= BOUNDS[step - 1]
    assert step == STEPS - 1 or seconds < BOUNDS[step]


def test_who_begins_early_by_a_clock_that_was_set_is_not_late():
    figures = Figures()
    figures.add_ends([ended(late=-5.0)])
    assert figures.lateness[0] == 1


def test_a_share_of_the_times_is_told_as_closely_as_the_steps_are():
    figures = Figures()
    figures.add_ends([ended(0.0015)] * 98 + [ended(5.0)] * 2)
    took = figures.of(0, 60).duration
    assert took.count == 100
    assert 0.001 <= took.p50 <= 0.002
    assert 0.001 <= took.p95 <= 0.002
    assert 4.096 <= took.p99 <= 8.192
    assert Histogram().p95 is None


def test_figures_are_the_same_when_they_come_back_from_a_note():
    figures = Figures()
    figures.add_ends([ended(0.5), ended(0.5, kind=OutcomeKind.TIMED_OUT, dead="no more")])
    again = read_figures(figures.text)
    assert again.of(0, 60) == figures.of(0, 60)
    assert again.counts["timed_out"] == again.counts["dead"] == again.counts["succeeded"] == 1


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "null", '{"counts":{"fired":"x"},"late":{},"took":{}}', '{"counts":{},"late":{"5":"x"},"took":{}}',
    '{"counts":{},"late":5,"took":{}}',
    '{"counts":7,"late":{},"took":{}}',
])  # fmt: skip
def test_a_note_that_is_none_of_figures_is_left_out(text):
    assert read_figures(text) is None


def test_what_a_newer_version_counts_is_left_out():
    figures = read_figures('{"counts":{"fired":2,"dreamt":9},"late":{},"took":{},"colour":"red"}')
    assert figures.of(0, 60).counts["fired"] == 2
    assert set(figures.of(0, 60).counts) == set(COUNTERS)


# One process


def test_what_was_fired_and_how_it_ended_is_counted(scheduler):
    scheduler.add_job(note, "interval", minutes=1, args=["x"], id="well")
    scheduler.add_job(play, "interval", minutes=2, args=[ValueError("no"), "well"], id="again", retry=2)
    scheduler.advance("10m")
    stats = scheduler.stats(minutes=20)
    assert counted(stats)["fired"] == 15
    assert counted(stats)["succeeded"] + counted(stats).get("failed", 0) == counted(stats)["started"]
    assert counted(stats)["claimed"] == counted(stats)["retried"] > 0
    assert [each.start for each in stats] == sorted(each.start for each in stats)
    assert len(stats) == 20
    assert all(each.seconds == 60 for each in stats)
    assert stats[-1].start == scheduler.clock.now()


def test_each_minute_has_what_happened_in_it(scheduler):
    scheduler.add_job(note, "interval", minutes=5, args=["x"], id="job")
    scheduler.advance("11m")
    fired = {each.start.minute for each in scheduler.stats(minutes=11) if each.counts["fired"]}
    assert fired == {5, 10}


def test_what_was_missed_or_skipped_is_counted_with_all_its_times():
    with ManualScheduler(executors={"default": BegunExecutor()}) as scheduler:
        scheduler.add_job(note, "interval", minutes=1, id="busy")
        scheduler.advance("3m")
        scheduler.add_job(note, "interval", minutes=1, id="late", misfire_grace_time=1, coalesce=False)
        scheduler.pause()
        scheduler.clock.advance("1h")
        scheduler.resume()
        scheduler.run_due()
        found = counted(scheduler.stats(minutes=90))
        assert found["skipped"] >= 2
        assert found["missed"] >= 59


def test_spans_of_ten_minutes_tell_the_same_as_the_minutes(scheduler):
    scheduler.add_job(note, "interval", minutes=1, args=["x"], id="job")
    scheduler.advance("95m")
    tens = scheduler.stats(since="20h")
    assert {each.seconds for each in tens} == {600}
    assert counted(tens) == counted(scheduler.stats(since="2h")) == {"fired": 95, "started": 95, "succeeded": 95}


def test_a_minute_is_one_note_and_goes_after_its_time(scheduler):
    scheduler.add_job(note, "interval", minutes=1, args=["x"], id="job")
    store = scheduler.engine.stores["default"]
    scheduler.advance("10m")
    assert 8 <= len(store.notes("stats-1m")) <= 10
    scheduler.advance("20h")
    assert len(store.notes("stats-1m", limit=10_000)) <= 8 * 60 + 2
    assert 118 <= len(store.notes("stats-10m", limit=10_000)) <= 122
    scheduler.advance("80h")
    assert len(store.notes("stats-10m", limit=10_000)) <= 72 * 6 + 2


def test_figures_that_could_not_be_written_are_written_later():
    store = FaultyMemoryStore()
    put = store.put_note
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(note, "interval", minutes=1, args=["x"], id="job")

        def refuse(*args, **options):
            raise ConnectionError("no")

        store.put_note = refuse
        scheduler.advance("5m")
        assert counted(scheduler.stats()) == {"fired": 5, "started": 5, "succeeded": 5}
        assert store.notes("stats-1m") == []
        store.put_note = put
        scheduler.advance("5m")
        assert counted(scheduler.stats()) == {"fired": 10, "started": 10, "succeeded": 10}
        assert len(store.notes("stats-1m")) >= 8


def test_what_an_executor_reports_that_cannot_be_counted_stops_nothing():
    executor = BegunExecutor()
    with ManualScheduler(executors={"default": executor}) as scheduler:
        scheduler.add_job(note, "interval", minutes=1, id="job")
        scheduler.advance("1m")
        scheduler.report(executor.held.pop(), Outcome(OutcomeKind.SUCCEEDED, started_at=NOW, seconds=float("inf")))
        scheduler.run_due()
        assert [record.job_id for record in scheduler.runs()] == ["job"]
        scheduler.advance("1m")
        assert counted(scheduler.stats())["fired"] == 2


@pytest.mark.parametrize(("options", "field"), [
    ({"minutes": 0}, "minutes"), ({"minutes": 72 * 60 + 1}, "minutes"), ({"minutes": True}, "minutes"),
    ({"minutes": "5"}, "minutes"), ({"since": "soon"}, "since"), ({"until": 5}, "until"),
    ({"since": "1h", "until": "2h"}, "since"),
])  # fmt: skip
def test_times_that_make_no_sense_are_refused(scheduler, options, field):
    with pytest.raises(InvalidArgument) as error:
        scheduler.stats(**options)
    assert error.value.field == field


def test_a_scheduler_that_is_stopped_has_empty_figures():
    stats = ManualScheduler().stats(minutes=5)
    assert len(stats) == 5
    assert counted(stats) == {}


# Several processes


@pytest.fixture(params=[True, False], ids=["minutes", "tens"])
def cluster(request):
    cluster = Cluster()
    cluster.store.keeps_minutes = request.param
    yield cluster
    for member in cluster.members:
        member.shutdown()


def test_the_figures_of_all_processes_are_added_up_at_every_moment(cluster):
    first, second = cluster.join(), cluster.join()
    first.add_job(note, "interval", seconds=20, args=["x"], id="job")
    for _ in range(75):
        cluster.advance(10, step=10)
        records = len(first.runs(limit=1000))
        assert counted(second.stats()).get("succeeded", 0) <= records
    cluster.advance(60, step=7.5)
    cluster.clock.advance(0.5)
    records = len(first.runs(limit=1000))
    for member in (first, second):
        member.engine.leases.renew_all()  # so that the reports tell of this moment
    assert records == 40
    for member in (first, second):
        assert counted(member.stats())["succeeded"] == records
        assert counted(member.stats(since="12h"))["succeeded"] == records


def test_the_figures_of_a_process_that_has_ended_stay(cluster):
    first, second = cluster.join(), cluster.join()
    first.add_job(note, "interval", seconds=20, args=["x"], id="job")
    cluster.advance(130, step=5)
    cluster.members.remove(second)
    second.shutdown()
    cluster.advance(40, step=5)
    cluster.members[0].engine.leases.renew_all()
    assert counted(first.stats())["succeeded"] == len(first.runs()) == 8
    assert counted(first.stats(since="12h"))["succeeded"] == 8


def test_a_store_whose_writes_are_dear_gets_ten_minutes_only():
    cluster = Cluster()
    cluster.store.keeps_minutes = False
    member = cluster.join()
    member.add_job(note, "interval", minutes=1, args=["x"], id="job")
    cluster.advance(3600, step=60)
    assert cluster.store.notes("stats-1m") == []
    assert len(cluster.store.notes("stats-10m")) in (5, 6)
    stats = member.stats(minutes=120)
    assert {each.seconds for each in stats} == {600}
    assert counted(stats)["fired"] == 60
    member.shutdown()


def test_a_lost_run_is_counted_by_who_takes_it_over():
    cluster = Cluster()
    first, second = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    first.add_job(note, "interval", hours=1, id="job")
    cluster.clock.advance(3600)
    first.run_due()
    cluster.kill(first)
    cluster.advance(60, step=5)
    assert counted(second.stats())["lost"] == 1
    assert isinstance(cluster.store, SharedStore)
    second.shutdown(wait=False)
