"""What APScheduler 3 does wrong at run time and is done right here, one by one."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from behaviour_doubles import START, PickledStore, note

from goscheduler.errors import NeverFires
from goscheduler.events import (
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_SUSPENDED,
)
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.triggers.combining import AndTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger


@pytest.fixture
def manual(schedulers):
    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    return scheduler


def test_a_store_error_while_a_finished_job_is_removed_does_not_end_the_loop(schedulers):
    refused = threading.Event()

    class ReadOnly(PickledStore):
        def remove_job(self, job_id):
            if not refused.is_set():
                refused.set()
                raise OSError("read only")
            super().remove_job(job_id)

    scheduler = schedulers(jobstores={"default": ReadOnly()}, jobstore_retry_interval=0.05)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job")
    assert refused.wait(60)
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)


def test_a_late_run_of_a_busy_pool_is_run_and_not_skipped(schedulers, gate, jobcalls):
    scheduler = schedulers(executors={"default": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(gate)
    assert gate.started.wait(60)
    scheduler.add_job(note, "date", run_date=START, id="late")  # years late
    gate.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "late", timeout=60)
    assert jobcalls == ["called"]


def test_a_firing_refused_for_its_instances_is_an_event_and_a_record(schedulers, gate):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(gate, "interval", seconds=0.05, id="job")
    event = recorder.wait_for(EVENT_JOB_MAX_INSTANCES, "job", timeout=60)
    (moment,) = event.scheduled_run_times
    store = scheduler.engine.stores["default"]
    skipped = store.history(HistoryQuery("job", frozenset({OutcomeKind.SKIPPED})))
    assert moment in [record.scheduled_at for record in skipped]


def test_a_finished_trigger_is_refused_at_the_call_instead_of_being_stored_as_paused(manual):
    over = {"seconds": 10, "end_date": START - timedelta(days=1), "start_date": START - timedelta(days=2)}
    with pytest.raises(NeverFires):
        manual.add_job(note, "interval", id="job", **over)
    assert manual.get_jobs() == []
    manual.add_job(note, "interval", seconds=10, id="job")
    with pytest.raises(NeverFires):
        manual.reschedule_job("job", trigger="interval", **over)
    assert manual.get_job("job").next_run_time == START + timedelta(seconds=10)


def test_an_and_of_triggers_that_never_meet_stops_nothing(manual, jobcalls):
    trigger = AndTrigger([CronTrigger(minute=0, timezone="UTC"), CronTrigger(minute=30, timezone="UTC")])
    with pytest.raises(ValueError, match=r"never|no fire time"):
        manual.add_job(note, trigger, id="never")
    manual.add_job(note, "interval", seconds=10, id="job")
    manual.advance(10)
    assert jobcalls == ["called"]


def test_an_and_of_triggers_whose_times_differ_after_a_fire_goes_on(manual, jobcalls):
    trigger = AndTrigger([
        IntervalTrigger(seconds=20, start_date=START, timezone="UTC"),
        IntervalTrigger(seconds=30, start_date=START, timezone="UTC"),
    ])
    manual.add_job(note, trigger, id="job")
    manual.advance(185)
    assert len(jobcalls) == 4  # at 0, 60, 120 and 180 seconds


def test_a_coroutine_function_on_a_thread_pool_is_run_and_its_result_told(schedulers):
    async def job():
        await asyncio.sleep(0)
        return "awaited"

    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(job, id="job")
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60).retval == "awaited"


def test_one_slow_store_call_does_not_block_the_other_calls(schedulers, gate):
    class Slow(PickledStore):
        def fire_due(self, request):
            if self.rows:
                gate()
            return super().fire_due(request)

    scheduler = schedulers(jobstores={"slow": Slow()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, jobstore="slow", id="slow")
    assert gate.started.wait(60)
    done = threading.Event()

    def others():
        scheduler.add_job(note, "interval", hours=1, id="other")
        scheduler.modify_job("other", jobstore="default", name="x")
        scheduler.pause()
        scheduler.resume()
        scheduler.get_jobs("default")
        scheduler.add_listener(print, 0)
        scheduler.add_executor("debug", "second")
        done.set()

    threading.Thread(target=others, daemon=True).start()
    assert done.wait(60)
    gate.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "slow", timeout=60)


def test_listing_jobs_never_removes_one(schedulers):
    store = PickledStore()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job", executor="nowhere")
    for _ in range(3):
        scheduler.get_jobs()
        scheduler.get_job("job")
        scheduler.print_jobs(out=open_nothing())
        scheduler.advance(10)
    assert set(store.rows) == {"job"}
    assert len(recorder.of(EVENT_JOB_SUSPENDED)) == 1


def open_nothing():
    class Nothing:
        def write(self, text):
            return len(text)

    return Nothing()


def test_a_pending_job_due_at_the_shutdown_of_a_running_scheduler_is_run_or_left_but_never_half_done(schedulers):
    for _ in range(20):
        store = PickledStore()
        scheduler = schedulers(jobstores={"default": store})
        recorder = EventRecorder(scheduler)
        scheduler.start()
        scheduler.add_job(note, id="job")
        scheduler.shutdown()
        executed = len(recorder.of(EVENT_JOB_EXECUTED, "job"))
        waiting = "job" in store.rows
        put_back = not waiting and not executed and bool(store._runs._pending)
        assert executed + waiting + put_back == 1
