"""A job store on a server of ordered keys with transactions: what etcd and ZooKeeper have in common.

Several processes may use it at once. What is kept where stands in ``_kv_rows``; how changes exclude each other, in
``_kv_port`` and ``_kv_groups``. Neither server has a clock to go by: what is due is judged by the clock of the
scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.errors import ConflictingIdError, InvalidArgument, JobLookupError
from goscheduler.jobstores._kv_firing import Claiming, Firing, left_over, tell_to_end
from goscheduler.jobstores._kv_groups import Doubts, Groups, Part, Work, attempts, commit, write
from goscheduler.jobstores._kv_history import dead_letters, history, history_entry, prune
from goscheduler.jobstores._kv_looking import Looking
from goscheduler.jobstores._kv_owners import Owners, TimedHeartbeats
from goscheduler.jobstores._kv_port import (
    Found,
    Heartbeats,
    KeyValue,
    Span,
    Step,
    check_size,
    read_all,
    time_of,
    time_word,
    unique,
    word,
)
from goscheduler.jobstores._kv_rows import JobRow, Rows, RunRow, lane_of
from goscheduler.jobstores._kv_settling import End, Settling, drop_pending, groups_of, rows_named
from goscheduler.jobstores._polling import LONGEST, Poll
from goscheduler.jobstores._records import Records
from goscheduler.jobstores.base import BaseJobStore, Claimed, Fired, FireRequest
from goscheduler.runs.model import DeadLetter, JobLife, Owner, Run, Settlement
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.times import UTC, from_instant, instant

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer


class KeyValueJobStore(BaseJobStore):
    """Keeps jobs, runs and history under one prefix of a server."""

    shared = True

    def __init__(
        self, server: KeyValue, hearts: Heartbeats, serializer: Serializer | None, server_time: bool
    ) -> None:
        self._server = server
        self._hearts = hearts if server_time else TimedHeartbeats(server)
        self._serializer = serializer
        self._who = unique()
        self._looking = Looking(server)
        self._poll = Poll()
        self._listening = False

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._server.open()
        self._rows = Rows(Records(scheduler, alias, self._serializer))
        self._work = Work(self._server, self._rows, Doubts(), self._who)
        self._looking.forget()
        self._owners = Owners(self._work, self._hearts, self._need_lane, self._logger)

    def shutdown(self) -> None:
        self._listening = False
        self._server.close()

    def forget_live_runs(self) -> None:
        """Let go of the connections of the parent; runs of earlier starts belong to their owners."""
        self._listening = False
        self._server.abandon()

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        name = word(job_id)
        found, life = self._server.read([("jobs", name), ("lives", name)])
        return None if found is None else self._job(name, found, life)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        names = self._looking.everything("due", time_word(instant(now) + 1))
        return _by_time(self._jobs([name.split(".")[1] for name in names]))

    def get_next_run_time(self) -> datetime | None:
        times = [time_of(name) for name in self._looking.everything("due", limit=1)]
        return from_instant(min(times), UTC) if times else None

    def get_all_jobs(self) -> list[Job]:
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

    def add_job(self, job: Job) -> None:
        row = self._new_row(job)
        self._looking.need(lane_of(row))
        step = Step()
        step.create(row.place)
        step.create(row.key, row.text)
        step.ring(self._who)
        if not commit(self._work, step):
            raise ConflictingIdError(job.id)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
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
        written, taken = write(self._work, Groups(self._server), parts)
        if taken:
            for part in written:
                self._remove(part.told.key[1])
            there = self._there({part.told.id for part in parts[len(written) :]})
            raise ConflictingIdError(min(there, default=parts[len(written)].told.id))
        self._ring()

    def update_job(self, job: Job) -> None:
        self._change(job.id, lambda _: job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        edited = self._change(job_id, edit)
        edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
        return edited

    def _change(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        name = word(job_id)
        for _ in attempts():
            found, life = self._server.read([("jobs", name), ("lives", name)])
            if found is None:
                raise JobLookupError(job_id)
            edited = edit(self._job(name, found, life))
            before = self._places(name, found)
            row = self._new_row(edited, before)
            self._looking.need(lane_of(row))
            step = Step()
            for place in before[1]:
                step.delete(place)
            step.create(row.place)
            step.replace(row.key, row.text, found.version)
            step.ring(self._who)
            if commit(self._work, step):
                return edited
        raise AssertionError("unreachable")

    def _new_row(self, job: Job, before: tuple[JobRow | None, Any] = (None, ())) -> JobRow:
        row = before[0]
        new = self._rows.new_job(job, "" if row is None else row.born, 0 if row is None else row.fence)
        # A run has the definition once more inside of it, and quoted.
        check_size(f"Job {job.id!r}", new.text, self._server.most_bytes // 3)
        if 5 * len(new.limits) + 20 > self._server.most_changes:
            raise InvalidArgument(
                f"Job {job.id!r} has {len(new.limits)} limits; this job store takes at most "
                f"{(self._server.most_changes - 20) // 5} for one job", field="limits",
            )  # fmt: skip
        return new

    def _places(self, name: str, found: Found) -> tuple[JobRow | None, list[tuple[str, ...]]]:
        """Return the row of a job, and where it stands: of one that cannot be read that is looked for."""
        try:
            row = self._rows.job_row(found)
            return row, [row.place]
        except CodecError:
            names = self._server.names([Span.of_prefix(("suspended",), name)])[0]
            return None, [("suspended", each) for each in names]

    def remove_job(self, job_id: str) -> None:
        if not self._remove(word(job_id)):
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
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
            if not write(self._work, groups, [part])[1]:
                return True
        raise AssertionError("unreachable")

    def _removal(self, name: str, places: Sequence[Any], life: Found | None, groups: Groups) -> Part:
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

    # Firing

    def fire_due(self, request: FireRequest) -> Fired:
        seen = self._looking.look(request, request.room)
        fired = Fired()
        if seen.job_due is not None and seen.job_due <= instant(request.now):
            fired = Firing(self._work, self._looking, request).fire()
            seen = self._looking.look(request, left_over(request.room, fired.runs))
        self._poll.found(bool(fired.runs))
        return fired._replace(next_due=_time(seen.job_due), more=seen.crowded)

    def claim_runs(self, request: FireRequest) -> Claimed:
        seen = self._looking.look(request, request.room)
        claimed = Claimed()
        if seen.run_due is not None and seen.run_due <= instant(request.now):
            claimed = Claiming(self._work, self._looking, request).claim()
            seen = self._looking.look(request, left_over(request.room, claimed.runs))
        return claimed._replace(
            next_due=_time(seen.run_due), more=seen.crowded or seen.held, to_end=self._to_end(seen.to_end)
        )

    def _to_end(self, names: Sequence[str]) -> list[tuple[Run, str]]:
        rows = rows_named(self._work, names) if names else []
        return [
            (run, row.cancel) for row in rows if row.cancel is not None and (run := self._read_run(row)) is not None
        ]

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        by_run = {(each.attempt.run.id, each.attempt.run.fence): each for each in settlements}
        settling = Settling(self._work, self._need_lane)
        settling.end(End(each.attempt.run, each) for each in settlements)
        if settling.more:
            self._ring()
        return [by_run[run.id, run.fence] for run in settling.refused]

    def add_run(self, run: Run) -> None:
        self._add_run(run, Part)

    def _add_run(self, run: Run, begin: Callable[[], Part | None]) -> bool:
        """Write a pending run together with what ``begin`` returns; false if that is nothing."""
        row = self._rows.new_run(run)
        self._need_lane(row)
        for _ in attempts():
            part = begin()
            if part is None:
                return False
            groups = Groups(self._server)
            groups.load(row.groups)
            part.add_run(row, groups)
            part.step.ring(self._who)
            if not write(self._work, groups, [part])[1]:
                return True
        raise AssertionError("unreachable")

    def discard_pending(self, job_id: str | None = None) -> bool:
        dropped = False
        for _ in attempts():
            rows = self._pending_rows(job_id)
            if not rows:
                return dropped
            groups = Groups(self._server)
            groups.load(name for row in rows for name in groups_of(row))
            there = self._there({row.job_id for row in rows})
            parts = []
            for row in rows:
                part = Part()
                drop_pending(self._work, part, row, groups)
                if row.job_id not in there:
                    part.gone.add(row.groups[0])
                parts.append(part)
            written, _ = write(self._work, groups, parts)
            dropped = dropped or bool(written)
        return dropped

    def _there(self, job_ids: set[str]) -> set[str]:
        """Return those of some jobs that exist."""
        ids = sorted(job_ids)
        found = self._server.read([("jobs", word(job_id)) for job_id in ids])
        return {job_id for job_id, each in zip(ids, found, strict=True) if each is not None}

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        if job_id is None:
            names = [name.split(".")[1] for name in self._server.names([Span(("owned",))])[0]]
        else:
            names = self._members(job_id, "L")
        return self._runs_of([row for row in rows_named(self._work, names) if row.owner is not None])

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_of(self._pending_rows(job_id))

    def _pending_rows(self, job_id: str | None) -> list[RunRow]:
        names = self._server.names([Span(("runs",))])[0] if job_id is None else self._members(job_id, "WP")
        return [row for row in rows_named(self._work, names) if row.owner is None and row.place[0] != "aside"]

    def _members(self, job_id: str, kinds: str) -> list[str]:
        """Return the words of the runs of a job that are of some kinds."""
        names = self._server.names([Span(("members", f"j.{word(job_id)}"))])[0]
        return [name[2:] for name in names if name[0] in kinds]

    def _runs_of(self, rows: Sequence[RunRow]) -> list[Run]:
        ordered = sorted(rows, key=lambda row: (row.due, row.id))
        return [run for row in ordered if (run := self._read_run(row)) is not None]

    def _read_run(self, row: RunRow) -> Run | None:
        try:
            return self._rows.run(row)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", row.id, error)
            return None

    def cancel_run(self, run_id: str, reason: str, end: Callable[[Run], Settlement]) -> Run | None:
        for _ in attempts():
            (row,) = rows_named(self._work, [word(run_id)]) or [None]
            run = None if row is None else self._read_run(row)
            if row is None or run is None:
                return None
            groups = Groups(self._server)
            part = Part()
            if row.owner is None:
                self._call_off(part, row, end(run), groups)
            else:
                tell_to_end(part, row, reason)
            part.step.ring(self._who)
            if not write(self._work, groups, [part])[1]:
                return run
        raise AssertionError("unreachable")

    def _call_off(self, part: Part, row: RunRow, settlement: Settlement, groups: Groups) -> None:
        groups.load(groups_of(row))
        drop_pending(self._work, part, row, groups)
        if not self._there({row.job_id}):
            part.gone.add(row.groups[0])
        part.step.create(*history_entry(record_of(settlement.attempt)))

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        return self._owners.renew(owner, now, lease)

    def retire_owner(self, owner: str) -> None:
        if self._owners.retire(owner):
            self._ring()

    def owners(self, now: datetime) -> list[Owner]:
        return self._owners.alive(now)

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        settlements = self._owners.recover(now, decide)
        if settlements:
            self._ring()
        return settlements

    # History

    def history(self, query: HistoryQuery) -> list[Record]:
        return history(self._work, query, self._logger)

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        return prune(self._work, retention, now, limit)

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        return dead_letters(self._work, query, self._logger)

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        key = ("dead", word(run_id))

        def begin() -> Part | None:
            part = Part()
            part.step.delete(key)
            return part if self._server.read([key])[0] is not None else None

        (found,) = self._server.read([key])
        if found is None:
            return False
        if follow_up is not None:
            return self._add_run(follow_up(self._rows.letter(found)), begin)
        step = Step()
        step.delete(key)
        return commit(self._work, step)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        removed: list[str] = []

        def outlived(row: JobRow, life: Found | None, groups: Groups) -> bool:
            if not retention.has_outlived(self._rows.life(row, life), now) or not groups[f"j.{row.key[1]}"].empty:
                return False
            removed.append(row.id)
            return True

        for name in self._server.names([Span(("finished",), None, "", time_word(instant(now)))])[0]:
            if len(removed) >= limit:
                break
            self._remove(name.split(".")[1], outlived)
        return list(dict.fromkeys(removed))

    # Suspension

    def suspensions(self) -> Mapping[str, str]:
        names = self._server.names([Span(("suspended",))])[0]
        jobs = self._jobs([name.split(".")[0] for name in names])
        return {job.id: job.suspended for job in jobs if job.suspended is not None}

    def release(self, job_id: str) -> bool:
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
        raise AssertionError("unreachable")

    def life_of(self, job: Job) -> JobLife:
        return job.life

    def forget_job(self, job_id: str) -> None:
        self.discard_pending(job_id)
        for _ in attempts():
            rows = [row for row in rows_named(self._work, self._members(job_id, "L")) if not row.revoked]
            parts = []
            for row in rows:
                part = Part()
                part.step.check(row.place)
                part.step.replace(row.key, row._replace(revoked=True).text)
                parts.append(part)
            if not write(self._work, Groups(self._server), parts)[1]:
                return

    # Others

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._server.listen(lambda rung: None if rung.startswith(self._who) else wake())
        self._listening = True

    def poll_after(self) -> float:
        # What others have moved on to a later time nobody is told of, and they may have no room when it comes.
        return LONGEST if self._listening else self._poll.seconds

    def _ring(self) -> None:
        step = Step()
        step.ring(self._who)
        self._server.commit(step)

    def _need_lane(self, row: RunRow) -> None:
        self._looking.need(lane_of(row))


def _by_time(jobs: list[Job]) -> list[Job]:
    def place(job: Job) -> tuple[bool, int, str]:
        return job.next_run_time is None, 0 if job.next_run_time is None else instant(job.next_run_time), job.id

    return sorted(jobs, key=place)


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_instant(microseconds, UTC)
