"""A job store on a server of ordered keys with transactions: what etcd and ZooKeeper have in common.

Several processes may use it at once. ``rows`` lists all keys; ``server``, ``groups`` and ``transaction`` explain how
concurrent changes exclude each other. Neither server has a clock that can be asked for the time, so the clock of the
scheduler decides which jobs are due.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.errors import JobLookupError, StoreUnavailable
from goscheduler.jobstores._keyvalue.claiming import Claiming
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.due_work import DueWork, DueWorkReader
from goscheduler.jobstores._keyvalue.firing import Firing, request_cancel
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.history import history_entry, prune
from goscheduler.jobstores._keyvalue.jobs import Jobs
from goscheduler.jobstores._keyvalue.orphans import OrphanScan
from goscheduler.jobstores._keyvalue.owners import Owners, TimedHeartbeats
from goscheduler.jobstores._keyvalue.reading import KeyValueReads
from goscheduler.jobstores._keyvalue.rows import RowCodec, RunRow, group_of
from goscheduler.jobstores._keyvalue.server import Heartbeats, KeyValue, Span, Transaction, escape, new_token
from goscheduler.jobstores._keyvalue.settling import RunEnd, Settling, drop_pending, groups_of
from goscheduler.jobstores._keyvalue.transaction import Change, attempts, lost_all_races, write, write_all
from goscheduler.jobstores._shared.polling import MAX_POLL_SECONDS, Poll
from goscheduler.jobstores._shared.records import Records
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Requeued, SharedJobStore
from goscheduler.runs.model import JobStats, Owner, Run, Settlement
from goscheduler.runs.records import Retention, record_of
from goscheduler.times import UTC, from_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import DeadLetter
    from goscheduler.runs.queries import Edited
    from goscheduler.serializers import Serializer


class KeyValueJobStore(KeyValueReads, SharedJobStore):
    """Keeps jobs, runs and history under one prefix of a server."""

    keeps_minutes = False
    _path = ""
    """The prefix of every key."""

    def __init__(
        self, server: KeyValue, heartbeats: Heartbeats, serializer: Serializer | None, server_time: bool
    ) -> None:
        self._server = server
        self._heartbeats = heartbeats if server_time else TimedHeartbeats(server)
        self._serializer = serializer
        self._instance_id = new_token()
        self._process = os.getpid()
        self._reader = DueWorkReader(server)
        self._poll = Poll()
        self._listening = False
        self._work: tuple[FireRequest, DueWork] | None = None
        """The last peek of ``fire_due``, for the ``claim_runs`` of the same round."""

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        if self._process != os.getpid():  # connections belong to the parent of a forked child
            self._process, self._listening = os.getpid(), False
            self._server.abandon()
        self._server.open()
        self._codec = RowCodec(Records(scheduler, alias, self._serializer, self._path))
        self._context = StoreContext(self._server, self._codec, self._logger, self._instance_id, self._reader.need)
        self._reader.forget()
        self._jobs = Jobs(self._context, self._reader)
        self._owners = Owners(self._context, self._heartbeats)
        self._orphans = OrphanScan(self._context)
        self._start_reading()

    def shutdown(self) -> None:
        self._listening = False
        self._server.close()

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        return self._jobs.lookup(job_id)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return self._jobs.due(now)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        return self._reader.count_due_beside(executors, until)

    def get_next_run_time(self) -> datetime | None:
        return self._jobs.next_run_time()

    def get_all_jobs(self) -> list[Job]:
        return self._jobs.all()

    def add_job(self, job: Job) -> None:
        self._jobs.add(job)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        self._jobs.add_all(jobs)
        self._notify()

    def update_job(self, job: Job) -> None:
        self._jobs.change(job.id, lambda _: job)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        edited = self._jobs.change(job_id, edit)
        edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
        return edited

    def edit_jobs(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        edited = self._jobs.change_several(job_ids, edit)
        for job in edited.changed:
            job._scheduler, job._jobstore_alias = self._scheduler, self._alias
        if edited.changed:
            self._notify()
        return edited

    def remove_job(self, job_id: str) -> None:
        self._jobs.remove(job_id)

    def remove_jobs(self, job_ids: Sequence[str]) -> list[str]:
        return self._jobs.remove_several(job_ids)

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
        fired, room = Fired(), request.room
        work = self._reader.peek(request)
        if work.has_due_jobs(room):
            firing = Firing(self._context, self._reader, request, work)
            fired, room = firing.fire(), firing.room
            if fired.error is not None:
                return fired
            try:
                work = firing.remaining_work() or self._reader.peek(request)
            except StoreUnavailable as error:
                return fired._replace(error=error)  # the runs are ours already and have to be handed over
        self._poll.found(bool(fired.runs))
        self._work = request._replace(room=room), work
        return fired._replace(next_due=_time(work.job_due(room)), more=work.out_of_capacity(room))

    def claim_runs(self, request: FireRequest) -> Claimed:
        work, room = self._work_of_this_round(request), request.room
        to_cancel = self._to_cancel(work.to_cancel)
        claiming = Claiming(self._context, self._reader, request)
        if work.is_stuck(room) or work.has_due_runs(room):
            room = claiming.room
            try:
                claiming.claim()
                work = self._reader.peek(request)
                if work.is_stuck(room) and claiming.pass_on():
                    claiming.claim()
                    work = self._reader.peek(request)
                to_cancel = self._to_cancel(work.to_cancel)
            except StoreUnavailable as error:
                return Claimed(claiming.claimed, to_cancel=to_cancel, error=error)
        more = work.out_of_capacity(room) or work.has_blocked
        return Claimed(claiming.claimed, _time(work.run_due(room)), more, to_cancel)

    def _work_of_this_round(self, request: FireRequest) -> DueWork:
        """Return the last peek of ``fire_due``, if it was for the same request, or peek again."""
        last, self._work = self._work, None
        same = last is not None and last[0]._replace(plan=request.plan) == request
        return last[1] if last is not None and same else self._reader.peek(request)

    def _to_cancel(self, names: Sequence[str]) -> list[tuple[Run, str]]:
        rows = self._context.run_rows(names) if names else []
        return [
            (run, row.cancel)
            for row in rows
            if row.cancel is not None and (run := self._context.read_run(row)) is not None
        ]

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        by_run = {(each.attempt.run.id, each.attempt.run.fence): each for each in settlements}
        settling = Settling(self._context)
        settling.end([RunEnd(each.attempt.run, each) for each in settlements])
        if settling.has_new_work:
            self._notify()
        return [by_run[run.id, run.fence] for run in settling.refused]

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        def begin() -> Change | None:
            change = Change()
            if self._server.read([("runs", escape(run.id))])[0] is not None:
                return None
            if must_exist:
                if not self._jobs.existing({run.job.id}):
                    raise JobLookupError(run.job.id)
                change.check(("jobs", escape(run.job.id)))
            return change

        self._add_run(run, begin)

    def _add_run(self, run: Run, begin: Callable[[], Change | None]) -> bool:
        """Write a pending run together with the change that ``begin`` returns; false if it returns none."""
        row = self._codec.new_run(run)
        self._context.need_queue(row)
        for _ in attempts():
            change = begin()
            if change is None:
                return False
            groups = Groups(self._server, row.groups)
            change.add_run(row, groups)
            change.notify(self._instance_id)
            if write_all(self._server, groups, [change]):
                return True
        raise lost_all_races()

    def discard_pending(self, job_id: str | None = None) -> bool:
        dropped = False
        for _ in attempts():
            rows = self._pending_rows(job_id)
            if not rows:
                return dropped
            groups = Groups(self._server, (name for row in rows for name in groups_of(row)))
            there = self._jobs.existing({row.job_id for row in rows})
            going = {row.place[-1] for row in rows}
            for name in {group_of(row.blocked_on) for row in rows if row.blocked_on is not None}:
                groups[name].blocked = [
                    each for each in groups[name].blocked if each not in going
                ]  # so that none of these is unblocked
            changes = []
            for row in rows:
                change = Change()
                drop_pending(self._context, change, row, groups)
                if row.job_id not in there:
                    change.gone.add(row.groups[0])
                changes.append(change)
            written = write(self._server, groups, changes)
            dropped = dropped or bool(written.changes)
            if written.error is not None:
                raise written.error
        raise lost_all_races()

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        if job_id is None:
            names = [name.split(".")[1] for name in self._server.names([Span(("owned",))])[0]]
        else:
            names = self._members(job_id, "L")
        return self._runs_of([row for row in self._context.run_rows(names) if row.owner is not None])

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_of(self._pending_rows(job_id))

    def _pending_rows(self, job_id: str | None) -> list[RunRow]:
        names = self._server.names([Span(("runs",))])[0] if job_id is None else self._members(job_id, "WP")
        return [row for row in self._context.run_rows(names) if row.owner is None and row.place[0] != "aside"]

    def _members(self, job_id: str, kinds: str) -> list[str]:
        """Return the escaped ids of the runs of a job that are of some kinds."""
        names = self._server.names([Span(("members", f"j.{escape(job_id)}"))])[0]
        return [name[2:] for name in names if name[0] in kinds]

    def _runs_of(self, rows: Sequence[RunRow]) -> list[Run]:
        ordered = sorted(rows, key=lambda row: (row.due, row.id))
        return [run for row in ordered if (run := self._context.read_run(row)) is not None]

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        for _ in attempts():
            rows = self._context.run_rows([escape(run_id)])
            run = self._context.read_run(rows[0]) if rows else None
            if run is None:
                return None
            row = rows[0]
            groups = Groups(self._server)
            change = Change()
            if row.owner is None:
                self._call_off(change, row, end(run), groups)
            else:
                request_cancel(change, row, reason, keep_existing_reason)
            change.notify(self._instance_id)
            if write_all(self._server, groups, [change]):
                return run
        raise lost_all_races()

    def _call_off(self, change: Change, row: RunRow, settlement: Settlement, groups: Groups) -> None:
        groups.load(groups_of(row))
        drop_pending(self._context, change, row, groups)
        if not self._jobs.existing({row.job_id}):
            change.gone.add(row.groups[0])
        change.create(*history_entry(record_of(settlement.attempt)))

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        rows = self._context.run_rows(self._members(job_id, "L"))
        return {row.id: row.cancel for row in rows if row.owner is not None and row.cancel is not None}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        taken: set[str] = set()
        for _ in attempts():
            rows = self._context.run_rows([escape(run_id) for run_id in requests])
            asked = [row for row in rows if row.owner == owner and row.cancel == requests[row.id]]
            if not asked:
                return taken
            for row in asked:
                change = Change()
                change.move(row, row._replace(cancel=None))
                if write_all(self._server, Groups(self._server), [change]):
                    taken.add(row.id)
        raise lost_all_races()

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        return self._owners.renew(owner, now, lease)

    def retire_owner(self, owner: str) -> None:
        if self._owners.retire(owner):
            self._notify()

    def owners(self, now: datetime) -> list[Owner]:
        return self._owners.alive(now)

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        settlements = self._owners.recover(now, decide)
        if settlements:
            self._notify()
        return settlements

    def requeue_orphans(self, limit: int) -> Requeued:
        requeued = self._orphans.requeue(limit)
        if requeued.ids:
            self._notify()
        return requeued

    # History

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        return prune(self._context, retention, now, limit)

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        key = ("dead", escape(run_id))

        def begin() -> Change | None:
            change = Change()
            change.delete(key)
            return change if self._server.read([key])[0] is not None else None

        (found,) = self._server.read([key])
        if found is None:
            return False
        if follow_up is not None:
            return self._add_run(follow_up(self._codec.letter(found)), begin)
        return self._server.commit(Transaction().delete(key))

    def stats_of(self, job: Job) -> JobStats:
        return job.stats

    def forget_job(self, job_id: str) -> None:
        for _ in attempts():
            self.discard_pending(job_id)
            rows = self._context.run_rows(self._members(job_id, "LWP"))
            # Otherwise a process has claimed a run, or put one back, meanwhile.
            if all(row.owner is not None and row.revoked for row in rows):
                return
            changes = []
            for row in rows:
                if row.owner is not None and not row.revoked:
                    change = Change()
                    change.move(row, row._replace(revoked=True))
                    changes.append(change)
            write_all(self._server, Groups(self._server), changes)
        raise lost_all_races()

    # Others

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._server.listen(lambda notification: None if notification.startswith(self._instance_id) else wake())
        self._listening = True

    def poll_after(self) -> float:
        # A process that moves a job to a later time notifies no other, and may have no room when that time comes.
        return MAX_POLL_SECONDS if self._listening else self._poll.seconds

    def _notify(self) -> None:
        transaction = Transaction()
        transaction.notify(self._instance_id)
        with suppress(StoreUnavailable):  # the news is written, and other processes also poll
            self._server.commit(transaction)


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)
