"""Blocking and background schedulers: where they fire, how they end, what they refuse."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
from behaviour_doubles import (
    within,
    works,
)

from goscheduler.events import (
    EVENT_SCHEDULER_STARTED,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.blocking import BlockingScheduler
from goscheduler.testing import EventRecorder, ManualScheduler


def test_a_listener_of_the_start_can_shut_a_blocking_scheduler_down_every_time(schedulers):
    scheduler = schedulers(BlockingScheduler, event_dispatch="sync")
    problems = []

    def shut_down(event):
        try:
            scheduler.shutdown()
        except BaseException as error:
            problems.append(error)

    scheduler.add_listener(shut_down, EVENT_SCHEDULER_STARTED)
    for _ in range(2):
        within(60, scheduler.start)
    assert problems == []


def test_a_blocking_scheduler_returns_from_start_after_shutdown_on_another_thread(schedulers):
    scheduler = schedulers(BlockingScheduler)
    recorder = EventRecorder(scheduler)
    returned = threading.Event()

    def program():
        scheduler.start()
        returned.set()

    threading.Thread(target=program, daemon=True).start()
    recorder.wait_for(EVENT_SCHEDULER_STARTED, timeout=60)
    assert works(scheduler)
    assert not returned.is_set()
    within(60, scheduler.shutdown)
    assert returned.wait(60)
    assert not scheduler.running


def test_a_blocking_scheduler_fires_on_the_thread_that_started_it(schedulers):
    scheduler = schedulers(BlockingScheduler, executors={"default": DebugExecutor()})
    threads = []

    def job():
        threads.append(threading.current_thread())
        scheduler.shutdown()

    scheduler.add_job(job)
    scheduler.start()
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_a_blocking_scheduler_and_reaches_the_caller(schedulers, monkeypatch, error):
    scheduler = schedulers(BlockingScheduler)

    def interrupted():
        raise error

    monkeypatch.setattr(scheduler, "_process_jobs", interrupted)
    with pytest.raises(error):
        scheduler.start()


def test_the_usual_shutdown_after_an_interrupt_works(schedulers, monkeypatch):
    # try: scheduler.start() except (KeyboardInterrupt, SystemExit): scheduler.shutdown()
    scheduler = schedulers(BlockingScheduler)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(scheduler, "_process_jobs", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        scheduler.start()
    assert len(caught.traceback) == 2, "beside this line, start() and nothing of the loop"
    scheduler.shutdown()
    assert not scheduler.running


def test_a_background_scheduler_fires_on_a_daemon_thread_of_its_own_unless_told_otherwise(schedulers):
    for option, expected in ((None, True), (False, False), ("no", False), ("yes", True)):
        scheduler = schedulers(**({} if option is None else {"daemon": option}))
        scheduler.start()
        assert scheduler._loop.thread.daemon is expected
        assert scheduler._loop.thread is not threading.current_thread()
        scheduler.shutdown()


@pytest.mark.parametrize("serialize", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", [BackgroundScheduler, BlockingScheduler, ManualScheduler])
def test_a_scheduler_cannot_be_serialized(schedulers, kind, serialize):
    with pytest.raises(TypeError, match=r"^Schedulers cannot be serialized"):
        serialize(schedulers(kind))
