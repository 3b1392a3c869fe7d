"""Runs, owners and history of a store that serves one process, kept in memory.

The memory store and every store that has only the simple methods use it. What happens on the path of a firing is
O(log n) or better; what a person asks may look at everything. All of it is atomic under one lock.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.runs.model import DeadLetter, recorded
from goscheduler.runs.transitions import claimed, recovered
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.runs.model import Attempt, Run, Settlement

#: How many finished attempts are kept by default.
HISTORY_KEPT = 50_000


class LocalRuns:
    """The runs of one store."""

    def __init__(self, history_kept: int = HISTORY_KEPT) -> None:
        self.suspended: dict[str, str] = {}
        """Job id → reason, of jobs that are not to be fired for now."""
        self.write_failures: Counter[str] = Counter()
        """Job id → in how many rounds in a row a store with only the simple methods could not write it."""
        self.lock = threading.RLock()
        """Held by a store with only the simple methods while it fires or edits, so that these cannot interleave."""
        self._live: dict[str, Run] = {}
        self._live_of_job: dict[str, int] = {}
        self._pending: list[tuple[int, int, Run]] = []
        self._held: dict[str, deque[Run]] = {}
        """Pending runs that were due but not admitted; the oldest gets another look when a run of its job ends."""
        self._kept = history_kept
        self._history: deque[Attempt] = deque(maxlen=history_kept)
        self._dead: dict[str, DeadLetter] = {}
        self._leases: dict[str, datetime] = {}
        self._order = itertools.count()
        self._fences = itertools.count(1)

    def without_owners(self) -> LocalRuns:
        """Return the same without live runs: these belonged to an earlier start, or to the parent of a fork."""
        heir = LocalRuns(self._kept)
        heir.suspended = dict(self.suspended)
        heir._history.extend(self._history)
        heir._dead.update(self._dead)
        for run in [entry[2] for entry in self._pending] + [run for held in self._held.values() for run in held]:
            heir.add_pending(run)
        heir._fences = itertools.count(self.next_fence())
        return heir

    def next_fence(self) -> int:
        """Return a number above every one returned before."""
        return next(self._fences)

    def live_count(self, job_id: str) -> int:
        """Return how many runs of a job an owner has."""
        return self._live_of_job.get(job_id, 0)

    def live(self, job_id: str | None = None) -> list[Run]:
        """Return the runs that an owner has."""
        if job_id is not None and job_id not in self._live_of_job:
            return []
        with self.lock:
            return [run for run in self._live.values() if job_id is None or run.job.id == job_id]

    def history(self, job_id: str | None, limit: int) -> list[Attempt]:
        """Return finished attempts, newest first."""
        with self.lock:
            newest_first = reversed(self._history)
            wanted = (a for a in newest_first if job_id is None or a.run.job.id == job_id)
            return list(itertools.islice(wanted, limit))

    def fired(self, started: Iterable[Run], waiting: Iterable[Run], records: Iterable[Attempt]) -> None:
        """Take what one firing has produced."""
        with self.lock:
            for run in started:
                self._take(run)
            for run in waiting:
                self.add_pending(run)
            self._history.extend(records)

    def add_pending(self, run: Run) -> None:
        """Take a run that waits for its due time and an owner."""
        with self.lock:
            heapq.heappush(self._pending, (instant(run.due_at), next(self._order), run))

    def claim(
        self, now: datetime, owner: str, room: Mapping[str, int], admit: Callable[[Run, int], bool]
    ) -> tuple[list[Run], datetime | None, bool]:
        """Hand due pending runs to ``owner``. Return them, when the next comes due, and whether any was left."""
        if not self._pending and not self._held:
            return [], None, False
        with self.lock:
            runs: list[Run] = []
            no_room: list[tuple[int, int, Run]] = []
            left = dict(room)
            due = instant(now)
            while self._pending and self._pending[0][0] <= due:
                entry = heapq.heappop(self._pending)
                run = entry[2]
                if left.get(run.job.executor, 0) <= 0:
                    no_room.append(entry)
                elif not admit(run, self.live_count(run.job.id)):
                    self._held.setdefault(run.job.id, deque()).append(run)
                else:
                    left[run.job.executor] -= 1
                    runs.append(claimed(run, owner, max(run.fence + 1, self.next_fence())))
                    self._take(runs[-1])
            next_due = self._pending[0][2].due_at if self._pending else None
            for entry in no_room:
                heapq.heappush(self._pending, entry)
            return runs, next_due, bool(no_room or self._held)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Write ends of runs. Return the refused ones: their run is not live any more, or has a newer fence."""
        refused: list[Settlement] = []
        with self.lock:
            for settlement in settlements:
                run = settlement.attempt.run
                current = self._live.get(run.id)
                if current is None or current.fence != run.fence:
                    refused.append(settlement)
                    continue
                self._let_go(run)
                self._history.append(recorded(settlement.attempt))
                if settlement.dead is not None:
                    self._bury(DeadLetter(recorded(settlement.attempt), settlement.dead))
                if settlement.follow_up is not None:
                    self.add_pending(settlement.follow_up)
        return refused

    def _bury(self, letter: DeadLetter) -> None:
        self._dead[letter.attempt.run.id] = letter
        if len(self._dead) > max(1, self._kept):
            del self._dead[next(iter(self._dead))]

    def dead_letters(self, job_id: str | None, limit: int) -> list[DeadLetter]:
        """Return dead letters, newest first."""
        with self.lock:
            newest_first = reversed(self._dead.values())
            wanted = (letter for letter in newest_first if job_id is None or letter.attempt.run.job.id == job_id)
            return list(itertools.islice(wanted, limit))

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
        if not self._pending and not self._held:
            return False
        with self.lock:
            before = len(self._pending) + len(self._held)
            kept = [entry for entry in self._pending if job_id is not None and entry[2].job.id != job_id]
            heapq.heapify(kept)
            self._pending = kept
            self._held = {key: runs for key, runs in self._held.items() if job_id is not None and key != job_id}
            return len(self._pending) + len(self._held) < before

    def renew_owner(self, owner: str, now: datetime, lease: timedelta) -> bool:
        """Note that ``owner`` lives until ``now + lease``; false if it had lapsed before."""
        with self.lock:
            known = self._leases.get(owner)
            alive = known is None or known > now
            self._leases[owner] = now + lease
            return alive

    def retire_owner(self, owner: str) -> None:
        """Forget ``owner``, making pending what it still has."""
        with self.lock:
            self._leases.pop(owner, None)
            self._hand_on(run for run in list(self._live.values()) if run.owner == owner)

    def recover(self, now: datetime) -> list[Run]:
        """Make pending the runs of all owners whose lease has lapsed."""
        with self.lock:
            lapsed = {owner for owner, until in self._leases.items() if until <= now}
            return self._hand_on(run for run in list(self._live.values()) if run.owner in lapsed)

    def _hand_on(self, runs: Iterable[Run]) -> list[Run]:
        handed_on = []
        for run in runs:
            self._let_go(run)
            handed_on.append(recovered(run))
            self.add_pending(handed_on[-1])
        return handed_on

    def _take(self, run: Run) -> None:
        self._live[run.id] = run
        job_id = run.job.id
        self._live_of_job[job_id] = self._live_of_job.get(job_id, 0) + 1

    def _let_go(self, run: Run) -> None:
        del self._live[run.id]
        job_id = run.job.id
        remaining = self._live_of_job[job_id] - 1
        if remaining:
            self._live_of_job[job_id] = remaining
        else:
            del self._live_of_job[job_id]
        if self._held:
            self._let_one_of_the_held_try_again(job_id)

    def _let_one_of_the_held_try_again(self, job_id: str) -> None:
        held = self._held.get(job_id)
        if held is not None:
            self.add_pending(held.popleft())
            if not held:
                del self._held[job_id]
