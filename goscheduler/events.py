"""What a scheduler tells its listeners.

Codes are bits, so that a listener can ask for several with ``|``. The first seventeen have the values of APScheduler 3,
and :data:`EVENT_ALL` is those seventeen; :data:`EVENT_ANY`, the default of ``add_listener``, is every event there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import IntFlag


class EventCode(IntFlag):
    """The kinds of events."""

    SCHEDULER_STARTED = 1 << 0
    SCHEDULER_SHUTDOWN = 1 << 1
    SCHEDULER_PAUSED = 1 << 2
    SCHEDULER_RESUMED = 1 << 3
    EXECUTOR_ADDED = 1 << 4
    EXECUTOR_REMOVED = 1 << 5
    JOBSTORE_ADDED = 1 << 6
    JOBSTORE_REMOVED = 1 << 7
    ALL_JOBS_REMOVED = 1 << 8
    JOB_ADDED = 1 << 9
    JOB_REMOVED = 1 << 10
    JOB_MODIFIED = 1 << 11
    JOB_EXECUTED = 1 << 12
    JOB_ERROR = 1 << 13
    JOB_MISSED = 1 << 14
    JOB_SUBMITTED = 1 << 15
    JOB_MAX_INSTANCES = 1 << 16
    JOB_SUSPENDED = 1 << 17
    """A job cannot be run for now; the event says why. It is kept and taken up again when the reason is gone."""
    JOB_RELEASED = 1 << 18
    """A suspended job can be run again."""
    JOB_RETRIED = 1 << 19
    """An attempt failed and another one follows."""
    JOB_DEAD_LETTERED = 1 << 20
    """The last attempt failed; the run waits among the dead letters."""
    JOB_CANCELLED = 1 << 21
    """A run was cancelled before it ended."""
    LEASE_LOST = 1 << 22
    """A run ended here after it had been handed to somebody else; its result was discarded."""
    SCHEDULER_DEGRADED = 1 << 23
    """A job store does not answer; the scheduler goes on and keeps trying."""
    SCHEDULER_RECOVERED = 1 << 24
    """The job store answers again."""
    JOB_STARTED = 1 << 25
    """An attempt begins: a worker has it."""
    WORKER_LOST = 1 << 26
    """The worker of an engine that ran an attempt is gone; the job's ``on_crash`` says what follows."""


EVENT_SCHEDULER_STARTED = EVENT_SCHEDULER_START = EventCode.SCHEDULER_STARTED
EVENT_SCHEDULER_SHUTDOWN = EventCode.SCHEDULER_SHUTDOWN
EVENT_SCHEDULER_PAUSED = EventCode.SCHEDULER_PAUSED
EVENT_SCHEDULER_RESUMED = EventCode.SCHEDULER_RESUMED
EVENT_EXECUTOR_ADDED = EventCode.EXECUTOR_ADDED
EVENT_EXECUTOR_REMOVED = EventCode.EXECUTOR_REMOVED
EVENT_JOBSTORE_ADDED = EventCode.JOBSTORE_ADDED
EVENT_JOBSTORE_REMOVED = EventCode.JOBSTORE_REMOVED
EVENT_ALL_JOBS_REMOVED = EventCode.ALL_JOBS_REMOVED
EVENT_JOB_ADDED = EventCode.JOB_ADDED
EVENT_JOB_REMOVED = EventCode.JOB_REMOVED
EVENT_JOB_MODIFIED = EventCode.JOB_MODIFIED
EVENT_JOB_EXECUTED = EventCode.JOB_EXECUTED
EVENT_JOB_ERROR = EventCode.JOB_ERROR
EVENT_JOB_MISSED = EventCode.JOB_MISSED
EVENT_JOB_SUBMITTED = EventCode.JOB_SUBMITTED
EVENT_JOB_MAX_INSTANCES = EventCode.JOB_MAX_INSTANCES
EVENT_JOB_SUSPENDED = EventCode.JOB_SUSPENDED
EVENT_JOB_RELEASED = EventCode.JOB_RELEASED
EVENT_JOB_RETRIED = EventCode.JOB_RETRIED
EVENT_JOB_DEAD_LETTERED = EventCode.JOB_DEAD_LETTERED
EVENT_JOB_CANCELLED = EventCode.JOB_CANCELLED
EVENT_LEASE_LOST = EventCode.LEASE_LOST
EVENT_SCHEDULER_DEGRADED = EventCode.SCHEDULER_DEGRADED
EVENT_SCHEDULER_RECOVERED = EventCode.SCHEDULER_RECOVERED
EVENT_JOB_STARTED = EventCode.JOB_STARTED
EVENT_WORKER_LOST = EventCode.WORKER_LOST

EVENT_ALL = EventCode((1 << 17) - 1)
EVENT_ANY = EventCode((1 << 27) - 1)


class SchedulerEvent:
    """Something happened to the scheduler itself, or to its executor or job store ``alias``."""

    def __init__(self, code: int, alias: str | None = None) -> None:
        self.code = code
        self.alias = alias

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (code={int(self.code)})>"


class JobEvent(SchedulerEvent):
    """Something happened to the job ``job_id`` in the store ``jobstore``."""

    def __init__(self, code: int, job_id: str, jobstore: str | None) -> None:
        self.code = code
        self.alias = None
        self.job_id = job_id
        self.jobstore = jobstore


class JobSuspensionEvent(JobEvent):
    """A job was suspended or released; ``reason`` says why."""

    def __init__(self, code: int, job_id: str, jobstore: str | None, reason: str) -> None:
        super().__init__(code, job_id, jobstore)
        self.reason = reason


class JobSubmissionEvent(JobEvent):
    """Runs of a job were handed to its executor, or skipped because too many are live."""

    def __init__(
        self, code: int, job_id: str, jobstore: str | None, scheduled_run_times: Sequence[datetime]
    ) -> None:
        super().__init__(code, job_id, jobstore)
        self.scheduled_run_times = list(scheduled_run_times)


class JobStartEvent(JobEvent):
    """An attempt at a run begins, ``lateness`` seconds after its fire time.

    ``task`` is the name of the job's task, or the reference of its function; None if it can only live in memory.
    """

    def __init__(
        self,
        code: int,
        job_id: str,
        jobstore: str | None,
        scheduled_run_time: datetime,
        run_id: str,
        attempt: int,
        task: str | None,
        lateness: float,
    ) -> None:
        super().__init__(code, job_id, jobstore)
        self.scheduled_run_time = scheduled_run_time
        self.run_id = run_id
        self.attempt = attempt
        self.task = task
        self.lateness = lateness


class JobExecutionEvent(JobEvent):
    """An attempt ended. ``traceback`` is text: the formatted frames.

    ``duration`` is how many seconds the function ran, ``lateness`` how many it began after its fire time; both are 0 if
    it was never called. ``task`` is that of :class:`JobStartEvent`.
    """

    def __init__(
        self,
        code: int,
        job_id: str,
        jobstore: str | None,
        scheduled_run_time: datetime,
        retval: object = None,
        exception: BaseException | None = None,
        traceback: str | None = None,
        run_id: str | None = None,
        attempt: int = 1,
        task: str | None = None,
        duration: float = 0.0,
        lateness: float = 0.0,
    ) -> None:
        self.code = code
        self.alias = None
        self.job_id = job_id
        self.jobstore = jobstore
        self.scheduled_run_time = scheduled_run_time
        self.retval = retval
        self.exception = exception
        self.traceback = traceback
        self.run_id = run_id
        self.attempt = attempt
        self.task = task
        self.duration = duration
        self.lateness = lateness
