"""What can be done to jobs before the scheduler is started."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from behaviour_doubles import START, PickledStore, note

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.events import EVENT_JOB_ADDED, EVENT_JOB_REMOVED
from goscheduler.testing import EventRecorder, ManualScheduler


@pytest.fixture(params=[None, PickledStore], ids=["memory store", "simple store"])
def scheduler(request, schedulers):
    return schedulers(ManualScheduler, jobstores={} if request.param is None else {"default": request.param()})


def test_a_pending_job_that_is_paused_starts_paused(scheduler, jobcalls):
    job = scheduler.add_job(note, "interval", seconds=10, id="job")
    job.pause()
    scheduler.start()
    scheduler.advance(60)
    assert jobcalls == []
    assert scheduler.get_job("job").next_run_time is None


def test_a_pending_job_that_is_paused_and_resumed_runs(scheduler, jobcalls):
    job = scheduler.add_job(note, "interval", seconds=10, id="job")
    job.pause()
    job.resume()
    scheduler.start()
    scheduler.advance(10)
    assert jobcalls == ["called"]


def test_changes_to_a_pending_job_are_kept(scheduler, jobcalls):
    job = scheduler.add_job(note, "interval", seconds=10, id="job", max_instances=3)
    job.modify(name="changed", args=["new"], coalesce=False)
    job.reschedule("interval", seconds=3)
    scheduler.start()
    scheduler.advance(3)
    assert jobcalls == ["new"]
    stored = scheduler.get_job("job")
    assert (stored.name, stored.coalesce, stored.max_instances) == ("changed", False, 3)


def test_a_change_of_options_does_not_freeze_the_other_options(scheduler):
    job = scheduler.add_job(note, "interval", seconds=10, id="job")
    job.modify(coalesce=False)
    scheduler.configure(
        timezone="UTC", clock=scheduler.clock, event_dispatch="sync", job_defaults={"max_instances": 7}
    )
    scheduler.start()
    stored = scheduler.get_job("job")
    assert (stored.coalesce, stored.max_instances) == (False, 7)


def test_a_removed_pending_job_does_not_start(scheduler, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="gone").remove()
    scheduler.add_job(note, "interval", seconds=10, id="kept")
    scheduler.start()
    assert [job.id for job in scheduler.get_jobs()] == ["kept"]
    with pytest.raises(JobLookupError):
        scheduler.remove_job("gone")


def test_all_pending_jobs_can_be_removed(scheduler):
    for number in range(3):
        scheduler.add_job(note, "interval", seconds=10, id=str(number))
    scheduler.remove_all_jobs()
    assert scheduler.get_jobs() == []
    scheduler.start()
    assert scheduler.get_jobs() == []


def test_a_pending_job_may_replace_another(scheduler, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["old"])
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["new"], replace_existing=True)
    assert len(scheduler.get_jobs()) == 1
    scheduler.start()
    scheduler.advance(10)
    assert jobcalls == ["new"]


def test_a_pending_job_that_keeps_what_exists_leaves_it_alone(scheduler, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["old"])
    scheduler.add_job(note, "interval", seconds=10, id="job", args=["new"], if_exists="keep")
    scheduler.start()
    scheduler.advance(10)
    assert jobcalls == ["old"]


def test_a_pending_date_job_whose_time_has_passed_at_the_start_runs_once(scheduler, jobcalls):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=5), id="job")
    scheduler.clock.advance(3600)
    scheduler.start()
    scheduler.run_due()
    assert jobcalls == ["called"]
    assert recorder.of(EVENT_JOB_REMOVED, "job")


def test_a_pending_job_without_a_fire_time_left_at_the_start_is_told_of_and_stops_nothing(scheduler, jobcalls):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "interval", seconds=10, end_date=START + timedelta(seconds=60), id="over")
    scheduler.add_job(note, "interval", seconds=10, id="good")
    scheduler.clock.advance(3600)
    scheduler.start()
    scheduler.advance(10)
    assert jobcalls == ["called"]
    assert [event.job_id for event in recorder.of(EVENT_JOB_ADDED)] == ["good"]
    assert recorder.of(EVENT_JOB_REMOVED, "over")
    assert [job.id for job in scheduler.get_jobs()] == ["good"]


def test_an_interval_counts_from_the_start_of_the_scheduler(scheduler, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="job")
    scheduler.clock.advance(3605)
    scheduler.start()
    assert scheduler.get_job("job").next_run_time == START + timedelta(seconds=3615)


def test_a_given_first_time_of_a_pending_job_is_kept(scheduler, jobcalls):
    moment = START + timedelta(seconds=42)
    scheduler.add_job(note, "interval", seconds=10, id="job", next_run_time=moment)
    scheduler.start()
    assert scheduler.get_job("job").next_run_time == moment


def test_pending_jobs_are_listed_as_pending(scheduler):
    scheduler.add_job(note, "interval", seconds=10, id="job")
    out = io.StringIO()
    scheduler.print_jobs(out=out)
    assert out.getvalue().splitlines()[0] == "Pending jobs:"
    assert "pending)" in out.getvalue()


def test_the_handle_of_a_pending_job_works_after_the_start(scheduler):
    job = scheduler.add_job(note, "interval", seconds=10, id="job")
    scheduler.start()
    job.modify(name="changed")
    assert job.name == scheduler.get_job("job").name == "changed"
    job.remove()
    assert scheduler.get_jobs() == []


def test_jobs_added_after_a_shutdown_are_pending_until_the_next_start(scheduler, jobcalls):
    scheduler.start()
    scheduler.shutdown()
    job = scheduler.add_job(note, "interval", seconds=10, id="late")
    assert job.pending
    scheduler.start()
    scheduler.advance(10)
    assert jobcalls == ["called"]


def test_a_conflict_names_the_id_before_anything_is_stored(scheduler):
    scheduler.add_job(note, "interval", seconds=10, id="job")
    with pytest.raises(ConflictingIdError, match=r"Job identifier \(job\) conflicts with an existing job"):
        scheduler.add_job(note, "interval", seconds=10, id="job")
