"""The values of a run's life. All of them are immutable.

A :class:`Run` is one firing on its way; an :class:`Outcome` says how an attempt at it ended; an :class:`Attempt` is
both together, of which the history keeps a record. They are named tuples because one of each is made for every firing,
and a named tuple is the cheapest immutable value that Python has. On the path of every firing they are made by
:func:`unchecked_tuple`, which takes all fields in order and costs a third of the constructor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Record

unchecked_tuple = tuple.__new__


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
    BACKFILL = "backfill"
    """Somebody asked for a fire time of the past."""


class OutcomeKind(str, Enum):
    """The ways in which an attempt ends: a closed set."""

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


class Owner(NamedTuple):
    """One start of a scheduler: who may have runs as long as its lease is renewed."""

    id: str
    host: str = ""
    pid: int = 0
    started_at: datetime | None = None
    executors: tuple[str, ...] = ()
    """Aliases of its executors: it can run jobs that name one of these."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks that it knows."""
    report: str = ""
    """What it tells of itself with each renewal, as JSON of at most :data:`MAX_REPORT` characters."""
    expires_at: datetime | None = None
    """When its lease lapses; only of an owner that was read from a store."""


MAX_REPORT = 32_768


class JobState(str, Enum):
    """Where a job stands, as people see it."""

    PENDING = "pending"
    """Waits for its scheduler to start."""
    SCHEDULED = "scheduled"
    """Waits for its next run time, or for a retry."""
    QUEUED = "queued"
    """Is due and waits for its turn."""
    NO_EXECUTOR = "no executor"
    """Is due, and no process has its executor."""
    RUNNING = "running"
    COMPLETED = "completed"
    """Will not fire again, and its last run went well."""
    FAILED = "failed"
    """Will not fire again, and its last run did not go well."""
    PAUSED = "paused"
    SUSPENDED = "suspended"
    """Cannot be run; ``job.suspended`` says why."""
    REMOVED = "removed"
    """Is not in its store any more, and was to fire again."""


class JobStats(NamedTuple):
    """Statistics of a job: its runs, its last outcome, its last error."""

    run_count: int = 0
    """Attempts that were started and have ended."""
    last_run: datetime | None = None
    """When the last of them was started."""
    last_success: datetime | None = None
    """When the last one that went well ended."""
    last_error: str | None = None
    """What the last one that did not go well had to say."""
    last_outcome: OutcomeKind | None = None
    paused_by: str | None = None
    """Who has paused the job, while it is paused."""
    finished_at: datetime | None = None
    """When it fired for the last time, where it is kept after that."""
    pause_reason: str | None = None
    """Why the job was paused, while it is paused."""
    pause_id: str | None = None
    """The bulk operation that has paused the job, while it is paused."""
    created_at: datetime | None = None
    """When the job was added."""
    created_by: str | None = None
    """Who has added it."""

    def edited(self, by: JobStats) -> JobStats:
        """Return the same life with what an edit of the job decides: its pause, its end, its creation."""
        return self._replace(
            paused_by=by.paused_by, finished_at=by.finished_at, pause_reason=by.pause_reason, pause_id=by.pause_id,
            created_at=by.created_at, created_by=by.created_by,
        )  # fmt: skip

    def resumed(self) -> JobStats:
        """Return the same life of a job that is neither paused nor at its end."""
        return self._replace(paused_by=None, finished_at=None, pause_reason=None, pause_id=None)

    def as_state(self) -> dict[str, object]:
        """Return the life in plain values, as a record of the job keeps it."""
        state: dict[str, object] = self._asdict()
        return {**state, "last_outcome": None if self.last_outcome is None else self.last_outcome.value}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> JobStats:
        """Return the life that :meth:`as_state` told of."""
        outcome = state["last_outcome"]
        return cls(**{**state, "last_outcome": None if outcome is None else OutcomeKind(outcome)})


NO_STATS = JobStats()


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


class LiveRun(NamedTuple):
    """A run that has not ended, as people see it."""

    id: str
    job_id: str
    job_name: str
    state: str
    """"pending" (waits for its time, for room, for a limit or for others to end), "queued", "running", or "claimed":
    another process has it, and whether it runs already is not known."""
    scheduled_at: datetime
    due_at: datetime
    started_at: datetime | None
    """Known of the runs of this process, and of those that the report of another one tells of."""
    attempt: int
    source: Source
    owner: str | None
    progress: float | None
    progress_note: str
    host: str = ""
    """The machine of its owner, where that is known."""
    pid: int = 0
    """The process of its owner."""


class Outcome(NamedTuple):
    """The result of one attempt at a run."""

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


class Progress(NamedTuple):
    """Progress of a run, as its function reported it."""

    share: float
    """From 0 to 1."""
    note: str


class Attempt(NamedTuple):
    """A finished attempt. The history keeps a :class:`~goscheduler.runs.records.Record` of it."""

    run: Run
    outcome: Outcome
    finished_at: datetime
    fire_times: int = 1
    """How many fire times this record stands for; above one only where many were missed at once."""
    progress: Progress | None = None
    """How far it got, if it told."""
    host: str = ""
    """The machine of the owner; empty if nobody had the run."""


class Settlement(NamedTuple):
    """The consequence of a finished attempt; the store writes it in one step, if the fence still holds."""

    attempt: Attempt
    follow_up: Run | None = None
    """A pending run to be written in place of the finished one: a retry, or a run put back."""
    dead: str | None = None
    """Why the run is to be kept among the dead letters, or None if it is not."""


class DeadLetter(NamedTuple):
    """A run whose last attempt has failed, kept until it is redriven or discarded."""

    run: Run
    """The run, as it is redriven."""
    record: Record
    """What the history tells of the last attempt."""
    reason: str
    """Why there are no more."""
