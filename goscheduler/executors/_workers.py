"""Worker threads that take runs from one queue.

There is no future and no lock per run. Only one thread submits, so it alone counts what was submitted; each worker
counts in a slot of its own what it has finished; the difference is what is queued or running.

A run that does not end can be given up: its worker leaves the pool, another one may take its place, and when the
function ends at last its thread reports that and ends. Either the worker or :meth:`WorkerPool.give_up` accounts for
the run: the one that takes it out of ``slot.held``, which is one atomic operation.

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
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakSet

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.executors._pace import Pace, depth
from goscheduler.executors.call import failed
from goscheduler.executors.context import clear_cancel, mark_given_up, tell_to_end, unmark_given_up

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome, Run

#: How long a shutdown that has run out of time waits for what it has ended by force to be reported.
ABORT_SECONDS = 2.0
#: How often somebody who waits for a worker looks whether it has been given up.
LOOK_SECONDS = 0.25

SHUT_DOWN = "the executor was shut down before the run was started"


class Worker(Protocol):
    """Executes the runs that one thread takes."""

    def perform(self, run: Run) -> tuple[Outcome, float]:
        """Run it, and return how it ended and for how many seconds the worker was busy with it."""
        ...

    def cancel(self, run: Run, reason: str) -> bool:
        """Ask ``run`` to end, called from another thread; False if it is not being run."""
        ...

    def kill(self, run: Run) -> bool:
        """End ``run`` if it is being run, called from another thread; False if nothing can be ended here."""
        ...

    def abort(self) -> bool:
        """End what is being run, called from another thread; False if that cannot be done."""
        ...

    def close(self) -> None:
        """Let go of everything. Called on the worker's thread when no more runs come."""
        ...


class _Slot:
    """A worker's own account, written by its thread alone."""

    __slots__ = ("__weakref__", "finished", "given_up", "held", "seconds", "thread", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.held: dict[str, Run] = {}
        """The run that is being run, by its id; empty if none is, or if it was given up."""
        self.finished = 0
        self.seconds = 0.0
        self.given_up = False
        self.thread: threading.Thread


class _Staff(NamedTuple):
    """The workers, and the accounts of those that were given up; replaced as a whole, so readers need no lock."""

    slots: tuple[_Slot, ...] = ()
    finished: int = 0
    seconds: float = 0.0

    def without(self, slot: _Slot, seconds: float) -> _Staff:
        """Return the staff without a worker whose run, said to have taken ``seconds``, counts as finished."""
        slots = tuple(other for other in self.slots if other is not slot)
        return _Staff(slots, self.finished + slot.finished + 1, self.seconds + slot.seconds + seconds)


class WorkerPool:
    """Up to ``size`` threads, started when they are needed."""

    def __init__(
        self,
        size: int,
        new_worker: Callable[[], Worker],
        report: Callable[[Run, Outcome], None],
        put_back: Callable[[Run, str], None],
        thread_name: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._size = size
        self._new_worker = new_worker
        self._report = report
        self._put_back = put_back
        self._thread_name = thread_name
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._workers = _Staff()
        self._staffing = threading.Lock()
        """Guards the replacement of the staff, together with the start of a thread."""
        self._hired = 0
        self._submitted = 0
        self._closing = threading.Lock()
        self._closed = False
        self._clock = clock
        self._pace = Pace(clock.monotonic())

    def submit(self, run: Run) -> None:
        """Queue a run. Called by one thread only."""
        if self._closing.locked():
            self._put_back(run, SHUT_DOWN)
            return
        if self._pace.idle:
            self._pace.begin(self._clock.monotonic())
        self._submitted += 1
        self._queue.put(run)
        if len(self._workers.slots) < self._size and self._is_short_of_workers():
            self._spawn_worker()
        if self._closed:
            self._empty_queue(SHUT_DOWN)

    def live(self) -> int:
        """Return how many runs are queued or running."""
        staff = self._workers
        return self._submitted - staff.finished - sum(slot.finished for slot in staff.slots)

    def room(self) -> int:
        """Return how many more runs should be submitted now; negative when overfull."""
        staff = self._workers
        finished = staff.finished + sum(slot.finished for slot in staff.slots)
        seconds = staff.seconds + sum(slot.seconds for slot in staff.slots)
        live = self._submitted - finished
        self._pace.observe(finished, seconds, live, self._clock.monotonic())
        return depth(self._size, self._pace.average_seconds) - live

    def cancel(self, run: Run, reason: str) -> bool:
        """Ask a run to end; False if it is not being run."""
        slot = self._slot_of(run)
        if slot is None or not slot.worker.cancel(run, reason):
            return False
        if self._slot_of(run) is None:
            clear_cancel(run.id)  # over by now, and may have been forgotten already
        return True

    def give_up(self, run: Run) -> None:
        """Wait no longer for a run that is being run, and go on without the worker that has it."""
        slot = self._slot_of(run)
        if slot is None or slot.worker.kill(run):
            return
        mark_given_up(run)
        if slot.held.pop(run.id, None) is None:
            unmark_given_up(run)  # it ended in this very moment, and its worker accounts for it
            return
        slot.given_up = True
        self._spawn_worker(in_place_of=slot)

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
            _detached_workers.update(self._workers.slots)

    def busy(self) -> list[Run]:
        """Return the runs that are being run."""
        return [run for slot in self._workers.slots for run in list(slot.held.values())]

    def _slot_of(self, run: Run) -> _Slot | None:
        for slot in self._workers.slots:
            held = slot.held.get(run.id)
            if held is not None and held.fence == run.fence:
                return slot
        return None

    def _abort(self) -> None:
        aborted = [slot.worker.abort() for slot in self._workers.slots]
        if any(aborted):
            self._join(ABORT_SECONDS)

    def _join(self, timeout: float | None) -> bool:
        """Wait for the other threads, also those that join meanwhile; True if all of them ended in time."""
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        while others := self._others():
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - SYSTEM_CLOCK.monotonic())
            if left <= 0:
                return False
            others[0].join(left)
        return True

    def _others(self) -> list[threading.Thread]:
        """Return the threads at work other than the present one."""
        with self._staffing:  # so as not to look between the leaving of a worker and the start of its successor
            threads = [slot.thread for slot in self._workers.slots]
        return [thread for thread in threads if thread is not threading.current_thread() and thread.is_alive()]

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

    def _spawn_worker(self, in_place_of: _Slot | None = None) -> None:
        """Start one more worker if runs wait for one, after the leaving of a worker that was given up."""
        with self._staffing:
            if in_place_of is not None:
                # How long its run would have taken is unknown; the average so far leaves the average as it is.
                self._workers = self._workers.without(in_place_of, self._pace.average_seconds)
            problem = self._start_worker() if self._is_short_of_workers() else ""
        if problem and not self._workers.slots:
            self._empty_queue(f"no worker thread could be started: {problem}")

    def _is_short_of_workers(self) -> bool:
        workers = len(self._workers.slots)
        return workers < self._size and self.live() > workers

    def _start_worker(self) -> str:
        """Start a worker; return why it cannot be started, or nothing."""
        slot = _Slot(self._new_worker())
        name = f"{self._thread_name}_{self._hired}"
        slot.thread = threading.Thread(target=self._work, args=(slot,), name=name, daemon=True)
        staff = self._workers
        self._workers = staff._replace(slots=(*staff.slots, slot))  # first: a signal may interrupt us in between
        try:
            slot.thread.start()
        except RuntimeError as error:  # the system has no more threads to give, or the interpreter is ending
            self._workers = staff
            return str(error) or "unknown"
        self._hired += 1
        return ""

    def _work(self, slot: _Slot) -> None:
        queue, held, perform, forks = self._queue, slot.held, slot.worker.perform, _forks
        while True:
            run = queue.get()
            if run is None:
                break
            run_id = run.id
            held[run_id] = run
            try:
                outcome, seconds = perform(run)
            except BaseException as error:  # nothing may end a worker
                outcome, seconds = failed(error), 0.0
            if forks != _forks:
                return
            try:
                del held[run_id]
            except KeyError:
                unmark_given_up(run)
                self._tell(run, outcome)
                break
            # Counted before it is told of: who hears of it may look for room at once.
            slot.seconds += seconds
            slot.finished += 1
            self._tell(run, outcome)
            del run, outcome
        if run is None:
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

    def cancel(self, run: Run, reason: str) -> bool:
        tell_to_end(run.id, reason)
        return True

    def kill(self, run: Run) -> bool:
        return False

    def abort(self) -> bool:
        return False

    def close(self) -> None:
        return


# Workers of pools that were closed without waiting. Their jobs go on, and the interpreter waits for them at its end.
_detached_workers: WeakSet[_Slot] = WeakSet()


def _join_at_exit() -> None:
    for slot in list(_detached_workers):
        while slot.thread.is_alive() and not slot.given_up:
            slot.thread.join(LOOK_SECONDS)


atexit.register(_join_at_exit)

# Changes in the child when a process forks. A job that forks and does not end the child comes back out of the user's
# function twice; the copy has to stop there, or it would report the run again and go on with its copy of the queue.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
