"""The life of runs in a store, against a model: random steps until the two disagree. Needs hypothesis.

A store is put under it by a class of two lines and a name by which a test runner finds it::

    class MyMachine(StoreMachine):
        def make_store(self):
            return MyStore(...)

    TestMyStoreAgainstTheModel = against_the_model(MyMachine)

Where the store is shared, ``make_peer`` returns another handle on the same data: then two schedulers use it, one of
which is lost now and then. The store has to go by the time that it is given. ``GOSCHEDULER_MODEL_EXAMPLES`` in the
environment says how many examples are tried, for a long run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goscheduler.errors import ConflictingIdError, JobLookupError, RunLookupError
from goscheduler.events import EVENT_LEASE_LOST
from goscheduler.executors.call import failed
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.runs.model import Outcome, OutcomeKind, Run
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.retry import GiveUp, RetryLater, Snooze
from goscheduler.testing.clock import START, ManualClock
from goscheduler.testing.expectation import Expectation, ExpectedRun, Terms
from goscheduler.testing.hosts import LEASE, Host, Troubles, start_host

EVERYTHING = HistoryQuery(limit=1_000_000)
#: How a run that has not been given up, cancelled or tried again has ended.
_LAST = {OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED}

T = TypeVar("T")

IDS = st.sampled_from("abc")
PICKS = st.integers(0, 11)
"""Choose one of what there is, however many that are."""
PERIODS = st.integers(1, 40)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "max_instances": st.integers(1, 2),
    "overlap": st.sampled_from(["skip", "queue", "cancel_running", "allow"]),
    "attempts": st.integers(1, 3),
    "delay": st.sampled_from([0, 1, 7, 30]),
    "timeout": st.sampled_from([None, None, 4, 25]),
    "on_crash": st.sampled_from(["rerun", "rerun", "fail", "dead"]),
    "max_crashes": st.integers(1, 3),
    "priority": st.integers(0, 9),
}
TERMS = st.builds(Terms, **OPTIONS)
CHANGES = st.sampled_from(sorted(OPTIONS)).flatmap(lambda name: st.fixed_dictionaries({name: OPTIONS[name]}))
ERRORS = st.one_of(
    st.sampled_from([ValueError("no"), GiveUp("no use")]),
    st.builds(lambda kind, seconds: kind(seconds), st.sampled_from([RetryLater, Snooze]), st.sampled_from([0, 3, 20])),
)


def nothing() -> None:
    """A job's function; it is never called, but found again by its reference."""


class StoreMachine(RuleBasedStateMachine):
    """Derive from this and write ``make_store``."""

    durable = True
    """Whether jobs and pending runs outlive the shutdown of the scheduler."""
    decides_apart = False
    """Whether others can use the store while it asks what may start; see :mod:`goscheduler.testing.model_limits`."""

    def make_store(self) -> BaseJobStore:
        """Return a new, empty store, not started."""
        raise NotImplementedError

    def make_peer(self, store: BaseJobStore) -> BaseJobStore | None:
        """Return another store on the same data, if it is shared."""
        return None

    @initialize(jobs=st.lists(st.tuples(PERIODS, TERMS), max_size=3))
    def begin(self, jobs: Sequence[tuple[int, Terms]] = ()) -> None:
        self.clock = ManualClock()
        self.store = self.make_store()
        self.model = Expectation(shares_jobs=self.store.keeps_objects)
        self.hosts: list[Host] = []
        self.ghosts: list[Host] = []
        self.troubles = Troubles()
        self._add_host(self.store)
        if self.store.shared:
            self._join()
        for job_id, (period, terms) in zip("abc", jobs, strict=False):
            self._add(self.hosts[0], job_id, period, terms)

    def teardown(self) -> None:
        for host in [*getattr(self, "hosts", ()), *getattr(self, "ghosts", ())]:
            if host.scheduler.running:
                host.scheduler.shutdown()

    # Jobs

    @rule(who=PICKS, job_id=IDS, period=PERIODS, terms=TERMS)
    def add(self, who: int, job_id: str, period: int, terms: Terms) -> None:
        self._add(self._host(who), job_id, period, terms)

    @rule(who=PICKS, period=PERIODS, terms=TERMS, once=st.booleans())
    def add_several(self, who: int, period: int, terms: Terms, once: bool = False) -> None:
        for number, job_id in enumerate("abc"):
            self._add(self._host(who), job_id, period if once else period + number, Terms(**vars(terms)), once)

    def _add(self, host: Host, job_id: str, period: int, terms: Terms, once: bool = False) -> None:
        options: dict[str, Any] = {"trigger": "interval", "seconds": period, **terms.as_options()}
        if once:
            options |= {"trigger": "date", "run_date": self.clock.now() + timedelta(seconds=options.pop("seconds"))}
        try:
            host.scheduler.add_job(nothing, id=job_id, misfire_grace_time=None, **options)
        except ConflictingIdError:
            assert job_id in self.model.jobs
        else:
            assert job_id not in self.model.jobs
            self.model.schedule(job_id, period, terms, once)
        self._round(host)

    @rule(who=PICKS, job_id=IDS, changes=CHANGES)
    def modify(self, who: int, job_id: str, changes: dict[str, Any]) -> None:
        host = self._host(who)
        known = self.model.jobs.get(job_id)
        wanted = Terms(**{**vars(known.terms if known else Terms()), **changes}).as_options()
        if self._known(job_id, lambda: host.scheduler.modify_job(job_id, **wanted)):
            self.model.change(job_id, **changes)
        self._round(host)

    @rule(who=PICKS, job_id=IDS, period=PERIODS)
    def reschedule(self, who: int, job_id: str, period: int) -> None:
        host = self._host(who)
        act = lambda: host.scheduler.reschedule_job(job_id, trigger="interval", seconds=period)  # noqa: E731
        if self._known(job_id, act):
            self.model.schedule(job_id, period, self.model.jobs[job_id].terms)
        self._round(host)

    @rule(who=PICKS, job_id=IDS)
    def pause_job(self, who: int, job_id: str) -> None:
        host = self._host(who)
        if self._known(job_id, lambda: host.scheduler.pause_job(job_id)):
            self.model.jobs[job_id].next = None
        self._round(host)

    @rule(who=PICKS, job_id=IDS)
    def resume_job(self, who: int, job_id: str) -> None:
        host = self._host(who)
        if self._known(job_id, lambda: host.scheduler.resume_job(job_id)):
            self.model.jobs[job_id].next = self.model.jobs[job_id].first_from(self.model.now)
        self._round(host)

    @rule(who=PICKS, job_id=IDS)
    def remove(self, who: int, job_id: str) -> None:
        host = self._host(who)
        something = job_id in self.model.jobs or bool(self.model.pending(job_id))
        try:
            host.scheduler.remove_job(job_id)
        except JobLookupError:
            assert not something
        else:
            assert something
            self.model.remove(job_id, host.name)
        self._round(host)

    @rule(who=PICKS, job_id=IDS)
    def run_now(self, who: int, job_id: str) -> None:
        host = self._host(who)
        ids: list[str] = []
        if self._known(job_id, lambda: ids.append(host.scheduler.run_now(job_id))):
            self.model.ask_for(job_id, ids[0])
        self._round(host)

    def _known(self, job_id: str, act: Callable[[], object]) -> bool:
        """Do something to a job; false if there is none, and it was refused for that."""
        try:
            act()
        except JobLookupError:
            assert job_id not in self.model.jobs
            return False
        assert job_id in self.model.jobs
        return True

    # Time and the ends of runs

    @rule(who=PICKS, seconds=st.integers(0, LEASE // 4))
    def let_time_pass(self, who: int, seconds: int) -> None:
        self._advance(seconds)
        for host in self._in_some_order(who):
            self._round(host)

    @rule(who=PICKS, seconds=st.integers(LEASE // 4, 4 * LEASE))
    @precondition(lambda self: not self.store.shared)
    def sleep(self, who: int, seconds: int) -> None:
        self._advance(seconds)
        self._round(self._host(who))

    @rule(pick=PICKS)
    @precondition(lambda self: self._ours())
    def succeed(self, pick: int) -> None:
        self._end(_one(self._ours(), pick), Outcome(OutcomeKind.SUCCEEDED, started_at=self.clock.now()))

    @rule(pick=PICKS, error=ERRORS)
    @precondition(lambda self: self._ours())
    def fail(self, pick: int, error: BaseException) -> None:
        self._end(_one(self._ours(), pick), failed(error, self.clock.now()))

    @rule(pick=PICKS)
    @precondition(lambda self: self._ours())
    def time_out(self, pick: int) -> None:
        self._end(_one(self._ours(), pick), Outcome(OutcomeKind.TIMED_OUT, started_at=self.clock.now()))

    def _end(self, run: ExpectedRun, outcome: Outcome) -> None:
        host = next(host for host in self.hosts if host.name == run.host)
        host.executor.end(host.executor.held[run.id, run.fence], outcome)
        host.scheduler.engine.settler.settle_reported()
        self.model.end(run, outcome.kind, outcome.error)
        self._round(host)

    @rule(who=PICKS, pick=PICKS)
    @precondition(lambda self: self.model.runs)
    def cancel(self, who: int, pick: int) -> None:
        host, run = self._host(who), _one(self.model.runs, pick)
        assert host.scheduler.cancel_run(run.id)
        self.model.cancel(run, host.name)
        self._round(host)

    @rule(who=PICKS)
    def cancel_what_is_over(self, who: int) -> None:
        host = self._host(who)
        over = set(self.model.seen) - {run.id for run in self.model.runs}
        assert not any(host.scheduler.cancel_run(run_id) for run_id in sorted(over)[:5])

    @rule(pick=PICKS)
    @precondition(lambda self: self._late())
    def report_too_late(self, pick: int) -> None:
        """A run that was given up, or whose lease has lapsed, ends after all."""
        self._report_too_late(*_one(self._late(), pick))

    def _report_too_late(self, host: Host, run: Run) -> None:
        for known in (host.zombies, host.executor.given_up):
            if run in known:
                known.remove(run)
        host.executor.held.pop((run.id, run.fence), None)
        before = len(host.heard.events)
        host.scheduler.report(run, Outcome(OutcomeKind.SUCCEEDED, started_at=self.clock.now()))
        host.scheduler.engine.settler.settle_reported()
        assert {event.code for event in host.heard.events[before:]} <= {EVENT_LEASE_LOST}

    # Dead letters

    @rule(who=PICKS, pick=PICKS)
    @precondition(lambda self: self.model.letters)
    def redrive(self, who: int, pick: int) -> None:
        host, letter = self._host(who), _one(self.model.letters, pick)
        host.scheduler.redrive(letter.id)
        self.model.redrive(letter)
        self._round(host)

    @rule(who=PICKS)
    def redrive_all(self, who: int) -> None:
        host = self._host(who)
        assert host.scheduler.redrive_all() == len(self.model.letters)
        for letter in list(self.model.letters):
            self.model.redrive(letter)
        self._round(host)

    @rule(who=PICKS, pick=PICKS)
    @precondition(lambda self: self.model.letters)
    def discard(self, who: int, pick: int) -> None:
        host, letter = self._host(who), _one(self.model.letters, pick)
        host.scheduler.discard_dead_letter(letter.id)
        self.model.discard(letter)
        for act in (host.scheduler.discard_dead_letter, host.scheduler.redrive):
            try:
                act(letter.id)
            except RunLookupError:
                continue
            raise AssertionError("a dead letter was there twice")

    # Schedulers

    @rule(who=PICKS)
    def pause_or_resume_scheduler(self, who: int) -> None:
        host = self._host(who)
        host.paused = not host.paused
        if host.paused:
            host.scheduler.pause()
        else:
            host.scheduler.resume()
        self._round(host)

    @rule(who=PICKS)
    @precondition(lambda self: self.durable)
    def restart(self, who: int) -> None:
        host = self._host(who)
        host.scheduler.shutdown()
        for run in self.model.live(host=host.name):
            self.model.end(run, OutcomeKind.SNOOZED)
        host.zombies, host.paused = [], False
        host.scheduler.start()
        self._round(host)

    @rule(who=PICKS, ends=st.booleans())
    @precondition(lambda self: sum(host.may_claim for host in self.hosts) > 1)
    def crash(self, who: int, ends: bool = False) -> None:
        """A scheduler stops for so long that the other gives it up; a run of it may end nevertheless."""
        victim, survivor = sorted(self._in_some_order(who), key=lambda host: not host.executor.held)
        victim.lost = True
        victim.zombies += victim.executor.held.values()
        self._advance(LEASE)
        self._round(survivor, victim)
        if ends and victim.zombies:
            self._report_too_late(victim, victim.zombies[0])

    @rule()
    @precondition(lambda self: any(host.lost for host in self.hosts))
    def come_back(self) -> None:
        """A scheduler that was given up goes on, and learns it."""
        (host,) = (host for host in self.hosts if host.lost)
        host.lost = False
        self._round(host)

    @rule()
    @precondition(lambda self: any(host.lost for host in self.hosts))
    def replace(self) -> None:
        """A scheduler that was given up is never heard of again but for what it reports; a new one takes its place."""
        (ghost,) = (host for host in self.hosts if host.lost)
        self.hosts.remove(ghost)
        self.ghosts.append(ghost)
        self._join()

    def _round(self, host: Host, lapsed: Host | None = None) -> None:
        """Have a scheduler do everything that is due, and the model with it."""
        model = self.model
        leftovers_first = "default" in host.scheduler.engine.loop.claim_first
        host.scheduler.run_due()
        for error in self.troubles.errors:
            raise error
        live, pending = self.store.live_runs(), self.store.pending_runs()
        if host.may_claim:
            if leftovers_first:
                model.claim(host.name, {run.id for run in live})
            model.fire(host.name)
        model.tell(host.name)
        model.end_overdue(host.name)
        if lapsed is not None:
            model.lose(lapsed.name)
        model.adopt(host.name if host.may_claim else None, live, pending, seconds_of)

    def _advance(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    def _join(self) -> None:
        peer = self.make_peer(self.store)
        assert peer is not None, "a shared store needs make_peer"
        self._round(self._add_host(peer))

    def _add_host(self, store: BaseJobStore) -> Host:
        name = f"host {len(self.hosts) + len(self.ghosts)}"
        self.hosts.append(start_host(name, store, self.clock, self.troubles))
        return self.hosts[-1]

    def _host(self, pick: int) -> Host:
        return _one([host for host in self.hosts if not host.lost], pick)

    def _in_some_order(self, pick: int) -> list[Host]:
        hosts = [host for host in self.hosts if not host.lost]
        return hosts if pick % 2 else hosts[::-1]

    def _ours(self) -> list[ExpectedRun]:
        lost = {host.name for host in self.hosts if host.lost}
        return [run for run in self.model.live() if run.host not in lost]

    def _late(self) -> list[tuple[Host, Run]]:
        return [
            (host, run)
            for host in [*self.hosts, *self.ghosts]
            for run in [*host.executor.given_up, *(run for run in host.zombies if run not in host.executor.given_up)]
        ]

    # What holds after every step

    @invariant()
    def both_have_the_same_jobs_and_times(self) -> None:
        found = {
            job.id: None if job.next_run_time is None else seconds_of(job.next_run_time)
            for job in self.store.get_all_jobs()
        }
        assert found == {job_id: job.next for job_id, job in self.model.jobs.items()}

    @invariant()
    def both_have_the_same_runs(self) -> None:
        model = self.model
        assert _facts(self.store.live_runs()) == {run.id: run.facts for run in model.live()}
        assert _facts(self.store.pending_runs()) == {run.id: run.facts for run in model.pending()}
        letters = [letter.run for letter in self.store.dead_letters(EVERYTHING)]
        assert _facts(letters) == {run.id: run.facts for run in model.letters}

    @invariant()
    def every_attempt_has_one_record(self) -> None:
        records = self.store.history(EVERYTHING)
        told = Counter((each.job_id, seconds_of(each.scheduled_at), each.attempt, each.outcome) for each in records)
        assert told == self.model.records

    @invariant()
    def no_run_is_lost_or_doubled(self) -> None:
        places = Counter(run.id for run in [*self.store.live_runs(), *self.store.pending_runs()])
        places.update(letter.run.id for letter in self.store.dead_letters(EVERYTHING))
        over = {record.run_id for record in self.store.history(EVERYTHING) if record.outcome in _LAST}
        for run_id in self.model.seen:
            expected = 0 if run_id in over or run_id in self.model.gone else 1
            assert places[run_id] == expected, f"run {run_id} is in {places[run_id]} places"


def against_the_model(machine: type[RuleBasedStateMachine], examples: int = 100, steps: int = 50) -> Any:
    """Return a test case that tries ``machine`` with so many random examples of so many steps."""
    case = machine.TestCase
    case.settings = settings(
        max_examples=int(os.environ.get("GOSCHEDULER_MODEL_EXAMPLES", examples)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


def seconds_of(moment: datetime) -> int:
    """Return a time as the model has it."""
    return (moment - START) // timedelta(seconds=1)


def _facts(runs: Sequence[Run]) -> dict[str, tuple[object, ...]]:
    return {
        run.id: (run.job.id, seconds_of(run.scheduled_at), seconds_of(run.due_at), run.attempt, run.crashes)
        for run in runs
    }


def _one(choices: Sequence[T], pick: int) -> T:
    return choices[pick % len(choices)]
