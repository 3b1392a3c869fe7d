"""The store of the simulation: one truth in memory, and a connection to it for each process.

The truth is the memory store, made faithful to the port of shared stores: it goes by a clock of its own, and nobody
else has the objects that it keeps. Every change of a run goes through the :class:`~sim_book.Book`, which keeps accounts
of its own. A connection passes every call to the world, where faults happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.errors import StoreUnavailable
from goscheduler.job import Job, take_over
from goscheduler.jobstores._local.reading import LocalNotes
from goscheduler.jobstores._local.runs import LocalRuns
from goscheduler.jobstores.base import BaseJobStore, Claimed, Fired, FireRequest, PartlySettled
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from sim_book import Book

    from goscheduler.runs.model import Owner, Run, Settlement


class Lost(StoreUnavailable):
    """The answer of the store did not come."""


def copied(job: Job, scheduler: Any = None) -> Job:
    """Return a job that shares nothing with the given one that anybody changes."""
    twin = take_over(Job.__new__(Job), job)
    twin._scheduler, twin._jobstore_alias = scheduler, "default"
    return twin


class WatchedRuns(LocalRuns):
    """The runs of the truth; the book hears of every change."""

    def __init__(self, book: Book, find_job: Callable[[str], Job | None]) -> None:
        super().__init__(find_job=find_job)
        self._book = book

    def fired(self, started: Sequence[Run], waiting: Sequence[Run], records: Any) -> None:
        records = list(records)
        self._book.fired(started, waiting, records)
        super().fired(started, waiting, records)

    def add_pending(self, run: Run) -> None:
        super().add_pending(run._replace(job=copied(run.job)))

    def settle(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        refused = super().settle(settlements)
        identities = set(map(id, refused))
        for settlement in settlements:
            self._book.settled(settlement, id(settlement) not in identities)
        return refused

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        alive = {owner.id for owner, until in self._leases.values() if until > now}
        self._book.recovering([run for run in self._live.values() if run.owner not in alive], now)
        return super().recover(now, decide)

    def retire_owner(self, owner: str) -> None:
        self._book.retired([run for run in self._live.values() if run.owner == owner])
        super().retire_owner(owner)

    def take_dead_letter(self, run_id: str, follow_up: Any) -> bool:
        taken = super().take_dead_letter(run_id, follow_up)
        if taken:
            self._book.redriven(run_id)
        return taken

    def end_early(self, run_id: str, reason: str, end: Any, keep_existing_reason: bool = False) -> Run | None:
        run = super().end_early(run_id, reason, end, keep_existing_reason)
        if run is not None:
            self._book.told_to_end(run, reason)
        return run

    def cancel_live(self, job_id: str) -> None:
        for run in self.live(job_id):
            self._book.told_to_end(run, "displaced")
        super().cancel_live(job_id)

    def forget_job(self, job_id: str, may_follow: bool = False) -> None:
        if not may_follow:
            self._book.forgotten(self.live(job_id))
        super().forget_job(job_id, may_follow)

    def _drop_pending(self, runs: Sequence[Run]) -> None:
        self._book.dropped(runs)
        super()._drop_pending(runs)

    def _take(self, run: Run) -> None:
        frozen = run._replace(job=copied(run.job))
        self._book.handed_out(frozen)
        super()._take(frozen)


class Truth(MemoryJobStore):
    """What the server has."""

    shared = True

    def __init__(self, book: Book, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._local_runs = WatchedRuns(book, self.lookup_job)
        self._book = book
        self.now = now
        """The clock of the server."""

    def add_job(self, job: Job) -> None:
        super().add_job(job)
        self._book.added(job)

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        self._book.asked_for(run, self.lookup_job(run.job.id))
        super().add_run(run, must_exist)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        def written(job: Job) -> Job:
            edited = copied(edit(copied(job, job._scheduler)))
            _ = edited.next_run_time  # a job that cannot be written raises before anything is changed
            return edited

        return super().edit_job(job_id, written)

    def fire_due(self, request: FireRequest) -> Fired:
        now = self.now()
        return super().fire_due(request._replace(now=now))._replace(now=now)

    def claim_runs(self, request: FireRequest) -> Claimed:
        return super().claim_runs(request._replace(now=self.now()))

    def renew_owner(self, owner: Owner, now: datetime, lease: Any) -> bool:
        alive = super().renew_owner(owner, self.now(), lease)
        self._book.renewed(owner, self.now() + lease, alive)
        return alive

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        return super().recover_runs(self.now(), decide)

    def owners(self, now: datetime) -> list[Owner]:
        return super().owners(self.now())

    def settle_some(self, settlements: Sequence[Settlement], some: int) -> Sequence[Settlement]:
        """Write the first of the ends only, because the rows of the others are held."""
        refused = self.settle(settlements[:some])
        if some < len(settlements):
            raise PartlySettled(refused, settlements[some:])
        return refused

    def is_idle(self) -> bool:
        """Tell whether no run waits or goes on, and no job will fire."""
        runs = self._runs
        waiting = any(entry[0] >= 0 for entry in self._entries.values())
        return not (runs._live or runs._waiting_of_job or waiting)

    def has_work(self, name: str) -> bool:
        """Tell whether a call of this method would find something to do."""
        now, runs = self.now(), self._runs
        if name == "fire_due":
            return any(0 <= entry[0] <= to_micros(now) for entry in self._entries.values())
        if name == "claim_runs":
            return bool(runs._waiting_of_job or runs._to_end)
        if name == "recover_runs":
            return any(until <= now for _, until in runs._leases.values())
        return True


READS = frozenset({
    "lookup_job", "get_due_jobs", "get_next_run_time", "get_all_jobs", "count_waiting", "count_due_beside", "live_runs",
    "pending_runs", "cancel_requests", "history", "dead_letters", "owners", "suspensions",
})  # fmt: skip
WRITES = frozenset({
    "add_job", "add_jobs", "update_job", "remove_job", "remove_all_jobs", "edit_job", "fire_due", "claim_runs",
    "settle", "add_run", "discard_pending", "cancel_run", "withdraw_cancel_requests", "prune_history",
    "take_dead_letter", "renew_owner", "retire_owner", "recover_runs", "requeue_orphans", "forget_job",
    "prune_finished_jobs", "release",
})  # fmt: skip


def tells(name: str, args: tuple[Any, ...], answer: Any) -> bool:
    """Tell whether there may be work for others after a call."""
    if name == "settle":
        return any(settlement.follow_up is not None for settlement in args[0])
    if name in ("recover_runs", "release", "take_dead_letter", "cancel_run"):
        return bool(answer)
    return name in ("add_job", "add_jobs", "edit_job", "add_run", "retire_owner")


#: ``ask(method, arguments, convert)`` returns what the server answers, converted there.
Ask = Callable[..., Any]


class Connection(BaseJobStore):
    """The store as one process has it. What it answers with is copied at the moment when the server has done it."""

    shared = True

    def __init__(self, ask: Ask, subscribe: Callable[[Callable[[], None]], None]) -> None:
        self._ask = ask
        self._subscribe = subscribe
        self._kept_notes = LocalNotes()

    @property
    def _notes(self) -> LocalNotes:
        """Notes of this process only: nothing in the simulation depends on those of others."""
        return self._kept_notes

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._subscribe(wake)

    def stats_of(self, job: Job) -> Any:
        return job.stats

    def add_job(self, job: Job) -> None:
        self._ask("add_job", (copied(job),))

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        self._ask("add_jobs", (list(map(copied, jobs)),))

    def update_job(self, job: Job) -> None:
        self._ask("update_job", (copied(job),))

    def lookup_job(self, job_id: str) -> Job | None:
        return self._ask("lookup_job", (job_id,), self._own)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        return self._ask("edit_job", (job_id, lambda job: edit(self._own(job))), self._own)

    def get_all_jobs(self) -> list[Job]:
        return self._ask("get_all_jobs", (), self._own_jobs)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return self._ask("get_due_jobs", (now,), self._own_jobs)

    def fire_due(self, request: FireRequest) -> Fired:
        return self._ask("fire_due", (request,), lambda fired: fired._replace(runs=self._own_runs(fired.runs)))

    def claim_runs(self, request: FireRequest) -> Claimed:
        return self._ask("claim_runs", (request,), self._own_claim)

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        return self._ask("live_runs", (job_id,), self._own_runs)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._ask("pending_runs", (job_id,), self._own_runs)

    def cancel_run(self, run_id: str, reason: str, end: Any, keep_existing_reason: bool = False) -> Run | None:
        return self._ask("cancel_run", (run_id, reason, end, keep_existing_reason), self._own_run)

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        self._ask("add_run", (run, must_exist))

    def _own(self, job: Job | None) -> Any:
        return None if job is None else copied(job, self._scheduler)

    def _own_jobs(self, jobs: Sequence[Job]) -> list[Job]:
        return list(map(self._own, jobs))

    def _own_claim(self, claimed: Claimed) -> Claimed:
        to_cancel = [(self._own_run(run), reason) for run, reason in claimed.to_cancel]
        return claimed._replace(runs=self._own_runs(claimed.runs), to_cancel=to_cancel)

    def _own_run(self, run: Run | None) -> Any:
        return None if run is None else run._replace(job=self._own(run.job))

    def _own_runs(self, runs: Sequence[Run]) -> list[Run]:
        return list(map(self._own_run, runs))


def _passed_on(name: str) -> Callable[..., Any]:
    def method(self: Connection, *args: Any) -> Any:
        return self._ask(name, args)

    return method


for _name in sorted((READS | WRITES) - vars(Connection).keys()):
    setattr(Connection, _name, _passed_on(_name))
Connection.__abstractmethods__ = frozenset()

