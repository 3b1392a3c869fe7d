"""Starting and stopping in awkward moments: nothing hangs, nothing is doubled."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import timedelta

import pytest
from behaviour_doubles import HoldingExecutor, PickledStore, note, within, works

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import SchedulerAlreadyRunningError, SchedulerNotRunningError
from goscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
)
from goscheduler.executors.pool import ProcessPoolExecutor
from goscheduler.runs.model import OutcomeKind
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.schedulers.blocking import BlockingScheduler
from goscheduler.testing import EventRecorder, ManualScheduler


@pytest.mark.parametrize("wait", [True, False])
def test_fifty_starts_and_shutdowns_in_a_row(schedulers, wait):
    scheduler = schedulers()
    for _ in range(50):
        within(60, scheduler.start)
        scheduler.add_job(note, "interval", seconds=0.001)
        within(60, lambda: scheduler.shutdown(wait=wait))
    scheduler.start()
    assert works(scheduler, "last")


def test_twenty_starts_and_shutdowns_on_one_event_loop():
    async def main():
        scheduler = AsyncIOScheduler(timezone="UTC")

        async def job():
            await asyncio.sleep(0)

        for _ in range(20):
            scheduler.start()
            scheduler.add_job(job, "interval", seconds=0.001)
            await asyncio.wait_for(scheduler.shutdown(), 60)

    within(60, lambda: asyncio.run(main()))


def test_threads_that_start_and_stop_at_random_end_with_a_scheduler_that_works(schedulers):
    scheduler = schedulers()
    problems = []

    def meddle():
        for _ in range(25):
            for act in (scheduler.start, scheduler.shutdown):
                try:
                    act()
                except (SchedulerAlreadyRunningError, SchedulerNotRunningError):
                    pass
                except BaseException as error:
                    problems.append(error)

    threads = [threading.Thread(target=meddle, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []
    if not scheduler.running:
        within(60, scheduler.start)
    assert works(scheduler, "last")


def test_a_thousand_jobs_due_at_once_run_exactly_once_each(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.start(paused=True)
    now = SYSTEM_CLOCK.now()
    for number in range(1000):
        scheduler.add_job(note, "date", run_date=now, id=str(number))
    scheduler.resume()
    recorder.wait_for(EVENT_JOB_EXECUTED, count=1000, timeout=60)
    scheduler.shutdown()
    assert set(Counter(event.job_id for event in recorder.events).values()) == {1}


@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_a_listener_that_restarts_the_scheduler_at_its_shutdown_hangs_nothing(schedulers, dispatch):
    scheduler = schedulers(event_dispatch=dispatch)
    answers = []

    def restart(event):
        try:
            scheduler.start()
            answers.append("started")
        except Exception as error:
            answers.append(error)

    scheduler.add_listener(restart, EVENT_SCHEDULER_SHUTDOWN)
    scheduler.start()
    within(60, scheduler.shutdown)
    scheduler.remove_listener(restart)
    assert len(answers) == 1
    if not scheduler.running:
        within(60, scheduler.start)
    assert works(scheduler, "after")


def test_a_job_that_shuts_down_and_starts_again_hangs_nothing(schedulers):
    scheduler = schedulers()
    answers, answered = [], threading.Event()

    def restart():
        scheduler.shutdown()
        try:
            scheduler.start()
            answers.append("started")
        except SchedulerAlreadyRunningError as error:
            answers.append(error)
        answered.set()

    scheduler.start()
    scheduler.add_job(restart)
    assert answered.wait(60)
    if not scheduler.running:
        within(60, scheduler.start)
    assert works(scheduler, "after")


def test_two_threads_that_shut_down_at_once_shut_down_once(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler, EVENT_SCHEDULER_SHUTDOWN)
    for _ in range(10):
        scheduler.start()
        refused = []

        def stop(refused=refused):
            try:
                scheduler.shutdown()
            except SchedulerNotRunningError:
                refused.append(1)

        threads = [threading.Thread(target=stop) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert refused == [1]
    within(60, scheduler.engine.stopped.wait)
    assert len(recorder.events) == 10


def test_the_limit_of_shutdown_is_one_limit_for_everything(schedulers, gates, monkeypatch):
    limits = []

    class Noted(Deadline):
        def __init__(self, clock, seconds):
            super().__init__(clock, seconds)
            limits.append(seconds)

    monkeypatch.setattr("goscheduler.schedulers._lifecycle.Deadline", Noted)
    job, listener = gates(), gates()
    scheduler = schedulers()
    scheduler.add_listener(lambda event: listener(), EVENT_SCHEDULER_STARTED)
    scheduler.start()
    scheduler.add_job(job)
    assert job.started.wait(60)
    assert listener.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.1))
    assert limits == [0.1]


def test_a_loop_that_was_left_behind_in_a_hanging_store_ends_when_the_store_answers(schedulers, gate):
    class Hanging(PickledStore):
        armed = False

        def fire_due(self, request):
            if self.armed:
                self.armed = False
                gate()
            return super().fire_due(request)

    store = Hanging()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start()
    left_behind = scheduler._loop.thread
    store.armed = True
    scheduler.wakeup()
    assert gate.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.05))
    within(60, scheduler.start)
    gate.release()
    assert works(scheduler, "after")
    left_behind.join(60)
    assert not left_behind.is_alive()


def test_a_settler_that_was_left_behind_does_not_cost_the_next_one_its_outcomes(schedulers, gate):
    class Hanging(PickledStore):
        armed = True

        def settle(self, settlements):
            if self.armed:
                self.armed = False
                gate()
            return super().settle(settlements)

    scheduler = schedulers(jobstores={"hanging": Hanging()})
    scheduler.start()
    scheduler.add_job(note, jobstore="hanging")
    assert gate.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.05))
    within(60, scheduler.start)
    assert works(scheduler, "in the other store")


def test_a_start_that_is_followed_by_a_shutdown_at_once_hangs_nothing(schedulers):
    scheduler = schedulers(BlockingScheduler)
    started = EventRecorder(scheduler, EVENT_SCHEDULER_STARTED)
    for turn in range(20):
        thread = threading.Thread(target=scheduler.start, daemon=True)
        thread.start()
        started.wait_for(EVENT_SCHEDULER_STARTED, count=turn + 1, timeout=60)
        within(60, scheduler.shutdown)
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.serial
def test_a_job_that_kills_its_process_fails_alone(schedulers):
    scheduler = schedulers(executors={"processes": ProcessPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job("behaviour_doubles:die", executor="processes", id="killer")
    recorder.wait_for(EVENT_JOB_ERROR, "killer", timeout=60)
    scheduler.add_job("behaviour_doubles:note", args=["alive"], executor="processes", id="next")
    ended = recorder.wait_for(EVENT_JOB_EXECUTED | EVENT_JOB_ERROR, "next", timeout=60)
    assert (ended.exception, ended.retval) == (None, "alive")
    assert works(scheduler, "in a thread")


def test_an_executor_that_gives_back_everything_does_not_make_the_loop_spin(schedulers):
    class Refusing(HoldingExecutor):
        def submit(self, run):
            super().submit(run)
            self.finish(OutcomeKind.SNOOZED)

    refusing = Refusing()
    scheduler = schedulers(ManualScheduler, executors={"default": refusing})
    scheduler.start()
    for number in range(5):
        scheduler.add_job(note, "date", run_date=scheduler.clock.now(), id=str(number))
    woken = []
    scheduler.wakeup = lambda: woken.append(1)
    for _ in range(50):
        woken.clear()
        wait = scheduler._process_jobs()
        scheduler.engine.settler.settle_reported()
        if wait > 0 and not woken:
            break
    assert len(refusing.taken) <= 50


def test_what_an_executor_gives_back_is_tried_again_and_runs_in_the_end(schedulers, jobcalls):
    class RefusingOnce(HoldingExecutor):
        def submit(self, run):
            if len(self.taken) < 2:
                super().submit(run)
                self.finish(OutcomeKind.SNOOZED)
            else:
                self._report(run, self._attempt(run))

    scheduler = schedulers(ManualScheduler, executors={"default": RefusingOnce()})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=scheduler.clock.now())
    for _ in range(5):
        scheduler.run_due()
        scheduler.clock.advance(timedelta(seconds=10))
    assert jobcalls == ["called"]
