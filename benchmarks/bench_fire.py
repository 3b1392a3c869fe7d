"""How many due no-op one-shot jobs a second go from the memory store through ten threads to an EXECUTED listener."""

from __future__ import annotations

import time
from datetime import datetime, timezone

from contenders import ExecutedCounter, background_scheduler, noop
from measure import CONTENDERS, OURS, THEIRS, Row, Sample, compare, in_fresh_process, print_table, take_turns

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)


def fire_rate(root: str, jobs: int) -> float:
    """Return runs per second, from ``resume()`` to the last event heard; every event is counted."""
    scheduler = background_scheduler(root)
    scheduler.start(paused=True)
    counter = ExecutedCounter(root, scheduler, jobs)
    for _ in range(jobs):
        scheduler.add_job(noop, "date", run_date=LONG_AGO)
    begin = time.perf_counter()
    scheduler.resume()
    counter.wait()
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    counter.verify()
    return jobs / elapsed


def main(rounds: int = 5, jobs: int = 20_000) -> list[Row]:
    rates = take_turns(rounds, CONTENDERS, lambda root: in_fresh_process("bench_fire", "fire_rate", root, jobs))
    ours, theirs = (Sample(tuple(rates[root]), unit="/s") for root in (OURS, THEIRS))
    return [compare(f"fire {jobs:,} due one-shot jobs", ours, theirs, at_least=3)]


if __name__ == "__main__":
    print_table(main())
