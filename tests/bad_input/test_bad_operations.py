"""Wrong calls of the other methods: refused by name, with nothing changed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from goscheduler.jobstores.base import JobLookupError
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.cron import CronTrigger


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "other"}, {"name": ""}, {"name": None}, {"name": "a\0b"}, {"func": 5}, {"func": "nowhere:x"},
        {"args": "text"}, {"args": [1]}, {"kwargs": 5}, {"trigger": "cron"}, {"trigger": 5},
        {"executor": 5}, {"max_instances": 0},
        {"misfire_grace_time": -1}, {"coalesce": "perhaps"}, {"next_run_time": "tomorrow"}, {"next_run_time": 5},
        {"tags": 5}, {"nonsense": 1}, {"pending": True}, {"trigger": CronTrigger(year=2020, timezone="UTC")},
    ],
    ids=lambda changes: repr(changes)[:40],
)  # fmt: skip
@pytest.mark.parametrize("method", ["modify_job", "job.modify"])
def test_a_wrong_change_is_refused_and_the_job_stays(
    scheduler: ManualScheduler, bystander: Any, changes: dict[str, Any], method: str
) -> None:
    job = scheduler.get_job("bystander")
    assert job is not None
    before = (str(job), job.name, job.func, job.args, job.trigger)
    modify = job.modify if method == "job.modify" else partial(scheduler.modify_job, "bystander")
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
        modify(**changes)
    assert (str(job), job.name, job.func, job.args, job.trigger) == before
    if not scheduler.running:
        scheduler.start()
    bystander.assert_alone_and_firing()


@pytest.mark.parametrize(
    "arguments",
    [
        {"trigger": "nope"}, {"trigger": 5}, {"trigger": "interval", "hours": -1}, {"trigger": "cron", "hour": 99},
        {"trigger": "interval", "hourz": 1}, {"trigger": CronTrigger(year=2020, timezone="UTC")}, {"hours": 1},
        {"trigger": "date", "run_date": "tomorrow"}, {"trigger": "cron", "timezone": "Mars/Phobos"},
    ],
    ids=lambda arguments: repr(sorted(arguments)),
)  # fmt: skip
def test_a_wrong_reschedule_is_refused_and_the_schedule_stays(
    scheduler: ManualScheduler, bystander: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        scheduler.reschedule_job("bystander", **arguments)
    if not scheduler.running:
        scheduler.start()
    bystander.assert_alone_and_firing()


@pytest.mark.parametrize("job_id", ["unknown", "", "a\0b", "x" * 10_000, 5, None, b"bystander", ["bystander"], {}])
@pytest.mark.parametrize("method", ["remove_job", "pause_job", "resume_job", "modify_job", "reschedule_job"])
def test_an_id_that_nobody_has_is_a_clear_error(
    scheduler: ManualScheduler, bystander: Any, method: str, job_id: Any
) -> None:
    arguments = {"trigger": "interval", "hours": 1} if method == "reschedule_job" else {}
    with pytest.raises((JobLookupError, TypeError)) as caught:
        getattr(scheduler, method)(job_id, **arguments)
    text = str(caught.value)
    assert "\0" not in text
    assert len(text) < 500
    assert "unhashable" not in text
    if not scheduler.running:
        scheduler.start()
    bystander.assert_alone_and_firing()


def test_a_removed_job_cannot_be_changed_and_does_not_come_back(scheduler: ManualScheduler, bystander: Any) -> None:
    job = scheduler.add_job(str, "interval", minutes=1, id="gone")
    job.remove()
    for method, arguments in [("remove", ()), ("pause", ()), ("resume", ()), ("reschedule", ("interval",))]:
        options = {"hours": 1} if arguments else {}
        with pytest.raises(JobLookupError, match="gone"):
            getattr(job, method)(*arguments, **options)
    if not scheduler.running:
        scheduler.start()
    bystander.assert_alone_and_firing()


@pytest.mark.parametrize("alias", [5, None, "", [], b"x", "a\0b"])
@pytest.mark.parametrize("method", ["add_executor", "add_jobstore"])
def test_an_alias_must_be_a_nonempty_string(scheduler: ManualScheduler, method: str, alias: Any) -> None:
    plugin = "debug" if method == "add_executor" else "memory"
    with pytest.raises((TypeError, ValueError), match="alias"):
        getattr(scheduler, method)(plugin, alias)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_a_shutdown_with_a_wrong_limit_is_refused_and_the_scheduler_goes_on(timeout: Any) -> None:
    with ManualScheduler() as scheduler:
        with pytest.raises((ValueError, TypeError), match="timeout"):
            scheduler.shutdown(timeout=timeout)
        assert scheduler.running


@pytest.mark.parametrize("listener", [5, None, "text", []])
def test_a_listener_must_be_callable(scheduler: ManualScheduler, listener: Any) -> None:
    with pytest.raises(TypeError, match="callable"):
        scheduler.add_listener(listener)


@pytest.mark.parametrize("mask", ["all", None, 1.5, []])
def test_a_mask_must_be_a_number(scheduler: ManualScheduler, mask: Any) -> None:
    with pytest.raises(TypeError, match="mask"):
        scheduler.add_listener(print, mask)


@pytest.mark.parametrize("gconfig", [5, "text", [1], b"x"])
def test_a_configuration_must_be_a_mapping(gconfig: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        ManualScheduler(gconfig)


def test_a_job_default_that_is_wrong_is_refused_before_any_job_is_added() -> None:
    with pytest.raises(ValueError, match="max_instances must be a positive integer"):
        ManualScheduler(job_defaults={"max_instances": "0"})


@pytest.mark.parametrize("infile", [5, None, b"jobs.json", []])
def test_jobs_can_only_be_imported_from_a_path_or_a_text_file(scheduler: ManualScheduler, infile: Any) -> None:
    with pytest.raises(TypeError, match="infile"):
        scheduler.import_jobs(infile)


def test_importing_from_a_file_that_does_not_exist_says_so(scheduler: ManualScheduler) -> None:
    with pytest.raises(FileNotFoundError, match="no_such_file"):
        scheduler.import_jobs("no_such_file.json")


@pytest.mark.parametrize("job_id", [5, None, b"bystander", [], {}, "a\0b"])
def test_looking_for_an_id_that_nobody_can_have_finds_nothing(
    scheduler: ManualScheduler, bystander: Any, job_id: Any
) -> None:
    assert scheduler.get_job(job_id) is None


@pytest.mark.parametrize("prefix", [5, 1.5, object()])
def test_a_prefix_must_be_text(prefix: Any) -> None:
    with pytest.raises(TypeError, match="prefix"):
        ManualScheduler().configure({}, prefix)
