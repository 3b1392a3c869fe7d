"""A run whose last attempt has failed is kept until somebody redrives or discards it."""

from __future__ import annotations

import threading

import pytest
from behaviour_doubles import LOCAL_STORES, START, HoldingExecutor, PickledStore, note
from retry_doubles import attempts, play, seconds, since_start

from goscheduler import GiveUp, Retry, fixed
from goscheduler.errors import InvalidArgument, RunLookupError
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.schedulers import _runs
from goscheduler.testing import EventRecorder, ManualScheduler

NO = ValueError("no")
TWICE = Retry(2, fixed(10))


def dead_jobs(scheduler, **options):
    """Return the job ids of the dead letters, newest first."""
    return [letter.record.job_id for letter in scheduler.dead_letters(**options)]


def let_die(scheduler, *job_ids, steps=(NO,), **options):
    """Let runs of these jobs fail for good, one after the other, and return their run ids."""
    for job_id in job_ids:
        scheduler.add_job(play, id=job_id, args=steps, **{"retry": TWICE, **options})
        scheduler.advance(15)
    return [letter.run.id for letter in reversed(scheduler.dead_letters())]


# What becomes a dead letter


def test_a_dead_letter_tells_of_the_last_attempt_and_why_there_are_no_more(scheduler):
    let_die(scheduler, "job")
    (letter,) = scheduler.dead_letters()
    record = letter.record
    assert letter.reason == "attempt 2 of 2 failed"
    assert (record.job_id, record.attempt, record.scheduled_at) == ("job", 2, START)
    assert (record.outcome, record.error_message) == (OutcomeKind.FAILED, "no")
    assert "retry_doubles.py" in record.traceback
    assert since_start(record.finished_at) == 10
    assert record == scheduler.runs("job")[0]


@pytest.mark.parametrize(("options", "kept"), [
    ({}, 0),
    ({"retry": None}, 0),
    ({"retry": 1}, 1),
    ({"retry": TWICE}, 1),
    ({"dead_letter": True}, 1),
    ({"retry": None, "dead_letter": True}, 1),
    ({"retry": TWICE, "dead_letter": True}, 1),
    ({"retry": TWICE, "dead_letter": False}, 0),
    ({"retry": TWICE, "dead_letter": None}, 1),
    ({"retry": None, "dead_letter": None}, 0),
])
def test_whether_a_failed_run_is_kept_follows_from_its_options(scheduler, options, kept):
    recorder = EventRecorder(scheduler, EVENT_JOB_DEAD_LETTERED)
    scheduler.add_job(play, id="job", args=[NO], **options)
    scheduler.advance(60)
    assert len(scheduler.dead_letters()) == len(recorder.events) == kept


def test_what_succeeds_or_snoozes_or_is_missed_leaves_no_dead_letter(scheduler):
    scheduler.add_job(play, id="job", args=[NO, "well"], retry=TWICE)
    scheduler.add_job(play, id="late", run_date=START, trigger="date", misfire_grace_time=1, retry=TWICE)
    scheduler.clock.advance(60)
    scheduler.advance(60)
    assert OutcomeKind.MISSED in {record.outcome for record in scheduler.runs()}
    assert scheduler.dead_letters() == []


def test_a_listener_that_fails_loses_no_dead_letter(scheduler):
    def fail(event):
        raise RuntimeError("the hook failed")

    scheduler.add_listener(fail, EVENT_JOB_DEAD_LETTERED)
    heard = EventRecorder(scheduler, EVENT_JOB_DEAD_LETTERED)
    let_die(scheduler, "a", "b")
    assert dead_jobs(scheduler) == ["b", "a"]
    assert [event.job_id for event in heard.events] == ["a", "b"]


def test_whoever_hears_of_a_dead_letter_can_redrive_it_at_once(scheduler):
    scheduler.add_listener(lambda event: scheduler.redrive(event.run_id), EVENT_JOB_DEAD_LETTERED)
    scheduler.add_job(play, id="job", args=[NO, NO, NO, "well"], retry=TWICE)
    scheduler.advance(60)
    assert attempts() == [1, 2, 3, 4]
    assert seconds() == [0, 10, 10, 10]
    assert scheduler.dead_letters() == []


# Listing


def test_dead_letters_come_newest_first_and_no_more_than_wanted(scheduler):
    let_die(scheduler, "a", "b", "c")
    assert dead_jobs(scheduler) == ["c", "b", "a"]
    assert dead_jobs(scheduler, limit=2) == ["c", "b"]
    assert dead_jobs(scheduler, job_id="b") == ["b"]
    assert dead_jobs(scheduler, job_id="nobody") == []
    assert dead_jobs(scheduler, jobstore="default", limit=1) == ["c"]
    with pytest.raises(KeyError, match="No such job store: elsewhere"):
        scheduler.dead_letters(jobstore="elsewhere")


def test_every_firing_of_a_job_can_leave_a_dead_letter(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO], retry=TWICE)
    scheduler.advance(200)
    assert [since_start(letter.record.scheduled_at) for letter in scheduler.dead_letters("job")] == [180, 120, 60]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "5", None, 10**9])
def test_a_limit_that_is_no_number_of_records_is_refused(scheduler, limit):
    with pytest.raises(InvalidArgument, match=r"^limit must be ") as caught:
        scheduler.dead_letters(limit=limit)
    assert caught.value.field == "limit"


def test_dead_letters_of_several_stores_come_in_one_order():
    stores = {"default": MemoryJobStore(), "other": PickledStore()}
    with ManualScheduler(jobstores=stores) as scheduler:
        let_die(scheduler, "a")
        let_die(scheduler, "b", jobstore="other")
        let_die(scheduler, "c")
        assert dead_jobs(scheduler) == ["c", "b", "a"]
        assert dead_jobs(scheduler, jobstore="other") == ["b"]
        assert scheduler.redrive_all(jobstore="other") == 1
        assert dead_jobs(scheduler) == ["c", "a"]
        scheduler.run_due()
        assert attempts("b") == [1, 2, 3]


# Redriving


def test_a_redriven_run_gets_exactly_one_more_attempt_and_is_dead_again_if_that_fails(scheduler):
    (run_id,) = let_die(scheduler, "job")
    scheduler.redrive(run_id)
    assert scheduler.dead_letters() == []
    scheduler.advance("1h")
    assert attempts() == [1, 2, 3]
    assert seconds()[-1] == 15
    (letter,) = scheduler.dead_letters()
    assert (letter.run.id, letter.record.attempt) == (run_id, 3)
    assert letter.record.source is Source.REDRIVE
    scheduler.redrive(run_id)
    scheduler.advance("1h")
    assert attempts() == [1, 2, 3, 4]


def test_a_redriven_run_that_succeeds_is_no_dead_letter_any_more(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    (run_id,) = let_die(scheduler, "job", steps=(NO, NO, "well"))
    scheduler.redrive(run_id)
    scheduler.advance(60)
    assert scheduler.dead_letters() == []
    assert [(event.run_id, event.attempt, event.retval) for event in recorder.events] == [(run_id, 3, "well")]
    assert scheduler.runs("job")[0].scheduled_at == START


def test_a_run_that_gave_up_can_be_redriven(scheduler):
    (run_id,) = let_die(scheduler, "job", steps=(GiveUp("closed"), "well"))
    scheduler.redrive(run_id)
    scheduler.advance(60)
    assert attempts() == [1, 2]
    assert scheduler.dead_letters() == []


def test_a_run_without_a_retry_policy_can_be_redriven(scheduler):
    (run_id,) = let_die(scheduler, "job", retry=None, dead_letter=True)
    scheduler.redrive(run_id)
    scheduler.advance(60)
    assert attempts() == [1, 2]
    assert scheduler.dead_letters()[0].reason == "attempt 2 failed, beyond the 1 of its policy"


def test_a_redrive_comes_neither_too_late_for_the_grace_time_nor_for_the_deadline(scheduler):
    policy = Retry(2, fixed(10), deadline=20)
    (run_id,) = let_die(scheduler, "job", steps=(NO, NO, "well"), misfire_grace_time=1, retry=policy)
    scheduler.advance("1d")
    scheduler.redrive(run_id)
    scheduler.advance(1)
    assert scheduler.runs("job")[0].outcome is OutcomeKind.SUCCEEDED


def test_the_dead_letters_of_one_job_are_redriven_together(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO], retry=TWICE)
    scheduler.add_job(play, "interval", id="other", minutes=1, args=[NO], retry=TWICE)
    scheduler.advance(200)
    assert scheduler.redrive_all("job") == 3
    assert dead_jobs(scheduler) == ["other"] * 3
    scheduler.run_due()
    assert sorted(dead_jobs(scheduler)) == ["job"] * 3 + ["other"] * 3
    assert len(attempts("job")) == 9
    assert len(attempts("other")) == 6


def test_redriving_where_there_is_nothing_does_nothing(scheduler):
    assert scheduler.redrive_all() == 0
    assert scheduler.redrive_all("nobody") == 0
    with pytest.raises(KeyError, match="No such job store: elsewhere"):
        scheduler.redrive_all(jobstore="elsewhere")


def test_all_dead_letters_are_redriven_even_if_they_are_more_than_can_be_listed_at_once(scheduler, monkeypatch):
    let_die(scheduler, "a", "b", "c", "d", "e")
    monkeypatch.setattr(_runs, "REDRIVE_BATCH", 2)
    assert scheduler.redrive_all() == 5
    scheduler.run_due()
    assert [len(attempts(job_id)) for job_id in "abcde"] == [3] * 5


@pytest.mark.parametrize("method", ["redrive", "discard_dead_letter"])
@pytest.mark.parametrize("run_id", ["nobody", "", 5, None])
def test_an_unknown_dead_letter_is_an_error_that_names_it(scheduler, method, run_id):
    with pytest.raises(RunLookupError) as caught:
        getattr(scheduler, method)(run_id)
    assert caught.value.run_id == run_id
    assert str(run_id) in str(caught.value)
    assert isinstance(caught.value, KeyError)


def test_a_dead_letter_is_redriven_once(scheduler):
    (run_id,) = let_die(scheduler, "job")
    scheduler.redrive(run_id)
    with pytest.raises(RunLookupError):
        scheduler.redrive(run_id)
    with pytest.raises(RunLookupError):
        scheduler.discard_dead_letter(run_id)


def test_of_many_who_redrive_the_same_dead_letter_one_does(scheduler):
    (run_id,) = let_die(scheduler, "job")
    barrier, won = threading.Barrier(8), []

    def redrive():
        barrier.wait(60)
        try:
            scheduler.redrive(run_id)
        except RunLookupError:
            return
        won.append(run_id)

    threads = [threading.Thread(target=redrive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scheduler.run_due()
    assert won == [run_id]
    assert attempts() == [1, 2, 3]


def test_a_discarded_dead_letter_is_gone_and_the_history_is_not(scheduler):
    first, second = let_die(scheduler, "a", "b")
    scheduler.discard_dead_letter(first)
    assert dead_jobs(scheduler) == ["b"]
    scheduler.advance("1h")
    assert attempts("a") == [1, 2]
    assert len(scheduler.runs("a")) == 2
    scheduler.discard_dead_letter(second)
    assert scheduler.dead_letters() == []


def test_a_redrive_moves_no_schedule(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO, NO, "well"], retry=TWICE)
    scheduler.advance(75)
    assert scheduler.redrive_all() == 1
    scheduler.run_due()
    assert since_start(scheduler.get_job("job").next_run_time) == 120
    scheduler.advance(60)
    assert seconds() == [60, 70, 75, 120]


@pytest.mark.parametrize("store", LOCAL_STORES)
def test_a_redriven_run_waits_while_as_many_instances_as_allowed_are_live(store):
    executor = HoldingExecutor()
    with ManualScheduler(jobstores={"default": store()}, executors={"default": executor}) as scheduler:
        scheduler.add_job(note, "interval", id="job", minutes=1, retry=1)
        scheduler.advance(60)
        executor.finish(OutcomeKind.FAILED)
        scheduler.advance(60)
        assert scheduler.redrive_all() == 1
        scheduler.run_due()
        assert len(executor.held) == 1
        executor.finish()
        scheduler.run_due()
        assert [(run.attempt, run.source) for run in executor.held] == [(2, Source.REDRIVE)]


def test_the_dead_letters_of_a_removed_job_stay_and_can_be_redriven(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO], retry=TWICE)
    scheduler.advance(75)
    scheduler.remove_job("job")
    assert dead_jobs(scheduler) == ["job"]
    assert scheduler.redrive_all("job") == 1
    scheduler.run_due()
    assert attempts() == [1, 2, 3]


def test_dead_letters_outlive_a_restart_of_the_scheduler_where_the_store_does():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as first:
        (run_id,) = let_die(first, "job")
    with ManualScheduler(jobstores={"default": store}) as second:
        second.redrive(run_id)
        second.run_due()
    assert attempts() == [1, 2, 3]


def test_a_redrive_wakes_a_scheduler_that_sleeps(background):
    recorder = EventRecorder(background)
    background.start()
    background.add_job(play, id="job", args=[NO, "well"], retry=1)
    run_id = recorder.wait_for(EVENT_JOB_DEAD_LETTERED, "job").run_id
    background.redrive(run_id)
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60).attempt == 2


def test_every_attempt_of_many_failing_jobs_is_counted_and_none_is_made_twice(scheduler):
    many = 300
    recorder = EventRecorder(scheduler, EVENT_JOB_ERROR)
    for number in range(many):
        scheduler.add_job(play, id=f"{number}", args=[NO], retry=Retry(3, fixed(1)))
    scheduler.advance(60)
    assert len(scheduler.runs(limit=10 * many)) == len(recorder.events) == 3 * many
    assert len(scheduler.dead_letters(limit=10 * many)) == many
    assert scheduler.redrive_all() == many
    scheduler.advance("1h")
    assert len(scheduler.runs(limit=10 * many)) == len(recorder.events) == 4 * many
    assert len(scheduler.dead_letters(limit=10 * many)) == many
    assert {letter.record.attempt for letter in scheduler.dead_letters(limit=10 * many)} == {4}


def test_many_failing_jobs_on_threads_make_exactly_their_attempts(background):
    many = 300
    recorder = EventRecorder(background)
    background.start()
    for number in range(many):
        background.add_job(play, id=f"{number}", args=[NO], retry=Retry(3, fixed(0.01)))
    recorder.wait_for(EVENT_JOB_DEAD_LETTERED, count=many, timeout=60)
    assert len(background.runs(limit=10 * many)) == 3 * many
    assert len(background.dead_letters(limit=10 * many)) == many
    assert background.redrive_all() == many
    recorder.wait_for(EVENT_JOB_DEAD_LETTERED, count=2 * many, timeout=60)
    assert len(background.runs(limit=10 * many)) == 4 * many
    assert len(background.dead_letters(limit=10 * many)) == many
