"""Times that nobody planned for: long outages, dates in the past, clocks that jump."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from work import calls_of

from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler
from goscheduler.testing.clock import START


def noop() -> None:
    pass


@pytest.mark.parametrize("coalesce", [True, False])
def test_thirty_days_of_missed_seconds_are_dealt_with_at_once(coalesce: bool) -> None:
    with ManualScheduler() as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_JOB_MISSED)
        job = scheduler.add_job(noop, "interval", seconds=1, coalesce=coalesce, id="a")
        scheduler.pause()
        scheduler._move_to(START + timedelta(days=30))
        scheduler.resume()
        _, calls = calls_of(lambda: (scheduler._process_jobs(), scheduler.engine.settler.settle_reported()))
        assert calls < 200_000  # APScheduler 3 makes 2.6 million datetimes
        assert 1 <= len(recorder.of(EVENT_JOB_EXECUTED)) <= 1000
        assert job.next_run_time == START + timedelta(days=30, seconds=1)


@pytest.mark.parametrize("run_date", ["2025-12-30 23:59:59", "1970-01-01", "1899-12-31 12:00:00", "0001-01-01"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_a_date_in_the_past_runs_once_and_now(run_date: str, zone: str) -> None:
    with ManualScheduler(timezone=zone) as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
        scheduler.add_job(noop, "date", run_date=run_date, id="a")
        scheduler.advance("1h")
        assert [event.job_id for event in recorder.events] == ["a"]
        assert scheduler.get_jobs() == []


def test_a_date_in_the_past_beyond_its_grace_is_told_as_missed_and_recorded() -> None:
    with ManualScheduler() as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_JOB_MISSED)
        scheduler.add_job(noop, "date", run_date="2025-12-31", misfire_grace_time=60, id="a")
        scheduler.advance("1h")
        [event] = recorder.events
        assert (event.code, event.job_id) == (EVENT_JOB_MISSED, "a")
        [record] = scheduler.engine.stores["default"].history(HistoryQuery("a"))
        assert record.reason.startswith("missed by")


@pytest.mark.parametrize("trigger", [{"trigger": "interval", "minutes": 10}, {"trigger": "cron", "minute": "*/10"}])
def test_a_clock_that_is_set_back_fires_nothing_twice(trigger: dict[str, Any]) -> None:
    clock = ManualClock()
    with ManualScheduler(clock=clock) as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
        scheduler.add_job(noop, id="a", **trigger)
        scheduler.advance("1h")
        clock.set(clock.now() - timedelta(hours=1))
        scheduler.advance("2h")
        times = [event.scheduled_run_time for event in recorder.events]
        assert len(times) == len(set(times))
        assert times == sorted(times)


def test_a_clock_that_is_set_ahead_runs_the_job_once_for_all_it_passed() -> None:
    clock = ManualClock()
    with ManualScheduler(clock=clock) as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
        scheduler.add_job(noop, "interval", minutes=10, id="a")
        clock.set(clock.now() + timedelta(hours=1))
        scheduler.run_due()
        assert len(recorder.events) == 1
