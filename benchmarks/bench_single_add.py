"""How many jobs a second one thread adds to a database one by one, by ``add_job``.

Both contenders use the same server with the settings of production, and each job is as safe as that makes it when
``add_job`` returns. Only on MongoDB that is up to the client: both wait until the majority has the job on the disk.

``python benchmarks/bench_single_add.py [sqlite|postgresql|mariadb|redis|mongodb ...]``, all by default.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from bench_durable import FAR_AWAY, durable_scheduler, durable_store, place
from contenders import noop
from measure import CONTENDERS, OURS, THEIRS, Row, Sample, compare, in_fresh_process, print_table, take_turns

#: Database → how many times as quick as APScheduler 3 one ``add_job`` has to be.
BARS = {"sqlite": 1, "postgresql": 1, "mariadb": 1, "redis": 1, "mongodb": 0.8}
#: What a client has to say so that a job is on the disk, where the server leaves that to it.
SAFE = {"mongodb": {"w": "majority", "journal": True}}
#: Connections, prepared statements and caches are there when the clock starts.
WARM_UP = 50


def add_rate(root: str, url: str, jobs: int) -> float:
    """Return jobs added per second."""
    scheduler = durable_scheduler(root, durable_store(root, url, **SAFE.get(urlsplit(url).scheme, {})))
    scheduler.start(paused=True)
    for _ in range(WARM_UP):
        scheduler.add_job(noop, "date", run_date=FAR_AWAY)
    begin = time.perf_counter()
    for _ in range(jobs):
        scheduler.add_job(noop, "date", run_date=FAR_AWAY)
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    return jobs / elapsed


def main(rounds: int = 5, jobs: int = 1_000, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or BARS:
        with place(kind) as url:
            rows.append(_row(kind, url, rounds, jobs))
    return rows


def _row(kind: str, url: str, rounds: int, jobs: int) -> Row:
    rates = take_turns(
        rounds, CONTENDERS, lambda root: in_fresh_process("bench_single_add", "add_rate", root, url, jobs)
    )
    ours, theirs = (Sample(tuple(rates[root]), unit="/s") for root in (OURS, THEIRS))
    return compare(f"{kind}: add_job", ours, theirs, at_least=BARS[kind])


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
