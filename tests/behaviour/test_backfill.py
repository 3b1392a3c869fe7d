"""Backfill: a job is run for its fire times of the past, each of them once, whoever is killed in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import HoldingExecutor
from lease_doubles import BegunExecutor, Cluster
from rows import each_row

from goscheduler import AsyncIOScheduler, BackgroundScheduler, Retry, current_run
from goscheduler.errors import InvalidArgument, JobLookupError, RunLookupError
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.observer import Observer
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.triggers.base import BaseTrigger

NOW = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
DECEMBER = ("2025-12-01", "2026-01-01")


class Report:
    """A job that notes for which times it ran, and fails for some."""

    def __init__(self):
        self.times, self.failing = [], set()

    def __call__(self):
        self.times.append(at := current_run().scheduled_at)
        if at in self.failing:
            raise ValueError("no figures")


@pytest.fixture
def report():
    return Report()


@pytest.fixture
def scheduler(report):
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.register("report", report)
        scheduler.add_job("report", "cron", hour=9, id="a")
        yield scheduler


def days(*numbers):
    return [datetime(2025, 12, number, 9, tzinfo=timezone.utc) for number in numbers]


def test_each_fire_time_runs_once_in_order_and_the_job_sees_it(scheduler, report):
    backfill = scheduler.backfill("a", *DECEMBER)
    assert report.times == []
    scheduler.run_due()
    assert report.times == list(backfill.times) == days(*range(1, 32))
    records = scheduler.runs("a")
    assert {(each.source, each.outcome) for each in records} == {(Source.BACKFILL, OutcomeKind.SUCCEEDED)}
    (progress,) = scheduler.backfills("a")
    assert (progress.id, progress.state, progress.times, progress.ended) == (backfill.id, "done", 31, 31)
    assert scheduler.get_job("a").next_run_time == NOW + timedelta(hours=21), "the schedule has no part in it"


def test_a_dry_run_asks_for_nothing_and_the_newest_may_go_first(scheduler, report):
    shown = scheduler.backfill("a", "2025-12-01", "2025-12-04", dry_run=True)
    assert (shown.times, scheduler.live_runs(), scheduler.backfills()) == (tuple(days(1, 2, 3)), [], [])
    assert scheduler.backfill("a", "2025-12-01", "2025-12-04", newest_first=True).id == shown.id
    scheduler.run_due()
    assert report.times == days(3, 2, 1)


def test_what_ran_is_left_out_and_what_failed_if_that_is_wanted(scheduler, report):
    report.failing.update(days(2, 3))
    scheduler.backfill("a", "2025-12-01", "2025-12-04")
    scheduler.run_due()
    again = scheduler.backfill("a", "2025-12-01", "2025-12-05")
    assert again.times == tuple(days(4))
    assert again.skipped == dict(zip(days(1, 2, 3), ["it succeeded", "it failed", "it failed"], strict=True))
    report.failing.clear()
    failed = scheduler.backfill("a", "2025-12-01", "2025-12-04", reprocess="failed")
    assert failed.times == tuple(days(2, 3))
    scheduler.run_due()
    assert scheduler.backfill("a", "2025-12-01", "2025-12-04", reprocess="failed").times == (), "they went well since"
    assert scheduler.backfill("a", "2025-12-01", "2025-12-04", reprocess="all").times == tuple(days(1, 2, 3))


def test_what_was_missed_or_coalesced_counts_as_not_run_and_what_is_to_come_is_left_to_the_schedule(report):
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.register("report", report)
        scheduler.add_job("report", "interval", hours=1, id="a", start_date=NOW, misfire_grace_time=60)
        scheduler.run_due()
        scheduler.clock.advance("3h10m")
        scheduler.run_due()
        assert [record.outcome for record in scheduler.runs("a")].count(OutcomeKind.MISSED) == 2
        found = scheduler.backfill("a", NOW, NOW + timedelta(days=9))
        assert found.times == tuple(NOW + timedelta(hours=hours) for hours in (1, 2, 3))


def test_times_that_jitter_has_delayed_are_found_again(report):
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.register("report", report)
        scheduler.add_job("report", "interval", hours=1, id="a", start_date=NOW, jitter=600)
        scheduler.advance("5h")
        ran = len(report.times)
        found = scheduler.backfill("a", NOW, NOW + timedelta(hours=5), dry_run=True)
        assert (len(found.skipped), found.times) == (min(ran, 5), tuple(found.times))
        assert len(found.times) == 5 - min(ran, 5)


def test_the_runs_are_never_too_late_and_retried_without_a_deadline(scheduler, report):
    scheduler.modify_job("a", misfire_grace_time=1, retry=Retry(2, backoff=1, deadline=60), max_instances=5)
    report.failing.update(days(1))
    found = scheduler.backfill("a", "2025-12-01", "2025-12-03", at_once=3)
    assert found.at_once == 3
    scheduler.advance("10s")
    assert report.times == days(1, 2, 1)


def test_the_schedule_goes_first_and_no_more_than_asked_for_go_on_at_once():
    cluster = Cluster()
    scheduler = cluster.join(HoldingExecutor())
    try:
        scheduler.add_job(print, "cron", hour=9, id="a", max_instances=10)
        now = scheduler.clock.now()
        scheduler.backfill("a", now - timedelta(days=20), now, at_once=3)
        scheduler.run_due()
        states = [run.state for run in scheduler.live_runs("a")]
        assert (len(states), states.count("pending")) == (20, 17)
        waiting = cluster.store.pending_runs("a")
        assert {(run.source, run.job.priority, run.job.misfire_grace_time) for run in waiting} == {
            (Source.BACKFILL, 9, None)
        }
    finally:
        scheduler.shutdown(wait=False)


def test_a_backfill_that_is_cancelled_runs_no_more_and_can_be_begun_anew(scheduler, report):
    first = scheduler.backfill("a", *DECEMBER, reprocess="all")
    assert scheduler.cancel_backfill(first.id) == 31
    scheduler.run_due()
    assert (report.times, scheduler.backfills()[0].state) == ([], "cancelled")
    assert {record.reason for record in scheduler.runs("a")} == {"its backfill was cancelled"}
    assert scheduler.cancel_backfill(first.id) == 0
    again = scheduler.backfill("a", *DECEMBER, reprocess="all")
    assert (again.id != first.id, len(again.times)) == (True, 31)
    for nobody in ("nobody", "", f"{first.id}9"):
        with pytest.raises(RunLookupError):
            scheduler.cancel_backfill(nobody)


@pytest.mark.parametrize("method", ["read_note", "put_note", "add_run"])
@pytest.mark.parametrize("after", [False, True])
def test_two_calls_that_meet_at_any_step_have_each_time_run_once(report, method, after):
    for place in range(5):
        del report.times[:]
        with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
            scheduler.register("report", report)
            scheduler.add_job("report", "cron", hour=9, id="a")
            store, calls = scheduler.engine.stores["default"], []
            original = getattr(store, method)

            def meet(*args, scheduler=scheduler, original=original, calls=calls, place=place, **options):
                answer = original(*args, **options) if after else None
                calls.append(args)
                if len(calls) == place + 1:
                    scheduler.backfill("a", "2025-12-01", "2025-12-04")
                    scheduler.run_due()
                return answer if after else original(*args, **options)

            setattr(store, method, meet)
            scheduler.backfill("a", "2025-12-01", "2025-12-04")
            scheduler.run_due()
            assert sorted(report.times) == days(1, 2, 3), place


def test_what_is_claimed_while_its_backfill_is_cancelled_does_not_start_and_a_second_attempt_goes_on():
    cluster = Cluster()
    scheduler, other = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    executor, pending = scheduler.engine.executors["default"], cluster.store.pending_runs
    scheduler.add_job(print, "cron", hour=9, id="a", max_instances=10, retry=Retry(2, backoff=1))
    now = scheduler.clock.now()
    found = scheduler.backfill("a", now - timedelta(days=3), now, at_once=2)
    scheduler.run_due()
    executor.finish(OutcomeKind.FAILED)
    executor.finish()
    scheduler.engine.settler.settle_reported()
    cluster.clock.advance(5)

    def pending_before_they_are_claimed(job_id=None):
        runs = pending(job_id)
        scheduler.run_due()
        return runs

    cluster.store.pending_runs = pending_before_they_are_claimed
    other.cancel_backfill(found.id)
    cluster.store.pending_runs = pending
    scheduler.run_due()
    assert ([run.attempt for run in executor.held], executor.told) == ([2], [])
    executor.finish()
    scheduler.run_due()
    ended = [(each.outcome.value, each.reason) for each in scheduler.runs("a") if each.outcome.value != "failed"]
    assert sorted(ended) == [("cancelled", "its backfill was cancelled"), ("succeeded", ""), ("succeeded", "")]
    for member in (scheduler, other):
        member.shutdown(wait=False)


def test_the_answer_says_how_far_the_history_reaches(scheduler):
    assert "has nothing of that time. 31 of the times lie before" in scheduler.backfill("a", *DECEMBER).note
    scheduler.run_due()
    told = scheduler.backfill("a", *DECEMBER)
    assert (told.history_since, told.times) == (NOW, ())
    assert "reaches back to 2026-01-10 12:00:00 UTC" in told.note
    assert scheduler.backfill("a", *DECEMBER, reprocess="all").note == ""


@each_row(
    ("given", "field", "told"),
    [
        ({"start": "2026-01-01", "end": "2025-12-01"}, "start", "before end"),
        ({"start": "2027-01-01", "end": "2028-01-01"}, "start", "the present"),
        ({"start": "soon"}, "start", "start"),
        ({"end": None}, "end", "got None"),
        ({"start": timedelta(days=999_999)}, "start", "before the year 1"),
        ({"reprocess": "failled"}, "reprocess", "did you mean 'failed'"),
        ({"reprocess": 3}, "reprocess", "one of missing, failed, all"),
        ({"at_once": 0}, "at_once", "from 1 to 1000"),
        ({"at_once": True}, "at_once", "whole number"),
        ({"start": "2020-01-01"}, "end", "split the range: the first 1,000 are those before 2022-09-27 09:00"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_and_nothing_changes(scheduler, given, field, told):
    with pytest.raises(InvalidArgument, match=told) as caught:
        scheduler.backfill("a", **{"start": DECEMBER[0], "end": DECEMBER[1], **given})
    assert caught.value.field == field
    assert (scheduler.live_runs(), scheduler.backfills()) == ([], [])
    with pytest.raises(JobLookupError):
        scheduler.backfill("nobody", *DECEMBER)


class EverySecond(BaseTrigger):
    """Counts how often it is asked."""

    asked = 0

    def get_next_fire_time(self, previous_fire_time, now):
        type(self).asked += 1
        return now if previous_fire_time is None else previous_fire_time + timedelta(seconds=1)


def test_a_million_fire_times_are_refused_before_they_are_counted(scheduler):
    scheduler.add_job(print, EverySecond(), id="often", next_run_time=None)
    asked = EverySecond.asked
    with pytest.raises(InvalidArgument, match="more than 1,000 fire times"):
        scheduler.backfill("often", "60d", "1d")
    assert EverySecond.asked - asked < 1010


def test_it_can_be_awaited(tmp_path):
    import asyncio

    async def main():
        scheduler = AsyncIOScheduler(timezone="UTC")
        await scheduler.aio.start()
        scheduler.add_job(print, "cron", hour=9, id="a", args=[""])
        found = await scheduler.aio.backfill("a", "3d", "1d", dry_run=True)
        assert (len(found.times), await scheduler.aio.backfills()) == (2, [])
        await scheduler.aio.shutdown()

    asyncio.run(main())


ADDER = """
import os, signal, sys
from goscheduler.observer import Observer

with Observer(sys.argv[1]) as observer:
    store = observer.engine.stores["default"]
    add, added = store.add_run, []
    def add_run(run, must_exist=False):
        if len(added) == 537:
            os.kill(os.getpid(), signal.SIGKILL)
        added.append(add(run, must_exist))
    store.add_run = add_run
    observer.backfill("often", sys.argv[2], sys.argv[3], at_once=20, reprocess="all")
"""


#: The others take a while, and the contract of stores has what they are to keep to.
STORES = ["sqlite", *(
    pytest.param(kind, marks=pytest.mark.faults)
    for kind in ("postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper")
)]  # fmt: skip


@pytest.mark.serial
@pytest.mark.parametrize("kind", STORES)
def test_who_is_killed_in_the_middle_asks_again_and_each_of_a_thousand_times_runs_once(url_of, kind):
    url = url_of(kind)
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    span = (begin.isoformat(), (begin + timedelta(minutes=1000)).isoformat())
    times, ended, all_ended = [], [], threading.Event()

    def note_end(event):
        ended.append(event)
        if len(ended) >= 1000:
            all_ended.set()

    worker = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
    worker.register("note", lambda: times.append(current_run().scheduled_at))
    worker.add_listener(note_end, EVENT_JOB_EXECUTED)
    worker.start()
    worker.add_job("note", "interval", minutes=1, start_date=begin, id="often", max_instances=20, next_run_time=None)
    died = subprocess.run([sys.executable, "-c", ADDER, url, *span], timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL
    with Observer(url) as observer:
        (progress,) = observer.backfills()
        assert (progress.state, progress.times) == ("adding", 1000)
        observer.backfill("often", *span, at_once=20, reprocess="all")
    assert all_ended.wait(200)
    worker.shutdown()
    assert sorted(times) == [begin + timedelta(minutes=minute) for minute in range(1000)]
    with Observer(url) as observer:
        (progress,) = observer.backfills()
        assert (progress.state, progress.times, progress.ended) == ("done", 1000, 1000)
        assert len({record.run_id for record in observer.runs("often", limit=2000)}) == 1000
