"""Start, pause, resume, shutdown, and start again."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import types
from datetime import timedelta

import pytest
from behaviour_doubles import (
    START,
    FaultyMemoryStore,
    FaultySimpleStore,
    FirstThen,
    HoldingExecutor,
    PickledStore,
    note,
    within,
)

from goscheduler.errors import ConflictingIdError, SchedulerAlreadyRunningError, SchedulerNotRunningError
from goscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_SUBMITTED,
    EVENT_SCHEDULER_PAUSED,
    EVENT_SCHEDULER_RESUMED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
)
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED
from goscheduler.schedulers.blocking import BlockingScheduler
from goscheduler.testing import EventRecorder, ManualScheduler


def works(scheduler, name="proof"):
    """Tell whether a job added now is run."""
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, id=name)
    return recorder.wait_for(EVENT_JOB_EXECUTED, name, timeout=5) is not None


def our_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("goscheduler")}


def test_state_and_running_follow_the_calls(background):
    seen = [(background.state, background.running)]
    for act in (background.start, background.pause, background.resume, background.shutdown):
        act()
        seen.append((background.state, background.running))
    assert seen == [
        (STATE_STOPPED, False), (STATE_RUNNING, True), (STATE_PAUSED, True), (STATE_RUNNING, True),
        (STATE_STOPPED, False),
    ]


def test_a_second_start_is_refused_and_harmless(background):
    background.start()
    with pytest.raises(SchedulerAlreadyRunningError, match="Scheduler is already running"):
        background.start()
    assert works(background)


@pytest.mark.parametrize("method", ["shutdown", "pause", "resume"])
def test_what_needs_a_running_scheduler_is_refused_while_stopped(background, method):
    with pytest.raises(SchedulerNotRunningError, match="Scheduler is not running"):
        getattr(background, method)()
    background.start()
    background.shutdown()
    with pytest.raises(SchedulerNotRunningError):
        getattr(background, method)()


def test_configure_is_refused_while_running_and_while_paused(background):
    background.start()
    with pytest.raises(SchedulerAlreadyRunningError):
        background.configure(timezone="UTC")
    background.pause()
    with pytest.raises(SchedulerAlreadyRunningError):
        background.configure(timezone="UTC")


def test_configure_keeps_pending_jobs_and_listeners_and_drops_components(background):
    recorder = EventRecorder(background)
    background.add_executor(HoldingExecutor(), "holding")
    background.add_job(note, id="job")
    background.configure(timezone="Asia/Tokyo")
    background.start()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job")
    assert set(background._engine.executors) == {"default"}


def test_pause_and_resume_tell_only_of_real_changes(background):
    recorder = EventRecorder(background, EVENT_SCHEDULER_PAUSED | EVENT_SCHEDULER_RESUMED)
    background.start()
    for act in (background.resume, background.pause, background.pause, background.resume, background.resume):
        act()
    background.shutdown()
    assert recorder.codes == [EVENT_SCHEDULER_PAUSED, EVENT_SCHEDULER_RESUMED]


def test_a_scheduler_started_paused_fires_nothing_before_it_is_resumed(schedulers, jobcalls):
    scheduler = schedulers(ManualScheduler)
    scheduler.add_job(note, "date", run_date=START)
    scheduler.start(paused=True)
    scheduler.advance(60)
    assert jobcalls == []
    scheduler.resume()
    scheduler.run_due()
    assert jobcalls == ["called"]


def test_a_running_job_goes_on_while_the_scheduler_is_paused(background, gate):
    recorder = EventRecorder(background)
    background.start()
    background.add_job(gate, id="job")
    assert gate.started.wait(5)
    background.pause()
    gate.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=5)


def test_shutting_down_a_paused_scheduler_does_not_fire_what_is_due(schedulers, jobcalls):
    # APScheduler 3 submits it to the dead pool and advances its schedule.
    store = PickledStore()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start(paused=True)
    job = scheduler.add_job(note, "date", run_date=START, id="job")
    scheduler.shutdown()
    assert jobcalls == []
    assert store.lookup_job("job").next_run_time == job.next_run_time


def test_shutdown_waits_for_running_jobs(background, gate):
    background.start()
    background.add_job(gate)
    assert gate.started.wait(5)
    threading.Timer(0.05, gate.release).start()
    background.shutdown()
    assert gate.ended == 1


def test_shutdown_without_waiting_returns_while_a_job_runs(background, gate):
    background.start()
    background.add_job(gate)
    assert gate.started.wait(5)
    within(5, lambda: background.shutdown(wait=False))
    assert gate.ended == 0


def test_shutdown_with_a_limit_returns_when_it_is_reached(background, gate):
    background.start()
    background.add_job(gate)
    assert gate.started.wait(5)
    within(5, lambda: background.shutdown(timeout=0.1))
    assert gate.ended == 0
    assert not background.running


def test_the_limit_of_shutdown_holds_while_a_job_runs_on_the_loop_itself(schedulers, gate):
    scheduler = schedulers(executors={"default": DebugExecutor()})
    scheduler.start()
    scheduler.add_job(gate)
    assert gate.started.wait(5)
    within(5, lambda: scheduler.shutdown(timeout=0.1))


@pytest.mark.parametrize("method", ["fire_due", "settle"])
def test_the_limit_of_shutdown_holds_while_a_store_hangs(schedulers, gate, method):
    class Hanging(PickledStore):
        armed = False

        def fire_due(self, request):
            self._hang("fire_due")
            return super().fire_due(request)

        def settle(self, settlements):
            self._hang("settle")
            return super().settle(settlements)

        def _hang(self, name):
            if self.armed and name == method:
                gate()

    store = Hanging()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start()
    store.armed = True
    scheduler.add_job(note)
    assert gate.started.wait(5)
    within(5, lambda: scheduler.shutdown(timeout=0.1))


def test_shutdown_leaves_no_thread_behind(background):
    before = our_threads()
    background.start()
    assert works(background)
    background.shutdown()
    for thread in our_threads() - before:
        thread.join(5)
    assert not our_threads() - before


def test_a_scheduler_can_be_started_again_after_shutdown(background):
    for turn in range(3):
        background.start()
        assert works(background, f"turn {turn}")
        background.shutdown()


def test_a_custom_store_keeps_its_jobs_over_a_restart(schedulers):
    scheduler = schedulers(jobstores={"default": PickledStore()})
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="kept")
    scheduler.shutdown()
    scheduler.start()
    assert scheduler.get_job("kept") is not None
    assert works(scheduler)


def test_a_job_that_outlived_the_shutdown_does_not_block_its_next_run_after_a_restart(schedulers, gates):
    old, new = gates(), gates()
    scheduler = schedulers(jobstores={"default": FaultyMemoryStoreThatKeeps()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    current = [old]
    scheduler.add_job(lambda: current[0](), "interval", seconds=0.05, id="job")
    assert old.started.wait(5)
    scheduler.shutdown(wait=False)
    current[0] = new
    old.release()
    scheduler.start()
    assert new.started.wait(5)
    new.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", count=2, timeout=5)


class FaultyMemoryStoreThatKeeps(FaultyMemoryStore):
    """A memory store that shutdown does not empty."""

    def shutdown(self):
        self.asked.append("shutdown")


def test_a_run_that_was_queued_at_shutdown_runs_after_the_restart(schedulers, gate, jobcalls):
    scheduler = schedulers(
        jobstores={"default": FaultyMemoryStoreThatKeeps()}, executors={"default": ThreadPoolExecutor(1)}
    )
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(gate, id="long")
    assert gate.started.wait(5)
    scheduler.add_job(note, id="queued", args=["queued"])
    within(5, lambda: scheduler.shutdown(wait=False))
    assert jobcalls == []
    gate.release()
    scheduler.start()
    recorder.wait_for(EVENT_JOB_EXECUTED, "queued", timeout=5)
    assert jobcalls == ["queued"]


@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_a_job_can_shut_its_scheduler_down(schedulers, dispatch):
    # APScheduler 3: RuntimeError "cannot join current thread"
    scheduler = schedulers(event_dispatch=dispatch)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(scheduler.shutdown, id="job")
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=5)
    assert not scheduler.running
    assert not recorder.of(EVENT_JOB_ERROR)
    assert recorder.of(EVENT_JOB_EXECUTED, "job")


def test_a_job_on_the_loop_itself_can_shut_its_scheduler_down(schedulers):
    scheduler = schedulers(executors={"default": DebugExecutor()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(scheduler.shutdown, id="job")
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=5)
    assert recorder.of(EVENT_JOB_EXECUTED, "job")


LISTENED = [EVENT_JOB_ADDED, EVENT_JOB_SUBMITTED, EVENT_JOB_EXECUTED, EVENT_SCHEDULER_STARTED]


@pytest.mark.parametrize("code", LISTENED, ids=lambda code: code.name)
@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_a_listener_can_shut_its_scheduler_down(schedulers, dispatch, code):
    scheduler = schedulers(event_dispatch=dispatch)
    recorder = EventRecorder(scheduler)
    problems = []

    def shut_down(event):
        try:
            scheduler.shutdown()
        except BaseException as error:
            problems.append(error)

    scheduler.add_listener(shut_down, code)
    within(5, scheduler.start)
    if scheduler.running:
        within(5, lambda: scheduler.add_job(note, id="job"))
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=5)
    assert problems == []
    assert not scheduler.running


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
        within(5, scheduler.start)
    assert problems == []


def test_a_scheduler_started_again_while_its_shutdown_is_going_on_works(background, gate):
    recorder = EventRecorder(background)

    def stop_and_linger():
        background.shutdown()
        gate()

    background.start()
    background.add_job(stop_and_linger)
    assert gate.started.wait(5)
    starting = threading.Thread(target=background.start, daemon=True)
    starting.start()
    starting.join(0.2)  # it may go on or wait for the end of the shutdown; both are fine
    gate.release()
    starting.join(5)
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=5)
    assert background.running
    assert works(background)


def test_options_of_jobs_added_before_the_start_come_from_the_job_defaults_at_the_start(background):
    job = background.add_job(note, "interval", hours=1, id="job", max_instances=4)
    background.configure(timezone="UTC", job_defaults={"coalesce": False, "misfire_grace_time": 7, "max_instances": 2})
    assert job.pending
    background.start()
    assert not job.pending
    assert (job.coalesce, job.misfire_grace_time, job.max_instances) == (False, 7, 4)
    assert job.next_run_time is not None


def test_a_pending_job_is_announced_when_it_enters_its_store(background):
    recorder = EventRecorder(background)
    background.add_job(note, "interval", hours=1, id="job")
    background._engine.bus.flush()
    assert not recorder.of(EVENT_JOB_ADDED)
    background.start()
    recorder.wait_for(EVENT_JOB_ADDED, "job", timeout=5)
    background.shutdown()
    codes = recorder.codes
    assert codes.index(EVENT_JOB_ADDED) < codes.index(EVENT_SCHEDULER_STARTED)


def test_two_pending_jobs_with_one_id_conflict_at_the_second(background):
    background.add_job(note, id="job", args=["first"])
    with pytest.raises(ConflictingIdError):
        background.add_job(note, id="job", args=["second"])
    assert [job.args for job in background.get_jobs()] == [("first",)]
    background.start()
    assert works(background)


def test_two_pending_jobs_with_one_id_for_different_stores_are_two_jobs(schedulers):
    scheduler = schedulers(ManualScheduler, jobstores={"other": PickledStore()})
    scheduler.add_job(note, "interval", hours=1, id="job", args=["default"])
    scheduler.add_job(note, "interval", hours=1, id="job", args=["other"], jobstore="other")
    assert sorted(job.args[0] for job in scheduler.get_jobs()) == ["default", "other"]
    assert scheduler.get_job("job", "other").args == ("other",)
    scheduler.start()
    assert scheduler.get_job("job", "default").args == ("default",)
    assert scheduler.get_job("job", "other").args == ("other",)


def test_a_pending_job_that_conflicts_with_a_stored_one_leaves_a_startable_scheduler(schedulers):
    store = PickledStore()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="taken")
    scheduler.shutdown()
    before = our_threads()
    scheduler.add_job(note, "interval", hours=1, id="free")
    scheduler.add_job(note, "interval", hours=2, id="taken")
    for _ in range(2):
        with pytest.raises(ConflictingIdError):
            scheduler.start()
        assert not scheduler.running
    assert set(store.rows) == {"taken"}
    for thread in our_threads() - before:
        thread.join(5)
    assert not our_threads() - before
    scheduler.remove_job("taken")
    scheduler.start()
    assert {job.id for job in scheduler.get_jobs()} == {"free", "taken"}
    assert works(scheduler)


def test_a_pending_job_for_an_unknown_store_leaves_a_startable_scheduler(background):
    background.add_job(note, id="job", jobstore="nowhere")
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        background.start()
    assert not background.running
    background.add_jobstore("memory", "nowhere")
    background.start()
    assert works(background)


def test_a_pending_job_whose_trigger_raises_leaves_a_startable_scheduler(background):
    class Breaking(FirstThen):
        asked = 0

        def get_next_fire_time(self, previous_fire_time, now):
            self.asked += 1
            if self.asked > 1:
                raise OSError("no calendar")
            return START

    background.add_job(note, Breaking(None), id="bad")
    background.add_job(note, "interval", hours=1, id="good")
    before = our_threads()
    with pytest.raises(OSError, match="no calendar"):
        background.start()
    assert not background.running
    for thread in our_threads() - before:
        thread.join(5)
    assert not our_threads() - before
    background.remove_job("bad")
    background.start()
    assert [job.id for job in background.get_jobs()] == ["good"]
    assert works(background)


@pytest.mark.parametrize("kind", [FaultySimpleStore, FaultyMemoryStore])
@pytest.mark.parametrize("method", ["start", "lookup_job", "add_job"])
def test_a_store_that_fails_during_the_start_leaves_a_startable_scheduler(schedulers, kind, method):
    store = kind()
    scheduler = schedulers(jobstores={"default": store})
    job = scheduler.add_job(note, "interval", hours=1, id="job")
    store.faults[method] = OSError("store is away")
    with pytest.raises(OSError, match="store is away"):
        scheduler.start()
    assert not scheduler.running
    assert job.pending
    with pytest.raises(SchedulerNotRunningError):
        scheduler.shutdown()
    del store.faults[method]
    scheduler.start()
    assert scheduler.get_job("job") is not None
    assert works(scheduler)


class BadExecutor(BaseExecutor):
    """Fails where it is told to."""

    def __init__(self, *failing):
        self.failing = set(failing)

    def start(self, scheduler, alias):
        super().start(scheduler, alias)
        self._maybe("start")

    def shutdown(self, wait=True, timeout=None):
        self._maybe("shutdown")

    def room(self):
        self._maybe("room")
        return 10

    def submit(self, run):
        self._maybe("submit")
        self._report(run, self._attempt(run))

    def _maybe(self, name):
        if name in self.failing:
            raise OSError(f"{name} does not work")


def test_an_executor_that_fails_to_start_leaves_a_startable_scheduler(schedulers):
    bad = BadExecutor("start")
    scheduler = schedulers(executors={"default": ThreadPoolExecutor(), "bad": bad})
    with pytest.raises(OSError, match="start does not work"):
        scheduler.start()
    assert not scheduler.running
    bad.failing.clear()
    scheduler.start()
    assert works(scheduler)


def test_the_error_of_a_failed_start_is_the_one_that_caused_it(schedulers):
    store = FaultySimpleStore()
    scheduler = schedulers(executors={"bad": BadExecutor("shutdown")}, jobstores={"default": store})
    store.faults["start"] = ValueError("the cause")
    with pytest.raises(ValueError, match="the cause"):
        scheduler.start()
    del store.faults["start"]
    scheduler.start()
    assert works(scheduler)


def test_the_rest_is_shut_down_when_an_executor_or_a_store_cannot_be(schedulers, caplog):
    stores = {name: FaultyMemoryStore() for name in ("first", "default")}
    scheduler = schedulers(executors={"bad": BadExecutor("shutdown")}, jobstores=stores)
    recorder = EventRecorder(scheduler)
    stores["first"].faults["shutdown"] = OSError("stuck")
    scheduler.start()
    scheduler.shutdown()
    assert "shutdown" in stores["default"].asked
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
    assert 'executor "bad"' in caplog.text
    assert 'job store "first"' in caplog.text


def test_an_executor_added_while_running_that_fails_to_start_is_not_added(background):
    background.start()
    with pytest.raises(OSError, match="start does not work"):
        background.add_executor(BadExecutor("start"), "bad")
    assert "bad" not in background._engine.executors
    store = FaultySimpleStore()
    store.faults["start"] = OSError("no server")
    with pytest.raises(OSError, match="no server"):
        background.add_jobstore(store, "bad")
    assert "bad" not in background._engine.stores
    assert works(background)


def test_threads_that_start_at_once_start_one_scheduler(background):
    outcomes = []
    barrier = threading.Barrier(8)

    def start():
        barrier.wait()
        try:
            background.start()
            outcomes.append("started")
        except SchedulerAlreadyRunningError:
            outcomes.append("refused")

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["started"]
    assert works(background)


def test_a_blocking_scheduler_returns_from_start_after_shutdown_on_another_thread(schedulers):
    scheduler = schedulers(BlockingScheduler)
    recorder = EventRecorder(scheduler)
    returned = threading.Event()

    def program():
        scheduler.start()
        returned.set()

    threading.Thread(target=program, daemon=True).start()
    recorder.wait_for(EVENT_SCHEDULER_STARTED, timeout=5)
    assert works(scheduler)
    assert not returned.is_set()
    within(5, scheduler.shutdown)
    assert returned.wait(5)
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
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
    scheduler.shutdown()
    assert not scheduler.running


def test_a_background_scheduler_fires_on_a_daemon_thread_of_its_own_unless_told_otherwise(schedulers):
    for option, expected in ((None, True), (False, False), ("no", False), ("yes", True)):
        scheduler = schedulers(**({} if option is None else {"daemon": option}))
        scheduler.start()
        assert scheduler._loop_thread.daemon is expected
        assert scheduler._loop_thread is not threading.current_thread()
        scheduler.shutdown()


def test_uwsgi_without_threads_is_refused_and_with_threads_is_fine(background, monkeypatch):
    fake = types.ModuleType("uwsgi")
    fake.has_threads = False
    monkeypatch.setitem(sys.modules, "uwsgi", fake)
    with pytest.raises(RuntimeError, match="--enable-threads"):
        background.start()
    assert not background.running
    fake.has_threads = True
    background.start()
    assert works(background)


@pytest.mark.parametrize("serialize", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", [BackgroundScheduler, BlockingScheduler, ManualScheduler])
def test_a_scheduler_cannot_be_serialized(schedulers, kind, serialize):
    with pytest.raises(TypeError, match=r"^Schedulers cannot be serialized"):
        serialize(schedulers(kind))


def test_get_jobs_shows_pending_jobs_while_stopped_and_stored_ones_while_running(schedulers):
    scheduler = schedulers(jobstores={"default": PickledStore()})
    scheduler.add_job(note, "interval", hours=1, id="job")
    assert [job.pending for job in scheduler.get_jobs()] == [True]
    scheduler.start()
    assert [job.pending for job in scheduler.get_jobs()] == [False]
    scheduler.shutdown()
    assert scheduler.get_jobs() == []


def test_a_date_job_without_a_date_runs_at_the_start_however_late_that_is(schedulers, jobcalls):
    scheduler = schedulers(ManualScheduler)
    scheduler.add_job(note, misfire_grace_time=5)
    scheduler.clock.advance(timedelta(days=1))
    scheduler.start()
    scheduler.run_due()
    assert jobcalls == ["called"]
