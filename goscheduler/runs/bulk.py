"""One act on many jobs: its state, which stands in a note of the store from its beginning to its end.

The process that works on it claims it for a while with each portion. If the process is lost, another one reads the
note, claims it, and goes on behind the last portion that is noted. What a portion does can be done twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from goscheduler.runs.queries import JobPosition, JobQuery

#: The kind of the notes.
BULK = "bulk"
#: So many jobs are a portion; fewer where a run of each is written by itself.
PORTION = 200
RUN_PORTION = 50
#: For so many seconds a process may work on a portion before another one may take the rest over.
CLAIM_SECONDS = 30.0
#: At most so many reasons of refusals are kept.
MOST_REASONS = 20
LONGEST_REASON = 200

PAUSE, RESUME, REMOVE, RUN = "pause", "resume", "remove", "run"
ACTS = (PAUSE, RESUME, REMOVE, RUN)

GOING_ON, DONE, STOPPED = "going on", "done", "stopped"


@dataclass(frozen=True)
class Bulk:
    """One act on all jobs of a store that fit some filters."""

    id: str
    act: str
    filters: Mapping[str, Any]
    """As :func:`~goscheduler.runs.job_filters.job_query` takes them, in plain values."""
    started_at: int
    """In microseconds."""
    by: str = ""
    reason: str = ""
    state: str = GOING_ON
    after: str | None = None
    """Id of the last job that was dealt with; jobs are taken in the order of their ids."""
    changed: int = 0
    unchanged: int = 0
    """Jobs that were as they are to be already."""
    refused: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Job id → why it was refused, for some of these."""
    worker: str = ""
    """The process that works on it."""
    until: int = 0
    """When its claim lapses, in microseconds."""

    @property
    def text(self) -> str:
        """The text of its note."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def page(self, query: JobQuery) -> JobQuery:
        """Return the query for the next portion."""
        after = None if self.after is None else JobPosition(0, self.after)
        limit = RUN_PORTION if self.act == RUN else PORTION
        return query._replace(sort="id", limit=limit, after=after)

    def claimed(self, worker: str, now: int) -> Bulk:
        """Return it as one process works on it."""
        return replace(self, worker=worker, until=now + int(CLAIM_SECONDS * 1_000_000))

    def is_abandoned(self, now: int) -> bool:
        """Tell whether another process is to go on."""
        return self.state == GOING_ON and self.until < now

    def advanced(self, after: str | None, changed: int, unchanged: int, refused: Mapping[str, str]) -> Bulk:
        """Return it after a portion; ``after`` is None behind the last one."""
        kept = {**self.reasons, **{job_id: reason[:LONGEST_REASON] for job_id, reason in refused.items()}}
        return replace(
            self, after=self.after if after is None else after, state=DONE if after is None else GOING_ON,
            changed=self.changed + changed, unchanged=self.unchanged + unchanged, refused=self.refused + len(refused),
            reasons=dict(list(kept.items())[:MOST_REASONS]),
        )  # fmt: skip


def read_bulk(text: str) -> Bulk | None:
    """Return what a note tells of; None if it cannot be read here."""
    try:
        return Bulk(**json.loads(text))
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True)
class BulkResult:
    """What became of the jobs that were meant."""

    id: str
    """Names the act; of a pause, what :meth:`resume_jobs` takes to resume exactly these jobs."""
    changed: int = 0
    unchanged: int = 0
    refused: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Job id → why it was refused, for the first of these."""
    done: bool = True
    """False if the act was stopped, or another process goes on with it."""
    started_at: datetime | None = None

    def plus(self, bulk: Bulk) -> BulkResult:
        """Return the sum of this and what was done in one store."""
        return replace(
            self, changed=self.changed + bulk.changed, unchanged=self.unchanged + bulk.unchanged,
            refused=self.refused + bulk.refused, reasons={**self.reasons, **bulk.reasons},
            done=self.done and bulk.state == DONE,
        )  # fmt: skip
