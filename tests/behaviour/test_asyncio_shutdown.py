"""Shutting down the scheduler of an asyncio program: awaited or not, from outside and from within."""

from __future__ import annotations

import asyncio

import pytest
from behaviour_doubles import LIMIT, heard, in_event_loop, note, run, within

from goscheduler.errors import SchedulerNotRunningError
from goscheduler.events import (
    EVENT_JOB_CANCELLED,
    EVENT_JOB_EXECUTED,
    EVENT_SCHEDULER_SHUTDOWN,
)
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.testing import EventRecorder


@in_event_loop
async def test_an_awaited_shutdown_lets_running_tasks_finish():
    # APScheduler 3 cancels them and returns before anything has happened.
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    started, release = asyncio.Event(), asyncio.Event()
    finished = []

    async def job():
        started.set()
        await release.wait()
        finished.append(1)

    scheduler.add_job(job, id="job")
    await asyncio.wait_for(started.wait(), LIMIT)
    stopping = asyncio.ensure_future(scheduler.shutdown())
    assert not scheduler.running
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stopping.done()
    release.set()
    await asyncio.wait_for(stopping, LIMIT)
    assert finished == [1]
    assert recorder.of(EVENT_JOB_EXECUTED, "job")
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN


@pytest.mark.parametrize("arguments", [{"wait": False}, {"timeout": 0.05}], ids=["without waiting", "out of time"])
@in_event_loop
async def test_a_shutdown_that_does_not_wait_cancels_running_tasks(arguments):
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    started = asyncio.Event()
    cancelled = asyncio.Event()

    async def job():
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    scheduler.add_job(job, id="job")
    await asyncio.wait_for(started.wait(), LIMIT)
    await asyncio.wait_for(scheduler.shutdown(**arguments), LIMIT)
    await asyncio.wait_for(cancelled.wait(), LIMIT)
    assert not recorder.of(EVENT_JOB_EXECUTED, "job")


@in_event_loop
async def test_a_task_cancelled_by_the_shutdown_is_told_of():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    started = asyncio.Event()

    async def job():
        started.set()
        await asyncio.Event().wait()

    scheduler.add_job(job, id="job")
    await asyncio.wait_for(started.wait(), LIMIT)
    await asyncio.wait_for(scheduler.shutdown(timeout=0.05), LIMIT)
    assert recorder.of(EVENT_JOB_CANCELLED, "job")


@in_event_loop
async def test_shutdown_without_await_on_the_loop_returns_at_once_and_happens():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.shutdown()
    assert not scheduler.running
    await heard(recorder, EVENT_SCHEDULER_SHUTDOWN)
    with pytest.raises(SchedulerNotRunningError):
        scheduler.shutdown()


@in_event_loop
async def test_shutdown_without_await_as_the_last_thing_of_a_program_ends_it():
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1)
    scheduler.shutdown()


@in_event_loop
async def test_shutdown_from_another_thread_can_be_waited_for_there():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    await asyncio.to_thread(scheduler.shutdown)
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN


@in_event_loop
async def test_a_coroutine_job_can_await_the_shutdown_of_its_scheduler():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    ended = asyncio.Event()

    async def job():
        await scheduler.shutdown()
        ended.set()

    scheduler.add_job(job, id="job")
    await asyncio.wait_for(ended.wait(), LIMIT)
    await heard(recorder, EVENT_SCHEDULER_SHUTDOWN)


@in_event_loop
async def test_a_coroutine_job_can_call_shutdown_without_awaiting_it():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()

    async def job():
        scheduler.shutdown()

    scheduler.add_job(job, id="job")
    await heard(recorder, EVENT_SCHEDULER_SHUTDOWN)
    assert recorder.of(EVENT_JOB_EXECUTED, "job")


@pytest.mark.parametrize("dispatch", ["thread", "sync"])
@in_event_loop
async def test_a_coroutine_listener_can_await_the_shutdown_of_its_scheduler(dispatch):
    scheduler = AsyncIOScheduler(timezone="UTC", event_dispatch=dispatch)
    recorder = EventRecorder(scheduler)
    ended = asyncio.Event()

    async def listener(event):
        await scheduler.shutdown()
        ended.set()

    scheduler.add_listener(listener, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(note, id="job")
    await asyncio.wait_for(ended.wait(), LIMIT)
    await heard(recorder, EVENT_SCHEDULER_SHUTDOWN)


@in_event_loop
async def test_a_plain_listener_can_shut_the_scheduler_down():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.add_listener(lambda event: scheduler.shutdown(), EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(note, id="job")
    await heard(recorder, EVENT_SCHEDULER_SHUTDOWN)


@in_event_loop
async def test_a_coroutine_listener_that_hangs_does_not_hold_up_a_shutdown_with_a_limit():
    scheduler = AsyncIOScheduler(timezone="UTC")
    hanging = asyncio.Event()

    async def listener(event):
        hanging.set()
        await asyncio.Event().wait()

    scheduler.add_listener(listener, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(note, id="job")
    await asyncio.wait_for(hanging.wait(), LIMIT)
    await asyncio.wait_for(scheduler.shutdown(timeout=0.1), LIMIT)


def test_the_loop_that_ends_without_a_shutdown_leaves_a_scheduler_that_can_be_shut_down():
    scheduler = AsyncIOScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)

    async def main():
        scheduler.start()
        started = asyncio.Event()

        async def job():
            started.set()
            await asyncio.Event().wait()

        scheduler.add_job(job, id="job")
        await asyncio.wait_for(started.wait(), LIMIT)

    run(main)
    within(LIMIT, lambda: scheduler.shutdown(timeout=1))
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
