"""Several jobs added at once: all of them, or none."""

from __future__ import annotations

import pytest

from goscheduler.errors import ConflictingIdError, InvalidArgument, NeverFires, UnknownOption
from goscheduler.events import EVENT_JOB_ADDED
from goscheduler.testing import ManualScheduler
from goscheduler.testing.recorder import EventRecorder


def nothing():
    """Do nothing."""


def every_minute(job_id, **options):
    return {"func": nothing, "trigger": "interval", "minutes": 1, "id": job_id, **options}


@pytest.fixture(params=["memory", "sqlite"])
def scheduler(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with ManualScheduler(jobstores={} if request.param == "memory" else {"default": url}) as scheduler:
        yield scheduler


def ids(scheduler):
    return sorted(job.id for job in scheduler.get_jobs())


def test_all_are_added_and_told_and_run(scheduler):
    heard = EventRecorder(scheduler, EVENT_JOB_ADDED)
    jobs = scheduler.add_jobs(every_minute(job_id, tags=[job_id]) for job_id in "abc")
    assert [(job.id, job.tags, job.pending) for job in jobs] == [(job_id, (job_id,), False) for job_id in "abc"]
    assert [event.job_id for event in heard.events] == ["a", "b", "c"]
    scheduler.advance(60)
    assert sorted(record.job_id for record in scheduler.runs()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (every_minute("taken"), ConflictingIdError),
        (every_minute("a"), ConflictingIdError),
        (every_minute("x", max_instances=0), InvalidArgument),
        (every_minute("x", misspelt=1), UnknownOption),
        ({"func": nothing, "trigger": "cron", "year": 1999}, NeverFires),
        (every_minute("x", jobstore="nowhere"), KeyError),
        (every_minute("x", connection=object()), InvalidArgument),
        ({"trigger": "interval"}, TypeError),
        (nothing, TypeError),
    ],
)
def test_if_one_is_refused_none_is_added(scheduler, bad, error):
    scheduler.add_job(nothing, "interval", minutes=1, id="taken")
    with pytest.raises(error):
        scheduler.add_jobs([every_minute("a"), bad])
    assert ids(scheduler) == ["taken"]


def test_those_that_replace_others_stand_beside_new_ones(scheduler):
    scheduler.add_job(nothing, "interval", minutes=1, id="old", name="before")
    scheduler.add_jobs([every_minute("old", name="after", if_exists="replace"), every_minute("new")])
    assert ids(scheduler) == ["new", "old"]
    assert scheduler.get_job("old").name == "after"


def test_before_the_start_they_wait_all_or_none():
    scheduler = ManualScheduler()
    with pytest.raises(ConflictingIdError):
        scheduler.add_jobs([every_minute("a"), every_minute("a")])
    assert scheduler.get_jobs() == []
    scheduler.add_jobs([every_minute("a"), every_minute("b")])
    with scheduler:
        assert ids(scheduler) == ["a", "b"]
