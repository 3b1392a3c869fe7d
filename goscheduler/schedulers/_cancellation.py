"""Ends runs early: runs that are out of time, cancelled, replaced by a newer run, or given up.

A run is **told** first: its executor passes that on as well as it can (a thread sees it in ``current_run()``, a task is
cancelled, a process is terminated). If that brings no end within the executor's grace, the run is **given up**: its
outcome is what it was told, its room is given back, and what it may still report one day is ignored.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import survivable
from goscheduler.executors._log import fields_of, names_of
from goscheduler.executors.context import attempt_key, clear_cancel, keep_back, kept_back
from goscheduler.runs.model import Outcome, OutcomeKind

if TYPE_CHECKING:
    from goscheduler.runs.model import Run
    from goscheduler.schedulers._engine import Engine

#: How often, at least, running jobs are looked after while a scheduler waits for them to end, in seconds.
MAX_LOOK_SECONDS = 1.0
#: The longest time until another look is asked for, in seconds: no clock can wait for a timeout of a million years.
MAX_WAIT_SECONDS = 86_400.0
#: Of so many runs it is known that they were given up. Most of them never report anything.
GIVEN_UP_KEPT = 10_000
#: Of so many runs it is known that they were told to end, and have. A store says so again until their end is written.
TERMINATED_KEPT = 1000
LOST_BEFORE = "its lease was lost before it began"
#: How a run ends although it was told to end otherwise: it was quicker.
_OWN_ENDS = frozenset({OutcomeKind.SUCCEEDED, OutcomeKind.MISSED})


class Termination(NamedTuple):
    """A request to end a run, and the outcome that it gets."""

    run: Run
    kind: OutcomeKind
    reason: str
    force_at: float
    """When it is given up (monotonic)."""


class RunningRuns:
    """The runs that one scheduler executes at this moment, and the requests to end some of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        # By id and fence: a run that we were given may be one that we lost before, and whose code still goes on.
        self._begun: dict[tuple[str, int], tuple[Run, datetime]] = {}
        self._deadlines: list[tuple[float, int, Run, float]] = []
        self._timed: dict[tuple[str, int], int] = {}
        """Runs with a timeout → the number of their deadline."""
        self._terminations: dict[tuple[str, int], Termination] = {}
        self._given_up: dict[tuple[str, int], bool] = {}
        """Runs that were given up → whether an outcome of them has been taken. There may come two."""
        self._withdrawn: set[tuple[str, int]] = set()
        """Those of them that still wait in their executor, and are not to be started."""
        self._terminated: deque[tuple[str, int]] = deque(maxlen=TERMINATED_KEPT)
        """Runs that were told to end, and have."""
        self._order = itertools.count()

    def begin(self, run: Run) -> bool:
        """Note that a run starts, on the thread that runs it; false if it is not to start any more."""
        key = (run.id, run.fence)
        if self._engine.leases.has_lost(run):
            # Not begun, so not lost: if nobody else has it by now it goes back.
            self._terminations[key] = Termination(run, OutcomeKind.SNOOZED, LOST_BEFORE, math.inf)
            keep_back(run, LOST_BEFORE)
        # First noted, then looked: who tells it to end does it the other way round, so one of the two finds the other.
        self._begun[key] = (run, self._engine.clock.now())
        revoked = self._engine.revoked
        if (
            (self._terminations and key in self._terminations)
            or (self._withdrawn and self._take_withdrawn(key))
            or (revoked and key in revoked)
        ):
            del self._begun[key]
            return False
        timeout = run.job.options.timeout
        if timeout is not None:
            self._set_deadline(run, timeout)
        return True

    def started_at(self, run: Run) -> datetime | None:
        """Return when a run of this process started, or None if it waits or is over."""
        begun = self._begun.get(attempt_key(run))
        return None if begun is None else begun[1]

    def begun(self) -> list[tuple[Run, datetime]]:
        """Return the runs that have started and not ended, each with the time of its start."""
        return list(self._begun.values())

    def running(self) -> list[Run]:
        """Return the runs that have started and not ended."""
        return [run for run, _ in list(self._begun.values())]

    def end(self, run: Run, kind: OutcomeKind, reason: str) -> None:
        """Tell a run of this process to end. Whoever told it first has the say.

        One that goes on gets its executor's grace. One that waits there ends at once, and is not started.
        """
        executor = self._engine.executors.get(run.job.executor)
        grace = 0.0 if executor is None else executor.grace_seconds
        termination = Termination(run, kind, reason, self._engine.clock.monotonic() + grace)
        with self._lock:
            if attempt_key(run) in self._terminated:
                return
            if self._terminations.setdefault(attempt_key(run), termination) is not termination:
                return
            if kind is not OutcomeKind.CANCELLED and not self._goes_on(run):
                del self._terminations[attempt_key(run)]  # it has just ended by itself
                return
        text = 'Run %s of job "%s" (%s) is told to end: %s'
        self._engine.logger.info(text, *names_of(run), reason, extra=fields_of(run))
        told = True
        try:
            if executor is not None:
                let_go = kind is OutcomeKind.LOST
                told = executor.let_go(run, reason) if let_go else executor.cancel(run, reason)
            else:
                told = False
        except BaseException as error:
            if not survivable(error):
                raise
            text = 'Executor "%s" could not cancel run %s'
            self._engine.logger.exception(text, run.job.executor, run.id, extra=fields_of(run))
        if not told and not self._goes_on(run):
            self._withdraw(termination)

    def look(self) -> float:
        """Tell the runs whose time is over, give up those that were told in vain; return the seconds until the next."""
        if not self._deadlines and not self._terminations:
            return math.inf
        now = self._engine.clock.monotonic()
        for run, timeout in self._out_of_time(now):
            self.end(run, OutcomeKind.TIMED_OUT, f"it ran longer than its timeout of {timeout:g} seconds")
        for termination in list(self._terminations.values()):
            if termination.force_at <= now:
                self._give_up(termination)
        with self._lock:
            times = [termination.force_at for termination in self._terminations.values()]
            times += [entry[0] for entry in self._deadlines[:1]]
        return min(MAX_WAIT_SECONDS, max(0.0, min(times) - now)) if times else math.inf

    @contextmanager
    def watched(self, hear: Callable[[], object]) -> Iterator[None]:
        """Look again and again meanwhile, on another thread: the loop has ended, and the caller waits for runs.

        ``hear`` is called each time, to learn which of them others want to end.
        """
        done = threading.Event()

        def look() -> None:
            while not done.wait(min(MAX_LOOK_SECONDS, self.look())):
                hear()

        watcher = threading.Thread(target=look, name="goscheduler-endings", daemon=True)
        with suppress(RuntimeError):  # the interpreter is ending, and starts no more threads
            watcher.start()
        try:
            yield
        finally:
            done.set()
            if watcher.ident is not None:
                watcher.join(MAX_LOOK_SECONDS)

    def final_outcome(self, run: Run, outcome: Outcome) -> Outcome | None:
        """Return how a reported run has ended, considering what it was told; None if it was given up before."""
        key = (run.id, run.fence)
        if self._given_up and key in self._given_up:
            if self._given_up.pop(key):
                self._withdrawn.discard(key)
                if outcome.started_at is not None:  # else it was ended before it had begun, and the log knows
                    text = 'Run %s of job "%s" (%s), given up before, has ended as %s'
                    self._engine.logger.info(text, *names_of(run), outcome.kind.value, extra=fields_of(run))
                return None
            self._given_up[key] = True
        self._begun.pop(key, None)
        return self._ended(run, outcome) if self._terminations or self._timed else outcome

    def _ended(self, run: Run, outcome: Outcome) -> Outcome:
        with self._lock:
            self._timed.pop(attempt_key(run), None)
            termination = self._terminations.pop(attempt_key(run), None)
            if termination is not None:
                self._terminated.append(attempt_key(run))
        if termination is not None:
            clear_cancel(run.id)  # not forgotten altogether: its progress goes into its record
            kept_back(run)  # where the executor did not ask
        if termination is None or outcome.kind in _OWN_ENDS:
            return outcome
        error = _error_of(termination, outcome.error)
        return outcome._replace(kind=termination.kind, reason=termination.reason, error=error)

    def _goes_on(self, run: Run) -> bool:
        return attempt_key(run) in self._begun

    def _withdraw(self, termination: Termination) -> None:
        """End a run that its executor has not started, or that is over by now: then the store refuses this end."""
        run, kind, reason, _ = termination
        with self._lock:
            if self._terminations.get(attempt_key(run)) is not termination:
                return
            self._note_given_up(run)
            self._withdrawn.add(attempt_key(run))
        self._engine.report(run, Outcome(kind, reason=reason))

    def _take_withdrawn(self, key: tuple[str, int]) -> bool:
        known = key in self._withdrawn
        self._withdrawn.discard(key)
        return known

    def _note_given_up(self, run: Run) -> None:
        self._given_up[attempt_key(run)] = False
        if len(self._given_up) > GIVEN_UP_KEPT:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._withdrawn.discard(oldest)

    def was_given_up(self, run: Run) -> bool:
        """Tell whether the end of a run was not its own: nobody is astonished if the store does not take it."""
        return attempt_key(run) in self._given_up

    def _give_up(self, termination: Termination) -> None:
        run, kind, reason, _ = termination
        executor = self._engine.executors.get(run.job.executor)
        started_at = self.started_at(run)
        self._engine.logger.error(
            'Run %s of job "%s" (%s) did not end when it was told to; the scheduler gives it up: %s', *names_of(run),
            reason, extra=fields_of(run),
        )
        try:
            if executor is not None:
                executor.give_up(run)
        except BaseException as error:
            if not survivable(error):
                raise
            text = 'Executor "%s" could not give up run %s'
            self._engine.logger.exception(text, run.job.executor, run.id, extra=fields_of(run))
        seconds = 0.0 if started_at is None else (self._engine.clock.now() - started_at).total_seconds()
        with self._lock:
            if self._terminations.get(attempt_key(run)) is not termination:
                return  # it has ended after all
            self._terminations[attempt_key(run)] = termination._replace(force_at=math.inf)
            self._note_given_up(run)
        self._engine.report(
            run, Outcome(kind, None, _error_of(termination), "", started_at, max(0.0, seconds), reason)
        )

    def _set_deadline(self, run: Run, timeout: float) -> None:
        engine = self._engine
        with self._lock:
            number = self._timed[attempt_key(run)] = next(self._order)
            heapq.heappush(self._deadlines, (engine.clock.monotonic() + timeout, number, run, timeout))
            if len(self._deadlines) > 2 * len(self._timed) + 64:
                self._deadlines = [
                    entry for entry in self._deadlines if self._timed.get(attempt_key(entry[2])) == entry[1]
                ]
                heapq.heapify(self._deadlines)
        if engine.clock.now().timestamp() + timeout < engine.loop.sleeping_until:
            engine.wake()

    def _out_of_time(self, now: float) -> list[tuple[Run, float]]:
        with self._lock:
            runs = []
            while self._deadlines and self._deadlines[0][0] <= now:
                _, number, run, timeout = heapq.heappop(self._deadlines)
                if self._timed.get(attempt_key(run)) == number:
                    del self._timed[attempt_key(run)]
                    runs.append((run, timeout))
            return runs


def _error_of(termination: Termination, raised: BaseException | None = None) -> BaseException | None:
    """Return the error of a run that has ended because it was told to; what it raised only to obey says nothing."""
    if termination.kind is OutcomeKind.TIMED_OUT and not isinstance(raised, Exception):
        return TimeoutError(termination.reason)
    return raised
