"""Runs, owners and history of a store that serves one process, kept in memory.

The memory store and every store that has only the simple methods use it. What happens on the path of a firing is
O(log n) or better; what a person asks may look at everything. All of it is atomic under one lock.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.jobstores._local.queue import DispatchQueue, Entry
from goscheduler.jobstores._local.turns import Turns
from goscheduler.runs.limits import Ledger
from goscheduler.runs.model import DeadLetter, Source, unchecked_tuple
from goscheduler.runs.plan import ConcurrencyState, keys_of, rank_of
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.runs.transitions import claimed, put_back, with_attempt
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.types import FireRequest
    from goscheduler.runs.limits import Limit
    from goscheduler.runs.model import Attempt, JobStats, Owner, Run, Settlement
    from goscheduler.runs.plan import Refusal

#: How many finished attempts are kept by default.
HISTORY_KEPT = 50_000


class LocalRuns:
    """The runs of one store."""

    def __init__(self, history_kept: int = HISTORY_KEPT, find_job: Callable[[str], Job | None] | None = None) -> None:
        self._find_job = find_job
        """Returns the job that carries its statistics itself, in a store that keeps objects."""
        self.suspended: dict[str, str] = {}
        """Job id → reason, of jobs that are not to be fired for now."""
        self.write_failures: Counter[str] = Counter()
        """Job id → in how many rounds in a row a store with only the simple methods could not write it."""
        self.lock = threading.RLock()
        """Held by a store with only the simple methods while it fires or edits, so that these cannot interleave."""
        self.stats: dict[str, JobStats] = {}
        """Job id → its statistics, where the jobs of the store do not carry it themselves."""
        self._ledger = Ledger()
        self._live: dict[str, Run] = {}
        self._live_of_job: dict[str, int] = {}
        self._limits: dict[str, tuple[Limit, ...]] = {}
        """Id of a live run → the limits that it counts under, which those of its job need not be any more."""
        self._waiting_of_job: dict[str, int] = {}
        self._firings_of_job: dict[str, int] = {}
        """How many of the waiting ones are fire times, and not retries or runs that somebody asked for."""
        self._waiting: set[str] = set()  # ids of the pending runs
        self._queues: dict[str, DispatchQueue[Run]] = {}
        """The pending runs that nothing holds, by executor."""
        self._turns = Turns()
        """Pending runs that were due but not admitted, by key; one gets another look when a run under the key ends."""
        self._to_end: dict[str, str] = {}
        """Ids of live runs that their owner is to end → why."""
        self._kept = history_kept
        self._history: deque[Record] = deque(maxlen=history_kept)
        self._dead: dict[str, DeadLetter] = {}
        self._leases: dict[str, tuple[Owner, datetime]] = {}
        self.finished: set[str] | None = None if find_job is None else set()
        """Ids of jobs that were kept after they had fired for the last time; None if nobody has looked for them yet."""
        self._gone: set[str] = set()
        """Ids of jobs that are gone but for some runs."""
        self._last: set[str] = set()
        """Ids of live runs that nothing follows, because their job was removed."""
        self._given_up: deque[str] = deque(maxlen=1000)
        """Owners whose lease lapsed, so that they are told when they come back."""
        self._order = itertools.count()
        self._fences = itertools.count(1)

    def without_owners(self) -> LocalRuns:
        """Return the same without live runs: these belonged to an earlier start, or to the parent of a fork."""
        self.lock = threading.RLock()  # a thread that the parent of a fork kept may have held the old one
        heir = LocalRuns(self._kept, self._find_job)
        heir.suspended = dict(self.suspended)
        heir._history.extend(self._history)
        heir._dead.update(self._dead)
        heir.stats = self.stats
        heir.finished = self.finished
        heir._ledger = Ledger(rates=self._ledger.rates)
        for run in self.pending():
            heir.add_pending(run)
        heir._fences = itertools.count(self.next_fence())
        return heir

    def next_fence(self) -> int:
        """Return a number above every one returned before."""
        return next(self._fences)

    def concurrency(self, job_id: str) -> ConcurrencyState:
        """Return how a job stands, with a new fence."""
        live, waiting = self._live_of_job.get(job_id, 0), self._firings_of_job.get(job_id, 0)
        return unchecked_tuple(ConcurrencyState, (live, waiting, next(self._fences), self._ledger))

    def pending(self, job_id: str | None = None) -> list[Run]:
        """Return the runs that wait for their time, for room or for others to end, in the order of their time."""
        if job_id is not None and job_id not in self._waiting_of_job:
            return []
        with self.lock:
            entries = [entry for queue in self._queues.values() for entry in queue.entries()]
            entries += self._turns.entries()
            return [entry[2] for entry in sorted(entries) if job_id is None or entry[2].job.id == job_id]

    def live(self, job_id: str | None = None) -> list[Run]:
        """Return the runs that an owner has."""
        if job_id is not None and job_id not in self._live_of_job:
            return []
        with self.lock:
            return [run for run in self._live.values() if job_id is None or run.job.id == job_id]

    def history(self, query: HistoryQuery) -> list[Record]:
        """Return the records that are asked for, newest first."""
        with self.lock:
            records = list(self._history)
        return query.page(reversed(records))  # the newest first is the quickest to sort

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        """Forget at most ``limit`` records that are not to be kept, oldest first, and return how many."""
        with self.lock:
            records = list(self._history)
        outlived = {id(record) for record in retention.outlived(reversed(records), now, limit)}
        if outlived:
            with self.lock:
                kept = (record for record in self._history if id(record) not in outlived)
                self._history = deque(kept, maxlen=self._kept)
        return len(outlived)

    def fired(self, started: Sequence[Run], waiting: Sequence[Run], records: Iterable[Attempt]) -> None:
        """Take what one firing has produced."""
        with self.lock:
            for run in started:
                self._take(run)
            for run in waiting:
                self.add_pending(run)
            if self._gone:
                for run in (*started, *waiting):
                    self._is_there(run.job.id)
            self._history.extend(map(record_of, records))

    def ask_for(self, run: Run) -> None:
        """Take a pending run of a job that is there, unless it waits or goes on already."""
        with self.lock:
            self._is_there(run.job.id)
            if run.id not in self._waiting and run.id not in self._live:
                self.add_pending(run)

    def add_pending(self, run: Run) -> None:
        """Take a run that waits for its due time and an owner."""
        with self.lock:
            job_id = run.job.id
            self._waiting.add(run.id)
            self._waiting_of_job[job_id] = self._waiting_of_job.get(job_id, 0) + 1
            if run.source is Source.SCHEDULE:
                self._firings_of_job[job_id] = self._firings_of_job.get(job_id, 0) + 1
            self._line_up(run, next(self._order))

    def claim(self, request: FireRequest) -> tuple[list[Run], datetime | None, bool]:
        """Hand due pending runs to an owner. Return them, when the next comes due, and whether any was left."""
        if not self._waiting_of_job:
            return [], None, False
        with self.lock:
            runs: list[Run] = []
            full = [
                queue
                for executor, queue in list(self._queues.items())
                if self._claim_from(queue, request.room.get(executor, 0), request, runs)
            ]
            if full and self._turns.given:
                self._let_others_try()
            # Looked for at last: by then a lane that was empty may have got one that is let try.
            heads = [queue.upcoming() for queue in self._queues.values() if queue not in full]
            next_due = min((head for head in heads if head is not None), default=None)
            return runs, None if next_due is None else next_due[2].due_at, bool(full or self._turns.lines)

    def _claim_from(self, queue: DispatchQueue[Run], room: int, request: FireRequest, runs: list[Run]) -> bool:
        """Add to ``runs`` what can be claimed from one lane; true if due ones are left for want of room."""
        now = to_micros(request.now)
        while (entry := queue.pop(now)) is not None:
            if room <= 0:
                queue.push(entry)
                return True
            run = entry[2]
            concurrency = self.concurrency(run.job.id)
            refusal = request.admit(run, concurrency, request.now)
            if refusal is not None:
                self._refuse(entry, refusal)
                continue
            self._stop_waiting(run)
            room -= 1
            runs.append(claimed(run, request.owner, max(run.fence + 1, concurrency.fence)))
            self._take(runs[-1])
        return False

    def _refuse(self, entry: Entry[Run], refusal: Refusal) -> None:
        """Hold a pending run, or put it off. The next one under the key that let it try may try in its stead."""
        run = entry[2]
        turn = self._turns.given.pop(run.id, None)
        if refusal.until is not None:
            self._line_up(run._replace(due_at=max(refusal.until, run.due_at)), entry[1], entry[3])
        elif refusal.key is not None:
            self._turns.hold(entry, refusal.key, turn, self._live_under(refusal.key))
        if turn is not None and turn.key != refusal.key:
            self._let_one_try(turn.key)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Write ends of runs. Return the refused ones: their run is not live any more, or has a newer fence."""
        refused: list[Settlement] = []
        records = [record_of(settlement.attempt) for settlement in settlements]  # may call what users wrote: no lock
        with self.lock:
            for settlement, record in zip(settlements, records, strict=True):
                attempt, follow_up, dead = settlement
                run = attempt.run
                current = self._live.get(run.id)
                if current is None or current.fence != run.fence:
                    refused.append(settlement)
                    continue
                self._live_on(run.job, attempt)
                if follow_up is not None and run.id not in self._last and run.id not in self._to_end:
                    self.add_pending(follow_up)
                self._let_go(current)
                self._history.append(record)
                if dead is not None:
                    self._bury(DeadLetter(run, record, dead))
        return refused

    def _live_on(self, job: Job, attempt: Attempt) -> None:
        if self._find_job is not None:
            stored = self._find_job(job.id)
            if stored is not None:
                stored.stats = with_attempt(stored.stats, attempt)
        elif job.id not in self._gone:
            self.stats[job.id] = with_attempt(self.stats.get(job.id, job.stats), attempt)

    def _bury(self, letter: DeadLetter) -> None:
        self._dead[letter.run.id] = letter
        if len(self._dead) > max(1, self._kept):
            del self._dead[next(iter(self._dead))]

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        """Return the dead letters whose records are asked for, newest first."""
        with self.lock:
            letters = dict(self._dead)
        return [letters[record.run_id] for record in query.page(letter.record for letter in letters.values())]

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None) -> bool:
        """Take a dead letter out, putting a pending run in its place if ``follow_up`` makes one; false if unknown."""
        with self.lock:
            letter = self._dead.get(run_id)
            if letter is None:
                return False
            if follow_up is not None:
                self.add_pending(follow_up(letter))
            del self._dead[run_id]
            return True

    def discard_pending(self, job_id: str | None = None) -> bool:
        """Forget the pending runs of one job or of all; false if there were none."""
        with self.lock:
            gone = self.pending(job_id)
            self._drop_pending(gone)
            return bool(gone)

    def end_early(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        """End a pending run as ``end`` says, or have the owner of a live one told; None if there is none."""
        with self.lock:
            live = self._live.get(run_id)
            if live is not None:
                self._to_end[run_id] = self._to_end.get(run_id, reason) if keep_existing_reason else reason
                return live
            for run in self.pending():
                if run.id == run_id:
                    self._drop_pending([run])
                    self._history.append(record_of(end(run).attempt))
                    return run
            return None

    def cancel_live(self, job_id: str) -> None:
        """Have the owners of a job's live runs told to end them."""
        for run in self.live(job_id):
            self._to_end.setdefault(run.id, "a newer run of its job takes its place")

    def to_cancel(self, owner: str) -> list[tuple[Run, str]]:
        """Return the runs of ``owner`` that are to be ended, and why."""
        if not self._to_end:
            return []
        with self.lock:
            asked = [(self._live.get(run_id), reason) for run_id, reason in self._to_end.items()]
            return [(run, reason) for run, reason in asked if run is not None and run.owner == owner]

    def cancel_requests(self, job_id: str) -> dict[str, str]:
        """Return run id → reason, of the live runs of a job that are to be ended."""
        with self.lock:
            return {run.id: self._to_end[run.id] for run in self.live(job_id) if run.id in self._to_end}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> set[str]:
        """Forget that some runs of ``owner`` are to be ended, where that is for the same reason; return their ids."""
        with self.lock:
            taken = {
                run.id for run in map(self._live.get, requests)
                if run is not None and run.owner == owner and self._to_end.get(run.id) == requests[run.id]
            }  # fmt: skip
            for run_id in taken:
                del self._to_end[run_id]
            return taken

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Note that ``owner`` lives until ``now + lease``; false if it was given up before."""
        with self.lock:
            if owner.id in self._given_up:
                return False
            self._leases[owner.id] = (owner, now + lease)
            return True

    def owners(self, now: datetime) -> list[Owner]:
        """Return those whose lease has not lapsed."""
        return [owner._replace(expires_at=until) for owner, until in list(self._leases.values()) if until > now]

    def retire_owner(self, owner: str) -> None:
        """Forget ``owner``, making pending what it still has."""
        with self.lock:
            self._leases.pop(owner, None)
            for run in [run for run in self._live.values() if run.owner == owner]:
                reason = self._to_end.get(run.id)
                may_follow = run.id not in self._last
                if may_follow:
                    self.add_pending(put_back(run))
                self._let_go(run)
                if may_follow and reason is not None:
                    self._to_end[run.id] = reason

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Settle, as ``decide`` says, the runs of all owners that have no lease any more, and give these up."""
        with self.lock:
            hosts = {owner.id: owner.host for owner, _ in self._leases.values()}
            alive = {owner.id for owner, until in self._leases.values() if until > now}
            lost = [run for run in self._live.values() if run.owner not in alive]
            settlements = [decide(run, hosts.get(run.owner or "", "")) for run in lost]
            self.settle(settlements)
            for owner in (hosts.keys() - alive) | {run.owner or "" for run in lost}:
                self._leases.pop(owner, None)
                self._given_up.append(owner)
            return settlements

    def forget_job(self, job_id: str, may_follow: bool = False) -> None:
        """Forget what is known about a job that is gone; ``may_follow`` says whether its runs may be tried again."""
        self.suspended.pop(job_id, None)
        with self.lock:
            self.stats.pop(job_id, None)
            if job_id in self._live_of_job or job_id in self._waiting_of_job:
                self._gone.add(job_id)
            if not may_follow:
                self._last.update(run.id for run in self.live(job_id))

    def _is_there(self, job_id: str) -> None:
        """Take note that there is a job by this id, perhaps again."""
        if self._gone:
            self._gone.discard(job_id)

    def _line_up(self, run: Run, order: int, rank: int | None = None) -> None:
        """Let a run wait for its time. One that was put off keeps its rank, so that it gets older."""
        job = run.job
        due = to_micros(run.due_at)
        queue = self._queues.get(job.executor)
        if queue is None:
            queue = self._queues[job.executor] = DispatchQueue()
        queue.push((due, order, run, rank_of(job, due) if rank is None else rank))

    def _drop_pending(self, runs: Sequence[Run]) -> None:
        gone = {run.id for run in runs}
        for queue in self._queues.values():
            queue.keep([entry for entry in queue.entries() if entry[2].id not in gone])
        self._turns.drop(gone)
        given = self._turns.given
        turns = [given[run.id].key for run in runs if run.id in given]
        for run in runs:
            self._stop_waiting(run)
            self._to_end.pop(run.id, None)
            self._part_with(run.job.id)
        for key in turns:
            self._let_one_try(key)

    def _stop_waiting(self, run: Run) -> None:
        self._waiting.discard(run.id)
        _count_down(self._waiting_of_job, run.job.id)
        if run.source is Source.SCHEDULE:
            _count_down(self._firings_of_job, run.job.id)
        self._turns.given.pop(run.id, None)

    def _take(self, run: Run) -> None:
        self._live[run.id] = run
        job_id = run.job.id
        self._live_of_job[job_id] = self._live_of_job.get(job_id, 0) + 1
        limits = run.job.options.limits
        if limits:
            self._limits[run.id] = limits

    def _let_go(self, run: Run) -> None:
        del self._live[run.id]
        _count_down(self._live_of_job, run.job.id)
        limits = self._limits.pop(run.id, ()) if self._limits else ()
        if limits:
            self._ledger.give_back(limits)
        if self._to_end:
            self._to_end.pop(run.id, None)
        if self._last:
            self._last.discard(run.id)
        if self._gone:
            self._part_with(run.job.id)
        if self._turns.lines:
            for key in keys_of(run, limits):
                self._let_one_try(key)

    def _part_with(self, job_id: str) -> None:
        """Forget that a job is gone when the last run of it is over."""
        if job_id not in self._live_of_job and job_id not in self._waiting_of_job:
            self._gone.discard(job_id)

    def _let_others_try(self) -> None:
        """Pass on the turns of those that did not come to it, because their executor has no room."""
        given, self._turns.given = self._turns.given, {}
        for turn in given.values():
            self._let_one_try(turn.key)

    def _let_one_try(self, key: str) -> None:
        entry = self._turns.give(key, self._live_under(key))
        if entry is not None:
            self._line_up(entry[2], entry[1])

    def _live_under(self, key: str) -> int:
        kind, _, name = key.partition(":")
        return self._live_of_job.get(name, 0) if kind == "job" else self._ledger.running(name)


def _count_down(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
