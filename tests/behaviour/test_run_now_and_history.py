"""A job can be run by hand beside its schedule, and the history tells what ran."""

from __future__ import annotations

import pytest
from behaviour_doubles import START, HoldingExecutor, PickledStore, note
from retry_doubles import play, runs_of, seconds, since_start

from goscheduler import Retry, fixed
from goscheduler.errors import InvalidArgument, JobLookupError
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MODIFIED, EVENT_JOB_SUBMITTED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.testing import EventRecorder, ManualScheduler

NO = ValueError("no")


@pytest.fixture
def held(local_store):
    """A scheduler whose runs end when the test says so."""
    executor = HoldingExecutor()
    with ManualScheduler(jobstores={"default": local_store()}, executors={"default": executor}) as scheduler:
        yield scheduler, executor


# By hand


def test_a_run_by_hand_happens_at_once_and_does_not_move_the_schedule(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_SUBMITTED | EVENT_JOB_EXECUTED | EVENT_JOB_MODIFIED)
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    scheduler.advance(25)
    run_id = scheduler.run_now("job")
    scheduler.run_due()
    assert recorder.codes == [EVENT_JOB_SUBMITTED, EVENT_JOB_EXECUTED]
    assert since_start(scheduler.get_job("job").next_run_time) == 60
    scheduler.advance(100)
    assert seconds() == [25, 60, 120]
    assert [run.run_id == run_id for run in runs_of("job")] == [True, False, False]
    assert [record.source for record in scheduler.runs("job")] == [
        Source.SCHEDULE, Source.SCHEDULE, Source.MANUAL,
    ]


def test_a_run_by_hand_stands_for_the_moment_it_was_asked_for(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    scheduler.advance(25)
    run_id = scheduler.run_now("job")
    scheduler.run_due()
    (record,) = scheduler.runs("job")
    assert (record.run_id, since_start(record.scheduled_at), record.lateness) == (run_id, 25, 0)


def test_every_run_by_hand_is_one_of_its_own(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    assert len({scheduler.run_now("job") for _ in range(5)}) == 5
    scheduler.run_due()
    assert seconds() == [0] * 5


def test_a_paused_job_can_be_run_by_hand_and_stays_paused(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"], next_run_time=None)
    scheduler.run_now("job")
    scheduler.advance("1h")
    assert seconds() == [0]
    assert scheduler.get_job("job").next_run_time is None


def test_a_run_by_hand_waits_while_as_many_instances_as_allowed_are_live(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1)
    scheduler.advance(60)
    run_id = scheduler.run_now("job")
    scheduler.advance(30)
    assert [run.source for run in executor.held] == [Source.SCHEDULE]
    executor.finish()
    scheduler.run_due()
    assert [run.id for run in executor.held] == [run_id]


def test_a_firing_is_skipped_while_a_run_by_hand_is_live(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1)
    scheduler.run_now("job")
    scheduler.advance(60)
    assert [run.source for run in executor.taken] == [Source.MANUAL]
    assert scheduler.runs("job")[0].outcome is OutcomeKind.SKIPPED


def test_where_more_instances_are_allowed_that_many_run_by_hand_together(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, max_instances=3)
    for _ in range(5):
        scheduler.run_now("job")
    scheduler.run_due()
    assert len(executor.held) == 3
    for left in (3, 3, 2, 1, 0):
        executor.finish()
        scheduler.run_due()
        assert len(executor.held) == left
    assert len(executor.taken) == 5


def test_a_run_by_hand_is_never_too_late(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", hours=1, misfire_grace_time=1)
    scheduler.run_now("job")
    scheduler.clock.advance("30m")
    scheduler.run_due()
    assert [run.source for run in executor.held] == [Source.MANUAL]


def test_a_run_by_hand_that_fails_is_retried_and_dead_lettered_like_any_other(scheduler):
    scheduler.add_job(play, "interval", id="job", hours=1, args=[NO], retry=Retry(3, fixed(10)))
    run_id = scheduler.run_now("job")
    scheduler.advance(60)
    assert seconds() == [0, 10, 20]
    assert [letter.run.id for letter in scheduler.dead_letters("job")] == [run_id]


def test_the_removal_of_a_job_ends_what_was_asked_for_by_hand(scheduler):
    scheduler.add_job(play, "interval", id="job", hours=1)
    scheduler.run_now("job")
    scheduler.remove_job("job")
    scheduler.advance(60)
    assert seconds() == []


@pytest.mark.parametrize("job_id", ["nobody", "", 5, None])
def test_a_job_that_is_unknown_cannot_be_run_by_hand(scheduler, job_id):
    with pytest.raises(JobLookupError):
        scheduler.run_now(job_id)


def test_a_job_can_only_be_run_by_hand_where_it_is(scheduler):
    scheduler.add_job(play, "interval", id="job", hours=1, args=["well"])
    with pytest.raises(JobLookupError):
        scheduler.run_now("job", "elsewhere")
    scheduler.run_now("job", "default")
    scheduler.run_due()
    assert seconds() == [0]


def test_a_stopped_scheduler_runs_nothing_by_hand():
    scheduler = ManualScheduler()
    scheduler.add_job(play, "interval", id="job", hours=1)
    with pytest.raises(JobLookupError, match="job"):
        scheduler.run_now("job")


def test_a_paused_scheduler_keeps_a_run_by_hand_until_it_is_resumed(scheduler):
    scheduler.add_job(play, "interval", id="job", hours=1, args=["well"])
    scheduler.pause()
    scheduler.run_now("job")
    scheduler.advance(30)
    assert seconds() == []
    scheduler.resume()
    scheduler.run_due()
    assert seconds() == [30]


def test_a_run_by_hand_wakes_a_scheduler_that_sleeps(background):
    recorder = EventRecorder(background, EVENT_JOB_EXECUTED)
    background.start()
    background.add_job(play, "interval", id="job", hours=1, args=["well"])
    run_id = background.run_now("job")
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60).run_id == run_id


def test_what_is_asked_for_by_a_running_job_or_a_listener_happens_at_that_moment(scheduler):
    scheduler.add_job(play, "interval", id="job", hours=1, args=["well"])
    scheduler.add_job(play, "date", id="first", run_date="2026-01-01T00:00:10Z", args=["well"])
    scheduler.add_listener(
        lambda event: scheduler.run_now("job") if event.job_id == "first" else None, EVENT_JOB_EXECUTED
    )
    scheduler.advance(100)
    assert seconds("job") == [10]


# The history


def test_the_history_has_one_record_for_each_attempt_and_each_fire_time_that_was_not_run(scheduler):
    scheduler.add_job(play, id="job", args=[NO, "well"], retry=Retry(3, fixed(10)))
    scheduler.add_job(play, "date", id="late", run_date=START, misfire_grace_time=1)
    scheduler.clock.advance(5)
    scheduler.advance(60)
    assert sorted((record.job_id, record.attempt, record.outcome) for record in scheduler.runs()) == [
        ("job", 1, OutcomeKind.FAILED), ("job", 2, OutcomeKind.SUCCEEDED), ("late", 1, OutcomeKind.MISSED),
    ]


def test_a_record_tells_when_how_long_and_how_an_attempt_went(scheduler):
    scheduler.add_job(play, "date", id="job", run_date=START, args=[NO])
    scheduler.clock.advance(5)
    scheduler.run_due()
    (record,) = scheduler.runs()
    assert (record.scheduled_at, since_start(record.started_at), record.lateness) == (START, 5, 5)
    assert (record.outcome, record.error_message) == (OutcomeKind.FAILED, "no")
    assert "retry_doubles.py" in record.traceback


def test_a_record_tells_how_long_a_job_took_and_what_it_returned():
    with ManualScheduler() as scheduler:
        def work():
            scheduler.clock.advance(3)
            return 42

        scheduler.add_job(work, id="job")
        scheduler.run_due()
        (record,) = scheduler.runs("job")
        assert (record.result, record.seconds) == ("42", 3)
        assert since_start(record.finished_at) == 3


def test_the_history_comes_newest_first_and_no_more_than_wanted(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    scheduler.add_job(play, "interval", id="other", minutes=1, args=["well"], start_date="2026-01-01T00:00:30Z")
    scheduler.advance(185)

    def times(**options):
        return [since_start(record.scheduled_at) for record in scheduler.runs(**options)]

    assert times() == [180, 150, 120, 90, 60, 30]
    assert times(limit=2) == [180, 150]
    assert times(job_id="other") == [150, 90, 30]
    assert times(job_id="other", limit=1) == [150]
    assert times(job_id="nobody") == []
    with pytest.raises(KeyError, match="No such job store: elsewhere"):
        times(jobstore="elsewhere")


def test_a_hundred_records_are_given_unless_more_are_wanted(scheduler):
    scheduler.add_job(play, "interval", id="job", seconds=1, args=["well"])
    scheduler.advance(150)
    assert len(scheduler.runs()) == 100
    assert len(scheduler.runs(limit=1000)) == 150


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5", None, 10**9, float("nan")])
def test_a_limit_that_is_no_number_of_records_is_refused(scheduler, limit):
    with pytest.raises(InvalidArgument, match=r"^limit must be ") as caught:
        scheduler.runs(limit=limit)
    assert caught.value.field == "limit"


def test_the_history_of_several_stores_comes_in_one_order():
    with ManualScheduler(jobstores={"default": MemoryJobStore(), "other": PickledStore()}) as scheduler:
        scheduler.add_job(play, "interval", id="a", minutes=1, args=["well"])
        scheduler.add_job(play, "interval", id="b", seconds=80, args=["well"], jobstore="other")
        scheduler.advance(200)
        assert [record.job_id for record in scheduler.runs()] == ["a", "b", "a", "b", "a"]
        assert [record.job_id for record in scheduler.runs(limit=2, jobstore="other")] == ["b", "b"]


def test_the_history_outlives_its_job(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    scheduler.advance(60)
    scheduler.remove_job("job")
    assert len(scheduler.runs("job")) == 1


def test_the_memory_store_remembers_as_many_attempts_as_it_was_told():
    with ManualScheduler(jobstores={"default": MemoryJobStore(history=3)}) as scheduler:
        scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
        scheduler.advance("10m")
        assert [since_start(record.scheduled_at) for record in scheduler.runs()] == [600, 540, 480]
