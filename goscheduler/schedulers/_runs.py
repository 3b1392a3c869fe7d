"""Everything that can be asked and done about runs: history, run now, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from goscheduler.errors import JobLookupError, RunLookupError, shown
from goscheduler.executors.context import progress_of
from goscheduler.options import check_name_of
from goscheduler.runs.model import LiveRun, OutcomeKind
from goscheduler.runs.processes import process_of, running_by_id, shortened
from goscheduler.runs.transitions import asked_for, called_off, redriven
from goscheduler.schedulers._announce import announce_settlements, log_ends
from goscheduler.schedulers._carrying import note_asking

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import DeadLetter, Run, Settlement
    from goscheduler.runs.processes import Process, RunningRun
    from goscheduler.runs.records import HistoryQuery, Record
    from goscheduler.schedulers._engine import Engine

#: How many dead letters are redriven before more are asked for.
REDRIVE_BATCH = 1000


class Runs:
    """The runs of one scheduler, in all of its stores."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake

    def history(self, query: HistoryQuery, jobstore: str | None) -> list[Record]:
        """Return the records that are asked for, newest first."""
        return query.page(record for store in self._stores(jobstore) for record in store.history(query))

    def run_now(self, job: Job | None, job_id: str) -> str:
        """Ask for a run of a job beside its schedule, and return its id."""
        if job is None or job._jobstore_alias is None:
            raise JobLookupError(job_id)
        run = note_asking(self._engine, asked_for(job, self._engine.new_run_id(), self._engine.clock.now()))
        self._engine.stores[job._jobstore_alias].add_run(run, must_exist=True)
        self._wake()
        return run.id

    def live(self, job_id: str | None, jobstore: str | None) -> list[LiveRun]:
        """Return the runs that wait, are queued or go on."""
        found = []
        for store in self._stores(jobstore):
            live = store.live_runs(job_id)
            processes = self._processes_of(store, live)
            reported = running_by_id(processes.values())
            found += [self._view(run, processes, reported) for run in live + store.pending_runs(job_id)]
        return found

    def _processes_of(self, store: BaseJobStore, live: Sequence[Run]) -> dict[str, Process]:
        """Return the processes that share a store, by owner, if one of them has any of these runs."""
        if not store.shared or not any(run.owner for run in live):
            return {}
        return {owner.id: process_of(owner, "") for owner in store.owners(self._engine.clock.now())}

    def _view(
        self, run: Run, processes: Mapping[str, Process], reported: Mapping[str, RunningRun]
    ) -> LiveRun:
        process = processes.get(run.owner or "")
        if run.owner is None or self._engine.leases.is_ours(run.owner):
            started_at = self._engine.running.started_at(run)
            state = "pending" if run.owner is None else "queued" if started_at is None else "running"
            share, note = shortened(progress_of(run.id))
        else:
            started_at, share, note = None, None, ""
            if run.id in reported:
                _, _, started_at, share, note = reported[run.id]
            state = "claimed" if started_at is None else "running"
        return LiveRun(
            run.id, run.job.id, run.job.name, state, run.scheduled_at, run.due_at, started_at, run.attempt, run.source,
            run.owner, share, note, "" if process is None else process.host, 0 if process is None else process.pid,
        )

    def cancel(self, run_id: str, reason: str, only_pending: bool = False) -> bool:
        """End a run, here or by way of its owner; false if there is none, or it is to be ``only_pending`` and is not.

        An owner has to know a reason that is for pending runs only, and not end a run for it.
        """
        if not isinstance(run_id, str):
            raise TypeError(f"run_id must be a string, got {shown(run_id)}")
        reason = check_name_of("reason", reason or "it was cancelled")
        now = self._engine.clock.now()
        ends: list[Settlement] = []

        def end(run: Run) -> Settlement:
            ends[:] = [called_off(run, reason, now)]
            return ends[0]

        for alias, store in self._engine.stores.items():
            run = store.cancel_run(run_id, reason, end, keep_existing_reason=only_pending)
            if run is None:
                continue
            if run.owner is not None and only_pending:
                store.withdraw_cancel_requests(run.owner, {run_id: reason})
                return False
            if run.owner is None:
                log_ends(self._engine, ends)
                self._engine.statistics.count_ends(alias, ends)
                announce_settlements(self._engine, alias, ends)
                self._wake()  # others may have waited behind it
            elif self._engine.leases.is_ours(run.owner):
                self._engine.running.end(run, OutcomeKind.CANCELLED, reason)
                self._engine.wake()
            return True
        return False

    def dead_letters(self, query: HistoryQuery, jobstore: str | None) -> list[DeadLetter]:
        """Return runs whose last attempt has failed and is asked for, newest first."""
        found = [letter for store in self._stores(jobstore) for letter in store.dead_letters(query)]
        return sorted(found, key=lambda letter: letter.record.position, reverse=True)[: query.limit]

    def redrive(self, run_id: str) -> None:
        """Give a dead letter one more attempt."""
        self._take(run_id, self._redriven)
        self._wake()

    def redrive_all(self, query: HistoryQuery, jobstore: str | None) -> int:
        """Give the dead letters that are asked for one more attempt, and return how many there were."""
        count = sum(self._redrive_from(store, query._replace(limit=REDRIVE_BATCH)) for store in self._stores(jobstore))
        self._wake()
        return count

    def _redrive_from(self, store: BaseJobStore, query: HistoryQuery) -> int:
        count = 0
        # From page to page, so that one that dies again meanwhile, and is newer by that, is not seen again.
        while letters := store.dead_letters(query):
            count += sum(store.take_dead_letter(letter.run.id, self._redriven) for letter in letters)
            query = query._replace(before=letters[-1].record.position)
        return count

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
