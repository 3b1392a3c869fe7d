"""Fire times of the past that are run now: which of them, and as what runs; pure.

A backfill has an id that follows from its job, its range and what it is to reprocess, and each of its runs an id that
follows from that and the fire time. A store adds a run once, so who was stopped in the middle asks again with the same
arguments, and each time runs once. What tells that a time was run by it is, while the run lasts, the run itself, and
then its record.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import InvalidArgument, nearest, shown
from goscheduler.job import copy_with
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import OutcomeKind, Run, Source
from goscheduler.times import SECOND, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Record
    from goscheduler.triggers.base import BaseTrigger

#: The kind of the notes.
BACKFILL = "backfill"
MISSING, FAILED, ALL = "missing", "failed", "all"
REPROCESS = (MISSING, FAILED, ALL)
#: So many fire times are backfilled in one call.
MOST_TIMES = 1000
MOST_AT_ONCE = 1000
LOWEST_PRIORITY = 9
#: So many runs are added before the note is written again, by which another process sees how far it is.
PORTION = 100
#: Why a run has ended whose backfill was cancelled; of one that goes on already, no reason to end it.
CALLED_OFF = "its backfill was cancelled"
#: So far the clocks of two processes that add the runs of one backfill may be apart.
CLOCK_SKEW = timedelta(hours=1)

ADDING, GOING_ON, DONE, CANCELLED = "adding", "going on", "done", "cancelled"

_NOT_RUN = frozenset({OutcomeKind.MISSED, OutcomeKind.SKIPPED, OutcomeKind.SNOOZED})
_FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST})


class Backfill(NamedTuple):
    """What a backfill runs, and what it leaves out."""

    id: str
    times: tuple[datetime, ...]
    """The fire times that it has asked for, in the order in which they run."""
    skipped: Mapping[datetime, str]
    """Fire time → why it is left out."""
    at_once: int
    """How many of its runs go on at once, at most; the job's ``max_instances`` holds too."""
    history_since: datetime | None
    """How far the history of the job reaches back; None if there is none within the range."""
    note: str
    """What cannot be known, because the history does not reach so far; empty if nothing."""


class BackfillProgress(NamedTuple):
    """How far a backfill has come."""

    id: str
    job_id: str
    state: str
    """"adding" (its runs are being asked for), "going on", "done" or "cancelled"."""
    start: datetime
    end: datetime
    reprocess: str
    at_once: int
    newest_first: bool
    times: int
    """How many fire times it has."""
    waiting: int
    running: int
    ended: int
    """Those that were called off count too."""
    started_at: datetime
    jobstore: str


@dataclass(frozen=True)
class BackfillNote:
    """What a store keeps of a backfill."""

    number: int
    job_id: str
    start: str
    end: str
    reprocess: str
    at_once: int
    newest_first: bool
    times: int
    started_at: int
    """In microseconds."""
    writer: str
    """Names the call that adds the runs; another one takes over by writing its own name."""
    added: int = 0
    state: str = ADDING
    contested_since: int = 0
    """When the first of several calls that have added its runs began, in microseconds; 0 if only one has."""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    def with_progress(self, added: int) -> BackfillNote:
        """Return the note after so many runs were added."""
        return replace(self, added=added, state=ADDING if added < self.times else GOING_ON)

    def taking_over(self, before: BackfillNote | None) -> BackfillNote:
        """Return the note of a call that goes on with what another one had begun, which may be adding still."""
        if before is None or before.number != self.number:
            return self
        since = before.contested_since or (before.started_at if before.state == ADDING else 0)
        return replace(self, contested_since=since)

    def cancelled(self) -> BackfillNote:
        """Return the note of a backfill that somebody has cancelled."""
        return replace(self, state=CANCELLED)


def read_note(text: str | None) -> BackfillNote | None:
    """Return what a note tells; None if there is none, or it was written by another version."""
    if text is None:
        return None
    try:
        return BackfillNote(**json.loads(text))
    except (ValueError, TypeError):
        return None


def key_of(job_id: str, start: datetime, end: datetime, reprocess: str) -> str:
    """Return what names a range of a job; the same for the same arguments."""
    parts = json.dumps([job_id, to_micros(start), to_micros(end), reprocess])
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def id_of(key: str, number: int) -> str:
    """Return the id of the backfill that is the ``number``-th of its key."""
    return f"{key}-{number}"


def run_id(backfill_id: str, time: datetime) -> str:
    """Return the id of the run of a backfill for a fire time."""
    return f"{backfill_id}-{to_micros(time):x}"


def key_and_number(run_id: str) -> tuple[str, str]:
    """Return what names the range of a run of a backfill, and the number of that backfill."""
    key, number, _ = run_id.rsplit("-", 2)
    return key, number


def belongs_to(run_id: str, backfill_id: str) -> bool:
    """Tell whether a run is of a backfill."""
    return run_id.startswith(f"{backfill_id}-")


def check_reprocess(value: object) -> str:
    """Return which fire times are to be run again."""
    if value in REPROCESS and isinstance(value, str):
        return value
    hint = nearest(str(value), REPROCESS) if isinstance(value, str) else None
    meant = f"; did you mean {shown(hint)}?" if hint else ""
    message = f"reprocess must be one of {', '.join(REPROCESS)}, got {shown(value)}{meant}"
    raise InvalidArgument(message, field="reprocess", value=value)


def check_at_once(value: object) -> int:
    """Return how many runs may go on at once."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_AT_ONCE:
        message = f"at_once must be a whole number from 1 to {MOST_AT_ONCE}, got {shown(value)}"
        raise InvalidArgument(message, field="at_once", value=value)
    return value


def times_of(trigger: BaseTrigger, start: datetime, end: datetime) -> list[datetime]:
    """Return the fire times from ``start`` on and before ``end``.

    :raises InvalidArgument: if there are more than :data:`MOST_TIMES`; no more than these are counted
    """
    if to_micros(start) >= to_micros(end):
        message = f"start must lie before end, the present and the next run of the job, {end}; got {start}"
        raise InvalidArgument(message, field="start", value=start)
    found = [time for time in trigger.between(start, end, MOST_TIMES + 1) if to_micros(time) >= to_micros(start)]
    if len(found) > MOST_TIMES:
        message = (
            f"from {start} to {end} there are more than {MOST_TIMES:,} fire times; split the range: the first "
            f"{MOST_TIMES:,} are those before {found[-1]}, so end there and start the next backfill at it"
        )
        raise InvalidArgument(message, field="end", value=end)
    return found


class Known(NamedTuple):
    """What is known of a job's runs."""

    runs: Sequence[Run]
    """Those that wait or go on."""
    records: Sequence[Record]
    """What the history has, newest first."""

    def of(self, backfill_id: str) -> set[str]:
        """Return the ids of those that are of a backfill; one may have ended while all this was read."""
        ids = [*(run.id for run in self.runs), *(record.run_id for record in self.records)]
        return {each for each in ids if belongs_to(each, backfill_id)}

    def since(self) -> datetime | None:
        """Return how far the history reaches back: successes are forgotten sooner than the rest."""
        ends = [record.finished_at for record in self.records]
        successes = [record.finished_at for record in self.records if record.outcome is OutcomeKind.SUCCEEDED]
        return min(successes or ends, default=None)


def left_out(
    times: Sequence[datetime], known: Known, reprocess: str, backfill_id: str, jitter: float
) -> dict[datetime, str]:
    """Return fire time → why it is not to be run by this backfill, for those of which that is so."""
    places = _Places(times, jitter)
    found: dict[datetime, str] = {}
    judged: set[datetime] = set()
    for record in known.records:
        time = places.time_of(record.scheduled_at)
        if time is None:
            continue
        if belongs_to(record.run_id, backfill_id):
            found[time] = "this backfill has run it already"
        elif time not in judged and record.outcome not in _NOT_RUN:
            judged.add(time)  # the newest tells how it stands
            if reason := _reason_to_leave(record, reprocess):
                found.setdefault(time, reason)
    for run in known.runs:
        time = places.time_of(run.scheduled_at)
        if time is not None and run.source is not Source.MANUAL:
            found[time] = "a run of it waits or goes on"
    return found


def _reason_to_leave(record: Record, reprocess: str) -> str:
    if reprocess == ALL or (record.outcome is OutcomeKind.CANCELLED and record.started_at is None):
        return ""
    if reprocess == FAILED and record.outcome in _FAILURES:
        return ""
    return f"it {record.outcome.value}" if record.outcome is not OutcomeKind.LOST else "its process was lost"


class _Places:
    """Finds the fire time that something was run for; jitter has delayed it by so many seconds at most."""

    def __init__(self, times: Sequence[datetime], jitter: float) -> None:
        self._times = sorted(times, key=to_micros)
        self._micros = [to_micros(time) for time in self._times]
        self._slack = round(jitter * SECOND)

    def time_of(self, moment: datetime) -> datetime | None:
        at = to_micros(moment)
        place = bisect_right(self._micros, at) - 1
        return self._times[place] if place >= 0 and at - self._micros[place] <= self._slack else None


def jitter_of(trigger: BaseTrigger) -> float:
    """Return by how many seconds a trigger delays at most, with those that it is made of."""
    children: Iterable[BaseTrigger] = getattr(trigger, "triggers", ())
    return (getattr(trigger, "jitter", None) or 0.0) + max(map(jitter_of, children), default=0.0)


def runs_for(
    job: Job, backfill_id: str, times: Sequence[datetime], at_once: int, now: datetime
) -> list[Run]:
    """Return the pending runs for fire times, in this order: the least urgent of all, due now, never too late."""
    snapshot = copy_with(
        job, priority=LOWEST_PRIORITY, misfire_grace_time=None,
        limits=(*job.limits, Limit(f"backfill {backfill_id}", concurrency=at_once)),
        **({} if job.retry is None else {"retry": replace(job.retry, deadline=None)}),
    )  # fmt: skip
    first = now - timedelta(microseconds=len(times))
    return [
        Run(
            run_id(backfill_id, time), snapshot, time, first + timedelta(microseconds=place), source=Source.BACKFILL
        )
        for place, time in enumerate(times)
    ]


def told_of_history(times: Sequence[datetime], since: datetime | None, reprocess: str) -> str:
    """Return what the history cannot tell of these times, in a sentence; nothing if it tells everything."""
    if reprocess == ALL:
        return ""
    before = len([time for time in times if since is None or to_micros(time) < to_micros(since)])
    if not before:
        return ""
    reach = "has nothing of that time" if since is None else f"reaches back to {since:%Y-%m-%d %H:%M:%S %Z}"
    many = "1 of the times lies" if before == 1 else f"{before:,} of the times lie"
    return f"The history of the job {reach}. {many} before that and count as missing, whether they ran or not."
