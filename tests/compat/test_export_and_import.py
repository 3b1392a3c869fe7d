"""Jobs written to a file by one scheduler and read by another, also from APScheduler's files."""

from __future__ import annotations

import base64
import io
import json
import pickle
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler as TheirScheduler

from goscheduler.events import EVENT_JOB_ADDED, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from goscheduler.jobstores.base import ConflictingIdError
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.testing.clock import START

HOUR = timedelta(hours=1)
FUNC = "math:hypot"


def _filled() -> ManualScheduler:
    scheduler = ManualScheduler()
    scheduler.start()
    scheduler.add_job(FUNC, "interval", [1, 2], hours=1, id="a", name="first", misfire_grace_time=9, max_instances=3)
    scheduler.add_job(FUNC, "cron", [1, 2], hour="*/3", day_of_week="mon-fri", id="b", coalesce=False)
    scheduler.add_job(FUNC, "date", [1, 2], run_date="2027-01-01", id="c")
    scheduler.add_job(FUNC, "interval", [1, 2], hours=1, id="paused", next_run_time=None)
    return scheduler


def _states(scheduler: ManualScheduler) -> dict[str, dict[str, Any]]:
    return {
        job.id: job.__getstate__() | {"trigger": str(job.trigger)}
        for job in scheduler.get_jobs()
    }


def test_what_is_exported_can_be_imported_elsewhere(tmp_path: Path) -> None:
    source = _filled()
    for path in (tmp_path / "jobs.json", str(tmp_path / "more.json")):
        source.export_jobs(path)
        with ManualScheduler() as target:
            target.import_jobs(path)
            assert _states(target) == _states(source)
    source.shutdown()


def test_a_text_file_does_as_well_as_a_path() -> None:
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    file.seek(0)
    with ManualScheduler() as target:
        target.import_jobs(file)
        assert _states(target) == _states(source)
    source.shutdown()


def test_an_export_is_json_with_a_version() -> None:
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    document = json.loads(file.getvalue())
    assert document["version"] == 1
    assert sorted(job["id"] for job in document["jobs"]) == ["a", "b", "c", "paused"]
    assert "pickle" not in file.getvalue()


def test_one_store_can_be_exported_and_another_imported_into() -> None:
    source, file = _filled(), io.StringIO()
    source.add_jobstore("memory", "other")
    source.add_job(FUNC, "interval", [1, 2], hours=1, id="elsewhere", jobstore="other")
    source.export_jobs(file, "other")
    source.shutdown()
    file.seek(0)
    with ManualScheduler(jobstores={"target": {"type": "memory"}}) as target:
        target.import_jobs(file, "target")
        assert [job.id for job in target.get_jobs("target")] == ["elsewhere"]
        assert target.get_jobs("default") == []


def test_a_stopped_scheduler_cannot_export() -> None:
    with pytest.raises(RuntimeError, match="must have been started"):
        ManualScheduler().export_jobs(io.StringIO())


def test_imported_jobs_are_told_fire_and_belong_to_their_scheduler() -> None:
    """APScheduler 3 neither tells nor wakes."""
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    file.seek(0)
    with ManualScheduler() as target:
        recorder = EventRecorder(target)
        target.import_jobs(file)
        assert {event.job_id for event in recorder.of(EVENT_JOB_ADDED)} == {"a", "b", "c", "paused"}
        target.advance("1h")
        [executed] = recorder.of(EVENT_JOB_EXECUTED, "a")
        assert round(executed.retval, 3) == 2.236
        job = target.get_job("a")
        assert job is not None
        assert job.modify(name="renamed").name == "renamed"


def test_an_id_that_is_taken_stops_the_import_before_anything_is_added() -> None:
    """APScheduler 3 stops midway."""
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    file.seek(0)
    with ManualScheduler() as target:
        target.add_job(FUNC, "interval", [1, 2], hours=1, id="c")
        with pytest.raises(ConflictingIdError):
            target.import_jobs(file)
        assert [job.id for job in target.get_jobs()] == ["c"]


def test_jobs_imported_before_the_start_are_pending() -> None:
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    file.seek(0)
    target = ManualScheduler()
    target.import_jobs(file)
    assert all(job.pending for job in target.get_jobs())
    with target:
        assert len(target.get_jobs()) == 4


@pytest.mark.parametrize(
    "text",
    [
        "", "no json", "[]", "5", "{}", '{"version": 2, "jobs": []}', '{"version": 1}', '{"version": 1, "jobs": 5}',
        '{"version": 1, "jobs": [5]}', '{"version": 1, "jobs": [{"id": "x"}]}', '{"version": "1", "jobs": []}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_file_that_is_no_export_is_refused_as_a_whole(text: str) -> None:
    with ManualScheduler() as target:
        with pytest.raises(ValueError):  # noqa: PT011 - the texts differ; each says what was expected
            target.import_jobs(io.StringIO(text))
        assert target.get_jobs() == []


@pytest.mark.parametrize("func", ["os:system", "builtins:eval", "subprocess:run", "math:__loader__.load_module"])
def test_a_file_cannot_smuggle_in_a_command(func: str) -> None:
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    document = json.loads(file.getvalue())
    document["jobs"][0]["func"] = func
    with ManualScheduler() as target:
        with pytest.raises((ValueError, LookupError)):
            target.import_jobs(io.StringIO(json.dumps(document)))
        assert target.get_jobs() == []


@pytest.mark.parametrize("field", ["args", "kwargs"])
def test_a_file_whose_job_has_no_arguments_where_there_must_be_some_is_refused(field: str) -> None:
    source, file = _filled(), io.StringIO()
    source.export_jobs(file)
    source.shutdown()
    document = json.loads(file.getvalue())
    document["jobs"][0][field] = None
    with ManualScheduler() as target:
        with pytest.raises((TypeError, ValueError), match=field):
            target.import_jobs(io.StringIO(json.dumps(document)))
        assert target.get_jobs() == []


def test_a_lambda_cannot_be_exported_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    with ManualScheduler() as scheduler:
        scheduler.add_job(lambda: None, "interval", hours=1)
        with pytest.raises(ValueError, match="cannot be serialized"):
            scheduler.export_jobs(path)
    assert not path.exists()


# Files of APScheduler


@pytest.fixture
def exported_by_apscheduler() -> str:
    scheduler = TheirScheduler(timezone="Europe/Berlin")
    scheduler.start(paused=True)
    when = datetime(2090, 5, 1, 12, tzinfo=timezone.utc)
    scheduler.add_job("math:hypot", "interval", [3, 4], hours=2, id="i", start_date=when, name="every two hours")
    scheduler.add_job("math:hypot", "cron", [3, 4], id="c", hour="*/3", day="1st fri,last", jitter=3)
    scheduler.add_job("math:hypot", "date", [3, 4], id="d", run_date=when, max_instances=4)
    scheduler.add_job("math:hypot", "calendarinterval", [3, 4], id="ci", months=1, hour=5, start_date="2090-05-01")
    scheduler.add_job("math:hypot", "interval", [3, 4], id="p", hours=1, next_run_time=None, misfire_grace_time=None)
    file = io.StringIO()
    scheduler.export_jobs(file)
    scheduler.shutdown()
    return file.getvalue()


def test_a_file_of_apscheduler_can_be_imported(exported_by_apscheduler: str) -> None:
    with ManualScheduler(allowed_modules=["math"]) as target:
        target.import_jobs(io.StringIO(exported_by_apscheduler))
        jobs = {job.id: job for job in target.get_jobs()}
        assert sorted(jobs) == ["c", "ci", "d", "i", "p"]
        assert (jobs["i"].name, str(jobs["i"].trigger)) == ("every two hours", "interval[2:00:00]")
        assert str(jobs["c"].trigger) == "cron[day='1st fri,last', hour='*/3']"
        assert (jobs["d"].max_instances, jobs["d"].args) == (4, (3, 4))
        assert jobs["p"].next_run_time is None
        assert jobs["i"].misfire_grace_time == 1
        assert jobs["i"].next_run_time == datetime(2090, 5, 1, 12, tzinfo=timezone.utc)


def test_a_pickle_in_a_file_of_apscheduler_cannot_run_code(exported_by_apscheduler: str, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "proof",)

    document = json.loads(exported_by_apscheduler)
    document["jobs"][0]["args"] = [{"__apscheduler_pickle__": base64.b64encode(pickle.dumps(Evil())).decode()}, 4]
    with ManualScheduler() as target:
        with pytest.raises(ValueError, match="not allowed"):
            target.import_jobs(io.StringIO(json.dumps(document)))
        assert target.get_jobs() == []
    assert not (tmp_path / "proof").exists()


def test_an_imported_due_time_in_the_past_meets_its_misfire_rule(exported_by_apscheduler: str) -> None:
    document = json.loads(exported_by_apscheduler)
    document["jobs"] = [job for job in document["jobs"] if job["id"] == "i"]
    with ManualScheduler(allowed_modules=["math"]) as target:
        target._move_to(START + timedelta(days=25000, minutes=30))
        recorder = EventRecorder(target, EVENT_JOB_MISSED | EVENT_JOB_EXECUTED)
        target.import_jobs(io.StringIO(json.dumps(document)))
        target.run_due()
        assert set(recorder.codes) == {EVENT_JOB_MISSED}
        job = target.get_job("i")
        assert job is not None
        assert job.next_run_time is not None
        assert job.next_run_time > target.clock.now()
