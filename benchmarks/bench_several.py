"""Several processes on one database: how many due no-op one-shot jobs a second they fire together, and in what shares.

More processes than processors cannot be quicker than one that keeps these busy. The bar is that they are not slower
for being in each other's way, and that each of them gets work.

``python benchmarks/bench_several.py [sqlite|postgresql|mariadb|redis|mongodb ...]``, all by default.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench_durable import LONG_AGO, OURS, add, durable_scheduler, place
from contenders import PATIENCE
from measure import HERE, Row, Sample, print_table, take_turns

KINDS = ("sqlite", "postgresql", "mariadb", "redis", "mongodb")
SEVERAL = 4
#: The least of the rate of one process that several have to reach together, and of all work that each of them gets.
RATE_BAR = 1.0
SHARE_BAR = 0.1
#: How often a process tells how many jobs it has fired, in seconds.
TELL_EVERY = 0.25


def work(url: str, name: str) -> None:
    """Fire what is due in this process; the way to talk with it are lines of its standard input and output."""
    from goscheduler.events import EVENT_JOB_EXECUTED

    scheduler = durable_scheduler(OURS, store_at(url, name))
    ends: list[float] = []
    scheduler.add_listener(lambda _event: ends.append(time.time()), EVENT_JOB_EXECUTED)
    scheduler.start(paused=True)
    print("ready", flush=True)
    sys.stdin.readline()
    scheduler.resume()
    while not select.select([sys.stdin], [], [], TELL_EVERY)[0]:
        print(len(ends), flush=True)
    scheduler.shutdown()
    print(json.dumps([len(ends), max(ends, default=0.0)]))


def store_at(url: str, name: str) -> Any:
    """Return a store that other processes use, too."""
    if url.startswith("redis"):
        from goscheduler.jobstores.redis import RedisJobStore

        return RedisJobStore(url=url, prefix=name)
    if url.startswith("mongodb"):
        from goscheduler.jobstores.mongodb import MongoDBJobStore

        return MongoDBJobStore(url=url, database="bench", collection=name)
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    return SQLAlchemyJobStore(url=url.replace("NAME", name), tablename=name)


def together(url: str, processes: int, jobs: int) -> tuple[float, list[float]]:
    """Return how many jobs a second so many processes fire, and the share that each of them gets of all."""
    name = f"s{time.time_ns():x}"
    _fill(url, name, jobs)
    workers = [_started(url, name) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n", "a process did not start"
    begin = time.time()
    for worker in workers:
        _say(worker, "go")
    _wait_until_done(workers, jobs)
    counts, ends = zip(*(_ended(worker) for worker in workers), strict=True)
    if sum(counts) != jobs:
        raise AssertionError(f"{sum(counts)} runs of {jobs} jobs")
    return jobs / (max(ends) - begin), [count / jobs for count in counts]


def _fill(url: str, name: str, jobs: int) -> None:
    """Add jobs by a scheduler that is gone before the others come: a store knows who is alone."""
    adder = durable_scheduler(OURS, store_at(url, name))
    adder.start(paused=True)
    add(OURS, adder, jobs, LONG_AGO)
    adder.shutdown()


def _started(url: str, name: str) -> Any:
    command = [sys.executable, str(HERE / "bench_several.py"), "--work", url, name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _say(worker: Any, word: str) -> None:
    worker.stdin.write(f"{word}\n")
    worker.stdin.flush()


def _wait_until_done(workers: Sequence[Any], jobs: int) -> None:
    """Wait until the processes have told that all jobs were fired: to ask the store would slow them down."""
    patience = time.monotonic() + PATIENCE
    while sum(int(worker.stdout.readline()) for worker in workers) < jobs:
        if time.monotonic() > patience:
            raise TimeoutError(f"{jobs} jobs were not fired within {PATIENCE} s")


def _ended(worker: Any) -> tuple[int, float]:
    out, _ = worker.communicate("stop\n", timeout=PATIENCE)
    count, last = json.loads(out.splitlines()[-1])
    return count, last


def main(rounds: int = 3, jobs: int = 20_000, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or KINDS:
        with place(kind) as url:
            rows += _rows(kind, url, rounds, jobs)
    return rows


def _rows(kind: str, url: str, rounds: int, jobs: int) -> list[Row]:
    results = take_turns(rounds, ("1", str(SEVERAL)), lambda count: together(url, int(count), jobs))
    one, all_of_them = (Sample(tuple(rate for rate, _ in results[count]), unit="/s") for count in results)
    least = Sample(tuple(min(shares) for _, shares in results[str(SEVERAL)]), "{:.0%}")
    ratio = all_of_them.median / one.median
    name = f"{kind}: {SEVERAL} processes"
    return [
        Row(f"{name}, rate", str(all_of_them), f"one {one}", f"{ratio:.2f}×", f"≥ {RATE_BAR:g}×", ratio >= RATE_BAR),
        Row(f"{name}, least share", str(least), "–", "–", f"≥ {SHARE_BAR:.0%}", least.median >= SHARE_BAR),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        print_table(main(kinds=sys.argv[1:]))
