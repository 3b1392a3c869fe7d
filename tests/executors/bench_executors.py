"""How many no-op runs a second go through each executor: ``python tests/executors/bench_executors.py``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import timeit
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors.asyncio import AsyncIOExecutor
from goscheduler.executors.call import execute
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.runs.model import Outcome, Run

RUNS = 10_000


class Counting:
    """A scheduler that counts reports."""

    clock = SYSTEM_CLOCK
    _eventloop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self.reports: list[Outcome] = []
        self.expected = RUNS
        self.done = threading.Event()
        self._create_lock = threading.RLock

    def may_start(self, run: Any) -> bool:
        return True

    def report(self, run: Run, outcome: Outcome) -> None:
        self.reports.append(outcome)
        if len(self.reports) == self.expected:
            self.done.set()


def noop() -> None:
    pass


async def async_noop() -> None:
    pass


def new_run(func: Callable[..., Any]) -> Run:
    job: Any = SimpleNamespace(
        id="j", name="j", func=func, args=(), kwargs={}, func_ref="j", tags=(), misfire_grace_time=None
    )
    now = SYSTEM_CLOCK.now()
    return Run("r", job, now, now)


def rate(executor: Any, func: Callable[..., Any], host: Counting, number: int = RUNS) -> float:
    """Return runs per second, after one run that starts whatever has to be started."""
    executor.start(host, "bench")
    host.expected = 1
    executor.submit(new_run(func))
    host.done.wait()
    host.done.clear()
    host.expected = number + 1
    run = new_run(func)
    begun = SYSTEM_CLOCK.monotonic()
    for _ in range(number):
        executor.submit(run)
    host.done.wait()
    seconds = SYSTEM_CLOCK.monotonic() - begun
    executor.shutdown()
    return number / seconds


def future_rate() -> float:
    run = new_run(noop)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        begun = SYSTEM_CLOCK.monotonic()
        futures = [pool.submit(execute, run, SYSTEM_CLOCK) for _ in range(RUNS)]
        concurrent.futures.wait(futures)
        return RUNS / (SYSTEM_CLOCK.monotonic() - begun)


def loop_rate() -> float:
    host = Counting()
    host._eventloop = asyncio.new_event_loop()
    thread = threading.Thread(target=host._eventloop.run_forever)
    thread.start()
    result = rate(AsyncIOExecutor(), async_noop, host)
    host._eventloop.call_soon_threadsafe(host._eventloop.stop)
    thread.join()
    host._eventloop.close()
    return result


def main() -> None:
    run = new_run(noop)
    best = min(timeit.repeat(lambda: execute(run, SYSTEM_CLOCK), number=20_000, repeat=5)) / 20_000
    print(f"execute, no-op function          {best * 1e6:10.2f} µs per call")
    print(f"threads (10), no-op              {rate(ThreadPoolExecutor(10), noop, Counting()):10,.0f} runs/s")
    print(f"concurrent.futures (10), execute {future_rate():10,.0f} runs/s")
    print(f"debug, no-op                     {rate(DebugExecutor(), noop, Counting()):10,.0f} runs/s")
    print(f"asyncio, no-op coroutine         {loop_rate():10,.0f} runs/s")
    print(
        f"threads (10), no-op coroutine    {rate(ThreadPoolExecutor(10), async_noop, Counting(), 2000):10,.0f} runs/s"
    )
    print(f"processes (2), no-op             {rate(ProcessPoolExecutor(2), noop, Counting(), 5000):10,.0f} runs/s")


if __name__ == "__main__":
    main()
