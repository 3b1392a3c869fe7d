"""goscheduler: run functions at the right time, once, whatever crashes.

The names below are loaded when they are first used, so that ``import goscheduler`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from goscheduler._version import __version__

if TYPE_CHECKING:
    from goscheduler.calls import Call, call
    from goscheduler.executors.context import CurrentRun, RunCancelled, current_run
    from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
    from goscheduler.job import Job
    from goscheduler.jobstores.memory import MemoryJobStore
    from goscheduler.runs.limits import Limit
    from goscheduler.runs.retry import GiveUp, Retry, RetryLater, Snooze, exponential, fixed, linear
    from goscheduler.schedulers.asyncio import AsyncIOScheduler
    from goscheduler.schedulers.background import BackgroundScheduler
    from goscheduler.schedulers.blocking import BlockingScheduler
    from goscheduler.schedulers.gevent import GeventScheduler
    from goscheduler.schedulers.qt import QtScheduler
    from goscheduler.schedulers.tornado import TornadoScheduler
    from goscheduler.schedulers.twisted import TwistedScheduler
    from goscheduler.tasks import task
    from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
    from goscheduler.triggers.combining import AndTrigger, OrTrigger
    from goscheduler.triggers.cron import CronTrigger
    from goscheduler.triggers.date import DateTrigger
    from goscheduler.triggers.every import every
    from goscheduler.triggers.interval import IntervalTrigger
    from goscheduler.triggers.rrule import RRuleTrigger

__all__ = [
    "AndTrigger",
    "AsyncIOScheduler",
    "BackgroundScheduler",
    "BlockingScheduler",
    "CalendarIntervalTrigger",
    "Call",
    "CronTrigger",
    "CurrentRun",
    "DateTrigger",
    "GeventScheduler",
    "GiveUp",
    "IntervalTrigger",
    "Job",
    "Limit",
    "MemoryJobStore",
    "OrTrigger",
    "ProcessPoolExecutor",
    "QtScheduler",
    "RRuleTrigger",
    "Retry",
    "RetryLater",
    "RunCancelled",
    "Snooze",
    "ThreadPoolExecutor",
    "TornadoScheduler",
    "TwistedScheduler",
    "__version__",
    "call",
    "current_run",
    "every",
    "exponential",
    "fixed",
    "linear",
    "release",
    "task",
    "version",
    "version_info",
]

version = release = __version__
version_info = tuple(int(part) for part in __version__.split("."))

_HOMES = {
    "AndTrigger": "triggers.combining",
    "AsyncIOScheduler": "schedulers.asyncio",
    "BackgroundScheduler": "schedulers.background",
    "BlockingScheduler": "schedulers.blocking",
    "Call": "calls",
    "CalendarIntervalTrigger": "triggers.calendarinterval",
    "CronTrigger": "triggers.cron",
    "CurrentRun": "executors.context",
    "DateTrigger": "triggers.date",
    "GeventScheduler": "schedulers.gevent",
    "IntervalTrigger": "triggers.interval",
    "Job": "job",
    "Limit": "runs.limits",
    "MemoryJobStore": "jobstores.memory",
    "OrTrigger": "triggers.combining",
    "ProcessPoolExecutor": "executors.pool",
    "QtScheduler": "schedulers.qt",
    "RRuleTrigger": "triggers.rrule",
    "RunCancelled": "executors.context",
    "ThreadPoolExecutor": "executors.pool",
    "TornadoScheduler": "schedulers.tornado",
    "TwistedScheduler": "schedulers.twisted",
    "linear": "runs.retry",
    "fixed": "runs.retry",
    "every": "triggers.every",
    "exponential": "runs.retry",
    "GiveUp": "runs.retry",
    "Snooze": "runs.retry",
    "RetryLater": "runs.retry",
    "Retry": "runs.retry",
    "call": "calls",
    "current_run": "executors.context",
    "task": "tasks",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
