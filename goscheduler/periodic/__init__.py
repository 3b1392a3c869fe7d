"""Schedules declared in code: a registry, and the difference between it and what a job store has.

::

    registry = ScheduleRegistry()
    registry.register(Schedule(id="cleanup_hourly", cron="0 * * * *", job="cleanup_old_data"))
    scheduler.sync(registry)

What a firing does is to call the task ``job`` here or, with one of :mod:`goscheduler.periodic.dispatch`, to put it into
the queue of Celery, RQ, Dramatiq or anything else that can be called.
"""

from __future__ import annotations

from goscheduler.periodic._diff import FieldChange, ScheduleChange, ScheduleDiff, SyncPlan
from goscheduler.periodic._registry import ScheduleRegistry
from goscheduler.periodic._schedule import Schedule
from goscheduler.periodic._state import ListedSchedule, ScheduleState, list_schedules
from goscheduler.periodic._sync import diff_schedules
from goscheduler.periodic.dispatch import CeleryDispatch, Dispatch, DramatiqDispatch, RQDispatch

__all__ = [
    "CeleryDispatch",
    "Dispatch",
    "DramatiqDispatch",
    "FieldChange",
    "ListedSchedule",
    "RQDispatch",
    "Schedule",
    "ScheduleChange",
    "ScheduleDiff",
    "ScheduleRegistry",
    "ScheduleState",
    "SyncPlan",
    "diff_schedules",
    "list_schedules",
]
