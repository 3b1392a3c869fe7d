"""A start that waits for a store: for how long, and how it is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from behaviour_doubles import note, our_threads, within, works
from lease_doubles import SharedStore

from goscheduler.errors import SchedulerAlreadyRunningError, SchedulerNotRunningError, StoreUnavailable
from goscheduler.events import EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_STARTED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing import EventRecorder

LIMIT = 15


class DownStore(SharedStore):
    """Cannot be reached, from the step on that is named, until the test says otherwise."""

    def __init__(self, step="start"):
        super().__init__()
        self.down = {step}

    def start(self, scheduler, alias):
        self._reach("start")
        super().start(scheduler, alias)

    def subscribe(self, wake):
        self._reach("subscribe")
        super().subscribe(wake)

    def lookup_job(self, job_id):
        self._reach("lookup_job")
        return super().lookup_job(job_id)

    def add_job(self, job):
        self._reach("add_job")
        super().add_job(job)

    def suspensions(self):
        self._reach("suspensions")
        return super().suspensions()

    def renew_owner(self, *args):
        self._reach("renew_owner")
        return super().renew_owner(*args)

    def _reach(self, step):
        if step in self.down:
            raise StoreUnavailable("nobody answers")


STEPS = ["start", "subscribe", "lookup_job", "add_job", "suspensions", "renew_owner"]


@pytest.fixture
def waiting(schedulers):
    """Return a function that begins to start a scheduler on another thread, and returns when that waits."""
    with ThreadPoolExecutor(1) as pool:

        def begin(step="start", **options):
            store = DownStore(step)
            scheduler = schedulers(jobstores={"default": store}, **options)
            scheduler.add_job(note, "interval", hours=1, id="job")
            waits = threading.Event()
            scheduler.add_listener(lambda _: waits.set(), EVENT_SCHEDULER_DEGRADED)
            starting = pool.submit(scheduler.start)
            assert waits.wait(LIMIT)
            return scheduler, store, starting

        yield begin


@pytest.mark.parametrize("step", STEPS)
def test_a_store_that_comes_back_is_used(waiting, step):
    scheduler, store, starting = waiting(step)
    assert not scheduler.running
    store.down.clear()
    starting.result(LIMIT)
    assert scheduler.get_job("job") is not None
    assert works(scheduler)


@pytest.mark.parametrize("step", STEPS)
def test_a_start_with_a_limit_raises_when_it_is_over_and_leaves_a_startable_scheduler(schedulers, step):
    before = our_threads()
    store = DownStore(step)
    scheduler = schedulers(jobstores={"default": store}, start_timeout=0.05)
    scheduler.add_job(note, "interval", hours=1, id="job")
    with pytest.raises(StoreUnavailable, match=r'"default" could not be reached within start_timeout, 0\.05 seconds'):
        within(LIMIT, scheduler.start)
    assert not scheduler.running
    scheduler.engine.bus.close(LIMIT)
    for thread in our_threads() - before:
        thread.join(LIMIT)
    assert not our_threads() - before
    store.down.clear()
    scheduler.start()
    assert scheduler.get_job("job") is not None
    assert works(scheduler)


@pytest.mark.parametrize("step", STEPS)
def test_a_shutdown_from_another_thread_ends_a_start_that_waits(waiting, step, caplog):
    caplog.set_level("INFO")
    scheduler, store, starting = waiting(step)
    recorder = EventRecorder(scheduler)
    within(LIMIT, scheduler.shutdown)
    starting.result(LIMIT)
    assert not scheduler.running
    assert not recorder.of(EVENT_SCHEDULER_STARTED)
    assert "shut down before it had been started" in caplog.text
    with pytest.raises(SchedulerNotRunningError):
        scheduler.shutdown()
    store.down.clear()
    scheduler.start()
    assert works(scheduler)


def test_another_start_and_another_configuration_are_refused_while_a_start_waits(waiting):
    scheduler, store, starting = waiting()
    with pytest.raises(SchedulerAlreadyRunningError):
        within(LIMIT, scheduler.start)
    with pytest.raises(SchedulerAlreadyRunningError):
        within(LIMIT, scheduler.configure)
    store.down.clear()
    starting.result(LIMIT)
    assert works(scheduler)


def test_a_store_that_is_added_to_a_running_scheduler_is_waited_for_and_a_shutdown_ends_that(schedulers):
    scheduler = schedulers()
    scheduler.start()
    waits = threading.Event()
    scheduler.add_listener(lambda _: waits.set(), EVENT_SCHEDULER_DEGRADED)
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(scheduler.add_jobstore, DownStore(), "other")
        assert waits.wait(LIMIT)
        within(LIMIT, scheduler.shutdown)
        with pytest.raises(SchedulerNotRunningError):
            adding.result(LIMIT)


@pytest.mark.parametrize("step", ["start", "renew_owner"])
def test_a_store_that_is_added_and_cannot_be_reached_in_time_is_not_there(schedulers, step):
    scheduler = schedulers(start_timeout=0.05)
    scheduler.start()
    with pytest.raises(StoreUnavailable):
        within(LIMIT, lambda: scheduler.add_jobstore(DownStore(step), "other"))
    scheduler.add_jobstore(MemoryJobStore(), "other")
    assert works(scheduler)


PROGRAM = """
import signal, sys
sys.path[:0] = {folders!r}
from goscheduler import BlockingScheduler
from goscheduler.events import EVENT_SCHEDULER_DEGRADED
from test_waiting_starts import DownStore

scheduler = BlockingScheduler(jobstores={{"default": DownStore()}})
scheduler.add_listener(lambda event: print("waits", flush=True), EVENT_SCHEDULER_DEGRADED)
if {handled}:
    signal.signal(signal.SIGINT, lambda *_: scheduler.shutdown())
try:
    scheduler.start()
    print("returned", scheduler.running)
except KeyboardInterrupt:
    print("interrupted", scheduler.running)
"""


@pytest.mark.serial
@pytest.mark.parametrize(("handled", "said"), [(False, "interrupted False"), (True, "returned False")])
def test_a_signal_ends_a_blocking_scheduler_that_waits(handled, said):
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "support")]
    program = PROGRAM.format(folders=folders, handled=handled)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=LIMIT)[0] == f"{said}\n"
        finally:
            process.kill()
