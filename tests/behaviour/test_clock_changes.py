"""The wall clock is set while jobs wait."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import START, PickledStore, note
from work import calls_of

from goscheduler.clock import SystemClock
from goscheduler.config import SchedulerConfig
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

TRIGGERS = {
    "interval": lambda: IntervalTrigger(minutes=10, timezone="UTC"),
    "cron": lambda: CronTrigger(minute="*/10", timezone="UTC"),
    "crontab": lambda: CronTrigger.from_crontab("*/10 * * * *", timezone="UTC"),
    "calendar interval": lambda: CalendarIntervalTrigger(days=1, hour=0, minute=10, timezone="UTC"),
    "or": lambda: OrTrigger([IntervalTrigger(minutes=10, timezone="UTC"), CronTrigger(minute=5, timezone="UTC")]),
    "interval with jitter": lambda: IntervalTrigger(minutes=10, jitter=30, timezone="UTC"),
}


@pytest.fixture(params=[None, PickledStore], ids=["memory store", "simple store"])
def scheduler(request, schedulers):
    stores = {} if request.param is None else {"default": request.param()}
    scheduler = schedulers(ManualScheduler, jobstores=stores)
    scheduler.start()
    return scheduler


@pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS)
def test_a_clock_set_back_an_hour_fires_nothing_twice_and_moves_no_time_back(scheduler, trigger):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, trigger(), id="job")
    scheduler.advance("65m")
    fired = [event.scheduled_run_time for event in recorder.of(EVENT_JOB_EXECUTED)]
    before = scheduler.get_job("job").next_run_time
    scheduler.clock.set(scheduler.clock.now() - timedelta(hours=1))
    scheduler.run_due()
    assert len(recorder.of(EVENT_JOB_EXECUTED)) == len(fired)
    assert scheduler.get_job("job").next_run_time == before
    scheduler.advance("3h")
    fired = [event.scheduled_run_time for event in recorder.of(EVENT_JOB_EXECUTED)]
    assert len(fired) == len(set(fired))
    assert fired == sorted(fired)


@pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS)
def test_a_clock_set_back_while_a_job_is_planned_leaves_its_times_ascending(scheduler, trigger):
    seen = []
    scheduler.add_job(note, trigger(), id="job")
    for _ in range(6):
        scheduler.advance("10m")
        seen.append(scheduler.get_job("job").next_run_time)
        scheduler.clock.set(scheduler.clock.now() - timedelta(minutes=7))
    assert seen == sorted(seen)


def test_a_clock_set_forward_runs_each_job_once_and_goes_on_in_its_rhythm(scheduler, jobcalls):
    scheduler.add_job(note, "interval", seconds=1, id="job")
    scheduler.clock.set(START + timedelta(hours=1, seconds=0.5))
    scheduler.run_due()
    assert jobcalls == ["called"]
    assert scheduler.get_job("job").next_run_time == START + timedelta(hours=1, seconds=1)


def test_a_clock_set_forward_meets_the_misfire_rule(scheduler, jobcalls):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "date", run_date=START + timedelta(minutes=5), id="job", misfire_grace_time=60)
    scheduler.clock.set(START + timedelta(hours=1))
    scheduler.run_due()
    assert jobcalls == []
    assert recorder.of(EVENT_JOB_MISSED, "job")


def test_a_clock_set_years_ahead_is_bounded_work(scheduler, jobcalls):
    scheduler.add_job(note, CronTrigger(second="*", timezone="UTC"), id="cron")
    scheduler.add_job(note, "interval", seconds=1, id="interval", coalesce=False)
    scheduler.clock.set(START + timedelta(days=3650))
    _, calls = calls_of(scheduler.run_due)
    assert calls < 5_000_000  # of 315 million seconds
    assert len(jobcalls) == 1001
    for name in ("cron", "interval"):
        assert scheduler.get_job(name).next_run_time == START + timedelta(days=3650, seconds=1)


def test_a_clock_that_is_set_while_the_loop_waits_is_noticed_within_the_longest_wait(schedulers, jobcalls):
    class JumpingClock(SystemClock):
        __slots__ = ("offset",)

        def now(self):
            return super().now() + self.offset

    clock = JumpingClock()
    clock.offset = timedelta(0)
    scheduler = schedulers(clock=clock)
    recorder = EventRecorder(scheduler)
    waits = []
    original = scheduler._process_jobs

    def shortened():
        wait = original()
        waits.append(wait)
        return None if wait is None else min(wait, 0.05)

    scheduler._process_jobs = shortened
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="job")
    clock.offset = timedelta(hours=1)
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    assert all(wait <= SchedulerConfig().poll_interval for wait in waits)


def test_an_outage_is_timed_by_what_passes_and_not_by_the_wall_clock(scheduler, jobcalls):
    store = scheduler.engine.stores["default"]
    original = store.fire_due
    scheduler.add_job(note, "interval", minutes=1, id="job")

    def broken(request):
        raise OSError("away")

    store.fire_due = broken
    scheduler.clock.advance(60)
    scheduler.run_due()
    store.fire_due = original
    scheduler.clock.set(scheduler.clock.now() - timedelta(days=1))
    scheduler.clock.advance(60)  # the outage is over, whatever the wall clock shows
    scheduler._process_jobs()
    assert not scheduler.engine.outages.remaining("default", scheduler.clock.monotonic())
    scheduler.clock.set(START + timedelta(minutes=5))
    scheduler.run_due()
    assert jobcalls == ["called"]


def test_a_job_added_after_the_clock_was_set_back_runs_on_time(scheduler, jobcalls):
    scheduler.advance("2h")
    scheduler.clock.set(START + timedelta(hours=1))
    scheduler.add_job(note, "interval", seconds=10)
    scheduler.advance(10)
    assert jobcalls == ["called"]
