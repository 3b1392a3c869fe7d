"""The store port.

Terms: a **job** is due when its ``next_run_time`` is not after now. **Firing** turns a due job into **runs**; a run is
**pending** until an **owner** (one start of a scheduler) has claimed it, and **live** while an owner has it. Each time
a run is handed out its **fence** grows, and a settlement that shows an older fence is refused.

Every store has ten simple methods, those of APScheduler 3: ``start``, ``shutdown``, ``lookup_job``,
``get_due_jobs``, ``get_next_run_time``, ``get_all_jobs``, ``add_job``, ``update_job``, ``remove_job``,
``remove_all_jobs``. A store that has no more than these works, for one process: the base class keeps its runs in
memory. A store that several processes **share** derives from :class:`SharedJobStore` and implements the rest as well;
each of these is one atomic step there:

=================  ====================================================================  ============================
method             what it writes                                                        what a crash after it leaves
=================  ====================================================================  ============================
``fire_due``       the job's next time (or its removal) and its runs, already owned      owned runs; the lease lapses
``claim_runs``     owner and fence of pending runs                                       the same
``settle``         the end of a run, its record, its follow-up; refused if fenced out    the record is the truth
``edit_job``       a job as a pure function has changed it                               nothing
``add_run``        a pending run, if its job is there                                    nothing
``take_dead_...``  a pending run in place of a dead letter, or its end                   nothing
``cancel_run``     the end of a pending run, or a cancel request to the owner of a live  nothing
                   one
``withdraw_...``   such a request, forgotten                                             nothing
``recover_runs``   the end of the runs of lapsed owners, and what follows them           nothing
``requeue_...``    entries of jobs and runs in the lists in which they were missing      nothing
=================  ====================================================================  ============================

What people read (pages of jobs, counts, dead letters in groups, notes) stands in :mod:`goscheduler.jobstores.reading`.

No policy is decided in a store: what to do with a due job is answered by the plan that comes with the request, a pure
and quick function. ``goscheduler.testing.StoreContract`` is the test suite that a store has to pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.errors import ConflictingIdError, JobLookupError, StoreUnavailable, TransientJobError
from goscheduler.jobstores._local.firing import LocalFiring
from goscheduler.jobstores._local.retention import note_whether_finished, prune
from goscheduler.jobstores._local.runs import LocalRuns
from goscheduler.jobstores.reading import StoreReads
from goscheduler.jobstores.types import Claimed, Fired, FireRequest, PartlySettled, Requeued, Suspended
from goscheduler.logs import guarded_logger

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import DeadLetter, JobStats, Owner, Run, Settlement
    from goscheduler.runs.records import HistoryQuery, Record, Retention

__all__ = [
    "BaseJobStore",
    "Claimed",
    "ConflictingIdError",
    "FireRequest",
    "Fired",
    "JobLookupError",
    "PartlySettled",
    "Requeued",
    "SharedJobStore",
    "Suspended",
    "TransientJobError",
]


class BaseJobStore(StoreReads, ABC):
    """A place for jobs and their runs."""

    shared = False
    """Whether several processes may use the same data at once."""
    keeps_objects = False
    """Whether jobs are kept as they are, so that a lambda or an open file may be part of one."""

    keeps_minutes = True
    """Whether figures of each minute are kept; else of ten at a time, where each write is dear."""

    address = ""
    """Its URL as it may be shown; empty for one that was made of no URL."""

    lock_backend: str | None = None
    """The module of ``goscheduler.locks`` that keeps locks where the store keeps its jobs, if one does."""

    _scheduler: Any = None
    _alias: str | None = None
    _logger = guarded_logger("goscheduler.jobstores")

    def start(self, scheduler: Any, alias: str) -> None:
        """Get ready: connect, make tables. Called when the scheduler starts or when the store is added to it."""
        self._scheduler = scheduler
        self._alias = alias
        self._logger = guarded_logger(f"goscheduler.jobstores.{alias}")

    def shutdown(self) -> None:
        """Let go of everything that :meth:`start` took."""

    def is_outage(self, error: BaseException) -> bool:
        """Tell whether an error that a method has raised means that the server cannot be reached at the moment.

        A scheduler that starts tries again then. What is wrong for good is no outage.
        """
        return isinstance(error, StoreUnavailable)

    @abstractmethod
    def lookup_job(self, job_id: str) -> Job | None:
        """Return the job by this id, or None."""

    @abstractmethod
    def get_due_jobs(self, now: datetime) -> list[Job]:
        """Return the jobs whose ``next_run_time`` is not after ``now``, ascending by it."""

    @abstractmethod
    def get_next_run_time(self) -> datetime | None:
        """Return the earliest ``next_run_time`` of all jobs, or None if nothing is scheduled."""

    @abstractmethod
    def get_all_jobs(self) -> list[Job]:
        """Return all jobs, ascending by ``next_run_time``, paused ones last."""

    def count_waiting(self, task: str | None = None) -> int:
        """Return how many jobs wait for their next time, of one task or of all."""
        waiting = (job for job in self.get_all_jobs() if job.next_run_time is not None and job.suspended is None)
        return sum(task in (None, job.task) for job in waiting)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        return Counter(job.executor for job in self.get_due_jobs(until) if job.executor not in executors)

    @abstractmethod
    def add_job(self, job: Job) -> None:
        """Add a job.

        :raises ConflictingIdError: if the id is taken
        """

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Add several jobs: all of them, or none.

        :raises ConflictingIdError: if one of the ids is taken, or is there twice
        """
        added: list[Job] = []
        try:
            for job in jobs:
                self.add_job(job)
                added.append(job)
        except BaseException:
            for job in added:
                self.remove_job(job.id)
            raise

    def add_job_with(self, connection: Any, job: Job) -> None:
        """Add a job as part of the transaction of a connection to the store's database.

        :raises ConflictingIdError: if the id is taken
        """
        raise TypeError(f"{type(self).__name__} cannot add a job to the transaction of a connection; SQL stores can")

    @abstractmethod
    def update_job(self, job: Job) -> None:
        """Replace the job that has this job's id.

        :raises JobLookupError: if there is none
        """

    @abstractmethod
    def remove_job(self, job_id: str) -> None:
        """Remove a job. Its live runs go on; no new one starts.

        :raises JobLookupError: if there is none
        """

    @abstractmethod
    def remove_all_jobs(self) -> None:
        """Remove all jobs."""

    # Below: one process, runs in memory. SharedJobStore replaces all of it.

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        """Replace a job by what ``edit``, a pure function, makes of it, in one step that no firing can come between.

        :raises JobLookupError: if there is none
        """
        with self._runs.lock:
            job = self.lookup_job(job_id)
            if job is None:
                raise JobLookupError(job_id)
            edited = edit(job)
            self.update_job(edited)
            note_whether_finished(self, edited)
            return edited

    def fire_due(self, request: FireRequest) -> Fired:
        """Fire due jobs, as many as there is room for, each exactly once among all who share the store."""
        with self._runs.lock:
            return LocalFiring(self, request).fire()

    def claim_runs(self, request: FireRequest) -> Claimed:
        """Claim pending runs that are due, those of the lowest rank first, as many as there is room for."""
        runs, next_due, more = self._runs.claim(request)
        return Claimed(runs, next_due, more, self._runs.to_cancel(request.owner))

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Write how runs ended, and return the ends that are refused because the run was handed out again since."""
        return self._runs.settle(settlements)

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        """Add a pending run that did not come from a firing. If a run by this id waits or goes on, nothing changes.

        :raises JobLookupError: if its job ``must_exist``, and is gone when the run is written
        """
        with self._runs.lock:
            if must_exist and self.lookup_job(run.job.id) is None:
                raise JobLookupError(run.job.id)
            self._runs.ask_for(run)

    def discard_pending(self, job_id: str | None = None) -> bool:
        """Remove the pending runs of one job or of all; false if there were none."""
        return self._runs.discard_pending(job_id)

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        """Return the runs that an owner has, of one job or of all."""
        return self._runs.live(job_id)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        """Return the runs that nobody has yet, of one job or of all, in the order of their due times."""
        return self._runs.pending(job_id)

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        """End a pending run as ``end``, a pure function, says; of a live one, tell its owner by ``claim_runs``.

        Return the run as it was found, or None if there is none by this id. Of two reasons for the same live run the
        later one stays, unless it ``keep_existing_reason``: then an earlier one does.
        """
        return self._runs.end_early(run_id, reason, end, keep_existing_reason)

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        """Return run id → reason, of the live runs of a job that their owners are to end."""
        return self._runs.cancel_requests(job_id)

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        """Forget that runs are to end, given by run id → reason: those that ``owner`` has, if that is still the reason.

        Return the ids of these.
        """
        return self._runs.withdraw_cancel_requests(owner, requests)

    def history(self, query: HistoryQuery) -> list[Record]:
        """Return what is kept of finished attempts and asked for, newest first: descending by their positions."""
        return self._runs.history(query)

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        """Forget at most ``limit`` records that ``retention`` does not keep, oldest first, and return how many."""
        return self._runs.prune_history(retention, now, limit)

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        """Return runs whose last attempt has failed, by the records of that attempt, in the order of the history."""
        return self._runs.dead_letters(query)

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        """Remove a dead letter, and in the same step add the pending run that ``follow_up``, a pure function, makes of
        it. False if there is none by this run id."""
        return self._runs.take_dead_letter(run_id, follow_up)

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Keep ``owner`` alive until ``now + lease``. False if it had lapsed and ``recover_runs`` has given it up."""
        return self._runs.renew_owner(owner, now, lease)

    def retire_owner(self, owner: str) -> None:
        """Forget an owner that ends in an orderly way; what it still has becomes pending at once."""
        self._runs.retire_owner(owner)

    def owners(self, now: datetime) -> list[Owner]:
        """Return the owners whose lease has not lapsed."""
        return self._runs.owners(now)

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        """Give up the owners whose lease has lapsed, and settle what they had as ``decide``, a pure function, says.

        It is asked ``decide(run, host)``, with the host of the owner, empty where that is not known. An owner that has
        no lease at all, though it has runs, counts as lapsed.
        """
        return self._runs.recover(now, decide)

    def requeue_orphans(self, limit: int) -> Requeued:
        """Look at about ``limit`` jobs and runs, and put back in line those that nobody would find any more.

        Each call goes on where the last one has stopped. Nothing to do for a store in which a job and its time, a run
        and its owner are one thing. One that keeps lists of them beside finds what is in none; one in which a run and
        the limit it waits for are changed one after the other finds those that wait for nothing.
        """
        return Requeued()

    def suspensions(self) -> Mapping[str, str]:
        """Return job id → reason for every suspended job."""
        return dict(self._runs.suspended)

    def stats_of(self, job: Job) -> JobStats:
        """Return what a job of this store has lived through."""
        noted, stats = self._runs.stats.get(job.id), job.stats
        return stats if noted is None else noted.edited(stats)

    def forget_job(self, job_id: str) -> None:
        """Forget what is known about a job that was removed, but for its history and its live runs."""
        self._runs.discard_pending(job_id)
        self._runs.forget_job(job_id)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        """Remove at most ``limit`` jobs that have fired for the last time and that ``retention`` keeps no longer.

        Return their ids. A job that has runs which wait or go on is not over yet.
        """
        return prune(self, retention, now, limit)

    def release(self, job_id: str) -> bool:
        """Let a suspended job fire again; false if it was not suspended."""
        return self._runs.suspended.pop(job_id, None) is not None

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` from now on whenever another process has changed what is due."""

    def poll_after(self) -> float:
        """Return how many seconds to wait before polling again for jobs that other processes have added."""
        return math.inf

    def detected_failover(self) -> bool:
        """Tell, once, whether what was confirmed may have been lost since the last time: another server answers."""
        return False

    def forget_live_runs(self) -> None:
        """Let go of runs that belong to an earlier start of the scheduler, or to the parent of a forked child."""
        self.__dict__["_local_runs"] = self._runs.without_owners()

    @property
    def _runs(self) -> LocalRuns:
        # Made on first use: stores written for APScheduler 3 need not call our constructor.
        runs: LocalRuns | None = self.__dict__.get("_local_runs")
        return self.__dict__.setdefault("_local_runs", LocalRuns()) if runs is None else runs

    def _fix_paused_jobs_sorting(self, jobs: list[Job]) -> None:
        """Move paused jobs from the start of a sorted list to its end."""
        paused = 0
        while paused < len(jobs) and jobs[paused].next_run_time is None:
            paused += 1
        jobs[:] = jobs[paused:] + jobs[:paused]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class SharedJobStore(BaseJobStore):
    """A store that several processes may use at once: it keeps runs, owners and history beside the jobs.

    Each method does what :class:`BaseJobStore` says, in one atomic step of its database. All of them are abstract, so
    that none falls back to the memory of one process. A store that hears nothing of others' changes leaves
    ``subscribe`` out and is polled.
    """

    shared = True

    @abstractmethod
    def add_jobs(self, jobs: Sequence[Job]) -> None: ...

    @abstractmethod
    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job: ...

    @abstractmethod
    def fire_due(self, request: FireRequest) -> Fired: ...

    @abstractmethod
    def claim_runs(self, request: FireRequest) -> Claimed: ...

    @abstractmethod
    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]: ...

    @abstractmethod
    def add_run(self, run: Run, must_exist: bool = False) -> None: ...

    @abstractmethod
    def discard_pending(self, job_id: str | None = None) -> bool: ...

    @abstractmethod
    def live_runs(self, job_id: str | None = None) -> list[Run]: ...

    @abstractmethod
    def pending_runs(self, job_id: str | None = None) -> list[Run]: ...

    @abstractmethod
    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None: ...

    @abstractmethod
    def cancel_requests(self, job_id: str) -> Mapping[str, str]: ...

    @abstractmethod
    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]: ...

    @abstractmethod
    def history(self, query: HistoryQuery) -> list[Record]: ...

    @abstractmethod
    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int: ...

    @abstractmethod
    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]: ...

    @abstractmethod
    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool: ...

    @abstractmethod
    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool: ...

    @abstractmethod
    def retire_owner(self, owner: str) -> None: ...

    @abstractmethod
    def owners(self, now: datetime) -> list[Owner]: ...

    @abstractmethod
    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]: ...

    @abstractmethod
    def suspensions(self) -> Mapping[str, str]: ...

    @abstractmethod
    def stats_of(self, job: Job) -> JobStats: ...

    @abstractmethod
    def forget_job(self, job_id: str) -> None: ...

    @abstractmethod
    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]: ...

    @abstractmethod
    def release(self, job_id: str) -> bool: ...

    @abstractmethod
    def poll_after(self) -> float: ...
