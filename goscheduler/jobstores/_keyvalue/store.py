"""A job store on a server of ordered keys with transactions: what etcd and ZooKeeper have in common.

Several processes may use it at once. What is kept where stands in ``rows``; how changes exclude each other, in
``server`` and ``groups``. Neither server has a clock to go by: what is due is judged by the clock of the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.errors import JobLookupError, StoreUnavailable
from goscheduler.jobstores._keyvalue.due_work import Looking, Seen
from goscheduler.jobstores._keyvalue.firing import Claiming, Firing, request_cancel
from goscheduler.jobstores._keyvalue.groups import (
    Doubts,
    Groups,
    Part,
    Work,
    attempts,
    commit,
    overtaken,
    write,
    write_all,
)
from goscheduler.jobstores._keyvalue.history import dead_letters, history, history_entry, prune
from goscheduler.jobstores._keyvalue.jobs import Jobs
from goscheduler.jobstores._keyvalue.owners import Owners, TimedHeartbeats
from goscheduler.jobstores._keyvalue.rows import Rows, RunRow, group_of, lane_of
from goscheduler.jobstores._keyvalue.server import Heartbeats, KeyValue, Span, Step, unique, word
from goscheduler.jobstores._keyvalue.settling import End, Settling, drop_pending, groups_of, rows_named
from goscheduler.jobstores._keyvalue.strays import Strays
from goscheduler.jobstores._shared.polling import LONGEST, Poll
from goscheduler.jobstores._shared.records import Records
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Requeued, SharedJobStore
from goscheduler.runs.model import DeadLetter, JobStats, Owner, Run, Settlement
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.times import UTC, from_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer


class KeyValueJobStore(SharedJobStore):
    """Keeps jobs, runs and history under one prefix of a server."""

    _path = ""
    """What every key begins with."""

    def __init__(
        self, server: KeyValue, hearts: Heartbeats, serializer: Serializer | None, server_time: bool
    ) -> None:
        self._server = server
        self._hearts = hearts if server_time else TimedHeartbeats(server)
        self._serializer = serializer
        self._who = unique()
        self._process = os.getpid()
        self._looking = Looking(server)
        self._poll = Poll()
        self._listening = False
        self._seen: tuple[FireRequest, Seen] | None = None
        """What ``fire_due`` has seen last, for the ``claim_runs`` of the same round."""

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        if self._process != os.getpid():  # connections belong to the parent of a forked child
            self._process, self._listening = os.getpid(), False
            self._server.abandon()
        self._server.open()
        self._rows = Rows(Records(scheduler, alias, self._serializer, self._path))
        self._work = Work(self._server, self._rows, Doubts(), self._who)
        self._looking.forget()
        self._jobs = Jobs(self._work, self._looking)
        self._owners = Owners(self._work, self._hearts, self._need_lane, self._logger)
        self._strays = Strays(self._work)

    def shutdown(self) -> None:
        self._listening = False
        self._server.close()

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        return self._jobs.lookup(job_id)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return self._jobs.due(now)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        return self._looking.count_due_beside(executors, until)

    def get_next_run_time(self) -> datetime | None:
        return self._jobs.next_run_time()

    def get_all_jobs(self) -> list[Job]:
        return self._jobs.all()

    def add_job(self, job: Job) -> None:
        self._jobs.add(job)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        self._jobs.add_all(jobs)
        self._ring()

    def update_job(self, job: Job) -> None:
        self._jobs.change(job.id, lambda _: job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        edited = self._jobs.change(job_id, edit)
        edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
        return edited

    def remove_job(self, job_id: str) -> None:
        self._jobs.remove(job_id)

    def remove_all_jobs(self) -> None:
        self._jobs.remove_all()

    def suspensions(self) -> Mapping[str, str]:
        return self._jobs.suspensions()

    def release(self, job_id: str) -> bool:
        return self._jobs.release(job_id)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        return self._jobs.prune_finished(retention, now, limit)

    # Firing

    def fire_due(self, request: FireRequest) -> Fired:
        fired = Fired(self._work.doubts.resolve(self._server, request.now))
        room: Mapping[str, int] = request.room
        try:
            seen = self._looking.look(request)
            if seen.has_due_jobs(room):
                firing = Firing(self._work, self._looking, request, seen)
                fired, room = firing.fire(fired.runs), firing.room
                seen = firing.left() or self._looking.look(request)
        except StoreUnavailable as error:
            if not any(fired):
                raise
            return fired._replace(error=error)  # what is ours already has to be handed over
        self._poll.found(bool(fired.runs))
        self._seen = request._replace(room=room), seen
        return fired._replace(next_due=_time(seen.job_due(room)), more=seen.crowded(room))

    def claim_runs(self, request: FireRequest) -> Claimed:
        seen, room = self._seen_just_now(request), request.room
        to_cancel = self._to_end(seen.to_cancel)
        if not seen.stuck(room) and not seen.has_due_runs(room):
            return Claimed((), _time(seen.run_due(room)), seen.crowded(room) or seen.held, to_cancel)
        claiming = Claiming(self._work, self._looking, request)
        room = claiming.room
        try:
            claiming.claim()
            seen = self._looking.look(request)
            if seen.stuck(room) and claiming.pass_on():
                claiming.claim()
                seen = self._looking.look(request)
            to_cancel = self._to_end(seen.to_cancel)
        except StoreUnavailable as error:
            return Claimed(claiming.claimed, to_cancel=to_cancel, error=error)
        return Claimed(claiming.claimed, _time(seen.run_due(room)), seen.crowded(room) or seen.held, to_cancel)

    def _seen_just_now(self, request: FireRequest) -> Seen:
        """Return what ``fire_due`` has seen a moment ago, if that was for the same, else look again."""
        seen, self._seen = self._seen, None
        same = seen is not None and seen[0]._replace(plan=request.plan) == request
        return seen[1] if seen is not None and same else self._looking.look(request)

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

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        def begin() -> Part:
            part = Part()
            if must_exist:
                if not self._jobs.existing({run.job.id}):
                    raise JobLookupError(run.job.id)
                part.step.check(("jobs", word(run.job.id)))
            return part

        self._add_run(run, begin)

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
            if write_all(self._work, groups, [part]):
                return True
        raise overtaken()

    def discard_pending(self, job_id: str | None = None) -> bool:
        dropped = False
        for _ in attempts():
            rows = self._pending_rows(job_id)
            if not rows:
                return dropped
            groups = Groups(self._server)
            groups.load(name for row in rows for name in groups_of(row))
            there = self._jobs.existing({row.job_id for row in rows})
            going = {row.place[-1] for row in rows}
            for name in {group_of(row.held) for row in rows if row.held is not None}:
                groups[name].held = [held for held in groups[name].held if held not in going]  # these are not let try
            parts = []
            for row in rows:
                part = Part()
                drop_pending(self._work, part, row, groups)
                if row.job_id not in there:
                    part.gone.add(row.groups[0])
                parts.append(part)
            written = write(self._work, groups, parts)
            dropped = dropped or bool(written.parts)
            if written.error is not None:
                raise written.error
        raise overtaken()

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

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        for _ in attempts():
            rows = rows_named(self._work, [word(run_id)])
            run = self._read_run(rows[0]) if rows else None
            if run is None:
                return None
            row = rows[0]
            groups = Groups(self._server)
            part = Part()
            if row.owner is None:
                self._call_off(part, row, end(run), groups)
            else:
                request_cancel(part, row, reason, keep_existing_reason)
            part.step.ring(self._who)
            if write_all(self._work, groups, [part]):
                return run
        raise overtaken()

    def _call_off(self, part: Part, row: RunRow, settlement: Settlement, groups: Groups) -> None:
        groups.load(groups_of(row))
        drop_pending(self._work, part, row, groups)
        if not self._jobs.existing({row.job_id}):
            part.gone.add(row.groups[0])
        part.step.create(*history_entry(record_of(settlement.attempt)))

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        rows = rows_named(self._work, self._members(job_id, "L"))
        return {row.id: row.cancel for row in rows if row.owner is not None and row.cancel is not None}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        taken: set[str] = set()
        for _ in attempts():
            rows = rows_named(self._work, [word(run_id) for run_id in requests])
            asked = [row for row in rows if row.owner == owner and row.cancel == requests[row.id]]
            if not asked:
                return taken
            for row in asked:
                part = Part()
                part.step.check(row.place)
                part.step.replace(row.key, row._replace(cancel=None).text, row.version)
                part.step.delete(row.ending)
                if write_all(self._work, Groups(self._server), [part]):
                    taken.add(row.id)
        raise overtaken()

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

    def requeue_orphans(self, limit: int) -> Requeued:
        put_back = self._strays.put_back(limit)
        if put_back.ids:
            self._ring()
        return put_back

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

    def stats_of(self, job: Job) -> JobStats:
        return job.life

    def forget_job(self, job_id: str) -> None:
        for _ in attempts():
            self.discard_pending(job_id)
            rows = rows_named(self._work, self._members(job_id, "LWP"))
            if all(row.owner is not None and row.revoked for row in rows):  # else one was claimed or put back meanwhile
                return
            parts = []
            for row in rows:
                if row.owner is not None and not row.revoked:
                    part = Part()
                    part.step.check(row.place)
                    part.step.replace(row.key, row._replace(revoked=True).text, row.version)
                    parts.append(part)
            write_all(self._work, Groups(self._server), parts)
        raise overtaken()

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
        with suppress(StoreUnavailable):  # what they should hear of is written, and they look by themselves too
            self._server.commit(step)

    def _need_lane(self, row: RunRow) -> None:
        self._looking.need(lane_of(row))


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)
