"""What operations on backfills and blackouts return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class SkippedTime:
    """A fire time that a backfill leaves out."""

    at: datetime
    why: str


@dataclass(frozen=True)
class BackfillView:
    """What a backfill runs, and what it leaves out."""

    id: str
    job_id: str
    times: Sequence[datetime]
    skipped: Sequence[SkippedTime]
    at_once: int
    history_since: datetime | None
    """How far the history of the job reaches back."""
    note: str
    """What cannot be known, because the history does not reach so far."""
    done: bool
    """False if this was only to show what would be run."""


@dataclass(frozen=True)
class BackfillRow:
    """How far a backfill has come."""

    id: str
    job_id: str
    state: str
    start: datetime
    end: datetime
    reprocess: str
    at_once: int
    newest_first: bool
    times: int
    waiting: int
    running: int
    ended: int
    started_at: datetime
    jobstore: str


@dataclass(frozen=True)
class BlackoutView:
    """A time in which jobs are held back or left out."""

    id: str
    state: str
    start: datetime
    end: datetime
    action: str
    tag: str | None
    job_id: str | None
    reason: str
