"""The jobs of a store on etcd or ZooKeeper: found, added, changed, removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.errors import ConflictingIdError, InvalidArgument, JobLookupError
from goscheduler.jobstores._keyvalue.due_work import Looking
from goscheduler.jobstores._keyvalue.groups import Groups, Part, Work, attempts, commit, overtaken, write, write_all
from goscheduler.jobstores._keyvalue.rows import JobRow, lane_of
from goscheduler.jobstores._keyvalue.server import (
    Found,
    Key,
    Span,
    Step,
    check_size,
    read_all,
    time_of,
    time_word,
    word,
)
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Retention


class Jobs:
    """The jobs of one store."""

    def __init__(self, work: Work, looking: Looking) -> None:
        self._work = work
        self._server = work.server
        self._rows = work.rows
        self._looking = looking

    def lookup(self, job_id: str) -> Job | None:
        """Return the job by this id, or None."""
        name = word(job_id)
        found, life = self._server.read([("jobs", name), ("lives", name)])
        return None if found is None else self._job(name, found, life)

    def due(self, now: datetime) -> list[Job]:
        """Return the jobs that are due, ascending by time."""
        names = self._looking.everything("due", time_word(to_micros(now) + 1))
        return _by_time(self._jobs([name.split(".")[1] for name in names]))

    def next_run_time(self) -> datetime | None:
        """Return the earliest next time of all jobs, or None."""
        times = [time_of(name) for name in self._looking.everything("due", limit=1)]
        return from_micros(min(times), UTC) if times else None

    def all(self) -> list[Job]:
        """Return all jobs, ascending by time, paused ones last."""
        lives = dict(read_all(self._server, ("lives",)))
        return _by_time([self._job(name, found, lives.get(name)) for name, found in read_all(self._server, ("jobs",))])

    def _jobs(self, names: Sequence[str]) -> list[Job]:
        found = self._server.read([key for name in names for key in (("jobs", name), ("lives", name))])
        return [
            self._job(name, there, found[2 * index + 1])
            for index, name in enumerate(names)
            if (there := found[2 * index]) is not None
        ]

    def _job(self, name: str, found: Found, life: Found | None) -> Job:
        try:
            return self._rows.job(self._rows.job_row(found), life)
        except CodecError:
            return self._rows.unreadable_job(name, found)

    def add(self, job: Job) -> None:
        """Add a job, and have others told."""
        row = self._new_row(job)
        self._looking.need(lane_of(row))
        step = Step()
        step.create(row.place)
        step.create(row.key, row.text)
        step.ring(self._work.who)
        if not commit(self._work, step):
            raise ConflictingIdError(job.id)

    def add_all(self, jobs: Sequence[Job]) -> None:
        """Add all of these or none; where that takes several steps, what was written is taken back."""
        rows = [self._new_row(job) for job in jobs]
        for lane in {lane_of(row) for row in rows}:
            self._looking.need(lane)
        parts = []
        for row in rows:
            part = Part()
            part.step.create(row.place)
            part.step.create(row.key, row.text)
            part.told = row
            parts.append(part)
        if len({row.key for row in rows}) < len(rows):
            raise ConflictingIdError(Counter(row.id for row in rows).most_common(1)[0][0])
        written = write(self._work, Groups(self._server), parts)
        if len(written.parts) == len(parts):
            return
        for part in written.parts:
            self._remove(part.told.key[1])
        if written.error is not None:
            raise written.error
        rest = [part.told.id for part in parts[len(written.parts) :]]
        raise ConflictingIdError(min(self.existing(set(rest)), default=rest[0]))

    def change(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        """Replace a job by what ``edit`` makes of it, and return that."""
        name = word(job_id)
        for _ in attempts():
            found, life = self._server.read([("jobs", name), ("lives", name)])
            if found is None:
                raise JobLookupError(job_id)
            edited = edit(self._job(name, found, life))
            before, places = self._places(name, found)
            row = self._new_row(edited, before)
            self._looking.need(lane_of(row))
            step = Step()
            for place in places:
                step.delete(place)
            step.create(row.place)
            step.replace(row.key, row.text, found.version)
            step.ring(self._work.who)
            if commit(self._work, step):
                return edited
        raise overtaken()

    def _new_row(self, job: Job, row: JobRow | None = None) -> JobRow:
        new = self._rows.new_job(job, "" if row is None else row.born, 0 if row is None else row.fence)
        # A run has the definition once more inside of it, and quoted.
        check_size(f"Job {job.id!r}", new.text, self._server.most_bytes // 3)
        if 5 * len(new.limits) + 20 > self._server.most_changes:
            raise InvalidArgument(
                f"Job {job.id!r} has {len(new.limits)} limits; this job store takes at most "
                f"{(self._server.most_changes - 20) // 5} for one job", field="limits",
            )  # fmt: skip
        return new

    def _places(self, name: str, found: Found) -> tuple[JobRow | None, list[Key]]:
        """Return the row of a job, and where it stands: of one that cannot be read that is looked for."""
        try:
            row = self._rows.job_row(found)
            return row, [row.place]
        except CodecError:
            names = self._server.names([Span.of_prefix(("suspended",), name)])[0]
            return None, [("suspended", each) for each in names]

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        if not self._remove(word(job_id)):
            raise JobLookupError(job_id)

    def remove_all(self) -> None:
        """Remove all jobs that are there."""
        for name in self._server.names([Span(("jobs",))])[0]:
            self._remove(name)

    def _remove(self, name: str, only_if: Callable[[JobRow, Found | None, Groups], bool] | None = None) -> bool:
        """Remove a job; false if there is none, or if it is not to be removed as it is found."""
        for _ in attempts():
            found, life = self._server.read([("jobs", name), ("lives", name)])
            if found is None:
                return False
            groups = Groups(self._server)
            groups.load([f"j.{name}"])
            row, places = self._places(name, found)
            if only_if is not None and (row is None or not only_if(row, life, groups)):
                return False
            part = self._removal(name, places, life, groups)
            if write_all(self._work, groups, [part]):
                return True
        raise overtaken()

    def _removal(self, name: str, places: Sequence[Key], life: Found | None, groups: Groups) -> Part:
        part = Part()
        part.step.delete(("jobs", name))
        for place in places:
            part.step.delete(place)
        if life is not None:
            part.step.delete(("lives", name))
        group = groups[f"j.{name}"]
        part.left.add(group.name)
        part.gone.add(group.name)
        for member in [*group.live, *group.waiting][:1]:
            part.step.check(("members", group.name, member))  # else its end may not have seen that the job is gone
        return part

    def suspensions(self) -> Mapping[str, str]:
        """Return job id → reason of those that are suspended."""
        names = self._server.names([Span(("suspended",))])[0]
        jobs = self._jobs([name.split(".")[0] for name in names])
        return {job.id: job.suspended for job in jobs if job.suspended is not None}

    def release(self, job_id: str) -> bool:
        """Let a suspended job fire again; false if it was not suspended."""
        for _ in attempts():
            (found,) = self._server.read([("jobs", word(job_id))])
            row = None if found is None else self._places(word(job_id), found)[0]
            if row is None or row.suspended is None:
                return False
            released = row.moved(suspended=None)
            step = Step()
            step.delete(row.place)
            step.create(released.place)
            step.replace(row.key, released.text)
            if commit(self._work, step):
                return True
        raise overtaken()

    def prune_finished(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        """Remove jobs that are over and not kept any longer; return their ids."""
        removed: list[str] = []

        def outlived(row: JobRow, life: Found | None, groups: Groups) -> bool:
            if not retention.has_outlived(self._rows.life(row, life), now) or not groups[f"j.{row.key[1]}"].empty:
                return False
            removed.append(row.id)
            return True

        for name in self._server.names([Span(("finished",), None, "", time_word(to_micros(now)))])[0]:
            if len(removed) >= limit:
                break
            self._remove(name.split(".")[1], outlived)
        return list(dict.fromkeys(removed))

    def existing(self, job_ids: set[str]) -> set[str]:
        """Return those of some jobs that exist."""
        ids = sorted(job_ids)
        found = self._server.read([("jobs", word(job_id)) for job_id in ids])
        return {job_id for job_id, each in zip(ids, found, strict=True) if each is not None}


def _by_time(jobs: list[Job]) -> list[Job]:
    def place(job: Job) -> tuple[bool, int, str]:
        return job.next_run_time is None, 0 if job.next_run_time is None else to_micros(job.next_run_time), job.id

    return sorted(jobs, key=place)
