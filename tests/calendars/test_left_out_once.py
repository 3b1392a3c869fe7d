"""Runs that are left out or put off, once: the job is back on its schedule by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from rows import each_row

from goscheduler.calendars import Weekdays
from goscheduler.errors import InvalidArgument, JobLookupError, NeverFires
from goscheduler.testing import ManualClock, ManualScheduler

UTC = timezone.utc
#: A Thursday.
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def scheduler(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[ManualScheduler]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    stores = {} if request.param == "memory" else {"jobstores": {"default": url}, "lease": 2_592_000}
    with ManualScheduler(clock=ManualClock(NOW), **stores) as scheduler:
        yield scheduler


def times_of(scheduler: ManualScheduler, job_id: str, moment: datetime) -> list[str]:
    """Let time go on to ``moment``, and return when the job was run."""
    while (due := scheduler.get_job(job_id).next_run_time) <= moment:
        scheduler.clock.set(due)
        scheduler.run_due()
    return [f"{record.scheduled_at:%d %H:%M}" for record in reversed(scheduler.runs(job_id))]


def test_the_next_run_is_left_out_and_the_others_are_as_they_were(scheduler: ManualScheduler) -> None:
    scheduler.add_job(print, "cron", hour=9, id="a", args=[""])
    job = scheduler.skip_next("a")
    assert job.next_run_time == NOW + timedelta(days=1, hours=9)
    assert times_of(scheduler, "a", NOW + timedelta(days=3)) == ["02 09:00", "03 09:00"]


def test_an_interval_keeps_its_grid(scheduler: ManualScheduler) -> None:
    scheduler.add_job(print, "interval", hours=1, id="a", args=[""])
    scheduler.skip_next("a")
    scheduler.postpone("a", NOW + timedelta(hours=2, minutes=20))
    assert times_of(scheduler, "a", NOW + timedelta(hours=4)) == ["01 02:20", "01 03:00", "01 04:00"]


@each_row(("until",), [("2026-01-01 11:30",), ("11h30m",), (timedelta(hours=11.5),), (NOW + timedelta(hours=11.5),)])
def test_the_next_run_is_put_off_to_a_moment_or_by_a_length_of_time(until: Any) -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.add_job(print, "cron", hour=9, id="a", args=[""])
        assert scheduler.postpone("a", until).next_run_time == NOW + timedelta(hours=11, minutes=30)
        assert times_of(scheduler, "a", NOW + timedelta(days=2)) == ["01 11:30", "02 09:00"]


def test_fire_times_up_to_then_are_left_out(scheduler: ManualScheduler) -> None:
    scheduler.add_job(print, "cron", hour=9, id="a", args=[""])
    scheduler.postpone("a", NOW + timedelta(days=2, hours=12))
    assert times_of(scheduler, "a", NOW + timedelta(days=4)) == ["03 12:00", "04 09:00"]


def test_a_job_that_runs_once_can_be_put_off_and_not_be_left_out(scheduler: ManualScheduler) -> None:
    scheduler.add_job(print, "date", run_date=NOW + timedelta(hours=1), id="a", args=[""])
    with pytest.raises(NeverFires, match="after the next one"):
        scheduler.skip_next("a")
    assert scheduler.postpone("a", "5h").next_run_time == NOW + timedelta(hours=5)


@each_row(
    ("until", "told"),
    [
        ("2025-12-31", "after the next run time"),
        ("2026-01-01 09:00", "after the next run time"),
        ("soon", "until"),
        (None, "until"),
        ("2026-01-03 09:00", "Saturday"),
    ],
)
def test_a_moment_that_makes_no_sense_is_refused_and_nothing_changes(until: Any, told: str) -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        job = scheduler.add_job(print, "cron", hour=9, id="a", args=[""], calendar=Weekdays("mon-fri"))
        with pytest.raises(InvalidArgument, match=told) as caught:
            scheduler.postpone("a", until)
        assert caught.value.field == "until"
        assert scheduler.get_job("a").next_run_time == job.next_run_time


def test_a_job_without_a_next_run_is_told(scheduler: ManualScheduler) -> None:
    scheduler.add_job(print, "cron", hour=9, id="a", args=[""], next_run_time=None)
    for act in (lambda: scheduler.skip_next("a"), lambda: scheduler.postpone("a", "2h")):
        with pytest.raises(InvalidArgument, match="no next run"):
            act()
    with pytest.raises(JobLookupError):
        scheduler.skip_next("nobody")
