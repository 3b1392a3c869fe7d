"""Runs user code and says how it ended.

:func:`execute` and :func:`execute_coroutine` return an outcome and never raise, whatever the user's function does.
Each call gets a context of its own, so that context variables set by one job are not seen by the next one on the
same thread.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from goscheduler.executors import enclosure
from goscheduler.executors.around import begin_all
from goscheduler.executors.context import CurrentRun, RunCancelled, cancel_reason, enter_run
from goscheduler.runs.model import Outcome, OutcomeKind, Source, unchecked_tuple
from goscheduler.runs.retry import Snooze

if TYPE_CHECKING:
    from goscheduler.clock import Clock
    from goscheduler.executors.around import Around
    from goscheduler.job import Job
    from goscheduler.runs.model import Run

MAX_TRACEBACK = 8192
MAX_FRAMES = 100
MAX_CHAIN = 20

_OUR_FILES = (__file__, enclosure.__file__)

# Looking a member up on its Enum costs as much as a function call.
_SUCCEEDED = OutcomeKind.SUCCEEDED
_SCHEDULE = Source.SCHEDULE


def execute(run: Run, clock: Clock) -> Outcome:
    """Return how the run ended, having called its function unless it came too late.

    A coroutine that the function returns is run to its end on an event loop of its own.
    """
    return missed(run, clock) or call(run, clock)


async def execute_coroutine(run: Run, clock: Clock) -> Outcome:
    """Return how the run ended, having awaited its function on the running loop unless it came too late."""
    return missed(run, clock) or await call_coroutine(run, clock)


async def call_coroutine(run: Run, clock: Clock, arounds: Sequence[Around] = ()) -> Outcome:
    """Return how the run's function ended, awaited on the running loop.

    A cancelled task gives the outcome "cancelled"; the cancellation ends here.
    """
    started_at = clock.now()
    enter_run(run, started_at)
    if not arounds:
        return await _awaited(run, started_at, clock)
    try:
        end = begin_all(arounds, run, started_at)
        outcome = await _awaited(run, started_at, clock, arounds)
        end(outcome)
    except BaseException as error:
        return failed(error, started_at)
    return outcome


async def _awaited(run: Run, started_at: datetime, clock: Clock, arounds: Sequence[Around] = ()) -> Outcome:
    from asyncio import CancelledError  # imported late: heavy, and most schedulers have no coroutine

    begun = clock.monotonic()
    try:
        if arounds:
            result = await _await_within(arounds, CurrentRun(run, started_at), run.job)
        else:
            result = run.job.func(*run.job.args, **run.job.kwargs)
            if isinstance(result, Awaitable):
                result = await result
    except CancelledError:
        return cancelled(cancel_reason(run.id) or "the task was cancelled", started_at, clock.monotonic() - begun)
    except BaseException as error:
        return failed(error, started_at, clock.monotonic() - begun)
    return unchecked_tuple(Outcome, (_SUCCEEDED, result, None, "", started_at, clock.monotonic() - begun, ""))


async def _await_within(arounds: Sequence[Around], run: CurrentRun, job: Job) -> object:
    """Return what the function returns, with what encloses it entered from the outside in."""
    if not arounds:
        result = job.func(*job.args, **job.kwargs)
        return await result if isinstance(result, Awaitable) else result
    layer = arounds[0].enclose(run)
    if layer is None:
        return await _await_within(arounds[1:], run, job)
    async with layer:
        return await _await_within(arounds[1:], run, job)


def missed(run: Run, clock: Clock) -> Outcome | None:
    """Return the outcome "missed" if the run is later by now than its job's grace time allows, else None.

    Only scheduled runs can be too late: whoever asks for a run by hand, or for a retry, wants it whenever it comes.
    """
    grace = run.job.misfire_grace_time
    if grace is None or run.source is not _SCHEDULE:
        return None
    lateness = clock.now() - run.due_at  # the fire time, unless the run was put off
    if lateness.total_seconds() <= grace:
        return None
    return Outcome(OutcomeKind.MISSED, reason=f"missed by {lateness}")


def call(
    run: Run, clock: Clock, started_at: datetime | None = None, arounds: Sequence[Around] = ()
) -> Outcome:
    """Return how the run's function ended, enclosed by ``arounds``; its start may have been noted before."""
    function = partial(_enclosed, arounds) if arounds else _call
    return copy_context().run(function, run, started_at or clock.now(), clock)


def _enclosed(arounds: Sequence[Around], run: Run, started_at: datetime, clock: Clock) -> Outcome:
    enter_run(run, started_at)
    try:
        end = begin_all(arounds, run, started_at)
        outcome = _call(run, started_at, clock, arounds)
        end(outcome)
    except BaseException as error:
        return failed(error, started_at)
    return outcome


def _call(run: Run, started_at: datetime, clock: Clock, arounds: Sequence[Around] = ()) -> Outcome:
    enter_run(run, started_at)
    begun = clock.monotonic()
    try:
        job = run.job
        if arounds:
            result = _call_within(arounds, CurrentRun(run, started_at), job)
        else:
            result = job.func(*job.args, **job.kwargs)
        if result is not None and isinstance(result, Coroutine):
            result = _run_to_end(result)
    except BaseException as error:
        return failed(error, started_at, clock.monotonic() - begun)
    return unchecked_tuple(Outcome, (_SUCCEEDED, result, None, "", started_at, clock.monotonic() - begun, ""))


def _call_within(arounds: Sequence[Around], run: CurrentRun, job: Job) -> object:
    """Return what the function returns, with what encloses it entered from the outside in."""
    if not arounds:
        result = job.func(*job.args, **job.kwargs)
        return _run_to_end(result) if isinstance(result, Coroutine) else result
    layer = arounds[0].enclose(run)
    if layer is None:
        return _call_within(arounds[1:], run, job)
    with layer:
        return _call_within(arounds[1:], run, job)


def _run_to_end(coroutine: Coroutine[Any, Any, object]) -> object:
    import asyncio

    try:
        return asyncio.run(coroutine)
    finally:
        coroutine.close()  # where a loop runs already, asyncio.run refuses and leaves the coroutine as it is


def failed(error: BaseException, started_at: datetime | None = None, seconds: float = 0.0, reason: str = "") -> Outcome:
    """Return the outcome "failed", or "snoozed" if the job asked for that, or "cancelled" if it was and gave in.

    It has the frames of ``error`` as text; their local variables are let go. Without that the exception would keep
    alive everything that the job had in its hands.
    """
    text = format_frames(_forget_earlier_raises(error.__traceback__))
    for link in _chain(error):
        traceback.clear_frames(link.__traceback__)
    return judged(error, text, started_at, seconds, reason)


def judged(
    error: BaseException | None, text: str, started_at: datetime | None = None, seconds: float = 0.0, reason: str = ""
) -> Outcome:
    """Return what it means that a job raised ``error``, whose frames are ``text``."""
    if isinstance(error, Snooze):
        return Outcome(OutcomeKind.SNOOZED, None, error, "", started_at, seconds, _reason_of(error))
    if isinstance(error, RunCancelled):
        return Outcome(OutcomeKind.CANCELLED, None, error, text, started_at, seconds, _reason_of(error))
    return Outcome(OutcomeKind.FAILED, None, error, text, started_at, seconds, reason)


def _reason_of(error: Snooze | RunCancelled) -> str:
    reason = getattr(error, "reason", "")  # a subclass may have forgotten it
    if isinstance(reason, str) and reason:
        return reason
    return "the job snoozed" if isinstance(error, Snooze) else "the job cancelled itself"


def cancelled(reason: str, started_at: datetime | None = None, seconds: float = 0.0) -> Outcome:
    """Return the outcome "cancelled"."""
    return Outcome(OutcomeKind.CANCELLED, started_at=started_at, seconds=seconds, reason=reason)


def snoozed(reason: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a run that goes back to the store untouched, to come again after so many seconds."""
    return Outcome(OutcomeKind.SNOOZED, error=Snooze(seconds, reason) if seconds else None, reason=reason)


def format_frames(frames: TracebackType | None) -> str:
    """Return the formatted frames, cut in the middle if they are many or long."""
    try:
        text = "".join(traceback.format_tb(frames, limit=-MAX_FRAMES))
    except Exception as error:  # source lines come from the user's own import hooks
        return f"  <frames could not be formatted: {type(error).__name__}>\n"
    return shortened(text, MAX_TRACEBACK)


def shortened(text: str, limit: int) -> str:
    """Return ``text`` with its middle replaced by a note if it is longer than ``limit``."""
    if len(text) <= limit:
        return text
    note = f"\n  ... {len(text) - limit} characters left out ...\n"
    tail = limit // 4 * 3
    return text[: limit - tail] + note + text[-tail:]


def _forget_earlier_raises(frames: TracebackType | None) -> TracebackType | None:
    """Cut the frames where an earlier run begins, and return those of the user's code.

    An exception object that is raised again and again keeps the frames of all its raises, the newest first. One of our
    own stands before each.
    """
    while frames is not None and _is_our_own(frames):
        frames = frames.tb_next
    last = frames
    while last is not None and last.tb_next is not None:
        if _is_our_own(last.tb_next):
            last.tb_next = None
        last = last.tb_next
    return frames


def _is_our_own(frames: TracebackType) -> bool:
    return frames.tb_frame.f_code.co_filename in _OUR_FILES


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(MAX_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__
