"""Pings, as a server on this machine gets them."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest

from goscheduler import Retry, fixed
from goscheduler.contrib.healthchecks import Pings
from goscheduler.errors import InvalidArgument
from goscheduler.testing import ManualScheduler


class Service(ThreadingHTTPServer):
    """Answers with the statuses that it is given, then with 200, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.got: list[tuple[str, str, str]] = []
        self.statuses: list[int] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.got]


class Endpoint(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        where = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.got.append((where.path, where.query, body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def service():
    with Service() as service:
        thread = Thread(target=service.serve_forever, args=(0.02,))
        thread.start()
        yield service
        service.shutdown()
        thread.join()


@pytest.fixture
def scheduler():
    with ManualScheduler() as scheduler:
        yield scheduler


def fail():
    raise ValueError("no paper")


def test_a_run_pings_its_start_and_its_end_under_one_id_and_other_jobs_ping_nothing(scheduler, service):
    pings = Pings(scheduler, service.address + "/", {"nightly": "2f5c", "broken": "key/invoices"})
    scheduler.add_job(print, "interval", hours=1, id="nightly")
    scheduler.add_job(print, "interval", hours=1, id="other")
    scheduler.add_job(fail, "interval", hours=1, id="broken")
    scheduler.advance("1h")
    assert sorted(service.paths()) == ["/2f5c", "/2f5c/start", "/key/invoices/fail", "/key/invoices/start"]
    rids = {query for path, query, _ in service.got if path.startswith("/2f5c")}
    assert len(rids) == 1
    assert rids.pop().startswith("rid=")
    (error,) = [body for path, _, body in service.got if path.endswith("/fail")]
    assert error.startswith("  File")
    assert error.endswith("ValueError: no paper")
    pings.close()
    scheduler.advance("1h")
    assert len(service.got) == 4


def test_an_attempt_that_is_tried_again_is_for_the_log_and_the_dead_letter_is_the_failure(scheduler, service):
    Pings(scheduler, service.address, {"a": "uuid"})
    scheduler.add_job(fail, "date", id="a", retry=Retry(max_attempts=2, backoff=fixed(60)), auto_remove=False)
    scheduler.advance("2m")
    assert service.paths() == ["/uuid/start", "/uuid/log", "/uuid/start", "/uuid/log", "/uuid/fail"]
    assert len({query for _, query, _ in service.got}) == 1


def test_a_missed_run_is_a_failure(scheduler, service):
    Pings(scheduler, service.address, {"a": "uuid"})
    scheduler.add_job(print, "interval", hours=1, id="a", misfire_grace_time=60)
    scheduler.clock.advance("90m")
    scheduler.run_due()
    assert [(path, body[:11]) for path, _, body in service.got] == [("/uuid/fail", "The run of ")]


def test_a_ping_is_sent_twice_at_most_and_costs_no_run(scheduler, service, caplog):
    Pings(scheduler, service.address, {"a": "uuid", "gone": "nowhere"})
    service.statuses = [503, 200, 500, 500, 404]
    scheduler.add_job(print, "date", id="a")  # the start is refused once, the success twice
    scheduler.run_due()
    assert service.paths() == ["/uuid/start"] * 2 + ["/uuid"] * 2
    scheduler.add_job(print, "date", id="gone")  # a check that does not exist will not exist a moment later
    scheduler.run_due()
    assert service.paths()[4:] == ["/nowhere/start", "/nowhere"]
    told = [record.getMessage() for record in caplog.records if record.name == "goscheduler.contrib.healthchecks"]
    assert told == [
        'A ping for job "a" failed: HTTP Error 500: Internal Server Error. It is not sent again.',
        'A ping for job "gone" failed: HTTP Error 404: Not Found. It is not sent again.',
    ]
    assert [record.outcome.value for record in scheduler.runs()] == ["succeeded"] * 2


def test_what_is_no_address_or_no_check_is_refused_before_anything_is_listened_to(scheduler):
    for base, checks in (("hc-ping.com", {"a": "x"}), ("https://hc-ping.com", {"a": ""})):
        with pytest.raises(InvalidArgument, match="must be"):
            Pings(scheduler, base, checks)
