"""The loop rests while nothing is due and is never asleep when something is."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial

import pytest
from behaviour_doubles import LIMIT, START, HoldingExecutor, PickledStore, note

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.config import SchedulerConfig
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_SUBMITTED
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing import EventRecorder, ManualScheduler

POLL_INTERVAL = SchedulerConfig().poll_interval


@pytest.fixture
def schedulers(schedulers):
    """A maker of schedulers that do not look by themselves for an hour: what happens was woken."""
    return partial(schedulers, poll_interval=3600)


def test_a_job_added_by_a_job_runs_at_once(schedulers):
    scheduler = schedulers(executors={"default": DebugExecutor()})
    recorder = EventRecorder(scheduler)

    def parent():
        scheduler.add_job(note, id="child")

    scheduler.start()
    scheduler.add_job(parent, id="parent")
    recorder.wait_for(EVENT_JOB_EXECUTED, "child", timeout=LIMIT)


def test_a_job_added_by_a_listener_during_the_round_runs_at_once(schedulers):
    scheduler = schedulers(event_dispatch="sync")
    recorder = EventRecorder(scheduler)

    def react(event):
        if event.job_id == "parent":
            scheduler.add_job(note, id="child")

    scheduler.add_listener(react, EVENT_JOB_SUBMITTED)
    scheduler.start()
    scheduler.add_job(note, id="parent")
    recorder.wait_for(EVENT_JOB_EXECUTED, "child", timeout=LIMIT)


def test_a_job_added_during_a_round_that_came_by_itself_runs_at_once(schedulers, gate):
    scheduler = schedulers(event_dispatch="sync")
    recorder = EventRecorder(scheduler)

    def react(event):
        if event.job_id == "parent":
            scheduler.add_job(note, id="child")

    scheduler.add_listener(react, EVENT_JOB_SUBMITTED)
    scheduler.start()
    # The loop wakes for it by its own clock, and its end, which would wake the loop again, does not come.
    scheduler.add_job(gate, "date", run_date=SYSTEM_CLOCK.now() + timedelta(seconds=0.2), id="parent")
    recorder.wait_for(EVENT_JOB_EXECUTED, "child", timeout=LIMIT)


def test_a_chain_of_jobs_that_each_add_the_next_does_not_stall(schedulers):
    scheduler = schedulers()
    done = threading.Event()

    def link(remaining):
        if remaining:
            scheduler.add_job(link, args=[remaining - 1])
        else:
            done.set()

    scheduler.start()
    scheduler.add_job(link, args=[200])
    assert done.wait(LIMIT)


def test_a_job_moved_earlier_runs_at_its_new_time(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.modify_job("job", next_run_time=SYSTEM_CLOCK.now())
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=LIMIT)


def test_a_resumed_scheduler_runs_at_once_what_came_due(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start(paused=True)
    scheduler.add_job(note, id="job")
    scheduler.resume()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=LIMIT)


def test_a_store_added_while_running_is_looked_at_at_once(schedulers):
    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start()
    full = PickledStore()
    full.start(scheduler, "full")
    scheduler.add_jobstore(full, "full")
    scheduler.add_job(note, jobstore="full", id="job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=LIMIT)


@pytest.fixture
def manual():
    with ManualScheduler() as scheduler:
        yield scheduler


def test_the_wait_ends_when_the_next_job_is_due(manual):
    manual.add_job(note, "date", run_date=START + timedelta(seconds=3))
    assert manual._process_jobs() == 3.0


def test_the_wait_is_bounded_so_that_a_clock_change_is_noticed(manual):
    assert manual._process_jobs() == POLL_INTERVAL
    manual.add_job(note, "date", run_date=START + timedelta(days=3))
    assert manual._process_jobs() == POLL_INTERVAL


def test_a_paused_scheduler_waits_until_it_is_woken(manual):
    manual.add_job(note, "date", run_date=START)
    manual.pause()
    assert manual._process_jobs() is None


def test_a_full_executor_does_not_make_the_loop_spin(schedulers):
    scheduler = schedulers(ManualScheduler, executors={"default": HoldingExecutor(room=0)})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START)
    assert scheduler._process_jobs() > 1.0


def test_runs_that_wait_for_their_turn_do_not_make_the_loop_spin(schedulers):
    scheduler = schedulers(ManualScheduler, executors={"default": HoldingExecutor()})
    scheduler.start()
    scheduler.add_job(note, "interval", minutes=1, coalesce=False)
    scheduler.clock.advance(300)
    scheduler._process_jobs()
    assert scheduler._process_jobs() > 1.0


def test_a_suspended_job_does_not_make_the_loop_spin(schedulers):
    for stores in ({}, {"default": PickledStore()}):
        scheduler = schedulers(ManualScheduler, jobstores=stores)
        scheduler.start()
        scheduler.add_job(note, "interval", minutes=1, executor="nowhere")
        scheduler.clock.advance(60)
        scheduler._process_jobs()
        assert scheduler._process_jobs() > 1.0


def test_a_store_that_speaks_of_due_jobs_and_shows_none_does_not_make_the_loop_spin(schedulers):
    class Confused(PickledStore):
        def get_next_run_time(self):
            return START - timedelta(seconds=1)

    scheduler = schedulers(ManualScheduler, jobstores={"default": Confused()})
    scheduler.start()
    scheduler._process_jobs()
    assert scheduler._process_jobs() > 0.0


class LateStore(MemoryJobStore):
    """Writes an end while it is asked, for the second time, for a run that waits for it; the answer is the old one."""

    def __init__(self, let_end):
        super().__init__()
        self._let_end = let_end
        self._looks = 0
        self._looked = threading.Event()
        self._written = threading.Event()

    def claim_runs(self, request):
        claimed = super().claim_runs(request)
        self._looks += claimed.more
        if claimed.more and self._looks == 1:
            self._let_end()
        elif claimed.more:
            self._looked.set()
            assert self._written.wait(LIMIT)
        return claimed

    def settle(self, settlements):
        assert self._looked.wait(LIMIT)
        refused = super().settle(settlements)
        self._written.set()
        return refused


def test_a_run_that_is_found_held_while_the_end_of_another_is_written_starts_at_once(schedulers, gate):
    scheduler = schedulers(jobstores={"default": LateStore(gate.release)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(gate, "interval", hours=1, id="job", overlap="queue")
    scheduler.run_now("job")
    assert gate.started.wait(LIMIT)
    scheduler.run_now("job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", count=2, timeout=LIMIT)


class SlowStore(MemoryJobStore):
    """Does not finish writing an end before more has been fired."""

    def __init__(self):
        super().__init__()
        self.fired_more = threading.Event()

    def fire_due(self, request):
        fired = super().fire_due(request)
        if any(run.job.id == "second" for run in fired.runs):
            self.fired_more.set()
        return fired

    def settle(self, settlements):
        assert self.fired_more.wait(LIMIT)
        return super().settle(settlements)


def test_more_is_fired_while_the_end_of_what_took_the_room_is_written(schedulers, gate):
    scheduler = schedulers(jobstores={"default": SlowStore()}, executors={"default": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(gate, id="first")
    assert gate.started.wait(LIMIT)
    scheduler.add_job(note, id="second")
    gate.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "second", timeout=LIMIT)
    recorder.wait_for(EVENT_JOB_EXECUTED, "first", timeout=LIMIT)
