"""Executors that say what they are told, and jobs that end when a test wants it."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from goscheduler import ProcessPoolExecutor, ThreadPoolExecutor, current_run
from goscheduler.runs.model import Outcome, Run
from goscheduler.testing import ManualScheduler

#: Seconds that a test waits for what must happen. It tells a hang, whatever the speed of the machine.
PATIENCE = 60


class _Watched:
    """Says when it is told to end a run, when it gives one up, and when it reports one."""

    def __init__(self, max_workers: int = 1, room: int = 1000) -> None:
        super().__init__(max_workers)
        self._most = room
        self.told = threading.Semaphore(0)
        self.reasons: list[str] = []
        self.given_up: list[Run] = []
        self._reports = threading.Semaphore(0)

    def room(self) -> int:
        """Take more runs than there are workers, so that some are queued."""
        return max(0, self._most - self._pool.live())  # type: ignore[attr-defined]

    def cancel(self, run: Run, reason: str) -> bool:
        told = bool(super().cancel(run, reason))  # type: ignore[misc]
        self.reasons.append(reason)
        self.told.release()
        return told

    def give_up(self, run: Run) -> None:
        super().give_up(run)  # type: ignore[misc]
        self.given_up.append(run)

    def _report(self, run: Run, outcome: Outcome) -> None:
        super()._report(run, outcome)  # type: ignore[misc]
        self._reports.release()

    def await_reports(self, count: int = 1) -> None:
        """Wait until so many more runs have been reported."""
        for _ in range(count):
            assert self._reports.acquire(timeout=PATIENCE)


class WatchedThreads(_Watched, ThreadPoolExecutor):
    """A pool of threads."""


class WatchedProcesses(_Watched, ProcessPoolExecutor):
    """A pool of processes."""


class Patient:
    """A job that waits to be let go, and then does what it was made for."""

    def __init__(self, then: Any = None) -> None:
        self.started = threading.Event()
        self._go = threading.Semaphore(0)
        self._then = then
        self.count = 0

    def __call__(self) -> Any:
        self.count += 1
        self.started.set()
        assert self._go.acquire(timeout=2 * PATIENCE), "nobody has let it go"
        return self._then() if callable(self._then) else self._then

    def go(self, times: int = 1) -> None:
        """Let it go on, so many times."""
        self._go.release(times)

    def await_start(self) -> None:
        """Wait until it runs, and forget that."""
        assert self.started.wait(PATIENCE)
        self.started.clear()


def check() -> str:
    """End this run if it was told to."""
    current_run().check()
    return "unharmed"


def pass_time(scheduler: ManualScheduler, seconds: float) -> None:
    """Move the clock in one step, as if the scheduler had slept meanwhile, and let it look."""
    scheduler.clock.advance(seconds)  # type: ignore[attr-defined]
    scheduler.run_due()


def settled(scheduler: ManualScheduler, executor: Any, count: int = 1) -> None:
    """Wait for so many ends of runs, and let the scheduler write them."""
    executor.await_reports(count)
    scheduler.run_due()


def outcomes(scheduler: Any, job_id: str | None = None) -> list[str]:
    """Return how runs ended, the first first."""
    return [record.outcome.value for record in reversed(scheduler.runs(job_id))]


def touch_and_hang(folder: str) -> None:
    """Be a process that ends when it is terminated."""
    Path(folder, "started").touch()
    threading.Event().wait(60)


def touch_and_ignore(folder: str) -> None:
    """Be a process that does not end when it is terminated."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    touch_and_hang(folder)


def six_times_seven() -> int:
    return 42
