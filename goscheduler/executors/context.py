"""The context of a running job: its facts, cancel requests, and progress.

A run is told to end, and tells how far it has got, by way of dictionaries that all runs share, so that a run which does
neither pays nothing for it. Their single operations are atomic; there is no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.runs.model import Progress
from goscheduler.tasks import pass_runs_from

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

#: Longer notes are cut.
MAX_NOTE = 200
#: Of so many runs the progress is kept; more can only be runs that are over and that nobody forgot.
MAX_PROGRESS = 10_000

# A bare pair, because it is written for every run and read by few.
_current: ContextVar[tuple[Run, datetime]] = ContextVar("goscheduler_current_run")

_told: dict[str, str] = {}
_progress: dict[str, Progress] = {}
# Runs that nobody waits for any more while their code goes on. Not by the id alone, which a retry has too.
_given_up: dict[tuple[str, int], str] = {}
_kept_back: dict[tuple[str, int], str] = {}


class RunCancelled(BaseException):
    """Ends a run that was told to end; see :meth:`CurrentRun.check`.

    Not an ``Exception``, so that an ``except Exception`` of the job lets it pass.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def current_run() -> CurrentRun:
    """Return the run that the calling code is part of.

    Works in every executor, in coroutines and in the child processes of a process pool. Code that a job starts on a
    thread of its own sees it too if the context is carried over, as ``asyncio.to_thread`` does.

    :raises RuntimeError: outside of a run
    """
    facts = _current.get(None)
    if facts is None:
        raise RuntimeError("current_run() only works inside a running job")
    return CurrentRun(*facts)


pass_runs_from(current_run)


class CurrentRun:
    """The facts of the run that is going on."""

    __slots__ = ("_run", "_started_at")

    def __init__(self, run: Run, started_at: datetime) -> None:
        self._run = run
        self._started_at = started_at

    @property
    def job_id(self) -> str:
        return self._run.job.id

    @property
    def job_name(self) -> str:
        return self._run.job.name

    @property
    def task(self) -> str | None:
        """The name of the job's task, or the reference of its function; None if it can only live in memory."""
        return self._run.job.func_ref

    @property
    def tags(self) -> tuple[str, ...]:
        return self._run.job.tags

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the job."""
        return tuple(self._run.job.args)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the job."""
        return dict(self._run.job.kwargs)

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 2 for the first retry."""
        return self._run.attempt

    @property
    def scheduled_at(self) -> datetime:
        """The fire time that this run stands for; the same on every attempt."""
        return self._run.scheduled_at

    @property
    def scheduled_run_time(self) -> datetime:
        """The same as ``scheduled_at``, under the name that the events use."""
        return self._run.scheduled_at

    @property
    def started_at(self) -> datetime:
        return self._started_at

    @property
    def lateness(self) -> float:
        """Seconds from the fire time to the start of this attempt."""
        return (self._started_at - self._run.scheduled_at).total_seconds()

    @property
    def fire_id(self) -> str:
        """Names the firing, the same on every attempt: an idempotency key for what the job does."""
        return self._run.fire_id

    @property
    def fence(self) -> int:
        """Grows whenever the run is handed out; lets a store outside refuse what a superseded attempt writes."""
        return self._run.fence

    @property
    def cancelled(self) -> bool:
        """Whether this run was told to end: out of time, cancelled by somebody, or displaced by a newer run.

        Always False in the child processes of a process pool, which are told by a signal that ends them.
        """
        return self._reason() is not None

    @property
    def cancel_reason(self) -> str:
        """Why this run was told to end; empty if it was not."""
        return self._reason() or ""

    def check(self) -> None:
        """Do nothing, unless this run was told to end.

        :raises RunCancelled: then; left alone, it ends the run with the outcome "cancelled"
        """
        reason = self._reason()
        if reason is not None:
            raise RunCancelled(reason)

    def progress(self, share: float, note: str = "") -> None:
        """Tell how far this run has got, from 0 to 1; a long note is cut.

        :raises InvalidArgument: if ``share`` is not a number from 0 to 1, or ``note`` not a text
        """
        progress = Progress(_checked_share(share), _checked_note(note))
        if attempt_key(self._run) not in _given_up:  # else a retry with the same id may be going on
            _publish(self._run.id, progress)

    def _reason(self) -> str | None:
        reason = _told.get(self._run.id)
        return _given_up.get(attempt_key(self._run)) if reason is None else reason

    def __repr__(self) -> str:
        return f"<CurrentRun (job_id={self.job_id!r} run_id={self.run_id!r} attempt={self.attempt})>"


def enter_run(run: Run, started_at: datetime) -> None:
    """Make ``run`` the current one for the rest of the present context."""
    _current.set((run, started_at))


def run_in_hand() -> Run:
    """Return the run that the caller is part of as the engine sees it, for code of this package.

    :raises RuntimeError: outside of a run
    """
    facts = _current.get(None)
    if facts is None:
        raise RuntimeError("current_run() only works inside a running job")
    return facts[0]


def owner_of_current_run() -> str | None:
    """Return who owns the run that the caller is part of, or None outside of one."""
    facts = _current.get(None)
    return None if facts is None else facts[0].owner


def id_of_current_run() -> str | None:
    """Return the id of the run that the caller is part of, or None outside of one."""
    facts = _current.get(None)
    return None if facts is None else facts[0].id


def attempt_key(run: Run) -> tuple[str, int]:
    """Return what tells one attempt from another, which may have the same run id."""
    return run.id, run.fence


def tell_to_end(run_id: str, reason: str) -> None:
    """Make a run see that it is to end; the first reason stays."""
    _told.setdefault(run_id, reason)


def tell_attempt_to_end(key: tuple[str, int], reason: str) -> None:
    """Make one attempt see that it is to end; another one at the same run may go on in this process."""
    _given_up.setdefault(key, reason)


def cancel_reason(run_id: str) -> str | None:
    """Return why a run was told to end, or None if it was not."""
    return _told.get(run_id)


def clear_cancel(run_id: str) -> None:
    """Take back that a run is to end; it was over already."""
    _told.pop(run_id, None)


def keep_back(run: Run, reason: str) -> None:
    """Note why a run that is about to start goes back to its store instead."""
    _kept_back[attempt_key(run)] = reason


def kept_back(run: Run) -> str | None:
    """Return why a run goes back to its store unstarted, or None if it does not, and forget it."""
    return _kept_back.pop(attempt_key(run), None)


def mark_given_up(run: Run) -> None:
    """Let a run see until its end that it is to end, and hear no more of its progress, also when it is forgotten."""
    _given_up[attempt_key(run)] = _told.get(run.id, "the run was given up")


def unmark_given_up(run: Run) -> None:
    """Note that a run which was given up has ended."""
    forget_attempt(attempt_key(run))


def forget_attempt(key: tuple[str, int]) -> None:
    """Forget what one attempt was told, since it is over."""
    _given_up.pop(key, None)


def progress_of(run_id: str) -> Progress | None:
    """Return how far a run says it has got, or None if it said nothing."""
    return _progress.get(run_id)


def last_progress(run_id: str) -> Progress | None:
    """Return how far a run that is over has got, and forget it."""
    return _progress.pop(run_id, None) if _progress else None


def record_progress(run_id: str, progress: Progress) -> None:
    """Keep how far a run has got."""
    _progress[run_id] = progress
    if len(_progress) > MAX_PROGRESS:
        for oldest in list(_progress)[: MAX_PROGRESS // 10]:
            _progress.pop(oldest, None)


def forget_run(run_id: str) -> None:
    """Forget what a run was told and has told, since it is over."""
    _told.pop(run_id, None)
    _progress.pop(run_id, None)


_publish: Callable[[str, Progress], None] = record_progress


def publish_progress_with(publish: Callable[[str, Progress], None]) -> None:
    """Have progress taken elsewhere: in a child process, to its parent."""
    global _publish
    _publish = publish
    _told.clear()  # a forked child has a copy of what its parent told others
    _given_up.clear()


def _checked_share(share: object) -> float:
    if isinstance(share, Real) and not isinstance(share, bool):
        with suppress(OverflowError):
            number = float(share)
            if 0 <= number <= 1:
                return number
    raise InvalidArgument(f"share must be a number from 0 to 1, got {shown(share)}", field="share", value=share)


def _checked_note(note: object) -> str:
    if not isinstance(note, str):
        raise InvalidArgument(f"note must be a text, got {shown(note)}", field="note", value=note)
    return note[:MAX_NOTE]
