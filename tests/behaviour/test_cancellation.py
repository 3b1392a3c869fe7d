"""``cancel_run`` ends a run wherever it is on its way, once and for good."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from behaviour_doubles import heard, in_event_loop, note
from ending_doubles import (
    PATIENCE,
    Patient,
    WatchedProcesses,
    WatchedThreads,
    check,
    outcomes,
    pass_time,
    settled,
    touch_and_hang,
)
from lease_doubles import BegunExecutor, Cluster

from goscheduler import AsyncIOScheduler, Limit, Retry, current_run
from goscheduler.events import (
    EVENT_JOB_CANCELLED,
    EVENT_JOB_DEAD_LETTERED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_RETRIED,
    EVENT_LEASE_LOST,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import EventRecorder, ManualScheduler


@pytest.fixture
def pool():
    return WatchedThreads()


@pytest.fixture
def scheduler(schedulers, pool):
    made = schedulers(ManualScheduler, executors={"default": pool, "direct": DebugExecutor()})
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
    """Start a job, wait until it runs, and return the id of its run."""
    scheduler.add_job(patient, id="job", **options)
    scheduler.run_due()
    patient.await_start()
    return only_run(scheduler, "job").id


def only_run(scheduler, job_id=None):
    (live,) = scheduler.live_runs(job_id)
    return live


def assert_cancelled_for_good(scheduler, recorder, reason="it was cancelled"):
    """Fail unless there is one record and one event about it, and nothing follows."""
    scheduler.advance("1d")
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.reason) == ("cancelled", reason)
    assert [event.run_id for event in recorder.of(EVENT_JOB_CANCELLED)] == [record.run_id]
    others = EVENT_JOB_ERROR | EVENT_JOB_EXECUTED | EVENT_JOB_RETRIED | EVENT_JOB_DEAD_LETTERED | EVENT_LEASE_LOST
    assert recorder.of(others, "job") == []
    assert (scheduler.live_runs("job"), scheduler.dead_letters()) == ([], [])


# A run that waits


def test_a_run_that_was_asked_for_and_waits_for_its_turn_ends_at_once(scheduler, recorder):
    scheduler.add_job(note, "interval", days=9, id="job")
    run_id = scheduler.run_now("job")
    assert only_run(scheduler).state == "pending"
    assert scheduler.cancel_run(run_id, "not today") is True
    assert scheduler.runs("job")[0].finished_at == scheduler.clock.now()
    assert_cancelled_for_good(scheduler, recorder, "not today")


def test_a_retry_that_waits_for_its_time_ends_at_once(scheduler, recorder):
    scheduler.add_job(int, args=["x"], id="job", executor="direct", retry=Retry(5, backoff=60))
    scheduler.run_due()
    assert scheduler.cancel_run(only_run(scheduler).id)
    scheduler.advance("1d")
    assert outcomes(scheduler) == ["failed", "cancelled"]
    assert scheduler.dead_letters() == []
    assert len(recorder.of(EVENT_JOB_CANCELLED)) == 1


def test_a_run_that_waits_for_an_earlier_one_of_its_job_ends_at_once(scheduler, pool, patients):
    patient = patients()
    scheduler.add_job(patient, "interval", minutes=1, id="job", overlap="queue")
    scheduler.advance("3m")
    first, *waiting = scheduler.live_runs("job")
    assert [live.state for live in (first, *waiting)] == ["running", "pending", "pending"]
    assert scheduler.cancel_run(waiting[0].id)
    assert outcomes(scheduler) == ["cancelled"]
    scheduler.pause_job("job")
    patient.go(2)
    settled(scheduler, pool)
    settled(scheduler, pool)
    assert patient.count == 2


def test_who_waits_behind_a_run_that_is_cancelled_when_its_turn_has_come_gets_the_turn(scheduler, pool, patients):
    limits = Limit("mail", concurrency=1)
    patient, second, third = patients(), patients(), patients()
    begin(scheduler, patient, limits=limits)
    for name, job in (("second", second), ("third", third)):
        scheduler.add_job(job, id=name, limits=limits)
        scheduler.run_due()
    patient.go()
    pool.await_reports()
    scheduler.engine.settler.settle_reported()  # the second may go now, and has not gone yet
    assert scheduler.cancel_run(only_run(scheduler, "second").id)
    scheduler.run_due()
    third.await_start()
    assert outcomes(scheduler, "second") == ["cancelled"]


# A run that is queued


def test_a_queued_run_ends_at_once_and_never_starts(scheduler, recorder, pool, patients, jobcalls):
    first = patients()
    scheduler.add_job(first)
    scheduler.run_due()
    first.await_start()
    scheduler.add_job(note, id="job", retry=3)
    scheduler.run_due()
    queued = only_run(scheduler, "job")
    assert queued.state == "queued"
    assert scheduler.cancel_run(queued.id)
    scheduler.run_due()
    assert outcomes(scheduler, "job") == ["cancelled"]  # while the worker is busy
    first.go()
    settled(scheduler, pool, 2)  # the executor comes to it, and lets it be
    assert jobcalls == []
    assert_cancelled_for_good(scheduler, recorder)


def test_a_queued_run_that_was_cancelled_leaves_nothing_behind(scheduler, pool, patients):
    first = patients()
    scheduler.add_job(first)
    scheduler.run_due()
    first.await_start()
    scheduler.add_job(note, id="job")
    scheduler.run_due()
    scheduler.cancel_run(only_run(scheduler, "job").id)
    scheduler.run_due()
    first.go()
    settled(scheduler, pool, 2)
    endings = scheduler.engine.running
    assert (endings._terminations, endings._given_up, endings._withdrawn, endings._begun) == ({}, {}, set(), {})


# A run that goes on


def test_a_running_run_is_told_and_ends_as_cancelled(scheduler, recorder, pool, patients):
    patient = patients(check)
    run_id = begin(scheduler, patient, retry=3, dead_letter=True)
    assert scheduler.cancel_run(run_id, "enough")
    assert pool.reasons == ["enough"]
    patient.go()
    settled(scheduler, pool)
    assert_cancelled_for_good(scheduler, recorder, "enough")


def test_a_run_that_fails_because_it_was_cancelled_is_not_tried_again(scheduler, recorder, pool, patients):
    def fail():
        raise OSError("closed")

    patient = patients(fail)
    run_id = begin(scheduler, patient, retry=3)
    scheduler.cancel_run(run_id, "enough")
    patient.go()
    settled(scheduler, pool)
    assert_cancelled_for_good(scheduler, recorder, "enough")


def test_a_run_that_succeeds_although_it_was_cancelled_has_succeeded(scheduler, recorder, pool, patients):
    patient = patients("done")
    run_id = begin(scheduler, patient)
    scheduler.cancel_run(run_id)
    patient.go()
    settled(scheduler, pool)
    scheduler.advance("1d")
    assert outcomes(scheduler) == ["succeeded"]
    assert recorder.of(EVENT_JOB_CANCELLED | EVENT_LEASE_LOST) == []


def test_a_running_run_that_does_not_end_is_given_up(scheduler, recorder, pool, patients):
    run_id = begin(scheduler, patients())
    scheduler.cancel_run(run_id)
    pass_time(scheduler, 4.9)
    assert outcomes(scheduler) == []
    pass_time(scheduler, 0.1)
    assert_cancelled_for_good(scheduler, recorder)


def test_the_first_reason_stays(scheduler, recorder, pool, patients):
    patient = patients(check)
    run_id = begin(scheduler, patient, timeout=60)
    assert scheduler.cancel_run(run_id, "first")
    assert scheduler.cancel_run(run_id, "second")
    pass_time(scheduler, 61)
    assert_cancelled_for_good(scheduler, recorder, "first")


def test_a_run_that_has_ended_and_is_not_written_yet_keeps_its_end(scheduler, recorder, pool, patients):
    patient = patients("done")
    run_id = begin(scheduler, patient)
    patient.go()
    pool.await_reports()
    assert scheduler.cancel_run(run_id)  # the store does not know better
    scheduler.run_due()
    scheduler.advance("1d")
    assert outcomes(scheduler) == ["succeeded"]
    assert recorder.of(EVENT_LEASE_LOST | EVENT_JOB_CANCELLED) == []


def test_a_run_whose_end_is_being_written_keeps_its_end_without_complaint(scheduler, recorder, pool, patients, caplog):
    # It has been judged, and the store still counts it among the live: the moment is stretched by the write itself.
    patient = patients("done")
    run_id = begin(scheduler, patient)
    store = scheduler.engine.stores["default"]
    settle, cancelled = store.settle, []

    def settle_late(settlements):
        if not cancelled:
            cancelled.append(scheduler.cancel_run(run_id))
        return settle(settlements)

    store.settle = settle_late
    patient.go()
    settled(scheduler, pool)
    scheduler.advance("1d")
    assert (cancelled, outcomes(scheduler)) == ([True], ["succeeded"])
    assert recorder.of(EVENT_LEASE_LOST | EVENT_JOB_CANCELLED) == []
    assert "given up" not in caplog.text
    assert scheduler.engine.running._terminations == {}


def test_a_run_that_fails_while_it_is_cancelled_is_not_tried_again(scheduler, pool, patients):
    patient = patients(lambda: int("x"))
    run_id = begin(scheduler, patient, retry=Retry(5, backoff=1))
    store = scheduler.engine.stores["default"]
    settle, cancelled = store.settle, []

    def settle_late(settlements):
        if not cancelled:
            cancelled.append(scheduler.cancel_run(run_id))
        return settle(settlements)

    store.settle = settle_late
    patient.go(5)
    settled(scheduler, pool)
    scheduler.advance("1d")
    assert patient.count == 1


# From where, and what


def test_a_job_can_cancel_its_own_run(scheduler, recorder):
    def job():
        assert scheduler.cancel_run(current_run().run_id, "I have seen enough")
        current_run().check()

    scheduler.add_job(job, id="job", executor="direct", retry=3)
    scheduler.run_due()
    assert_cancelled_for_good(scheduler, recorder, "I have seen enough")


def test_a_listener_can_cancel_a_retry(schedulers):
    scheduler = schedulers(ManualScheduler)
    scheduler.add_listener(lambda event: scheduler.cancel_run(event.run_id), EVENT_JOB_RETRIED)
    scheduler.start()
    scheduler.add_job(int, args=["x"], id="job", retry=Retry(5, backoff=1))
    scheduler.advance("1h")
    assert outcomes(scheduler) == ["failed", "cancelled"]


def test_a_run_can_be_cancelled_while_the_scheduler_is_paused(scheduler, recorder, pool, patients):
    patient = patients(check)
    run_id = begin(scheduler, patient)
    scheduler.pause()
    assert scheduler.cancel_run(run_id)
    patient.go()
    settled(scheduler, pool)
    assert outcomes(scheduler) == ["cancelled"]


def test_a_run_can_be_cancelled_while_a_shutdown_waits_for_it(background, patients):
    recorder = EventRecorder(background)
    background.start()
    patient = patients(check)
    background.add_job(patient, id="job")
    patient.await_start()
    (live,) = background.live_runs("job")
    stopping = threading.Thread(target=background.shutdown)
    stopping.start()
    assert background.cancel_run(live.id)
    patient.go()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert len(recorder.of(EVENT_JOB_CANCELLED)) == 1


@pytest.mark.parametrize("run_id", ["", "unknown", "0" * 16 + "-1"])
def test_an_unknown_run_cannot_be_cancelled(scheduler, run_id):
    assert scheduler.cancel_run(run_id) is False


def test_a_run_that_is_over_cannot_be_cancelled(scheduler, recorder):
    scheduler.add_job(note, "interval", days=1, id="job", executor="direct")
    run_id = scheduler.run_now("job")
    scheduler.run_due()
    assert scheduler.cancel_run(run_id) is False
    assert outcomes(scheduler) == ["succeeded"]


def test_cancelling_a_waiting_run_twice_finds_nothing_the_second_time(scheduler):
    scheduler.add_job(note, "interval", days=1, id="job")
    run_id = scheduler.run_now("job")
    assert [scheduler.cancel_run(run_id), scheduler.cancel_run(run_id)] == [True, False]


@pytest.mark.parametrize("run_id", [None, 5, b"run", ["run"], object()])
def test_a_run_id_that_is_no_text_is_refused(scheduler, run_id):
    with pytest.raises(TypeError, match="run_id must be a string"):
        scheduler.cancel_run(run_id)


@pytest.mark.parametrize("reason", [5, b"enough", ["enough"], "two\nlines", "\x1b[2J", "x" * 256])
def test_a_reason_that_no_log_can_take_is_refused_and_nothing_is_cancelled(scheduler, reason):
    scheduler.add_job(note, "interval", days=1, id="job")
    run_id = scheduler.run_now("job")
    with pytest.raises(ValueError, match="reason must"):
        scheduler.cancel_run(run_id, reason)
    assert only_run(scheduler).id == run_id


def test_a_run_in_another_store_is_found(schedulers):
    scheduler = schedulers(ManualScheduler, jobstores={"default": {"type": "memory"}, "other": {"type": "memory"}})
    scheduler.start()
    scheduler.add_job(note, "interval", days=1, id="job", jobstore="other")
    run_id = scheduler.run_now("job")
    assert scheduler.cancel_run(run_id)
    assert scheduler.live_runs() == []


@in_event_loop
async def test_a_coroutine_is_cancelled():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    started = asyncio.Event()

    async def job():
        started.set()
        await asyncio.Event().wait()

    scheduler.add_job(job, id="job", retry=3)
    await asyncio.wait_for(started.wait(), PATIENCE)
    assert scheduler.cancel_run(only_run(scheduler).id, "enough")
    await heard(recorder, EVENT_JOB_CANCELLED)
    assert [(record.outcome.value, record.reason) for record in scheduler.runs()] == [("cancelled", "enough")]
    await scheduler.shutdown()


def test_a_process_is_terminated(schedulers, tmp_path):
    pool = WatchedProcesses()
    scheduler = schedulers(ManualScheduler, executors={"default": pool})
    scheduler.start()
    scheduler.add_job(touch_and_hang, args=[str(tmp_path)], id="job", retry=3)
    scheduler.run_due()
    while not (tmp_path / "started").exists():
        threading.Event().wait(0.01)
    scheduler.cancel_run(only_run(scheduler).id, "enough")
    settled(scheduler, pool)
    assert outcomes(scheduler) == ["cancelled"]


# What goes on


def test_the_runs_that_go_on_are_listed_with_their_progress(scheduler, pool, patients):
    told, go_on = threading.Event(), threading.Event()

    def tell():
        current_run().progress(0.25, "a quarter")
        told.set()
        assert go_on.wait(PATIENCE)

    patient = patients(tell)
    run_id = begin(scheduler, patient)
    patient.go()
    assert told.wait(PATIENCE)
    scheduler.add_job(note, id="second")
    scheduler.run_due()
    scheduler.add_job(note, "interval", days=1, id="third")
    asked = scheduler.run_now("third")
    running, queued, pending = scheduler.live_runs()
    go_on.set()
    assert (running.id, running.job_id, running.state, running.attempt) == (run_id, "job", "running", 1)
    assert (running.progress, running.progress_note) == (0.25, "a quarter")
    assert (running.started_at, running.source.value) == (scheduler.clock.now(), "schedule")
    assert (queued.job_id, queued.state, queued.started_at, queued.progress) == ("second", "queued", None, None)
    assert (pending.id, pending.state, pending.owner, pending.source.value) == (asked, "pending", None, "manual")


def test_the_last_progress_of_a_run_is_kept_in_its_record(scheduler, pool, patients):
    patient = patients(lambda: [current_run().progress(0.5, "half"), current_run().check()])
    run_id = begin(scheduler, patient)
    scheduler.cancel_run(run_id)
    patient.go()
    settled(scheduler, pool)
    (record,) = scheduler.runs("job")
    assert (record.outcome.value, record.progress, record.progress_note) == ("cancelled", 0.5, "half")


def test_a_run_that_has_ended_is_not_told_again_while_its_end_cannot_be_written(caplog):
    caplog.set_level(logging.INFO)
    cluster, executor = Cluster(), BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(note, "interval", seconds=10, id="job")
    scheduler.advance(10)
    run_id = only_run(scheduler).id
    assert scheduler.cancel_run(run_id, "enough")
    executor.finish(OutcomeKind.CANCELLED)
    cluster.store.faults["settle"] = OSError("out")
    scheduler.run_due()
    scheduler.run_due()
    cluster.store.faults.clear()
    scheduler.run_due()
    assert executor.told == ["enough"]
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith(f"Run {run_id}")]
    assert [text.partition(") ")[2] for text in told] == [
        "is told to end: enough", "was cancelled after 0.0 s, attempt 1: enough",
    ]  # fmt: skip
    assert outcomes(scheduler, "job") == ["cancelled"]
