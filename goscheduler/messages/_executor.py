"""The executor of messages: worker threads that take what is due together and publish it.

Where a transport can publish several at once, a worker takes up to ``batch_size`` messages; else no more than it has
published within :data:`BATCH_SECONDS`, one if that takes long. A worker never claims more than another batch ahead, so
that other processes have their share.

The lock guards the queue and the accounts. It is not held while anything is published or reported.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import described
from goscheduler.executors.around import begin_all
from goscheduler.executors.base import BaseExecutor, ExecutorHost
from goscheduler.executors.call import failed
from goscheduler.executors.context import attempt_key, enter_run
from goscheduler.options import JobOptions
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.runs.retry import LONGEST_DELAY, Retry, RetryLater

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

Deliver = Callable[["Sequence[Run]"], "Sequence[Exception | None]"]

#: A worker takes at once what it can publish within so many seconds.
BATCH_SECONDS = 0.01

SHUT_DOWN = "the executor was shut down before the message was published"


class _Batch:
    """The runs that one worker is publishing."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.thread = threading.current_thread()
        self.given_up = False


class DeliveryExecutor(BaseExecutor):
    """Delivers the messages that runs stand for.

    ``deliver`` publishes and returns, for each run, None or why it failed; ``retry`` says what follows a failure. With
    no workers it is called at once, on the thread of the scheduler: for tests that move the clock by hand.
    """

    def __init__(self, deliver: Deliver, retry: Retry, workers: int, batch_size: int, together: bool) -> None:
        self._deliver = deliver
        self._retry = retry
        self._size = workers
        self._batch_size = batch_size
        self._together = together

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        self._changed = threading.Condition()
        self._queue: deque[Run] = deque()
        self._batches: dict[tuple[str, int], _Batch] = {}
        self._threads: set[threading.Thread] = set()
        self._live = self._hired = 0
        self._idle = 0
        """Workers that wait and were not called."""
        self._coming = 0
        """Workers that were called, or are new, and have not looked into the queue yet."""
        self._average = BATCH_SECONDS
        """How many seconds a message takes."""
        self._closed = False

    def submit(self, run: Run) -> None:
        run.job.options = _with_policy(run.job.options, self._retry)
        if self._size == 0:
            self._settle(_Batch([run]))
            return
        with self._changed:
            refusal = SHUT_DOWN if self._closed else self._enqueue(run)
        if refusal:
            self._put_back(run, refusal)

    def room(self) -> int:
        return max(0, 2 * self._batch_size - self._live)

    def live(self) -> int | None:
        return None if self._scheduler is None else self._live

    def cancel(self, run: Run, reason: str) -> bool:
        """Tell that a run is being published: that cannot be stopped, only waited for."""
        return attempt_key(run) in self._batches

    def give_up(self, run: Run) -> None:
        with self._changed:
            batch = self._batches.get(attempt_key(run))
            if batch is None or batch.given_up:
                return
            batch.given_up = True  # its thread ends when the transport lets go of it
            self._threads.discard(batch.thread)
            self._clear(batch)
            self._call_worker()

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        with self._changed:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
            self._live -= len(left)
            threads = self._threads - {threading.current_thread()}
            self._coming, self._idle = self._coming + self._idle, 0
            self._changed.notify_all()
        for run in left:
            self._put_back(run, SHUT_DOWN)
        if wait:
            _join(threads, timeout)

    def _enqueue(self, run: Run) -> str:
        """Queue a run, and return why it cannot be run, or nothing. Called with the lock held."""
        self._queue.append(run)
        problem = self._call_worker()
        if problem and not self._threads:
            self._queue.remove(run)
            return f"no thread could be started: {problem}"
        self._live += 1
        return ""

    def _call_worker(self) -> str:
        """Have one more worker come if those that come do not take all; return why not. Called with the lock held."""
        if self._coming * self._at_once() >= len(self._queue):
            return ""
        if self._idle:
            self._idle -= 1
            self._changed.notify()
        elif len(self._threads) >= self._size:
            return ""
        elif problem := self._spawn_worker():
            return problem
        self._coming += 1
        return ""

    def _spawn_worker(self) -> str:
        name = f"goscheduler-{self._alias}_{self._hired}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads to give, or the interpreter is ending
            return str(error) or "unknown"
        self._threads.add(thread)
        self._hired += 1
        return ""

    def _at_once(self) -> int:
        """Return how many a worker takes."""
        return self._batch_size if self._together else max(1, min(self._batch_size, int(BATCH_SECONDS / self._average)))

    def _work(self) -> None:
        with self._changed:
            self._coming -= 1
        batch = self._next_batch()
        while batch is not None:
            self._settle(batch)
            if batch.given_up:
                return
            batch = self._next_batch()

    def _next_batch(self) -> _Batch | None:
        """Wait for work and take it; None when there will be no more."""
        with self._changed:
            while not self._queue and not self._closed:
                self._idle += 1  # who calls takes this back
                self._changed.wait()
                self._coming -= 1
            if not self._queue:
                self._threads.discard(threading.current_thread())
                return None
            batch = _Batch([self._queue.popleft() for _ in range(min(self._at_once(), len(self._queue)))])
            # Before any of them is asked whether it may start: who cancels one asks the other way round.
            self._batches.update((attempt_key(run), batch) for run in batch.runs)
            self._call_worker()  # for the rest, if we took less than was expected of us
            return batch

    def _settle(self, batch: _Batch) -> None:
        """Publish a batch and report how each ended."""
        outcomes = self._outcomes(batch.runs)
        with self._changed:  # first: who hears of the end may look for room at once
            if not batch.given_up:
                self._clear(batch)
            self._average += (max(outcome.seconds for outcome in outcomes) / len(outcomes) - self._average) / 4
            self._average = max(self._average, BATCH_SECONDS / self._batch_size)
        for run, outcome in zip(batch.runs, outcomes, strict=True):
            self._report(run, outcome)
            for error in (outcome.error, getattr(outcome.error, "__cause__", None)):
                if error is not None:
                    error.__traceback__ = None  # raised again and again it would gather the frames of all its raises

    def _clear(self, batch: _Batch) -> None:
        """Give back the room of a batch. Called with the lock held."""
        for run in batch.runs:
            if self._batches.pop(attempt_key(run), None) is not None:
                self._live -= 1

    def _outcomes(self, runs: Sequence[Run]) -> list[Outcome]:
        refused = [self._begin(run) for run in runs]
        begun = [run for run, outcome in zip(runs, refused, strict=True) if outcome is None]
        clock = self._host.clock
        started_at, begin = clock.now(), clock.monotonic()
        try:
            ends = copy_context().run(self._deliver_as, begun, started_at) if begun else []
        except BaseException as error:  # nothing may end a worker
            ends = [failed(error, started_at, clock.monotonic() - begin)] * len(begun)
        following = iter(ends)
        return [next(following) if outcome is None else outcome for outcome in refused]

    def _deliver_as(self, runs: Sequence[Run], started_at: datetime) -> list[Outcome]:
        """Deliver as part of a run, so that a transport which shuts the scheduler down is not waited for by itself."""
        enter_run(runs[0], started_at)
        arounds = self._arounds()
        if not arounds:
            return self._ends_of(runs, started_at)
        # The first one last, so that its context is the one in which all of them are published.
        tellers = [begin_all(arounds, run, started_at) for run in reversed(runs)]
        ends = self._ends_of(runs, started_at)
        for tell, outcome in zip(reversed(tellers), ends, strict=True):
            tell(outcome)
        return ends

    def _ends_of(self, runs: Sequence[Run], started_at: datetime) -> list[Outcome]:
        """Publish, and return how each ended."""
        clock = self._host.clock
        begin = clock.monotonic()
        errors: Sequence[BaseException | None]
        try:
            errors = self._deliver(runs)
        except BaseException as error:  # nothing may end a worker
            errors = [error] * len(runs)
        seconds = clock.monotonic() - begin
        return [
            Outcome(OutcomeKind.SUCCEEDED, started_at=started_at, seconds=seconds)
            if error is None
            else failed(_as_asked(error), started_at, seconds)
            for error in errors
        ]


def _as_asked(error: BaseException) -> BaseException:
    """Return the error that has the next attempt wait for as long as the receiver asked, if it did."""
    seconds = getattr(error, "retry_after", None)
    if not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        return error
    later = RetryLater(min(LONGEST_DELAY, seconds), described(error))
    later.__cause__ = error
    return later


@lru_cache(maxsize=1024)
def _with_policy(options: JobOptions, retry: Retry) -> JobOptions:
    return replace(options, retry=retry)


def _join(threads: set[threading.Thread], timeout: float | None) -> None:
    end = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
    for thread in threads:
        thread.join(None if end is None else max(0.0, end - SYSTEM_CLOCK.monotonic()))
