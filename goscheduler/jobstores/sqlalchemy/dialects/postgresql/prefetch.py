"""Jobs that will be due next, on PostgreSQL: when they are, one message fires them, and nothing is read before.

A round that finds nothing due reads the jobs that will be due next, unless it knows them. When their time has come they
are planned as they were read, and the message writes the plan of each job of which that is right still: it is as it was
read, it has no runs, nobody else has hold of it, and it is due by the server's clock. It writes nothing at all if a job
is due that was not foreseen, because that one might go first. What the message leaves is fired in a transaction.

The end of the message is the next look, and if nothing more is known, the jobs that will be due after these.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from goscheduler.jobstores.base import Fired, FireRequest
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import Message
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.statements import firing_of, next_jobs, take_turns
from goscheduler.jobstores.sqlalchemy.due_work import Looking, QueueKey, Seen
from goscheduler.jobstores.sqlalchemy.firing import Decisions, rank
from goscheduler.jobstores.sqlalchemy.rows import DueJob, Rows
from goscheduler.jobstores.sqlalchemy.settling import Doubts
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.transactions import Transactions, UnknownOutcome
from goscheduler.runs.limits import Ledger
from goscheduler.times import to_micros

#: How many jobs are foreseen, at most.
MOST = 200


class Foresight:
    """The jobs that will be due next, as they were when they were read."""

    def __init__(self) -> None:
        self._jobs: Sequence[DueJob] = ()
        """The earliest first."""
        self._read_for: Mapping[QueueKey, int] = {}
        """What there was to do when they were read."""
        self._again: float = math.inf
        """When the first of those is due again that have been fired since."""

    def due(self, now: datetime) -> list[DueJob]:
        """Return the jobs that are due at ``now``."""
        moment = to_micros(now)
        return [job for job in self._jobs if job.due <= moment]

    def ends_with(self, jobs: Sequence[DueJob], times: Iterable[int]) -> bool:
        """Tell whether it is not known what comes after these jobs, the first ones, which will be due again at times.

        They have other fences then, so they have to be read again.
        """
        self._again = min([self._again, *times])
        return len(self._jobs) == len(jobs) or self._again <= self._jobs[len(jobs)].due

    def forget(self, job_ids: Collection[str]) -> None:
        """Forget jobs that have been fired."""
        if job_ids:
            self._jobs = [job for job in self._jobs if job.id not in job_ids]

    def see(self, seen: Seen) -> None:
        """Forget what has been fired, by what was seen."""
        earliest = min(seen.job_lanes.values(), default=None)
        if earliest is None:
            self._jobs = ()
        elif self._jobs and self._jobs[0].due < earliest:
            self._jobs = [job for job in self._jobs if job.due >= earliest]

    def knows_next(self, seen: Seen) -> bool:
        """Tell whether the job is known that is the first of those that were seen, or cannot be known."""
        earliest = min(seen.job_lanes.values(), default=None)
        known = self._jobs[0].due if self._jobs else None
        return earliest == known or self._read_for == seen.job_lanes

    def learn(self, jobs: Sequence[DueJob], seen: Seen) -> None:
        """Take in jobs that were read together with what was seen, the earliest first."""
        # Where there are more of them, others may be due at the same time as the last that was read.
        until = jobs[-1].due if len(jobs) >= MOST else math.inf
        self._jobs, self._again = [job for job in jobs if job.due < until], math.inf
        self._read_for = seen.job_lanes


class ForeseenFirings:
    """Fires for one store what was foreseen."""

    def __init__(self, database: Transactions, tables: Tables, rows: Rows, looking: Looking, doubts: Doubts) -> None:
        self._database = database
        self._tables = tables
        self._rows = rows
        self._looking = looking
        self._doubts = doubts
        self._foresight = Foresight()

    def fire(self, request: FireRequest) -> tuple[Fired, Seen | None]:
        """Return what was fired, and what was seen then; None if nobody has looked."""
        now = request.now + self._looking.ahead
        due = self._foresight.due(now)
        jobs = _first(due, request.room)
        decisions = self._decided(jobs, request, now)
        if decisions is None:
            return Fired(), None
        question = self._looking.question(request)
        is_last = self._foresight.ends_with(due, [change["due"] for change in decisions.moved])
        read_on = is_last and len(jobs) == len(due)

        numbers: list[int] = []

        def write(message: Message) -> None:
            connection, clock = message.connection, self._looking.now(request)
            numbers.append(message.add(f"SELECT {clock}"))
            take_turns(message, self._tables, self._database.dialect)
            numbers.append(message.add(*firing_of(connection, self._tables, due, jobs, decisions, request, clock)))
            message.read_on()
            numbers.append(question.add_to(message, request.owner))
            if read_on:
                numbers.append(message.add(*next_jobs(connection, self._tables, request, MOST)))

        try:
            sent = self._database.send(write)
        except UnknownOutcome:
            self._doubts.runs += decisions.started
            raise
        if sent is None:
            return Fired(), None
        ((their_time,),), written, (facts,), *upcoming = [sent.answers[number] for number in numbers]
        self._looking.compare(their_time, sent.sent_at)
        fired = {job_id for (job_id,) in written}
        self._foresight.forget(fired)
        seen = self._looking.understood(question, facts, request)
        if seen is not None:
            self._foresight.see(seen)
            for rows in upcoming:
                self._foresight.learn(list(map(DueJob._make, rows)), seen)
        return decisions.fired_of(fired), seen

    def _decided(self, jobs: Sequence[DueJob], request: FireRequest, now: datetime) -> Decisions | None:
        """Return what becomes of jobs that have no runs; None if there are none, or a transaction has to do it."""
        if not jobs or any(job.limits for job in jobs):
            return None
        decisions = Decisions(self._rows, request, now)
        for job in jobs:
            decisions.decide(job, 0, 0, Ledger())
        return decisions if decisions.is_plain() else None

    def look_ahead(self, request: FireRequest, seen: Seen) -> None:
        """Read what will be due next, if nothing is due and that is not known."""
        self._foresight.see(seen)
        if not seen.due(seen.job_lanes) and not self._foresight.knows_next(seen):
            with self._database.reading() as connection:
                rows = connection.exec_driver_sql(*next_jobs(connection, self._tables, request, MOST)).all()
            self._foresight.learn(list(map(DueJob._make, rows)), seen)


def _first(jobs: Sequence[DueJob], room: Mapping[str, int]) -> list[DueJob]:
    """Return the jobs for which there is room, the lowest rank first."""
    left = dict(room)
    first = []
    for job in sorted(jobs, key=rank):
        if left.get(job.executor, 0) > 0:
            left[job.executor] -= 1
            first.append(job)
    return first
