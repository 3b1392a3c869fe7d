"""Events: which there are, who hears them, where and in which order."""

from __future__ import annotations

import asyncio
import inspect
import threading
from datetime import timedelta

import pytest
from apscheduler import events as theirs
from behaviour_doubles import START, Gate, HoldingExecutor, PickledStore, note, within
from lease_doubles import QueueingExecutor

from goscheduler import Retry, events, fixed
from goscheduler.events import (
    EVENT_ALL,
    EVENT_ANY,
    EVENT_EXECUTOR_ADDED,
    EVENT_EXECUTOR_REMOVED,
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_MODIFIED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_STARTED,
    EVENT_JOB_SUBMITTED,
    EVENT_JOBSTORE_ADDED,
    EVENT_JOBSTORE_REMOVED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
    EventCode,
    JobEvent,
    JobExecutionEvent,
    JobSubmissionEvent,
    SchedulerEvent,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.schedulers import _announce
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import EventRecorder, ManualScheduler

NAMES = [
    "SCHEDULER_STARTED", "SCHEDULER_SHUTDOWN", "SCHEDULER_PAUSED", "SCHEDULER_RESUMED", "EXECUTOR_ADDED",
    "EXECUTOR_REMOVED", "JOBSTORE_ADDED", "JOBSTORE_REMOVED", "ALL_JOBS_REMOVED", "JOB_ADDED", "JOB_REMOVED",
    "JOB_MODIFIED", "JOB_EXECUTED", "JOB_ERROR", "JOB_MISSED", "JOB_SUBMITTED", "JOB_MAX_INSTANCES",
]


@pytest.fixture
def manual(schedulers):
    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    return scheduler


@pytest.mark.parametrize(("bit", "name"), list(enumerate(NAMES)), ids=NAMES)
def test_the_codes_of_apscheduler_keep_their_values(bit, name):
    ours = getattr(events, f"EVENT_{name}")
    assert ours == 2**bit == getattr(theirs, f"EVENT_{name}")
    assert isinstance(ours, int)


def test_event_all_is_the_seventeen_and_event_any_is_everything():
    assert EVENT_ALL == 131071
    assert events.EVENT_SCHEDULER_START == EVENT_SCHEDULER_STARTED
    combined = 0
    for code in EventCode:
        assert not combined & code
        combined |= code
    assert combined == EVENT_ANY
    assert len(EventCode) == 27


def test_events_have_the_constructors_of_apscheduler():
    assert (SchedulerEvent(1, "x").code, SchedulerEvent(1, "x").alias, SchedulerEvent(1).alias) == (1, "x", None)
    job = JobEvent(512, "id", "store")
    assert (job.code, job.job_id, job.jobstore, job.alias) == (512, "id", "store", None)
    submission = JobSubmissionEvent(32768, "id", "store", (START,))
    assert submission.scheduled_run_times == [START]
    execution = JobExecutionEvent(4096, "id", "store", START, 5, None, None)
    assert (execution.scheduled_run_time, execution.retval, execution.exception, execution.traceback) == (
        START, 5, None, None,
    )
    execution.note = "events are plain objects"


def test_the_text_of_an_event_names_its_class_and_code():
    assert repr(SchedulerEvent(EVENT_SCHEDULER_STARTED)) == "<SchedulerEvent (code=1)>"
    assert repr(JobEvent(512, "id", None)) == "<JobEvent (code=512)>"


@pytest.mark.parametrize("mask", [EVENT_JOB_ADDED, EVENT_JOB_ADDED | EVENT_JOB_REMOVED, 0, EVENT_ALL, EVENT_ANY])
def test_a_listener_hears_what_is_in_its_mask_and_nothing_else(manual, mask):
    everything, some = EventRecorder(manual), EventRecorder(manual, mask)
    manual.add_job(note, "interval", seconds=10, id="job", executor="nowhere")
    manual.modify_job("job", name="x")
    manual.advance(10)
    manual.remove_job("job")
    assert some.codes == [code for code in everything.codes if code & mask]


def test_a_plain_number_is_a_mask_too(manual):
    recorder = EventRecorder(manual, 2**9)
    manual.add_job(note, "interval", hours=1)
    assert recorder.codes == [EVENT_JOB_ADDED]


@pytest.mark.parametrize("executor", [None, DebugExecutor], ids=["thread pool", "debug"])
@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_the_events_of_one_date_job_come_in_order(schedulers, executor, dispatch):
    executors = {} if executor is None else {"default": executor()}
    scheduler = schedulers(event_dispatch=dispatch, executors=executors)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    scheduler.shutdown()
    codes = [event.code for event in recorder.events if getattr(event, "job_id", None) == "job"]
    assert codes == [
        EVENT_JOB_ADDED, EVENT_JOB_SUBMITTED, EVENT_JOB_REMOVED, EVENT_JOB_STARTED, EVENT_JOB_EXECUTED,
    ]  # fmt: skip


def test_every_run_is_submitted_before_it_is_executed(manual):
    recorder = EventRecorder(manual)
    manual.add_job(note, "interval", seconds=10, id="job", coalesce=False)
    manual.clock.advance(50)
    manual.run_due()
    submitted = []
    for event in recorder.of(EVENT_JOB_SUBMITTED | EVENT_JOB_EXECUTED):
        if event.code == EVENT_JOB_SUBMITTED:
            submitted += event.scheduled_run_times
        else:
            assert event.scheduled_run_time in submitted
    assert submitted == [START + timedelta(seconds=10 * n) for n in range(1, 6)]


def test_the_events_of_a_start_and_a_shutdown_come_in_order(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "interval", hours=1, id="pending")
    scheduler.start()
    scheduler.shutdown()
    codes = recorder.codes
    assert codes[0] in (EVENT_EXECUTOR_ADDED, EVENT_JOBSTORE_ADDED)
    assert set(codes[:2]) == {EVENT_EXECUTOR_ADDED, EVENT_JOBSTORE_ADDED}
    assert codes[2:] == [EVENT_JOB_ADDED, EVENT_SCHEDULER_STARTED, EVENT_SCHEDULER_SHUTDOWN]


def test_components_are_told_of_with_their_alias(manual):
    recorder = EventRecorder(manual)
    manual.add_executor(DebugExecutor(), "second")
    manual.add_jobstore(PickledStore(), "second")
    manual.remove_executor("second")
    manual.remove_jobstore("second")
    assert [(event.code, event.alias) for event in recorder.events] == [
        (EVENT_EXECUTOR_ADDED, "second"), (EVENT_JOBSTORE_ADDED, "second"),
        (EVENT_EXECUTOR_REMOVED, "second"), (EVENT_JOBSTORE_REMOVED, "second"),
    ]


def test_job_events_carry_what_users_read_from_them(schedulers):
    scheduler = schedulers(ManualScheduler, executors={"holding": HoldingExecutor()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    run_date = START + timedelta(seconds=10)

    def fail():
        raise ValueError("broken")

    scheduler.add_job(lambda: 7, "date", run_date=run_date, id="well")
    scheduler.add_job(fail, "date", run_date=run_date, id="ill")
    scheduler.add_job(note, "date", run_date=START - timedelta(days=1), id="late", misfire_grace_time=1)
    scheduler.add_job(note, "interval", seconds=10, id="busy", executor="holding")
    scheduler.modify_job("busy", name="very busy")
    scheduler.advance(20)
    (executed,) = recorder.of(EVENT_JOB_EXECUTED)
    assert (executed.job_id, executed.jobstore, executed.scheduled_run_time, executed.retval) == (
        "well", "default", run_date, 7,
    )
    assert executed.exception is executed.traceback is None
    (error,) = recorder.of(EVENT_JOB_ERROR)
    assert (error.job_id, error.scheduled_run_time, error.retval) == ("ill", run_date, None)
    assert isinstance(error.exception, ValueError)
    assert "in fail" in error.traceback
    (missed,) = recorder.of(EVENT_JOB_MISSED)
    assert (missed.job_id, missed.scheduled_run_time) == ("late", START - timedelta(days=1))
    (full,) = recorder.of(EVENT_JOB_MAX_INSTANCES)
    assert (full.job_id, full.scheduled_run_times) == ("busy", [START + timedelta(seconds=20)])
    (modified,) = recorder.of(EVENT_JOB_MODIFIED)
    assert (modified.job_id, modified.jobstore) == ("busy", "default")


def test_a_pending_job_that_is_modified_is_told_of_without_a_store(schedulers):
    scheduler = schedulers(ManualScheduler)
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.modify_job("job", name="x")
    (event,) = recorder.of(EVENT_JOB_MODIFIED)
    assert event.jobstore is None


def test_replacing_a_job_is_told_of_as_adding_it(manual):
    recorder = EventRecorder(manual)
    for _ in range(2):
        manual.add_job(note, "interval", hours=1, id="job", replace_existing=True)
    assert recorder.codes == [EVENT_JOB_ADDED, EVENT_JOB_ADDED]


def test_events_are_delivered_on_a_thread_of_their_own(schedulers):
    scheduler = schedulers()
    threads = set()
    scheduler.add_listener(lambda event: threads.add(threading.current_thread()))
    scheduler.start()
    scheduler.add_job(note)
    scheduler.shutdown()
    (thread,) = threads
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_with_sync_dispatch_events_are_delivered_where_they_happen(schedulers):
    scheduler = schedulers(event_dispatch="sync")
    recorder = EventRecorder(scheduler)
    threads = {}
    scheduler.add_listener(lambda event: threads.setdefault(event.code, threading.current_thread()))
    scheduler.start()
    scheduler.add_job(note, id="job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    here = threading.current_thread()
    assert threads[EVENT_SCHEDULER_STARTED] is threads[EVENT_JOB_ADDED] is here
    assert threads[EVENT_JOB_SUBMITTED] is not here


def test_a_slow_listener_does_not_hold_up_the_scheduler(schedulers):
    # APScheduler 3 calls listeners inside scheduling, some with the store's lock held.
    scheduler = schedulers()
    slow, done = Gate(), threading.Event()
    scheduler.add_listener(lambda event: slow(), EVENT_JOB_ADDED)
    scheduler.start()
    try:
        scheduler.add_job(note, "interval", hours=1, id="heard")
        assert slow.started.wait(60)
        within(60, lambda: scheduler.add_job(done.set))
        assert done.wait(60)
        assert within(60, scheduler.get_jobs)
    finally:
        slow.release()


def test_shutdown_delivers_everything_before_it_returns(schedulers):
    scheduler = schedulers()
    heard = []
    first = Gate()

    def slow(event):
        if not heard:
            first()
        heard.append(event.code)

    scheduler.add_listener(slow)
    scheduler.start()
    for number in range(50):
        scheduler.add_job(note, "interval", hours=1, id=str(number))
    stopping = threading.Thread(target=scheduler.shutdown, daemon=True)
    stopping.start()
    first.release()
    stopping.join(60)
    assert not stopping.is_alive()
    assert heard.count(EVENT_JOB_ADDED) == 50
    assert heard[-1] == EVENT_SCHEDULER_SHUTDOWN


def test_shutdown_with_a_limit_does_not_wait_for_a_listener_that_hangs(schedulers, gate):
    scheduler = schedulers()
    scheduler.add_listener(lambda event: gate(), EVENT_SCHEDULER_STARTED)
    scheduler.start()
    assert gate.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.1))


def test_events_stay_in_order_and_one_at_a_time_after_a_restart_during_a_slow_delivery(schedulers, gate):
    scheduler = schedulers()
    entered, overlapping, order = [], [], []

    def listener(event):
        if entered:
            overlapping.append(event)
        entered.append(event)
        if event.code == EVENT_JOB_ADDED and event.job_id == "first":
            gate()
        order.append(getattr(event, "job_id", None))
        entered.remove(event)

    scheduler.add_listener(listener)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="first")
    assert gate.started.wait(60)
    scheduler.add_job(note, "interval", hours=1, id="second")
    within(60, lambda: scheduler.shutdown(timeout=0.05))
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="third")
    gate.release()
    within(60, scheduler.shutdown)
    assert overlapping == []
    assert [job_id for job_id in order if job_id] == ["first", "second", "third"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_a_listener_that_raises_is_logged_and_the_others_are_told(schedulers, dispatch, error, caplog):
    scheduler = schedulers(event_dispatch=dispatch)

    def raising(event):
        raise error

    scheduler.add_listener(raising)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    scheduler.shutdown()
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
    assert "Error notifying listener" in caplog.text


def test_a_listener_added_twice_hears_twice_and_is_removed_at_once(manual):
    heard = []
    manual.add_listener(heard.append)
    manual.add_listener(heard.append, EVENT_JOB_ADDED)
    manual.add_job(note, "interval", hours=1, id="a")
    assert len(heard) == 2
    manual.remove_listener(heard.append)
    manual.add_job(note, "interval", hours=1, id="b")
    assert len(heard) == 2


def test_removing_an_unknown_listener_is_fine(manual):
    manual.remove_listener(print)


@pytest.mark.parametrize("callback", [None, 5, "text"])
def test_what_cannot_be_called_is_no_listener(manual, callback):
    with pytest.raises(TypeError, match="callable"):
        manual.add_listener(callback)


def test_a_listener_can_add_and_remove_listeners_and_jobs(manual):
    heard = []

    def once(event):
        manual.remove_listener(once)
        manual.add_listener(heard.append, EVENT_JOB_ADDED)
        manual.add_job(note, "interval", hours=1, id="from the listener")

    manual.add_listener(once, EVENT_JOB_ADDED)
    manual.add_job(note, "interval", hours=1, id="first")
    assert [event.job_id for event in heard][:1] == ["from the listener"]


def test_a_coroutine_listener_of_a_background_scheduler_is_run(schedulers):
    scheduler = schedulers()
    heard = threading.Event()

    async def listener(event):
        await asyncio.sleep(0)
        heard.set()

    scheduler.add_listener(listener, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(note)
    assert heard.wait(60)


def test_a_coroutine_listener_told_on_a_running_loop_leaves_no_coroutine_behind(schedulers):
    scheduler = schedulers(event_dispatch="sync")
    made = []

    async def hear(event):
        await asyncio.sleep(0)

    def listener(event):
        made.append(hear(event))
        return made[-1]

    scheduler.add_listener(listener, EVENT_JOB_ADDED)

    async def main():
        scheduler.start()
        scheduler.add_job(note, "interval", hours=1)

    asyncio.run(main())
    states = [inspect.getcoroutinestate(coroutine) for coroutine in made]
    for coroutine in made:
        coroutine.close()
    assert states == [inspect.CORO_CLOSED]


def test_events_of_the_users_own_are_delivered(manual):
    recorder = EventRecorder(manual)
    event = SchedulerEvent(EVENT_JOB_ADDED, "my own")
    manual._dispatch_event(event)
    assert recorder.events == [event]


def test_listeners_stay_over_a_restart(schedulers):
    scheduler = schedulers(BackgroundScheduler)
    recorder = EventRecorder(scheduler)
    for _ in range(2):
        scheduler.start()
        scheduler.shutdown()
    assert recorder.codes.count(EVENT_SCHEDULER_SHUTDOWN) == 2


def test_many_threads_may_post_and_every_event_is_heard_once(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler, EVENT_JOB_ADDED)
    scheduler.start()

    def add(tag):
        for number in range(25):
            scheduler.add_job(note, "interval", hours=1, id=f"{tag}-{number}")

    threads = [threading.Thread(target=add, args=[tag]) for tag in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scheduler.shutdown()
    heard = [event.job_id for event in recorder.events]
    assert len(heard) == len(set(heard)) == 100
    for tag in "abcd":
        assert [job_id for job_id in heard if job_id.startswith(tag)] == [f"{tag}-{n}" for n in range(25)]


# Starts, and what the end of an attempt says


def test_a_start_is_told_of_when_a_worker_has_the_run(schedulers):
    executor = QueueingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": executor})
    scheduler.start()
    recorder = EventRecorder(scheduler, EVENT_JOB_SUBMITTED | EVENT_JOB_STARTED | EVENT_JOB_EXECUTED)
    scheduler.register("mail", note)
    scheduler.add_job("mail", "interval", hours=1, id="job")
    scheduler.advance("1h")
    assert [event.code for event in recorder.events] == [EVENT_JOB_SUBMITTED]
    scheduler.clock.advance("90s")
    executor.begin()
    scheduler.run_due()
    _, started, executed = recorder.events
    run_id = scheduler.runs()[0].run_id
    assert (started.code, started.job_id, started.jobstore, started.task) == (
        EVENT_JOB_STARTED, "job", "default", "mail",
    )  # fmt: skip
    assert (started.run_id, started.attempt, started.lateness) == (run_id, 1, 90.0)
    assert started.scheduled_run_time == START + timedelta(hours=1)
    assert (executed.code, executed.task, executed.run_id, executed.attempt, executed.lateness) == (
        EVENT_JOB_EXECUTED, "mail", run_id, 1, 90.0,
    )  # fmt: skip


def test_the_end_of_an_attempt_says_how_long_it_took(manual):
    def slow():
        manual.clock.advance("2s")
        raise ValueError

    recorder = EventRecorder(manual, EVENT_JOB_STARTED | EVENT_JOB_ERROR)
    manual.add_job(slow, retry=Retry(2, fixed(60)))
    manual.advance("2m")
    assert [(event.code, event.attempt, getattr(event, "duration", None)) for event in recorder.events] == [
        (EVENT_JOB_STARTED, 1, None), (EVENT_JOB_ERROR, 1, 2.0),
        (EVENT_JOB_STARTED, 2, None), (EVENT_JOB_ERROR, 2, 2.0),
    ]  # fmt: skip


def test_a_run_that_comes_too_late_does_not_start(schedulers):
    executor = QueueingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": executor})
    scheduler.start()
    recorder = EventRecorder(scheduler, EVENT_JOB_STARTED | EVENT_JOB_MISSED)
    scheduler.add_job(note, "interval", hours=1, id="job", misfire_grace_time=60)
    scheduler.advance("1h")
    scheduler.clock.advance("2m")
    executor.begin()
    scheduler.run_due()
    assert [(event.code, event.duration, event.lateness) for event in recorder.events] == [(EVENT_JOB_MISSED, 0.0, 0.0)]


def test_a_start_that_nobody_listens_for_is_not_made_an_event(manual, monkeypatch):
    made = []
    monkeypatch.setattr(_announce, "JobStartEvent", lambda *args: made.append(args))
    manual.add_listener(lambda event: None, EVENT_JOB_EXECUTED)
    manual.add_job(note, "interval", hours=1)
    manual.advance("3h")
    assert (len(manual.runs()), made) == (3, [])
