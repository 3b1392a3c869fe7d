"""Which jobs of the SQL store fit a query, read from the index ``jobs_queue`` alone.

Within a queue, which is one executor and one priority, the index has the order in which people see jobs: those that
wait for a time come first, then the others by id. So a page is what comes first in any queue. A search through text
reads a portion of each queue at a time, and gives up when its time is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, case, exists, func, or_, select
from sqlalchemy.engine import Connection

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.sqlalchemy.due_work import QueueKey
from goscheduler.jobstores.sqlalchemy.search_terms import FOLLOWS, PAUSE, TAG, TASK, is_findable, term
from goscheduler.jobstores.sqlalchemy.tables import ANY_TERM, MYSQL, Tables
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import NEVER, JobPosition, JobQuery
from goscheduler.times import to_micros

#: With more executors than these their jobs are read and sorted together.
MAX_EXECUTORS = 16
#: Among more jobs than these, one statement searches so many entries of the index for a text.
MANY_JOBS, PORTION = 200_000, 50_000
PRIORITIES = range(10)

_AT_REST = (JobState.PAUSED, JobState.WAITING, JobState.SUSPENDED, JobState.COMPLETED, JobState.FAILED)
_BY_TERM = (JobState.PAUSED, JobState.WAITING)


class Keys(NamedTuple):
    """Where the jobs of a page stand."""

    positions: Sequence[JobPosition]
    next: JobPosition | None = None
    """The position behind which more may be found; None if there is nothing more."""
    complete: bool = True
    """False if the time was over."""


class _Range(NamedTuple):
    """A part of the order of jobs: all that wait for a time in a queue, or all others of it; or all jobs by id."""

    queue: QueueKey | None
    waiting: bool | None
    """None in the order of ids."""


class JobSearch:
    """Finds the jobs of one query over one connection."""

    def __init__(self, tables: Tables, connection: Connection, query: JobQuery, until: float) -> None:
        self._tables = tables
        self._jobs = tables.jobs.c
        self._runs = tables.runs.c
        self._connection = connection
        self._query = query
        self._until = until
        self._conditions = self._fitting()
        self._is_long = query.text is not None and query.sort != "id" and self._has_many_jobs()

    @property
    def impossible(self) -> bool:
        """Whether no job can fit."""
        text = self._query.text
        return text is not None and not is_findable(text)

    def keys(self, after: JobPosition | None, limit: int) -> Keys:
        """Return the positions of the first jobs behind a position, at most ``limit``."""
        found: list[JobPosition] = []
        for ranges in self._ranges(after):
            left, wanted = len(ranges), limit + 1 - len(found)
            end: JobPosition | None = None
            for part in ranges:
                now = SYSTEM_CLOCK.monotonic()
                positions, given_up = self._walk(part, after, wanted, now + (self._until - now) / left)
                found += positions
                end = given_up if end is None or given_up is None else min(end, given_up)
                left -= 1
            found.sort()
            if end is not None:
                found = [position for position in found if position <= end]
            if len(found) > limit:
                return Keys(found[:limit], found[limit - 1])
            if end is not None:
                return Keys(found, end, complete=False)
        return Keys(found)

    def count(self, cap: int, known: bool = False) -> tuple[int, int]:
        """Return how many jobs fit, as many as ``cap`` and one more, and how many of these have to be looked at.

        If only those that are ``known`` are wanted, none has to be.
        """
        unknown = case((self._is_unknown(), 1), else_=0).label("unknown")
        query = self._from_index(unknown).where(*self._conditions, *self._of_executor())
        fitting = (query.where(~self._is_unknown()) if known else query).limit(cap + 1).subquery()
        number, unknown_ones = self._connection.execute(
            select(func.count(), func.coalesce(func.sum(fitting.c.unknown), 0))
        ).one()
        return int(number), int(unknown_ones) if self._looks_at_words() else 0

    def unknown(self) -> Select[Any]:
        """Return the query for the jobs that have to be looked at, because the index does not have all about them."""
        return select(self._tables.jobs).where(*self._conditions, *self._of_executor(), self._is_unknown())

    def _is_unknown(self) -> Any:
        return or_(self._jobs.words.is_(None), self._jobs.terms == ANY_TERM)

    def _looks_at_words(self) -> bool:
        query = self._query
        by_words = any(value is not None for value in (query.text, query.tag, query.task, query.pause_id))
        return by_words or query.state in _BY_TERM

    def _ranges(self, after: JobPosition | None) -> Iterator[Sequence[_Range]]:
        """Yield what is to be read one after the other, each in parts that are read side by side."""
        query = self._query
        if query.sort == "id":
            yield [_Range(queue, None) for queue in (self._queues() if self._conditions else [None])]
            return
        queues = self._queues()
        if query.state not in _AT_REST and (after is None or after.due < NEVER):
            yield [_Range(queue, True) for queue in queues]
        if query.state is not JobState.SCHEDULED and query.due_before is None:
            yield [_Range(queue, False) for queue in queues]

    def _queues(self) -> Sequence[QueueKey | None]:
        """Return the queues that have jobs; a single None for all together."""
        jobs, wanted = self._jobs, self._query.executor
        executor: str | None = ""
        queues: list[QueueKey] = []
        if self._query.state is JobState.RUNNING:
            return [None]  # there are few of these, and the table of runs names them
        if wanted is not None:
            return self._queues_of(wanted)
        for _ in range(MAX_EXECUTORS + 1):
            following = select(func.min(jobs.executor)).where(jobs.executor > executor)
            executor = self._connection.execute(following).scalar()
            if executor is None:
                return queues
            queues += self._queues_of(executor)
        return [None]

    def _queues_of(self, executor: str) -> list[QueueKey]:
        jobs = self._jobs
        occur = [exists().where(jobs.executor == executor, jobs.priority == number) for number in PRIORITIES]
        row = self._connection.execute(select(*[each.label(f"p{n}") for n, each in enumerate(occur)])).one()
        return [(executor, priority) for priority, occurs in zip(PRIORITIES, row, strict=True) if occurs]

    def _walk(
        self, part: _Range, after: JobPosition | None, limit: int, until: float
    ) -> tuple[list[JobPosition], JobPosition | None]:
        """Return the first positions of a part that fit, and where the time was over, if it was."""
        found: list[JobPosition] = []
        in_portions = self._is_long and part.queue is not None
        while True:
            end = self._end_of_portion(part, after) if in_portions else None
            found += self._read(part, after, end, limit - len(found))
            if end is None or len(found) >= limit:
                return found, None
            after = end
            if SYSTEM_CLOCK.monotonic() >= until:
                return found, after

    def _read(
        self, part: _Range, after: JobPosition | None, end: JobPosition | None, limit: int
    ) -> list[JobPosition]:
        query = self._part(part, after).where(*self._conditions)
        if end is not None:
            query = query.where(_up_to(self._jobs, part, end))
        order = self._order(part)
        if part.waiting is None and self._conditions:
            order = [self._jobs.id.concat("")]  # the index has less to read than the table, which is in this order
        return self._positions(part, query.order_by(*order).limit(limit))

    def _end_of_portion(self, part: _Range, after: JobPosition | None) -> JobPosition | None:
        """Return the last position of the next portion of a part, None if less than a portion is left."""
        query = self._part(part, after).order_by(*self._order(part)).limit(1).offset(PORTION - 1)
        return next(iter(self._positions(part, query)), None)

    def _order(self, part: _Range) -> Sequence[Any]:
        # In the index, those that wait for no time are in the order of their ids: servers of MySQL see that only if
        # the time is left out, and PostgreSQL only if it is not.
        by_id = part.waiting is None or (part.waiting is False and self._connection.dialect.name in MYSQL)
        return (self._jobs.id,) if by_id else (self._jobs.due, self._jobs.id)

    def _has_many_jobs(self) -> bool:
        beyond = self._from_index(self._jobs.executor).order_by(self._jobs.executor).limit(1).offset(MANY_JOBS)
        return self._connection.execute(beyond).first() is not None

    def _part(self, part: _Range, after: JobPosition | None) -> Select[Any]:
        """Return the query for what comes behind a position in a part."""
        jobs = self._jobs
        query = self._from_index(jobs.due, jobs.id)
        if part.queue is not None:
            query = query.where(jobs.executor == part.queue[0], jobs.priority == part.queue[1])
        else:
            query = query.where(*self._of_executor())
        if part.waiting:
            query = query.where(jobs.due.is_not(None))
            if after is not None:
                behind = or_(jobs.due > after.due, jobs.id > after.id)
                query = query.where(jobs.due >= after.due, behind)
            return query
        if part.waiting is False:
            query = query.where(jobs.due.is_(None))
            return query if after is None or after.due < NEVER else query.where(jobs.id > after.id)
        return query if after is None else query.where(jobs.id > after.id)

    def _from_index(self, *columns: Any) -> Select[Any]:
        """Return a query that reads the index alone. Servers of MySQL prefer others, from which they go to the rows."""
        query = select(*columns)
        if (not self._conditions and self._query.sort == "id") or self._query.state is JobState.RUNNING:
            return query
        for name in MYSQL:
            query = query.with_hint(self._tables.jobs, f"FORCE INDEX ({self._tables.jobs_queue.name})", name)
        return query

    def _positions(self, part: _Range, query: Select[Any]) -> list[JobPosition]:
        rows = self._connection.execute(query).all()
        if part.waiting:
            return [JobPosition(due, job_id) for due, job_id in rows]
        due = 0 if part.waiting is None else NEVER
        return [JobPosition(due, job_id) for _, job_id in rows]

    def _of_executor(self) -> Collection[Any]:
        return () if self._query.executor is None else (self._jobs.executor == self._query.executor,)

    def _fitting(self) -> list[Any]:
        """Return the conditions of the query, the executor aside."""
        jobs, query = self._jobs, self._query
        conditions = self._in_state()
        if query.last_outcome is not None:
            conditions.append(jobs.last_outcome == query.last_outcome.value)
        if query.due_before is not None:
            conditions.append(jobs.due < to_micros(query.due_before))
        for kind, value in ((TAG, query.tag), (TASK, query.task), (PAUSE, query.pause_id)):
            if value is not None:
                found = jobs.terms.contains(term(kind, value), autoescape=True)
                conditions.append(or_(found, jobs.terms == ANY_TERM))
        if query.text is not None:
            text = query.text.lower()
            within = [column.contains(text, autoescape=True) for column in (jobs.id, jobs.words)]
            conditions.append(or_(*within, jobs.words.is_(None)))
        return conditions

    def _in_state(self) -> list[Any]:
        jobs, state = self._jobs, self._query.state
        if state is None:
            return []
        if state is JobState.RUNNING:
            live = select(self._runs.job_id).where(self._runs.owner.is_not(None))
            return [jobs.id.in_(live)]
        if state is JobState.SCHEDULED:
            return [jobs.due.is_not(None)]
        if state is JobState.SUSPENDED:
            return [jobs.due.is_(None), jobs.is_suspended.is_not(None)]
        at_rest = [jobs.due.is_(None), jobs.is_suspended.is_(None)]
        if state in _BY_TERM:
            waits = jobs.terms.contains(term(FOLLOWS, ""), autoescape=True)
            fits = waits if state is JobState.WAITING else ~waits
            return [*at_rest, jobs.finished.is_(None), or_(fits, jobs.terms == ANY_TERM)]
        succeeded = jobs.last_outcome == OutcomeKind.SUCCEEDED.value
        ended_well = succeeded if state is JobState.COMPLETED else or_(jobs.last_outcome.is_(None), ~succeeded)
        return [*at_rest, jobs.finished.is_not(None), ended_well]


def _up_to(jobs: Any, part: _Range, end: JobPosition) -> Any:
    if part.waiting:
        return and_(jobs.due <= end.due, or_(jobs.due < end.due, jobs.id <= end.id))
    return jobs.id <= end.id
