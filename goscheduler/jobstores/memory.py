"""The memory store: jobs live as long as the process.

Jobs stand in a dictionary by id, and the scheduled ones in one lane per executor, so that an executor without room does
not hide the jobs of the others. An entry of a lane that is not the job's current one any more is stale: it is dropped
when it comes up, or when more than half of all are stale.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.job import take_over
from goscheduler.jobstores._local.queue import DispatchQueue, Entry
from goscheduler.jobstores._local.retention import note_whether_finished
from goscheduler.jobstores._local.runs import HISTORY_KEPT, LocalRuns
from goscheduler.jobstores.base import BaseJobStore, Fired, FireRequest, Suspended
from goscheduler.runs.plan import rank_of
from goscheduler.runs.queries import NEVER, JobPage, JobPosition, JobQuery
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run
    from goscheduler.runs.records import Retention

_Entry = Entry["Job"]
#: The due time of a job that is not scheduled.
_NOT_SCHEDULED = -1


class MemoryJobStore(BaseJobStore):
    """Keeps jobs as the objects they are. ``history`` says how many finished attempts are remembered."""

    keeps_objects = True
    lock_backend = "memory"

    def __init__(self, history: int = HISTORY_KEPT) -> None:
        self._history_kept = int(history)
        self._local_runs = LocalRuns(self._history_kept, self.lookup_job)
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._queues: dict[str, DispatchQueue[Job]] = {}
        self._stale = 0
        self._order = itertools.count()

    def shutdown(self) -> None:
        self.remove_all_jobs()
        self._local_runs = LocalRuns(self._history_kept, self.lookup_job)

    def lookup_job(self, job_id: str) -> Job | None:
        entry = self._entries.get(job_id)
        return None if entry is None else entry[2]

    def get_due_jobs(self, now: datetime) -> list[Job]:
        limit = to_micros(now)
        with self._lock:
            due = [entry for entry in self._entries.values() if _NOT_SCHEDULED < entry[0] <= limit]
        return [entry[2] for entry in sorted(due)]

    def get_next_run_time(self) -> datetime | None:
        with self._lock:
            scheduled = (entry for entry in self._entries.values() if entry[0] > _NOT_SCHEDULED)
            earliest = min(scheduled, default=None)
        return None if earliest is None else earliest[2].next_run_time

    def get_all_jobs(self) -> list[Job]:
        with self._lock:
            entries = list(self._entries.values())
        entries.sort(key=lambda entry: (entry[2].next_run_time is None, entry[0], entry[1]))
        return [entry[2] for entry in entries]

    def find_jobs(self, query: JobQuery) -> JobPage:
        running = self._running(query)
        with self._lock:
            entries = list(self._entries.values())
        found = []
        for due, _, job, _ in entries:  # which know the time as a number already
            place = (0 if query.sort == "id" else NEVER if due == _NOT_SCHEDULED else due, job.id)
            if (query.after is None or place > query.after) and query.matches(job, running):
                found.append((*place, job))
        first = heapq.nsmallest(query.limit, found)
        return JobPage([job for *_, job in first], JobPosition(*first[-1][:2]) if len(found) > query.limit else None)

    def _all_jobs(self) -> list[Job]:
        with self._lock:
            return [entry[2] for entry in self._entries.values()]

    def add_job(self, job: Job) -> None:
        with self._lock:
            if job.id in self._entries:
                raise ConflictingIdError(job.id)
            self._schedule(job)

    def update_job(self, job: Job) -> None:
        with self._lock:
            before = self._entries.get(job.id)
            if before is None:
                raise JobLookupError(job.id)
            self._schedule(job)  # in its place, so that nobody who looks meanwhile finds nothing
            self._count_stale(before)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        with self._lock:
            stored = self.lookup_job(job_id)
            if stored is None:
                raise JobLookupError(job_id)
            edited = edit(stored)
            with self._runs.lock:
                # A run may have ended since the edit began.
                edited.stats = stored.stats.edited(edited.stats)
                # What the user holds stays what is stored: the old object, or the new one that replaces it.
                kept = edited if edited.pending else take_over(stored, edited)
                self.update_job(kept)
            note_whether_finished(self, kept)
            return kept

    def remove_job(self, job_id: str) -> None:
        with self._lock:
            self._unschedule(job_id)

    def remove_all_jobs(self) -> None:
        with self._lock:
            self._entries.clear()
            self._queues.clear()
            self._stale = 0

    def fire_due(self, request: FireRequest) -> Fired:
        with self._lock:
            return _Firing(self, request).fire()

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        with self._lock:
            return super().prune_finished_jobs(retention, now, limit)

    def forget_live_runs(self) -> None:
        self._lock = threading.RLock()  # the parent of a fork may have held the old one
        self._local_runs = self._local_runs.without_owners()

    def suspensions(self) -> Mapping[str, str]:
        with self._lock:
            jobs = [entry[2] for entry in self._entries.values()]
        return {job.id: job.suspended for job in jobs if job.suspended is not None}

    def release(self, job_id: str) -> bool:
        with self._lock:
            job = self.lookup_job(job_id)
            if job is None or job.suspended is None:
                return False
            job.suspended = None
            self.update_job(job)
            return True

    @property
    def _runs(self) -> LocalRuns:
        return self._local_runs

    def _schedule(self, job: Job) -> None:
        if job.next_run_time is None or job.suspended is not None:
            self._entries[job.id] = (_NOT_SCHEDULED, next(self._order), job, 0)
            return
        due = to_micros(job.next_run_time)
        entry = (due, next(self._order), job, rank_of(job, due))
        self._entries[job.id] = entry
        executor = job.executor
        queue = self._queues.get(executor)
        if queue is None:
            queue = self._queues[executor] = DispatchQueue()
        queue.push(entry)

    def _unschedule(self, job_id: str) -> Job:
        entry = self._entries.pop(job_id, None)
        if entry is None:
            raise JobLookupError(job_id)
        self._count_stale(entry)
        return entry[2]

    def _count_stale(self, entry: _Entry) -> None:
        if entry[0] != _NOT_SCHEDULED:
            self._stale += 1
            if self._stale > 64 and self._stale * 2 > sum(map(len, self._queues.values())):
                self._drop_stale_entries()

    def _drop_stale_entries(self) -> None:
        for queue in self._queues.values():
            queue.keep([entry for entry in queue.entries() if self._entries.get(entry[2].id) is entry])
        self._stale = 0

    def _upcoming(self, queue: DispatchQueue[Job]) -> _Entry | None:
        """Return the next entry of a lane that is not stale, dropping those that are."""
        while (entry := queue.upcoming()) is not None:
            if self._entries.get(entry[2].id) is entry:
                return entry
            queue.drop_upcoming()
            self._stale -= 1
        return None


class _Firing:
    """One round of ``fire_due``; the store's lock is held."""

    def __init__(self, store: MemoryJobStore, request: FireRequest) -> None:
        self._store = store
        self._request = request
        self._runs = store._runs
        self._started: list[Run] = []
        self._waiting: list[Run] = []
        self._records: list[Attempt] = []
        self._finished: list[Job] = []
        self._suspended: list[Suspended] = []
        self._heads: list[_Entry] = []
        """The next jobs of the executors that have room; the others wait for room, not for a time."""
        self._more = False

    def fire(self) -> Fired:
        for executor, queue in list(self._store._queues.items()):
            # An executor that nobody has takes nothing; planning its jobs suspends them. Another process may have it.
            without = 0 if self._store.shared else len(queue)
            self._fire_lane(queue, self._request.room.get(executor, without))
        self._runs.fired(self._started, self._waiting, self._records)
        next_due = min(self._heads)[2].next_run_time if self._heads else None
        return Fired(self._started, self._records, self._finished, self._suspended, next_due, self._more)

    def _fire_lane(self, queue: DispatchQueue[Job], room: int) -> None:
        store, entries, runs = self._store, self._store._entries, self._runs
        plan, now = self._request.plan, self._request.now
        limit = to_micros(now)
        unchanged: list[Job] = []
        while (entry := queue.pop(limit)) is not None:
            job = entry[2]
            if entries.get(job.id) is not entry:
                store._stale -= 1
                continue
            if room <= 0:
                queue.push(entry)
                self._more = True
                return
            start, wait, records, following, suspended, cancel_live, keep, _, waits = plan(
                job, runs.concurrency(job.id), now
            )
            if suspended is not None:
                self._suspend(job, suspended)
                continue
            if following is None:
                self._finish(job, keep, waits)
            elif following is job.next_run_time:
                unchanged.append(job)
            else:
                job.next_run_time = following
                store._schedule(job)
            if cancel_live:
                runs.cancel_live(job.id)
            room -= len(start)
            self._started += start
            self._waiting += wait
            self._records += records
        for job in unchanged:  # not before, or the lane would give them again
            store._schedule(job)
        head = store._upcoming(queue)
        if head is not None:
            self._heads.append(head)

    def _finish(self, job: Job, keep: bool, waits: bool) -> None:
        if keep:
            with self._runs.lock:
                job.next_run_time = None
                job.stats = job.stats._replace(finished_at=None if waits else self._request.now)
            self._store._schedule(job)
            note_whether_finished(self._store, job)
        else:
            del self._store._entries[job.id]
            self._finished.append(job)

    def _suspend(self, job: Job, reason: str) -> None:
        job.suspended = reason
        self._store._schedule(job)
        self._suspended.append(Suspended(job, reason))
