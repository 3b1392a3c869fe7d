"""A run that takes longer than its timeout is told to end, and given up if it does not."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

import pytest
from behaviour_doubles import heard, in_event_loop, note, within
from ending_doubles import (
    PATIENCE,
    Patient,
    WatchedProcesses,
    WatchedThreads,
    check,
    outcomes,
    pass_time,
    settled,
    six_times_seven,
    touch_and_hang,
    touch_and_ignore,
)

from goscheduler import AsyncIOScheduler, GiveUp, Retry, current_run
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_LEASE_LOST
from goscheduler.executors.debug import DebugExecutor
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler


@pytest.fixture
def pool():
    return WatchedThreads()


@pytest.fixture
def scheduler(schedulers, pool):
    made = schedulers(ManualScheduler, executors={"default": pool})
    made.start()
    return made


@pytest.fixture
def recorder(scheduler):
    return EventRecorder(scheduler)


@pytest.fixture
def patients():
    """A maker of jobs that wait to be let go; at the end all of them are."""
    made = []

    def make(then=None):
        made.append(Patient(then))
        return made[-1]

    yield make
    for patient in made:
        patient.go(100)


def begin(scheduler, patient, **options):
    """Start a job and wait until it runs."""
    job = scheduler.add_job(patient, id="job", **options)
    scheduler.run_due()
    patient.await_start()
    return job


# Threads


def test_a_run_is_told_when_its_time_is_over_and_not_before(scheduler, pool, patients):
    begin(scheduler, patients(), timeout=60)
    pass_time(scheduler, 59.9)
    assert pool.reasons == []
    pass_time(scheduler, 0.1)
    assert pool.reasons == ["it ran longer than its timeout of 60 seconds"]


def test_a_run_that_gives_in_has_timed_out(scheduler, recorder, pool, patients):
    patient = patients(check)
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 61)
    patient.go()
    settled(scheduler, pool)
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.error_type) == ("timed out", "TimeoutError")
    assert record.reason == record.error_message == "it ran longer than its timeout of 60 seconds"
    assert "in check" in record.traceback  # where it was
    (event,) = recorder.of(EVENT_JOB_ERROR)
    assert isinstance(event.exception, TimeoutError)
    assert scheduler.live_runs() == []


def test_the_run_sees_that_it_was_told_and_why(scheduler, pool, patients):
    seen = []
    patient = patients(lambda: seen.append((current_run().cancelled, current_run().cancel_reason)))
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 61)
    patient.go()
    settled(scheduler, pool)
    assert seen == [(True, "it ran longer than its timeout of 60 seconds")]


def test_a_run_that_succeeds_although_it_was_told_has_succeeded_once(scheduler, recorder, pool, patients):
    patient = patients("just in time")
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 60)
    patient.go()
    settled(scheduler, pool)
    pass_time(scheduler, 3600)
    assert outcomes(scheduler) == ["succeeded"]
    assert len(recorder.of(EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_LEASE_LOST)) == 1


def test_a_run_that_has_ended_when_its_time_is_over_is_not_told(scheduler, recorder, pool, patients):
    patient = patients("in time")
    begin(scheduler, patient, timeout=60)
    patient.go()
    pool.await_reports()
    pass_time(scheduler, 60)  # the end is written in the same round
    pass_time(scheduler, 3600)
    assert outcomes(scheduler) == ["succeeded"]
    assert recorder.of(EVENT_JOB_ERROR | EVENT_LEASE_LOST) == []


@pytest.mark.parametrize("error", [ValueError("broken by it"), OSError("closed")])
def test_what_a_run_raises_after_it_was_told_is_kept_as_the_error_of_the_timeout(scheduler, pool, patients, error):
    def fail():
        raise error

    patient = patients(fail)
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 60)
    patient.go()
    settled(scheduler, pool)
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.error_message) == ("timed out", str(error))


def test_a_timeout_is_a_failed_attempt_that_is_tried_again(scheduler, pool, patients):
    patient = patients(check)
    begin(scheduler, patient, timeout=60, retry=Retry(2, backoff=10))
    pass_time(scheduler, 60)
    patient.go()
    settled(scheduler, pool)
    scheduler.advance(10)
    patient.await_start()
    pass_time(scheduler, 60)
    patient.go()
    settled(scheduler, pool)
    assert outcomes(scheduler) == ["timed out", "timed out"]
    assert [letter.reason for letter in scheduler.dead_letters()] == ["attempt 2 of 2 failed"]


@pytest.mark.parametrize(("policy", "attempts"), [
    (Retry(2, backoff=1, retry_on=TimeoutError), 2),
    (Retry(2, backoff=1, retry_on=ConnectionError), 1),
    (Retry(2, backoff=1, give_up_on=TimeoutError), 1),
])  # fmt: skip
def test_a_policy_knows_a_timeout_by_its_type(scheduler, pool, patients, policy, attempts):
    patient = patients(check)
    begin(scheduler, patient, timeout=60, retry=policy)
    pass_time(scheduler, 60)
    patient.go(2)
    settled(scheduler, pool)
    scheduler.advance(1)
    if attempts > 1:
        settled(scheduler, pool)
    assert len(scheduler.runs("job")) == patient.count == attempts


def test_a_run_that_gives_up_when_it_is_told_is_not_tried_again(scheduler, pool, patients):
    def give_up():
        raise GiveUp("half of it is done")

    patient = patients(give_up)
    begin(scheduler, patient, timeout=60, retry=5)
    pass_time(scheduler, 60)
    patient.go()
    settled(scheduler, pool)
    assert [letter.reason for letter in scheduler.dead_letters()] == ["the job gave up: half of it is done"]


def test_every_attempt_has_the_whole_time(scheduler, pool, patients):
    # The first one fails after 50 of its 60 seconds, and what is left of them must not count for the second.
    patient = patients(partial(int, "no number"))
    begin(scheduler, patient, timeout=60, retry=Retry(3, backoff=1))
    pass_time(scheduler, 50)
    patient.go()
    settled(scheduler, pool)
    pass_time(scheduler, 1)
    patient.await_start()
    pass_time(scheduler, 59)
    assert pool.reasons == []
    pass_time(scheduler, 1)
    assert len(pool.reasons) == 1


def test_a_run_that_goes_on_is_given_up_after_the_grace_of_its_executor(scheduler, recorder, pool, patients, caplog):
    patient = patients("late")
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 60)
    pass_time(scheduler, pool.grace_seconds - 0.1)
    assert (pool.given_up, outcomes(scheduler)) == ([], [])
    with caplog.at_level(logging.ERROR):
        pass_time(scheduler, 0.1)
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.error_type, record.seconds) == ("timed out", "TimeoutError", 65.0)
    assert [event.exception.__class__ for event in recorder.of(EVENT_JOB_ERROR)] == [TimeoutError]
    assert "did not end when it was told to; the scheduler gives it up" in caplog.text


def test_the_result_of_a_run_that_was_given_up_is_dropped_and_a_log_line_says_so(
    scheduler, recorder, pool, patients, caplog
):
    patient = patients("late")
    begin(scheduler, patient, timeout=60)
    pass_time(scheduler, 60)
    pass_time(scheduler, 5)
    patient.go()
    with caplog.at_level(logging.INFO):
        settled(scheduler, pool)
    assert "given up before, has ended as succeeded" in caplog.text
    assert outcomes(scheduler, "job") == ["timed out"]
    assert recorder.of(EVENT_JOB_EXECUTED | EVENT_LEASE_LOST) == []
    assert scheduler.engine.running._given_up == {}


def test_the_only_worker_of_a_pool_is_replaced_when_its_run_is_given_up(scheduler, pool, patients, jobcalls):
    begin(scheduler, patients(), timeout=60)
    scheduler.add_job(note, args=["next"])
    scheduler.run_due()
    pass_time(scheduler, 60)
    assert jobcalls == []
    pass_time(scheduler, 5)
    settled(scheduler, pool)
    assert jobcalls == ["next"]


def test_a_run_that_was_given_up_does_not_count_among_the_instances(scheduler, pool, patients):
    patient = patients()
    scheduler.add_job(patient, "interval", minutes=10, id="job", timeout=60)
    pass_time(scheduler, 600)
    patient.await_start()
    pass_time(scheduler, 60)
    pass_time(scheduler, 5)
    pass_time(scheduler, 535)
    patient.await_start()  # the second firing, while the first function goes on
    assert (patient.count, outcomes(scheduler)) == (2, ["timed out"])


def test_a_retry_of_a_run_that_was_given_up_is_not_taken_for_it(scheduler, pool, patients):
    patient = patients("done")
    begin(scheduler, patient, timeout=60, retry=Retry(2, backoff=1))
    pass_time(scheduler, 60)
    pass_time(scheduler, 5)
    pass_time(scheduler, 1)
    patient.await_start()
    (live,) = scheduler.live_runs("job")
    assert (live.state, live.attempt) == ("running", 2)
    patient.go(2)
    settled(scheduler, pool, 2)
    assert outcomes(scheduler) == ["timed out", "succeeded"]


def test_runs_that_end_by_themselves_leave_nothing_behind(scheduler, pool):
    for _ in range(300):
        scheduler.add_job(note, timeout=3600)
    scheduler.run_due()
    settled(scheduler, pool, 300)
    endings = scheduler.engine.running
    assert len(endings._deadlines) <= 2 * 300
    scheduler.advance(3600)
    assert (endings._deadlines, endings._timed, endings._terminations, endings._begun) == ([], {}, {}, {})


# Where the timeout comes from


@pytest.mark.parametrize(("default", "own", "effective"), [
    (30, {}, 30), (30, {"timeout": 90}, 90), (30, {"timeout": None}, None), (None, {"timeout": 90}, 90),
])  # fmt: skip
def test_the_timeout_of_a_job_goes_before_the_default(schedulers, pool, patients, default, own, effective):
    scheduler = schedulers(ManualScheduler, executors={"default": pool}, job_defaults={"timeout": default})
    scheduler.start()
    begin(scheduler, patients(), **own)
    pass_time(scheduler, 89)
    assert len(pool.reasons) == (effective == 30)
    pass_time(scheduler, 1)
    assert len(pool.reasons) == (effective is not None)


def test_a_job_that_runs_on_the_thread_of_the_scheduler_can_only_succeed_late(schedulers):
    scheduler = schedulers(ManualScheduler, executors={"default": DebugExecutor()})
    scheduler.start()
    scheduler.add_job(lambda: scheduler.clock.advance(100), timeout=60)
    scheduler.run_due()
    pass_time(scheduler, 100)
    assert outcomes(scheduler) == ["succeeded"]


# While the scheduler does not fire


def test_a_timeout_works_while_the_scheduler_is_paused(scheduler, pool, patients):
    begin(scheduler, patients(), timeout=60)
    scheduler.pause()
    pass_time(scheduler, 60)
    pass_time(scheduler, 5)
    assert outcomes(scheduler) == ["timed out"]


class Woken(ManualScheduler):
    """Counts how often its loop would be woken."""

    wakes = 0

    def wakeup(self):
        self.wakes += 1
        super().wakeup()


def test_a_run_that_starts_while_the_scheduler_is_paused_has_its_timeout_watched(schedulers, pool, patients):
    scheduler = schedulers(Woken, executors={"default": pool})
    scheduler.start()
    first, second = patients(), patients()
    begin(scheduler, first)
    scheduler.add_job(second, timeout=60)
    scheduler.run_due()
    scheduler.pause()
    scheduler.run_due()  # the loop rests until it is woken
    before = scheduler.wakes
    first.go()
    second.await_start()
    assert scheduler.wakes > before


def test_a_timeout_works_while_a_shutdown_waits(background, patients):
    pool = WatchedThreads()
    background.add_executor(pool, "watched")
    recorder = EventRecorder(background)
    background.start()
    first, second = patients(), patients(check)
    background.add_job(first, executor="watched")
    background.add_job(second, executor="watched", timeout=0.05, id="second")
    first.await_start()
    stopping = threading.Thread(target=background.shutdown)
    stopping.start()
    first.go()
    second.await_start()  # it starts when the shutdown has begun
    assert pool.told.acquire(timeout=PATIENCE)
    second.go()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert isinstance(recorder.of(EVENT_JOB_ERROR, "second")[0].exception, TimeoutError)


def test_a_shutdown_does_not_wait_for_a_run_that_is_given_up(background, patients):
    pool = WatchedThreads()
    pool.grace_seconds = 0.05
    background.add_executor(pool, "watched")
    recorder = EventRecorder(background)
    background.start()
    patient = patients()
    background.add_job(patient, executor="watched", timeout=0.05)
    patient.await_start()
    within(PATIENCE, background.shutdown)
    assert len(recorder.of(EVENT_JOB_ERROR)) == 1


# The event loop


class Loop:
    """An AsyncIOScheduler on a clock that the test moves."""

    def __init__(self):
        self.clock = ManualClock()
        self.scheduler = AsyncIOScheduler(clock=self.clock, timezone="UTC")
        self.recorder = EventRecorder(self.scheduler)
        self.started = asyncio.Event()

    def pass_time(self, seconds):
        self.clock.advance(seconds)
        self.scheduler.wakeup()


@in_event_loop
async def test_a_coroutine_that_takes_too_long_is_cancelled_and_tried_again():
    loop = Loop()
    loop.scheduler.start()

    async def job():
        if current_run().attempt == 2:
            return "done"
        loop.started.set()
        return await asyncio.Event().wait()

    loop.scheduler.add_job(job, id="job", timeout=60, retry=Retry(2, backoff=0))
    await asyncio.wait_for(loop.started.wait(), PATIENCE)
    loop.pass_time(60)
    event = await heard(loop.recorder, EVENT_JOB_ERROR)
    assert isinstance(event.exception, TimeoutError)
    await heard(loop.recorder, EVENT_JOB_EXECUTED)
    assert outcomes(loop.scheduler) == ["timed out", "succeeded"]
    await loop.scheduler.shutdown()


@in_event_loop
async def test_a_coroutine_that_swallows_its_cancellation_is_given_up():
    loop = Loop()
    loop.scheduler.start()
    swallowed, go = asyncio.Event(), asyncio.Event()

    async def job():
        loop.started.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            swallowed.set()
        await go.wait()
        return "late"

    loop.scheduler.add_job(job, id="job", timeout=60)
    await asyncio.wait_for(loop.started.wait(), PATIENCE)
    loop.pass_time(60)
    await asyncio.wait_for(swallowed.wait(), PATIENCE)
    loop.pass_time(5)
    await heard(loop.recorder, EVENT_JOB_ERROR, "job")
    go.set()
    loop.scheduler.add_job(note, id="next")
    await heard(loop.recorder, EVENT_JOB_EXECUTED, "next")
    assert outcomes(loop.scheduler, "job") == ["timed out"]
    await loop.scheduler.shutdown()


# Processes


@pytest.mark.parametrize("job", [touch_and_hang, touch_and_ignore])
def test_a_process_is_terminated_then_killed_and_the_pool_goes_on(schedulers, tmp_path, job):
    pool = WatchedProcesses()
    scheduler = schedulers(ManualScheduler, executors={"default": pool})
    scheduler.start()
    scheduler.add_job(job, args=[str(tmp_path)], id="job", timeout=60)
    scheduler.add_job(six_times_seven, id="next")
    scheduler.run_due()
    within(PATIENCE, lambda: await_file(tmp_path / "started"))
    pass_time(scheduler, 60)
    if job is touch_and_ignore:
        assert outcomes(scheduler) == []
        pass_time(scheduler, 5)
    settled(scheduler, pool, 2)
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.error_type) == ("timed out", "TimeoutError")
    assert [record.result for record in scheduler.runs("next")] == ["42"]


def await_file(path):
    while not path.exists():
        threading.Event().wait(0.01)
