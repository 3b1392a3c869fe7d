"""A user of APScheduler 3 changes the import root, and every import goes on working."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from rows import each_row

PUBLIC_NAMES = {
    "": "version __version__ version_info release",
    "events": "EVENT_SCHEDULER_STARTED EVENT_SCHEDULER_START EVENT_SCHEDULER_SHUTDOWN EVENT_SCHEDULER_PAUSED "
    "EVENT_SCHEDULER_RESUMED EVENT_EXECUTOR_ADDED EVENT_EXECUTOR_REMOVED EVENT_JOBSTORE_ADDED EVENT_JOBSTORE_REMOVED "
    "EVENT_ALL_JOBS_REMOVED EVENT_JOB_ADDED EVENT_JOB_REMOVED EVENT_JOB_MODIFIED EVENT_JOB_EXECUTED EVENT_JOB_ERROR "
    "EVENT_JOB_MISSED EVENT_JOB_SUBMITTED EVENT_JOB_MAX_INSTANCES EVENT_ALL "
    "SchedulerEvent JobEvent JobSubmissionEvent JobExecutionEvent",
    "job": "Job",
    "schedulers": "SchedulerAlreadyRunningError SchedulerNotRunningError",
    "schedulers.base": "BaseScheduler STATE_STOPPED STATE_RUNNING STATE_PAUSED",
    "schedulers.blocking": "BlockingScheduler",
    "schedulers.background": "BackgroundScheduler",
    "schedulers.asyncio": "AsyncIOScheduler",
    "executors.base": "BaseExecutor MaxInstancesReachedError run_job run_coroutine_job",
    "executors.pool": "BasePoolExecutor ThreadPoolExecutor ProcessPoolExecutor",
    "executors.debug": "DebugExecutor",
    "executors.asyncio": "AsyncIOExecutor",
    "jobstores.base": "BaseJobStore JobLookupError ConflictingIdError TransientJobError",
    "jobstores.memory": "MemoryJobStore",
    "triggers.base": "BaseTrigger",
    "triggers.date": "DateTrigger",
    "triggers.interval": "IntervalTrigger",
    "triggers.calendarinterval": "CalendarIntervalTrigger",
    "triggers.cron": "CronTrigger",
    "triggers.combining": "BaseCombiningTrigger AndTrigger OrTrigger",
    "triggers.cron.fields": "BaseField MonthField WeekField DayOfMonthField DayOfWeekField MIN_VALUES MAX_VALUES "
    "DEFAULT_VALUES",
    "triggers.cron.expressions": "AllExpression RangeExpression MonthRangeExpression WeekdayRangeExpression "
    "WeekdayPositionExpression LastDayOfMonthExpression WEEKDAYS MONTHS",
    "util": "undefined asint asbool astimezone asdate convert_to_datetime datetime_to_utc_timestamp "
    "utc_timestamp_to_datetime timedelta_seconds datetime_ceil datetime_utc_add datetime_repr timezone_repr localize "
    "normalize get_callable_name obj_to_ref ref_to_obj maybe_ref iscoroutinefunction_partial check_callable_args",
}

#: Names that APScheduler's modules merely import, and that people import from there all the same.
ACCIDENTAL_NAMES = {
    "schedulers.background": "BlockingScheduler BaseScheduler",
    "schedulers.blocking": "BaseScheduler",
    "schedulers.asyncio": "BaseScheduler",
    "schedulers.base": "Job BaseTrigger BaseExecutor BaseJobStore ThreadPoolExecutor MemoryJobStore undefined "
    "SchedulerAlreadyRunningError SchedulerNotRunningError SchedulerEvent JobEvent JobSubmissionEvent "
    "ConflictingIdError JobLookupError MaxInstancesReachedError EVENT_ALL EVENT_SCHEDULER_STARTED "
    "EVENT_SCHEDULER_SHUTDOWN EVENT_SCHEDULER_PAUSED EVENT_SCHEDULER_RESUMED EVENT_EXECUTOR_ADDED "
    "EVENT_EXECUTOR_REMOVED EVENT_JOBSTORE_ADDED EVENT_JOBSTORE_REMOVED EVENT_ALL_JOBS_REMOVED EVENT_JOB_ADDED "
    "EVENT_JOB_REMOVED EVENT_JOB_MODIFIED EVENT_JOB_SUBMITTED EVENT_JOB_MAX_INSTANCES",
    "jobstores.memory": "BaseJobStore JobLookupError ConflictingIdError",
    "executors.pool": "BaseExecutor run_job",
    "executors.debug": "BaseExecutor run_job",
    "executors.asyncio": "BaseExecutor run_job run_coroutine_job",
    "triggers.cron": "BaseTrigger BaseField MonthField WeekField DayOfMonthField DayOfWeekField DEFAULT_VALUES",
    "triggers.combining": "BaseTrigger",
}


def _pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(module, name) for module, names in table.items() for name in names.split()]


def _get(root: str, module: str, name: str) -> object:
    return getattr(import_module(f"{root}.{module}".rstrip(".")), name)


@each_row(("module", "name"), _pairs(PUBLIC_NAMES) + _pairs(ACCIDENTAL_NAMES))
def test_a_name_is_found_where_apscheduler_has_it(module: str, name: str) -> None:
    theirs, ours = _get("apscheduler", module, name), _get("goscheduler", module, name)
    assert isinstance(ours, type) == isinstance(theirs, type)
    assert callable(ours) == callable(theirs)


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("schedulers.background:BlockingScheduler", "schedulers.blocking:BlockingScheduler"),
        ("jobstores.memory:JobLookupError", "jobstores.base:JobLookupError"),
        ("jobstores.base:ConflictingIdError", "errors:ConflictingIdError"),
        ("schedulers:SchedulerNotRunningError", "errors:SchedulerNotRunningError"),
        ("executors.base:MaxInstancesReachedError", "errors:MaxInstancesReachedError"),
        (":BackgroundScheduler", "schedulers.background:BackgroundScheduler"),
        (":CronTrigger", "triggers.cron:CronTrigger"),
    ],
)
def test_a_name_means_the_same_wherever_it_is_imported_from(path: str, home: str) -> None:
    assert _get("goscheduler", *path.split(":")) is _get("goscheduler", *home.split(":"))


def test_versions_have_the_shape_of_apschedulers() -> None:
    import goscheduler

    assert goscheduler.version == goscheduler.__version__ == goscheduler.release
    assert ".".join(map(str, goscheduler.version_info)) == goscheduler.version


def test_every_name_of_the_front_door_can_be_imported() -> None:
    import goscheduler

    for name in goscheduler.__all__:
        assert getattr(goscheduler, name) is not None
    assert set(goscheduler.__all__) <= set(dir(goscheduler))


def test_an_unknown_name_of_the_front_door_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="BackgroundSheduler"):
        exec("from goscheduler import BackgroundSheduler")


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import goscheduler, sys; print(sorted(m for m in sys.modules if m.startswith('goscheduler.')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['goscheduler._version']"


def test_the_states_have_the_numbers_of_apscheduler() -> None:
    from goscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED

    assert (STATE_STOPPED, STATE_RUNNING, STATE_PAUSED) == (0, 1, 2)
