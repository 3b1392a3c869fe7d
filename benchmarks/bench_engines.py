"""What an engine costs the others: due no-op jobs fired to a thread pool, beside a Dask executor that is full.

The rate is that of a second of processor time of the process, so that the workers of Dask, which are busy on the same
machine, do not change it; with few jobs it shows what the client of Dask costs at rest. Meanwhile due jobs wait in the
store for the Dask executor, and as soon as one of its runs ends the next one is handed over.

``python benchmarks/bench_engines.py``
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from bench_durable import LONG_AGO, OURS
from contenders import WORKERS, ExecutedCounter, noop
from measure import Row, Sample, compare, in_fresh_process, print_table, take_turns

ALONE, BESIDE = "alone", "beside Dask"
#: The share of the rate without an engine that has to be left.
BAR = 0.9
ENGINE_JOBS = 200
ENGINE_SECONDS = 0.5
DASK_WORKERS = 2


def nap(seconds: float) -> None:
    time.sleep(seconds)


def rate(address: str, jobs: int, contender: str) -> float:
    """Return runs per second of processor time in the thread pool, from ``resume()`` to the last event."""
    from goscheduler import BackgroundScheduler, ThreadPoolExecutor

    logging.disable(logging.CRITICAL)
    executors: dict[str, object] = {"default": ThreadPoolExecutor(WORKERS)}
    if contender == BESIDE:
        executors["dask"] = {"type": "dask", "address": address}
    scheduler = BackgroundScheduler(
        executors=executors, job_defaults={"misfire_grace_time": None, "max_instances": ENGINE_JOBS}, timezone="UTC"
    )
    scheduler.start()
    if contender == BESIDE:
        _saturate(scheduler)
    scheduler.pause()
    counter = ExecutedCounter(OURS, scheduler, jobs)
    scheduler.add_jobs({"func": noop, "trigger": "date", "run_date": LONG_AGO} for _ in range(jobs))
    begin = time.process_time()
    scheduler.resume()
    counter.wait()
    elapsed = time.process_time() - begin
    scheduler.shutdown(wait=False)
    return jobs / elapsed


def _saturate(scheduler: object) -> None:
    """Fill the Dask executor, and leave jobs waiting for it."""
    executor = scheduler.engine.executors["dask"]  # type: ignore[attr-defined]
    scheduler.add_jobs(  # type: ignore[attr-defined]
        {
            "func": "bench_engines:nap", "args": [ENGINE_SECONDS], "executor": "dask", "trigger": "date",
            "run_date": LONG_AGO,
        }
        for _ in range(ENGINE_JOBS)
    )  # fmt: skip
    while executor.live() < DASK_WORKERS:
        time.sleep(0.01)


def main(rounds: int = 5, jobs: int = 50_000) -> list[Row]:
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))
    from dask_cluster import DaskCluster

    with tempfile.TemporaryDirectory() as folder:
        cluster = DaskCluster(Path(folder), Path(__file__).parent)
        try:
            for _ in range(DASK_WORKERS):
                cluster.add_worker()
            found = take_turns(
                rounds, (ALONE, BESIDE),
                lambda contender: in_fresh_process("bench_engines", "rate", cluster.address, jobs, contender),
            )  # fmt: skip
        finally:
            with suppress(OSError):
                cluster.close()
    alone, beside = (Sample(tuple(found[contender]), unit="/s") for contender in (ALONE, BESIDE))
    return [compare("fired to threads in a CPU second, beside a busy Dask executor", beside, alone, at_least=BAR)]


if __name__ == "__main__":
    print_table(main())
