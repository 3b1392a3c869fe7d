"""goscheduler and its peers, behind one face: a process fills a queue with no-op jobs, another one works it off.

Each peer is used as its manual shows, with the options that it has by default, except for ten threads.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from multiprocessing import RawArray
from typing import ClassVar

from bench_durable import durable_scheduler
from contenders import PATIENCE, WORKERS, ExecutedCounter
from measure import OURS


class Stopwatch:
    """Measures from the begin of the first job to the end of the last one, also if jobs run in forked processes."""

    def __init__(self) -> None:
        self._times = RawArray("d", 2)
        self._tickets = itertools.count(1)
        self._expected = 0
        self._complete = threading.Event()

    def expect(self, jobs: int) -> None:
        self._expected = jobs

    def begin(self) -> None:
        self._times[0] = time.perf_counter()

    def end(self) -> None:
        self._times[1] = time.perf_counter()

    def count(self) -> None:
        """Be a job that does nothing."""
        if not self._times[0]:
            self.begin()
        if next(self._tickets) == self._expected:
            self.end()
            self._complete.set()

    def wait(self) -> None:
        """Return once all jobs have run in this process."""
        if not self._complete.wait(PATIENCE):
            raise TimeoutError(f"{self._expected} jobs were not done within {PATIENCE} s")

    @property
    def seconds(self) -> float:
        return self._times[1] - self._times[0]


_watch = Stopwatch()


def job() -> None:
    """Do nothing, and be counted."""
    _watch.count()


class Peer(ABC):
    """A queue at ``url``."""

    package: ClassVar[str]
    #: What the peer calls itself in the table, beside its version.
    note: ClassVar[str] = ""
    #: How many times as quick goscheduler has to be; 0 if nothing was promised.
    bar: ClassVar[float] = 0
    #: What happens to a job whose process dies, to one that fails, and to one that is done.
    promises: ClassVar[str]

    def __init__(self, url: str) -> None:
        self._url = url

    @abstractmethod
    def enqueue(self, jobs: int) -> None: ...

    @abstractmethod
    def work(self, jobs: int) -> None:
        """Run so many jobs, which are all there are."""


class Goscheduler(Peer):
    """Is measured from before the first look into the store until every end is in the history."""

    package = "goscheduler"
    promises = (
        "a run is leased and acknowledged with its end; if the process dies, another one settles it as on_crash says; "
        "retries if asked; every run stays in the history"
    )

    def enqueue(self, jobs: int) -> None:
        scheduler = durable_scheduler(OURS, self._url)
        scheduler.start(paused=True)
        scheduler.add_jobs({"func": job} for _ in range(jobs))
        scheduler.shutdown()

    def work(self, jobs: int) -> None:
        scheduler = durable_scheduler(OURS, self._url)
        counter = ExecutedCounter(OURS, scheduler, jobs)
        scheduler.start(paused=True)
        _watch.begin()
        scheduler.resume()
        counter.wait()
        _watch.end()
        scheduler.shutdown()
        counter.verify()


class Dramatiq(Peer):
    package = "dramatiq"
    bar = 3
    promises = (
        "a message is acknowledged after the job; if the process dies, another one takes it after a minute; "
        "20 retries; nothing stays"
    )

    def __init__(self, url: str) -> None:
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker

        super().__init__(url)
        self._broker = RedisBroker(url=url)
        self._job = dramatiq.actor(job, broker=self._broker)

    def enqueue(self, jobs: int) -> None:
        for _ in range(jobs):
            self._job.send()

    def work(self, jobs: int) -> None:
        import dramatiq

        worker = dramatiq.Worker(self._broker, worker_threads=WORKERS)
        worker.start()
        _watch.wait()
        worker.stop()


class Huey(Peer):
    package = "huey"
    bar = 3
    promises = (
        "a task is taken off the queue before it runs; if the process dies, it is lost; no retries; nothing stays"
    )

    def __init__(self, url: str) -> None:
        from huey import RedisHuey

        super().__init__(url)
        self._huey = RedisHuey(url=url)
        self._job = self._huey.task()(job)

    def enqueue(self, jobs: int) -> None:
        for _ in range(jobs):
            self._job()

    def work(self, jobs: int) -> None:
        consumer = self._huey.create_consumer(workers=WORKERS)
        consumer.start()
        _watch.wait()
        consumer.stop(graceful=True)


class RQ(Peer):
    """Has no threads: one job at a time."""

    package = "rq"
    note = "SimpleWorker, one thread"
    promises = (
        "a job is in a registry while it runs; if the process dies, it is marked as failed; no retries; "
        "what was done stays for 500 s"
    )
    _worker = "SimpleWorker"

    def __init__(self, url: str) -> None:
        import redis
        import rq

        super().__init__(url)
        self._queue = rq.Queue(connection=redis.Redis.from_url(url))

    def enqueue(self, jobs: int) -> None:
        for _ in range(jobs):
            self._queue.enqueue(job)

    def work(self, jobs: int) -> None:
        import rq

        getattr(rq, self._worker)([self._queue], connection=self._queue.connection).work(burst=True)
        _watch.end()
        left = self._queue.count + self._queue.failed_job_registry.count
        if left:
            raise AssertionError(f"RQ has not done {left} of {jobs} jobs")


class ForkingRQ(RQ):
    """Forks for each job, as RQ does by default."""

    note = "Worker, forks for each job"
    _worker = "Worker"


class CeleryThreads(Peer):
    package = "celery"
    note = "pool of threads"
    bar = 10
    promises = (
        "a message is acknowledged before the job begins; if the process dies, the job is lost; no retries; "
        "nothing stays, for there is no result backend"
    )

    def __init__(self, url: str) -> None:
        from celery import Celery

        super().__init__(url)
        self._app = Celery("peers", broker=url, set_as_current=False)
        self._job = self._app.task(job, name="job")

    def enqueue(self, jobs: int) -> None:
        for _ in range(jobs):
            self._job.delay()

    def work(self, jobs: int) -> None:
        worker = self._app.WorkController(pool="threads", concurrency=WORKERS)
        thread = threading.Thread(target=worker.start)
        thread.start()
        _watch.wait()
        worker.stop()
        thread.join()


class Procrastinate(Peer):
    package = "procrastinate"
    bar = 20
    promises = (
        "a job is marked as being done, and as done afterwards; if the process dies, it stays so until "
        "a task of the user retries what has stalled; no retries; every job stays"
    )

    def __init__(self, url: str) -> None:
        import procrastinate

        super().__init__(url)
        connector = procrastinate.PsycopgConnector(conninfo=url.replace("+psycopg", ""))
        self._app = procrastinate.App(connector=connector)
        self._job = self._app.task(job, name="job")

    def enqueue(self, jobs: int) -> None:
        asyncio.run(self._enqueue(jobs))

    async def _enqueue(self, jobs: int) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()
            await self._job.batch_defer_async(*({} for _ in range(jobs)))

    def work(self, jobs: int) -> None:
        asyncio.run(self._work())
        _watch.wait()

    async def _work(self) -> None:
        async with self._app.open_async():
            await self._app.run_worker_async(concurrency=WORKERS, wait=False)


BY_NAME: dict[str, type[Peer]] = {
    peer.__name__: peer for peer in (Goscheduler, Dramatiq, Huey, RQ, ForkingRQ, CeleryThreads, Procrastinate)
}


def fill(name: str, url: str, jobs: int) -> None:
    """Enqueue so many jobs, as a process that runs none of them."""
    logging.disable(logging.CRITICAL)
    BY_NAME[name](url).enqueue(jobs)


def rate(name: str, url: str, jobs: int) -> float:
    """Return how many jobs a second a worker runs, of so many that were enqueued before it came."""
    logging.disable(logging.CRITICAL)
    _watch.expect(jobs)
    BY_NAME[name](url).work(jobs)
    return jobs / _watch.seconds
