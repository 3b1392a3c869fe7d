"""Everything that can be asked and done about runs: history, run now, dead letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import InvalidArgument, JobLookupError, RunLookupError, shown
from goscheduler.runs.transitions import asked_for, redriven

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Attempt, DeadLetter, Run
    from goscheduler.schedulers._engine import Engine

MOST_AT_ONCE = 100_000


class Runs:
    """The runs of one scheduler, in all of its stores."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake

    def history(self, job_id: str | None, jobstore: str | None, limit: int) -> list[Attempt]:
        """Return finished attempts, newest first."""
        _check_limit(limit)
        found = [attempt for store in self._stores(jobstore) for attempt in store.history(job_id, limit)]
        return sorted(found, key=lambda attempt: attempt.finished_at, reverse=True)[:limit]

    def run_now(self, job: Job | None, job_id: str) -> str:
        """Ask for a run of a job beside its schedule, and return its id."""
        if job is None or job._jobstore_alias is None:
            raise JobLookupError(job_id)
        run = asked_for(job, self._engine.new_run_id(), self._engine.clock.now())
        self._engine.stores[job._jobstore_alias].add_run(run)
        self._wake()
        return run.id

    def dead_letters(self, job_id: str | None, jobstore: str | None, limit: int) -> list[DeadLetter]:
        """Return runs whose last attempt has failed, newest first."""
        _check_limit(limit)
        found = [letter for store in self._stores(jobstore) for letter in store.dead_letters(job_id, limit)]
        return sorted(found, key=lambda letter: letter.attempt.finished_at, reverse=True)[:limit]

    def redrive(self, run_id: str) -> None:
        """Give a dead letter one more attempt."""
        self._take(run_id, self._redriven)
        self._wake()

    def redrive_all(self, job_id: str | None, jobstore: str | None) -> int:
        """Give all dead letters one more attempt, and return how many there were. One that dies again stays."""
        asked_at = self._engine.clock.now()
        count = 0
        for store in self._stores(jobstore):
            while taken := self._redrive_some(store, job_id, asked_at):
                count += taken
        self._wake()
        return count

    def _redrive_some(self, store: BaseJobStore, job_id: str | None, asked_at: datetime) -> int:
        letters = [
            letter for letter in store.dead_letters(job_id, MOST_AT_ONCE) if letter.attempt.finished_at <= asked_at
        ]
        return sum(store.take_dead_letter(letter.attempt.run.id, self._redriven) for letter in letters)

    def discard(self, run_id: str) -> None:
        """Forget a dead letter."""
        self._take(run_id, None)

    def _take(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None) -> None:
        if not any(store.take_dead_letter(run_id, follow_up) for store in self._stores(None)):
            raise RunLookupError(run_id)

    def _redriven(self, letter: DeadLetter) -> Run:
        return redriven(letter, self._engine.clock.now())

    def _stores(self, jobstore: str | None) -> list[BaseJobStore]:
        if jobstore is None:
            return list(self._engine.stores.values())
        if jobstore not in self._engine.stores:
            raise KeyError(f"No such job store: {jobstore}")
        return [self._engine.stores[jobstore]]


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_AT_ONCE:
        raise InvalidArgument(
            f"limit must be a whole number from 1 to {MOST_AT_ONCE}, got {shown(limit)}", field="limit", value=limit
        )
