"""Stores, executors, triggers and jobs that misbehave when a test says so."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial, wraps
from typing import Any

from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.executors.base import BaseExecutor
from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.testing import EventRecorder
from goscheduler.triggers.base import BaseTrigger

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
#: Seconds that a test waits for something that must happen. It tells a hang, whatever the speed of the machine.
LIMIT = 60

calls: list[Any] = []
"""What the jobs of this module were called with; the fixture ``jobcalls`` empties it."""


def note(value: Any = "called") -> Any:
    """Be a job that can be found by its reference."""
    calls.append(value)
    return value


def die() -> None:
    """End the process without a word, as a crash in native code does."""
    os._exit(3)


class Rude(BaseException):
    """What ``except Exception`` does not catch, as asyncio's CancelledError."""


class Gate:
    """A job that says when it has started and does not end before it is let go."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()
        self.entered = 0
        self.ended = 0

    def __call__(self) -> str:
        self.entered += 1
        self.started.set()
        assert self.released.wait(2 * LIMIT), "nobody has let it go"
        self.ended += 1
        return "let go"

    def release(self) -> None:
        self.released.set()


def within(seconds: float, action: Any) -> Any:
    """Return what ``action`` returns, or raise TimeoutError instead of hanging with it."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def act() -> None:
        try:
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"{action} did not end within {seconds} seconds")
    if errors:
        raise errors[0]
    return results[0]


def works(scheduler: Any, name: str = "proof") -> bool:
    """Tell whether a job added now is run."""
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.add_job(note, id=name)
    return recorder.wait_for(EVENT_JOB_EXECUTED, name, timeout=60) is not None


def our_threads() -> set[threading.Thread]:
    """Return the threads that a scheduler has started and that still live."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("goscheduler")}


class PickledStore(BaseJobStore):
    """Eight methods and a dict of pickles, as a user of APScheduler 3 writes a store."""

    def __init__(self):
        super().__init__()
        self.rows = {}

    def lookup_job(self, job_id):
        row = self.rows.get(job_id)
        return None if row is None else self._reconstitute(row)

    def get_due_jobs(self, now):
        return [job for job in self.get_all_jobs() if job.next_run_time is not None and job.next_run_time <= now]

    def get_next_run_time(self):
        times = [job.next_run_time for job in self.get_all_jobs() if job.next_run_time is not None]
        return min(times) if times else None

    def get_all_jobs(self):
        jobs = [self._reconstitute(row) for row in self.rows.values()]
        far = datetime(9999, 12, 31, tzinfo=timezone.utc)
        return sorted(jobs, key=lambda job: job.next_run_time or far)

    def add_job(self, job):
        if job.id in self.rows:
            raise ConflictingIdError(job.id)
        self.rows[job.id] = pickle.dumps(job.__getstate__())

    def update_job(self, job):
        if job.id not in self.rows:
            raise JobLookupError(job.id)
        self.rows[job.id] = pickle.dumps(job.__getstate__())

    def remove_job(self, job_id):
        if job_id not in self.rows:
            raise JobLookupError(job_id)
        del self.rows[job_id]

    def remove_all_jobs(self):
        self.rows.clear()

    def _reconstitute(self, row):
        job = Job.__new__(Job)
        job.__setstate__(pickle.loads(row))
        job._scheduler = self._scheduler
        job._jobstore_alias = self._alias
        return job


#: Stores of one process: the one in memory, and one with only the simple methods of the port.
LOCAL_STORES = [MemoryJobStore, PickledStore]


SIMPLE_METHODS = (
    "lookup_job", "get_due_jobs", "get_next_run_time", "get_all_jobs", "add_job", "update_job", "remove_job",
    "remove_all_jobs",
)
PORT_METHODS = (
    *SIMPLE_METHODS, "start", "shutdown", "edit_job", "fire_due", "claim_runs", "settle", "discard_pending",
    "live_runs", "suspensions", "release",
)


class Faults:
    """Makes a store's methods raise: ``store.faults["update_job"] = OSError("gone")`` until the entry is deleted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.faults: dict[str, BaseException] = {}
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()
        super().__init__(*args, **kwargs)


def _fallible(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(name)
        self.threads.add(threading.current_thread())
        if name in self.faults:
            raise self.faults[name].with_traceback(None)  # or one that is raised often would gather frames
        return getattr(super(Faults, self), name)(*args, **kwargs)

    return method


for _name in PORT_METHODS:
    setattr(Faults, _name, _fallible(_name))


class FaultySimpleStore(Faults, PickledStore):
    """A store with the eight simple methods that fails on demand."""


class FaultyMemoryStore(Faults, MemoryJobStore):
    """A memory store that fails on demand."""


FaultySimpleStore.__abstractmethods__ = frozenset()
FaultyMemoryStore.__abstractmethods__ = frozenset()


class HoldingExecutor(BaseExecutor):
    """Keeps the runs it is given; the test ends them."""

    def __init__(self, room: int = 1000) -> None:
        self.held: list[Any] = []
        self.taken: list[Any] = []
        self._room = room

    def submit(self, run: Any) -> None:
        self.held.append(run)
        self.taken.append(run)

    def room(self) -> int:
        return max(0, self._room - len(self.held))

    def finish(self, kind: OutcomeKind = OutcomeKind.SUCCEEDED) -> Any:
        """End the oldest run."""
        run = self.held.pop(0)
        self._host.report(run, Outcome(kind))
        return run


class FirstThen(BaseTrigger):
    """Fires ten seconds after it is added, and then does what ``then`` says: a value to return or an error to raise."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def get_next_fire_time(self, previous_fire_time, now):
        if previous_fire_time is None:
            return now + timedelta(seconds=10)
        if isinstance(self.then, BaseException):
            raise self.then
        return self.then(previous_fire_time) if callable(self.then) else self.then

    def __repr__(self) -> str:
        return "FirstThen()"


def stand_still(previous: datetime) -> datetime:
    """Answer with the fire time that was just used up."""
    return previous


def go_back(previous: datetime) -> datetime:
    """Answer with a time before the last one."""
    return previous - timedelta(days=1)


def run(main: Any) -> Any:
    """Run a coroutine function; raise TimeoutError where it would hang."""
    return within(2 * LIMIT, lambda: asyncio.run(main()))


def in_event_loop(test: Callable[..., Any]) -> Callable[..., None]:
    """Make a test of a coroutine function, which has an event loop of its own."""

    @wraps(test)
    def in_loop(*args: Any, **kwargs: Any) -> None:
        run(partial(test, *args, **kwargs))

    return in_loop


async def heard(recorder: EventRecorder, mask: int, job_id: str | None = None, count: int = 1) -> Any:
    """Wait for an event without blocking the loop."""
    return await asyncio.to_thread(recorder.wait_for, mask, job_id, count=count, timeout=LIMIT)
