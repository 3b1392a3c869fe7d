"""Many tenants with a limit each: how many due no-op jobs a second go through twenty threads, beside jobs without.

Of 200 tenants, each with 50 jobs that are due at once, at most two jobs run at a time. Most runs have to wait, and have
their turn when another one of their tenant ends.

``python benchmarks/bench_limits.py [sqlite|postgresql|mariadb|redis|mongodb ...]``, all by default.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from bench_durable import LONG_AGO, OURS, durable_store, place
from contenders import ExecutedCounter, noop
from measure import Row, Sample, in_fresh_process, print_table, take_turns

KINDS = ("sqlite", "postgresql", "mariadb", "redis", "mongodb")
THREADS = 20
TENANTS = 200
AT_ONCE = 2
LIMITED, UNLIMITED = "limited", "unlimited"
#: The rate to be reached under limits: this one, or this share of the rate without limits, whichever is less.
RATE_BAR = 2500
SHARE_BAR = 0.25
#: Stores of which nothing is promised.
WITHOUT_BAR = ("sqlite", "mariadb", "mongodb")


def rate(url: str, jobs: int, contender: str) -> float:
    """Return runs per second, from ``resume()`` to the last event heard; every event is counted."""
    from goscheduler import BackgroundScheduler, Limit
    from goscheduler.executors.pool import ThreadPoolExecutor

    logging.disable(logging.CRITICAL)
    scheduler = BackgroundScheduler(
        jobstores={"default": durable_store(OURS, url)},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )
    scheduler.start(paused=True)
    counter = ExecutedCounter(OURS, scheduler, jobs)
    tenants = [Limit(f"tenant-{number}", concurrency=AT_ONCE) for number in range(TENANTS)]
    scheduler.add_jobs(
        {"func": noop, "trigger": "date", "run_date": LONG_AGO, "limits": limit}
        for number in range(jobs)
        for limit in [tenants[number % TENANTS] if contender == LIMITED else None]
    )
    begin = time.perf_counter()
    scheduler.resume()
    counter.wait()
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    counter.verify()
    return jobs / elapsed


def main(rounds: int = 3, jobs: int = 10_000, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or KINDS:
        with place(kind) as url:
            rows.append(_row(kind, url, rounds, jobs))
    return rows


def _row(kind: str, url: str, rounds: int, jobs: int) -> Row:
    def measure(contender: str) -> float:
        return float(in_fresh_process("bench_limits", "rate", url, jobs, contender))

    results = take_turns(rounds, (LIMITED, UNLIMITED), measure)
    limited, unlimited = (Sample(tuple(results[contender]), unit="/s") for contender in (LIMITED, UNLIMITED))
    share = limited.median / unlimited.median
    bar = min(RATE_BAR, SHARE_BAR * unlimited.median)
    promised = kind not in WITHOUT_BAR
    return Row(
        f"{kind}: {TENANTS} limits of {AT_ONCE} runs", str(limited), f"no limits {unlimited}", f"{share:.2f}×",
        f"≥ {bar:,.0f}/s" if promised else "–", limited.median >= bar if promised else None,
    )  # fmt: skip


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
