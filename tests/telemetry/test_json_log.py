"""Log lines as JSON objects."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from goscheduler.telemetry import JSONFormatter, instrument
from goscheduler.testing import ManualScheduler

SOURCE = """
import threading
from goscheduler import BackgroundScheduler, Retry, fixed

def crash():
    raise ValueError("no\\nluck")

def tick():
    pass

scheduler = BackgroundScheduler()
scheduler.add_job(tick, "interval", hours=1, id="hourly", priority=2, next_run_time="2026-01-01T00:00:00+00:00")
scheduler.add_job(crash, id="fails")
"""


class Lines(logging.Handler):
    """Keeps what is logged, formatted as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JSONFormatter())
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    def objects(self, **wanted: Any) -> list[dict[str, Any]]:
        found = [json.loads(text) for text in self.texts]
        return [each for each in found if all(each.get(key) == value for key, value in wanted.items())]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("goscheduler")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def tick() -> None:
    pass


def crash() -> None:
    raise ValueError("no\nluck")


def test_an_enqueued_job_has_the_fields_that_programs_look_for(lines: Lines) -> None:
    with ManualScheduler() as scheduler:
        scheduler.register("app.tick", tick)
        scheduler.add_job("app.tick", "interval", hours=1, id="hourly", priority=2)
        scheduler.advance("1h")
        [line] = lines.objects(msg="Scheduled job enqueued")
        assert line["level"] == "INFO"
        assert line["component"] == "scheduler"
        assert line["schedule_id"] == "hourly"
        assert line["job_name"] == "app.tick"
        assert line["priority"] == 2
        assert datetime.fromisoformat(line["next_run"]) == scheduler.get_job("hourly").next_run_time
        [record] = scheduler.runs("hourly")
        assert line["job_id"] == line["run_id"] == record.run_id
        assert datetime.fromisoformat(line["time"]).utcoffset() is not None


def test_the_end_of_a_run_tells_how_it_ended(lines: Lines) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(crash, id="fails")
        scheduler.advance(1)
    [line] = lines.objects(schedule_id="fails", level="ERROR")
    assert (line["outcome"], line["error_type"], line["attempt"]) == ("failed", "ValueError", 1)
    assert line["seconds"] >= 0
    assert line["lateness"] >= 0
    assert line["owner"]
    assert "ValueError: no" in line["error"]


def test_every_line_about_a_job_or_a_run_says_which(lines: Lines) -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, "interval", hours=1, id="a")
        scheduler.add_job("nowhere", "interval", hours=1, id="b")
        scheduler.advance("1h")
        scheduler.remove_job("a")
    about = [line for line in lines.objects() if {"job", "Job"} & set(line.get("text", line["msg"]).split())]
    assert about
    assert [line for line in about if "schedule_id" not in line] == []


def test_a_line_is_one_line_of_ascii_whatever_stands_in_it(lines: Lines) -> None:
    logging.getLogger("goscheduler.x").warning("é\n\x1b[2J", extra={"task": "ü\u2028", "number": float("nan")})
    [text] = lines.texts
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["job_name"] == "ü\u2028"
    assert json.loads(text)["number"] == "nan"


def test_the_lines_of_an_attempt_have_the_ids_of_its_span(lines: Lines) -> None:
    scheduler = ManualScheduler()
    instrument(scheduler, tracer_provider=TracerProvider(), metrics=False)

    def speak() -> None:
        logging.getLogger("goscheduler.mine").warning("inside")

    with scheduler:
        scheduler.add_job(speak, id="speaks")
        scheduler.advance(1)
    [inside] = lines.objects(msg="inside")
    [end] = lines.objects(schedule_id="speaks", outcome="succeeded")
    assert len(inside["trace_id"]) == 32
    assert (inside["trace_id"], inside["span_id"]) == (end["trace_id"], end["span_id"])


@pytest.mark.serial
def test_every_line_of_a_worker_is_json(worker: Callable[..., Any]) -> None:
    process = worker(SOURCE, "--log-format", "json")
    process.wait_for('"schedule_id":"fails","job_name":"jobs:crash","job_id"')
    process.wait_for('"outcome":"failed"')
    assert process.stop() == 0
    objects = [json.loads(line) for line in process.lines]
    assert all({"time", "level", "msg", "component"} <= set(each) for each in objects)
    enqueued = {each["schedule_id"] for each in objects if each["msg"] == "Scheduled job enqueued"}
    assert enqueued == {"hourly", "fails"}


@pytest.mark.serial
def test_a_module_that_sets_up_logging_has_its_way_and_the_worker_says_so(worker: Callable[..., Any]) -> None:
    process = worker(f"import logging\nlogging.basicConfig(level='INFO'){SOURCE}", "--log-format", "json")
    assert "so --log-format json has no effect" in process.wait_for("WARNING:goscheduler.worker:")
    process.wait_for("Worker started")
    assert process.stop() == 0


@pytest.mark.serial
def test_a_format_that_is_unknown_is_refused(worker: Callable[..., Any]) -> None:
    process = worker(SOURCE, "--log-format", "xml")
    assert process.end() == 2
    assert process.lines[-1].startswith("Error: --log-format must be one of text, json")
