"""How quickly the state of one schedule among many is read, and changed.

Ours reads ``schedule_state``, with the times of runs and the last error; APScheduler 3 has ``get_job``. A change is
``pause_job`` or ``resume_job``, in turns.

``python benchmarks/bench_state.py [memory|sqlite|postgresql|redis ...]``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import cycle, islice
from typing import Any

from bench_durable import durable_scheduler, durable_store, place
from contenders import noop
from measure import CONTENDERS, OURS, Row, Sample, compare, in_fresh_process, print_table, take_turns

KINDS = ("memory", "sqlite", "postgresql", "redis")
SCHEDULES = 128
CRON = "*/5 * * * *"


def cost(root: str, where: str, calls: int) -> dict[str, float]:
    """Return reads and changes per second."""
    store = {"type": "memory"} if where == "memory" else durable_store(root, where)
    scheduler = durable_scheduler(root, store)
    scheduler.start(paused=True)
    ids = [f"schedule-{number}" for number in range(SCHEDULES)]
    (_declare if root == OURS else _add)(scheduler, ids)
    read = scheduler.schedule_state if root == OURS else scheduler.get_job
    changes = cycle([scheduler.pause_job, scheduler.resume_job])
    result = {
        "read": _rate(read, ids, calls),
        "change": _rate(lambda schedule: next(changes)(schedule), [one for one in ids for _ in range(2)], calls),
    }
    scheduler.shutdown()
    return result


def _declare(scheduler: Any, ids: Sequence[str]) -> None:
    from goscheduler.periodic import Schedule, ScheduleRegistry

    registry = ScheduleRegistry()
    for schedule in ids:
        registry.register(Schedule(id=schedule, cron=CRON, job="contenders:noop"))
    scheduler.sync(registry)


def _add(scheduler: Any, ids: Sequence[str]) -> None:
    for schedule in ids:
        scheduler.add_job(noop, "cron", minute="*/5", id=schedule)


def _rate(call: Callable[[str], object], ids: Sequence[str], calls: int) -> float:
    for schedule in ids[:2]:  # connects, and prepares statements
        call(schedule)
    begin = time.perf_counter()
    for schedule in islice(cycle(ids), calls):
        call(schedule)
    return calls / (time.perf_counter() - begin)


def main(rounds: int = 3, calls: int = 1_000, kinds: Sequence[str] = ()) -> list[Row]:
    return [row for kind in kinds or KINDS for row in _rows(kind, rounds, calls)]


def _rows(kind: str, rounds: int, calls: int) -> list[Row]:
    with nullcontext("memory") if kind == "memory" else place(kind) as url:
        found = take_turns(rounds, CONTENDERS, lambda root: in_fresh_process("bench_state", "cost", root, url, calls))
    return [_row(f"{kind}: {what} the state of a schedule", found, what) for what in ("read", "change")]


def _row(bench: str, found: dict[str, list[Any]], what: str) -> Row:
    ours, theirs = (Sample(tuple(one[what] for one in found[root]), unit="/s") for root in CONTENDERS)
    return compare(bench, ours, theirs, at_least=0)._replace(bar="–", holds=None)


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
