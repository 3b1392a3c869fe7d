"""What one round of a scheduler with more than a hundred cron schedules takes: when none is due, and when all are.

One thread does everything: it finds what is due, runs the no-op functions and writes what has to be written. Ours also
writes a record of every run. Servers have the settings of production: what is committed is on the disk.

``python benchmarks/bench_tick.py [memory|sqlite|postgresql|redis ...]``
"""

from __future__ import annotations

import importlib
import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from typing import Any

from bench_durable import durable_store, place
from contenders import ExecutedCounter, noop
from measure import CONTENDERS, OURS, Row, in_fresh_process, percentile, print_table, take_turns

KINDS = ("memory", "sqlite", "postgresql", "redis")
SCHEDULES = 128
LIMIT_MS = 10.0
#: How many times as quick as APScheduler 3 a round in which everything is due has to be on a disk.
GAIN = 5


def cost(root: str, where: str, ticks: int) -> dict[str, dict[str, float]]:
    """Return p50 and p95 in milliseconds of a round in which nothing is due, and of one in which everything is."""
    logging.disable(logging.CRITICAL)
    store = {"type": "memory"} if where == "memory" else durable_store(root, where)
    scheduler, tick = (_ours if root == OURS else _theirs)(
        jobstores={"default": store}, job_defaults={"misfire_grace_time": None}, timezone="UTC"
    )
    counter = ExecutedCounter(root, scheduler, ticks * SCHEDULES)
    jobs = [scheduler.add_job(noop, "cron", hour=3) for _ in range(SCHEDULES)]
    overdue = datetime.now(timezone.utc) - timedelta(minutes=1)
    tick()
    times: dict[str, list[float]] = {"idle": [], "busy": []}
    for _ in range(ticks):
        times["idle"].append(_milliseconds(tick))
        for job in jobs:
            job.modify(next_run_time=overdue)
        times["busy"].append(_milliseconds(tick))
    scheduler.shutdown()
    counter.verify()
    return {name: {"p50": percentile(found, 0.5), "p95": percentile(found, 0.95)} for name, found in times.items()}


def _ours(**options: Any) -> tuple[Any, Callable[[], object]]:
    """Return a scheduler that fires when told, and what tells it."""
    from goscheduler.testing import ManualClock, ManualScheduler

    scheduler = ManualScheduler(clock=ManualClock(datetime.now(timezone.utc)), **options)
    scheduler.start()
    return scheduler, scheduler.run_due


def _theirs(**options: Any) -> tuple[Any, Callable[[], object]]:
    """Return the same of APScheduler 3."""
    base = importlib.import_module("apscheduler.schedulers.base").BaseScheduler
    by_hand = type("ByHand", (base,), {"wakeup": lambda self: None, "shutdown": lambda self: base.shutdown(self)})
    scheduler = by_hand(executors={"default": {"type": "debug"}}, **options)
    scheduler.start()
    return scheduler, scheduler._process_jobs


def _milliseconds(tick: Callable[[], object]) -> float:
    begin = time.perf_counter()
    tick()
    return (time.perf_counter() - begin) * 1000


def main(rounds: int = 3, ticks: int = 10, kinds: Sequence[str] = ()) -> list[Row]:
    return [row for kind in kinds or KINDS for row in _rows(kind, rounds, ticks)]


def _rows(kind: str, rounds: int, ticks: int) -> list[Row]:
    with nullcontext("memory") if kind == "memory" else place(kind) as url:
        found = take_turns(rounds, CONTENDERS, lambda root: in_fresh_process("bench_tick", "cost", root, url, ticks))
    idle, busy = (f"{kind}: a round of {SCHEDULES} schedules, {what}: p50/p95" for what in ("none due", "all due"))
    return [
        _row(idle, found, "idle", limit=LIMIT_MS),
        # On a disk there are two commits, whose time is that of the disk.
        _row(busy, found, "busy", limit=LIMIT_MS if kind == "memory" else None),
    ]


def _row(bench: str, found: dict[str, list[Any]], name: str, limit: float | None) -> Row:
    """Return the row of a bar in milliseconds, or else of one beside APScheduler 3."""
    ours, theirs = (
        [statistics.median(one[name][share] for one in found[root]) for share in ("p50", "p95")] for root in CONTENDERS
    )
    gain = theirs[0] / ours[0]
    return Row(
        bench,
        f"{ours[0]:.2f}/{ours[1]:.2f} ms",
        f"{theirs[0]:.2f}/{theirs[1]:.2f} ms",
        f"{gain:.2f}×",
        f"≥ {GAIN}×" if limit is None else f"p50 ≤ {limit:g} ms",
        gain >= GAIN if limit is None else ours[0] <= limit,
    )


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
