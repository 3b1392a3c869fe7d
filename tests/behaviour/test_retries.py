"""What fails is tried again, when its policy says, and the schedule takes no notice."""

from __future__ import annotations

import asyncio
import io
import itertools
from datetime import timedelta

import pytest
import retry_doubles
from behaviour_doubles import START, HoldingExecutor, PickledStore, die, note, within
from retry_doubles import attempts, play, play_in, play_later, runs_of, seconds, since_start

from goscheduler import GiveUp, Retry, RetryLater, Snooze, exponential, fixed, linear
from goscheduler.errors import InvalidArgument
from goscheduler.events import (
    EVENT_JOB_DEAD_LETTERED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    EVENT_JOB_RETRIED,
    EVENT_JOB_SUBMITTED,
)
from goscheduler.executors.pool import ProcessPoolExecutor
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.testing import EventRecorder, ManualScheduler

NO = ValueError("no")
SOON = Retry(3, fixed(0.01))


@pytest.fixture
def held(local_store):
    """A scheduler whose runs end when the test says so."""
    executor = HoldingExecutor()
    with ManualScheduler(jobstores={"default": local_store()}, executors={"default": executor}) as scheduler:
        yield scheduler, executor


def kinds(scheduler, job_id="job"):
    """Return how the attempts at a job ended, oldest first."""
    return [record.outcome for record in reversed(scheduler.runs(job_id))]


# When


@pytest.mark.parametrize(("retry", "times"), [
    (None, [0]),
    (1, [0]),
    (3, [0, 1, 3]),
    (Retry(3, fixed(0)), [0, 0, 0]),
    (Retry(4, fixed(10)), [0, 10, 20, 30]),
    (Retry(4, linear(10)), [0, 10, 30, 60]),
    (Retry(4, linear(10, cap=15)), [0, 10, 25, 40]),
    (Retry(5, exponential(2, factor=3)), [0, 2, 8, 26, 80]),
    (Retry(5, exponential(1, cap=3)), [0, 1, 3, 6, 9]),
    (Retry(9, fixed(10), deadline=35), [0, 10, 20, 30]),
    (Retry(9, fixed(10), deadline=30), [0, 10, 20, 30]),
    (Retry(9, retry_on=KeyError), [0]),
    (Retry(9, give_up_on=ValueError), [0]),
    (Retry(2, fixed(86_400)), [0, 86_400]),
])
def test_a_failing_run_is_tried_again_at_exactly_the_times_of_its_policy(scheduler, retry, times):
    scheduler.add_job(play, id="job", args=[NO], retry=retry)
    scheduler.advance("2d")
    assert seconds() == times
    assert attempts() == list(range(1, len(times) + 1))


def test_the_first_success_ends_the_retries(scheduler):
    scheduler.add_job(play, id="job", args=[NO, NO, "well"], retry=Retry(9, fixed(10)))
    scheduler.advance("1h")
    assert seconds() == [0, 10, 20]
    assert kinds(scheduler) == [OutcomeKind.FAILED, OutcomeKind.FAILED, OutcomeKind.SUCCEEDED]
    assert scheduler.dead_letters() == []


def test_a_deadline_counts_from_the_fire_time_of_each_firing(scheduler):
    scheduler.add_job(play, "interval", id="job", seconds=100, args=[NO], retry=Retry(9, fixed(30), deadline=60))
    scheduler.advance(280)
    assert seconds() == [100, 130, 160, 200, 230, 260]


def test_every_attempt_knows_its_number_and_is_at_the_same_firing(scheduler):
    scheduler.add_job(play, id="job", args=[NO], retry=Retry(3, fixed(5)))
    scheduler.advance(60)
    runs = runs_of("job")
    assert len({run.run_id for run in runs}) == len({run.fire_id for run in runs}) == 1
    assert {run.scheduled_at for run in runs} == {START}
    assert runs[0].fence < runs[1].fence < runs[2].fence
    recorded = scheduler.runs("job")[::-1]
    assert [record.source for record in recorded] == [Source.SCHEDULE, Source.RETRY, Source.RETRY]
    assert [since_start(record.started_at) for record in recorded] == [0, 5, 10]
    assert [record.fire_id for record in recorded] == [run.fire_id for run in runs]


def test_the_retries_of_many_runs_do_not_disturb_one_another(scheduler):
    for number in range(20):
        scheduler.add_job(play, id=str(number), args=[NO], retry=Retry(3, fixed(number)))
    scheduler.advance(100)
    assert {number: seconds(str(number)) for number in range(20)} == {
        number: [0, number, 2 * number] for number in range(20)
    }


# Beside the schedule


def test_retries_do_not_move_the_schedule(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO, NO, "well"], retry=Retry(5, fixed(7)))
    for _ in range(20):
        scheduler.advance(5)
        passed = since_start(scheduler.clock.now())
        assert since_start(scheduler.get_job("job").next_run_time) == (passed // 60 + 1) * 60
    scheduler.advance(200)
    assert seconds() == [60, 67, 74, 120, 180, 240, 300]


def test_a_run_of_a_job_that_is_over_is_still_tried_again(scheduler):
    scheduler.add_job(play, id="job", args=[NO], retry=Retry(3, fixed(5)))
    scheduler.run_due()
    assert scheduler.get_jobs() == []
    scheduler.advance(60)
    assert seconds() == [0, 5, 10]


def test_a_retry_waits_while_as_many_instances_as_allowed_are_live(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, retry=Retry(3, fixed(90)))
    scheduler.advance(60)
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance(60)
    assert [(run.attempt, since_start(run.scheduled_at)) for run in executor.held] == [(1, 120)]
    scheduler.advance(45)  # the retry is due since 150
    assert len(executor.held) == 1
    executor.finish()
    scheduler.run_due()
    assert [(run.attempt, since_start(run.scheduled_at)) for run in executor.held] == [(2, 60)]


def test_a_firing_is_skipped_while_a_retry_is_live_and_the_next_one_is_not(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, retry=Retry(3, fixed(50)))
    scheduler.advance(60)
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance(60)
    assert [(run.attempt, since_start(run.scheduled_at)) for run in executor.held] == [(2, 60)]
    assert kinds(scheduler) == [OutcomeKind.FAILED, OutcomeKind.SKIPPED]
    executor.finish()
    scheduler.advance(60)
    assert [(run.attempt, since_start(run.scheduled_at)) for run in executor.held] == [(1, 180)]


def test_a_retry_and_a_firing_due_at_the_same_moment_run_one_after_the_other(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, retry=Retry(3, fixed(60)))
    scheduler.advance(60)
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance(60)
    assert len(executor.held) == 1
    executor.finish()
    scheduler.run_due()
    assert len(executor.held) == 1
    executor.finish()
    scheduler.run_due()
    taken = [(run.attempt, since_start(run.scheduled_at)) for run in executor.taken]
    assert taken == [(1, 60), (1, 120), (2, 60)]


def test_where_two_instances_are_allowed_a_retry_and_a_firing_run_together(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, max_instances=2, retry=Retry(3, fixed(60)))
    scheduler.advance(60)
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance(60)
    assert sorted((run.attempt, since_start(run.scheduled_at)) for run in executor.held) == [(1, 120), (2, 60)]


def test_a_late_retry_is_not_a_misfire(held):
    scheduler, executor = held
    scheduler.add_job(note, id="job", misfire_grace_time=1, retry=Retry(2, fixed(100)))
    scheduler.run_due()
    executor.finish(OutcomeKind.FAILED)
    scheduler.run_due()
    scheduler.clock.advance("1h")
    scheduler.run_due()
    assert [run.attempt for run in executor.held] == [2]


def test_a_retry_longer_than_the_grace_time_is_run(scheduler):
    scheduler.add_job(play, id="job", args=[NO], misfire_grace_time=1, retry=Retry(3, fixed(100)))
    scheduler.advance("1h")
    assert seconds() == [0, 100, 200]
    assert kinds(scheduler) == [OutcomeKind.FAILED] * 3


def test_a_paused_scheduler_makes_no_attempts_until_it_is_resumed(scheduler):
    scheduler.add_job(play, id="job", args=[NO], retry=Retry(3, fixed(10)))
    scheduler.run_due()
    scheduler.pause()
    scheduler.advance(100)
    assert seconds() == [0]
    scheduler.resume()
    scheduler.advance(100)
    assert seconds() == [0, 100, 110]


# Removal


def test_the_removal_of_a_job_ends_its_pending_retries(scheduler):
    for job_id in ("job", "other"):
        scheduler.add_job(play, "interval", id=job_id, minutes=1, args=[NO], retry=Retry(3, fixed(10)))
    scheduler.advance(60)
    scheduler.remove_job("job")
    scheduler.advance(50)
    assert seconds("job") == [60]
    assert seconds("other") == [60, 70, 80]


def test_the_removal_of_all_jobs_ends_all_pending_retries(scheduler):
    for job_id in ("job", "other"):
        scheduler.add_job(play, "interval", id=job_id, minutes=1, args=[NO], retry=Retry(3, fixed(10)))
    scheduler.advance(60)
    scheduler.remove_all_jobs()
    scheduler.advance("1h")
    assert seconds("job") == seconds("other") == [60]


@pytest.mark.parametrize("remove", ["remove_job", "remove_all_jobs"])
def test_an_attempt_that_fails_after_its_job_was_removed_is_not_tried_again(held, remove):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, retry=Retry(3, fixed(10)))
    scheduler.advance(60)
    getattr(scheduler, remove)(*["job"][: remove == "remove_job"])
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance("1h")
    assert [run.attempt for run in executor.taken] == [1]


def test_a_job_that_removes_itself_and_fails_is_not_tried_again():
    with ManualScheduler() as scheduler:
        def job():
            note()
            scheduler.remove_job("job")
            raise NO

        recorder = EventRecorder(scheduler, EVENT_JOB_SUBMITTED)
        scheduler.add_job(job, "interval", id="job", minutes=1, retry=Retry(3, fixed(10)))
        scheduler.advance("1h")
        assert len(recorder.events) == 1


def test_the_removal_of_a_job_ends_a_retry_that_waits_for_another_instance(held):
    scheduler, executor = held
    scheduler.add_job(note, "interval", id="job", minutes=1, retry=Retry(3, fixed(60)))
    scheduler.advance(60)
    executor.finish(OutcomeKind.FAILED)
    scheduler.advance(60)
    scheduler.remove_job("job")
    executor.finish()
    scheduler.advance("1h")
    assert [run.attempt for run in executor.taken] == [1, 1]


# From inside a job


def test_a_snooze_costs_no_attempt(scheduler):
    steps = [Snooze(5), Snooze(7), NO, Snooze(1), NO, "well"]
    scheduler.add_job(play, id="job", args=steps, retry=Retry(3, fixed(10)))
    scheduler.advance(100)
    assert seconds() == [0, 5, 12, 22, 23, 33]
    assert attempts() == [1, 1, 1, 2, 2, 3]
    assert kinds(scheduler)[-1] is OutcomeKind.SUCCEEDED


def test_a_job_without_a_policy_may_snooze_too(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_RETRIED | EVENT_JOB_ERROR)
    scheduler.add_job(play, id="job", args=[Snooze(5, "closed"), "well"])
    scheduler.advance(100)
    assert seconds() == [0, 5]
    assert kinds(scheduler) == [OutcomeKind.SNOOZED, OutcomeKind.SUCCEEDED]
    assert scheduler.runs("job")[1].reason == "closed"
    assert recorder.events == []


def test_a_run_that_snoozes_for_longer_than_its_grace_time_is_not_a_misfire(scheduler):
    scheduler.add_job(play, id="job", args=[Snooze(60), "well"], misfire_grace_time=5)
    scheduler.advance(100)
    assert seconds() == [0, 60]
    assert kinds(scheduler) == [OutcomeKind.SNOOZED, OutcomeKind.SUCCEEDED]


def test_retry_later_sets_the_time_of_the_next_attempt(scheduler):
    scheduler.add_job(play, id="job", args=[RetryLater(3), NO, RetryLater(4)], retry=Retry(4, fixed(100)))
    scheduler.advance("1h")
    assert seconds() == [0, 3, 103, 107]
    assert [letter.reason for letter in scheduler.dead_letters()] == ["attempt 4 of 4 failed"]


def test_retry_later_without_a_policy_is_a_failure(scheduler):
    scheduler.add_job(play, id="job", args=[RetryLater(3)])
    scheduler.advance("1h")
    assert seconds() == [0]
    assert kinds(scheduler) == [OutcomeKind.FAILED]


def test_a_job_that_gives_up_is_not_tried_again(scheduler):
    scheduler.add_job(play, id="job", args=[NO, GiveUp("no such customer")], retry=Retry(9, fixed(10)))
    scheduler.advance("1h")
    assert seconds() == [0, 10]
    assert [letter.reason for letter in scheduler.dead_letters()] == ["the job gave up: no such customer"]


@pytest.mark.parametrize("func", [
    retry_doubles.fail_speechlessly, retry_doubles.fail_with_a_lock, retry_doubles.fail_with_two_arguments,
    retry_doubles.retry_later_forgetfully,
])
def test_an_exception_without_words_or_pickle_is_retried_and_dead_lettered_like_any_other(scheduler, func):
    scheduler.add_job(func, id="job", retry=Retry(3, fixed(10)))
    scheduler.add_job(play, "interval", id="other", seconds=10, args=["well"])
    scheduler.advance(60)
    assert kinds(scheduler) == [OutcomeKind.FAILED] * 3
    assert [letter.record.job_id for letter in scheduler.dead_letters()] == ["job"]
    assert seconds("other") == [10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("func", [retry_doubles.give_up_forgetfully, retry_doubles.snooze_forgetfully])
def test_a_malformed_wish_of_one_job_does_not_cost_another_its_outcome(scheduler, func):
    scheduler.add_job(func, id="job", retry=Retry(3, fixed(10)))
    scheduler.add_job(play, id="other", args=["well"])
    scheduler._process_jobs()
    scheduler.engine.settler.settle_reported()
    assert kinds(scheduler, "other") == [OutcomeKind.SUCCEEDED]
    assert len(kinds(scheduler, "job")) == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize(("retry_on", "times"), [(Exception, [0]), (BaseException, [0, 10, 20])])
def test_what_wants_to_end_the_program_is_a_failure_that_is_retried_if_the_policy_says_so(
    scheduler, error, retry_on, times
):
    scheduler.add_job(play, id="job", args=[error], retry=Retry(3, fixed(10), retry_on=retry_on))
    scheduler.advance(60)
    assert seconds() == times
    assert len(scheduler.dead_letters("job")) == 1


def test_an_exception_that_is_raised_again_and_again_does_not_gather_frames(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_DEAD_LETTERED)
    scheduler.add_job(retry_doubles.fail_with_a_shared_error, id="job", retry=Retry(200, fixed(1)))
    scheduler.advance("10m")
    (letter,) = scheduler.dead_letters()
    frames, count = recorder.events[-1].exception.__traceback__, 0
    while frames is not None:
        frames, count = frames.tb_next, count + 1
    assert count < 100
    assert letter.record.traceback.count("fail_with_a_shared_error") == 1


# Events


def test_the_events_of_a_run_come_in_the_order_of_its_life(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_SUBMITTED | EVENT_JOB_ERROR | EVENT_JOB_EXECUTED | EVENT_JOB_MISSED
                             | EVENT_JOB_RETRIED | EVENT_JOB_DEAD_LETTERED)
    scheduler.add_job(play, id="job", args=[NO], retry=Retry(3, fixed(10)))
    scheduler.advance(60)
    once_more = [EVENT_JOB_SUBMITTED, EVENT_JOB_ERROR, EVENT_JOB_RETRIED]
    assert recorder.codes == [*once_more, *once_more, EVENT_JOB_SUBMITTED, EVENT_JOB_ERROR, EVENT_JOB_DEAD_LETTERED]
    told = recorder.of(EVENT_JOB_RETRIED | EVENT_JOB_DEAD_LETTERED)
    assert [(event.job_id, event.attempt, event.scheduled_run_time) for event in told] == [
        ("job", number, START) for number in (1, 2, 3)
    ]
    assert {event.run_id for event in told} == {scheduler.dead_letters()[0].run.id}
    assert all(isinstance(event.exception, ValueError) for event in told)


def test_the_events_of_a_retry_that_succeeds_end_with_executed(scheduler):
    recorder = EventRecorder(scheduler, EVENT_JOB_ERROR | EVENT_JOB_EXECUTED | EVENT_JOB_RETRIED)
    scheduler.add_job(play, id="job", args=[NO, "well"], retry=2)
    scheduler.advance(60)
    assert recorder.codes == [EVENT_JOB_ERROR, EVENT_JOB_RETRIED, EVENT_JOB_EXECUTED]
    assert (recorder.events[-1].retval, recorder.events[-1].attempt) == ("well", 2)


def test_whoever_hears_of_a_retry_finds_the_failure_in_the_history(scheduler):
    found = []
    scheduler.add_listener(lambda event: found.append(kinds(scheduler)), EVENT_JOB_RETRIED)
    scheduler.add_job(play, id="job", args=[NO, "well"], retry=2)
    scheduler.run_due()
    assert found == [[OutcomeKind.FAILED]]


# The option


def test_a_default_policy_holds_unless_the_job_says_otherwise():
    with ManualScheduler(job_defaults={"retry": Retry(2, fixed(10))}) as scheduler:
        scheduler.add_job(play, id="job", args=[NO])
        scheduler.add_job(play, id="once", args=[NO], retry=None)
        scheduler.add_job(play, id="often", args=[NO], retry=Retry(3, fixed(1)))
        scheduler.advance(60)
        assert (seconds("job"), seconds("once"), seconds("often")) == ([0, 10], [0], [0, 1, 2])


def test_a_decorator_takes_a_policy_too(scheduler):
    scheduler.scheduled_job("interval", [NO], id="job", minutes=1, retry=Retry(2, fixed(10)))(play)
    scheduler.advance(80)
    assert seconds() == [60, 70]


def test_a_modified_policy_holds_from_the_next_firing(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=[NO])
    scheduler.advance(60)
    scheduler.modify_job("job", retry=Retry(2, fixed(10)))
    assert scheduler.get_job("job").retry == Retry(2, fixed(10))
    scheduler.advance(80)
    assert seconds() == [60, 120, 130]


@pytest.mark.parametrize(("options", "field"), [
    ({"retry": 0}, "max_attempts"), ({"retry": -1}, "max_attempts"), ({"retry": 10**9}, "max_attempts"),
    ({"retry": True}, "retry"), ({"retry": 1.5}, "retry"), ({"retry": "often"}, "retry"), ({"retry": [3]}, "retry"),
    ({"dead_letter": "perhaps"}, "dead_letter"),
])
def test_an_impossible_policy_is_refused_at_the_call_and_changes_nothing(scheduler, options, field):
    with pytest.raises(InvalidArgument, match=field) as caught:
        scheduler.add_job(play, "interval", id="job", minutes=1, **options)
    assert caught.value.field == field
    assert scheduler.get_jobs() == []
    scheduler.add_job(play, "interval", id="job", minutes=1, retry=2)
    with pytest.raises(InvalidArgument, match=field):
        scheduler.modify_job("job", **options)
    assert scheduler.get_job("job").retry == Retry(2)


POLICY = Retry(4, exponential(0.5, 3, 60), 0.1, [OSError, "billing.Declined"], KeyError, 3600)


def test_a_policy_is_exported_and_imported_with_its_job(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, retry=POLICY, dead_letter=False)
    scheduler.add_job(play, "interval", id="plain", minutes=1)
    file = io.StringIO()
    scheduler.export_jobs(file)
    file.seek(0)
    with ManualScheduler() as other:
        other.import_jobs(file)
        assert (other.get_job("job").retry, other.get_job("job").dead_letter) == (POLICY, False)
        assert (other.get_job("plain").retry, other.get_job("plain").dead_letter) == (None, False)


def test_a_stored_job_comes_back_with_its_policy(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, retry=POLICY)
    found = scheduler.get_job("job")
    assert (found.retry, found.dead_letter) == (POLICY, True)
    scheduler.advance(90)
    assert scheduler.get_job("job").retry == POLICY


def test_pending_retries_outlive_a_restart_of_the_scheduler_where_the_store_does():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as first:
        first.add_job(play, "interval", id="job", minutes=1, args=[NO], retry=Retry(3, fixed(10)))
        first.advance(60)
        clock = first.clock
    with ManualScheduler(jobstores={"default": store}, clock=clock) as second:
        second.advance(50)
    assert seconds() == [60, 70, 80]


# On real threads, processes and loops


def test_retries_run_on_a_pool_of_threads(background):
    recorder = EventRecorder(background)
    background.start()
    background.add_job(play, id="job", args=[NO, Snooze(0.01), RetryLater(0.01), "well"], retry=SOON)
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job").attempt == 3
    assert attempts() == [1, 2, 2, 3]
    delay = timedelta(seconds=0.01)
    starts = [run.started_at for run in runs_of("job")]
    assert all(later - earlier >= delay for earlier, later in itertools.pairwise(starts))


def test_a_retry_far_away_does_not_keep_a_scheduler_from_shutting_down(background):
    recorder = EventRecorder(background)
    background.start()
    background.add_job(play, id="job", args=[NO], retry=Retry(3, fixed(3600)))
    recorder.wait_for(EVENT_JOB_RETRIED, "job")
    within(60, background.shutdown)
    assert attempts() == [1]


@pytest.mark.serial
def test_retries_run_on_a_pool_of_processes(schedulers, tmp_path):
    scheduler = schedulers(executors={"default": ProcessPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    steps = [NO, Snooze(0.01), RetryLater(0.01), "well"]
    scheduler.add_job(play_in, id="job", args=[str(tmp_path), *steps], retry=Retry(3, fixed(0.01)))
    event = recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    assert (event.retval, event.attempt) == ("well", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0 attempt 1", "1 attempt 2", "2 attempt 2", "3 attempt 3",
    ]


@pytest.mark.serial
def test_a_process_that_gives_up_or_dies_or_fails_without_a_pickle_is_retried_as_its_policy_says(schedulers):
    scheduler = schedulers(executors={"default": ProcessPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    twice = Retry(2, fixed(0.01))
    scheduler.add_job(play, id="gives up", args=[GiveUp("no")], retry=twice)
    scheduler.add_job(retry_doubles.fail_with_a_lock, id="locked", retry=twice)
    scheduler.add_job(retry_doubles.fail_with_two_arguments, id="odd", retry=twice)
    scheduler.add_job(retry_doubles.fail_speechlessly, id="speechless", retry=twice)
    scheduler.add_job(die, id="dies", retry=twice)
    recorder.wait_for(EVENT_JOB_DEAD_LETTERED, count=5, timeout=60)
    assert {letter.record.job_id: letter.record.attempt for letter in scheduler.dead_letters()} == {
        "gives up": 1, "locked": 2, "odd": 2, "speechless": 2, "dies": 2,
    }


@pytest.mark.serial
@pytest.mark.parametrize(("policy", "last"), [
    ({"retry_on": ValueError}, 2), ({"give_up_on": ValueError}, 1),
], ids=["retry on", "give up on"])
def test_the_type_of_an_exception_decides_even_where_it_cannot_be_brought_over(schedulers, policy, last):
    scheduler = schedulers(executors={"default": ProcessPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(retry_doubles.fail_with_a_lock, id="job", retry=Retry(2, fixed(0.01), **policy))
    assert recorder.wait_for(EVENT_JOB_DEAD_LETTERED, "job", timeout=60).attempt == last


def test_retries_run_on_an_event_loop():
    async def main():
        scheduler = AsyncIOScheduler(timezone="UTC")
        recorder = EventRecorder(scheduler)
        scheduler.start()
        scheduler.add_job(
            play_later, id="job", args=[NO, Snooze(0.01), RetryLater(0.01), "well"], retry=Retry(3, fixed(0.01))
        )
        event = await asyncio.to_thread(recorder.wait_for, EVENT_JOB_EXECUTED, "job")
        assert (event.retval, event.attempt) == ("well", 3)
        await scheduler.shutdown()

    within(60, lambda: asyncio.run(main()))
    assert attempts() == [1, 2, 2, 3]
