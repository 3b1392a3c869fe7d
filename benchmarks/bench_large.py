"""What a million interval jobs in a database cost: to start, to keep in mind, to fire, and while nothing is due.

One process fills the tables, others start on them, as after a deployment. Tables of a million jobs and of few take
turns: to fill them takes minutes, in which the machine may become slower or faster by a half.
"""

from __future__ import annotations

import importlib
import logging
import time
from itertools import islice
from typing import Any

import psutil
from bench_durable import place
from contenders import WORKERS, ExecutedCounter, noop
from measure import OURS, Row, Sample, in_fresh_process, print_table, take_turns, within
from sqlalchemy import create_engine, event, text

KINDS = ("sqlite", "postgresql")
AT_ONCE = 20_000
START_SECONDS = 2.0
RESIDENT_MEGABYTES = 150
IDLE_SECONDS = 20.0


def fill(url: str, jobs: int) -> float:
    """Add jobs that are due in an hour; return microseconds per job."""
    scheduler = _scheduler(url)
    scheduler.start(paused=True)
    definitions = ({"func": noop, "trigger": "interval", "hours": 1} for _ in range(jobs))
    begin = time.perf_counter()
    while batch := list(islice(definitions, AT_ONCE)):
        scheduler.add_jobs(batch)
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    return elapsed / jobs * 1e6


def make_due(url: str, jobs: int, due: int) -> None:
    """Let some of the jobs be overdue, spread evenly among the others."""
    overdue = (time.time() - 1) * 1_000_000
    numbered = "SELECT id, row_number() OVER (ORDER BY id) AS number FROM goscheduler_jobs"
    spread = f"SELECT id FROM ({numbered}) AS numbered WHERE number % {jobs // due} = 0"
    engine = create_engine(url)
    with engine.begin() as connection:
        update = text(f"UPDATE goscheduler_jobs SET due = :then, next_run = :then WHERE id IN ({spread})")
        assert connection.execute(update, {"then": int(overdue)}).rowcount == due
    engine.dispose()


def cost(url: str, due: int) -> dict[str, float]:
    """Start on tables that are full, and return what that costs.

    Seconds until ``start()`` returns, microseconds per firing, and megabytes that the process has in the end.
    """
    scheduler = _scheduler(url)
    counter = ExecutedCounter(OURS, scheduler, due)
    begin = time.perf_counter()
    scheduler.start(paused=True)
    started = time.perf_counter()
    scheduler.resume()
    counter.wait()
    fired = time.perf_counter()
    resident = psutil.Process().memory_info().rss
    scheduler.shutdown()
    return {"start": started - begin, "fire": (fired - started) / due * 1e6, "resident": resident / 1e6}


def idle(url: str, seconds: float) -> float:
    """Return how many statements a second are sent while nothing is due."""
    scheduler = _scheduler(url)
    scheduler.start()
    time.sleep(2)
    statements: list[str] = []
    engine = scheduler.engine.stores["default"]._database.engine
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    time.sleep(seconds)
    asked = [statement for statement in statements if not statement.startswith("BEGIN")]
    scheduler.shutdown()
    return len(asked) / seconds


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


def main(rounds: int = 5, many: int = 1_000_000, few: int = 10_000, due: int = 5_000) -> list[Row]:
    return [row for kind in KINDS for row in _of_a_kind(kind, rounds, many, few, due)]


def _of_a_kind(kind: str, rounds: int, many: int, few: int, due: int) -> list[Row]:
    sizes = {"many": many, "few": few}
    with place(kind) as one, place(kind) as another:
        urls = {"many": one.replace("NAME", "many"), "few": another.replace("NAME", "few")}
        for name, url in urls.items():
            in_fresh_process("bench_large", "fill", url, sizes[name])

        def measure(name: str) -> Any:
            in_fresh_process("bench_large", "make_due", urls[name], sizes[name], due)
            return in_fresh_process("bench_large", "cost", urls[name], due)

        costs = take_turns(rounds, tuple(sizes), measure)
        asked = in_fresh_process("bench_large", "idle", urls["many"], IDLE_SECONDS)
    return _rows(f"{kind}, {many:,} jobs", costs["many"], costs["few"], asked)


def _rows(bench: str, many: list[dict[str, float]], few: list[dict[str, float]], asked: float) -> list[Row]:
    fire, fire_of_few = (Sample(tuple(one["fire"] for one in costs), "{:.1f}", " µs") for costs in (many, few))
    growth = fire.median / fire_of_few.median
    start = Sample(tuple(one["start"] for one in many), "{:.2f}", " s")
    resident = Sample(tuple(one["resident"] for one in many), "{:.0f}", " MB")
    return [
        within(f"{bench}: start-up", start, limit=START_SECONDS),
        within(f"{bench}: resident memory", resident, limit=RESIDENT_MEGABYTES),
        Row(f"{bench}: a firing", f"{fire} against {fire_of_few}", "–", f"{growth:.2f}×", "≤ 2×", growth <= 2),
        # A look a second where the database cannot tell of changes; lease and lost owners cost a statement at times.
        within(f"{bench}: idle", Sample((asked,), "{:.2f}", " statements/s"), limit=1.5),
    ]


if __name__ == "__main__":
    print_table(main())
