"""Removed jobs: after ``remove_job`` has returned, no run of that job starts in any process.

A run that goes on comes to its end. One that waits in the queue of its owner is **called off**: an owner looks into its
``revoked`` set when it starts something, at the last moment. Our own set is at hand. The owner of any other run is told
through the store, by a **wish** in the manner of ``cancel_run`` whose reason begins with ``JOB_REMOVED``. It hears of
that when it claims, adds the run to its set, and then takes the wish back: that is the answer which the remover waits
for.

==============================  ====================================================================================
a crash after                   leaves
==============================  ====================================================================================
the job is removed              live runs that nobody calls off; nothing follows them
the wishes are written          owners that hear them all the same
an owner has heard them         nobody who could start these runs; they are lost with their owner, and nothing follows
==============================  ====================================================================================

A run that was cancelled or displaced is to end anyway, but its owner may not have heard of that either. Then both are
one wish: the other reason follows ``JOB_REMOVED``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from goscheduler.errors import survivable
from goscheduler.executors.context import attempt_key
from goscheduler.runs.backfill import CALLED_OFF
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.transitions import JOB_REMOVED, called_off
from goscheduler.schedulers._lease import RENEW_AFTER

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.schedulers._engine import Engine

#: The pauses between two looks at what the owners have answered, in seconds.
MIN_PAUSE_SECONDS = 0.02
MAX_PAUSE_SECONDS = 0.25


class Removal:
    """The side of the remover: runs of jobs of one store that are gone, until no owner starts them any more."""

    def __init__(self, engine: Engine, store: BaseJobStore) -> None:
        self._engine = engine
        self._store = store
        self._unheard: dict[str, set[str]] = {}
        """Job id → ids of its runs whose owners have not answered."""

    def call_off(self, runs: Iterable[Run]) -> None:
        """Have live runs not started any more: ours at once, those of others as soon as these hear of it."""
        engine = self._engine
        for run in runs:
            if engine.leases.is_ours(run.owner):
                engine.revoked.add(attempt_key(run))
            elif self._store.shared:
                self._store.cancel_run(run.id, JOB_REMOVED, self._end, keep_existing_reason=True)
                self._unheard.setdefault(run.job.id, set()).add(run.id)

    def wait(self, may_go_on: Callable[[], bool]) -> None:
        """Wait until every owner has heard. A dead one loses its runs when its lease is over and others look for it."""
        engine = self._engine
        longest = engine.leases.length * (1 + RENEW_AFTER) + MAX_PAUSE_SECONDS
        until = engine.clock.monotonic() + longest
        for pause in _pauses(longest):
            for job_id in list(self._unheard):
                self._look(job_id)
            if not self._unheard or engine.sleep is None:
                return
            if not may_go_on() or engine.clock.monotonic() >= until:
                break
            engine.sleep(pause)
        for job_id, run_ids in self._unheard.items():
            engine.logger.warning(
                'Job "%s" was removed, but the process that has %d of its runs does not answer; if that process '
                "comes back, it may start the runs that it has queued", job_id, len(run_ids), extra={"job_id": job_id},
            )  # fmt: skip

    def _look(self, job_id: str) -> None:
        """Take in which owners have answered; while the store does not answer, nobody has."""
        try:
            requests = self._store.cancel_requests(job_id)
            left = {run_id: requests[run_id] for run_id in self._unheard[job_id] if run_id in requests}
            for run_id, request in left.items():
                if not request.startswith(JOB_REMOVED):
                    self._store.cancel_run(run_id, JOB_REMOVED + request, self._end)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.debug('Job "%s" was removed; the store did not say who knows: %s', job_id, error,
                                      extra={"job_id": job_id})
            return
        if left:
            self._unheard[job_id] = set(left)
        else:
            del self._unheard[job_id]

    def _end(self, run: Run) -> Settlement:
        return called_off(run, JOB_REMOVED.strip(), self._engine.clock.now())


def apply_cancel_requests(engine: Engine, requests: Iterable[tuple[Run, str]]) -> Sequence[tuple[Run, str]]:
    """End runs of ours that are to end, and call off those of removed jobs. Return the latter, to be answered for."""
    called_off = []
    for run, request in requests:
        reason = request
        if request == CALLED_OFF:  # it was claimed meanwhile, so it goes on; who asked takes that back, if it lives
            called_off.append((run, request))
            continue
        if request.startswith(JOB_REMOVED):
            reason = request[len(JOB_REMOVED) :]
            engine.revoked.add(attempt_key(run))
            called_off.append((run, request))
        if reason:
            engine.running.end(run, OutcomeKind.CANCELLED, reason)
    return called_off


def acknowledge_revocations(
    engine: Engine, store: BaseJobStore, owner: str, called_off: Sequence[tuple[Run, str]]
) -> None:
    """Let the remover know that runs of ours are called off, or have begun before."""
    taken = store.withdraw_cancel_requests(owner, {run.id: request for run, request in called_off})
    # A run that has ended meanwhile was forgotten before it was added, and nothing would make us forget it again.
    engine.revoked.difference_update(attempt_key(run) for run, _ in called_off if run.id not in taken)


def _pauses(seconds: float) -> Iterator[float]:
    """Yield growing pauses of so many seconds in all; the clock alone may be one that a test has stopped."""
    pause = MIN_PAUSE_SECONDS
    while seconds > 0:
        yield pause
        seconds -= pause
        pause = min(MAX_PAUSE_SECONDS, pause * 1.5)
