"""What a million interval jobs in memory cost: to add, to fire, to keep, and while nothing is due.

The reference for memory, APScheduler 3, is measured with fewer jobs, because its cost per job does not depend on how
many there are and a million of them take it minutes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psutil
from contenders import ExecutedCounter, background_scheduler, noop
from measure import OURS, THEIRS, Row, Sample, in_fresh_process, print_table, within

IDLE_SECONDS = 5.0


def cost(root: str, jobs: int, due: int, idle_seconds: float) -> dict[str, float]:
    """Return microseconds per added job and per firing, bytes per job and the CPU share of an idle scheduler.

    ``due`` of the jobs, spread evenly among them, are overdue when the scheduler is let go; each of them fires once
    and goes back among the others. Then nothing is due, and the scheduler is watched for ``idle_seconds``.
    """
    scheduler = background_scheduler(root)
    scheduler.start(paused=True)
    add_seconds, memory = _add_all(scheduler, jobs, due)
    fire_seconds = _fire(root, scheduler, due) if due else 0.0
    result = {
        "add": add_seconds / jobs * 1e6,
        "fire": fire_seconds / max(due, 1) * 1e6,
        "memory": memory / jobs,
        "idle": _idle_share(idle_seconds) if idle_seconds else 0.0,
    }
    scheduler.shutdown(wait=False)
    return result


def _add_all(scheduler: Any, jobs: int, due: int) -> tuple[float, int]:
    """Add the jobs; return the seconds it took and the growth of the resident memory."""
    overdue = datetime.now(timezone.utc) - timedelta(seconds=1)
    stride = jobs // due if due else jobs + 1
    before = _resident()
    begin = time.perf_counter()
    for number in range(jobs):
        if number % stride == 0 and number // stride < due:
            scheduler.add_job(noop, "interval", hours=1, next_run_time=overdue)
        else:
            scheduler.add_job(noop, "interval", hours=1)
    elapsed = time.perf_counter() - begin
    return elapsed, _resident() - before


def _fire(root: str, scheduler: Any, due: int) -> float:
    """Let the scheduler go; return the seconds until all that is due was run and heard of."""
    counter = ExecutedCounter(root, scheduler, due)
    begin = time.perf_counter()
    scheduler.resume()
    counter.wait()
    return time.perf_counter() - begin


def _idle_share(seconds: float) -> float:
    """Return the share of one CPU that this process uses while nothing is due, in per cent."""
    time.sleep(1)
    begin = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - begin) / seconds * 100


def _resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def main(rounds: int = 3, jobs: int = 1_000_000, few: int = 10_000, due: int = 5_000) -> list[Row]:
    small = [_measured(OURS, few, due) for _ in range(rounds)]
    theirs = _measured(THEIRS, jobs // 5, 0)
    large = _measured(OURS, jobs, due, IDLE_SECONDS)
    small += [_measured(OURS, few, due) for _ in range(rounds)]
    return [
        _growth(f"add: {jobs:,} jobs against {few:,}", small, large, "add"),
        _growth(f"fire: {jobs:,} jobs against {few:,}", small, large, "fire"),
        _memory(jobs, large["memory"], theirs["memory"]),
        within(f"idle CPU with {jobs:,} jobs", Sample((large["idle"],), "{:.2f}", " %"), limit=0.5),
    ]


def _measured(root: str, jobs: int, due: int, idle_seconds: float = 0.0) -> dict[str, float]:
    result: dict[str, float] = in_fresh_process("bench_million", "cost", root, jobs, due, idle_seconds)
    return result


def _growth(bench: str, small: list[dict[str, float]], large: dict[str, float], what: str) -> Row:
    """Return the row for "within twice the cost at the small size"."""
    few = Sample(tuple(sample[what] for sample in small), "{:.1f}", " µs")
    many = Sample((large[what],), "{:.1f}", " µs")
    growth = many.median / few.median
    return Row(bench, f"{many} against {few}", "–", f"{growth:.2f}×", "≤ 2×", growth <= 2)


def _memory(jobs: int, ours: float, theirs: float) -> Row:
    """Return the row for memory per job; ``theirs`` was measured with a fifth of the jobs."""
    form: Callable[[float], str] = "{:,.0f} bytes".format
    bench = f"memory per job, {jobs:,} jobs (theirs: {jobs // 5:,})"
    return Row(bench, form(ours), form(theirs), f"{theirs / ours:.2f}×", "≥ 1×", ours <= theirs)


if __name__ == "__main__":
    print_table(main())
