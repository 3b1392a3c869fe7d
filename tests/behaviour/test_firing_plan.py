"""What is planned for a due job: the planner is pure, so every case is a row."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import START, FirstThen, go_back, note, stand_still
from hypothesis import given
from hypothesis import strategies as st
from work import calls_of

from goscheduler.options import DEFAULTS, filled_in
from goscheduler.runs.limits import Ledger, Limit
from goscheduler.runs.model import OutcomeKind, RunState
from goscheduler.runs.plan import (
    CATCH_UP,
    ConcurrencyState,
    FiringPlan,
    FiringPlanner,
    Refusal,
    admit,
    keys_of,
    plan_firing,
    rank_of,
)
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger


def due_job(trigger=None, **options):
    """Return a job that is due at START."""
    scheduler = ManualScheduler()
    trigger = IntervalTrigger(seconds=1, start_date=START, timezone="UTC") if trigger is None else trigger
    job = scheduler.add_job(note, trigger, next_run_time=START, id="job", **options)
    job.options = filled_in(job.options, DEFAULTS)
    return job


def plan(job, late=0.0, live=0, waiting=0, ledger=None):
    numbers = itertools.count()
    concurrency = ConcurrencyState(live, waiting, 7, Ledger() if ledger is None else ledger)
    return plan_firing(job, START + timedelta(seconds=late), concurrency, "me", lambda: f"run-{next(numbers)}")


def seconds(runs):
    return [(run.scheduled_at - START).total_seconds() for run in runs]


def accounted(firing):
    """Return how many fire times a plan speaks of."""
    runs = sum(1 + run.coalesced for run in [*firing.start, *firing.wait])
    return runs + sum(record.fire_times for record in firing.records)


# options, seconds late, live runs → fire times started, waiting, and (outcome, fire times) recorded
TABLE = {
    "on time": ({}, 0, 0, [0], [], []),
    "half a period late": ({}, 0.5, 0, [0], [], []),
    "three gathered, coalescing": ({}, 2, 0, [2], [], []),
    "three gathered, one by one": ({"coalesce": False}, 2, 0, [0], [1, 2], []),
    "three gathered, two at a time": ({"coalesce": False, "max_instances": 2}, 2, 0, [0, 1], [2], []),
    "three gathered, two at a time, one live": ({"coalesce": False, "max_instances": 2}, 2, 1, [0], [1, 2], []),
    "within the grace time": ({"misfire_grace_time": 1}, 0.9, 0, [0], [], []),
    "exactly the grace time": ({"misfire_grace_time": 2}, 2, 0, [2], [], []),
    "all beyond the grace time": (
        {"misfire_grace_time": 0.1}, 2.5, 0, [], [], [("missed", 2), ("missed", 1)],
    ),
    "some beyond the grace time": (
        {"misfire_grace_time": 1, "coalesce": False, "max_instances": 9}, 3, 0, [2, 3], [],
        [("missed", 1), ("missed", 1)],
    ),
    "one live already": ({}, 0, 1, [], [], [("skipped", 1)]),
    "more live than allowed": ({}, 0, 5, [], [], [("skipped", 1)]),
    "one live, room for two": ({"max_instances": 2}, 0, 1, [0], [], []),
}


@pytest.mark.parametrize(("options", "late", "live", "start", "wait", "records"), TABLE.values(), ids=TABLE)
def test_the_plan_for_a_due_job(options, late, live, start, wait, records):
    firing = plan(due_job(**options), late, live)
    assert seconds(firing.start) == start
    assert seconds(firing.wait) == wait
    assert [(record.outcome.kind.value, record.fire_times) for record in firing.records] == records
    assert (firing.next_run_time - START).total_seconds() == int(late) + 1
    assert firing.suspended is None


# options, live, waiting → what becomes of three gathered fire times, and whether those that go on are told to end
OVERLAPS = {
    "skip": ({"overlap": "skip"}, 1, 0, [], [], 3, False),
    "queue": ({"overlap": "queue"}, 1, 0, [], [0, 1, 2], 0, False),
    "queue, nothing live": ({"overlap": "queue"}, 0, 0, [0], [1, 2], 0, False),
    "queue behind others": ({"overlap": "queue"}, 0, 1, [], [0, 1, 2], 0, False),
    "queue that is full": ({"overlap": "queue"}, 1, CATCH_UP - 1, [], [0], 2, False),
    "cancel running": ({"overlap": "cancel_running"}, 1, 0, [], [2], 2, True),
    "cancel running, nothing live": ({"overlap": "cancel_running"}, 0, 0, [0], [1, 2], 0, False),
    "cancel running, one waits for that": ({"overlap": "cancel_running"}, 1, 1, [], [], 3, True),
    "allow": ({"overlap": "allow"}, 5, 0, [0, 1, 2], [], 0, False),
}


@pytest.mark.parametrize(
    ("options", "live", "waiting", "start", "wait", "skipped", "cancel_live"), OVERLAPS.values(), ids=OVERLAPS
)
def test_what_a_firing_does_that_overlaps(options, live, waiting, start, wait, skipped, cancel_live):
    firing = plan(due_job(coalesce=False, **options), 2, live, waiting)
    assert seconds(firing.start) == start
    assert seconds(firing.wait) == wait
    assert [record.outcome.kind.value for record in firing.records] == ["skipped"] * skipped
    assert firing.cancel_live is cancel_live


MAIL = Limit("mail", concurrency=2)

# options, live runs under the limit, waiting → started, waiting, skipped
LIMITED = {
    "free": ({}, 1, 0, [2], [], 0),
    "full": ({}, 2, 0, [], [2], 0),
    "full, and one waits": ({}, 2, 1, [], [], 1),
    "full, and one waits, queueing": ({"overlap": "queue"}, 2, 1, [], [2], 0),
    "room for one of three": ({"coalesce": False, "overlap": "allow"}, 1, 0, [0], [1, 2], 0),
}


@pytest.mark.parametrize(("options", "taken", "waiting", "start", "wait", "skipped"), LIMITED.values(), ids=LIMITED)
def test_what_a_firing_does_that_meets_a_limit(options, taken, waiting, start, wait, skipped):
    ledger = Ledger({"mail": taken})
    firing = plan(due_job(limits=MAIL, **options), 2, 0, waiting, ledger)
    assert seconds(firing.start) == start
    assert seconds(firing.wait) == wait
    assert [record.outcome.kind.value for record in firing.records] == ["skipped"] * skipped
    assert (ledger.obstacle([MAIL], START) is None) == (taken + len(start) < 2)


def test_a_pending_run_is_held_by_a_full_limit_and_put_off_by_a_rate():
    (run,) = plan(due_job(limits=MAIL), ledger=Ledger({"mail": 2})).wait
    assert admit(run, ConcurrencyState(0, 1, 1, Ledger({"mail": 2})), START) == Refusal("limit:mail")
    rate = Limit("api", rate="1/1m")
    ledger = Ledger()
    ledger.take([rate], START)
    run = run._replace(job=due_job(limits=rate))
    refusal = admit(run, ConcurrencyState(0, 1, 1, ledger), START)
    assert refusal.key is None
    assert timedelta(minutes=1) <= refusal.until - START <= timedelta(seconds=62)


def test_a_run_counts_under_its_job_and_under_its_limits():
    (run,) = plan(due_job(limits=[MAIL, Limit("api", rate="9/s")])).start
    assert keys_of(run) == ["job:job", "limit:api", "limit:mail"]


def test_the_more_urgent_goes_first_then_the_earlier_and_nobody_waits_for_ever():
    minute = 60_000_000
    urgent, usual, lazy = (due_job(priority=priority) for priority in (0, 5, 9))
    assert rank_of(urgent, 1) < rank_of(usual, 0) < rank_of(lazy, 0)
    assert rank_of(usual, 0) < rank_of(usual, 1)
    assert rank_of(lazy, 0) < rank_of(urgent, 9 * minute + 1)


@pytest.mark.parametrize(("auto_remove", "keep"), [(True, False), (False, True)])
def test_a_job_that_is_not_to_be_removed_is_kept_when_its_trigger_ends(auto_remove, keep):
    assert plan(due_job(FirstThen(None), auto_remove=auto_remove)).keep is keep
    assert plan(due_job(FirstThen(None), auto_remove=auto_remove), live=1).keep is keep


def test_what_starts_is_ours_and_what_waits_is_nobodys():
    firing = plan(due_job(coalesce=False), 1)
    (started,), (waiting,) = firing.start, firing.wait
    assert (started.state, started.owner, started.fence) == (RunState.CLAIMED, "me", 7)
    assert (waiting.state, waiting.owner, waiting.fence) == (RunState.PENDING, None, 0)


def test_a_coalesced_run_says_how_many_it_stands_for():
    assert plan(due_job(), 9).start[0].coalesced == 9


def test_coalesced_fire_times_are_not_forgotten_when_the_run_is_skipped():
    firing = plan(due_job(), 9, live=1)
    assert not firing.start
    assert accounted(firing) == 10


def test_a_waiting_run_is_admitted_when_there_is_room_for_an_instance():
    (waiting,) = plan(due_job(coalesce=False), 1).wait
    assert admit(waiting, ConcurrencyState(0, 1, 1, Ledger()), START) is None
    assert admit(waiting, ConcurrencyState(1, 1, 1, Ledger()), START) == Refusal("job:job")


def test_a_trigger_that_ends_gives_no_next_time():
    firing = plan(due_job(FirstThen(None)))
    assert seconds(firing.start) == [0]
    assert firing.next_run_time is None


def test_run_ids_differ_within_one_plan():
    firing = plan(due_job(coalesce=False, misfire_grace_time=3), 9)
    ids = [run.id for run in [*firing.start, *firing.wait]] + [record.run.id for record in firing.records]
    assert len(ids) == len(set(ids)) == 10


GARBAGE = {
    "raises": ValueError("no idea"),
    "raises something without a text": KeyError(),
    "stands still": stand_still,
    "goes backwards": go_back,
    "returns a number": 5,
    "returns a text": "tomorrow",
    "returns a naive time": datetime(2030, 1, 1),
    "returns false": False,
    "returns itself": object(),
}


@pytest.mark.parametrize("then", GARBAGE.values(), ids=GARBAGE)
def test_a_job_whose_trigger_misbehaves_is_suspended_with_a_reason(then):
    job = due_job(FirstThen(then))
    planner = FiringPlanner("me", lambda job: None, lambda: "run")
    firing = planner(job, ConcurrencyState(0, 0, 1, Ledger()), START)
    assert firing.suspended
    assert "trigger" in firing.suspended
    assert (firing.start, firing.wait, firing.records, firing.next_run_time) == ((), (), (), None)
    assert job.next_run_time == START


def test_a_job_that_meets_an_obstacle_is_suspended_with_the_reason():
    planner = FiringPlanner("me", lambda job: f"{job.executor} is out of order", lambda: "run")
    firing = planner(due_job(executor="gpu"), ConcurrencyState(0, 0, 1, Ledger()), START)
    assert firing == FiringPlan(suspended="gpu is out of order")


@given(
    period=st.integers(1, 90),
    late=st.integers(0, 20_000),
    coalesce=st.booleans(),
    max_instances=st.integers(1, 5),
    live=st.integers(0, 6),
    grace=st.one_of(st.none(), st.integers(1, 30_000)),
)
def test_every_fire_time_is_run_coalesced_missed_or_skipped(period, late, coalesce, max_instances, live, grace):
    trigger = IntervalTrigger(seconds=period, start_date=START, timezone="UTC")
    job = due_job(trigger, coalesce=coalesce, max_instances=max_instances, misfire_grace_time=grace)
    firing = plan(job, late, live)
    assert accounted(firing) == late // period + 1
    assert len(firing.start) <= max(0, max_instances - live)
    assert seconds([*firing.start, *firing.wait]) == sorted(seconds([*firing.start, *firing.wait]))
    assert firing.next_run_time == START + timedelta(seconds=(late // period + 1) * period)


OUTAGE_DAYS = 30
OUTAGE_TRIGGERS = {
    "interval": lambda: IntervalTrigger(seconds=1, start_date=START, timezone="UTC"),
    "cron": lambda: CronTrigger(second="*", timezone="UTC"),
}


@pytest.mark.parametrize("coalesce", [True, False])
@pytest.mark.parametrize("trigger", OUTAGE_TRIGGERS.values(), ids=OUTAGE_TRIGGERS)
def test_thirty_days_of_a_job_every_second_are_planned_at_once_and_counted_exactly(trigger, coalesce):
    job = due_job(trigger(), coalesce=coalesce)
    late = OUTAGE_DAYS * 86_400
    firing, calls = calls_of(lambda: plan(job, late))
    assert accounted(firing) == late + 1
    assert len(firing.start) + len(firing.wait) == (1 if coalesce else CATCH_UP)
    assert firing.next_run_time == START + timedelta(seconds=late + 1)
    assert calls < 100_000  # there are 2.6 million seconds in between


def test_what_exceeds_the_catch_up_limit_is_recorded_as_missed_in_one_record():
    firing = plan(due_job(coalesce=False), 4999)
    assert [(record.outcome.kind, record.fire_times) for record in firing.records] == [(OutcomeKind.MISSED, 4000)]
    assert firing.records[0].run.scheduled_at == START
    assert seconds(firing.wait)[-1] == 4999


def test_a_users_trigger_with_a_hopeless_backlog_is_planned_in_bounded_work():
    asked = []

    class EveryMillisecond(FirstThen):
        def get_next_fire_time(self, previous_fire_time, now):
            asked.append(previous_fire_time)
            return now if previous_fire_time is None else previous_fire_time + timedelta(milliseconds=1)

    firing = plan(due_job(EveryMillisecond(None)), 86_400)
    assert len(asked) < 100_000
    assert len(firing.start) == 1
    assert firing.next_run_time >= START + timedelta(days=1)
    assert firing.start[0].coalesced > 0


def test_the_fire_times_of_a_job_in_a_zone_are_compared_as_instants():
    zone = timezone(timedelta(hours=9))
    trigger = IntervalTrigger(hours=1, start_date=START.astimezone(zone), timezone=zone)
    firing = plan(due_job(trigger), 7200)
    assert firing.start[0].scheduled_at == START + timedelta(hours=2)
    assert firing.start[0].coalesced == 2
