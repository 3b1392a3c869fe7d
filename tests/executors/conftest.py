"""A scheduler, jobs and runs, as far as executors can see of them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors import context
from goscheduler.runs.model import Outcome, Run

PATIENCE = 60


@pytest.fixture(autouse=True)
def nothing_told():
    """Forget what runs of other tests, some of which never end, were told."""
    for kept in (context._told, context._given_up, context._progress):
        kept.clear()


@dataclass
class StandInJob:
    func: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    id: str = "job-1"
    name: str = "a job"
    misfire_grace_time: float | None = None
    executor: str = "default"
    func_ref: str | None = "tests:a_job"
    tags: tuple[str, ...] = ()
    _jobstore_alias: str = "default"

    def __str__(self) -> str:
        return self.name


class HandClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self.elapsed = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.elapsed

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.elapsed += seconds


class RecordingHost:
    """Keeps every report and lets a test wait for them."""

    def __init__(self, clock: Any = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.reports: list[tuple[Run, Outcome]] = []
        self.removed: set[str] = set()
        """Ids of runs that are not to be started any more."""
        self._reported = threading.Condition()

    def may_start(self, run: Run) -> bool:
        return run.id not in self.removed

    def report(self, run: Run, outcome: Outcome) -> None:
        with self._reported:
            self.reports.append((run, outcome))
            self._reported.notify_all()

    def _create_lock(self) -> Any:
        return threading.RLock()

    def wait_for(self, number: int) -> list[Outcome]:
        """Wait until ``number`` reports are there; return their outcomes in the order of the reports."""
        with self._reported:
            enough = self._reported.wait_for(lambda: len(self.reports) >= number, PATIENCE)
            assert enough, f"{len(self.reports)} of {number} reports came"
            return [outcome for _, outcome in self.reports]

    def outcome_of(self, run: Run) -> Outcome:
        """Wait for the report of ``run`` and return its outcome; there must be only one."""
        with self._reported:
            assert self._reported.wait_for(lambda: any(r is run for r, _ in self.reports), PATIENCE), "no report"
            (outcome,) = [outcome for reported, outcome in self.reports if reported is run]
            return outcome


class LoopHost(RecordingHost):
    """A host with an event loop that turns on a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._eventloop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._eventloop.run_forever, daemon=True)
        self._thread.start()

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function on the loop and return what it returns."""

        async def on_loop() -> Any:
            return function(*args)

        return asyncio.run_coroutine_threadsafe(on_loop(), self._eventloop).result(PATIENCE)

    def stop_loop(self) -> None:
        if self._thread.is_alive():
            self._eventloop.call_soon_threadsafe(self._eventloop.stop)
            self._thread.join(PATIENCE)

    def close(self) -> None:
        self.stop_loop()
        for task in asyncio.all_tasks(self._eventloop):
            task.cancel()
        self._eventloop.run_until_complete(asyncio.sleep(0))
        self._eventloop.close()


@pytest.fixture
def new_run():
    """A function that makes a run of ``func(*args)``, due now."""
    numbers = count(1)

    def make(func: Any, *args: Any, job: Any = None, at: datetime | None = None, **facts: Any) -> Run:
        at = at or SYSTEM_CLOCK.now()
        facts.setdefault("due_at", at)
        return Run(f"run-{next(numbers)}", job or StandInJob(func, args), at, owner="me", **facts)

    return make


@pytest.fixture
def new_job():
    return StandInJob


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def host():
    return RecordingHost()


@pytest.fixture
def new_host():
    return RecordingHost


@pytest.fixture
def loop_host():
    host = LoopHost()
    yield host
    host.close()


@pytest.fixture
def jobs(monkeypatch):
    """The module of functions that child processes can import."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import childjobs

    yield childjobs
    sys.modules.pop("childjobs", None)


@pytest.fixture
def fifo(tmp_path):
    """A function that makes a named pipe: reading from it waits for whoever writes."""

    def make(name: str) -> str:
        os.mkfifo(tmp_path / name)
        return str(tmp_path / name)

    return make


@pytest.fixture
def started(host):
    """A function that starts an executor, which is shut down after the test."""
    executors = []

    def start(executor: Any, its_host: Any = None) -> Any:
        executor.start(its_host or host, "pool")
        executors.append(executor)
        return executor

    yield start
    for executor in executors:
        executor.shutdown(wait=True, timeout=PATIENCE)
