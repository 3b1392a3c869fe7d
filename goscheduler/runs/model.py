"""The values of a run's life. All of them are immutable.

A :class:`Run` is one firing on its way; an :class:`Outcome` says how an attempt at it ended; an :class:`Attempt` is
both together, as the history keeps them. They are named tuples because one of each is made for every firing, and a
named tuple is the cheapest immutable value that Python has. On the path of every firing they are made by :func:`make`,
which takes all fields in order and costs a third of the constructor.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goscheduler.job import Job

make = tuple.__new__


class RunState(str, Enum):
    """Where a run stands. The changes that are possible stand in :mod:`goscheduler.runs.transitions`."""

    PENDING = "pending"
    """Waiting in the store for its due time and for an owner."""
    CLAIMED = "claimed"
    """Handed to an owner, who queues or runs it."""
    FINISHED = "finished"
    """Over; the outcome tells how."""


class Source(str, Enum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    RETRY = "retry"
    REDRIVE = "redrive"
    RECOVERED = "recovered"


class OutcomeKind(str, Enum):
    """How an attempt ended: a closed set."""

    __hash__ = str.__hash__  # the one of Enum is written in Python, and every outcome is looked up in tables

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The function raised, or the process that ran it died."""
    TIMED_OUT = "timed out"
    MISSED = "missed"
    """Later than the misfire grace time; not run."""
    SKIPPED = "skipped"
    """As many instances as allowed were live already; not run."""
    CANCELLED = "cancelled"
    LOST = "lost"
    """The owner's lease lapsed; somebody else has the run now."""
    SNOOZED = "snoozed"
    """Put back without counting as an attempt, for instance because the process shuts down."""


class Run(NamedTuple):
    """One firing on its way from its due time to its outcome."""

    id: str
    job: Job
    """The job as it was when it fired; it may be gone from the store by now."""
    scheduled_at: datetime
    """The fire time that this run stands for; the same on every attempt."""
    due_at: datetime
    """Not to be started before this moment."""
    owner: str | None = None
    """The owner that has it, or None while it is pending."""
    fence: int = 0
    """Grows whenever the run is handed out; who finishes the run must show the current one."""
    attempt: int = 1
    source: Source = Source.SCHEDULE
    coalesced: int = 0
    """How many further missed fire times this run stands for."""
    crashes: int = 0
    """How often an owner was lost while it had the run."""

    @property
    def state(self) -> RunState:
        return RunState.PENDING if self.owner is None else RunState.CLAIMED

    @property
    def fire_id(self) -> str:
        """Names the firing, the same on every attempt: an idempotency key for what the job does."""
        return f"{self.job.id}@{self.scheduled_at.isoformat()}"


class Outcome(NamedTuple):
    """How one attempt at a run ended."""

    kind: OutcomeKind
    result: object = None
    error: BaseException | None = None
    traceback: str = ""
    """The formatted frames, without the line of the exception itself."""
    started_at: datetime | None = None
    """None when the function was never called."""
    seconds: float = 0.0
    """How long the function ran."""
    reason: str = ""
    """Why, in a sentence, where the kind alone does not say."""


class Attempt(NamedTuple):
    """A finished attempt, as the history keeps it."""

    run: Run
    outcome: Outcome
    finished_at: datetime
    fire_times: int = 1
    """How many fire times this record stands for; above one only where many were missed at once."""

    @property
    def lateness(self) -> float:
        """Seconds from the fire time to the start; 0 for what was never started."""
        started_at = self.outcome.started_at
        return 0.0 if started_at is None else (started_at - self.run.scheduled_at).total_seconds()


#: Longer results are kept in the history as their beginning.
MAX_RESULT = 1000


def recorded(attempt: Attempt) -> Attempt:
    """Return the attempt as a history keeps it: a large result would else live as long as the record."""
    result = attempt.outcome.result
    if result is None or isinstance(result, (bool, int, float)):
        return attempt
    try:
        text = result if isinstance(result, str) else repr(result)
    except Exception as error:
        text = f"<{type(result).__name__} whose repr() raises {type(error).__name__}>"
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}... ({len(text)} characters)"
    return attempt._replace(outcome=attempt.outcome._replace(result=text))


class Settlement(NamedTuple):
    """What a finished attempt leads to; the store writes it in one step, if the fence still holds."""

    attempt: Attempt
    follow_up: Run | None = None
    """A pending run to be written in place of the finished one: a retry, or a run put back."""
    dead: str | None = None
    """Why the run is to be kept among the dead letters, or None if it is not."""


class DeadLetter(NamedTuple):
    """A run whose last attempt has failed, kept until somebody redrives or discards it."""

    attempt: Attempt
    """The last attempt."""
    reason: str
    """Why there are no more."""
