"""Jobs in a database: how many due no-op one-shot jobs a second go through ten threads, and how quickly many are added.

Ours keeps a history of every run and survives a kill; APScheduler 3 deletes the job and forgets. Both run on the same
servers, with the settings of production: what is committed is on the disk. Only on MongoDB that is up to the client:
ours waits until the majority has it on the disk, APScheduler 3 by default for neither, so that it is measured in both
ways. The raw limit is the same statements, with the same batches of rows, without a scheduler.

``python benchmarks/bench_durable.py [sqlite|postgresql|mariadb|redis|mongodb ...]``, all by default.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from contenders import WORKERS, ExecutedCounter, noop
from measure import (
    CONTENDERS,
    HERE,
    OURS,
    THEIRS,
    Row,
    Sample,
    compare,
    in_fresh_process,
    print_table,
    take_turns,
    without_bar,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
FAR_AWAY = datetime(2100, 1, 1, tzinfo=timezone.utc)
#: Database → how many times as quick as APScheduler 3 a firing has to be.
BARS = {"sqlite": 15, "postgresql": 10, "mariadb": 10, "redis": 10, "mongodb": 5}
#: The same of many jobs added to a SQL database at once.
BULK_BAR = 20
RAW = "raw statements"
RAW_SHARE = 0.3
RAW_BATCH = 1000


def fire_rate(root: str, url: str, jobs: int) -> float:
    """Return runs per second, from ``resume()`` to the last event heard; every event is counted."""
    return jobs / seconds_to_fire(root, durable_store(root, url), jobs)


def safe_fire_rate(root: str, url: str, jobs: int) -> float:
    """Return the same on MongoDB for a client that waits until what it wrote is safe."""
    return jobs / seconds_to_fire(root, durable_store(root, url, w="majority", journal=True), jobs)


def seconds_to_fire(root: str, store: Any, jobs: int) -> float:
    scheduler = durable_scheduler(root, store)
    scheduler.start(paused=True)
    counter = ExecutedCounter(root, scheduler, jobs)
    add(root, scheduler, jobs, LONG_AGO)
    begin = time.perf_counter()
    scheduler.resume()
    counter.wait()
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    counter.verify()
    return elapsed


def add_rate(root: str, url: str, jobs: int) -> float:
    """Return jobs added per second: ours by one ``add_jobs``, theirs by ``add_job``, for they have no other."""
    scheduler = durable_scheduler(root, durable_store(root, url))
    scheduler.start(paused=True)
    begin = time.perf_counter()
    add(root, scheduler, jobs, FAR_AWAY)
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    return jobs / elapsed


def add(root: str, scheduler: Any, jobs: int, run_date: datetime) -> None:
    if root == OURS:
        scheduler.add_jobs({"func": noop, "trigger": "date", "run_date": run_date} for _ in range(jobs))
        return
    for _ in range(jobs):
        scheduler.add_job(noop, "date", run_date=run_date)


def durable_scheduler(root: str, store: Any) -> Any:
    """Return a stopped BackgroundScheduler of ``root``."""
    logging.disable(logging.CRITICAL)
    pool = importlib.import_module(f"{root}.executors.pool")
    schedulers = importlib.import_module(f"{root}.schedulers.background")
    return schedulers.BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": pool.ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )


def durable_store(root: str, url: str, **options: Any) -> Any:
    """Return a store of ``root``."""
    module, name = STORES.get(urlsplit(url).scheme, ("sqlalchemy", "SQLAlchemyJobStore"))
    return getattr(importlib.import_module(f"{root}.jobstores.{module}"), name)(**fresh(url), **options)


STORES = {"redis": ("redis", "RedisJobStore"), "mongodb": ("mongodb", "MongoDBJobStore")}


def fresh(url: str) -> dict[str, Any]:
    """Return arguments for a store, the same for both contenders, on tables or keys that nobody else uses."""
    name, parts = f"t{uuid4().hex[:12]}", urlsplit(url)
    if parts.scheme == "redis":
        database = int(parts.path[1:])
        return {"db": database, "jobs_key": name, "run_times_key": f"{name}:times", "port": parts.port}
    if parts.scheme == "mongodb":
        return {"database": "bench", "collection": name, "host": url}
    # A file of its own, because a file of SQLite keeps some settings.
    return {"url": url.replace("NAME", name), "tablename": name}


def raw_rate(url: str, jobs: int) -> float:
    """Return firings per second of the statements alone, by one thread that does nothing else."""
    kind = urlsplit(url).scheme
    if kind not in STORES:
        return raw_sql_rate(url, jobs)
    replay = importlib.import_module("replay")
    tape = {"redis": replay.RedisTape, "mongodb": replay.MongoTape}[kind](fresh(url))
    seconds_to_fire(OURS, tape.store, jobs)
    return jobs / float(tape.play())


def raw_sql_rate(url: str, jobs: int) -> float:
    """Return firings per second: the rows of jobs and runs are read, written and removed, and those of the history
    written, in batches."""
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from goscheduler.jobstores.sqlalchemy.locking import StoreContext
    from goscheduler.schedulers.background import BackgroundScheduler

    logging.disable(logging.CRITICAL)
    scheduler = BackgroundScheduler(timezone="UTC")
    store = SQLAlchemyJobStore(**fresh(url))
    store.start(scheduler, "default")
    statements = RawStatements(store._tables)
    store._database.write(lambda context: statements.fill(context, jobs))
    steps = [statements.fire, statements.settle]
    begin = time.perf_counter()
    for start in range(0, jobs, RAW_BATCH):
        ids = [f"{number:032d}" for number in range(start, min(jobs, start + RAW_BATCH))]
        for step in steps:

            def one(context: StoreContext, step: Any = step, ids: list[str] = ids) -> None:
                step(context, ids)

            store._database.write(one)
    elapsed = time.perf_counter() - begin
    store.shutdown()
    return jobs / elapsed


class RawStatements:
    """The rows and statements of a firing, with nothing decided, encoded or decoded."""

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        definition = json.dumps({"schema": 1, "func": "contenders:noop", "name": "noop", "args": [], "kwargs": {}})
        self._definition = definition + " " * 200
        self._job = (
            "default", None, 5, 1, 1, "Z", 0, None, self._definition, "", 0, None, None, None, None, None, None,
        )  # fmt: skip
        head = f'[2,"{"x" * 32}",1,"Z",1,"Z",1,"schedule",0,0]'
        self._run = ("default", None, 5, 1, None, "me", 1, 1, 0, "", head + self._definition)
        self._record = {
            "fence": 1, "job_id": "x" * 32, "outcome": "succeeded", "error_type": None, "tags": "", "record": " " * 400,
        }  # fmt: skip

    def fill(self, context: Any, jobs: int) -> None:
        from goscheduler.jobstores.sqlalchemy.bulk import columns_of
        from goscheduler.jobstores.sqlalchemy.rows import JobRow

        rows = [JobRow(f"{number:032d}", *self._job) for number in range(jobs)]
        context.dialect.insert_rows(context.connection, self._tables.jobs, columns_of(rows))

    def fire(self, context: Any, ids: list[str]) -> None:
        from sqlalchemy import delete, select

        from goscheduler.jobstores.sqlalchemy.bulk import columns_of
        from goscheduler.jobstores.sqlalchemy.rows import DueJob, RunRow

        jobs = self._tables.jobs
        query = select(*[jobs.c[name] for name in DueJob._fields])
        query = query.where(jobs.c.executor == "default", jobs.c.priority == 5, jobs.c.due <= 1)
        query = query.order_by(jobs.c.due).limit(len(ids))
        if context.dialect.skips_locked:
            query = query.with_for_update(skip_locked=True)
        found = [DueJob(*row).id for row in context.dialect.fetch(context.connection, query)]
        begun = columns_of([RunRow(job_id, job_id, *self._run) for job_id in ids])
        context.dialect.insert_rows(context.connection, self._tables.runs, begun)
        context.connection.execute(delete(jobs).where(context.dialect.column_in(jobs.c.id, found)))

    def settle(self, context: Any, ids: list[str]) -> None:
        from sqlalchemy import delete

        runs, history = self._tables.runs, self._tables.history
        untouched = (runs.c.fence == 1, runs.c.owner.is_not(None), runs.c.revoked == 0, runs.c.cancel.is_(None))
        context.connection.execute(delete(runs).where(context.dialect.column_in(runs.c.id, ids), *untouched))
        ended = {"finished": [1] * len(ids), "run_id": ids}
        ended.update({name: [value] * len(ids) for name, value in self._record.items()})
        context.dialect.insert_rows(context.connection, history, ended)


def main(rounds: int = 3, jobs: int = 10_000, few: int = 500, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or BARS:
        with place(kind) as url:
            rows += _rows(kind, BARS[kind], url, rounds, jobs, few)
    return rows


def _rows(kind: str, bar: float, url: str, rounds: int, jobs: int, few: int) -> list[Row]:
    count = {OURS: jobs, THEIRS: few}

    def measure(function: str, contender: str) -> float:
        if contender == RAW:
            return float(in_fresh_process("bench_durable", "raw_rate", url, jobs))
        return float(in_fresh_process("bench_durable", function, contender, url, count[contender]))

    def sample(function: str, *contenders: str) -> list[Sample]:
        rates = take_turns(rounds, contenders, lambda contender: measure(function, contender))
        return [Sample(tuple(rates[contender]), unit="/s") for contender in contenders]

    fired, fired_by_them, raw = sample("fire_rate", *CONTENDERS, RAW)
    added, added_by_them = sample("add_rate", *CONTENDERS)
    share = fired.median / raw.median
    holds = share >= RAW_SHARE
    as_safe = sample("safe_fire_rate", *CONTENDERS) if kind == "mongodb" else ()
    return [
        compare(f"{kind}: fire due one-shot jobs", fired, fired_by_them, at_least=bar),
        *([without_bar(compare(f"{kind}: the same, both as safe", *as_safe, at_least=bar))] if as_safe else []),
        Row(f"{kind}: beside raw statements", str(fired), f"raw {raw}", f"{share:.0%}", f"≥ {RAW_SHARE:.0%}", holds),
        _bulk_row(kind, added, added_by_them),
    ]


def _bulk_row(kind: str, ours: Sample, theirs: Sample) -> Row:
    row = compare(f"{kind}: add_jobs", ours, theirs, at_least=BULK_BAR)
    return without_bar(row) if kind in STORES else row


@contextmanager
def place(kind: str) -> Iterator[str]:
    """Give the URL of a database of its own, whose server has the settings of production."""
    with tempfile.TemporaryDirectory(prefix="goscheduler-bench-") as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/NAME.db"
            return
        sys.path.insert(0, str(HERE.parent / "tests" / "servers"))
        shared_servers = importlib.import_module("shared_servers")
        Path(folder).chmod(0o755)
        server = shared_servers.KINDS[kind](Path(folder, kind), durable=True)
        server.start()
        try:
            yield server.make_space("bench")
        finally:
            server.close()


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
