"""A scheduler configured the ways people configure APScheduler 3, seen through the scheduler."""

from __future__ import annotations

import configparser
import copy
import logging
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import ManualScheduler

my_logger = logging.getLogger("my.logger")


def noop() -> None:
    pass


INI = """
[app]
apscheduler.jobstores.extra.type = memory
apscheduler.executors.default.class = apscheduler.executors.pool:ThreadPoolExecutor
apscheduler.executors.default.max_workers = 20
apscheduler.executors.processpool.type = processpool
apscheduler.executors.processpool.max_workers = 5
apscheduler.job_defaults.coalesce = false
apscheduler.job_defaults.max_instances = 3
apscheduler.job_defaults.misfire_grace_time = 30
apscheduler.timezone = Asia/Tokyo
apscheduler.daemon = off
apscheduler.jobstore_retry_interval = 2.5
other.setting = untouched
"""


def test_the_configuration_of_the_user_guide_works_as_an_ini_file() -> None:
    ini = configparser.ConfigParser()
    ini.read_string(INI)
    scheduler = BackgroundScheduler(ini["app"])
    scheduler.start(paused=True)
    try:
        job = scheduler.add_job(noop, "interval", hours=1, jobstore="extra")
        assert (job.coalesce, job.max_instances, job.misfire_grace_time) == (False, 3, 30)
        assert scheduler.timezone == ZoneInfo("Asia/Tokyo")
        assert scheduler.jobstore_retry_interval == 2.5
        assert scheduler._daemon is False
    finally:
        scheduler.shutdown()


def test_the_configuration_of_the_user_guide_works_as_objects() -> None:
    jobstores = {"extra": {"type": "memory"}, "default": MemoryJobStore()}
    executors = {"default": {"type": "threadpool", "max_workers": 20}, "processes": ProcessPoolExecutor(max_workers=5)}
    scheduler = BackgroundScheduler()
    scheduler.configure(
        jobstores=jobstores, executors=executors, job_defaults={"coalesce": False, "max_instances": 3}, timezone="UTC"
    )
    scheduler.start(paused=True)
    try:
        assert scheduler.add_job(noop, "interval", hours=1, jobstore="extra").max_instances == 3
    finally:
        scheduler.shutdown()


@pytest.mark.parametrize(
    "gconfig",
    [
        {"apscheduler.timezone": "Asia/Tokyo", "apscheduler.job_defaults.max_instances": "3"},
        {"goscheduler.timezone": "Asia/Tokyo", "goscheduler.job_defaults.max_instances": "3"},
        {"goscheduler.timezone": "Asia/Tokyo", "apscheduler.job_defaults.max_instances": 3},
        {"apscheduler.timezone": ZoneInfo("Asia/Tokyo"), "apscheduler.job_defaults": {"max_instances": 3}},
    ],
)
def test_both_prefixes_and_both_ways_of_nesting_are_read(gconfig: dict[str, Any]) -> None:
    with ManualScheduler(gconfig | {"unrelated.key": 1}) as scheduler:
        assert scheduler.add_job(noop, "interval", hours=1).max_instances == 3


@pytest.mark.parametrize("prefix", ["", None, "jobs."])
def test_another_prefix_or_none_can_be_asked_for(prefix: str | None) -> None:
    scheduler = BackgroundScheduler()
    scheduler.configure({f"{prefix or ''}timezone": "Asia/Tokyo"}, prefix)
    assert scheduler.timezone == ZoneInfo("Asia/Tokyo")


def test_the_prefix_can_be_given_by_position_as_in_apscheduler() -> None:
    scheduler = BackgroundScheduler()
    scheduler.configure({"apscheduler.timezone": "Asia/Tokyo", "mine.timezone": "UTC"}, "apscheduler.")
    assert scheduler.timezone == ZoneInfo("Asia/Tokyo")


def test_keyword_options_win_over_the_mapping() -> None:
    scheduler = BackgroundScheduler({"apscheduler.timezone": "Asia/Tokyo"}, timezone="Europe/Berlin")
    assert scheduler.timezone == ZoneInfo("Europe/Berlin")


def test_one_configuration_serves_many_schedulers() -> None:
    """APScheduler 3 takes the dicts apart, so the second scheduler fails."""
    config: dict[str, Any] = {
        "apscheduler.executors.default": {"type": "threadpool", "max_workers": 2},
        "apscheduler.jobstores.extra": {"class": "goscheduler.jobstores.memory:MemoryJobStore"},
        "apscheduler.job_defaults": {"max_instances": "4"},
    }
    before = copy.deepcopy(config)
    for _ in range(2):
        scheduler = BackgroundScheduler(config)
        scheduler.start(paused=True)
        assert scheduler.add_job(noop, "interval", hours=1, jobstore="extra").max_instances == 4
        scheduler.shutdown()
    assert config == before


@pytest.mark.parametrize("logger", [my_logger, "my.logger", f"{__name__}:my_logger"])
def test_a_logger_comes_as_an_object_a_name_or_a_reference(
    logger: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """APScheduler 3 documents the name and refuses it."""
    with caplog.at_level(logging.INFO, "my.logger"), ManualScheduler(logger=logger):
        pass
    assert "Scheduler started" in [record.message for record in caplog.records if record.name == "my.logger"]


@pytest.mark.parametrize("word", ["true", "Yes", " on ", "y", "T", "1", True, 1])
def test_a_true_word_is_true(word: Any) -> None:
    assert BackgroundScheduler(daemon=word)._daemon is True


@pytest.mark.parametrize("word", ["false", "No", " off ", "n", "F", "0", False, 0])
def test_a_false_word_is_false(word: Any) -> None:
    assert BackgroundScheduler(daemon=word)._daemon is False


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"executors": {"x": 5}}, TypeError, "Expected executor instance or dict for executors['x'], got int instead"),
        ({"jobstores": {"x": 5}}, TypeError, "Expected job store instance or dict for jobstores['x'], got int instead"),
        (
            {"executors": {"x": {"max_workers": 5}}}, ValueError,
            'Cannot create executor "x" -- either "type" or "class" must be defined',
        ),
        (
            {"jobstores": {"x": {}}}, ValueError,
            'Cannot create job store "x" -- either "type" or "class" must be defined',
        ),
        ({"executors": {"x": {"type": "treadpool"}}}, LookupError, 'did you mean "threadpool"?'),
        ({"jobstores": {"x": {"type": "memory!"}}}, LookupError, 'did you mean "memory"?'),
        ({"executors": {"x": {"class": "no.such:Class"}}}, LookupError, "no.such:Class"),
        ({"executors": {"x": {"class": "builtins:int"}}}, ValueError, "builtins"),
        ({"executors": {"x": {"class": MemoryJobStore}}}, TypeError, "executor"),
        ({"executors": {"x": {"type": "threadpool", "max_worker": 3}}}, TypeError, "did you mean 'max_workers'"),
        ({"executors": {"x": {"type": "threadpool", "max_workers": "many"}}}, ValueError, "max_workers"),
        ({"executors": {"x": {"type": "threadpool", "max_workers": 0}}}, ValueError, "max_workers"),
        ({"executors": [1]}, TypeError, "executors"),
        ({"executors": {5: DebugExecutor()}}, TypeError, "alias"),
        ({"job_defaults": 5}, TypeError, "job_defaults"),
        ({"job_defaults": {"max_instances": 0}}, ValueError, "max_instances must be a positive integer, got 0"),
        ({"job_defaults": {"max_instances": "many"}}, ValueError, "max_instances must be a positive integer"),
        ({"job_defaults": {"coalesce": "perhaps"}}, ValueError, "coalesce"),
        ({"job_defaults": {"misfire_grace_time": -5}}, ValueError, "misfire_grace_time"),
        ({"job_defaults": {"misfire_grace": 5}}, TypeError, "did you mean 'misfire_grace_time'"),
        ({"timezone": "Mars/Phobos"}, ValueError, "Unknown timezone 'Mars/Phobos'"),
        ({"timezone": 5}, TypeError, "Expected tzinfo, got int instead"),
        ({"jobstore_retry_interval": "soon"}, ValueError, "jobstore_retry_interval must be a positive number"),
        ({"jobstore_retry_interval": -1}, ValueError, "jobstore_retry_interval"),
        ({"jobstore_retry_interval": float("nan")}, ValueError, "jobstore_retry_interval"),
        ({"logger": 5}, TypeError, "logger"),
        ({"daemon": "perhaps"}, ValueError, "boolean"),
        ({"event_dispatch": "later"}, ValueError, "event_dispatch must be 'thread' or 'sync', got 'later'"),
        ({"timezon": "UTC"}, TypeError, "did you mean 'timezone'"),
        ({"misfire_grace_time": 5}, TypeError, "belongs into job_defaults"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_name(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        BackgroundScheduler(**options)
    assert text in str(caught.value)


def test_an_unknown_option_tells_the_nearest_one() -> None:
    with pytest.raises(UnknownOption) as caught:
        BackgroundScheduler({"apscheduler.job_default.coalesce": "true"})
    assert (caught.value.name, caught.value.suggestion) == ("job_default", "job_defaults")


def test_all_errors_of_a_configuration_are_told_at_once() -> None:
    with pytest.raises(InvalidArgument) as caught:
        BackgroundScheduler(
            timezone="Mars/Phobos", timezon="UTC", job_defaults={"max_instances": -1, "colour": 1},
            executors={"x": {"type": "nothing"}},
        )
    text = str(caught.value)
    for part in ("Mars/Phobos", "timezon", "max_instances", "colour", "nothing"):
        assert part in text
    assert text.startswith("5 errors in the configuration:")


def test_a_refused_configuration_leaves_the_old_one() -> None:
    scheduler = BackgroundScheduler(timezone="Asia/Tokyo", executors={"pool": ThreadPoolExecutor(1)})
    with pytest.raises(ValueError, match="Mars"):
        scheduler.configure(timezone="Mars/Phobos", executors={})
    assert scheduler.timezone == ZoneInfo("Asia/Tokyo")
    scheduler.remove_executor("pool")


def test_a_constructor_that_raises_leaves_the_old_configuration() -> None:
    class Broken(MemoryJobStore):
        def __init__(self) -> None:
            raise ConnectionError("no server")

    scheduler = BackgroundScheduler(timezone="Asia/Tokyo")
    with pytest.raises(ConnectionError):
        scheduler.configure(timezone="UTC", jobstores={"x": {"class": Broken}})
    assert scheduler.timezone == ZoneInfo("Asia/Tokyo")


def test_pytz_zones_are_taken() -> None:
    pytz = pytest.importorskip("pytz")
    assert BackgroundScheduler(timezone=pytz.timezone("Asia/Tokyo")).timezone == ZoneInfo("Asia/Tokyo")
