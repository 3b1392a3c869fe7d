"""``goscheduler worker --metrics-port``: a real process that Prometheus can read."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.serial

SOURCE = """
from goscheduler import BackgroundScheduler

def crash():
    raise ValueError("no luck")

def tick():
    print("ticked", flush=True)

scheduler = BackgroundScheduler(jobstores={"default": "sqlite:///jobs.db"})
scheduler.add_job(crash, id="fails", dead_letter=True)
scheduler.add_job(tick, id="ticks", run_date=None, trigger="date", priority=9)
"""


def _address(process: Any) -> str:
    line = process.wait_for("Metrics are at ")
    found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
    assert found, line
    return found[0]


def test_a_worker_serves_what_the_parser_of_prometheus_reads(
    worker: Callable[..., Any], samples: Callable[[str], Any], scrape: Callable[[str], str]
) -> None:
    process = worker(SOURCE, "--metrics-port", "0", "--metrics-host", "127.0.0.1", "--metrics-cluster")
    address = _address(process)
    process.wait_for("dead letter")
    found = samples(scrape(address))
    while len(found.get("scheduler_runs_total", ())) < 2:  # until what has been logged is counted
        found = samples(scrape(address))
    runs = {(dict(labels)["schedule_id"], dict(labels)["status"]) for labels in found["scheduler_runs_total"]}
    assert runs == {("jobs:crash", "failed"), ("jobs:tick", "succeeded")}
    calls = {dict(labels)["call"] for labels in found["scheduler_store_call_seconds_count"]}
    assert calls == {"fire_due", "claim_runs", "settle", "renew_owner"}
    assert found["scheduler_lease_seconds_left"][(("store", "default"),)] > 0
    assert "scheduler_dead_letters" in found
    assert process.stop() == 0


def test_there_is_one_path_and_it_cannot_be_written_to(worker: Callable[..., Any]) -> None:
    process = worker(SOURCE, "--metrics-port", "0", "--metrics-host", "127.0.0.1")
    address = _address(process)
    for url, data, code in ((address[: -len("/metrics")], None, 404), (address, b"x", 501)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, data=data, timeout=60)
        assert refused.value.code == code
        refused.value.close()


def test_a_port_that_is_taken_is_one_line_and_the_worker_does_not_start(
    worker: Callable[..., Any], tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = worker(SOURCE, "--metrics-port", str(port), "--metrics-host", "127.0.0.1")
        assert process.end() == 2
    [line] = [line for line in process.lines if line.startswith("Error: ")]
    assert f"port {port}" in line
    assert "Traceback" not in "".join(process.lines)
    assert not any("Worker started" in line or "ticked" in line for line in process.lines)
