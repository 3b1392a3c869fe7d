"""The scheduler of asyncio programs: the loop runs coroutines and waits for nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest
from behaviour_doubles import LIMIT, FaultySimpleStore, Gate, heard, in_event_loop, note, run, within

from goscheduler import current_run
from goscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_SCHEDULER_SHUTDOWN,
)
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.testing import EventRecorder


@in_event_loop
async def test_a_coroutine_function_runs_on_the_loop_and_its_result_is_told():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    seen = []

    async def job():
        seen.append((threading.current_thread(), asyncio.get_running_loop(), current_run().job_id))
        await asyncio.sleep(0)
        return 42

    scheduler.add_job(job, id="job")
    event = await heard(recorder, EVENT_JOB_EXECUTED, "job")
    assert event.retval == 42
    assert seen == [(threading.current_thread(), asyncio.get_running_loop(), "job")]
    await scheduler.shutdown()


@in_event_loop
async def test_an_object_with_an_async_call_is_awaited_on_the_loop():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()

    class Callable:
        async def __call__(self):
            return threading.current_thread()

    scheduler.add_job(Callable(), id="job")
    assert (await heard(recorder, EVENT_JOB_EXECUTED, "job")).retval is threading.current_thread()
    await scheduler.shutdown()


@in_event_loop
async def test_a_plain_function_runs_off_the_loop():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(threading.current_thread, id="job")
    assert (await heard(recorder, EVENT_JOB_EXECUTED, "job")).retval is not threading.current_thread()
    await scheduler.shutdown()


@in_event_loop
async def test_a_coroutine_function_on_a_thread_pool_is_run_too():
    scheduler = AsyncIOScheduler(timezone="UTC", executors={"default": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()

    async def job():
        return threading.current_thread()

    scheduler.add_job(job, id="job")
    assert (await heard(recorder, EVENT_JOB_EXECUTED, "job")).retval is not threading.current_thread()
    await scheduler.shutdown()


@in_event_loop
async def test_a_coroutine_that_raises_is_told_as_an_error_and_the_next_one_runs():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()

    async def bad():
        raise LookupError("nothing there")

    scheduler.add_job(bad, id="bad")
    assert isinstance((await heard(recorder, EVENT_JOB_ERROR, "bad")).exception, LookupError)
    scheduler.add_job(note, id="good")
    await heard(recorder, EVENT_JOB_EXECUTED, "good")
    await scheduler.shutdown()


@in_event_loop
async def test_a_coroutine_listener_is_awaited_on_the_loop_in_order():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    told = []
    enough = asyncio.Event()

    async def listener(event):
        await asyncio.sleep(0)
        told.append((event.job_id, threading.current_thread()))
        if len(told) == 5:
            enough.set()

    scheduler.add_listener(listener, EVENT_JOB_ADDED)
    scheduler.start()
    for number in range(5):
        scheduler.add_job(note, "interval", hours=1, id=str(number))
    await asyncio.wait_for(enough.wait(), LIMIT)
    assert told == [(str(number), threading.current_thread()) for number in range(5)]
    await scheduler.shutdown()
    assert recorder.of(EVENT_SCHEDULER_SHUTDOWN)


@in_event_loop
async def test_a_coroutine_listener_that_raises_stops_nothing():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)

    async def listener(event):
        raise RuntimeError("not today")

    scheduler.add_listener(listener)
    scheduler.start()
    scheduler.add_job(note, id="job")
    await heard(recorder, EVENT_JOB_EXECUTED, "job")
    await scheduler.shutdown()


@in_event_loop
async def test_with_sync_dispatch_a_coroutine_listener_is_run_on_the_loop_too():
    scheduler = AsyncIOScheduler(timezone="UTC", event_dispatch="sync")
    told = asyncio.Event()

    async def listener(event):
        told.set()

    scheduler.add_listener(listener, EVENT_JOB_ADDED)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1)
    await asyncio.wait_for(told.wait(), LIMIT)
    await scheduler.shutdown()


@in_event_loop
async def test_no_store_is_ever_asked_on_the_loop_when_the_aio_methods_are_used():
    store = FaultySimpleStore()
    scheduler = AsyncIOScheduler(timezone="UTC", jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    await scheduler.aio.start()
    job = await scheduler.aio.add_job(note, "interval", seconds=0.05, id="job")
    await heard(recorder, EVENT_JOB_EXECUTED, "job", count=2)
    await scheduler.aio.modify_job("job", name="other")
    await scheduler.aio.pause_job("job")
    await scheduler.aio.resume_job("job")
    assert (await scheduler.aio.get_job("job")).id == job.id
    await scheduler.aio.remove_job("job")
    await scheduler.shutdown()
    assert {"start", "fire_due", "settle", "add_job", "edit_job", "remove_job", "shutdown"} <= set(store.asked)
    assert threading.current_thread() not in store.threads


@in_event_loop
async def test_firing_and_settling_never_happen_on_the_loop():
    store = FaultySimpleStore()
    scheduler = AsyncIOScheduler(timezone="UTC", jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=0.05, id="job")
    store.threads.clear()
    await heard(recorder, EVENT_JOB_EXECUTED, "job", count=3)
    await scheduler.shutdown()
    assert threading.current_thread() not in store.threads


@in_event_loop
async def test_a_store_that_hangs_does_not_hold_up_the_loop():
    gate = Gate()

    class Hanging(FaultySimpleStore):
        def fire_due(self, request):
            if self.rows:
                gate()
            return super().fire_due(request)

    scheduler = AsyncIOScheduler(timezone="UTC", jobstores={"default": Hanging()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job")
    assert await asyncio.to_thread(gate.started.wait, LIMIT)
    await asyncio.wait_for(asyncio.sleep(0), LIMIT)  # the loop turns
    gate.release()
    await heard(recorder, EVENT_JOB_EXECUTED, "job")
    await scheduler.shutdown()


def test_starting_without_a_loop_is_refused_and_leaves_a_startable_scheduler():
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.add_job(note, id="job")
    with pytest.raises(RuntimeError):
        scheduler.start()
    assert not scheduler.running

    async def main():
        recorder = EventRecorder(scheduler)
        scheduler.start()
        await heard(recorder, EVENT_JOB_EXECUTED, "job")
        await scheduler.shutdown()

    run(main)


def test_a_given_loop_is_used_also_before_it_runs():
    loop = asyncio.new_event_loop()
    scheduler = AsyncIOScheduler(timezone="UTC", event_loop=loop)
    recorder = EventRecorder(scheduler)

    async def job():
        return asyncio.get_running_loop() is loop

    scheduler.start()
    scheduler.add_job(job, id="job")

    async def main():
        event = await heard(recorder, EVENT_JOB_EXECUTED, "job")
        assert event.retval is True
        await scheduler.shutdown()

    try:
        within(60, lambda: loop.run_until_complete(main()))
    finally:
        loop.close()


def test_a_closed_given_loop_is_replaced_by_the_running_one():
    loop = asyncio.new_event_loop()
    loop.close()
    scheduler = AsyncIOScheduler(timezone="UTC", event_loop=loop)

    async def main():
        recorder = EventRecorder(scheduler)
        scheduler.start()
        scheduler.add_job(note, id="job")
        await heard(recorder, EVENT_JOB_EXECUTED, "job")
        await scheduler.shutdown()

    run(main)


def test_a_scheduler_can_be_started_again_on_another_loop():
    scheduler = AsyncIOScheduler(timezone="UTC")

    async def main():
        recorder = EventRecorder(scheduler)
        scheduler.start()

        async def job():
            return asyncio.get_running_loop() is loop

        loop = asyncio.get_running_loop()
        scheduler.add_job(job, id="job")
        assert (await heard(recorder, EVENT_JOB_EXECUTED, "job")).retval is True
        await scheduler.shutdown()
        scheduler.remove_listener(recorder)

    run(main)
    run(main)


def test_aio_offers_methods_only():
    scheduler = AsyncIOScheduler(timezone="UTC")
    for name in ("running", "_process_jobs", "no_such_method"):
        with pytest.raises(AttributeError):
            getattr(scheduler.aio, name)


@in_event_loop
async def test_errors_come_through_aio():
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start()
    with pytest.raises(KeyError):
        await scheduler.aio.remove_job("unknown")
    await scheduler.aio.shutdown()
    assert not scheduler.running


@in_event_loop
async def test_a_job_that_blocks_the_loop_delays_no_firing_in_threads():
    scheduler = AsyncIOScheduler(timezone="UTC", executors={"threads": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()

    async def block():
        scheduler.add_job(note, id="other", executor="threads")
        recorder.wait_for(EVENT_JOB_EXECUTED, "other", timeout=LIMIT)  # not awaited: the loop stands still

    scheduler.add_job(block, id="blocking")
    await heard(recorder, EVENT_JOB_EXECUTED, "blocking")
    await scheduler.shutdown()
