"""Jobs that have fired for the last time: gone, or kept until nobody wants to see them any more."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from behaviour_doubles import LOCAL_STORES, START, PickledStore, note
from retry_doubles import play

from goscheduler import Retry, fixed
from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.events import EVENT_JOB_REMOVED
from goscheduler.runs.model import JobState
from goscheduler.testing import EventRecorder, ManualScheduler

NO = ValueError("no")


def state(scheduler, job_id="job"):
    return scheduler.get_job(job_id).state


@pytest.fixture
def completed(scheduler, jobcalls):
    """A scheduler with a job that has run once, an hour after the start, and was kept."""
    scheduler.add_job(note, "date", run_date=START + timedelta(hours=1), id="job", auto_remove=False)
    scheduler.advance("1h")
    assert jobcalls == ["called"]
    return scheduler


@pytest.mark.parametrize("options", [{}, {"auto_remove": True}])
@pytest.mark.parametrize("outcome", [None, NO])
def test_a_job_that_has_fired_for_the_last_time_is_gone(scheduler, options, outcome):
    recorder = EventRecorder(scheduler, EVENT_JOB_REMOVED)
    scheduler.add_job(play, "date", args=[outcome], id="job", **options)
    scheduler.run_due()
    assert scheduler.get_job("job") is None
    assert [event.job_id for event in recorder.events] == ["job"]


def test_the_default_can_be_set_for_all_jobs():
    with ManualScheduler(job_defaults={"auto_remove": False}) as scheduler:
        scheduler.add_job(note, "date", id="job")
        scheduler.run_due()
        assert state(scheduler) is JobState.COMPLETED


@pytest.mark.parametrize(("outcome", "expected"), [(None, JobState.COMPLETED), (NO, JobState.FAILED)])
def test_a_job_that_is_kept_shows_how_it_ended(scheduler, outcome, expected):
    recorder = EventRecorder(scheduler, EVENT_JOB_REMOVED)
    scheduler.add_job(play, "date", args=[outcome], id="job", auto_remove=False)
    scheduler.run_due()
    job = scheduler.get_job("job")
    assert (job.state, job.next_run_time, job.stats.finished_at) == (expected, None, START)
    assert str(job).endswith(", finished)")
    assert recorder.events == []


def test_a_job_with_an_end_is_kept_too(scheduler):
    scheduler.add_job(
        note, "interval", hours=1, end_date=START + timedelta(hours=3), id="job", auto_remove=False
    )
    seen = []
    for _ in range(5):
        scheduler.advance("1h")
        seen.append(state(scheduler))
    assert seen == [JobState.SCHEDULED] * 2 + [JobState.COMPLETED] * 3
    assert scheduler.get_job("job").run_count == 3


def test_between_its_retries_a_job_that_is_kept_is_scheduled(scheduler):
    scheduler.add_job(
        play, "date", args=[NO], id="job", auto_remove=False, retry=Retry(3, fixed(60)), dead_letter=False
    )
    seen = []
    for _ in range(4):
        scheduler.run_due()
        seen.append((state(scheduler), scheduler.get_job("job").run_count))
        scheduler.advance("1m")
    assert seen == [(JobState.SCHEDULED, 1), (JobState.SCHEDULED, 2), (JobState.FAILED, 3), (JobState.FAILED, 3)]


def test_the_id_of_a_job_that_is_kept_is_taken(completed):
    with pytest.raises(ConflictingIdError):
        completed.add_job(note, "date", id="job")


def test_a_job_that_is_kept_does_not_fire_again(completed, jobcalls):
    completed.advance("10h")
    assert jobcalls == ["called"]


def test_a_job_that_is_kept_can_be_run_now(completed, jobcalls):
    completed.run_now("job")
    completed.run_due()
    assert jobcalls == ["called"] * 2
    assert (state(completed), completed.get_job("job").run_count) == (JobState.COMPLETED, 2)


def test_a_job_that_is_kept_can_be_given_another_trigger(completed, jobcalls):
    completed.reschedule_job("job", trigger="interval", hours=1)
    assert (state(completed), completed.get_job("job").stats.finished_at) == (JobState.SCHEDULED, None)
    completed.advance("2h")
    assert jobcalls == ["called"] * 3


def test_a_job_that_is_kept_can_be_given_another_time(completed, jobcalls):
    completed.modify_job("job", next_run_time=START + timedelta(hours=2))
    assert (state(completed), completed.get_job("job").stats.finished_at) == (JobState.SCHEDULED, None)
    completed.advance("2h")
    assert jobcalls == ["called"] * 2
    assert state(completed) is JobState.COMPLETED


def test_a_job_that_is_kept_can_be_modified_and_stays_what_it_is(completed):
    completed.modify_job("job", name="other", description="it has run")
    job = completed.get_job("job")
    assert (job.name, job.state, job.run_count) == ("other", JobState.COMPLETED, 1)


def test_a_job_that_is_kept_can_be_removed(completed):
    completed.remove_job("job")
    assert completed.get_job("job") is None
    with pytest.raises(JobLookupError):
        completed.remove_job("job")


def test_a_one_shot_that_is_resumed_runs_once_more(completed, jobcalls):
    assert completed.resume_job("job").state is JobState.QUEUED
    completed.run_due()
    assert jobcalls == ["called"] * 2
    assert state(completed) is JobState.COMPLETED


def test_a_job_that_is_kept_and_whose_trigger_has_ended_is_not_removed_by_resuming_it(scheduler):
    job = scheduler.add_job(
        note, "interval", hours=1, end_date=START + timedelta(hours=2), id="job", auto_remove=False
    )
    scheduler.advance("3h")
    assert scheduler.resume_job("job") is not None
    assert job.resume().stats.finished_at is not None
    assert state(scheduler) is JobState.COMPLETED


def test_a_paused_job_that_is_kept_and_whose_time_has_passed_is_over_when_it_is_resumed(scheduler):
    scheduler.add_job(note, "interval", hours=1, end_date=START + timedelta(hours=2), id="job", auto_remove=False)
    scheduler.advance("1h")
    scheduler.pause_job("job", by="Ada")
    scheduler.advance("3h")
    job = scheduler.resume_job("job")
    assert (job.state, job.stats.paused_by, job.stats.finished_at) == (JobState.COMPLETED, None, scheduler.clock.now())


def test_a_job_that_is_kept_and_declared_again_as_it_was_does_not_run_again(completed, jobcalls):
    for _ in range(2):
        completed.add_job(
            note, "date", run_date=START + timedelta(hours=1), id="job", auto_remove=False, if_exists="replace"
        )
        completed.run_due()
    assert jobcalls == ["called"]
    assert (state(completed), completed.get_job("job").run_count) == (JobState.COMPLETED, 1)


def test_a_job_that_is_kept_and_declared_for_another_time_runs_then(completed, jobcalls):
    completed.add_job(
        note, "date", run_date=START + timedelta(hours=5), id="job", auto_remove=False, if_exists="replace"
    )
    assert state(completed) is JobState.SCHEDULED
    completed.advance("5h")
    assert jobcalls == ["called"] * 2


def test_an_exported_job_that_is_over_does_not_fire_where_it_is_imported(completed, jobcalls):
    file = io.StringIO()
    completed.export_jobs(file)
    file.seek(0)
    with ManualScheduler() as other:
        other.import_jobs(file)
        assert other.get_job("job").next_run_time is None
        other.advance("10d")
    assert jobcalls == ["called"]


# Retention


@pytest.mark.parametrize(
    ("outcome", "kept"), [(None, "6d23h"), (NO, "29d23h")], ids=["completed", "failed"]
)
def test_a_job_that_is_kept_vanishes_with_the_retention(scheduler, outcome, kept):
    recorder = EventRecorder(scheduler, EVENT_JOB_REMOVED)
    scheduler.add_job(play, "date", args=[outcome], id="job", auto_remove=False)
    scheduler.run_due()
    scheduler.clock.advance(kept)
    scheduler.advance("5m")
    assert scheduler.get_job("job") is not None
    scheduler.clock.advance("1h")
    scheduler.advance("5m")
    assert scheduler.get_job("job") is None
    assert [(event.job_id, event.jobstore) for event in recorder.events] == [("job", "default")]


@pytest.mark.parametrize("store", LOCAL_STORES)
def test_the_retention_can_be_set(store):
    with ManualScheduler(
        jobstores={"default": store()}, retention={"succeeded": "1h", "others": "2h"}
    ) as scheduler:
        scheduler.add_job(play, "date", args=[None], id="good", auto_remove=False)
        scheduler.add_job(play, "date", args=[NO], id="bad", auto_remove=False)
        scheduler.run_due()
        seen = []
        for _ in range(3):
            scheduler.clock.advance("62m")
            scheduler.run_due()
            seen.append([job.id for job in scheduler.get_jobs()])
        assert seen == [["bad"], [], []]


def test_a_job_whose_retry_waits_longer_than_the_retention_stays(scheduler):
    scheduler.engine.retention = type(scheduler.engine.retention)(succeeded="1h", others="1h")
    scheduler.add_job(play, "date", args=[NO], id="job", auto_remove=False, retry=Retry(2, fixed(86400)))
    scheduler.run_due()
    scheduler.clock.advance("10h")
    scheduler.run_due()
    assert state(scheduler) is JobState.SCHEDULED
    scheduler.advance("14h")
    assert (state(scheduler), scheduler.get_job("job").run_count) == (JobState.FAILED, 2)


def test_what_is_paused_or_scheduled_is_never_pruned(scheduler):
    scheduler.engine.retention = type(scheduler.engine.retention)(succeeded="1h", others="1h")
    scheduler.add_job(note, "interval", hours=1, id="paused", auto_remove=False).pause()
    scheduler.add_job(note, "date", run_date=START + timedelta(days=300), id="later", auto_remove=False)
    scheduler.add_job(note, "date", id="again", auto_remove=False)
    scheduler.run_due()
    scheduler.reschedule_job("again", trigger="interval", days=100)
    scheduler.clock.advance("10d")
    scheduler.advance("5m")
    assert {job.id for job in scheduler.get_jobs()} == {"paused", "later", "again"}


def test_jobs_that_are_over_are_found_again_after_a_restart():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(note, "date", id="job", auto_remove=False)
        scheduler.run_due()
        clock = scheduler.clock
    store.__dict__.pop("_local_runs")
    clock.advance("31d")
    with ManualScheduler(jobstores={"default": store}, clock=clock) as scheduler:
        scheduler.run_due()
        assert scheduler.get_jobs() == []


@pytest.mark.parametrize("make", LOCAL_STORES)
def test_at_most_so_many_are_removed_at_once(make):
    store = make()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        for number in range(20):
            scheduler.add_job(note, "date", id=f"{number}", auto_remove=False)
        scheduler.run_due()
        later = scheduler.clock.now() + timedelta(days=31)
        removed = [len(store.prune_finished_jobs(scheduler.engine.retention, later, 8)) for _ in range(4)]
        assert removed == [8, 8, 4, 0]
