"""What the life of jobs and runs should be, in a few lines of arithmetic. Needs nothing but numbers.

Time is in whole seconds from the start of a test. Jobs fire at intervals and coalesce, or once. Which of several
waiting runs is taken first is the store's choice: the expectation adopts it, having checked that it was allowed to
start and that nothing was left waiting that could have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from goscheduler.runs.model import OutcomeKind, Run
from goscheduler.runs.plan import rank
from goscheduler.runs.retry import GiveUp, Retry, RetryLater, Snooze, fixed

#: How long a run goes on after it was told to end.
GRACE = 3
_FAILURES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)


@dataclass
class Terms:
    """The options of a job that decide about its runs."""

    max_instances: int = 1
    overlap: str = "skip"
    attempts: int = 1
    delay: int = 5
    timeout: int | None = None
    on_crash: str = "rerun"
    max_crashes: int = 3
    priority: int = 5

    def as_options(self) -> dict[str, Any]:
        """Return the same as ``add_job`` and ``modify_job`` take them."""
        return {
            "max_instances": self.max_instances, "overlap": self.overlap, "timeout": self.timeout,
            "retry": Retry(self.attempts, fixed(self.delay)), "on_crash": self.on_crash, "priority": self.priority,
            "max_crashes": self.max_crashes,
        }  # fmt: skip

    @property
    def most(self) -> float:
        """How many runs may be live."""
        return float("inf") if self.overlap == "allow" else self.max_instances


@dataclass(eq=False)
class ExpectedJob:
    """A job that fires every ``period`` seconds, or once."""

    terms: Terms
    period: int | None
    anchor: int
    next: int | None

    def first_from(self, now: int) -> int:
        """Return its first fire time that is not before ``now``; the only one, however late, if it fires once."""
        if self.period is None:
            return self.anchor
        return self.anchor + max(0, -((self.anchor - now) // self.period)) * self.period


@dataclass(eq=False)
class ExpectedRun:
    """A run that is pending (it has no host), live or a dead letter."""

    job_id: str
    terms: Terms
    scheduled: int
    due: int
    id: str = ""
    host: str | None = None
    fence: int = 0
    attempt: int = 1
    crashes: int = 0
    firing: bool = True
    """Whether it stands for a fire time of its own, and is not another attempt or one that somebody asked for."""
    deadline: int | None = None
    told: tuple[OutcomeKind, int] | None = None
    """How it is to end, and when its scheduler waits no longer for that."""
    to_be_told: bool = False
    revoked: str | None = None
    """The host by which its job was removed while it was live, so that nothing follows it."""

    @property
    def facts(self) -> tuple[object, ...]:
        """What a store has to know of it."""
        return self.job_id, self.scheduled, self.due, self.attempt, self.crashes


@dataclass
class Expectation:
    """Everything that a store should hold."""

    shares_jobs: bool
    """Whether a change of a job reaches its runs: where jobs are kept as objects."""
    now: int = 0
    jobs: dict[str, ExpectedJob] = field(default_factory=dict)
    runs: list[ExpectedRun] = field(default_factory=list)
    letters: list[ExpectedRun] = field(default_factory=list)
    records: Counter[tuple[object, ...]] = field(default_factory=Counter)
    """(job, fire time, attempt, outcome) → how many."""
    seen: dict[str, int] = field(default_factory=dict)
    """Run id → its highest fence so far."""
    gone: set[str] = field(default_factory=set)
    """Runs that somebody threw away before they had ended."""
    reshaped: set[str] = field(default_factory=set)
    """Jobs of which more or fewer runs may be live than once."""

    def live(self, job_id: str | None = None, host: str | None = None) -> list[ExpectedRun]:
        """Return the runs that a host has."""
        return [
            run for run in self.runs
            if run.host is not None and job_id in (None, run.job_id) and host in (None, run.host)
        ]  # fmt: skip

    def pending(self, job_id: str | None = None) -> list[ExpectedRun]:
        """Return the runs that nobody has."""
        return [run for run in self.runs if run.host is None and job_id in (None, run.job_id)]

    # What people do

    def schedule(self, job_id: str, period: int, terms: Terms, once: bool = False) -> None:
        """A job is added, or gets another trigger and with that a new next time."""
        first = self.now + period
        self.jobs[job_id] = ExpectedJob(terms, None if once else period, first, first)
        if any(run.terms.most != terms.most for run in [*self.runs, *self.letters] if run.job_id == job_id):
            self.reshaped.add(job_id)  # runs of an earlier job of this id are left

    def change(self, job_id: str, **changes: Any) -> None:
        """Options of a job are changed."""
        job = self.jobs[job_id]
        if self.shares_jobs:
            vars(job.terms).update(changes)
        else:
            job.terms = replace(job.terms, **changes)
        if {"max_instances", "overlap"} & set(changes):
            self.reshaped.add(job_id)

    def remove(self, job_id: str, by: str) -> None:
        """A job goes, with what waits of it; what is live goes on, and nothing follows it."""
        self.jobs.pop(job_id, None)
        self.gone.update(run.id for run in self.pending(job_id))
        self.runs = self.live() + [run for run in self.pending() if run.job_id != job_id]
        for run in self.live(job_id):
            run.revoked = run.host if run.host == by else run.revoked or by

    def ask_for(self, job_id: str, run_id: str) -> None:
        """A run is wanted at once, beside the schedule."""
        run = self._expect(job_id, self.now)
        run.id, run.firing = run_id, False

    def cancel(self, run: ExpectedRun, by: str) -> None:
        """A run is cancelled: at once if it is pending, else its host is told."""
        if run.host is None:
            self.runs.remove(run)
            self._record(run, OutcomeKind.CANCELLED)
        else:
            run.to_be_told = True
            if run.host == by:
                self._tell_one(run)

    def redrive(self, letter: ExpectedRun) -> None:
        """A dead letter gets one more attempt."""
        self.letters.remove(letter)
        self._wait(letter, self.now, attempt=letter.attempt + 1, firing=False)

    def discard(self, letter: ExpectedRun) -> None:
        """A dead letter is thrown away."""
        self.letters.remove(letter)
        self.gone.add(letter.id)

    # What happens in a round

    def claim(self, host: str, live: set[str]) -> None:
        """What is due and was left waiting for others goes first, as far as the store has chosen it, in its order."""
        for run in sorted(self.pending(), key=lambda run: rank(run.due * 1_000_000, run.terms.priority)):
            if run.id in live and run.due <= self.now and len(self.live(run.job_id)) < run.terms.most:
                self._start(run, host)

    def fire(self, host: str) -> None:
        """All jobs that are due fire, each for the newest of its times; one that fires once is gone then."""
        for job_id, job in list(self.jobs.items()):
            if job.next is None or job.next > self.now:
                continue
            if job.period is None:
                self._fire_one(job_id, job.terms, job.next, host)
                del self.jobs[job_id]
                continue
            newest = job.next + (self.now - job.next) // job.period * job.period
            job.next = newest + job.period
            self._fire_one(job_id, job.terms, newest, host)

    def _fire_one(self, job_id: str, terms: Terms, time: int, host: str) -> None:
        live, waiting = self.live(job_id), any(run.firing for run in self.pending(job_id))
        if len(live) < terms.most and not (waiting and terms.overlap == "queue"):
            self._start(self._expect(job_id, time), host)
        elif terms.overlap == "queue" or (terms.overlap == "cancel_running" and not waiting):
            self._expect(job_id, time)
        else:
            self.records[job_id, time, 1, OutcomeKind.SKIPPED] += 1
        if terms.overlap == "cancel_running" and len(live) >= terms.most:
            for run in live:
                run.to_be_told = True

    def tell(self, host: str) -> None:
        """A host hears which of its runs are to end, and which are of a job that somebody else has removed."""
        for run in self.live(host=host):
            if run.to_be_told:
                self._tell_one(run)
            if run.revoked:
                run.revoked = host

    def _tell_one(self, run: ExpectedRun) -> None:
        run.told = run.told or (OutcomeKind.CANCELLED, self.now + GRACE)

    def end_overdue(self, host: str) -> None:
        """Runs whose time is over are told so; those that were told in vain are given up."""
        for run in self.live(host=host):
            if run.told is None and run.deadline is not None and run.deadline <= self.now:
                run.told = (OutcomeKind.TIMED_OUT, self.now + GRACE)
            elif run.told is not None and run.told[1] <= self.now:
                self.end(run, run.told[0])

    def adopt(self, host: str | None, live: list[Run], pending: list[Run], seconds: Any) -> None:
        """Learn the ids of new runs, and which pending runs ``host`` has claimed; None if nobody may have claimed."""
        known = {run.id: run for run in self.runs if run.id}
        for found in [*live, *pending]:
            if found.id not in known:
                known[found.id] = self._identified(found, seconds(found.scheduled_at))
        claimed = [(known[found.id], found.fence) for found in live if known[found.id].host is None]
        assert host is not None or not claimed, "runs were claimed by somebody who may not claim"
        self._check_room(claimed)
        for run, _ in claimed:
            assert run.due <= self.now, "claimed before it is due"
            self._start(run, host or "")
        for found in live:
            self._check_fence(known[found.id], found.fence)
        if host is not None:
            self._check_nothing_waits_in_vain()

    def _identified(self, found: Run, scheduled: int) -> ExpectedRun:
        host = found.owner is not None
        fitting = [run for run in self.runs if not run.id and (run.job_id, run.scheduled) == (found.job.id, scheduled)]
        assert fitting, f"nobody expected {found}"
        assert host or fitting[0].host is None, f"{found} should have started"
        fitting[0].id = found.id
        return fitting[0]

    def _check_room(self, claimed: list[tuple[ExpectedRun, int]]) -> None:
        for job_id in {run.job_id for run, _ in claimed}:
            count = len(self.live(job_id))
            for most in sorted(run.terms.most for run, _ in claimed if run.job_id == job_id):
                assert count < most, f"more runs of {job_id} than may be live"
                count += 1

    def _check_fence(self, run: ExpectedRun, fence: int) -> None:
        if fence != run.fence:
            assert fence > self.seen.get(run.id, 0), f"the fence of {run} went down to {fence}"
            run.fence = self.seen[run.id] = fence

    def _check_nothing_waits_in_vain(self) -> None:
        for run in self.pending():
            busy = len(self.live(run.job_id))
            enough = busy >= run.terms.most or (busy and run.job_id in self.reshaped)
            assert run.due > self.now or enough, f"{run} waits for nothing"

    # How runs end

    def end(self, run: ExpectedRun, kind: OutcomeKind, error: BaseException | None = None) -> None:
        """A live run ends, or its owner is lost with it."""
        if run.told is not None and kind is not OutcomeKind.SUCCEEDED and kind is not OutcomeKind.LOST:
            kind = run.told[0]
        if run.revoked == run.host and kind is OutcomeKind.SNOOZED:
            kind = OutcomeKind.CANCELLED
        self.runs.remove(run)
        self._record(run, kind)
        if kind is OutcomeKind.SNOOZED:
            self._wait(run, self.now + int(error.seconds) if isinstance(error, Snooze) else run.due)
        elif kind in _FAILURES or (kind is OutcomeKind.LOST and run.terms.on_crash == "fail"):
            self._after_failure(run, error)
        elif kind is OutcomeKind.LOST:
            self._after_crash(run)

    def lose(self, host: str) -> None:
        """The lease of a host has lapsed."""
        for run in self.live(host=host):
            self.end(run, OutcomeKind.LOST)

    def _after_failure(self, run: ExpectedRun, error: BaseException | None) -> None:
        if isinstance(error, GiveUp) or run.attempt >= run.terms.attempts:
            self._bury(run)
        else:
            delay = int(error.seconds) if isinstance(error, RetryLater) else run.terms.delay
            self._wait(run, self.now + delay, attempt=run.attempt + 1, firing=False)

    def _after_crash(self, run: ExpectedRun) -> None:
        if run.terms.on_crash == "dead" or run.crashes + 1 >= run.terms.max_crashes:
            self._bury(run)
        else:
            self._wait(run, run.due, crashes=run.crashes + 1, firing=False)

    def _bury(self, run: ExpectedRun) -> None:
        self.letters.append(replace(run, revoked=None, to_be_told=False))

    def _wait(self, run: ExpectedRun, due: int, **changes: int) -> None:
        if run.revoked or run.to_be_told:
            self.gone.add(run.id)
            return
        idle = replace(run, host=None, due=due, deadline=None, told=None)
        vars(idle).update(changes)
        self.runs.append(idle)

    def _expect(self, job_id: str, time: int) -> ExpectedRun:
        terms = self.jobs[job_id].terms
        run = ExpectedRun(job_id, terms if self.shares_jobs else replace(terms), time, time)
        self.runs.append(run)
        return run

    def _start(self, run: ExpectedRun, host: str) -> None:
        run.host = host
        run.deadline = None if run.terms.timeout is None else self.now + run.terms.timeout

    def _record(self, run: ExpectedRun, kind: OutcomeKind) -> None:
        self.records[run.job_id, run.scheduled, run.attempt, kind] += 1
