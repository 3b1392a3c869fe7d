"""What Sentry is told about the schedule of a job."""

from __future__ import annotations

from importlib import import_module

import pytest

from goscheduler import CalendarIntervalTrigger, CronTrigger, DateTrigger, IntervalTrigger, Retry
from goscheduler.contrib._extras import needs
from goscheduler.contrib._monitor import monitor_config, slug_of
from goscheduler.testing import ManualScheduler

CRONTAB = [
    (CronTrigger.from_crontab("0 7 * * mon-fri", timezone="Europe/Oslo"), "0 7 * * mon-fri"),
    (CronTrigger.from_crontab("*/5 1-3 1 * 1", timezone="Europe/Oslo"), "*/5 1-3 1 * mon"),
    (CronTrigger(hour=3, day_of_week=0, jitter=60, timezone="Europe/Oslo"), "0 3 * * mon"),
    (CronTrigger(month="jan-mar/2", day=31, timezone="Europe/Oslo"), "0 0 31 jan-mar/2 *"),
]
INEXPRESSIBLE = [
    CronTrigger(second=30),
    CronTrigger(second="*/10"),
    CronTrigger(day="last"),
    CronTrigger(day="2nd fri"),
    CronTrigger(week=7),
    CronTrigger(day="1-7", day_of_week="mon"),  # both in a crontab line means: one of them
    IntervalTrigger(seconds=90),
    IntervalTrigger(seconds=5),
    CalendarIntervalTrigger(months=1, days=2),
    DateTrigger("2040-01-01"),
]
INTERVALS = [
    (IntervalTrigger(minutes=90), (90, "minute")),
    (IntervalTrigger(hours=36), (36, "hour")),
    (IntervalTrigger(days=14), (2, "week")),
    (CalendarIntervalTrigger(months=3), (3, "month")),
    (CalendarIntervalTrigger(years=1, hour=3), (1, "year")),
]


@pytest.fixture
def config_of():
    with ManualScheduler() as scheduler:

        def config_of(trigger, **options):
            job = scheduler.add_job(print, trigger, next_run_time=None, **options)
            return monitor_config(job, scheduler.clock.now())

        yield config_of


def test_a_cron_trigger_is_told_as_the_crontab_line_that_fires_as_it_does(config_of):
    for trigger, line in CRONTAB:
        assert config_of(trigger) == {"schedule": {"type": "crontab", "value": line}, "timezone": "Europe/Oslo"}


def test_intervals_are_told_in_the_largest_unit_that_fits(config_of):
    for trigger, (value, unit) in INTERVALS:
        assert config_of(trigger) == {"schedule": {"type": "interval", "value": value, "unit": unit}}


def test_a_schedule_that_would_be_told_wrong_is_not_told(config_of):
    assert [str(trigger) for trigger in INEXPRESSIBLE if config_of(trigger) is not None] == []


def test_a_time_limit_and_retries_are_told(config_of):
    config = config_of(IntervalTrigger(hours=1), timeout=90, retry=Retry(max_attempts=4))
    assert (config["max_runtime"], config["failure_issue_threshold"]) == (2, 4)


def test_different_ids_have_different_slugs_that_sentry_takes():
    assert slug_of("nightly-report_2") == "nightly-report_2"
    ids = ["Nightly", "nightly ", "nightly/", "ä", "ö", "x" * 60, "x" * 61]
    slugs = [slug_of(job_id) for job_id in ids]
    assert len(set(slugs)) == len(ids)
    assert all(slug.isascii() and 0 < len(slug) <= 50 and slug == slug.strip("-").lower() for slug in slugs)


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it():
    told = r'no_such_sdk is not installed: pip install "goscheduler\[sentry\]"'
    with pytest.raises(ImportError, match=told), needs("no_such_sdk", "sentry"):
        import_module("no_such_sdk")
    with pytest.raises(ModuleNotFoundError, match="no_such_part"), needs("no_such_sdk", "sentry"):
        import_module("no_such_part")
