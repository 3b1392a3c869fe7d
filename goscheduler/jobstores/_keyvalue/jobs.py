"""The jobs of a store on etcd or ZooKeeper: finds, adds, changes and removes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import (
    ConflictingIdError,
    GoSchedulerError,
    InvalidArgument,
    JobLookupError,
    StoreUnavailable,
)
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.due_work import DueWorkReader
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.rows import JobRow
from goscheduler.jobstores._keyvalue.server import (
    Found,
    Key,
    Span,
    check_size,
    decode_time,
    encode_time,
    escape,
    read_all,
    unescape,
)
from goscheduler.jobstores._keyvalue.transaction import (
    MAX_CHANGES_PER_TRANSACTION,
    Change,
    attempts,
    lost_all_races,
    write,
    write_all,
)
from goscheduler.runs.queries import Edited
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Retention

JOBS_PER_READ = 200


class _Editions(NamedTuple):
    """What becomes of several jobs, as ``Edited`` tells it at the end."""

    changed: list[Job]
    unchanged: list[str]
    missing: list[str]
    refused: dict[str, str]


class Jobs:
    """The jobs of one store."""

    def __init__(self, context: StoreContext, reader: DueWorkReader) -> None:
        self._context = context
        self._server = context.server
        self._codec = context.codec
        self._reader = reader

    def lookup(self, job_id: str) -> Job | None:
        """Return the job by this id, or None."""
        name = escape(job_id)
        found, stats = self._server.read([("jobs", name), ("lives", name)])
        return None if found is None else self.read(name, found, stats)

    def due(self, now: datetime) -> list[Job]:
        """Return the jobs that are due, ascending by time."""
        names = self._reader.all_names("due", encode_time(to_micros(now) + 1))
        return _by_time(self._jobs([name.split(".")[1] for name in names]))

    def next_run_time(self) -> datetime | None:
        """Return the earliest next time of all jobs, or None."""
        times = [decode_time(name) for name in self._reader.all_names("due", limit=1)]
        return from_micros(min(times), UTC) if times else None

    def all(self) -> list[Job]:
        """Return all jobs, ascending by time, paused ones last."""
        lives = dict(read_all(self._server, ("lives",)))
        return _by_time([self.read(name, found, lives.get(name)) for name, found in read_all(self._server, ("jobs",))])

    def _jobs(self, names: Sequence[str]) -> list[Job]:
        found = self._server.read([key for name in names for key in (("jobs", name), ("lives", name))])
        return [
            self.read(name, there, found[2 * index + 1])
            for index, name in enumerate(names)
            if (there := found[2 * index]) is not None
        ]

    def read(self, name: str, found: Found, stats: Found | None) -> Job:
        """Return the job of a row; one that cannot be read is suspended."""
        try:
            return self._codec.job(self._codec.job_row(found), stats)
        except CodecError:
            return self._codec.unreadable_job(name, found)

    def add(self, job: Job) -> None:
        """Add a job, and notify other processes."""
        row = self._new_row(job)
        self._context.need_queue(row)
        change = Change()
        change.insert(row)
        change.notify(self._context.instance_id)
        if not self._server.commit(change):
            raise ConflictingIdError(job.id)

    def add_all(self, jobs: Sequence[Job]) -> None:
        """Add all of these or none. If one of several transactions fails, remove what the others have added."""
        rows = [self._new_row(job) for job in jobs]
        changes = []
        for row in rows:
            self._context.need_queue(row)
            change = Change(row)
            change.insert(row)
            changes.append(change)
        if len({row.key for row in rows}) < len(rows):
            raise ConflictingIdError(Counter(row.id for row in rows).most_common(1)[0][0])
        written = write(self._server, Groups(self._server), changes)
        if len(written.changes) == len(changes):
            return
        for change in written.changes:
            self._remove(change.result.key[1])
        if written.error is not None:
            raise written.error
        rest = [change.result.id for change in changes[len(written.changes) :]]
        raise ConflictingIdError(min(self.existing(set(rest)), default=rest[0]))

    def change(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        """Replace a job by the one that ``edit`` returns, and return that."""
        name = escape(job_id)
        for _ in attempts():
            found, stats = self._server.read([("jobs", name), ("lives", name)])
            if found is None:
                raise JobLookupError(job_id)
            edited = edit(self.read(name, found, stats))
            change = self._edition(name, found, edited)
            change.notify(self._context.instance_id)
            if self._server.commit(change):
                return edited
        raise lost_all_races()

    def change_several(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        """Replace each of several jobs by what ``edit`` returns, many in one transaction."""
        edited = _Editions([], [], [], {})
        for start in range(0, len(job_ids), JOBS_PER_READ):
            self._change_some(job_ids[start : start + JOBS_PER_READ], edit, edited)
        return Edited(*edited)

    def _change_some(self, job_ids: Sequence[str], edit: Callable[[Job], Job], edited: _Editions) -> None:
        ids = list(dict.fromkeys(job_ids))
        for number in attempts():
            changes = self._editions(ids, edit, edited)
            written = write(self._server, Groups(self._server), changes, _fewer(number))
            edited.changed.extend(change.result for change in written.changes)
            if written.error is not None:
                raise written.error
            ids = [change.result.id for change in changes[len(written.changes) :]]
            if not ids:
                return
        raise lost_all_races()

    def _editions(self, job_ids: Sequence[str], edit: Callable[[Job], Job], edited: _Editions) -> list[Change]:
        """Return the changes to make; note what became of the jobs that are not to be changed."""
        changes = []
        for job_id, (found, stats) in zip(job_ids, self._rows(job_ids), strict=True):
            if found is None:
                edited.missing.append(job_id)
                continue
            job = self.read(escape(job_id), found, stats)
            try:
                result = edit(job)
                if result is job:
                    edited.unchanged.append(job_id)
                else:
                    changes.append(self._edition(escape(job_id), found, result))
            except StoreUnavailable:
                raise
            except (GoSchedulerError, ValueError, TypeError) as error:
                edited.refused[job_id] = str(error)
        return changes

    def _edition(self, name: str, found: Found, job: Job) -> Change:
        """Return the change that replaces a job."""
        before, places = self._places(name, found)
        row = self._new_row(job, before)
        self._context.need_queue(row)
        change = Change(job)
        for place in places:
            change.delete(place)
        change.create(row.place)
        change.replace(row.key, row.text, found.version)
        return change

    def _rows(self, job_ids: Sequence[str]) -> list[tuple[Found | None, Found | None]]:
        """Return what is stored of some jobs, and their statistics."""
        names = [escape(job_id) for job_id in job_ids]
        found = self._server.read([key for name in names for key in (("jobs", name), ("lives", name))])
        return list(zip(found[::2], found[1::2], strict=True))

    def _new_row(self, job: Job, row: JobRow | None = None) -> JobRow:
        new = self._codec.new_job(job, "" if row is None else row.born, 0 if row is None else row.fence)
        # The text of a run contains the definition once more, quoted.
        check_size(f"Job {job.id!r}", new.text, self._server.max_bytes // 3)
        if 5 * len(new.limits) + 20 > self._server.max_changes:
            raise InvalidArgument(
                f"Job {job.id!r} has {len(new.limits)} limits; this job store takes at most "
                f"{(self._server.max_changes - 20) // 5} for one job", field="limits",
            )  # fmt: skip
        return new

    def _places(self, name: str, found: Found) -> tuple[JobRow | None, list[Key]]:
        """Return the row of a job, and its places. For a row that cannot be read, names tell the places."""
        try:
            row = self._codec.job_row(found)
            return row, [row.place]
        except CodecError:
            names = self._server.names([Span.of_prefix(("suspended",), name)])[0]
            return None, [("suspended", each) for each in names]

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        if not self._remove(escape(job_id)):
            raise JobLookupError(job_id)

    def remove_several(self, job_ids: Sequence[str]) -> list[str]:
        """Remove several jobs, many in one transaction; return the ids of those that were there."""
        removed: list[str] = []
        for start in range(0, len(job_ids), JOBS_PER_READ):
            removed += self._remove_some(job_ids[start : start + JOBS_PER_READ])
        return removed

    def _remove_some(self, job_ids: Sequence[str]) -> list[str]:
        ids, removed = list(dict.fromkeys(job_ids)), []
        for number in attempts():
            rows = [(job_id, *row) for job_id, row in zip(ids, self._rows(ids), strict=True)]
            groups = Groups(self._server, (f"j.{escape(job_id)}" for job_id, found, _ in rows if found is not None))
            changes = []
            for job_id, found, stats in rows:
                if found is not None:
                    name = escape(job_id)
                    changes.append(self._removal(name, self._places(name, found)[1], stats, groups))
                    changes[-1].result = job_id
            written = write(self._server, groups, changes, _fewer(number))
            removed += [change.result for change in written.changes]
            if written.error is not None:
                raise written.error
            ids = [change.result for change in changes[len(written.changes) :]]
            if not ids:
                return removed
        raise lost_all_races()

    def remove_all(self) -> None:
        """Remove all jobs."""
        self.remove_several([unescape(name) for name in self._server.names([Span(("jobs",))])[0]])

    def _remove(self, name: str, only_if: Callable[[JobRow, Found | None, Groups], bool] | None = None) -> bool:
        """Remove a job; false if there is none, or if ``only_if`` is false of it."""
        for _ in attempts():
            found, stats = self._server.read([("jobs", name), ("lives", name)])
            if found is None:
                return False
            groups = Groups(self._server, [f"j.{name}"])
            row, places = self._places(name, found)
            if only_if is not None and (row is None or not only_if(row, stats, groups)):
                return False
            change = self._removal(name, places, stats, groups)
            if write_all(self._server, groups, [change]):
                return True
        raise lost_all_races()

    def _removal(self, name: str, places: Sequence[Key], stats: Found | None, groups: Groups) -> Change:
        change = Change()
        change.delete(("jobs", name))
        for place in places:
            change.delete(place)
        if stats is not None:
            change.delete(("lives", name))
        group = groups[f"j.{name}"]
        change.left.add(group.name)
        change.gone.add(group.name)
        for member in [*group.live, *group.waiting][:1]:
            change.check(("members", group.name, member))  # a run that ends now may not see that the job is gone
        return change

    def suspensions(self) -> Mapping[str, str]:
        """Return job id → reason of those that are suspended."""
        names = self._server.names([Span(("suspended",))])[0]
        jobs = self._jobs([name.split(".")[0] for name in names])
        return {job.id: job.suspended for job in jobs if job.suspended is not None}

    def release(self, job_id: str) -> bool:
        """Let a suspended job fire again; false if it was not suspended."""
        for _ in attempts():
            (found,) = self._server.read([("jobs", escape(job_id))])
            row = None if found is None else self._places(escape(job_id), found)[0]
            if row is None or row.suspended is None:
                return False
            change = Change()
            change.move(row, row.moved(suspended=None))
            if self._server.commit(change):
                return True
        raise lost_all_races()

    def prune_finished(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        """Remove jobs that have fired for the last time and need not be kept; return their ids."""
        removed: list[str] = []

        def outlived(row: JobRow, stats: Found | None, groups: Groups) -> bool:
            if not retention.has_outlived(self._codec.stats(row, stats), now) or not groups[f"j.{row.key[1]}"].empty:
                return False
            removed.append(row.id)
            return True

        for name in self._server.names([Span(("finished",), None, "", encode_time(to_micros(now)))])[0]:
            if len(removed) >= limit:
                break
            self._remove(name.split(".")[1], outlived)
        return list(dict.fromkeys(removed))

    def existing(self, job_ids: set[str]) -> set[str]:
        """Return those of some jobs that exist."""
        ids = sorted(job_ids)
        found = self._server.read([("jobs", escape(job_id)) for job_id in ids])
        return {job_id for job_id, each in zip(ids, found, strict=True) if each is not None}


def _fewer(number: int) -> int:
    """Return how many changes share a transaction at this attempt: the more often it is lost, the fewer."""
    return max(1, MAX_CHANGES_PER_TRANSACTION >> (2 * number))


def _by_time(jobs: list[Job]) -> list[Job]:
    def place(job: Job) -> tuple[bool, int, str]:
        return job.next_run_time is None, 0 if job.next_run_time is None else to_micros(job.next_run_time), job.id

    return sorted(jobs, key=place)
