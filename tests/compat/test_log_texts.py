"""Lines that people search their logs for, and the names of the loggers that write them."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from goscheduler.testing import ManualScheduler
from goscheduler.testing.clock import START


def tick() -> None:
    pass


def crash() -> None:
    raise ValueError("no luck")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def _texts(lines: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in lines.records if record.name == logger]


def test_the_scheduler_tells_of_its_life_and_of_its_jobs(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.remove_job("a")
        scheduler.pause()
        scheduler.resume()
    texts = _texts(lines, "goscheduler.scheduler")
    for text in (
        "Scheduler started",
        'Added job "tick" to job store "default"',
        "Removed job a",
        "Paused scheduler job processing",
        "Resumed scheduler job processing",
        "Scheduler has been shut down",
    ):
        assert text in texts


def test_a_pending_job_is_announced_as_tentative(lines: pytest.LogCaptureFixture) -> None:
    ManualScheduler().add_job(tick, "interval", hours=1)
    expected = "Adding job tentatively -- it will be properly scheduled when the scheduler starts"
    assert expected in _texts(lines, "goscheduler.scheduler")


def test_an_executor_tells_how_runs_ended(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        good = scheduler.add_job(tick, "date", run_date=START + timedelta(hours=1))
        bad = scheduler.add_job(crash, "date", run_date=START + timedelta(hours=2))
        good_text, bad_text = str(good), str(bad)
        scheduler.advance("3h")
    texts = _texts(lines, "goscheduler.executors.default")
    assert f'Job "{good_text}" executed successfully' in texts
    assert f'Job "{bad_text}" raised an exception' in texts
    [record] = [record for record in lines.records if "raised an exception" in record.getMessage()]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_missed_run_is_told_with_how_late_it_was(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1, misfire_grace_time=1)
        scheduler.pause()
        scheduler.advance("1h30m")
        scheduler.resume()
        scheduler.run_due()
    [record] = [record for record in lines.records if "was missed by" in record.getMessage()]
    assert record.getMessage().startswith('Run time of job "tick (trigger: interval[1:00:00]')
    assert record.getMessage().endswith('" was missed by 0:30:00')
    assert record.levelno == logging.WARNING


def test_a_refused_instance_is_told_with_the_limit(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:

        def slow() -> None:
            scheduler.clock.advance("61s")
            scheduler._process_jobs()

        scheduler.add_job(slow, "interval", minutes=1)
        scheduler.clock.advance("1m")
        scheduler._process_jobs()
    [record] = [record for record in lines.records if "skipped" in record.getMessage()]
    assert record.getMessage().startswith('Execution of job "')
    assert record.getMessage().endswith("skipped: maximum number of running instances reached (1)")
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("name", ["scheduler", "executors.default"])
def test_what_was_set_up_for_apschedulers_loggers_still_hears(name: str) -> None:
    """Logging configurations name ``apscheduler``; they are not imports, so nobody edits them."""
    heard: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.name)

    collect = Collect()
    logger = logging.getLogger("apscheduler")
    logger.addHandler(collect)
    logger.setLevel(logging.DEBUG)
    try:
        with ManualScheduler() as scheduler:
            scheduler.add_job(tick, "interval", hours=1)
            scheduler.advance("1h")
    finally:
        logger.removeHandler(collect)
        logger.setLevel(logging.NOTSET)
    assert f"goscheduler.{name}" in heard or f"apscheduler.{name}" in heard
