"""Worker threads that take runs from one queue.

There is no future and no lock per run. Only one thread submits, so it alone counts what was submitted; each worker
counts in a slot of its own what it has finished; the difference is what is queued or running.

How a pool ends: ``None`` in the queue tells a worker to go, which puts it back for the next one, so one is enough
for any number of workers. A run can slip in behind it while the pool is closed from another thread. Therefore the
pool is marked as closed *before* the queue is emptied for the last time, and who submits looks at the mark *after*
putting: one of the two finds the run.
"""

from __future__ import annotations

import atexit
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._pace import Pace, depth
from goscheduler.executors.call import failed

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome, Run

#: How long a shutdown that has run out of time waits for what it has ended by force to be reported.
ABORT_SECONDS = 2.0

SHUT_DOWN = "the executor was shut down before the run was started"


class Worker(Protocol):
    """What one thread does with runs."""

    def perform(self, run: Run) -> tuple[Outcome, float]:
        """Run it, and return how it ended and for how many seconds the worker was busy with it."""
        ...

    def abort(self) -> bool:
        """End what is being run, called from another thread; False if that cannot be done."""
        ...

    def close(self) -> None:
        """Let go of everything. Called on the worker's thread when no more runs come."""
        ...


class _Slot:
    """A worker's own account, written by its thread alone."""

    __slots__ = ("finished", "run", "seconds", "thread", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.run: Run | None = None
        self.finished = 0
        self.seconds = 0.0
        self.thread: threading.Thread


class WorkerPool:
    """Up to ``size`` threads, started when they are needed."""

    def __init__(
        self,
        size: int,
        new_worker: Callable[[], Worker],
        report: Callable[[Run, Outcome], None],
        put_back: Callable[[Run, str], None],
        thread_name: str,
    ) -> None:
        self._size = size
        self._new_worker = new_worker
        self._report = report
        self._put_back = put_back
        self._thread_name = thread_name
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._slots: list[_Slot] = []
        self._submitted = 0
        self._closing = threading.Lock()
        self._closed = False
        self._pace = Pace(SYSTEM_CLOCK.monotonic())

    def submit(self, run: Run) -> None:
        """Queue a run. Called by one thread only."""
        if self._closing.locked():
            self._put_back(run, SHUT_DOWN)
            return
        self._submitted += 1
        self._queue.put(run)
        if len(self._slots) < self._size and self.live() > len(self._slots):
            self._add_worker()
        if self._closed:
            self._empty_queue(SHUT_DOWN)

    def live(self) -> int:
        """Return how many runs are queued or running."""
        return self._submitted - sum(slot.finished for slot in self._slots)

    def room(self, now: float) -> int:
        """Return how many more runs should be submitted at the monotonic time ``now``; negative when overfull."""
        slots = self._slots
        finished = sum(slot.finished for slot in slots)
        live = self._submitted - finished
        self._pace.observe(finished, sum(slot.seconds for slot in slots), live, now)
        return depth(self._size, self._pace.average_seconds) - live

    def close(self, wait: bool, timeout: float | None) -> None:
        """Take no more runs; with ``wait``, finish those that were taken, for at most ``timeout`` seconds.

        Callable from any thread, also from a worker: that one is not waited for. Only the first call waits, since two
        workers that wait for each other would do so for ever.
        """
        if not self._closing.acquire(blocking=False):
            return
        done = False
        if wait:
            self._queue.put(None)
            done = self._join(timeout)
        self._closed = True
        self._empty_queue(SHUT_DOWN)
        self._queue.put(None)
        if wait and not done:
            self._abort()
        elif not wait:
            _left_to_themselves.update(slot.thread for slot in self._slots)

    def busy(self) -> list[Run]:
        """Return the runs that are being run."""
        return [slot.run for slot in self._slots if slot.run is not None]

    def _abort(self) -> None:
        aborted = [slot.worker.abort() for slot in self._slots]
        if any(aborted):
            self._join(ABORT_SECONDS)

    def _join(self, timeout: float | None) -> bool:
        """Wait for the other threads; True if all of them ended in time."""
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        others = [slot.thread for slot in self._slots if slot.thread is not threading.current_thread()]
        for thread in others:
            thread.join(None if deadline is None else max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _empty_queue(self, reason: str) -> None:
        stop_seen = False
        while True:
            try:
                run = self._queue.get_nowait()
            except Empty:
                break
            if run is None:
                stop_seen = True
            else:
                self._submitted -= 1
                self._put_back(run, reason)
        if stop_seen:
            self._queue.put(None)

    def _add_worker(self) -> None:
        slot = _Slot(self._new_worker())
        name = f"{self._thread_name}_{len(self._slots)}"
        slot.thread = threading.Thread(target=self._work, args=(slot,), name=name, daemon=True)
        self._slots.append(slot)  # before the start: a signal may interrupt us in between
        try:
            slot.thread.start()
        except RuntimeError as error:  # the system has no more threads to give, or the interpreter is ending
            self._slots.remove(slot)
            if not self._slots:
                self._empty_queue(f"no worker thread could be started: {error}")

    def _work(self, slot: _Slot) -> None:
        queue, perform, forks = self._queue, slot.worker.perform, _forks
        while True:
            run = queue.get()
            if run is None:
                break
            slot.run = run
            try:
                outcome, seconds = perform(run)
            except BaseException as error:  # nothing may end a worker
                outcome, seconds = failed(error), 0.0
            if forks != _forks:
                return
            # Counted before it is told of: who hears of it may look for room at once.
            slot.seconds += seconds
            slot.finished += 1
            slot.run = None
            self._tell(run, outcome)
            del run, outcome
        queue.put(None)
        slot.worker.close()

    def _tell(self, run: Run, outcome: Outcome) -> None:
        try:
            self._report(run, outcome)
        except BaseException:
            traceback.print_exc()


class ThreadWorker:
    """Runs runs on its own thread."""

    def __init__(
        self,
        attempt: Callable[[Run], Outcome],
        initializer: Callable[..., object] | None = None,
        initargs: Sequence[object] = (),
    ) -> None:
        self._attempt = attempt
        self._initializer = initializer
        self._initargs = initargs

    def perform(self, run: Run) -> tuple[Outcome, float]:
        outcome = self._attempt(run) if self._initializer is None else self._first_attempt(run)
        return outcome, outcome.seconds

    def _first_attempt(self, run: Run) -> Outcome:
        assert self._initializer is not None
        try:
            self._initializer(*self._initargs)
        except BaseException as error:
            return failed(error, reason="the initializer of the worker thread raised an exception")
        self._initializer = None
        return self._attempt(run)

    def abort(self) -> bool:
        return False

    def close(self) -> None:
        return


# Threads of pools that were closed without waiting. Their jobs go on, and the interpreter waits for them at its end.
_left_to_themselves: WeakSet[threading.Thread] = WeakSet()


def _join_at_exit() -> None:
    for thread in list(_left_to_themselves):
        thread.join()


atexit.register(_join_at_exit)

# Changes in the child when a process forks. A job that forks and does not end the child comes back out of the user's
# function twice; the copy has to stop there, or it would report the run again and go on with its copy of the queue.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
