"""Limits in a store, against a model: schedulers that come in between each other. Needs hypothesis.

It takes the machine by which a store is put under :mod:`goscheduler.testing.model`, and makes another test of it::

    TestLimitsInMyStore = limits_against_the_model(MyMachine)

Jobs share limits, which bind. A store that asks whether something may start while it holds nothing, and writes the
answer only if nobody else has changed what that was based on, says so by ``decides_apart = True`` in its machine: then
one scheduler does something in the middle of a round of another, at the moment when that is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.executors.call import failed
from goscheduler.jobstores.base import BaseJobStore, Claimed, Fired, FireRequest
from goscheduler.runs.limits import BUCKETS, Limit
from goscheduler.runs.model import Outcome, OutcomeKind, Run
from goscheduler.runs.retry import Retry, Snooze, fixed
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.hosts import LEASE, Host, Troubles, start_host
from goscheduler.testing.model import EVERYTHING, StoreMachine, against_the_model, nothing

T = TypeVar("T")

JOBS = "abcdef"
WINDOW = 10
ONE, TWO = Limit("one", concurrency=1), Limit("two", concurrency=2)
RATE = Limit("rate", rate=f"2/{WINDOW}s")
BOTH = Limit("both", concurrency=1, rate=f"3/{WINDOW}s")
#: For how long a rate keeps a run waiting that nobody else wants to start before: a window, and one part of it.
LONGEST_WAIT = WINDOW + WINDOW / BUCKETS
#: How often a scheduler is lost in one example.
MOST_CRASHES = 3
#: How runs end for good, other than by becoming dead letters: every job has retries, so a failure is not the end.
_LAST = {OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED}

IDS = st.sampled_from(JOBS)
PICKS = st.integers(0, 11)
PERIODS = st.integers(1, 10)
LIMITS = st.sampled_from([(), (ONE,), (TWO,), (TWO,), (RATE,), (BOTH,), (ONE, TWO), (TWO, RATE)])
OPTIONS = st.fixed_dictionaries({
    "limits": LIMITS,
    "max_instances": st.integers(1, 2),
    "overlap": st.sampled_from(["skip", "queue", "allow"]),
    "retry": st.sampled_from([Retry(3, fixed(0)), Retry(2, fixed(5))]),
    "priority": st.sampled_from([5, 5, 3]),
})  # fmt: skip


class LimitsMachine(RuleBasedStateMachine):
    """Made by :func:`limits_against_the_model`."""

    machine: type[StoreMachine]

    @initialize(period=PERIODS, options=st.lists(OPTIONS, max_size=len(JOBS)))
    def begin(self, period: int = 1, options: Sequence[dict[str, Any]] = ()) -> None:
        self.clock = ManualClock()
        self.maker = self.machine()
        self.store = self.maker.make_store()
        self.hosts: list[Host] = []
        self.crashes = 0
        self.troubles = Troubles()
        self.interruption = Interruption()
        self.known: set[str] = set()
        """Ids of runs that were seen."""
        self.gone: set[str] = set()
        """Ids of runs that have ended for good, or were thrown away with their jobs."""
        self.starts: dict[tuple[str, int], tuple[datetime, Run]] = {}
        """What was started, by run id and fence."""
        self._add_host(self.store)
        if self.store.shared:
            self._join()
        self.add_some(0, period, options)

    def teardown(self) -> None:
        for host in getattr(self, "hosts", ()):
            host.scheduler.shutdown()
        if hasattr(self, "maker"):
            self.maker.teardown()

    def _join(self) -> None:
        peer = self.maker.make_peer(self.store)
        assert peer is not None, "a shared store needs make_peer"
        self._add_host(peer)

    def _add_host(self, store: BaseJobStore) -> None:
        self.interruption.watch(store)
        name = f"host {len(self.hosts) + self.crashes}"
        self.hosts.append(start_host(name, store, self.clock, self.troubles))

    # Jobs

    @rule(who=PICKS, job_id=IDS, period=PERIODS, once=st.booleans(), options=OPTIONS)
    def add(self, who: int, job_id: str, period: int, once: bool, options: dict[str, Any]) -> None:
        self._add(self._host(who), job_id, period, once, options)

    @rule(who=PICKS, period=PERIODS, options=st.lists(OPTIONS, min_size=2, max_size=len(JOBS)))
    def add_some(self, who: int, period: int, options: Sequence[dict[str, Any]]) -> None:
        """Jobs that are due at the same moments."""
        for job_id, each in zip(JOBS, options, strict=False):
            self._add(self._host(who), job_id, period, False, each)

    def _add(self, host: Host, job_id: str, period: int, once: bool, options: dict[str, Any]) -> None:
        trigger: dict[str, Any] = {"trigger": "interval", "seconds": period}
        if once:
            trigger = {"trigger": "date", "run_date": self.clock.now() + timedelta(seconds=period)}
        try:
            host.scheduler.add_job(nothing, id=job_id, misfire_grace_time=None, **trigger, **options)
        except ConflictingIdError:
            assert self.store.lookup_job(job_id) is not None

    @rule(who=PICKS, job_id=IDS)
    def remove(self, who: int, job_id: str) -> None:
        going = {run.id for run in [*self.store.live_runs(job_id), *self.store.pending_runs(job_id)]}
        try:
            self._host(who).scheduler.remove_job(job_id)
        except JobLookupError:
            assert self.store.lookup_job(job_id) is None
        else:
            self.gone |= going  # what is live may end as it likes

    @rule(who=PICKS, jobs=st.lists(IDS, min_size=1, max_size=4))
    def run_now(self, who: int, jobs: Sequence[str]) -> None:
        self._ask_for(self._host(who), jobs)

    def _ask_for(self, host: Host, jobs: Sequence[str]) -> None:
        for job_id in jobs:
            if self.store.lookup_job(job_id) is not None:
                host.scheduler.run_now(job_id)

    # Rounds

    @rule(who=PICKS)
    def round(self, who: int) -> None:
        self._round(self._host(who))

    @rule(who=PICKS, seconds=st.integers(1, LEASE // 4))
    def let_time_pass(self, who: int, seconds: int) -> None:
        self.clock.advance(seconds)
        for host in self.hosts[:: 1 if who % 2 else -1]:
            self._round(host)

    @rule(who=PICKS, call=st.integers(0, 3), ends=st.booleans(), jobs=st.lists(IDS, max_size=3))
    @precondition(lambda self: self.maker.decides_apart and len(self.hosts) > 1)
    def come_between(self, who: int, call: int, ends: bool, jobs: Sequence[str]) -> None:
        """While a scheduler decides what may start of the jobs that are due next, another one does a whole round.

        Before that, what it has may end, and runs may be asked for.
        """
        host, other = self.hosts[:: 1 if who % 2 else -1]
        times = [job.next_run_time for job in self.store.get_all_jobs() if job.next_run_time is not None]
        if times:
            self.clock.advance(max(timedelta(0), min(times) - self.clock.now()))

        def act() -> None:
            for run in _in_order(other.executor.held.values()) if ends else ():
                self._end(other, run, Outcome(OutcomeKind.SUCCEEDED, started_at=self.clock.now()))
            self._ask_for(other, jobs)
            self._do_round(other)

        self.interruption.plan(host.store, call, act)
        self._do_round(host)
        self.interruption.forget()
        for each in (host, other):  # what one has left because the other was quicker
            self._round(each)

    @rule(who=PICKS, limits=st.permutations([TWO, ONE, TWO]), call=st.integers(0, 2))
    @precondition(lambda self: self.maker.decides_apart and len(self.hosts) > 1)
    def refuse_some(self, who: int, limits: Sequence[Limit], call: int) -> None:
        """Of jobs that are due together some are refused, because another scheduler has started a run meanwhile."""
        for host, run in self._held():
            self._end(host, run, Outcome(OutcomeKind.SUCCEEDED, started_at=self.clock.now()))
        for job in self.store.get_all_jobs():
            self.remove(who, job.id)
        options = {"max_instances": 2, "retry": Retry(3, fixed(0))}
        self.add_some(who, 5, [{**options, "limits": limit} for limit in limits])
        self.come_between(who, call, False, [JOBS[limits.index(TWO)]])
        self.let_time_pass(who, 5)

    def _round(self, host: Host) -> list[Run]:
        """Have a scheduler do everything that it may, and return what waits; only what has to."""
        self._do_round(host)
        now = self.clock.now()
        due = [job for job in self.store.get_all_jobs() if job.next_run_time is not None and job.next_run_time <= now]
        assert not due, f"{due} are due, and were not fired"
        live = self.store.live_runs()
        of_job, under = Counter(run.job.id for run in live), _under(live)
        pending = self.store.pending_runs()
        for run in pending:
            busy = run.job.overlap != "allow" and of_job[run.job.id] >= run.job.max_instances
            full = any(limit.concurrency and under[limit.name] >= limit.concurrency for limit in run.job.limits)
            assert run.due_at > now or busy or full, f"{run} waits for nothing"
        return pending

    def _do_round(self, host: Host) -> None:
        host.scheduler.run_due()
        for error in self.troubles.errors:
            raise error
        for run in host.executor.held.values():
            self.starts.setdefault((run.id, run.fence), (self.clock.now(), run))

    # Ends

    @rule(pick=PICKS, how=st.sampled_from(["well", "well", "badly", "later", "soon"]))
    @precondition(lambda self: self._held())
    def end(self, pick: int, how: str) -> None:
        host, run = _one(self._held(), pick)
        now = self.clock.now()
        outcomes = {
            "well": Outcome(OutcomeKind.SUCCEEDED, started_at=now), "badly": failed(ValueError("no"), now),
            "later": failed(Snooze(7), now), "soon": failed(Snooze(0), now),
        }  # fmt: skip
        self._end(host, run, outcomes[how])
        self._round(host)

    def _end(self, host: Host, run: Run, outcome: Outcome) -> None:
        host.executor.end(run, outcome)
        host.scheduler.engine.settler.settle_reported()

    @rule(who=PICKS, pick=PICKS)
    @precondition(lambda self: self.store.pending_runs())
    def cancel(self, who: int, pick: int) -> None:
        run = _one(_in_order(self.store.pending_runs()), pick)
        assert self._host(who).scheduler.cancel_run(run.id)

    @rule(who=PICKS)
    @precondition(lambda self: len(self.hosts) > 1 and self.crashes < MOST_CRASHES)
    def crash(self, who: int) -> None:
        """A scheduler is heard of no more; another one comes in its stead."""
        victim, survivor = self.hosts[:: 1 if who % 2 else -1]
        self.hosts.remove(victim)
        self.crashes += 1
        victim.store.shutdown()
        self.store = survivor.store
        self.clock.advance(LEASE)
        self._round(survivor)
        self._join()

    @rule(who=PICKS)
    def let_everything_end(self, who: int) -> None:
        """Whatever waits has its turn when runs end, time passes, and no job fires that might be quicker."""
        scheduler = self._host(who).scheduler
        jobs = [job.id for job in self.store.get_all_jobs() if job.next_run_time is not None]
        for job_id in jobs:
            scheduler.pause_job(job_id)
        for _ in range(2 + len(waiting := self.store.pending_runs())):
            for host, run in self._held():
                self._end(host, run, Outcome(OutcomeKind.SUCCEEDED, started_at=self.clock.now()))
            if not waiting:
                break
            self.clock.advance(LONGEST_WAIT)
            waiting = self._round(self._host(who))
        assert not waiting, "runs wait for ever"
        for job_id in jobs:
            scheduler.resume_job(job_id)

    # What holds after every step

    @invariant()
    def limits_hold_and_nothing_is_lost(self) -> None:
        live, pending = self.store.live_runs(), self.store.pending_runs()
        self._check_concurrency(live)
        self._check_rates()
        held = {(run.id, run.fence) for _, run in self._held()}
        assert {(run.id, run.fence) for run in live} == held, "live runs are those that somebody has in hand"
        here = {run.id for run in [*live, *pending]}
        self.known |= here
        if missing := self.known - here - self.gone:
            over = {record.run_id for record in self.store.history(EVERYTHING) if record.outcome in _LAST}
            over |= {letter.run.id for letter in self.store.dead_letters(EVERYTHING)}
            assert missing <= over, "a run is lost"
            self.gone |= missing

    def _check_concurrency(self, live: Sequence[Run]) -> None:
        under = _under(live)
        assert all(under[limit.name] <= (limit.concurrency or 0) for limit in (ONE, TWO, BOTH)), f"too many: {under}"

    def _check_rates(self) -> None:
        for limit in (RATE, BOTH):
            assert limit.per is not None
            most, seconds = limit.per
            times = sorted(at for at, run in self.starts.values() if limit in run.job.limits)
            for first, last in zip(times, times[most:], strict=False):
                assert last - first >= timedelta(seconds=seconds), f"more starts than {limit} allows"

    def _host(self, pick: int) -> Host:
        return _one(self.hosts, pick)

    def _held(self) -> list[tuple[Host, Run]]:
        return [(host, run) for host in self.hosts for run in _in_order(host.executor.held.values())]


class Interruption:
    """Does something once while a store has it decided what may start."""

    def __init__(self) -> None:
        self._store: BaseJobStore | None = None
        self._calls = 0
        self._act: Callable[[], None] | None = None

    def plan(self, store: BaseJobStore, call: int, act: Callable[[], None]) -> None:
        """Do it when ``store`` asks for the next time but ``call``."""
        self._store, self._calls, self._act = store, call, act

    def forget(self) -> None:
        """Do it no more."""
        self._act = None

    def watch(self, store: BaseJobStore) -> None:
        """Have the questions of a store go through here."""
        if "fire_due" in vars(store):
            return  # several schedulers use this very object
        fire_due, claim_runs = store.fire_due, store.claim_runs
        asked: list[FireRequest] = []

        def through_here(request: FireRequest) -> FireRequest:
            # A round is known by its plan, so it has the same one each time.
            if not asked or asked[0].plan is not request.plan:
                asked[:] = [request, self._watched(store, request)]
            return request._replace(plan=asked[1].plan, admit=asked[1].admit)

        def fire(request: FireRequest) -> Fired:
            return fire_due(through_here(request))

        def claim(request: FireRequest) -> Claimed:
            return claim_runs(through_here(request))

        vars(store).update(fire_due=fire, claim_runs=claim)

    def _watched(self, store: BaseJobStore, request: FireRequest) -> FireRequest:
        def watched(decide: Callable[..., Any]) -> Callable[..., Any]:
            def ask(*args: Any) -> Any:
                self._called(store)
                return decide(*args)

            return ask

        return request._replace(plan=watched(request.plan), admit=watched(request.admit))

    def _called(self, store: BaseJobStore) -> None:
        if self._act is None or store is not self._store:
            return
        self._calls -= 1
        if self._calls < 0:
            act, self._act = self._act, None
            act()


def limits_against_the_model(machine: type[StoreMachine], examples: int = 50, steps: int = 20) -> Any:
    """Return a test case that tries limits in the store of a machine, with so many random examples of so many steps."""
    limits = type(f"LimitsOf{machine.__name__}", (LimitsMachine,), {"machine": machine})
    return against_the_model(limits, examples, steps)


def _under(runs: Sequence[Run]) -> Counter[str]:
    return Counter(limit.name for run in runs for limit in run.job.limits)


def _in_order(runs: Iterable[Run]) -> list[Run]:
    """Return runs in an order that has nothing to do with their ids, which are others each time."""
    return sorted(runs, key=lambda run: (run.job.id, run.scheduled_at, run.due_at, run.source, run.fence))


def _one(choices: Sequence[T], pick: int) -> T:
    return choices[pick % len(choices)]
