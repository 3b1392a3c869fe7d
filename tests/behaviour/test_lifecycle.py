"""Start, pause, resume, shutdown, and start again."""

from __future__ import annotations

import threading

import pytest
from behaviour_doubles import (
    START,
    FaultyMemoryStore,
    HoldingExecutor,
    PickledStore,
    note,
    our_threads,
    within,
    works,
)

from goscheduler.errors import SchedulerAlreadyRunningError, SchedulerNotRunningError, StoreUnavailable
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
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED
from goscheduler.testing import EventRecorder, ManualScheduler


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
    assert set(background.engine.executors) == {"default"}


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
    assert gate.started.wait(60)
    background.pause()
    gate.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)


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
    assert gate.started.wait(60)
    threading.Timer(0.05, gate.release).start()
    background.shutdown()
    assert gate.ended == 1


def test_shutdown_without_waiting_returns_while_a_job_runs(background, gate):
    background.start()
    background.add_job(gate)
    assert gate.started.wait(60)
    within(60, lambda: background.shutdown(wait=False))
    assert gate.ended == 0


def test_shutdown_with_a_limit_returns_when_it_is_reached(background, gate):
    background.start()
    background.add_job(gate)
    assert gate.started.wait(60)
    within(60, lambda: background.shutdown(timeout=0.1))
    assert gate.ended == 0
    assert not background.running


def test_a_job_that_uses_up_the_limit_of_shutdown_does_not_cost_the_others_their_outcomes_and_events(
    background, gate, caplog
):
    recorder = EventRecorder(background)
    background.start()
    background.add_job(gate, id="long")
    assert gate.started.wait(60)
    called = threading.Semaphore(0)
    for number in range(20):
        background.add_job(called.release, id=str(number))
    for _ in range(20):
        assert called.acquire(timeout=60)
    within(60, lambda: background.shutdown(timeout=0.5))
    assert len(recorder.of(EVENT_JOB_EXECUTED)) == 20
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
    assert "hangs" not in caplog.text


def test_the_limit_of_shutdown_holds_while_a_job_runs_on_the_loop_itself(schedulers, gate):
    scheduler = schedulers(executors={"default": DebugExecutor()})
    scheduler.start()
    scheduler.add_job(gate)
    assert gate.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.1))


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
    assert gate.started.wait(60)
    within(60, lambda: scheduler.shutdown(timeout=0.1))


def test_shutdown_waits_some_seconds_for_a_store_to_take_the_last_outcomes(schedulers):
    class Back(MemoryJobStore):
        refusals = 3

        def settle(self, settlements):
            self.refusals -= 1
            if self.refusals >= 0:
                raise StoreUnavailable("the server is starting again")
            return super().settle(settlements)

    store = Back()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start()
    done = threading.Event()
    scheduler.add_job(done.set)
    assert done.wait(60)
    scheduler.shutdown()
    assert store.live_runs() == []
    assert store.refusals < 0


def test_shutdown_leaves_no_thread_behind(background):
    before = our_threads()
    background.start()
    assert works(background)
    background.shutdown()
    for thread in our_threads() - before:
        thread.join(60)
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
    assert old.started.wait(60)
    scheduler.shutdown(wait=False)
    current[0] = new
    old.release()
    scheduler.start()
    assert new.started.wait(60)
    new.release()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", count=2, timeout=60)


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
    assert gate.started.wait(60)
    scheduler.add_job(note, id="queued", args=["queued"])
    within(60, lambda: scheduler.shutdown(wait=False))
    assert jobcalls == []
    gate.release()
    scheduler.start()
    recorder.wait_for(EVENT_JOB_EXECUTED, "queued", timeout=60)
    assert jobcalls == ["queued"]


@pytest.mark.parametrize("dispatch", ["thread", "sync"])
def test_a_job_can_shut_its_scheduler_down(schedulers, dispatch):
    # APScheduler 3: RuntimeError "cannot join current thread"
    scheduler = schedulers(event_dispatch=dispatch)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(scheduler.shutdown, id="job")
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=60)
    assert not scheduler.running
    assert not recorder.of(EVENT_JOB_ERROR)
    assert recorder.of(EVENT_JOB_EXECUTED, "job")


def test_a_job_on_the_loop_itself_can_shut_its_scheduler_down(schedulers):
    scheduler = schedulers(executors={"default": DebugExecutor()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(scheduler.shutdown, id="job")
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=60)
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
    within(60, scheduler.start)
    if scheduler.running:
        within(60, lambda: scheduler.add_job(note, id="job"))
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=60)
    assert problems == []
    assert not scheduler.running


def test_a_scheduler_started_again_while_its_shutdown_is_going_on_works(background, gate):
    recorder = EventRecorder(background)

    def stop_and_linger():
        background.shutdown()
        gate()

    background.start()
    background.add_job(stop_and_linger)
    assert gate.started.wait(60)
    starting = threading.Thread(target=background.start, daemon=True)
    starting.start()
    starting.join(0.2)  # it may go on or wait for the end of the shutdown; both are fine
    gate.release()
    starting.join(60)
    recorder.wait_for(EVENT_SCHEDULER_SHUTDOWN, timeout=60)
    assert background.running
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
