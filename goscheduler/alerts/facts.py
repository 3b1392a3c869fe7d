"""What rules look at. Nothing of it is gathered here; see :mod:`goscheduler.alerts.gather`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goscheduler.runs.health import Check
    from goscheduler.runs.queries import LetterGroup, LimitUse
    from goscheduler.runs.records import Record
    from goscheduler.triggers.base import BaseTrigger


class JobFacts(NamedTuple):
    """A job that an alert is about."""

    id: str
    trigger: BaseTrigger
    last_success: datetime | None
    created_at: datetime | None
    obstacle: str = ""
    """Why it does not fire: "paused by ann", "suspended: there is no task ..."."""


class RunningFacts(NamedTuple):
    """A run that goes on."""

    job_id: str
    seconds: float
    usual: float | None
    """So many seconds 95 of 100 earlier runs of the job did not exceed; None if there were too few."""


@dataclass(frozen=True)
class Facts:
    """What is known at one moment; of each field only what the rules need."""

    now: datetime
    about: str = "all jobs"
    """What the alert is about, as one target."""
    jobs: Sequence[JobFacts] = ()
    absent: Sequence[str] = ()
    """Ids of jobs that the alert names and that are not there."""
    failing: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    """Id of a job whose last attempt failed → its records, newest first."""
    records: Sequence[Record] = ()
    """Of attempts, newest first."""
    missed: Sequence[Record] = ()
    """Of fire times that were missed, newest first."""
    running: Sequence[RunningFacts] = ()
    due: int = 0
    """How many jobs are due."""
    oldest_due: float = 0.0
    """For how many seconds one of them is due."""
    limits: Sequence[LimitUse] = ()
    letters: Sequence[LetterGroup] = ()
    processes: int = 0
    """How many processes fire."""
    lost: Sequence[str] = ()
    """Processes whose lease has lapsed in the last minutes."""
    checks: Sequence[Check] = ()
    """Of the health of the stores."""
    suspended: Mapping[str, str] = field(default_factory=dict)
    """Id of a suspended job → why."""
