"""Accounts of what happened, kept beside the store, and the rules that they are held against while a simulation runs.

The book knows which run is handed to whom, whose lease holds, which function runs where, and what people were told. It
believes nothing that the package says of itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Owner, Run, Settlement

_FAILURES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)


#: Defects of the package that are known. A simulation that meets one goes on, so that it can find others.
KNOWN = {"run_now of a job whose id is taken anew"}


class Violation(AssertionError):
    """Something happened that must not."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


@dataclass
class HandOut:
    """A run in the hands of an owner."""

    run: Run
    at: float
    ended: OutcomeKind | None = None
    """How the store says it ended; None while it is live."""
    started: float | None = None
    body: str = ""
    """What the function did: "", "running", "succeeded", "failed", "cancelled" or "snoozed"."""
    given_up: bool = False
    """Whether its executor waits for it no more."""


@dataclass
class Chain:
    """All that became of one run."""

    outs: list[HandOut] = field(default_factory=list)
    ends: list[Attempt] = field(default_factory=list)
    cancel_requests: set[str] = field(default_factory=set)
    over: str = ""
    """Why nothing more comes of it."""
    redriven: int = 0
    extra: int = 0
    """Attempts that somebody gave it after an end that does not count as one."""
    removed: bool = False
    """Whether its job was removed while it was live."""


class Book:
    """The accounts of one simulation."""

    def __init__(self, now: Callable[[], float], store_now: Callable[[], datetime]) -> None:
        self._now = now
        self._store_now = store_now
        self.chains: dict[str, Chain] = defaultdict(Chain)
        self.live: dict[str, HandOut] = {}
        self.fence: dict[str, int] = {}
        self.leases: dict[str, datetime] = {}
        self.owners: dict[str, Any] = {}
        """Owner → the life that it belongs to."""
        self.given_up: set[str] = set()
        self.excused: Callable[[str], bool] = lambda owner: True
        """Tells whether there is a reason for which an owner could lose its lease."""
        self.times: dict[tuple[str, int], Counter[datetime]] = defaultdict(Counter)
        """Job and generation → fire time → how often it was fired."""
        self.accounted: Counter[tuple[str, int]] = Counter()
        """Job and generation → fire times that became runs or records."""
        self.first: dict[tuple[str, int], datetime] = {}
        """Job and generation → its first fire time, as it was added."""
        self.removed: dict[tuple[str, int], float] = {}
        """Job and generation → when ``remove_job`` returned."""
        self.outdated: set[str] = set()
        """Runs that were asked for of a job that was gone, and whose id another one had by then."""
        self.rewound: set[str] = set()
        """Jobs that were resumed by a process whose clock is not ahead: they may get a time again that they had."""
        self.starts = 0
        self.refusals = 0
        self.repeats: Counter[str] = Counter()

    # What the store does

    def added(self, job: Job) -> None:
        if job.next_run_time is not None:
            self.first[job.id, job.args[1]] = job.next_run_time

    def asked_for(self, run: Run, present: Job | None) -> None:
        if present is not None and present.args != run.job.args:
            self.outdated.add(run.id)

    def forgotten(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.chains[run.id].removed = True

    def fired(self, started: Sequence[Run], waiting: Sequence[Run], records: Iterable[Attempt]) -> None:
        for run in (*started, *waiting):
            self._account(run, 1 + run.coalesced)
        for record in records:
            self._account(record.run, record.fire_times)

    def _account(self, run: Run, count: int) -> None:
        key = generation(run)
        self.times[key][run.scheduled_at] += 1
        if self.times[key][run.scheduled_at] > 1 and run.job.id not in self.rewound:
            raise Violation("fired twice", f"{run.job.id} at {run.scheduled_at}")
        self.accounted[key] += count

    def handed_out(self, run: Run) -> None:
        if run.id in self.live:
            raise Violation("handed out twice", f"{_name(run)} is live with {self.live[run.id].run.owner}")
        if run.fence <= self.fence.get(run.id, 0):
            raise Violation("fence does not grow", _name(run))
        self.fence[run.id] = run.fence
        self._check_room(run)
        out = self.live[run.id] = HandOut(run, self._now())
        chain = self.chains[run.id]
        self._check_attempt(chain, run)
        chain.outs.append(out)

    def _check_room(self, run: Run) -> None:
        options = run.job.options
        others = [out.run for out in self.live.values()]
        same = sum(other.job.id == run.job.id for other in others)
        if options.overlap != "allow" and same >= options.max_instances:
            raise Violation("more instances than allowed", f"{_name(run)}: {same} are live")
        for limit in options.limits:
            under = sum(any(each.name == limit.name for each in other.job.options.limits) for other in others)
            if limit.concurrency is not None and under >= limit.concurrency:
                raise Violation("more than a limit allows", f"{_name(run)} under {limit.name}: {under} are live")

    def _check_attempt(self, chain: Chain, run: Run) -> None:
        """The number of an attempt is one more than the failures that came before."""
        expected = 1 + chain.extra + sum(map(counts_as_attempt, chain.ends))
        if run.attempt != expected:
            raise Violation("attempts counted wrongly", f"{_name(run)}: {expected} were to be expected")

    def settled(self, settlement: Settlement, accepted: bool) -> None:
        run, kind = settlement.attempt.run, settlement.attempt.outcome.kind
        out = self.live.get(run.id)
        current = out is not None and out.run.fence == run.fence
        if accepted != current:
            raise Violation("stale end accepted" if accepted else "end refused", f"{_name(run)} {kind.value}")
        if not accepted:
            self.refusals += 1
            return
        assert out is not None
        if kind is not OutcomeKind.LOST:
            self._check_truth(out, kind)
        out.ended = kind
        del self.live[run.id]
        chain = self.chains[run.id]
        chain.ends.append(settlement.attempt)
        chain.over = "" if settlement.follow_up is not None else "ended"

    def _check_truth(self, out: HandOut, kind: OutcomeKind) -> None:
        """What an owner says of a run is what its function did."""
        if out.body == "running" and not out.given_up:
            raise Violation("ended while it runs", f"{_name(out.run)} {kind.value}")
        if kind is OutcomeKind.SUCCEEDED and out.body != "succeeded":
            raise Violation("says that it succeeded", f"{_name(out.run)}: {out.body or 'not started'}")
        if kind is OutcomeKind.FAILED and out.body != "failed":
            raise Violation("says that it failed", f"{_name(out.run)}: {out.body or 'not started'}")
        if kind is OutcomeKind.SNOOZED and out.body in ("succeeded", "failed"):
            raise Violation("says that it was not started", f"{_name(out.run)}: {out.body}")

    def recovering(self, lost: Sequence[Run], now: datetime) -> None:
        for owner in {run.owner or "" for run in lost}:
            until = self.leases.get(owner)
            if until is not None and until > now:
                raise Violation("given up although its lease holds", owner[-4:])
            if not self.excused(owner):
                raise Violation("lease lapsed without a reason", owner[-4:])
        self.given_up |= {owner for owner, until in self.leases.items() if until <= now}

    def renewed(self, owner: Owner, until: datetime, alive: bool) -> None:
        if alive and owner.id in self.given_up:
            raise Violation("lease renewed of somebody who was given up", owner.id[-4:])
        if alive:
            self.leases[owner.id] = until

    def retired(self, runs: Sequence[Run]) -> None:
        for run in runs:
            out = self.live.pop(run.id)
            if out.body == "running":
                raise Violation("retired while it runs", _name(run))
            out.ended = OutcomeKind.SNOOZED
            if out.body:
                raise Violation("retired without the end of a run", f"{_name(run)}: {out.body}")

    def redriven(self, run_id: str) -> None:
        chain = self.chains[run_id]
        chain.redriven += 1
        chain.extra += not counts_as_attempt(chain.ends[-1])
        chain.over = ""

    def told_to_end(self, run: Run, reason: str) -> None:
        chain = self.chains[run.id]
        chain.cancel_requests.add(reason)
        if run.owner is None:
            chain.over = "cancelled"

    def dropped(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.chains[run.id].over = "dropped"

    # What processes and people do

    def started(self, life: Any, run_id: str, fence: int) -> HandOut:
        """Note that a function is called."""
        self.starts += 1
        out = next(out for out in self.chains[run_id].outs if out.run.fence == fence)
        name = f"{_name(out.run)} in {life.name}"
        if out.started is not None:
            raise Violation("started twice", name)
        if self.live.get(run_id) is not out:
            raise Violation("started although it is not theirs", name)
        if self.leases[out.run.owner or ""] <= self._store_now():
            raise Violation("started without a lease", name)
        returned = self.removed.get(generation(out.run))
        known = run_id in self.outdated and "run_now of a job whose id is taken anew" in KNOWN
        if returned is not None and not known and not self.chains[run_id].redriven:  # who redrives it wants it run
            raise Violation("started after its removal", f"{name}: remove_job returned at {returned:.3f}")
        before = [other for other in self.chains[run_id].outs if other is not out and other.started is not None]
        for other in before:
            self._check_repeat(other, out)
        out.started, out.body = self._now(), "running"
        return out

    def _check_repeat(self, before: HandOut, out: HandOut) -> None:
        if before.ended is OutcomeKind.LOST:
            self.repeats["lost"] += 1
        elif before.ended in _FAILURES and out.run.attempt > before.run.attempt:
            self.repeats["retry"] += 1
        elif before.ended is OutcomeKind.SNOOZED and before.body == "snoozed":
            self.repeats["snooze"] += 1
        elif not (self.chains[out.run.id].redriven and out.run.attempt > before.run.attempt):
            raise Violation("repeated without a reason", f"{_name(out.run)}: it ended before as {before.ended}")

    def removal_returned(self, key: tuple[str, int]) -> None:
        self.removed.setdefault(key, self._now())


def counts_as_attempt(attempt: Attempt) -> bool:
    """Tell whether a retry after this end has a higher number."""
    kind, job = attempt.outcome.kind, attempt.run.job
    return kind in _FAILURES or (kind is OutcomeKind.LOST and job.on_crash == "fail")


def generation(run: Run) -> tuple[str, int]:
    """Return which of the jobs that had the same id one after the other a run is of."""
    return run.job.id, run.job.args[1]


def _name(run: Run) -> str:
    return f"{run.job.id} {run.id[-3:]}/{run.fence} try {run.attempt}"


