"""How quickly a lock between processes is acquired and released that nobody else wants, on every server.

Servers have the settings of production: what is committed is on the disk.

``python benchmarks/bench_locks.py [memory|sqlite|postgresql|mariadb|redis|mongodb|etcd|zookeeper ...]``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext

from bench_durable import place
from measure import Row, Sample, in_fresh_process, percentile, print_table

KINDS = ("memory", "sqlite", "postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper")
NAME = "nightly-report"


def cost(where: str, locks: int) -> dict[str, float]:
    """Return locks acquired and released per second, and p50 and p95 of the acquisition in milliseconds."""
    from goscheduler.locks import acquire
    from goscheduler.locks.memory import MemoryLocks

    place = MemoryLocks() if where == "memory" else where
    with acquire(place, NAME):  # connects, and makes what there has to be
        pass
    waits = []
    begin = time.perf_counter()
    for _ in range(locks):
        asked = time.perf_counter()
        lock = acquire(place, NAME)
        waits.append((time.perf_counter() - asked) * 1000)
        if not lock.release():
            raise AssertionError("a lock that nobody else wanted was lost")
    elapsed = time.perf_counter() - begin
    return {"rate": locks / elapsed, "p50": percentile(waits, 0.5), "p95": percentile(waits, 0.95)}


def main(rounds: int = 3, locks: int = 500, kinds: Sequence[str] = ()) -> list[Row]:
    return [_row(kind, rounds, locks) for kind in kinds or KINDS]


def _row(kind: str, rounds: int, locks: int) -> Row:
    with nullcontext("memory") if kind == "memory" else place(kind) as url:
        costs = [in_fresh_process("bench_locks", "cost", url, locks) for _ in range(rounds)]
    rate = Sample(tuple(one["rate"] for one in costs), unit="/s")
    p50, p95 = (Sample(tuple(one[name] for one in costs)).median for name in ("p50", "p95"))
    bench = f"{kind}: locks acquired and released, p50/p95 of acquiring"
    return Row(bench, f"{rate}, {p50:.3f}/{p95:.3f} ms", "–", "–", "–", None)


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
