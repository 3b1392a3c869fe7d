"""The executor port: takes runs, reports outcomes, never raises.

An executor of our own implements :meth:`BaseExecutor.submit` and :meth:`BaseExecutor.room`. One that was written for
APScheduler 3 implements ``submit_job(job, run_times)`` or ``_do_submit_job(job, run_times)`` and calls
``_run_job_success`` or ``_run_job_error``; the base class translates between the two.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.errors import MaxInstancesReachedError
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from goscheduler.executors._log import log_start
from goscheduler.executors.call import call, cancelled, execute, execute_coroutine, failed, judged, missed, snoozed
from goscheduler.executors.context import (
    attempt_key,
    cancel_reason,
    clear_cancel,
    kept_back,
    mark_given_up,
    tell_to_end,
    unmark_given_up,
)
from goscheduler.logs import guarded_logger
from goscheduler.runs.model import Outcome, OutcomeKind, Run, Source

if TYPE_CHECKING:
    from goscheduler.executors.around import Around
    from goscheduler.job import Job

__all__ = ["BaseExecutor", "ExecutorHost", "MaxInstancesReachedError", "run_coroutine_job", "run_job", "stop"]

NOT_STARTED = "its job was removed before the run was started"

#: How many runs an executor that cannot tell its capacity is given at a time.
UNKNOWN_ROOM = 1000


class ExecutorHost(Protocol):
    """The methods of a scheduler that its executors may call."""

    @property
    def clock(self) -> Clock: ...

    def may_start(self, run: Run) -> bool:
        """Tell whether a run that was taken may still be started; false once its job was removed or its lease lost.

        Asked at the moment of the start: if the answer is true, the listeners hear of that.
        """
        ...

    def report(self, run: Run, outcome: Outcome) -> None:
        """Take the outcome of a run. Never blocks, never raises; callable from any thread."""
        ...

    def _create_lock(self) -> AbstractContextManager[Any]: ...


class _Taken(NamedTuple):
    """A run that an executor in the manner of APScheduler 3 has and has not reported."""

    run: Run
    run_time: datetime
    """The time under which that executor knows it."""
    started_at: datetime
    begun: float

    @property
    def stand_in(self) -> Run:
        """The run that :func:`run_job` makes of it."""
        return _run_for(self.run.job, self.run_time)


class BaseExecutor:
    """Base class of executors: accepts runs and reports their outcomes."""

    grace_seconds = 5.0
    """How long a run may go on after :meth:`cancel`; then the scheduler calls :meth:`give_up`."""

    in_other_processes: bool = False
    """Whether the functions of jobs are called in other processes, to which only what has a name can go."""

    _scheduler: ExecutorHost | None = None
    _alias = ""
    _lock: AbstractContextManager[Any] | None = None
    """For subclasses, made by the scheduler at the start: an executor that is not started can be copied."""
    _logger = guarded_logger("goscheduler.executors")
    _submit_as_a_run: ClassVar[Callable[..., None] | None] = None
    """The ``submit`` of a base class, below methods of APScheduler 3 that a subclass has put over it."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Have runs go by way of the methods of APScheduler 3 where a class overrides these."""
        super().__init_subclass__(**options)
        if "submit" in vars(cls):
            cls._submit_as_a_run = cls.submit
        elif "submit_job" in vars(cls) or "_do_submit_job" in vars(cls):
            cls.submit = BaseExecutor.submit  # type: ignore[method-assign]

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        """Get ready. Called by the scheduler when it starts or when the executor is added; again after a restart."""
        self._scheduler = self._host = scheduler
        self._alias = alias
        self._lock = scheduler._create_lock()
        self._logger = guarded_logger(f"goscheduler.executors.{alias}")
        self._taken: dict[str, list[_Taken]] = {}
        self._running: dict[str, Run] = {}

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Stop taking runs. With ``wait``, finish what was taken, for at most ``timeout`` seconds.

        What was taken and not started in the end is reported as snoozed, so that it goes back to the store.
        """

    def submit(self, run: Run) -> None:
        """Take a run, and report its outcome to the scheduler once, now or later."""
        host = self._host
        if not host.may_start(run):  # the moment of its start, as far as such an executor lets us know
            self._report(run, _not_started(run))
            return
        # A function that checks the grace time itself would call every retry too late, going by the fire time.
        run_time = run.scheduled_at if run.source is Source.SCHEDULE else run.due_at
        taken = _Taken(run, run_time, host.clock.now(), host.clock.monotonic())
        with self._guard:
            self._taken.setdefault(run.job.id, []).append(taken)
        try:
            self.submit_job(run.job, [run_time])
        except MaxInstancesReachedError as error:
            if self._let_go(taken):
                self._report(run, Outcome(OutcomeKind.SKIPPED, reason=str(error)))
        except Exception as error:
            if self._let_go(taken):
                self._refuse(run, error)

    def room(self) -> int:
        """Return how many more runs it makes sense to hand over now."""
        return UNKNOWN_ROOM

    def live(self) -> int | None:
        """Return how many runs it has, queued or running; None if it cannot tell."""
        return None

    def cancel(self, run: Run, reason: str) -> bool:
        """Ask a run to end soon, and return whether it was being run here. Must not block.

        One that was taken and not started needs nothing: it is refused when it is about to start. This method tells
        the run by way of ``current_run()``.
        """
        with self._guard:
            seen = self._seen_by_job(run)
            for each in seen:
                tell_to_end(each.id, reason)
            if not self._seen_by_job(run):
                clear_cancel(run.id)  # over by now, and may have been forgotten already
        return bool(seen)

    def let_go(self, run: Run, reason: str) -> bool:
        """Do what :meth:`cancel` does, for a run that may be another scheduler's by now.

        An executor whose work outlives this process leaves the work alone, for the scheduler that gets the run next.
        """
        return self.cancel(run, reason)

    def give_up(self, run: Run) -> None:
        """Wait no longer for a run that was asked to end and goes on, and give its room back. Must not block.

        If it ends one day it is reported as any other; the scheduler takes note and does no more.
        """
        with self._guard:
            for each in self._seen_by_job(run):
                mark_given_up(each)
                if each is run and self._running.pop(run.id, None) is None:
                    unmark_given_up(run)  # it ended in this very moment

    def submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        """Start running ``job``. For executors in the manner of APScheduler 3 to override; ``run_times`` has one time.

        It is called where a subclass overrides it or :meth:`_do_submit_job`.
        """
        self._do_submit_job(job, run_times)

    def _do_submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        """Start running ``job``, which :meth:`submit_job` was given."""
        if self._submit_as_a_run is None:
            raise NotImplementedError(f"{type(self).__name__} has neither submit() nor _do_submit_job()")
        for run_time in run_times:
            taken = self._find(job.id, run_time)
            if taken is not None:
                self._submit_as_a_run(taken.run)
                self._let_go(taken)

    def _run_job_success(self, job_id: str, events: Sequence[JobExecutionEvent]) -> None:
        """Report the runs of ``job_id`` that ``events`` tell of, as :func:`run_job` returned them."""
        for event in events:
            taken = self._take(job_id, event.scheduled_run_time)
            if taken is not None:
                self._report(taken.run, self._timed(taken, _outcome_of(event)))
        if not events:
            taken = self._take(job_id)
            if taken is not None:
                self._report(taken.run, self._timed(taken, Outcome(OutcomeKind.SUCCEEDED)))

    def _run_job_error(self, job_id: str, exc: BaseException, traceback: TracebackType | None = None) -> None:
        """Report that a run of ``job_id`` could not be run, or that its outcome was lost on the way."""
        # Not known which one; an executor that calls this while it is handed a run means that run, the newest.
        taken = self._take(job_id, newest=True)
        if taken is not None:
            error = exc if traceback is None else exc.with_traceback(traceback)
            self._report(taken.run, self._timed(taken, failed(error)))

    def _attempt(self, run: Run) -> Outcome:
        """Return how the run ended, having run it here and now."""
        running = self._running
        running[run.id] = run
        try:
            return self._execute(run)
        finally:
            if running.pop(run.id, None) is None:
                unmark_given_up(run)

    def _execute(self, run: Run) -> Outcome:
        return self._begin(run) or call(run, self._host.clock, None, self._arounds())

    def _arounds(self) -> tuple[Around, ...]:
        """Return what encloses attempts; a scheduler that somebody else wrote need not know of that."""
        return getattr(self._host, "arounds", ())

    def _begin(self, run: Run) -> Outcome | None:
        """Return the outcome of a run that is not to be started after all, or None, having told of the start."""
        too_late = missed(run, self._host.clock)
        if too_late is not None:
            return too_late
        if not self._host.may_start(run):
            return _not_started(run)
        log_start(self._logger, run)
        return None

    def _put_back(self, run: Run, reason: str) -> None:
        self._report(run, snoozed(reason))

    def _report(self, run: Run, outcome: Outcome) -> None:
        self._host.report(run, outcome)

    def _refuse(self, run: Run, error: BaseException) -> None:
        self._host.report(run, failed(error, reason=f'could not be submitted to executor "{self._alias}"'))

    def _take(self, job_id: str, run_time: datetime | None = None, *, newest: bool = False) -> _Taken | None:
        """Return the run that is meant and forget it; the oldest of the job if no time is given or none fits."""
        with self._guard:
            taken = self._find(job_id, run_time, newest=newest)
            if taken is None:
                self._logger.warning(
                    'Executor "%s" reported job "%s" more often than it was given runs of it; the report is ignored',
                    self._alias, job_id, extra={"job_id": job_id},
                )  # fmt: skip
            else:
                self._forget(taken)
            return taken

    def _find(self, job_id: str, run_time: datetime | None, *, newest: bool = False) -> _Taken | None:
        candidates = self._taken.get(job_id, [])
        fitting = [taken for taken in candidates if taken.run_time == run_time] or candidates
        return fitting[-1 if newest else 0] if fitting else None

    def _seen_by_job(self, run: Run) -> list[Run]:
        """Return the run as its job sees it, if it is here; below :func:`run_job` that is another.

        Called with the guard held.
        """
        key = attempt_key(run)
        running = self._running.get(run.id)
        if running is not None:
            return [run] if attempt_key(running) == key else []
        return [each.stand_in for each in self._taken.get(run.job.id, []) if attempt_key(each.run) == key]

    def _let_go(self, taken: _Taken) -> bool:
        """Forget a run; False if it has been reported already."""
        with self._guard:
            known = any(other is taken for other in self._taken.get(taken.run.job.id, []))
            if known:
                self._forget(taken)
            return known

    def _forget(self, taken: _Taken) -> None:
        clear_cancel(taken.stand_in.id)
        unmark_given_up(taken.stand_in)
        job_id = taken.run.job.id
        rest = [other for other in self._taken[job_id] if other is not taken]
        if rest:
            self._taken[job_id] = rest
        else:
            del self._taken[job_id]

    def _timed(self, taken: _Taken, outcome: Outcome) -> Outcome:
        """Return the outcome with times as seen from outside: such an executor does not tell when it started."""
        if outcome.kind is OutcomeKind.MISSED:
            lateness = taken.started_at - taken.run_time
            return outcome._replace(reason=f"missed by {lateness}")
        return outcome._replace(started_at=taken.started_at, seconds=self._host.clock.monotonic() - taken.begun)

    @cached_property
    def _host(self) -> ExecutorHost:
        if self._scheduler is None:
            raise RuntimeError(f"{type(self).__name__} has not been started")
        return self._scheduler

    @property
    def _guard(self) -> AbstractContextManager[Any]:
        if self._lock is None:
            raise RuntimeError(f"{type(self).__name__} has not been started")
        return self._lock


def stop(executor: BaseExecutor, wait: bool = True, timeout: float | None = None) -> None:
    """Shut ``executor`` down within ``timeout`` seconds, also one whose ``shutdown`` does not know a limit.

    Raises what its ``shutdown`` raises. Runs that such an executor still has are reported when they end.
    """
    if _knows_timeout(executor):
        executor.shutdown(wait, timeout=timeout)
    elif not wait or timeout is None:
        executor.shutdown(wait)
    else:
        _stop_within(executor, timeout)


def _knows_timeout(executor: BaseExecutor) -> bool:
    parameters = inspect.signature(executor.shutdown).parameters
    return "timeout" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _stop_within(executor: BaseExecutor, timeout: float) -> None:
    errors: list[BaseException] = []

    def shut_down() -> None:
        try:
            executor.shutdown(True)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=shut_down, name="goscheduler-stop-executor", daemon=True)
    thread.start()
    thread.join(timeout)
    if errors:
        raise errors[0]


def run_job(
    job: Job, jobstore_alias: str | None, run_times: Sequence[datetime], logger_name: str
) -> list[JobExecutionEvent]:
    """Run ``job`` once for each of ``run_times`` and return how each ended; for executors of the user's own."""
    logger = guarded_logger(logger_name)
    events = []
    for run in _runs_for(job, run_times):
        log_start(logger, run)
        events.append(_event_of(run, jobstore_alias, execute(run, SYSTEM_CLOCK)))
    return events


async def run_coroutine_job(
    job: Job, jobstore_alias: str | None, run_times: Sequence[datetime], logger_name: str
) -> list[JobExecutionEvent]:
    """Do what :func:`run_job` does, for a coroutine function on the running event loop."""
    logger = guarded_logger(logger_name)
    events = []
    for run in _runs_for(job, run_times):
        log_start(logger, run)
        events.append(_event_of(run, jobstore_alias, await execute_coroutine(run, SYSTEM_CLOCK)))
    return events


def _runs_for(job: Job, run_times: Sequence[datetime]) -> list[Run]:
    return [_run_for(job, run_time) for run_time in run_times]


def _run_for(job: Job, run_time: datetime) -> Run:
    return Run(f"{job.id}@{run_time.isoformat()}", job, run_time, run_time)


def _event_of(run: Run, jobstore_alias: str | None, outcome: Outcome) -> JobExecutionEvent:
    job_id, run_time = run.job.id, run.scheduled_at
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return JobExecutionEvent(EVENT_JOB_EXECUTED, job_id, jobstore_alias, run_time, outcome.result)
    if outcome.kind is OutcomeKind.MISSED:
        return JobExecutionEvent(EVENT_JOB_MISSED, job_id, jobstore_alias, run_time)
    error = outcome.error or RuntimeError(f"the run was {outcome.kind.value}: {outcome.reason}")
    return JobExecutionEvent(
        EVENT_JOB_ERROR, job_id, jobstore_alias, run_time, exception=error, traceback=outcome.traceback
    )


def _not_started(run: Run) -> Outcome:
    """Return the outcome of a run that was taken and may not be started any more."""
    lost = kept_back(run)
    return cancelled(cancel_reason(run.id) or NOT_STARTED) if lost is None else snoozed(lost)


def _outcome_of(event: JobExecutionEvent) -> Outcome:
    if event.code == EVENT_JOB_EXECUTED:
        return Outcome(OutcomeKind.SUCCEEDED, event.retval)
    if event.code == EVENT_JOB_MISSED:
        return Outcome(OutcomeKind.MISSED)
    return judged(event.exception, event.traceback or "")
