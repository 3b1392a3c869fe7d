"""Jobs in Sentry: errors with the job and run that they are of, and a cron monitor for each schedule.

It needs the extra ``sentry``, and ``sentry_sdk.init(…)`` in your program::

    scheduler = BackgroundScheduler(around=["goscheduler.contrib.sentry:scope"])
    SentryCrons(scheduler)

:func:`scope` works where the function is called, in child processes as well. :class:`SentryCrons` goes by events, in
the process of the scheduler, so that a check-in costs a run nothing. It hands check-ins to the SDK, which sends them on
a thread of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal
from uuid import NAMESPACE_OID, uuid5

from goscheduler.contrib._extras import needs
from goscheduler.contrib._monitor import monitor_config, slug_of
from goscheduler.errors import InvalidArgument, shown
from goscheduler.events import EventCode
from goscheduler.executors.context import CurrentRun, RunCancelled
from goscheduler.runs.retry import RetryLater, Snooze

with needs("sentry_sdk", "sentry"):
    import sentry_sdk
    from sentry_sdk.crons import capture_checkin
    from sentry_sdk.integrations.logging import ignore_logger

if TYPE_CHECKING:
    from goscheduler.events import JobExecutionEvent, JobStartEvent
    from goscheduler.job import Job
    from goscheduler.schedulers.base import BaseScheduler

#: A job says so from inside; it is no error.
_WISHES = (Snooze, RetryLater, RunCancelled)
_STATUS = {
    EventCode.JOB_STARTED: "in_progress",
    EventCode.JOB_EXECUTED: "ok",
    EventCode.JOB_ERROR: "error",
    EventCode.JOB_CANCELLED: "error",
    EventCode.JOB_MISSED: "error",
}
_CHANGES = EventCode.JOB_MODIFIED | EventCode.JOB_REMOVED | EventCode.JOB_ADDED
#: For how many seconds it is believed that a job is as it was, which another process can change.
BELIEVED_FOR = 300.0
#: Of so many jobs at most; jobs of other processes end without a word here.
BELIEVED_OF = 10_000

# The same error would come a second time, as the log line that reports it.
ignore_logger("goscheduler.executors.*")


@contextmanager
def scope(run: CurrentRun) -> Iterator[None]:
    """Give a run a scope of its own, with tags, and report the error that it raises."""
    with sentry_sdk.isolation_scope() as own:
        own.set_transaction_name(run.job_name, source="task")
        own.set_tag("goscheduler.job_id", run.job_id)
        own.set_tag("goscheduler.task", run.task or "")
        own.set_context("goscheduler", _facts(run))
        try:
            yield
        except _WISHES:
            raise
        except BaseException as error:
            own.capture_exception(error)
            raise


def _facts(run: CurrentRun) -> dict[str, Any]:
    return {"run_id": run.run_id, "attempt": run.attempt, "scheduled_at": run.scheduled_at.isoformat()}


class SentryCrons:
    """Sends a check-in for each attempt at a run, and makes monitors of the schedules of jobs.

    ``monitors`` chooses jobs: "all" whose schedule Sentry can express, or those that have one of these tags, whatever
    their schedule; if it cannot be expressed, make the monitor by hand, under the id of the job.
    """

    def __init__(self, scheduler: BaseScheduler, monitors: Literal["all"] | Collection[str] = "all") -> None:
        """Begin to listen.

        :raises InvalidArgument: if ``monitors`` is neither "all" nor a collection of tags
        """
        if monitors != "all" and (isinstance(monitors, str) or not isinstance(monitors, Collection)):
            raise InvalidArgument(
                f"monitors must be 'all' or a collection of tags, got {shown(monitors)}",
                field="monitors",
                value=monitors,
            )
        self._scheduler = scheduler
        self._tags = None if monitors == "all" else frozenset(monitors)
        self._configs: dict[str, tuple[float, dict[str, Any] | None]] = {}
        mask = _CHANGES | EventCode.JOB_DEAD_LETTERED
        for code in _STATUS:
            mask |= code
        scheduler.add_listener(self, mask)

    def close(self) -> None:
        """Stop listening."""
        self._scheduler.remove_listener(self)

    def __call__(self, event: Any) -> None:
        code = EventCode(event.code)
        if code & _CHANGES:
            self._configs.pop(event.job_id, None)
        elif code is EventCode.JOB_DEAD_LETTERED:
            self._tell_of_dead_letter(event)
        else:
            self._check_in(event, _STATUS[code])

    def _check_in(self, event: JobStartEvent | JobExecutionEvent, status: str) -> None:
        config = self._config(event)
        if config is None:
            return
        capture_checkin(
            monitor_slug=slug_of(event.job_id),
            check_in_id=uuid5(NAMESPACE_OID, f"{event.run_id}/{event.attempt}").hex,
            status=status,
            duration=getattr(event, "duration", None) or None,
            monitor_config=config or None,  # type: ignore[arg-type]
        )

    def _config(self, event: JobStartEvent | JobExecutionEvent) -> dict[str, Any] | None:
        """Return the configuration of the job's monitor, empty if it cannot be expressed; None for no monitor."""
        read_at, config = self._configs.get(event.job_id, (None, None))
        now = self._scheduler.clock.monotonic()
        if read_at is None or now - read_at > BELIEVED_FOR:
            job = self._scheduler.get_job(event.job_id, event.jobstore)
            if job is None:  # nothing is kept of a job that runs once: its end is the last that is heard of it
                return None
            config = self._config_of(job)
            while len(self._configs) >= BELIEVED_OF:
                del self._configs[next(iter(self._configs))]
            self._configs[event.job_id] = (now, config)
        return config

    def _config_of(self, job: Job) -> dict[str, Any] | None:
        if self._tags is not None and not self._tags.intersection(job.tags):
            return None
        found = monitor_config(job, self._scheduler.clock.now())
        return found if found is not None or self._tags is None else {}

    def _tell_of_dead_letter(self, event: JobExecutionEvent) -> None:
        with sentry_sdk.isolation_scope() as own:
            own.set_tag("goscheduler.job_id", event.job_id)
            own.set_tag("goscheduler.task", event.task or "")
            own.set_context("goscheduler", {"run_id": event.run_id, "attempt": event.attempt})
            own.fingerprint = ["goscheduler-dead-letter", event.job_id]
            sentry_sdk.capture_message(f'A run of job "{event.job_id}" is a dead letter', level="error")
