"""What cannot be run is kept, visible with a reason, and taken up again when the reason is gone."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from behaviour_doubles import START, FirstThen, HoldingExecutor, PickledStore, note

from goscheduler.events import EVENT_JOB_RELEASED, EVENT_JOB_REMOVED, EVENT_JOB_SUSPENDED
from goscheduler.executors.debug import DebugExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.runs.model import JobState
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler


class LastingMemoryStore(MemoryJobStore):
    """A memory store that shutdown does not empty."""

    def shutdown(self):
        return


@pytest.fixture(params=[LastingMemoryStore, PickledStore], ids=["memory store", "simple store"])
def scheduler(request, schedulers):
    scheduler = schedulers(ManualScheduler, jobstores={"default": request.param()})
    scheduler.start()
    return scheduler


@pytest.fixture
def recorder(scheduler):
    return EventRecorder(scheduler)


def suspend(scheduler, job_id="job"):
    """Add a job and let it come due without its executor."""
    scheduler.add_job(note, "interval", seconds=10, id=job_id, executor="gpu", args=[job_id])
    scheduler.advance(10)


def test_a_job_with_an_unknown_executor_is_kept_and_says_why(scheduler, recorder, jobcalls, caplog):
    # APScheduler 3 deletes it.
    suspend(scheduler)
    job = scheduler.get_job("job")
    assert job.suspended == 'there is no executor named "gpu"'
    assert "suspended" in str(job)
    assert job.next_run_time == START + timedelta(seconds=10)
    (event,) = recorder.of(EVENT_JOB_SUSPENDED)
    assert (event.job_id, event.jobstore, event.reason) == ("job", "default", job.suspended)
    assert not recorder.of(EVENT_JOB_REMOVED)
    assert 'no executor named "gpu"' in caplog.text
    assert jobcalls == []


def test_a_suspension_shows_in_lists(scheduler):
    suspend(scheduler)
    out = io.StringIO()
    scheduler.print_jobs(out=out)
    assert 'suspended: there is no executor named "gpu"' in out.getvalue()
    assert [job.suspended is not None for job in scheduler.get_jobs()] == [True]


def test_a_suspended_job_is_told_of_once(scheduler, recorder):
    suspend(scheduler)
    scheduler.advance(100)
    assert len(recorder.of(EVENT_JOB_SUSPENDED)) == 1


def test_the_executor_that_was_missing_releases_its_jobs(scheduler, recorder, jobcalls):
    suspend(scheduler)
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.run_due()
    assert jobcalls == ["job"]
    (event,) = recorder.of(EVENT_JOB_RELEASED)
    assert event.job_id == "job"
    assert scheduler.get_job("job").suspended is None
    scheduler.advance(10)
    assert jobcalls == ["job", "job"]


def test_an_executor_added_while_stopped_releases_its_jobs_at_the_start(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.shutdown()
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.start()
    scheduler.run_due()
    assert jobcalls == ["job"]
    assert scheduler.get_job("job").suspended is None


def test_another_executor_does_not_help_and_the_job_is_suspended_again(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.add_executor(DebugExecutor(), "cpu")
    scheduler.run_due()
    assert jobcalls == []
    assert scheduler.get_job("job").suspended == 'there is no executor named "gpu"'


def test_a_suspended_job_given_a_known_executor_runs(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.modify_job("job", executor="default")
    scheduler.run_due()
    assert jobcalls == ["job"]
    assert scheduler.get_job("job").suspended is None


def test_a_job_with_a_broken_trigger_is_released_by_a_sound_one(scheduler, jobcalls):
    scheduler.add_job(note, FirstThen(OSError("no calendar")), id="job")
    scheduler.advance(10)
    assert "no calendar" in scheduler.get_job("job").suspended
    scheduler.reschedule_job("job", trigger="interval", seconds=5)
    scheduler.advance(5)
    assert jobcalls == ["called"]


def test_a_suspended_job_that_is_paused_and_resumed_gets_another_chance(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.pause_job("job")
    scheduler.run_due()
    scheduler.resume_job("job")
    scheduler.advance(10)
    assert "job" in jobcalls


def test_a_suspended_job_can_be_removed_and_its_id_used_again(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.remove_job("job")
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["new"])
    scheduler.advance(10)
    assert jobcalls == ["new"]


def test_all_suspended_jobs_can_be_removed_and_their_ids_used_again(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.remove_all_jobs()
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["new"])
    scheduler.advance(10)
    assert jobcalls == ["new"]


def test_a_suspended_job_that_is_replaced_runs(scheduler, jobcalls):
    suspend(scheduler)
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["new"], replace_existing=True)
    scheduler.advance(10)
    assert jobcalls[-1] == "new"
    assert scheduler.get_job("job").suspended is None


def test_jobs_of_a_removed_executor_are_suspended_and_come_back_with_it(scheduler, jobcalls):
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.add_job(note, "interval", seconds=10, id="job", executor="gpu")
    scheduler.advance(10)
    scheduler.remove_executor("gpu")
    scheduler.advance(10)
    assert jobcalls == ["called"]
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.advance(10)
    assert len(jobcalls) == 3


# A store that several processes share: nobody asks it for jobs of executors that are elsewhere


@pytest.fixture
def shared(tmp_path, schedulers):
    """A maker of schedulers that share a database and a clock."""
    clock = ManualClock()

    def make(**executors):
        store = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db")
        scheduler = schedulers(ManualScheduler, clock=clock, jobstores={"default": store}, executors=executors)
        scheduler.start()
        return scheduler

    return make


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "which no process has" in record.getMessage()]


def test_jobs_of_a_shared_store_whose_executor_no_process_has_are_told_of_once(shared, caplog):
    first, second = shared(), shared()
    for number in range(3):
        first.add_job(note, "date", id=f"job-{number}", executor="gpu")
    for _ in range(5):
        first.clock.advance("25s")
        first.run_due()
        second.run_due()
    told = (
        'Job store "default" has 3 due jobs for the executor "gpu", which no process has; they wait until a process '
        "with that executor starts"
    )
    assert warnings_of(caplog) == [told, told], "one from each process"
    job = second.get_job("job-1")
    assert (job.state, job.suspended) == (JobState.NO_EXECUTOR, None)
    assert second.why("job-1") == 'It is due, but no process that is known here has its executor "gpu".'


def test_an_executor_that_another_process_has_is_not_missing(shared, caplog):
    first, second = shared(), shared(gpu=HoldingExecutor(room=0))
    job = first.add_job(note, "date", id="job", executor="gpu")
    for _ in range(5):
        first.clock.advance("25s")
        second.run_due()
        first.run_due()
    assert warnings_of(caplog) == []
    assert job.state is JobState.QUEUED


def test_an_executor_that_is_missing_again_is_told_of_again(shared, caplog):
    scheduler = shared()
    scheduler.add_job(note, "interval", minutes=10, id="job", executor="gpu")
    for _ in range(2):
        scheduler.clock.advance("15m")
        scheduler.run_due()
        scheduler.add_executor(DebugExecutor(), "gpu")
        scheduler.clock.advance("5m")
        scheduler.run_due()
        scheduler.remove_executor("gpu")
    assert len(warnings_of(caplog)) == 2


def test_an_executor_that_is_removed_in_the_middle_of_a_round_suspends_nothing_that_others_can_run(
    schedulers, jobcalls
):
    class Shared(MemoryJobStore):
        shared = True

        def fire_due(self, request):
            if "gpu" in here.engine_executors():
                here.remove_executor("gpu")
            return super().fire_due(request)

    class Here(ManualScheduler):
        def engine_executors(self):
            return self.engine.executors

    store = Shared()
    here = schedulers(
        Here, jobstores={"default": store}, executors={"default": DebugExecutor(), "gpu": DebugExecutor()}
    )
    here.start()
    here.add_job(note, "interval", seconds=10, id="job", executor="gpu", args=["job"])
    here.clock.advance(10)
    here.run_due()
    assert here.get_job("job").suspended is None
    assert jobcalls == []
    here.add_executor(DebugExecutor(), "gpu")
    store.fire_due = lambda request: MemoryJobStore.fire_due(store, request)
    here.advance(20)
    assert "job" in jobcalls


@pytest.mark.parametrize("change", ["resume_job", "reschedule_job"])
def test_a_job_that_is_changed_while_the_scheduler_ends_keeps_a_next_run_time(schedulers, change):
    class Ending(LastingMemoryStore):
        def edit_job(self, job_id, edit):
            scheduler.engine.jobs.started = False  # the end of the scheduler comes in between, on another thread
            return super().edit_job(job_id, edit)

    store = Ending()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["job"], next_run_time=None)
    try:
        scheduler.resume_job("job") if change == "resume_job" else scheduler.reschedule_job(
            "job", trigger="interval", hours=1
        )
    finally:
        scheduler.engine.jobs.started = True
    assert store.lookup_job("job").next_run_time > START
