"""Settling: writes how runs ended, many at a time, and then tells the listeners.

Executors put outcomes into a queue. One thread takes whatever has gathered since its last write and writes it together,
without waiting for more. What a store cannot take now is kept and written when it answers again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from goscheduler.errors import shown
from goscheduler.events import EventCode, JobExecutionEvent
from goscheduler.executors._log import log_discarded
from goscheduler.executors.context import attempt_key, last_progress
from goscheduler.jobstores.types import PartlySettled
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.runs.transitions import settle
from goscheduler.schedulers._announce import announce_settlements, log_ends
from goscheduler.schedulers._carrying import note_attempt
from goscheduler.schedulers._reconciliation import ends_found

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.schedulers._engine import Engine

#: At most so many outcomes in one write.
BATCH = 1000
#: After how many seconds ends are written again: those that a store could not take, and those that it put off because
#: other processes held their rows.
RETRY_UNWRITTEN = 1.0
RETRY_PUT_OFF = 0.05
#: When the scheduler ends, a store that does not answer is asked so often more, with so many seconds in between.
LAST_TRIES = 20
LAST_PAUSE = 0.25


class Settler:
    """The outcomes of one scheduler on their way into its stores."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake
        self._queue: SimpleQueue[tuple[Run, Outcome] | None] = SimpleQueue()
        self._unwritten: dict[str, list[Settlement]] = {}
        self._retry_after = RETRY_UNWRITTEN
        self._in_doubt: set[int] = set()
        """Which of them may have been written all the same, by identity."""
        self._portions: dict[str, int] = {}
        """Store → how many outcomes it gets at once, where it could not take more the last time."""
        self._thread: threading.Thread | None = None
        self._hangs = False
        self._hurry = threading.Event()

    def report(self, run: Run, outcome: Outcome) -> None:
        """Take an outcome. Never blocks; callable from any thread."""
        self._queue.put((run, outcome))

    def start(self) -> None:
        """Settle on a thread of our own from now on."""
        # A queue of its own for each start: a thread that was left behind in a store keeps its old one.
        self._queue, self._hangs, self._hurry = SimpleQueue(), False, threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._queue,), name="goscheduler-settler", daemon=True
        )
        self._thread.start()

    def stop(self, timeout: float | None = None, insist: bool = True) -> None:
        """Write everything that was reported, and end the thread; a store that hangs is left after ``timeout``.

        A store that does not answer now is given some seconds to come back, if we ``insist``.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            if not insist:
                self._hurry.set()
            self._queue.put(None)
            thread.join(timeout)
            self._hurry.set()
            if thread.is_alive():
                self._engine.logger.error("A job store hangs; the outcomes of some runs may stay unwritten")
                self._hangs = True
                return
        self.settle_reported()
        for alias, settlements in self._unwritten.items():
            self._engine.logger.error(
                'Job store "%s" did not answer: the outcomes of %d runs could not be written', alias, len(settlements)
            )

    def untold(self) -> set[str]:
        """Return the stores with outcomes that are unwritten or unconfirmed."""
        return set(self._engine.stores if self._hangs else self._unwritten)

    def is_current_thread(self) -> bool:
        """Tell whether the caller runs on the settling thread."""
        return self._thread is threading.current_thread()

    def settle_reported(self) -> int:
        """Write what has been reported so far, and return how much that was; for schedulers that have no threads."""
        batch: list[tuple[Run, Outcome]] = []
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if item is not None:
                batch.append(item)
        self._settle(batch)
        return len(batch)

    def _run(self, queue: SimpleQueue[tuple[Run, Outcome] | None]) -> None:
        more = True
        while more:
            batch: list[tuple[Run, Outcome]] = []
            more = self._gather(queue, batch)
            try:
                self._settle(batch)
            except BaseException:
                self._engine.logger.exception("The outcomes of %d runs could not be settled", len(batch))
        self._insist()

    def _insist(self) -> None:
        """Try again for some seconds to write what could not be written, before the scheduler ends."""
        for _ in range(LAST_TRIES):
            if not self._unwritten or self._hurry.wait(LAST_PAUSE):
                return
            self._settle([])

    def _gather(
        self, queue: SimpleQueue[tuple[Run, Outcome] | None], batch: list[tuple[Run, Outcome]]
    ) -> bool:
        """Fill ``batch``; false when the end was announced."""
        try:
            item = queue.get(timeout=self._retry_after if self._unwritten else None)
            while item is not None:
                batch.append(item)
                if len(batch) >= BATCH:
                    return True
                item = queue.get_nowait()
        except Empty:
            return True
        return False

    def _settle(self, batch: list[tuple[Run, Outcome]]) -> None:
        engine = self._engine
        now = engine.clock.now()
        by_store, self._unwritten = self._unwritten, {}
        self._retry_after = RETRY_UNWRITTEN
        revoked = engine.revoked
        for run, reported in batch:
            settlement = self._settlement(run, reported, now)
            if settlement is not None:
                by_store.setdefault(run.job._jobstore_alias or "", []).append(settlement)
        if batch and engine.loop.wants_capacity:
            self._wake()  # the executors have room by now: more can be fired while this is written
        brings_work = False
        for alias, settlements in by_store.items():
            self._write_in_portions(alias, settlements)
            brings_work = brings_work or any(map(_brings_work, settlements))
        engine.loop.batch_settled()  # first: a round that goes on meanwhile looks at that when it ends
        if revoked:
            revoked.difference_update(attempt_key(run) for run, _ in batch)
        if brings_work or (batch and engine.loop.wants_capacity and engine.loop.idle):
            self._wake()

    def _settlement(self, run: Run, reported: Outcome, now: datetime) -> Settlement | None:
        """Return what the end of a run leads to; None if it has ended before, or the report makes no sense."""
        engine = self._engine
        try:
            reported = reported if isinstance(reported, Outcome) else _senseless(reported)
            outcome = engine.running.final_outcome(run, reported)
            if outcome is None:
                return None
            settlement = settle(run, outcome, now, engine.random_number, last_progress(run.id), engine.host)
            settlement = settlement if engine.carrier is None else note_attempt(engine, settlement)
            return _last_of(settlement) if engine.revoked and attempt_key(run) in engine.revoked else settlement
        except Exception:
            engine.logger.exception("An executor reported %s for %s; that is ignored", shown(reported), shown(run))
            return None

    def _write_in_portions(self, alias: str, settlements: list[Settlement]) -> None:
        """Write everything at once; after a failure half as much, because a call may have taken too long for all."""
        size = self._portions.get(alias, max(1, len(settlements)))
        for begin in range(0, len(settlements), size):
            if not self._write(alias, settlements[begin : begin + size]):
                self._unwritten.setdefault(alias, []).extend(settlements[begin + size :])
                self._portions[alias] = max(1, min(size, len(settlements)) // 2)
                return
        self._portions.pop(alias, None)

    def _write(self, alias: str, settlements: list[Settlement]) -> bool:
        """Write ends with one call of their store; false if it has raised, and they are kept for another try."""
        engine = self._engine
        store = engine.stores.get(alias)
        if store is None:
            log_ends(engine, self._certain(settlements))
            engine.logger.error('Job store "%s" was removed; %d outcomes are not recorded', alias, len(settlements))
            return True
        try:
            refused = engine.statistics.timed(alias, store.settle, settlements)
        except PartlySettled as part:
            self._unwritten.setdefault(alias, []).extend(part.left)
            self._retry_after = RETRY_PUT_OFF
            refused, settlements = part.refused, _without(settlements, part.left)
        except BaseException as error:
            engine.statistics.count_store_error(alias)
            engine.logger.warning(
                'Job store "%s" could not record %d outcomes (%s); they are kept and written later',
                alias, len(settlements), error, exc_info=error,
            )
            self._unwritten.setdefault(alias, []).extend(settlements)
            log_ends(engine, self._certain(settlements))  # now: nobody knows when it can be written
            self._in_doubt.update(map(id, settlements))
            return False
        if store.shared:
            engine.reconciler.untrack(alias, settlements)
        untold = self._certain(settlements)
        refused = self._really_refused(alias, store, refused)
        if refused:
            self._tell_of_refused(alias, refused)
            settlements, untold = _without(settlements, refused), _without(untold, refused)
        log_ends(engine, untold)
        if self._in_doubt:
            self._in_doubt.difference_update(map(id, settlements))
        engine.statistics.count_ends(alias, settlements)
        announce_settlements(engine, alias, settlements)
        return True

    def _certain(self, settlements: list[Settlement]) -> list[Settlement]:
        """Return what no attempt to write was made of before; the log has told of the rest."""
        return [each for each in settlements if id(each) not in self._in_doubt] if self._in_doubt else settlements

    def _really_refused(self, alias: str, store: BaseJobStore, refused: Sequence[Settlement]) -> Sequence[Settlement]:
        """Return what was refused, without what was written at the first try although that seemed to fail."""
        tried_twice = [settlement for settlement in refused if id(settlement) in self._in_doubt]
        self._in_doubt.difference_update(map(id, refused))
        if not tried_twice:
            return refused
        try:
            written = {id(settlement) for settlement in ends_found(store, tried_twice)}
        except Exception as error:
            self._engine.logger.warning('Job store "%s" cannot say whether %d outcomes were written: %s',
                                        alias, len(tried_twice), error)
            return refused
        return [settlement for settlement in refused if id(settlement) not in written]

    def _tell_of_refused(self, alias: str, refused: Sequence[Settlement]) -> None:
        endings = self._engine.running
        refused = [settlement for settlement in refused if not endings.was_given_up(settlement.attempt.run)]
        self._engine.statistics.count_refused(refused)
        for settlement in refused:
            executor = settlement.attempt.run.job.executor
            log_discarded(self._engine.logger_of(executor), settlement.attempt)
        self._engine.emit([
            JobExecutionEvent(
                EventCode.LEASE_LOST, attempt.run.job.id, alias, attempt.run.scheduled_at, run_id=attempt.run.id,
                attempt=attempt.run.attempt, task=attempt.run.job.func_ref,
            )
            for attempt in (settlement.attempt for settlement in refused)
        ])


def _without(settlements: Sequence[Settlement], others: Sequence[Settlement]) -> list[Settlement]:
    """Return the settlements that are not among the others, by identity."""
    identities = set(map(id, others))
    return [settlement for settlement in settlements if id(settlement) not in identities]


def _last_of(settlement: Settlement) -> Settlement:
    """Return the settlement of a run whose job was removed: nothing follows it."""
    attempt = settlement.attempt
    if attempt.outcome.kind is OutcomeKind.SNOOZED:
        outcome = Outcome(OutcomeKind.CANCELLED, reason="its job was removed before the run was started")
        attempt = attempt._replace(outcome=outcome)
    return settlement._replace(attempt=attempt, follow_up=None)


def _brings_work(settlement: Settlement) -> bool:
    """Tell whether there is something new to be claimed, now or later. A run that an executor gave back is not new."""
    run, follow_up = settlement.attempt.run, settlement.follow_up
    if follow_up is None:
        return False
    return follow_up.attempt > run.attempt or follow_up.crashes > run.crashes or follow_up.due_at > run.due_at


def _senseless(outcome: object) -> Outcome:
    """Return a failure that says what an executor has reported in place of an outcome."""
    error = TypeError(f"the executor reported {shown(outcome)} instead of an outcome")
    return Outcome(OutcomeKind.FAILED, error=error)
