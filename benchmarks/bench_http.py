"""``goscheduler web`` on a large store: how long each page takes, and a minute of a hundred requests a second.

The store is the one of ``bench_reads``. Meanwhile a worker fires other jobs of the same store.

``python benchmarks/bench_http.py [postgresql|sqlite|mariadb|redis|mongodb ...]``, PostgreSQL by default.
"""

from __future__ import annotations

import http.client
import logging
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil
from bench_durable import place
from bench_reads import FIRINGS, _beside, _catch_up, noop
from measure import Row, Sample, in_fresh_process, percentile, print_table, within

from goscheduler.observer import Observer
from goscheduler.schedulers.background import BackgroundScheduler

JOBS = 100_000
CALLS, SECONDS, RATE = 30, 60, 100
WORKERS = 32
#: Page → what 95 % of its answers take at most, in milliseconds, when it is warm.
PAGES = {
    "/": 100.0, "/jobs": 100.0, "/jobs?q=tag:tenant-500": 100.0, "/jobs?q=last:failed": 100.0,
    "/jobs/job-000500": 150.0, "/jobs?q=no-such-text": 400.0, "/runs": 100.0, "/dead": 250.0, "/processes": None,
    "/limits": None, "/calendar": 50.0,
}  # fmt: skip
#: What is asked under load, in turn.
MIXED = (
    "/", "/jobs", "/jobs/job-000500", "/v1/jobs?limit=50&tag=tenant-7", "/v1/jobs/job-000500", "/v1/runs?limit=50",
    "/v1/health", "/v1/jobs/job-000017/why", "/dead", "/runs",
)  # fmt: skip
P99_MS, RESIDENT_MEGABYTES, FIRING_SHARE = 250.0, 150.0, 0.9


class Load(NamedTuple):
    """What a minute under load came to."""

    p99: float
    errors: int
    grown: float
    resident: float
    """Megabytes of the web process."""


@contextmanager
def web(url: str) -> Iterator[tuple[str, int, psutil.Process]]:
    """Give host, port and process of a web process on a store."""
    line = [sys.executable, "-m", "goscheduler", "web", "--port", "0", "--store", url]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = re.search(r"http://([^:]+):(\d+)/", process.stderr.readline())
    assert told is not None
    try:
        yield told[1], int(told[2]), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def pages(host: str, port: int) -> dict[str, float]:
    """Return page → the milliseconds that 95 % of its answers came within."""
    connection = http.client.HTTPConnection(host, port)
    spent: dict[str, float] = {}
    for path in PAGES:
        _settled(connection, path)
        times = [_timed(connection, path)[0] for _ in range(CALLS)]
        spent[path] = percentile(times, 0.95)
    return spent


def _settled(connection: http.client.HTTPConnection, path: str) -> None:
    """Ask twice; the calendar until it has been made in the background."""
    for _ in range(60 if path == "/calendar" else 2):
        _timed(connection, path)
        if path == "/calendar":
            time.sleep(0.1)


def _timed(connection: http.client.HTTPConnection, path: str) -> tuple[float, int]:
    begin = time.perf_counter()
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    answer.read()
    return (time.perf_counter() - begin) * 1000, answer.status


def load(host: str, port: int, process: psutil.Process, seconds: int = SECONDS) -> Load:
    """Ask a hundred times a second, whether the answers have come or not; a late start counts."""
    due: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
    ends: list[tuple[float, int]] = []
    begin, before = time.perf_counter(), process.memory_info().rss
    patience = begin + seconds * 2
    threads = [threading.Thread(target=_visitor, args=(host, port, due, ends, patience)) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for number in range(seconds * RATE):
        moment = begin + number / RATE
        time.sleep(max(0.0, moment - time.perf_counter()))
        due.put((moment, MIXED[number % len(MIXED)]))
        if number == seconds * RATE // 4:
            before = process.memory_info().rss  # warm
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    resident = process.memory_info().rss
    errors = sum(status != 200 for _, status in ends)
    return Load(percentile([spent for spent, _ in ends], 0.99), errors, (resident - before) / 1e6, resident / 1e6)


def _visitor(host: str, port: int, due: Any, ends: list[tuple[float, int]], patience: float) -> None:
    """Ask for what is due; what is not asked for by the end of the patience counts as an error."""
    connection = http.client.HTTPConnection(host, port)
    while (asked := due.get()) is not None:
        moment, path = asked
        status = 0 if time.perf_counter() > patience else _timed(connection, path)[1]
        ends.append(((time.perf_counter() - moment) * 1000, status))


def firing_beside(url: str, seconds: float) -> dict[str, Any]:
    """Fire other jobs of the store, alone and beside a web process that is asked; return rates and what was asked."""
    logging.disable(logging.CRITICAL)
    scheduler = BackgroundScheduler(
        jobstores={"default": url}, timezone="UTC", job_defaults={"misfire_grace_time": None}
    )
    scheduler.start()
    scheduler.add_jobs([
        {"func": noop, "trigger": "interval", "seconds": 1, "id": f"beside-{number}"} for number in range(300)
    ])  # fmt: skip
    time.sleep(3)
    _catch_up(scheduler)
    alone = _rate(scheduler, lambda: time.sleep(10))
    found: dict[str, Any] = {}
    with web(url) as (host, port, process):
        found["pages"] = pages(host, port)
        meanwhile = _rate(scheduler, lambda: found.update(load=load(host, port, process, int(seconds))))
    scheduler.shutdown()
    return {**found, "alone": alone, "meanwhile": meanwhile}


def _rate(scheduler: Any, spend: Any) -> float:
    begin, count = time.perf_counter(), _beside(scheduler)
    spend()
    return (_beside(scheduler) - count) / (time.perf_counter() - begin)


def main(kinds: Sequence[str] = ("postgresql",), jobs: int = JOBS, seconds: int = SECONDS) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds:
        with place(kind) as url:
            in_fresh_process("bench_reads", "fill", url, jobs, FIRINGS)
            with Observer(url):  # what it makes at its first look is not measured
                pass
            found = in_fresh_process("bench_http", "firing_beside", url, seconds)
        rows += [_page_row(kind, path, spent) for path, spent in found["pages"].items()]
        rows += _load_rows(kind, Load(*found["load"]), found["meanwhile"] / found["alone"])
    return rows


def _page_row(kind: str, path: str, spent: float) -> Row:
    sample, limit = Sample((spent,), "{:.0f}", " ms"), PAGES[path]
    bench = f"{kind}: page {path}"
    return Row(bench, str(sample), "–", "–", "–", None) if limit is None else within(bench, sample, limit=limit)


def _load_rows(kind: str, found: Load, share: float) -> list[Row]:
    return [
        within(f"{kind}: {RATE} requests/s, p99", Sample((found.p99,), "{:.0f}", " ms"), limit=P99_MS),
        within(f"{kind}: errors", Sample((found.errors,)), limit=0),
        within(f"{kind}: web process", Sample((found.resident,), "{:.0f}", " MB"), limit=RESIDENT_MEGABYTES),
        Row(f"{kind}: growth of it, warm", f"{found.grown:+.1f} MB", "–", "–", "–", None),
        Row(f"{kind}: firings meanwhile", "beside alone", "–", f"{share:.2f}×", "≥ 0.9×", share >= FIRING_SHARE),
    ]


if __name__ == "__main__":
    print_table(main(sys.argv[1:] or ("postgresql",)))
