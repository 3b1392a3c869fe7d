"""What Sentry gets: envelopes of the real SDK, at a server on this machine."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import warm

from goscheduler.contrib.sentry import SentryCrons
from goscheduler.errors import InvalidArgument
from goscheduler.testing import ManualScheduler

PROGRAM = Path(__file__).parent / "sentry_program.py"


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.items: list[tuple[str, dict[str, Any]]] = []


class Endpoint(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        plain = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
        self.server.items.extend(items_of(plain))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


def items_of(envelope: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = iter(envelope.split(b"\n")[1:])
    for header in filter(None, lines):
        yield json.loads(header)["type"], json.loads(next(lines))


@pytest.fixture(scope="module")
def received(tmp_path_factory) -> list[tuple[str, dict[str, Any]]]:
    with Receiver() as receiver:
        thread = Thread(target=receiver.serve_forever, args=(0.02,))
        thread.start()
        dsn = f"http://key@127.0.0.1:{receiver.server_port}/1"
        done = warm.run(PROGRAM, dsn, cwd=tmp_path_factory.mktemp("sentry"), env={**os.environ})
        receiver.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    return receiver.items


def check_ins(received, slug: str) -> list[dict[str, Any]]:
    return [item for kind, item in received if kind == "check_in" and re.fullmatch(slug, item["monitor_slug"])]


def events(received, job_id: str) -> list[dict[str, Any]]:
    found = [item for kind, item in received if kind == "event"]
    return [event for event in found if event.get("tags", {}).get("goscheduler.job_id") == job_id]


@pytest.mark.serial
def test_a_run_checks_in_and_out_and_its_monitor_is_configured_by_its_schedule(received):
    begins, ends = check_ins(received, "well")
    assert (begins["status"], ends["status"]) == ("in_progress", "ok")
    assert begins["check_in_id"] == ends["check_in_id"]
    assert begins["monitor_config"] == {
        "schedule": {"type": "interval", "value": 1, "unit": "day"}, "max_runtime": 2
    }  # fmt: skip
    assert [each["status"] for each in check_ins(received, "child")] == ["in_progress", "ok"]


@pytest.mark.serial
def test_each_attempt_checks_in_and_a_wish_of_the_job_is_no_error_event(received):
    found = check_ins(received, r"patient-[0-9a-f]{8}")
    assert [each["status"] for each in found] == ["in_progress", "error", "in_progress", "ok"]
    assert len({each["check_in_id"] for each in found}) == 2
    assert found[0]["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 3 * * *"}, "timezone": "Europe/Oslo", "failure_issue_threshold": 2
    }  # fmt: skip
    assert events(received, "Patient") == []


@pytest.mark.serial
def test_an_error_comes_once_with_the_facts_of_its_run_and_without_those_of_other_runs(received):
    error, letter = events(received, "broken")
    assert error["exception"]["values"][-1]["value"] == "no paper in attempt 1"
    assert error["exception"]["values"][-1]["stacktrace"]["frames"][-1]["function"] == "broken"
    assert error["tags"]["goscheduler.task"].endswith(":broken")
    assert error["contexts"]["goscheduler"]["attempt"] == 1
    assert error["transaction"] == "broken"
    assert "left behind" not in error["tags"]
    assert letter["message"] == 'A run of job "broken" is a dead letter'
    assert [each["status"] for each in check_ins(received, "broken")] == ["in_progress", "error"]


@pytest.mark.serial
def test_the_scope_is_there_in_a_child_process_and_a_schedule_that_cannot_be_told_has_no_monitor(received):
    assert [event["message"] for event in events(received, "child")] == ["from the child"]
    assert check_ins(received, "late.*") == []


def test_only_jobs_with_a_tag_are_watched_if_tags_are_given(monkeypatch):
    told = []
    monkeypatch.setattr("goscheduler.contrib.sentry.capture_checkin", lambda **facts: told.append(facts))
    with ManualScheduler() as scheduler:
        crons = SentryCrons(scheduler, monitors=["watched"])
        scheduler.add_job(print, "interval", seconds=5, id="a", tags=["watched"])
        scheduler.add_job(print, "interval", minutes=5, id="b")
        scheduler.advance(5)
        scheduler.modify_job("a", tags=[])
        scheduler.advance(5)
        crons.close()
    assert [(each["monitor_slug"], each["status"], each["monitor_config"]) for each in told] == [
        ("a", "in_progress", None), ("a", "ok", None)
    ]  # fmt: skip
    with pytest.raises(InvalidArgument, match="monitors must be 'all' or a collection of tags, got 'every'"):
        SentryCrons(scheduler, monitors="every")


def test_jobs_that_run_once_and_many_jobs_leave_a_bounded_number_of_configurations(monkeypatch):
    told = []
    monkeypatch.setattr("goscheduler.contrib.sentry.capture_checkin", lambda **facts: told.append(facts))
    monkeypatch.setattr("goscheduler.contrib.sentry.BELIEVED_OF", 3)
    with ManualScheduler() as scheduler:
        crons = SentryCrons(scheduler)
        for number in range(5):
            scheduler.add_job(print, id=f"once{number}")
        scheduler.run_due()
        assert len(crons._configs) == 0
        for number in range(5):
            scheduler.add_job(print, "interval", minutes=5, id=f"job{number}")
        scheduler.advance("5m")
        assert len(crons._configs) == 3
    assert len(told) == 10
