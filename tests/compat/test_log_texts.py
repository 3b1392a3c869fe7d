"""Lines that people search their logs for, and the names of the loggers that write them."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from goscheduler import Retry, current_run, fixed
from goscheduler.executors import _log
from goscheduler.runs.model import OutcomeKind, Run
from goscheduler.schedulers._tick import process_due
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


def _ends(scheduler: ManualScheduler, lines: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and text of what an executor said, with "RUN" in place of the ids of runs."""
    told = [record for record in lines.records if record.name == "goscheduler.executors.default"]
    run_id = scheduler.runs()[0].run_id
    return [(record.levelname, record.getMessage().replace(run_id, "RUN")) for record in told]


def test_a_run_is_told_of_by_its_id_its_job_and_what_that_runs(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:

        def slow() -> None:
            scheduler.clock.advance(0.25)

        scheduler.register("slow", slow)
        scheduler.add_job("slow", "date", run_date=START + timedelta(hours=1), id="a")
        scheduler.advance("1h")
        assert _ends(scheduler, lines) == [
            ("INFO", 'Run RUN of job "a" (slow) starts, attempt 1, scheduled at 2026-01-01 01:00:00+00:00'),
            ("INFO", 'Run RUN of job "a" (slow) succeeded in 0.25 s, attempt 1'),
        ]


def test_a_failure_is_told_with_its_traceback_and_what_follows(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(crash, "date", id="a", retry=Retry(2, fixed(60)))
        scheduler.advance("2m")
        name = f'Run RUN of job "a" ({__name__}:crash)'
        assert [line for line in _ends(scheduler, lines) if line[0] != "INFO"] == [
            ("ERROR", f"{name} failed in 0.0 s, attempt 1; attempt 2 is due at 2026-01-01 00:01:00+00:00"),
            ("ERROR", f"{name} failed in 0.0 s, attempt 2; it is a dead letter: attempt 2 of 2 failed"),
        ]
    errors = [record for record in lines.records if record.levelno == logging.ERROR]
    assert [record.exc_info and record.exc_info[0] for record in errors] == [ValueError, ValueError]


def test_a_timeout_is_told_of_as_the_history_has_it(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:

        def slow() -> None:
            scheduler.clock.advance("31s")
            scheduler.engine.running.look()
            current_run().check()

        scheduler.add_job(slow, "date", id="a", name="slow", timeout=30)
        scheduler.run_due()
        [record] = scheduler.runs("a")
        assert record.outcome is OutcomeKind.TIMED_OUT
        assert _ends(scheduler, lines)[1:] == [(
            "ERROR",
            'Run RUN of job "a" (slow) timed out after 31.0 s, attempt 1: it ran longer than its timeout of 30 seconds',
        )]


def test_a_run_that_was_cancelled_is_told_of_once(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.pause()
        scheduler.cancel_run(scheduler.run_now("a"), "enough")
        told = ("WARNING", f'Run RUN of job "a" ({__name__}:tick) was cancelled before it started, attempt 1: enough')
        assert _ends(scheduler, lines) == [told]


def test_nothing_is_put_together_for_a_log_that_is_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    put_together: list[Run] = []
    monkeypatch.setattr(_log, "names_of", put_together.append)
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1)
        scheduler.advance("3h")
        assert (len(scheduler.runs()), put_together) == (3, [])


def test_a_missed_run_is_told_with_how_late_it_was(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a", misfire_grace_time=1)
        scheduler.pause()
        scheduler.advance("1h30m")
        scheduler.resume()
        scheduler.run_due()
    [record] = [record for record in lines.records if "was missed by" in record.getMessage()]
    assert f'of job "a" ({__name__}:tick) scheduled at 2026-01-01 01:00:00+00:00 was missed' in record.getMessage()
    assert record.getMessage().endswith(" was missed by 0:30:00")
    assert record.levelno == logging.WARNING


def test_a_refused_instance_is_told_with_the_limit(lines: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:

        def slow() -> None:
            scheduler.clock.advance("61s")
            process_due(scheduler.engine, 1.0)

        scheduler.add_job(slow, "interval", minutes=1)
        scheduler.clock.advance("1m")
        scheduler._process_jobs()
    [record] = [record for record in lines.records if "skipped" in record.getMessage()]
    assert record.getMessage().startswith("Run ")
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
