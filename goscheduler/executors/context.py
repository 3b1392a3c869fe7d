"""What a running job can see of itself."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

# A bare pair, because it is written for every run and read by few.
_current: ContextVar[tuple[Run, datetime]] = ContextVar("goscheduler_current_run")


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

    def __repr__(self) -> str:
        return f"<CurrentRun (job_id={self.job_id!r} run_id={self.run_id!r} attempt={self.attempt})>"


def enter_run(run: Run, started_at: datetime) -> None:
    """Make ``run`` the current one for the rest of the present context."""
    _current.set((run, started_at))


def owner_of_current_run() -> str | None:
    """Return who owns the run that the caller is part of, or None outside of one."""
    facts = _current.get(None)
    return None if facts is None else facts[0].owner


def id_of_current_run() -> str | None:
    """Return the id of the run that the caller is part of, or None outside of one."""
    facts = _current.get(None)
    return None if facts is None else facts[0].id
