"""What a million interval jobs in a database cost: to start, to keep in mind, to fire, and while nothing is due.

One process fills the tables, another one starts on them, as after a deployment.
"""

from __future__ import annotations

import importlib
import logging
import time
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

import psutil
from bench_durable import place
from contenders import WORKERS, ExecutedCounter, noop
from measure import OURS, Row, Sample, in_fresh_process, print_table, within

KINDS = ("sqlite", "postgresql")
AT_ONCE = 20_000
START_SECONDS = 2.0
RESIDENT_MEGABYTES = 150
IDLE_SECONDS = 20.0


def fill(url: str, jobs: int, due: int) -> float:
    """Add jobs, ``due`` of which are overdue and spread evenly among the others; return microseconds per job."""
    scheduler = _scheduler(url)
    scheduler.start(paused=True)
    overdue = datetime.now(timezone.utc) - timedelta(seconds=1)
    stride = jobs // due
    later: dict[str, Any] = {"func": noop, "trigger": "interval", "hours": 1}
    definitions = (
        {**later, "next_run_time": overdue} if number % stride == 0 and number // stride < due else later
        for number in range(jobs)
    )
    begin = time.perf_counter()
    while batch := list(islice(definitions, AT_ONCE)):
        scheduler.add_jobs(batch)
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    return elapsed / jobs * 1e6


def cost(url: str, due: int, idle_seconds: float) -> dict[str, float]:
    """Start on tables that are full, and return what that costs.

    Seconds until ``start()`` returns, microseconds per firing, megabytes that the process has in the end, and
    statements a second while nothing is due.
    """
    from sqlalchemy import event

    scheduler = _scheduler(url)
    counter = ExecutedCounter(OURS, scheduler, due)
    begin = time.perf_counter()
    scheduler.start(paused=True)
    started = time.perf_counter()
    scheduler.resume()
    counter.wait()
    fired = time.perf_counter()
    statements: list[str] = []
    time.sleep(2 if idle_seconds else 0)
    engine = scheduler._engine.stores["default"]._database.engine
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    time.sleep(idle_seconds)
    asked = [statement for statement in statements if not statement.startswith("BEGIN")]
    resident = psutil.Process().memory_info().rss
    scheduler.shutdown()
    return {
        "start": started - begin,
        "fire": (fired - started) / due * 1e6,
        "resident": resident / 1e6,
        "idle": len(asked) / max(idle_seconds, 1),
    }


def _scheduler(url: str) -> Any:
    logging.disable(logging.CRITICAL)
    pool = importlib.import_module("goscheduler.executors.pool")
    background = importlib.import_module("goscheduler.schedulers.background")
    return background.BackgroundScheduler(
        jobstores={"default": url},
        executors={"default": pool.ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )


def main(rounds: int = 3, jobs: int = 1_000_000, few: int = 10_000, due: int = 5_000) -> list[Row]:
    rows: list[Row] = []
    for kind in KINDS:
        small = [_measured(kind, few, due, 0.0)["fire"] for _ in range(rounds)]
        large = _measured(kind, jobs, due, IDLE_SECONDS)
        rows += _rows(f"{kind}, {jobs:,} jobs", large, Sample(tuple(small), "{:.1f}", " µs"))
    return rows


def _measured(kind: str, jobs: int, due: int, idle_seconds: float) -> dict[str, float]:
    with place(kind) as url:
        url = url.replace("NAME", "large")
        added = in_fresh_process("bench_large", "fill", url, jobs, due)
        result: dict[str, float] = in_fresh_process("bench_large", "cost", url, due, idle_seconds)
    return {"add": added, **result}


def _rows(bench: str, large: dict[str, float], few: Sample) -> list[Row]:
    fire = Sample((large["fire"],), "{:.1f}", " µs")
    growth = fire.median / few.median
    resident = Sample((large["resident"],), "{:.0f}", " MB")
    idle = Sample((large["idle"],), "{:.2f}", " statements/s")
    return [
        within(f"{bench}: start-up", Sample((large["start"],), "{:.2f}", " s"), limit=START_SECONDS),
        within(f"{bench}: resident memory", resident, limit=RESIDENT_MEGABYTES),
        Row(f"{bench}: a firing", f"{fire} against {few}", "–", f"{growth:.2f}×", "≤ 2×", growth <= 2),
        # A look a second where the database cannot tell of changes; lease and lost owners cost a statement at times.
        within(f"{bench}: idle", idle, limit=1.5),
    ]


if __name__ == "__main__":
    print_table(main())
