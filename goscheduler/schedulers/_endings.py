"""Runs that are to end before they end by themselves: out of time, cancelled, displaced by a newer one, or given up.

A run is **told** first: its executor passes that on as well as it can (a thread sees it in ``current_run()``, a task is
cancelled, a process is terminated). If that brings no end within the executor's grace, the run is **given up**: its
outcome is what it was told, its room is given back, and what it may still report one day is ignored.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import survivable
from goscheduler.executors.context import untell
from goscheduler.runs.model import Outcome, OutcomeKind

if TYPE_CHECKING:
    from goscheduler.runs.model import Run
    from goscheduler.schedulers._engine import Engine

#: How often, at least, running jobs are looked after while a scheduler waits for them to end, in seconds.
LONGEST_LOOK = 1.0
#: Of so many runs it is known that they were given up. Most of them never report anything.
GIVEN_UP_KEPT = 10_000
#: How a run ends although it was told to end otherwise: it was quicker.
_OWN_ENDS = frozenset({OutcomeKind.SUCCEEDED, OutcomeKind.MISSED})


class Sentence(NamedTuple):
    """How a run is to end."""

    run: Run
    kind: OutcomeKind
    reason: str
    force_at: float
    """When it is given up (monotonic)."""


class Endings:
    """The runs of one scheduler that go on at this moment, and those of them that are to end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._begun: dict[str, tuple[Run, datetime]] = {}
        self._deadlines: list[tuple[float, int, Run]] = []
        self._timed: dict[str, int] = {}
        """Id of a run with a timeout → the number of its deadline. An earlier attempt has left another one behind."""
        self._sentences: dict[str, Sentence] = {}
        self._given_up: dict[tuple[str, int], bool] = {}
        """Runs that were given up, by id and fence → whether an outcome of them has been taken. There may come two."""
        self._withdrawn: set[tuple[str, int]] = set()
        """Those of them that still wait in their executor, and are not to be started."""
        self._order = itertools.count()

    def begin(self, run: Run) -> bool:
        """Note that a run starts, on the thread that runs it; false if it is not to start any more."""
        if self._engine.leases.has_lost(run):
            # Not begun, so not lost: if nobody else has it by now it goes back.
            self._sentences[run.id] = Sentence(run, OutcomeKind.SNOOZED, "its lease was lost before it began", math.inf)
        # First noted, then looked: who tells it to end does it the other way round, so one of the two finds the other.
        self._begun[run.id] = (run, self._engine.clock.now())
        if (self._sentences and run.id in self._sentences) or (self._withdrawn and self._take_withdrawn(run)):
            del self._begun[run.id]
            return False
        timeout = run.job.options.timeout
        if timeout is not None:
            self._set_deadline(run, timeout)
        return True

    def started_at(self, run_id: str) -> datetime | None:
        """Return when a run of this process started, or None if it waits or is over."""
        begun = self._begun.get(run_id)
        return None if begun is None else begun[1]

    def going_on(self) -> list[Run]:
        """Return the runs that have started and not ended."""
        return [run for run, _ in list(self._begun.values())]

    def end(self, run: Run, kind: OutcomeKind, reason: str) -> None:
        """Tell a run of this process to end. Whoever told it first has the say.

        One that goes on gets its executor's grace. One that waits there ends at once, and is not started.
        """
        executor = self._engine.executors.get(run.job.executor)
        grace = 0.0 if executor is None else executor.grace_seconds
        sentence = Sentence(run, kind, reason, self._engine.clock.monotonic() + grace)
        with self._lock:
            if self._sentences.setdefault(run.id, sentence) is not sentence:
                return
            if kind is not OutcomeKind.CANCELLED and not self._goes_on(run):
                del self._sentences[run.id]  # it has just ended by itself
                return
        self._engine.logger.info('Run %s of job "%s" is told to end: %s', run.id, run.job.id, reason)
        told = True
        try:
            told = executor is not None and executor.cancel(run, reason)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.exception('Executor "%s" could not cancel run %s', run.job.executor, run.id)
        if not told and not self._goes_on(run):
            self._withdraw(sentence)

    def look(self) -> float:
        """Tell the runs whose time is over, give up those that were told in vain; return the seconds until the next."""
        if not self._deadlines and not self._sentences:
            return math.inf
        now = self._engine.clock.monotonic()
        for run in self._out_of_time(now):
            self.end(run, OutcomeKind.TIMED_OUT, f"it ran longer than its timeout of {run.job.timeout:g} seconds")
        for sentence in list(self._sentences.values()):
            if sentence.force_at <= now:
                self._give_up(sentence)
        with self._lock:
            times = [sentence.force_at for sentence in self._sentences.values()]
            times += [entry[0] for entry in self._deadlines[:1]]
        return max(0.0, min(times, default=math.inf) - now)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look again and again meanwhile, on another thread: the loop has ended, and the caller waits for runs."""
        done = threading.Event()

        def look() -> None:
            while not done.wait(min(LONGEST_LOOK, self.look())):
                pass

        watcher = threading.Thread(target=look, name="goscheduler-endings", daemon=True)
        with suppress(RuntimeError):  # the interpreter is ending, and starts no more threads
            watcher.start()
        try:
            yield
        finally:
            done.set()
            if watcher.ident is not None:
                watcher.join(LONGEST_LOOK)

    def judge(self, run: Run, outcome: Outcome) -> Outcome | None:
        """Return how a reported run has ended, considering what it was told; None if it was given up before."""
        if self._given_up and (run.id, run.fence) in self._given_up:
            if self._given_up.pop((run.id, run.fence)):
                self._withdrawn.discard((run.id, run.fence))
                self._engine.logger.info(
                    'Run %s of job "%s", given up before, has ended as %s', run.id, run.job.id, outcome.kind.value
                )
                return None
            self._given_up[run.id, run.fence] = True
        return self._ended(run, outcome)

    def _ended(self, run: Run, outcome: Outcome) -> Outcome:
        self._begun.pop(run.id, None)
        if not self._sentences and not self._timed:
            return outcome
        with self._lock:
            self._timed.pop(run.id, None)
            sentence = self._sentences.pop(run.id, None)
        if sentence is not None:
            untell(run.id)  # not forgotten altogether: its progress goes into its record
        if sentence is None or outcome.kind in _OWN_ENDS:
            return outcome
        return outcome._replace(kind=sentence.kind, reason=sentence.reason, error=_error_of(sentence, outcome.error))

    def _goes_on(self, run: Run) -> bool:
        begun = self._begun.get(run.id)
        return begun is not None and begun[0].fence == run.fence

    def _withdraw(self, sentence: Sentence) -> None:
        """End a run that its executor has not started, or that is over by now: then the store refuses this end."""
        run, kind, reason, _ = sentence
        with self._lock:
            if self._sentences.get(run.id) is not sentence:
                return
            self._note_given_up(run)
            self._withdrawn.add((run.id, run.fence))
        self._engine.report(run, Outcome(kind, reason=reason))

    def _take_withdrawn(self, run: Run) -> bool:
        key = (run.id, run.fence)
        known = key in self._withdrawn
        self._withdrawn.discard(key)
        return known

    def _note_given_up(self, run: Run) -> None:
        self._given_up[run.id, run.fence] = False
        if len(self._given_up) > GIVEN_UP_KEPT:
            oldest = next(iter(self._given_up))
            del self._given_up[oldest]
            self._withdrawn.discard(oldest)

    def was_given_up(self, run: Run) -> bool:
        """Tell whether the end of a run was not its own: nobody is astonished if the store does not take it."""
        return (run.id, run.fence) in self._given_up

    def _give_up(self, sentence: Sentence) -> None:
        run, kind, reason, _ = sentence
        executor = self._engine.executors.get(run.job.executor)
        started_at = self.started_at(run.id)
        self._engine.logger.error(
            'Run %s of job "%s" does not end although it was told to; it is given up: %s', run.id, run.job.id, reason
        )
        try:
            if executor is not None:
                executor.give_up(run)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.exception('Executor "%s" could not give up run %s', run.job.executor, run.id)
        seconds = 0.0 if started_at is None else (self._engine.clock.now() - started_at).total_seconds()
        with self._lock:
            if self._sentences.get(run.id) is not sentence:
                return  # it has ended after all
            self._sentences[run.id] = sentence._replace(force_at=math.inf)
            self._note_given_up(run)
        self._engine.report(
            run, Outcome(kind, None, _error_of(sentence), "", started_at, max(0.0, seconds), reason)
        )

    def _set_deadline(self, run: Run, timeout: float) -> None:
        engine = self._engine
        with self._lock:
            number = self._timed[run.id] = next(self._order)
            heapq.heappush(self._deadlines, (engine.clock.monotonic() + timeout, number, run))
            if len(self._deadlines) > 2 * len(self._timed) + 64:
                self._deadlines = [entry for entry in self._deadlines if self._timed.get(entry[2].id) == entry[1]]
                heapq.heapify(self._deadlines)
        if engine.clock.now().timestamp() + timeout < engine.sleeping_until:
            engine.wake()

    def _out_of_time(self, now: float) -> list[Run]:
        with self._lock:
            runs = []
            while self._deadlines and self._deadlines[0][0] <= now:
                _, number, run = heapq.heappop(self._deadlines)
                if self._timed.get(run.id) == number:
                    del self._timed[run.id]
                    runs.append(run)
            return runs


def _error_of(sentence: Sentence, raised: BaseException | None = None) -> BaseException | None:
    """Return the error of a run that has ended because it was told to; what it raised only to obey says nothing."""
    if sentence.kind is OutcomeKind.TIMED_OUT and not isinstance(raised, Exception):
        return TimeoutError(sentence.reason)
    return raised
