"""Whatever a name, an id or an error says, it cannot pass for a line of the log, nor reach a terminal as a command."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from goscheduler.events import EVENT_JOB_ADDED
from goscheduler.executors._log import log_end
from goscheduler.job import Job
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.logs import GuardedLogger, guarded_logger
from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, Settlement
from goscheduler.testing import ManualScheduler
from goscheduler.testing.clock import START

FORGED = "CRITICAL forged: the database was deleted"
POISON = f"x\r\n{FORGED}\x1b[2J\x9b31m\u202e\u2066\x85\u2028{FORGED}\u2029\x00\x7f"


class Log:
    """What handlers with an ordinary formatter have written of everything that was logged."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def check(self, *expected: str) -> None:
        """Check that it is clean, and that each of these was logged."""
        unclean = [line for line in self.text.split("\n") if not line.isprintable()]
        assert unclean == []
        assert not re.search(f"^{FORGED}", self.text, re.MULTILINE)
        for text in expected:
            assert re.search(text, self.text), f"{text} is not in {self.text}"


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    root = logging.getLogger()
    level = root.level
    root.addHandler(found.handler)
    root.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(found.handler)
    root.setLevel(level)


def fine() -> None: ...


def poisonous() -> None:
    raise ValueError(POISON)


def chained() -> None:
    try:
        poisonous()
    except ValueError as error:
        raise RuntimeError("harmless") from error


def noted() -> None:
    error = ValueError("harmless")
    error.__notes__ = [FORGED + "\n" + POISON]  # type: ignore[attr-defined]
    raise error


def harmless() -> None:
    raise ValueError("harmless")


def poisoned(job: Job) -> Job:
    """Return a job with a name that no user could have given to it, and that stands for its function in the log."""
    job.name, job.func_ref = POISON, None
    return job


def test_the_life_of_a_job_with_a_poisonous_name_is_told_on_lines_of_its_own(log: Log) -> None:
    with ManualScheduler() as scheduler:
        poisoned(scheduler.add_job(fine, "date", run_date=START + timedelta(hours=1)))
        poisoned(scheduler.add_job(poisonous, "date", run_date=START + timedelta(hours=1)))
        late = poisoned(scheduler.add_job(fine, "interval", hours=3, misfire_grace_time=1))
        scheduler.advance("2h")
        scheduler.pause()
        scheduler.advance("11h")
        scheduler.resume()
        scheduler.advance(1)
        scheduler.pause_job(late.id)
        scheduler.remove_job(late.id)
    log.check("starts, attempt 1", "succeeded in", "failed in", "was missed by")
    assert r"x\r\nCRITICAL forged" in log.text
    assert r"\x1b[2J\x9b31m\u202e\u2066\x85\u2028" in log.text


@pytest.mark.parametrize("job", [poisonous, chained, noted])
def test_a_traceback_with_a_poisonous_text_is_indented_as_a_whole(job: Any, log: Log) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(job, "date", run_date=START)
        scheduler.advance(1)
    if job is noted and sys.version_info < (3, 11):
        log.check("failed in")  # which writes no notes
        return
    log.check("failed in", r"(?m)^    Traceback \(most recent call last\):$")
    forged = [line for line in log.text.split("\n") if "forged" in line]
    assert forged
    assert all(line.startswith("    ") for line in forged)


def test_a_traceback_without_one_looks_as_ever(log: Log) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(harmless, "date", run_date=START)
        scheduler.advance(1)
    log.check(r"(?m)^Traceback \(most recent call last\):$", r"(?m)^ValueError: harmless$")


def test_the_error_itself_stays_with_the_record(caplog: pytest.LogCaptureFixture) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(poisonous, "date", run_date=START)
        scheduler.advance(1)
    [record] = [record for record in caplog.records if "failed in" in record.getMessage()]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == POISON


def test_a_traceback_of_another_process_is_indented(log: Log) -> None:
    with ManualScheduler() as scheduler:
        run = Run("id", poisoned(scheduler.add_job(fine, "interval", hours=1)), START, START)
        outcome = Outcome(OutcomeKind.FAILED, error=ValueError(POISON), traceback=f"Traceback:\n{POISON}\n")
        log_end(guarded_logger("goscheduler.executors.other"), Settlement(Attempt(run, outcome, START)))
    log.check(r"(?m)^    Traceback:$", r"(?m)^    ValueError: x\\r$", r"(?m)^    CRITICAL forged")


def test_errors_of_listeners_tasks_and_texts_without_arguments_are_escaped(log: Log) -> None:
    def listen(_: object) -> None:
        raise OSError(POISON)

    with ManualScheduler() as scheduler:
        scheduler.add_listener(listen, EVENT_JOB_ADDED)
        scheduler.add_job(fine, "interval", hours=1)
    logger = guarded_logger("goscheduler.jobstores.theirs")
    logger.warning(f"A store of the user says {POISON}")
    logger.warning("A store of the user says %(what)s", {"what": POISON})
    logger.warning("A store of the user says %r", [POISON])
    log.check("Error notifying listener", "A store of the user says x")
    assert log.text.count("A store of the user says") == 3


def test_rows_that_somebody_has_written_into_a_store_are_told_on_one_line(tmp_path: Path, log: Log) -> None:
    store = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db")
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(fine, "interval", minutes=1, id="bad")
        with store._database.engine.begin() as connection:
            connection.execute(sql("UPDATE goscheduler_jobs SET id = :id, definition = :id"), {"id": POISON})
        scheduler.advance(120)
        assert [job.suspended is not None for job in scheduler.get_jobs()] == [True]
    log.check("is suspended: its record cannot be read")


def test_what_is_not_logged_is_not_looked_at() -> None:
    class Untouchable:
        def __str__(self) -> str:
            raise AssertionError("it was looked at")

    logger = logging.getLogger("goscheduler.test.quiet")
    logger.setLevel(logging.WARNING)
    GuardedLogger(logger).info("%s", Untouchable())


def test_the_place_that_is_told_is_the_one_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    guarded_logger("goscheduler.test").warning("plain")
    guarded_logger("goscheduler.test").error("plain", exc_info=ValueError(POISON))
    guarded_logger("goscheduler.test").log(logging.ERROR, "plain")
    assert [record.filename for record in caplog.records] == [Path(__file__).name] * 3


def test_a_logger_that_is_none_of_the_logging_package_is_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    written = []

    class Theirs:
        def isEnabledFor(self, _level: int) -> bool:
            return True

        def log(self, _level: int, msg: str, *args: object, **_: object) -> None:
            written.append(msg % args if args else msg)

    logger = GuardedLogger(Theirs())  # type: ignore[arg-type]
    logger.error('Job "%s"', POISON, exc_info=ValueError(POISON))
    assert capsys.readouterr().err == ""
    assert all(line.isprintable() for line in written[0].split("\n"))
