from __future__ import annotations

import configparser
import copy
import dataclasses
import logging
from datetime import timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goscheduler.config import SchedulerConfig, parse_config
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.executors.debug import DebugExecutor
from goscheduler.times import local_timezone

some_logger = logging.getLogger("some.logger")

INI = """
[scheduling]
apscheduler.timezone = Europe/Berlin
apscheduler.jobstore_retry_interval = 2.5
apscheduler.job_defaults.coalesce = no
apscheduler.job_defaults.max_instances = 3
apscheduler.job_defaults.misfire_grace_time = 30
apscheduler.executors.default.type = threadpool
apscheduler.executors.default.max_workers = 20
goscheduler.executors.other.class = apscheduler.executors.pool:ThreadPoolExecutor
goscheduler.event_dispatch = sync
unrelated.setting = 1
"""


def test_nothing_given_is_the_default() -> None:
    assert parse_config() == SchedulerConfig()
    assert SchedulerConfig().timezone == local_timezone()
    assert SchedulerConfig().jobstore_retry_interval == 10


def test_an_ini_file_configures_a_scheduler_under_both_prefixes() -> None:
    ini = configparser.ConfigParser()
    ini.read_string(INI)
    config = parse_config(ini["scheduling"])
    assert config.timezone == ZoneInfo("Europe/Berlin")
    assert config.jobstore_retry_interval == 2.5
    assert config.job_defaults == {"coalesce": False, "max_instances": 3, "misfire_grace_time": 30}
    assert config.event_dispatch == "sync"
    assert config.executors == {
        "default": {"type": "threadpool", "max_workers": "20"},
        "other": {"class": "apscheduler.executors.pool:ThreadPoolExecutor"},
    }


@pytest.mark.parametrize("prefix", ["", None])
def test_without_a_prefix_all_keys_count(prefix: str | None) -> None:
    config = parse_config({"timezone": "UTC", "job_defaults.max_instances": 2}, prefix)
    assert config.timezone is timezone.utc
    assert config.job_defaults == {"max_instances": 2}


def test_a_prefix_of_ones_own_is_used_alone() -> None:
    given = {"my.timezone": "Asia/Tokyo", "apscheduler.timezone": "Europe/Berlin"}
    assert parse_config(given, "my.").timezone == ZoneInfo("Asia/Tokyo")


def test_keyword_options_replace_whole_keys() -> None:
    given = {"apscheduler.job_defaults.max_instances": 3, "apscheduler.timezone": "UTC"}
    config = parse_config(given, options={"job_defaults": {"coalesce": False}})
    assert config.job_defaults == {"coalesce": False}
    assert config.timezone is timezone.utc


def test_a_configuration_can_be_used_twice_because_it_is_not_changed() -> None:
    gconfig = {
        "apscheduler.executors": {"default": {"type": "threadpool"}},
        "apscheduler.executors.default.max_workers": 5,
        "apscheduler.job_defaults": {"max_instances": "3"},
    }
    options = {"jobstores": {"default": {"type": "memory"}}}
    before = copy.deepcopy((gconfig, options))
    first = parse_config(gconfig, options=options)
    assert first.executors == {"default": {"type": "threadpool", "max_workers": 5}}
    assert parse_config(gconfig, options=options) == first
    assert (gconfig, options) == before


def test_instances_are_kept_as_given() -> None:
    executor = DebugExecutor()
    assert parse_config(options={"executors": {"default": executor}}).executors["default"] is executor


@pytest.mark.parametrize("value", [some_logger, "some.logger", f"{__name__}:some_logger"])
def test_a_logger_is_given_as_itself_by_name_or_by_reference(value: object) -> None:
    assert parse_config(options={"logger": value}).logger is some_logger


def test_options_of_one_scheduler_class_are_passed_on_as_given() -> None:
    assert parse_config({"apscheduler.daemon": "no"}, extra_keys={"daemon"}).extra == {"daemon": "no"}
    with pytest.raises(UnknownOption, match="unknown option 'daemon' for the scheduler"):
        parse_config({"apscheduler.daemon": "no"})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"timezon": "UTC"}, UnknownOption, "unknown option 'timezon' for the scheduler; did you mean 'timezone'"),
        ({"misfire_grace_time": 5}, UnknownOption, "it belongs into job_defaults"),
        ({"timezone": "Mars/Phobos"}, InvalidArgument, "Unknown timezone 'Mars/Phobos'"),
        ({"timezone": 5}, TypeError, "Expected tzinfo, got int instead"),
        ({"jobstore_retry_interval": 0}, InvalidArgument, "must be a positive number of seconds, got 0"),
        ({"jobstore_retry_interval": "soon"}, InvalidArgument, "must be a positive number of seconds, got 'soon'"),
        ({"jobstore_retry_interval": float("nan")}, InvalidArgument, "must be a positive number of seconds, got nan"),
        ({"jobstore_retry_interval": []}, InvalidArgument, r"must be a positive number of seconds, got \[\]"),
        ({"start_timeout": 0}, InvalidArgument, "start_timeout must be a positive number of seconds, got 0"),
        ({"job_defaults": 5}, TypeError, "job_defaults must be a mapping, got 5"),
        ({"job_defaults": {"max_instance": 1}}, UnknownOption, "for job_defaults; did you mean 'max_instances'"),
        ({"job_defaults": {"max_instances": 0}}, InvalidArgument, "max_instances must be a positive integer, got 0"),
        ({"executors": 5}, TypeError, "executors must be a mapping, got 5"),
        ({"executors": {"x": 5}}, TypeError, r"Expected executor instance or dict for executors\['x'\], got int"),
        ({"executors": {"": DebugExecutor()}}, TypeError, "An alias in executors must be a nonempty string, got ''"),
        ({"jobstores": {"x": {"type": "memry"}}}, LookupError, 'did you mean "memory"'),
        ({"logger": 5}, TypeError, "logger must be a logger, its name or a reference to one, got 5"),
        ({"logger": "no.such.module:x"}, LookupError, "Error resolving reference"),
        ({"event_dispatch": "later"}, InvalidArgument, "event_dispatch must be 'thread' or 'sync', got 'later'"),
        ({"event_dispatch": []}, InvalidArgument, "event_dispatch must be 'thread' or 'sync'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        parse_config(options=options)


@pytest.mark.parametrize(
    ("gconfig", "text"),
    [
        ({"apscheduler.executors": 5, "apscheduler.executors.x.type": "debug"}, "cannot be set beside a value for"),
        ({"apscheduler.timezone": "UTC", "goscheduler.timezone": "UTC"}, "configured under another prefix too"),
        ({"apscheduler.job_defaults": {"coalesce": 1}, "apscheduler.job_defaults.coalesce": 0}, "configured twice"),
    ],
)
def test_contradicting_keys_are_refused(gconfig: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        parse_config(gconfig)


def test_what_is_no_mapping_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="The configuration must be a mapping, got 5"):
        parse_config(5)  # type: ignore[arg-type]


def test_keys_that_are_no_strings_are_nobodys() -> None:
    assert parse_config({3: 4}) == SchedulerConfig()  # type: ignore[dict-item]


def test_all_errors_are_listed_at_once() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_config(
            {"apscheduler.timezone": "Mars/Phobos", "apscheduler.nonsense": 1},
            options={
                "job_defaults": {"max_instances": 0, "coalesc": True},
                "executors": {"x": {"type": "nope"}, "y": 5},
            },
        )
    lines = str(caught.value).splitlines()
    assert lines[0] == "6 errors in the configuration:"
    for part in ("Mars/Phobos", "nonsense", "max_instances", "coalesc", '"nope"', "executors['y']"):
        assert sum(part in line for line in lines) == 1, part


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse_config().event_dispatch = "sync"  # type: ignore[misc]
