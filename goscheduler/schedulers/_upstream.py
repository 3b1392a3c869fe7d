"""What followers need to know of the jobs that they wait for: how these have ended, and whether they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.errors import InvalidArgument, nearest, shown
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.queries import JobQuery
from goscheduler.runs.records import HistoryQuery
from goscheduler.times import UTC, from_micros, to_micros
from goscheduler.triggers.after import KEPT, AfterTrigger, End

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.records import Record

#: So many of the newest ends of a job are looked at; a cursor knows half of them.
MOST_ENDS = 2 * KEPT
#: So many ids are looked through for the one that was probably meant.
MOST_IDS = 500

_SUCCEEDED = OutcomeKind.SUCCEEDED
_FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST})
_OUTCOMES = {"success": frozenset({_SUCCEEDED}), "failure": _FAILURES, "end": _FAILURES | {_SUCCEEDED}}

_Lookup = Callable[[str], "Job | None"]


class Upstream:
    """What a store knows of the jobs that a batch of followers waits for; it is asked once for each of them."""

    def __init__(self, store: BaseJobStore) -> None:
        self._store = store
        self._jobs: dict[str, Job | None] = {}
        self._successes: dict[str, datetime | None] = {}
        self._records: dict[tuple[str, str], tuple[int, list[Record]]] = {}

    def job(self, job_id: str) -> Job | None:
        """Return a job, or None."""
        if job_id not in self._jobs:
            self._jobs[job_id] = self._store.lookup_job(job_id)
        return self._jobs[job_id]

    def ends(self, trigger: AfterTrigger, recent: int) -> dict[str, list[End]]:
        """Return the ends of each upstream job that a trigger may not have followed; where it has no cursor, those
        since ``recent``, in microseconds.

        An attempt after which the run goes on is no end of it.
        """
        return {
            one: self._ends(one, trigger, trigger.floor(one) if one in trigger.cursors else recent)
            for one in trigger.upstream
        }

    def _ends(self, upstream: str, trigger: AfterTrigger, since: int) -> list[End]:
        success = self._last_success(upstream)  # before the records are, so that what is counted has its record
        records = self._recorded(upstream, trigger.on, since)
        ends = [End(record.run_id, record.fence, record.scheduled_at, record.finished_at) for record in records]
        return ends + _unrecorded(upstream, success, trigger, records, since)

    def _last_success(self, upstream: str) -> datetime | None:
        if upstream not in self._successes:
            job = self.job(upstream)
            self._successes[upstream] = None if job is None else self._store.stats_of(job).last_success
        return self._successes[upstream]

    def _recorded(self, upstream: str, on: str, since: int) -> list[Record]:
        """Return the newest records since a moment; those of an earlier moment serve for a later one."""
        known = self._records.get((upstream, on))
        if known is None or since < known[0]:
            begin = since if known is None else 0  # asked a second time: for all cursors that are still to come
            known = self._records[upstream, on] = begin, _read_records(self._store, upstream, on, begin)
        return [record for record in known[1] if to_micros(record.finished_at) >= since]


def _read_records(store: BaseJobStore, upstream: str, on: str, since: int) -> list[Record]:
    begin = from_micros(since, UTC) if since else None
    query = HistoryQuery(upstream, _OUTCOMES[on], begin, limit=MOST_ENDS)
    records = store.history(query)
    return list(records) if on == "success" else _final(store, upstream, query, records)


def _final(store: BaseJobStore, upstream: str, query: HistoryQuery, records: Sequence[Record]) -> list[Record]:
    """Return the records of attempts after which nothing more comes.

    The runs that go on are read after the records, and the records once more after these: a run that has ended in
    between has a newer record then.
    """
    failed = any(record.outcome is not _SUCCEEDED for record in records)
    if not failed:
        return list(records)
    unfinished = {run.id for run in (*store.live_runs(upstream), *store.pending_runs(upstream))}
    fences: dict[str, int] = {}
    for record in store.history(query._replace(outcomes=None, limit=2 * MOST_ENDS)):
        fences[record.run_id] = max(record.fence, fences.get(record.run_id, 0))
    return [
        record for record in records
        if record.outcome is _SUCCEEDED
        or (record.run_id not in unfinished and fences.get(record.run_id, record.fence) <= record.fence)
    ]  # fmt: skip


def _unrecorded(
    upstream: str, success: datetime | None, trigger: AfterTrigger, records: Iterable[Record], since: int
) -> list[End]:
    """Return the last success of a job if the history has it no more, because little is retained."""
    if success is None or trigger.on == "failure" or to_micros(success) < since:
        return []
    cursor = trigger.cursors.get(upstream)
    known = [record.finished_at for record in records]
    known += [cursor.last.finished_at] if cursor is not None and cursor.last is not None else []
    if any(time >= success for time in known):
        return []
    return [End("", to_micros(success), success, success)]


def check_upstream(
    job: Job, store: BaseJobStore, beside: Mapping[str, Job], others: Mapping[str, BaseJobStore]
) -> None:
    """Raise InvalidArgument if a job waits for itself, or for one that is neither in its store nor ``beside`` it.

    ``others`` are the other stores, by alias.
    """
    refuse_itself(job)

    def lookup(job_id: str) -> Job | None:
        return beside.get(job_id) or store.lookup_job(job_id)

    for upstream in job.trigger.upstream:
        if lookup(upstream) is None:
            raise _refused(job, _unknown(upstream, store, beside, others))
    circle = circle_of(job, lookup)
    if circle:
        raise _refused(job, f"{circle}, so none of them would ever fire")


def refuse_itself(job: Job) -> None:
    """Raise InvalidArgument if a job waits for itself."""
    if job.id in job.trigger.upstream:
        raise _refused(job, f"the job {shown(job.id)} cannot wait for itself")


def circle_of(job: Job, lookup: _Lookup) -> str:
    """Return how a job waits for itself by way of others; nothing if it does not."""
    came_from: dict[str, str] = {}
    unseen = [(upstream, job.id) for upstream in job.trigger.upstream]
    while unseen:
        job_id, before = unseen.pop()
        if job_id == job.id:
            return _told(job.id, before, came_from)
        if job_id in came_from:
            continue
        came_from[job_id] = before
        found = lookup(job_id)
        if found is not None:
            unseen += [(upstream, job_id) for upstream in getattr(found.trigger, "upstream", ())]
    return ""


def _told(job_id: str, last: str, came_from: Mapping[str, str]) -> str:
    path = [last]
    while came_from.get(path[-1], job_id) != job_id:
        path.append(came_from[path[-1]])
    way = " and ".join(f"'{one}'" for one in reversed(path) if one != job_id)
    return f"'{job_id}' waits for itself, by way of {way}" if way else f"'{job_id}' waits for itself"


def _unknown(
    upstream: str, store: BaseJobStore, beside: Mapping[str, Job], others: Mapping[str, BaseJobStore]
) -> str:
    for alias, other in others.items():
        if other is not store and other.lookup_job(upstream) is not None:
            return f"{shown(upstream)} is in the job store {shown(alias)}; a job follows jobs of its own store only"
    known = {job.id for job in store.find_jobs(JobQuery(sort="id", limit=MOST_IDS)).jobs} | beside.keys()
    meant = nearest(upstream, known)
    hint = f"did you mean {shown(meant)}?" if meant else "add it first"
    return f"there is no job {shown(upstream)} in the job store; {hint}"


def _refused(job: Job, text: str) -> InvalidArgument:
    return InvalidArgument(f"after: {text}", field="after", value=job.trigger.upstream)
