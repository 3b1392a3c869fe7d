"""``goscheduler health``, and what a worker tells systemd."""

from __future__ import annotations

import json
import platform
import signal
import socket
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from goscheduler import BackgroundScheduler
from goscheduler.cli._systemd import Systemd
from goscheduler.schedulers._health import Probe


def test_a_store_without_faults_is_healthy(invoke, url):
    result = invoke("health", "--store", url)
    assert (result.exit_code, result.stdout) == (0, "healthy\n")
    told = json.loads(invoke("health", "--store", url, "--json").stdout)
    assert (told["status"], told["pending"]) == ("healthy", 6)


def test_what_is_unhealthy_is_told_and_ends_with_1(invoke, url):
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    scheduler.modify_job("job-0", next_run_time=datetime(2020, 1, 1, tzinfo=timezone.utc))
    scheduler.shutdown()
    result = invoke("health", "--store", url)
    assert result.exit_code == 1
    assert result.stdout.startswith("unhealthy: a job has been due for")
    assert "processes" in result.stdout


def test_a_machine_whose_process_is_gone_is_unhealthy(invoke, url):
    result = invoke("health", "--store", url, "--here")
    assert (result.exit_code, platform.node() in result.stdout) == (1, True)
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start()
    try:
        assert invoke("health", "--store", url, "--here").exit_code == 0
    finally:
        scheduler.shutdown()


@contextmanager
def answering(status, body):
    """Give the URL of a web process that answers so, and what it was asked."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "body", "strict", "exit_code", "first_line"),
    [
        (200, {"status": "HEALTH_STATUS_HEALTHY", "message": ""}, [], 0, "healthy"),
        (200, {"status": "HEALTH_STATUS_DEGRADED", "message": "1 run is stuck"}, [], 0, "degraded: 1 run is stuck"),
        (200, {"status": "degraded", "message": "late"}, ["--strict"], 1, "degraded: late"),
        (503, {"status": "HEALTH_STATUS_UNHEALTHY", "message": "gone"}, [], 1, "unhealthy: gone"),
    ],
)
def test_a_web_process_is_asked_by_its_url(invoke, code, body, strict, exit_code, first_line):
    with answering(code, json.dumps(body).encode()) as (url, asked):
        result = invoke("health", "--url", url, *strict, GOSCHEDULER_TOKEN="gst_1")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (exit_code, first_line)
    assert asked == [("/v1/health", "Bearer gst_1")]


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [(200, b"<html>", "JSON"), (200, b"[]", "object"), (200, b"{}", "status"), (500, b"", "500"), (401, b"", "401")],
)
def test_an_answer_that_tells_nothing_of_health_ends_with_1(invoke, code, body, words):
    with answering(code, body) as (url, _):
        result = invoke("health", "--url", url)
    assert (result.exit_code, words in result.stderr) == (1, True)


def test_nobody_who_answers_ends_with_1_and_a_url_that_is_none_with_2(invoke):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        result = invoke("health", "--url", f"http://ann:hush@127.0.0.1:{taken.getsockname()[1]}")
    assert (result.exit_code, "cannot be reached" in result.stderr, "hush" in result.stderr) == (1, True, False)
    assert invoke("health", "--url", "file:///etc/passwd").exit_code == 2
    assert invoke("health", "--url", "http://x", "--here").exit_code == 2


# systemd

SOURCE = """
from goscheduler import BackgroundScheduler
scheduler = BackgroundScheduler()
"""


@pytest.fixture
def manager(tmp_path):
    """The socket on which systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


@pytest.mark.serial
def test_a_worker_tells_systemd_that_it_is_ready_alive_and_stopping(process, module, manager, tmp_path):
    name = module(SOURCE)
    worker = process(
        "worker", f"{name}:scheduler", NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000"
    )
    assert manager.recv(100) == b"READY=1"
    assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    worker.send(signal.SIGTERM)
    told = manager.recv(100)
    while told == b"WATCHDOG=1":
        told = manager.recv(100)
    assert told == b"STOPPING=1"
    assert worker.end() == 0


def test_systemd_is_not_told_that_a_worker_is_alive_whose_loop_does_not_turn(manager):
    probes, looked = [Probe(True), Probe(False, "it hangs"), Probe(False, "it hangs")], threading.Event()

    def liveness():
        if not probes:
            looked.set()
            return Probe(True)
        return probes.pop(0)

    systemd = Systemd({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "20000"}, liveness)
    systemd.ready()
    assert looked.wait(60)
    assert manager.recv(100) == b"READY=1"
    assert manager.recv(100) == b"WATCHDOG=1"
    assert manager.recv(100) == b"WATCHDOG=1"  # the two between are missing
    systemd.close()


def test_without_systemd_nothing_is_sent_and_no_thread_started(manager):
    before = set(threading.enumerate())
    for environment in (
        {}, {"WATCHDOG_USEC": "1000"}, {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ):  # fmt: skip
        systemd = Systemd(environment, lambda: Probe(True))
        systemd.ready()
        systemd.stopping()
    assert set(threading.enumerate()) <= before
