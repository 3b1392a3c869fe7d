"""How the stores on etcd and ZooKeeper keep jobs and runs, and under which keys.

==========================================  ===========================================================================
key                                         value
==========================================  ===========================================================================
``jobs/<job>``                              a job: a line of JSON with its state, then its definition
``lives/<job>``                             the statistics of a job: number of runs, last run, last error …
``runs/<run>``                              a run that has not ended: a line of JSON with its state, then the run
``lanes/<queue>``                           empty; a queue is an executor, a priority and a task
``groups/<group>``                          recent starts under a limit; ``j.<job>`` of a job, ``l.<limit>`` of a limit
``members/<group>/T.<token>``               empty; the version of the group: replaced to add a live run to the group
``members/<group>/L.<run>``                 empty; a live run of the group
``members/<group>/W.<run>``, ``P.<run>``    empty; a pending run of the job: of a fire time, or any other
``history/<time>.<run>.<fence>.…``          a record; its name sorts newest first, and has outcome and job
``dead/<run>``                              a dead letter
``notes/<kind>/<key>``                      a note; the names of a kind sort the last key first
``removals``                                empty; overwritten whenever a note is removed
``owners/<owner>``, ``hosts/<owner>``       an owner whose lease lasts, and its host
``held/<run>``                              empty; a pending run that is blocked by live runs
``freed/<run>``                             empty; a pending run that was unblocked and that no process has claimed yet
``ending/<owner>.<run>``                    empty; a cancel request for a live run
``bell``                                    the store that has last written something other processes should read
==========================================  ===========================================================================

A job stands in exactly one **place**, and so does a run. A process that changes the state of a job deletes its place
and creates another, whose name ends in a token that is used once. So if two processes change the same job, one of them
fails.

=====================================================  ================================================================
place                                                  of
=====================================================  ================================================================
``due/<queue>/<time>.<job>.<token>``                   a job that fires at that time
``paused/<job>.<token>``                               a job without a next time
``finished/<time>.<job>.<token>``                      a job that has fired for the last time
``suspended/<job>.<token>``                            a job that cannot be run
``ready/<queue>/<time>.<run>.<token>``                 a pending run
``members/<group>/H.<time>.<run>.<token>``             a pending run that is blocked until a run of the group ends
``owned/<owner>.<run>.<fence>``                        a live run
``aside/<run>.<token>``                                a run that cannot be read
=====================================================  ================================================================
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import described
from goscheduler.jobstores._keyvalue.server import Found, Key, encode_time, escape, new_token, unescape
from goscheduler.jobstores._shared.records import Records, history_record, history_text, read_zone, zone_text
from goscheduler.runs.model import NO_STATS, DeadLetter, JobStats, OutcomeKind, Source
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run


class JobRow(NamedTuple):
    """A job as it is stored."""

    id: str
    executor: str
    task: str | None
    priority: int
    next_run: int | None
    zone: str
    fence: int
    suspended: str | None
    limits: list[str]
    decided: Any
    """What edits decide of its statistics; who has paused it, or None, where that is all."""
    finished: int | None
    born: str
    """A token that tells the job from an earlier one of the same id."""
    place: Key
    definition: str = ""
    version: int | None = None
    """Of the value that was read, if it was and has not been moved since."""

    @property
    def key(self) -> Key:
        return ("jobs", escape(self.id))

    @property
    def text(self) -> str:
        return f"{json.dumps(self[:-2])}\n{self.definition}"

    @property
    def entries(self) -> list[Key]:
        """The keys that tell its state."""
        return [self.place]

    def moved(self, **changes: Any) -> JobRow:
        """Return the row with changes, in a new place."""
        row = self._replace(**changes)
        return row._replace(place=_job_place(row), version=None)


class RunRow(NamedTuple):
    """A run as it is stored."""

    id: str
    job_id: str
    executor: str
    task: str | None
    priority: int
    due: int
    owner: str | None
    fence: int
    blocked_on: str | None
    """The key of the group that blocks it."""
    unblocked_by: str | None
    """The key of the group that has unblocked it, until a process claims it."""
    cancel: str | None
    """The reason of its cancel request."""
    firing: bool
    revoked: bool
    """Whether its job was removed, so that nothing may follow it."""
    limits: list[str]
    place: Key
    run: str = ""
    version: int | None = None
    """Of the value that was read. A cancel request changes the value and leaves the place."""

    @property
    def key(self) -> Key:
        return ("runs", escape(self.id))

    @property
    def text(self) -> str:
        return f"{json.dumps(self[:-2])}\n{self.run}"

    @property
    def groups(self) -> list[str]:
        """The groups in which it counts while it is live: its job, then its limits."""
        return [f"j.{escape(self.job_id)}", *(f"l.{escape(name)}" for name in self.limits)]

    @property
    def member_of(self) -> list[str]:
        """The groups that it is a member of now."""
        return self.groups if self.owner is not None else self.groups[:1]

    @property
    def member(self) -> Key:
        """Its entry in the group of its job."""
        kind = "L" if self.owner is not None else "W" if self.firing else "P"
        return ("members", self.groups[0], f"{kind}.{escape(self.id)}")

    @property
    def blocked_key(self) -> Key:
        """Tells every process that it is blocked."""
        return ("held", escape(self.id))

    @property
    def unblocked_key(self) -> Key:
        """Tells every process that it was unblocked."""
        return ("freed", escape(self.id))

    @property
    def cancel_key(self) -> Key:
        """Tells its owner about a cancel request."""
        return ("ending", f"{escape(self.owner or '')}.{escape(self.id)}")

    @property
    def entries(self) -> list[Key]:
        """The keys that tell its state, but for its memberships: its place, and that others have to act on it."""
        conditions = (
            (self.blocked_on is not None, self.blocked_key),
            (self.unblocked_by is not None, self.unblocked_key),
            (self.owner is not None and self.cancel is not None, self.cancel_key),
        )
        return [self.place, *(key for holds, key in conditions if holds)]

    def moved(self, **changes: Any) -> RunRow:
        """Return the row with changes, in a new place."""
        row = self._replace(**changes)
        return row._replace(place=_run_place(row), version=None)


def queue_of(row: JobRow | RunRow) -> str:
    """Return the name of the queue of a job or a run."""
    return f"{escape(row.executor)}.{row.priority}.{'' if row.task is None else escape(row.task)}"


def group_of(key: str) -> str:
    """Return the group that a key of :func:`goscheduler.runs.plan.keys_of` stands for."""
    kind, _, name = key.partition(":")
    return f"{kind[0]}.{escape(name)}"


def _job_place(row: JobRow) -> Key:
    job = f"{escape(row.id)}.{new_token()}"
    if row.suspended is not None:
        return ("suspended", job)
    if row.next_run is not None:
        return ("due", queue_of(row), f"{encode_time(row.next_run)}.{job}")
    return ("paused", job) if row.finished is None else ("finished", f"{encode_time(row.finished)}.{job}")


def _run_place(row: RunRow) -> Key:
    run = escape(row.id)
    if row.owner is not None:
        return ("owned", f"{escape(row.owner)}.{run}.{row.fence}")
    if row.blocked_on is not None:
        return ("members", group_of(row.blocked_on), f"H.{encode_time(row.due)}.{run}.{new_token()}")
    return ("ready", queue_of(row), f"{encode_time(row.due)}.{run}.{new_token()}")


class RowCodec:
    """Writes and reads the rows of one store."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def new_job(self, job: Job, born: str = "", fence: int = 0) -> JobRow:
        """Return a job as a row in a new place."""
        row = JobRow(
            job.id, job.executor, job.task, job.priority, moment(job.next_run_time),
            "Z" if job.next_run_time is None else zone_text(job.next_run_time), fence, job.suspended,
            [limit.name for limit in job.limits], _decided(job.stats), moment(job.stats.finished_at),
            born or new_token(), (), self.records.job_text(job),
        )  # fmt: skip
        return row.moved()

    def job_row(self, found: Found) -> JobRow:
        """Return the row of a job.

        :raises CodecError: if it is none
        """
        header, _, definition = found.value.partition("\n")
        try:
            *fields, place = json.loads(header)
            row = JobRow._make([*fields, tuple(place), definition, found.version])
            return row if isinstance(row.id, str) and row.place else _refuse("it is no job")
        except Exception as error:
            raise CodecError(f"its record cannot be read: {described(error)}") from error

    def readable_job_row(self, found: Found | None) -> JobRow | None:
        """Return the row of a job; None if there is none that can be read."""
        try:
            return None if found is None else self.job_row(found)
        except CodecError:
            return None

    def job(self, row: JobRow, stats: Found | None = None) -> Job:
        """Return the job of a row."""
        time = None if row.next_run is None else from_micros(row.next_run, read_zone(row.zone))
        job = self.records.job(row.id, row.definition, time, self.stats(row, stats), row.suspended)
        if self.records.signs:
            written = row.executor, row.priority, row.limits
            return self.records.agreed(job, written, (job.executor, job.priority, [one.name for one in job.limits]))
        return job

    def unreadable_job(self, name: str, found: Found) -> Job:
        """Return a job that stands for a row that cannot be read; it is suspended."""
        return self.records.job(unescape(name), found.value, None)

    def stats(self, row: JobRow, found: Found | None) -> JobStats:
        """Return the statistics of a job."""
        lived = NO_STATS if found is None else _read_stats(found.value, row.born)
        if row.decided is None and row.finished is None:
            return lived
        return _with_decided(lived, row.decided)._replace(finished_at=_time(row.finished))

    def new_run(self, run: Run, job_text: str | None = None) -> RunRow:
        """Return a run as a row in a new place."""
        job = run.job
        row = RunRow(
            run.id, job.id, job.executor, job.task, job.priority, to_micros(run.due_at), run.owner, run.fence, None,
            None, None, run.source is Source.SCHEDULE, False, [limit.name for limit in job.limits], (),
            self.records.run_text(run, job_text),
        )  # fmt: skip
        return row.moved()

    def run_row(self, found: Found) -> RunRow:
        """Return the row of a run.

        :raises CodecError: if it is none
        """
        header, _, text = found.value.partition("\n")
        try:
            *fields, place = json.loads(header)
            row = RunRow._make([*fields, tuple(place), text, found.version])
            return row if isinstance(row.id, str) and row.place else _refuse("it is no run")
        except Exception as error:
            raise CodecError(f"A run cannot be read: {described(error)}") from error

    def readable_run_row(self, found: Found | None) -> RunRow | None:
        """Return the row of a run; None if there is none that can be read."""
        try:
            return None if found is None else self.run_row(found)
        except CodecError:
            return None

    def run(self, row: RunRow) -> Run:
        """Return the run of a row.

        :raises CodecError: if it cannot be read
        """
        return self.records.run(row.id, row.run, row.owner, row.fence, row.due)

    def letter_text(self, letter: DeadLetter) -> str:
        """Return a dead letter as it is stored."""
        return json.dumps([
            letter.run.id, letter.run.fence, letter.reason, history_text(letter.record),
            self.records.run_text(letter.run),
        ])  # fmt: skip

    def letter(self, found: Found) -> DeadLetter:
        """Return a dead letter.

        :raises CodecError: if it is none
        """
        try:
            run_id, fence, reason, record_text, run_text = json.loads(found.value)
            record = history_record(record_text)
            return DeadLetter(self.records.run(run_id, run_text, record.owner, fence), record, reason)
        except CodecError:
            raise
        except Exception as error:
            raise CodecError(f"A dead letter cannot be read: {described(error)}") from error


def _decided(stats: JobStats) -> Any:
    """Return what edits decide of the statistics of a job; older versions read and keep it all as ``paused_by``."""
    decided = [stats.pause_reason, stats.pause_id, moment(stats.created_at), stats.created_by]
    return stats.paused_by if decided == [None] * len(decided) else [stats.paused_by, *decided]


def _with_decided(stats: JobStats, decided: Any) -> JobStats:
    if not isinstance(decided, list):
        return stats._replace(paused_by=decided)
    paused_by, reason, pause_id, created_at, created_by = decided
    return stats._replace(
        paused_by=paused_by, pause_reason=reason, pause_id=pause_id, created_at=_time(created_at),
        created_by=created_by,
    )  # fmt: skip


def stats_text(stats: JobStats, born: str) -> str:
    """Return the statistics of a job as they are stored."""
    outcome = None if stats.last_outcome is None else stats.last_outcome.value
    times = moment(stats.last_run), moment(stats.last_success)
    return json.dumps([born, stats.run_count, *times, stats.last_error, outcome])


def _read_stats(text: str, born: str) -> JobStats:
    """Return statistics; none for those of an earlier job of the same id, or if they cannot be read."""
    try:
        whose, count, last_run, last_success, last_error, outcome = json.loads(text)
        kind = None if outcome is None else OutcomeKind(outcome)
        return JobStats(count, _time(last_run), _time(last_success), last_error, kind) if whose == born else NO_STATS
    except (ValueError, TypeError, OverflowError, RecursionError):
        return NO_STATS


def moment(time: datetime | None) -> int | None:
    """Return a time as rows have it."""
    return None if time is None else to_micros(time)


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)


def _refuse(why: str) -> Any:
    raise CodecError(why)
