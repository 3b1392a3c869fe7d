"""How soon a job that one process adds starts in another one that has nothing to do, and what it costs to be ready.

This process adds jobs to a store and fires none. Another one is idle when a job comes. Measured is the time from the
return of ``add_job`` here to the first line of the job there, and of the other process, while nothing happens, how much
of a core it takes and how many statements or calls it sends.

``python benchmarks/bench_pickup.py [sqlite|mariadb|etcd|zookeeper|postgresql|redis|mongodb ...]``, all by default.
"""

from __future__ import annotations

import importlib
import logging
import queue
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench_durable import place
from measure import HERE, Row, print_table

#: Store → how many milliseconds 95 of 100 jobs may take.
BARS = {"sqlite": 60, "mariadb": 200, "etcd": 100, "zookeeper": 100, "postgresql": 60, "redis": 60, "mongodb": 100}
IDLE_BAR = 0.5
PATIENCE = 60
#: Store → the function of its driver that every statement or call goes through.
CALLS = {
    "mariadb": ("pymysql.connections", "Connection", "_execute_command"),
    "postgresql": ("psycopg", "Cursor", "execute"),
    "redis": ("redis.connection", "Connection", "send_packed_command"),
    "mongodb": ("pymongo.pool", "Connection", "command"),
    "etcd": ("requests", "Session", "request"),
    "zookeeper": ("kazoo.client", "KazooClient", "_call"),
}


_starts: queue.SimpleQueue[float] = queue.SimpleQueue()


class Idle(NamedTuple):
    """What a process took that had nothing to do."""

    percent: float
    """Of one core."""
    calls: float
    """Statements or calls a second."""


def main(adds: int = 30, seconds: float = 10.0, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or BARS:
        with place(kind) as url:
            rows += _rows(kind, *pickup(kind, url.replace("NAME", "pickup"), adds, seconds))
    return rows


def _rows(kind: str, late: list[float], idle: Idle) -> list[Row]:
    p95 = late[int(len(late) * 0.95)]
    figures = f"{late[len(late) // 2]:.0f}/{p95:.0f}/{late[-1]:.0f} ms"
    took = f"{idle.percent:.2f} %, {idle.calls:.1f}/s"
    bar = f"≤ {IDLE_BAR} %"
    return [
        Row(f"{kind}: from add_job to another process: p50/p95/max", figures, "–", "–", f"p95 ≤ {BARS[kind]} ms",
            p95 <= BARS[kind]),
        Row(f"{kind}: an idle process: of a core, statements", took, "–", "–", bar, idle.percent <= IDLE_BAR),
    ]  # fmt: skip


def pickup(kind: str, url: str, adds: int, seconds: float) -> tuple[list[float], Idle]:
    """Return the times in milliseconds, in order, and what the other process takes while it is idle."""
    scheduler = _scheduler(url)
    scheduler.start(paused=True)
    try:
        with _other_process(kind, url) as ask:
            idle = Idle(*map(float, ask(f"idle {seconds}").split()))
            return sorted(_time_of_one(scheduler, ask) for _ in range(adds)), idle
    finally:
        scheduler.shutdown()


def _time_of_one(scheduler: Any, ask: Callable[[str], str]) -> float:
    time.sleep(random.uniform(0.6, 1.6))  # the other one is idle, and is met at any moment of its rest
    scheduler.add_job(note_start)
    added = time.monotonic()
    return (float(ask("started")) - added) * 1000


@contextmanager
def _other_process(kind: str, url: str) -> Iterator[Callable[[str], str]]:
    """Give a function that says a line to a process that fires what is in the store, and returns its answer."""
    command = [sys.executable, str(HERE / "bench_pickup.py"), "--serve", kind, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        asking, answers = process.stdin, process.stdout
        assert asking is not None
        assert answers is not None

        def ask(line: str) -> str:
            asking.write(f"{line}\n")
            return answers.readline()

        try:
            ask("ready")
            yield ask
        finally:
            asking.close()  # ends it


def serve(kind: str, url: str) -> None:
    """Fire what others add, and answer questions, until nobody is there to ask."""
    calls = _counted_calls(kind)
    scheduler = _scheduler(url)
    scheduler.start()
    answers = {"ready": lambda: "yes", "started": lambda: str(_starts.get(timeout=PATIENCE))}
    for line in sys.stdin:
        word, *seconds = line.split()
        print(_idle(calls, float(seconds[0])) if seconds else answers[word](), flush=True)
    scheduler.shutdown()


def _idle(calls: list[int], seconds: float) -> str:
    time.sleep(3.0)  # what the start has left to do
    called, begin = calls[0], time.process_time()
    time.sleep(seconds)
    return f"{(time.process_time() - begin) / seconds * 100} {(calls[0] - called) / seconds}"


def note_start() -> None:
    """Be the job: tell when it has started, by the clock that all processes of a machine share."""
    _starts.put(time.monotonic())


def _counted_calls(kind: str) -> list[int]:
    """Return a list of one number, which is how many statements or calls were sent."""
    count = [0]

    def add(*_: Any) -> None:
        count[0] += 1

    if kind == "sqlite":
        from sqlalchemy import Engine, event

        event.listen(Engine, "connect", lambda connection, _record: connection.set_trace_callback(add))
        return count
    module, name, method = CALLS[kind]
    owner = getattr(importlib.import_module(module), name)
    original = getattr(owner, method)

    def counted(*arguments: Any, **options: Any) -> Any:
        add()
        return original(*arguments, **options)

    setattr(owner, method, counted)
    return count


def _scheduler(url: str) -> Any:
    from goscheduler.schedulers.background import BackgroundScheduler

    logging.disable(logging.CRITICAL)
    return BackgroundScheduler(
        jobstores={"default": url}, job_defaults={"misfire_grace_time": None}, timezone="UTC"
    )


if __name__ == "__main__":
    # The job is found by the name of its module, in both processes.
    bench: Any = importlib.import_module("bench_pickup")
    if sys.argv[1:2] == ["--serve"]:
        bench.serve(*sys.argv[2:])
    else:
        print_table(bench.main(kinds=sys.argv[1:]))
