"""What a firing does that finds as many runs of its job going on as there may be."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, note
from ending_doubles import Patient, WatchedThreads, check, outcomes, pass_time, settled

from goscheduler import Retry
from goscheduler.events import EVENT_JOB_CANCELLED, EVENT_JOB_MAX_INSTANCES
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.plan import CATCH_UP
from goscheduler.testing import EventRecorder, ManualScheduler


class Witness(HoldingExecutor):
    """Remembers the most runs of one job that it has had at a time."""

    def __init__(self):
        super().__init__()
        self.most = Counter()

    def submit(self, run):
        super().submit(run)
        live = Counter(held.job.id for held in self.held)
        self.most |= live


@pytest.fixture
def executor():
    return Witness()


@pytest.fixture
def scheduler(schedulers, executor):
    made = schedulers(ManualScheduler, executors={"default": executor})
    made.start()
    return made


def finish(scheduler, executor, kind=OutcomeKind.SUCCEEDED):
    """End the oldest run, let the scheduler see it, and return its fire time in minutes."""
    run = executor.finish(kind)
    scheduler.run_due()
    return minutes(run)


def minutes(run):
    return (run.scheduled_at - START) / timedelta(minutes=1)


def fire_times(executor):
    """Return the fire times of the runs that were started, in minutes."""
    return [minutes(run) for run in executor.taken]


def every_minute(scheduler, **options):
    return scheduler.add_job(note, "interval", minutes=1, id="job", **options)


# Skip


def test_by_default_a_firing_is_skipped_while_another_run_goes_on(scheduler, executor):
    recorder = EventRecorder(scheduler, EVENT_JOB_MAX_INSTANCES)
    every_minute(scheduler)
    scheduler.advance("3m")
    assert (fire_times(executor), outcomes(scheduler)) == ([1], ["skipped", "skipped"])
    assert len(recorder.events) == 2
    finish(scheduler, executor)
    scheduler.advance("1m")
    assert fire_times(executor) == [1, 4]


# Queue


def test_firings_that_queue_run_one_after_the_other_in_their_order(scheduler, executor):
    every_minute(scheduler, overlap="queue")
    scheduler.advance("5m")
    assert fire_times(executor) == [1]
    ended = [finish(scheduler, executor) for _ in range(5)]
    assert ended == [1, 2, 3, 4, 5]
    assert executor.most["job"] == 1
    assert outcomes(scheduler) == ["succeeded"] * 5


def test_a_firing_does_not_overtake_those_that_queue(scheduler, executor):
    every_minute(scheduler, overlap="queue")
    scheduler.advance("3m")
    executor.finish()
    scheduler.clock.advance(60)
    scheduler.run_due()  # the end of the first and the fourth firing come in one round
    assert fire_times(executor) == [1, 2]
    for _ in range(3):
        finish(scheduler, executor)
    assert fire_times(executor) == [1, 2, 3, 4]


def test_as_many_as_there_may_be_run_at_a_time_from_the_queue(scheduler, executor):
    every_minute(scheduler, overlap="queue", max_instances=3)
    scheduler.advance("10m")
    assert fire_times(executor) == [1, 2, 3]
    while executor.held:
        finish(scheduler, executor)
    assert fire_times(executor) == [*range(1, 11)]
    assert executor.most["job"] == 3


def test_a_queue_is_bounded_and_what_does_not_fit_is_recorded_as_skipped(scheduler, executor):
    scheduler.add_job(note, "interval", seconds=1, id="job", overlap="queue")
    scheduler.advance(CATCH_UP + 4)
    assert len(scheduler.live_runs("job")) == CATCH_UP + 1
    assert outcomes(scheduler) == ["skipped"] * 3
    assert scheduler.runs("job")[0].reason == f"{CATCH_UP} runs of it wait already"


def test_a_run_that_was_asked_for_queues_behind_those_that_wait(scheduler, executor):
    every_minute(scheduler, overlap="queue")
    scheduler.advance("2m")
    run_id = scheduler.run_now("job")
    scheduler.advance("1m")
    started = []
    while executor.held:
        started.append(executor.held[0].id)
        finish(scheduler, executor)
    assert (len(started), started[2]) == (4, run_id)


# Cancel the running one


@pytest.fixture
def pool():
    return WatchedThreads(max_workers=4)


@pytest.fixture
def threaded(schedulers, pool):
    made = schedulers(ManualScheduler, executors={"default": pool})
    made.start()
    return made


@pytest.fixture
def patient():
    job = Patient(check)
    yield job
    job.go(100)


def test_a_firing_takes_the_place_of_the_run_that_goes_on(threaded, pool, patient):
    recorder = EventRecorder(threaded)
    threaded.add_job(patient, "interval", minutes=1, id="job", overlap="cancel_running", retry=3)
    threaded.advance("1m")
    patient.await_start()
    threaded.advance("1m")
    assert pool.reasons == ["a newer run of its job takes its place"]
    assert [live.state for live in threaded.live_runs()] == ["running", "pending"]
    patient.go()
    settled(threaded, pool)
    patient.await_start()
    (live,) = threaded.live_runs()
    assert (live.state, live.scheduled_at) == ("running", START + timedelta(minutes=2))
    assert outcomes(threaded) == ["cancelled"]
    assert len(recorder.of(EVENT_JOB_CANCELLED)) == 1


def test_a_run_that_does_not_make_place_is_given_up(threaded, pool, patient):
    threaded.add_job(patient, "interval", minutes=1, id="job", overlap="cancel_running")
    threaded.advance("1m")
    patient.await_start()
    threaded.advance("1m")
    pass_time(threaded, 5)
    patient.await_start()
    assert (patient.count, outcomes(threaded)) == (2, ["cancelled"])


def test_while_one_waits_for_the_place_further_firings_are_skipped(scheduler, executor):
    every_minute(scheduler, overlap="cancel_running")
    scheduler.add_executor("debug", "other")
    executor.grace_seconds = 3600.0
    executor.cancel = lambda run, reason: True  # it is told, and takes its time
    scheduler.advance("4m")
    assert fire_times(executor) == [1]
    assert outcomes(scheduler) == ["skipped", "skipped"]
    assert scheduler.runs()[0].reason == "a run of it waits already"
    finish(scheduler, executor, OutcomeKind.CANCELLED)
    assert fire_times(executor) == [1, 2]


def test_a_retry_in_an_hour_does_not_cost_the_newer_run_its_place(scheduler, executor):
    executor.cancel = lambda run, reason: True
    every_minute(scheduler, overlap="cancel_running", retry=Retry(5, backoff=3600))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance("2m")  # the second runs, the third wants its place
    finish(scheduler, executor, OutcomeKind.CANCELLED)
    assert fire_times(executor) == [1, 2, 3]
    assert outcomes(scheduler) == ["failed", "cancelled"]


def test_a_queued_run_makes_place_without_having_started(threaded, pool, patient):
    others = [Patient() for _ in range(4)]
    for other in others:
        threaded.add_job(other)
    threaded.run_due()
    for other in others:
        other.await_start()
    threaded.add_job(patient, "interval", minutes=1, id="job", overlap="cancel_running")
    threaded.advance("2m")
    assert outcomes(threaded, "job") == ["cancelled"]
    for other in others:
        other.go()
    patient.await_start()
    assert patient.count == 1
    (live,) = threaded.live_runs("job")
    assert live.scheduled_at == START + timedelta(minutes=2)


# Allow


def test_firings_run_beside_each_other_if_that_is_allowed(scheduler, executor):
    every_minute(scheduler, overlap="allow")
    scheduler.advance("5m")
    assert fire_times(executor) == [1, 2, 3, 4, 5]
    assert executor.most["job"] == 5
    assert outcomes(scheduler) == []


def test_a_run_that_was_asked_for_runs_beside_the_others_if_that_is_allowed(scheduler, executor):
    every_minute(scheduler, overlap="allow")
    scheduler.advance("1m")
    scheduler.run_now("job")
    scheduler.run_due()
    assert executor.most["job"] == 2


# Retries


@pytest.mark.parametrize(("overlap", "started", "skipped"), [
    ("skip", [1, 2, 1], 0),
    ("queue", [1, 2, 1], 0),
    ("cancel_running", [1, 2, 1], 0),
])  # fmt: skip
def test_a_retry_waits_while_the_next_firing_runs(scheduler, executor, overlap, started, skipped):
    every_minute(scheduler, overlap=overlap, retry=Retry(2, backoff=90))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance("1m45s")  # the second has started at 2:00, the retry was due at 2:30
    assert fire_times(executor) == [1, 2]
    scheduler.pause_job("job")
    finish(scheduler, executor)
    assert (fire_times(executor), executor.most["job"]) == (started, 1)
    assert outcomes(scheduler).count("skipped") == skipped


def test_the_next_firing_is_skipped_while_a_retry_runs(scheduler, executor):
    every_minute(scheduler, retry=Retry(2, backoff=30))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance("1m")
    assert (fire_times(executor), outcomes(scheduler)) == ([1, 1], ["failed", "skipped"])


def test_the_next_firing_waits_while_a_retry_runs_if_the_job_queues(scheduler, executor):
    every_minute(scheduler, overlap="queue", retry=Retry(2, backoff=30))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance("1m")
    assert fire_times(executor) == [1, 1]
    finish(scheduler, executor)
    assert (fire_times(executor), executor.most["job"]) == ([1, 1, 2], 1)


def test_a_retry_runs_beside_the_next_firing_if_that_is_allowed(scheduler, executor):
    every_minute(scheduler, overlap="allow", retry=Retry(2, backoff=90))
    scheduler.advance("1m")
    finish(scheduler, executor, OutcomeKind.FAILED)
    scheduler.advance("1m45s")
    assert (fire_times(executor), executor.most["job"]) == ([1, 2, 1], 2)


# Changes


def test_a_job_that_is_changed_to_queue_does_so_from_its_next_firing(scheduler, executor):
    every_minute(scheduler)
    scheduler.advance("2m")
    scheduler.modify_job("job", overlap="queue")
    scheduler.advance("1m")
    finish(scheduler, executor)
    assert fire_times(executor) == [1, 3]


def test_the_runs_of_a_removed_job_that_wait_are_gone(scheduler, executor):
    every_minute(scheduler, overlap="queue")
    scheduler.advance("4m")
    scheduler.remove_job("job")
    finish(scheduler, executor)
    assert (fire_times(executor), scheduler.live_runs()) == ([1], [])


def test_a_round_that_takes_long_does_not_delay_the_next_firing(schedulers):
    scheduler = schedulers(ManualScheduler)
    starts = []

    def job():
        starts.append((scheduler.clock.now() - START).total_seconds())
        if len(starts) == 1:
            scheduler.clock.advance(90)

    scheduler.start()
    scheduler.add_job(job, "interval", minutes=1, id="job")
    scheduler.advance("4m")
    assert starts == [60, 150, 180, 240]
