"""Limits that jobs share by name: how many runs are live at once, and how many start in a while."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, PickledStore, note
from ending_doubles import Patient, WatchedThreads, check, outcomes, pass_time, settled
from hypothesis import given
from hypothesis import strategies as st

from goscheduler import Limit, Retry
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import ManualScheduler

MAIL = Limit("mail", concurrency=2)
ALONE = Limit("alone", concurrency=1)


class Witness(HoldingExecutor):
    """Remembers when runs started, and the most that it has had at a time."""

    def __init__(self, room=1000):
        super().__init__(room)
        self.most = 0
        self.starts = []

    def submit(self, run):
        super().submit(run)
        self.most = max(self.most, len(self.held))
        self.starts.append((self._host.clock.now() - START).total_seconds())

    @property
    def started(self):
        return [run.job.id for run in self.taken]


@pytest.fixture
def executor():
    return Witness()


@pytest.fixture(params=[MemoryJobStore, PickledStore])
def scheduler(request, schedulers, executor):
    made = schedulers(ManualScheduler, executors={"default": executor}, jobstores={"default": request.param()})
    made.start()
    return made


def add(scheduler, *names, **options):
    for name in names:
        scheduler.add_job(note, id=name, **options)
    scheduler.run_due()


def finish(scheduler, executor, kind=OutcomeKind.SUCCEEDED):
    executor.finish(kind)
    scheduler.run_due()


def finish_all(scheduler, executor):
    while executor.held:
        finish(scheduler, executor)


# How many at once


def test_jobs_that_share_a_limit_never_have_more_runs_than_it_allows_and_none_is_lost(scheduler, executor):
    add(scheduler, *"abcdef", limits=MAIL)
    assert executor.started == ["a", "b"]
    finish_all(scheduler, executor)
    assert executor.started == [*"abcdef"]
    assert (executor.most, outcomes(scheduler)) == (2, ["succeeded"] * 6)


def test_a_limit_holds_for_runs_that_were_asked_for(scheduler, executor):
    for name in "abcd":
        scheduler.add_job(note, "interval", days=1, id=name, limits=MAIL)
        scheduler.run_now(name)
    scheduler.run_due()
    assert len(executor.held) == 2
    finish_all(scheduler, executor)
    assert (sorted(executor.started), executor.most) == ([*"abcd"], 2)


def test_jobs_without_the_limit_are_not_concerned(scheduler, executor):
    add(scheduler, *"abcd", limits=MAIL)
    add(scheduler, "other", limits=Limit("other", concurrency=1))
    add(scheduler, "free")
    assert executor.started == ["a", "b", "other", "free"]


@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.FAILED, OutcomeKind.CANCELLED, OutcomeKind.MISSED])
def test_however_a_run_ends_its_place_is_given_back(scheduler, executor, kind):
    add(scheduler, "a", "b", limits=ALONE)
    finish(scheduler, executor, kind)
    assert executor.started == ["a", "b"]


def test_a_run_that_is_put_back_gives_its_place_back(scheduler, executor):
    add(scheduler, "a", "b", limits=ALONE)
    finish(scheduler, executor, OutcomeKind.SNOOZED)
    assert len(executor.held) == 1
    finish_all(scheduler, executor)
    assert sorted(executor.started) == ["a", "a", "b"]


def test_a_retry_needs_a_place_like_any_other_run(scheduler, executor):
    add(scheduler, "a", limits=ALONE, retry=Retry(2, backoff=10))
    add(scheduler, "b", limits=ALONE)
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance(10)
    assert executor.started == ["a", "b"]
    finish(scheduler, executor)
    assert executor.started == ["a", "b", "a"]


def test_a_place_is_given_back_when_the_limits_of_the_job_were_changed_meanwhile(scheduler, executor):
    scheduler.add_job(note, "interval", minutes=1, id="a", limits=ALONE)
    scheduler.advance("1m")
    scheduler.modify_job("a", limits=None)
    add(scheduler, "b", limits=ALONE)
    assert executor.started == ["a"]
    finish(scheduler, executor)
    assert executor.started == ["a", "b"]


def test_a_limit_that_a_job_gets_while_it_runs_counts_from_its_next_run(scheduler, executor):
    scheduler.add_job(note, "interval", days=1, id="a")
    scheduler.run_now("a")
    scheduler.run_due()
    scheduler.modify_job("a", limits=ALONE)
    add(scheduler, "b", limits=ALONE)
    assert executor.started == ["a", "b"]
    finish(scheduler, executor)  # the end of a, which has no place to give back
    add(scheduler, "c", limits=ALONE)
    assert executor.started == ["a", "b"]


def test_who_is_removed_while_it_waits_does_not_keep_the_others_waiting(scheduler, executor):
    add(scheduler, "a", limits=ALONE)
    for name in "bc":
        scheduler.add_job(note, "interval", days=1, id=name, limits=ALONE)
        scheduler.run_now(name)
    scheduler.run_due()
    executor.finish()
    scheduler.engine.settler.settle_reported()  # it is the turn of b
    scheduler.remove_job("b")
    scheduler.run_due()
    assert executor.started == ["a", "c"]


# Several limits


def test_a_run_that_one_limit_holds_takes_nothing_of_the_other(scheduler, executor):
    add(scheduler, "a", limits=ALONE)
    add(scheduler, "both", limits=[ALONE, Limit("other", concurrency=1)])
    add(scheduler, "b", limits=Limit("other", concurrency=1))
    assert executor.started == ["a", "b"]
    finish(scheduler, executor)
    assert executor.started == ["a", "b"]  # the other limit is b's now
    finish(scheduler, executor)
    assert executor.started == ["a", "b", "both"]


def test_a_run_that_is_held_by_one_limit_passes_its_turn_at_another_on(scheduler, executor):
    mail, api = Limit("mail", concurrency=1), Limit("api", concurrency=1)
    add(scheduler, "first", limits=mail)
    add(scheduler, "both", limits=[api, mail])
    add(scheduler, "next", limits=mail)
    add(scheduler, "busy", limits=api)
    assert executor.started == ["first", "busy"]
    finish(scheduler, executor)  # both has the turn and cannot go
    assert executor.started == ["first", "busy", "next"]


def test_a_run_that_its_own_job_holds_passes_its_turn_at_a_limit_on(scheduler, executor):
    scheduler.add_job(note, "interval", days=1, id="job", limits=MAIL)
    add(scheduler, "a", limits=MAIL)
    scheduler.run_now("job")
    scheduler.run_due()
    scheduler.run_now("job")  # waits for the limit, and for the other run of its job
    scheduler.run_due()
    add(scheduler, "b", limits=MAIL)
    assert executor.started == ["a", "job"]
    finish(scheduler, executor)
    assert executor.started == ["a", "job", "b"]


def test_a_run_whose_executor_is_full_passes_its_turn_at_a_limit_on(schedulers):
    free, full = Witness(), Witness(room=1)
    scheduler = schedulers(ManualScheduler, executors={"default": free, "full": full})
    scheduler.start()
    add(scheduler, "first", limits=ALONE)
    add(scheduler, "stuck", limits=ALONE, executor="full")
    add(scheduler, "next", limits=ALONE)
    add(scheduler, "busy", executor="full")
    finish(scheduler, free)
    assert free.started == ["first", "next"]
    finish(scheduler, full)
    finish(scheduler, free)
    assert full.started == ["busy", "stuck"]


def test_jobs_that_give_one_name_different_figures_each_obey_their_own(scheduler, executor):
    add(scheduler, "a", "b", "c", limits=Limit("mail", concurrency=3))
    add(scheduler, "strict", limits=Limit("mail", concurrency=1))
    add(scheduler, "d", limits=Limit("mail", concurrency=3))
    finish(scheduler, executor)
    finish(scheduler, executor)
    assert executor.started == [*"abcd"]
    finish(scheduler, executor)
    assert "strict" not in executor.started
    finish(scheduler, executor)
    assert executor.started == [*"abcd", "strict"]


# Firings


def test_one_firing_waits_for_a_limit_and_further_ones_are_skipped(scheduler, executor):
    add(scheduler, "a", limits=ALONE)
    scheduler.add_job(note, "interval", minutes=1, id="job", limits=ALONE)
    scheduler.advance("3m")
    assert outcomes(scheduler, "job") == ["skipped", "skipped"]
    assert scheduler.runs("job")[0].reason == 'a run of it waits already: limit "alone" is full: 1 of 1 are running'
    finish(scheduler, executor)
    assert executor.taken[-1].scheduled_at == START + timedelta(minutes=1)


def test_a_firing_waits_for_a_limit_although_a_retry_of_its_job_waits_for_its_time(scheduler, executor):
    scheduler.add_job(note, "interval", minutes=1, id="job", limits=ALONE, retry=Retry(2, backoff=3600))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    add(scheduler, "a", limits=ALONE)
    scheduler.advance("1m")
    assert outcomes(scheduler, "job") == ["failed"]
    finish(scheduler, executor)
    assert executor.started == ["job", "a", "job"]


def test_firings_that_queue_wait_for_a_limit_in_their_order(scheduler, executor):
    add(scheduler, "a", limits=ALONE)
    scheduler.add_job(note, "interval", minutes=1, id="job", limits=ALONE, overlap="queue")
    scheduler.advance("3m")
    scheduler.pause_job("job")
    finish_all(scheduler, executor)
    assert [run.scheduled_at.minute for run in executor.taken[1:]] == [1, 2, 3]


def test_nobody_is_starved_where_more_is_fired_than_a_limit_lets_through(scheduler, executor):
    # One place, five jobs, each due every five seconds, and a run takes four: whoever is due when a place is free must
    # not always go before those that wait.
    for number in range(5):
        scheduler.add_job(
            note, "interval", seconds=5, id=str(number), limits=ALONE, start_date=START + timedelta(seconds=number)
        )
    for _ in range(100):
        scheduler.clock.advance(4)
        if executor.held:
            executor.finish()
        scheduler.run_due()
    assert executor.most == 1
    counts = Counter(executor.started)
    assert min(counts[str(number)] for number in range(5)) >= 10


# How many in a while


def assert_within(starts, most, seconds):
    """Fail if more than ``most`` starts lie in any window of so many seconds."""
    for begin, end in zip(starts, starts[most:], strict=False):
        assert end - begin >= seconds


def test_a_rate_holds_in_any_window_across_jobs_and_runs_that_were_asked_for(scheduler, executor):
    api = Limit("api", rate="3/1m")
    scheduler.add_job(note, "interval", seconds=7, id="a", limits=api, overlap="allow")
    scheduler.add_job(note, "interval", seconds=11, id="b", limits=api, overlap="allow")
    scheduler.add_job(note, "interval", days=1, id="c", limits=api, overlap="allow")
    for _ in range(20):
        scheduler.run_now("c")
        scheduler.advance(30)
    scheduler.remove_job("a")
    scheduler.remove_job("b")
    scheduler.advance("20m")
    assert_within(executor.starts, 3, 60)
    assert len(executor.starts) >= 3 * 8
    assert executor.started.count("c") == 20  # late, and none of them lost


def test_runs_that_a_rate_puts_off_start_as_soon_as_it_lets_them(scheduler, executor):
    add(scheduler, *"abcdef", limits=Limit("api", rate="2/1m"))
    assert executor.starts == [0, 0]
    scheduler.advance("5m")
    assert_within(executor.starts, 2, 60)
    assert executor.started == [*"abcdef"]
    assert executor.starts[-1] <= 2 * 62  # a sixtieth of the window may go unused each time


def test_the_end_of_a_run_does_not_give_a_start_back(scheduler, executor):
    add(scheduler, "a", "b", limits=Limit("api", rate="1/1m"))
    finish(scheduler, executor)
    assert executor.started == ["a"]
    scheduler.advance("2m")
    assert executor.started == ["a", "b"]


def test_a_run_that_a_rate_puts_off_gets_older_and_is_not_starved(scheduler, executor):
    api = Limit("api", rate="1/1m")
    add(scheduler, "lazy before", limits=api)
    scheduler.add_job(note, "interval", days=9, id="lazy", limits=api, priority=9)
    scheduler.run_now("lazy")
    for minute in range(40):
        for copy in "ab":
            scheduler.add_job(note, "interval", days=9, id=f"{minute}{copy}", limits=api, priority=0)
            scheduler.run_now(f"{minute}{copy}")
        scheduler.advance("1m")
    assert "lazy" in executor.started


def test_both_figures_of_a_limit_hold(scheduler, executor):
    add(scheduler, *"abcdef", limits=Limit("api", concurrency=1, rate="2/1m"))
    for _ in range(20):
        if executor.held:
            finish(scheduler, executor)
        scheduler.advance(10)
    assert_within(executor.starts, 2, 60)
    assert (sorted(executor.started), executor.most) == ([*"abcdef"], 1)


# Ends by force


@pytest.fixture
def pool():
    return WatchedThreads(max_workers=4)


@pytest.fixture
def threaded(schedulers, pool):
    made = schedulers(ManualScheduler, executors={"default": pool})
    made.start()
    return made


@pytest.fixture
def patients():
    made = []

    def make(then=None):
        made.append(Patient(then))
        return made[-1]

    yield make
    for patient in made:
        patient.go(100)


def test_a_run_that_times_out_gives_its_place_back(threaded, pool, patients):
    first, second = patients(check), patients()
    threaded.add_job(first, limits=ALONE, timeout=60)
    threaded.run_due()
    first.await_start()
    threaded.add_job(second, limits=ALONE)
    pass_time(threaded, 60)
    first.go()
    settled(threaded, pool)
    second.await_start()


def test_a_run_that_is_given_up_gives_its_place_back_once(threaded, pool, patients):
    first, second, third = patients("late"), patients(), patients()
    threaded.add_job(first, limits=ALONE, timeout=60)
    threaded.run_due()
    first.await_start()
    for job in (second, third):
        threaded.add_job(job, limits=ALONE)
        threaded.run_due()
    pass_time(threaded, 60)
    pass_time(threaded, 5)
    second.await_start()
    first.go()
    settled(threaded, pool)  # the late end of the first
    assert third.count == 0
    second.go()
    settled(threaded, pool)
    third.await_start()


def test_a_queued_run_that_is_cancelled_gives_its_place_back(schedulers, patients):
    pool = WatchedThreads(max_workers=1)
    scheduler = schedulers(ManualScheduler, executors={"default": pool, "other": WatchedThreads()})
    scheduler.start()
    busy, never, second = patients(), patients(), patients()
    scheduler.add_job(busy)
    scheduler.run_due()
    busy.await_start()
    scheduler.add_job(never, id="never", limits=ALONE)
    scheduler.run_due()
    scheduler.add_job(second, limits=ALONE, executor="other")
    scheduler.run_due()
    (queued,) = scheduler.live_runs("never")
    scheduler.cancel_run(queued.id)
    scheduler.run_due()
    second.await_start()
    assert never.count == 0


# Anything at all


LIMITS = [None, ALONE, MAIL, [ALONE, MAIL], Limit("mail", concurrency=1), Limit("api", rate="2/1m")]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, len(LIMITS) - 1)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 90)),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_whatever_happens_every_run_that_was_asked_for_ends_once(steps):
    executor = Witness(room=3)
    with ManualScheduler(executors={"default": executor}) as scheduler:
        asked = []
        for number, limits in enumerate(LIMITS):
            scheduler.add_job(
                note, "interval", days=9999, id=str(number), limits=limits, max_instances=2, priority=number,
                retry=Retry(2, backoff=5),
            )
        for verb, number in steps:
            take_step(scheduler, executor, asked, verb, number)
            scheduler.run_due()
            held = Counter(limit.name for run in executor.held for limit in run.job.limits)
            assert held["alone"] <= 1
            assert held["mail"] <= 2
        for _ in range(200):
            if executor.held:
                executor.finish()
            scheduler.advance(70)
        assert scheduler.live_runs() == []
        ends = Counter(record.run_id for record in scheduler.runs(limit=1000) if record.outcome.value != "failed")
        failures = Counter(record.run_id for record in scheduler.runs(limit=1000) if record.outcome.value == "failed")
        assert all(ends[run_id] == 1 or failures[run_id] == 2 for run_id in asked)


def take_step(scheduler, executor, asked, verb, number):
    if verb == "run":
        asked.append(scheduler.run_now(str(number)))
    elif verb == "wait":
        scheduler.clock.advance(number)
    elif verb == "cancel" and number < len(asked):
        scheduler.cancel_run(asked[number])
        executor.held = [run for run in executor.held if run.id != asked[number]]
    elif verb in ("end", "fail") and executor.held:
        executor.held.append(executor.held.pop(0))
        executor.finish(OutcomeKind.SUCCEEDED if verb == "end" else OutcomeKind.FAILED)
