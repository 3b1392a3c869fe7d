"""Blackouts: jobs that come due meanwhile are held back or left out, in every process, and everybody is told why."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import HoldingExecutor
from lease_doubles import LEASE, Cluster
from rows import each_row

from goscheduler.errors import InvalidArgument
from goscheduler.observer import Observer
from goscheduler.runs.blackouts import Blackout, plan_in_blackout, read_blackout
from goscheduler.runs.limits import Ledger
from goscheduler.runs.plan import ConcurrencyState
from goscheduler.testing import ManualClock, ManualScheduler

NOW = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "sqlite"])
def scheduler(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    stores = {} if request.param == "memory" else {"jobstores": {"default": url}, "lease": 2_592_000}
    with ManualScheduler(clock=ManualClock(NOW), **stores) as scheduler:
        yield scheduler


def told(scheduler, job_id="a"):
    """Return what the history has of a job: hour and minute of the fire time, end, reason."""
    return [
        (f"{each.scheduled_at:%H:%M}", each.outcome.value, each.reason)
        for each in sorted(scheduler.runs(job_id), key=lambda each: (each.finished_at, each.scheduled_at))
    ]


def test_a_job_that_is_held_back_fires_once_at_the_end_and_is_on_its_schedule_again(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""], misfire_grace_time=1)
    scheduler.add_blackout("30m", NOW + 3.5 * HOUR, reason="database moves")
    scheduler.advance("2h")
    assert scheduler.why("a") == (
        "It is not due until 2026-01-10 15:30:00 UTC; blackout until 2026-01-10 15:30 UTC: database moves."
    )
    scheduler.advance("3h")
    held = "held by a blackout until 2026-01-10 15:30 UTC: database moves"
    ran = [(time, "succeeded", "") for time in ("15:30", "16:00", "17:00")]
    assert told(scheduler) == [("13:00", "snoozed", held), *ran]


def test_one_that_does_not_coalesce_runs_for_each_of_its_times_at_the_end(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""], coalesce=False, max_instances=9)
    scheduler.add_blackout(None, NOW + 3.5 * HOUR)
    scheduler.advance("3h20m")
    assert scheduler.runs("a") == []
    scheduler.advance("1h")
    assert [time for time, outcome, _ in told(scheduler) if outcome == "succeeded"] == [
        "13:00", "14:00", "15:00", "16:00",
    ]  # fmt: skip


def test_what_is_left_out_is_recorded_with_the_reason(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""])
    scheduler.add_job(print, "date", run_date=NOW + HOUR, id="once", args=[""])
    scheduler.add_blackout(None, "2h30m", action="skip", reason="stocktaking")
    scheduler.advance("3h")
    why = "blackout until 2026-01-10 14:30 UTC: stocktaking"
    assert told(scheduler) == [("13:00", "skipped", why), ("14:00", "skipped", why), ("15:00", "succeeded", "")]
    assert told(scheduler, "once") == [("13:00", "skipped", why)]


def test_times_in_a_blackout_that_is_over_are_left_out_by_who_was_away_meanwhile(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""])
    scheduler.add_blackout(None, "2h30m", action="skip")
    scheduler.clock.advance("4h10m")
    scheduler.run_due()
    (skipped,) = [each for each in scheduler.runs("a") if each.outcome.value == "skipped"]
    assert skipped.fire_times == 2
    assert [time for time, outcome, _ in told(scheduler) if outcome == "succeeded"] == ["16:00"]


def test_they_are_so_too_if_the_job_was_due_before_it_began_and_a_coalesced_run_is_for_another_time(scheduler):
    for job_id, coalesce in (("a", False), ("b", True)):
        scheduler.add_job(
            print, "interval", hours=1, id=job_id, args=[""], coalesce=coalesce, max_instances=20,
            next_run_time=NOW + HOUR,
        )  # fmt: skip
    scheduler.add_blackout("90m", "4h30m", action="skip", reason="stocktaking")
    scheduler.clock.advance("4h50m")
    scheduler.run_due()
    (skipped,) = [each for each in scheduler.runs("a") if each.outcome.value == "skipped"]
    assert (skipped.fire_times, skipped.reason) == (3, "blackout until 2026-01-10 16:30 UTC: stocktaking")
    for job_id in "ab":
        assert [each[0] for each in told(scheduler, job_id) if each[1] == "succeeded"] == ["13:00"]
    scheduler.advance("1h")
    assert [each[0] for each in told(scheduler) if each[1] == "succeeded"] == ["13:00", "17:00"]


def test_it_is_about_the_jobs_that_are_meant_and_no_others(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""], tags=["billing"])
    scheduler.add_job(print, "interval", hours=1, id="b", args=[""], tags=["reports"])
    scheduler.add_job(print, "interval", hours=1, id="c", args=[""])
    scheduler.add_blackout(None, "2h", tag="billing")
    scheduler.add_blackout(None, "2h", job_id="c", action="skip")
    scheduler.advance("90m")
    assert [[outcome for _, outcome, _ in told(scheduler, job_id)] for job_id in "abc"] == [
        ["snoozed"], ["succeeded"], ["skipped"],
    ]  # fmt: skip


def test_a_blackout_that_is_removed_lets_go_what_it_holds(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""])
    blackout = scheduler.add_blackout(None, "10h")
    scheduler.advance("90m")
    scheduler.remove_blackout(blackout.id)
    scheduler.advance("30m")
    assert [time for time, outcome, _ in told(scheduler) if outcome == "succeeded"] == ["13:30", "14:00"]
    assert scheduler.blackouts() == []
    with pytest.raises(InvalidArgument, match="no blackout"):
        scheduler.remove_blackout(blackout.id)


@pytest.mark.parametrize("remover", ["a third process", "one of them"])
def test_a_blackout_that_is_removed_elsewhere_lets_go_whichever_process_fires_next(tmp_path, remover):
    clock, url = ManualClock(NOW), f"sqlite:///{tmp_path / 'jobs.db'}"
    first, second = (
        ManualScheduler(clock=clock, jobstores={"default": url}, lease=2_592_000) for _ in range(2)
    )
    with first, second:
        second.register("note", print)
        first.register("note", print)
        first.add_job("note", "interval", hours=1, id="a", args=[""])
        blackout = first.add_blackout(None, "6h")
        second.run_due()
        clock.advance("61m")
        first.run_due()
        assert first.get_job("a").next_run_time == NOW + 6 * HOUR
        other = ManualScheduler(clock=clock, jobstores={"default": url}) if remover == "a third process" else first
        if other is not first:
            other.start(only_adds=True)
        other.remove_blackout(blackout.id)
        second.run_due()
        assert second.get_job("a").next_run_time == NOW + 2 * HOUR
        assert [time for time, outcome, _ in told(first) if outcome == "succeeded"] == ["13:01"]
        if other is not first:
            other.shutdown()


def test_what_is_put_off_while_a_blackout_is_removed_or_by_a_remover_that_dies_is_let_go(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""])
    blackout = scheduler.add_blackout(None, "6h")
    store = scheduler.engine.stores["default"]
    fire = store.fire_due
    scheduler.run_due()
    scheduler.clock.advance("61m")
    store.fire_due = lambda request: (store.remove_note("blackout", blackout.id), fire(request))[1]
    scheduler.run_due()
    assert {each[:2] for each in told(scheduler)} == {("13:00", "snoozed"), ("13:01", "succeeded")}


def test_a_job_that_comes_at_the_end_of_a_blackout_by_its_schedule_is_not_let_go(scheduler):
    scheduler.add_job(print, "cron", hour=18, id="a", args=[""])
    scheduler.add_job(print, "interval", hours=3, id="b", args=[""])
    blackout = scheduler.add_blackout(None, "6h")
    scheduler.advance("4h")
    scheduler.remove_blackout(blackout.id)
    scheduler.run_due()
    store, engine = scheduler.engine.stores["default"], scheduler.engine
    engine.blackouts._let_go("default", store, blackout)  # as another process does that hears of it later
    scheduler.advance("1h")
    assert told(scheduler, "a") == []
    assert [each[:2] for each in told(scheduler, "b")] == [("15:00", "snoozed"), ("16:00", "succeeded")]
    scheduler.advance("1h")
    assert [time for time, _, _ in told(scheduler, "a")] == ["18:00"]


def test_a_blackout_whose_end_is_no_moment_in_some_zone_harms_no_job():
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        job = scheduler.add_job(print, "cron", hour=21, timezone="Asia/Tokyo")
    end = datetime(9999, 12, 31, 23, 59, tzinfo=timezone.utc)
    plan = plan_in_blackout(job, NOW, ConcurrencyState(0, 0, 1, Ledger()), Blackout("b", NOW, end), lambda: "r")
    assert plan.next_run_time == end


def test_every_process_goes_by_it_one_that_starts_later_too_and_an_observer_sees_it(tmp_path):
    cluster = Cluster()
    first = cluster.join(HoldingExecutor())
    first.add_job(print, "interval", seconds=LEASE * 2, id="a")
    second = cluster.join(HoldingExecutor())
    second.run_due()
    blackout = first.add_blackout(None, timedelta(seconds=LEASE * 9), reason="freeze")
    first.shutdown()
    cluster.members.remove(first)
    cluster.advance(LEASE * 3)
    third = cluster.join(HoldingExecutor())
    third.run_due()
    assert [each.reason for each in second.runs("a")] == [f"held by a {blackout.explain()}"]
    assert third.blackouts() == [blackout]
    for member in (second, third):
        member.shutdown()
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with ManualScheduler(clock=ManualClock(), jobstores={"default": url}, lease=2_592_000) as scheduler:
        kept = scheduler.add_blackout("2090-01-01", "2090-01-02", reason="jubilee")
        with Observer(url) as observer:
            assert observer.blackouts() == [kept]


@each_row(
    ("given", "field", "message"),
    [
        ({"end": "2026-01-01"}, "end", "in the future"),
        ({"start": "3h"}, "end", "after start"),
        ({"end": "9999-12-31 23:59"}, "end", "must not lie after 9999-12-29 23:59 UTC"),
        ({"end": None}, "end", "got None"),
        ({"start": "soon"}, "start", "start"),
        ({"action": "hodl"}, "action", "did you mean 'hold'"),
        ({"action": 3}, "action", "one of hold, skip"),
        ({"tag": ""}, "tag", "a tag of jobs"),
        ({"reason": "a\nb"}, "reason", "printable"),
        ({"reason": "x" * 501}, "reason", "at most 500"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(given, field, message):
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        with pytest.raises(InvalidArgument, match=message) as caught:
            scheduler.add_blackout(**{"start": None, "end": "2h", **given})
        assert (caught.value.field, scheduler.blackouts()) == (field, [])


def test_a_note_that_nobody_understands_is_left_out():
    blackout = Blackout("b", NOW, NOW + HOUR, tag="x", reason="ä")
    assert read_blackout(blackout.text) == blackout
    assert [read_blackout(text) for text in ("", "3", "[]", "{}", '{"start": 3}')] == [None] * 5
