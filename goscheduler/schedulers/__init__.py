"""Schedulers: the public face of the engine."""

from goscheduler.errors import SchedulerAlreadyRunningError, SchedulerNotRunningError

__all__ = ["SchedulerAlreadyRunningError", "SchedulerNotRunningError"]
