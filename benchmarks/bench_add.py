"""How many jobs a second can be added to a started, paused scheduler."""

from __future__ import annotations

import time
from datetime import datetime, timezone

from contenders import background_scheduler, noop
from measure import CONTENDERS, OURS, THEIRS, Row, Sample, compare, in_fresh_process, print_table, take_turns

TRIGGERS: dict[str, dict[str, object]] = {
    "date": {"run_date": datetime(2100, 1, 1, tzinfo=timezone.utc)},
    "interval": {"hours": 1},
    "cron": {"minute": "*/5"},
}


def add_rate(root: str, trigger: str, jobs: int) -> float:
    """Return jobs added per second."""
    scheduler = background_scheduler(root)
    scheduler.start(paused=True)
    begin = time.perf_counter()
    for _ in range(jobs):
        scheduler.add_job(noop, trigger, **TRIGGERS[trigger])
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    return jobs / elapsed


def main(rounds: int = 5, jobs: int = 20_000) -> list[Row]:
    return [_row(trigger, rounds, jobs) for trigger in TRIGGERS]


def _row(trigger: str, rounds: int, jobs: int) -> Row:
    rates = take_turns(rounds, CONTENDERS, lambda root: in_fresh_process("bench_add", "add_rate", root, trigger, jobs))
    ours, theirs = (Sample(tuple(rates[root]), unit="/s") for root in (OURS, THEIRS))
    return compare(f"add {jobs:,} {trigger} jobs", ours, theirs, at_least=1)


if __name__ == "__main__":
    print_table(main())
