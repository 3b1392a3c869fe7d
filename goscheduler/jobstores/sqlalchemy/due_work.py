"""The peek of a round: one query for all due work, and the only one of an idle round.

Jobs and runs of one executor and one priority make a queue, whose earliest row an index finds. Which priorities occur
is asked in the same query as what is due: if new ones occur, the query is repeated once with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, Table, bindparam, exists, func, literal_column, or_, select
from sqlalchemy.engine import Connection

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.times import UTC, from_micros, to_micros

#: For each executor. While these jobs run and end, the next transaction fires more.
MAX_JOBS_PER_TRANSACTION = 1000
#: Compiled queries that are kept.
MAX_PREPARED_QUERIES = 64
#: Columns of the answer before those about queues.
_FLAG_COLUMNS = 4
_TO_CANCEL, _UNBLOCKED = 1, 3

QueueKey = tuple[str, int]


class DueWork(NamedTuple):
    """Due and upcoming work, as one peek saw it."""

    now: datetime
    asked_at: float
    """When the question was sent, by the monotonic clock of this machine."""
    job_queues: Mapping[QueueKey, int]
    """Executor and priority → when the first job of these is due."""
    run_queues: Mapping[QueueKey, int]
    """The same for claimable runs."""
    to_cancel: bool
    """Whether a run of ours has a cancel request."""
    blocked: bool
    """Whether runs wait for other runs to end."""
    unblocked: bool
    """Whether waiting runs may try again and are not claimed yet."""

    def due(self, queues: Mapping[QueueKey, int]) -> list[QueueKey]:
        """Return the queues in which something is due."""
        now = to_micros(self.now)
        return [queue for queue, time in queues.items() if time <= now]

    def out_of_capacity(self, queues: Mapping[QueueKey, int], room: Mapping[str, int]) -> list[QueueKey]:
        """Return the queues in which something is due whose executor has no room."""
        return [queue for queue in self.due(queues) if room[queue[0]] <= 0]


def earliest(queues: Mapping[QueueKey, int], room: Mapping[str, int]) -> datetime | None:
    """Return when the first thing is due for which there is room."""
    time = min((time for (executor, _), time in queues.items() if room[executor] > 0), default=None)
    return None if time is None else from_micros(time, UTC)


@dataclass
class PeekQuery:
    """A query for some queues, built once."""

    query: Select[Any]
    executors: Sequence[str]
    jobs: Sequence[QueueKey]
    runs: Sequence[QueueKey]
    _compiled: Any = None

    def as_statement(self, dialect: Any, owner: str) -> tuple[str, Any]:
        """Return the text and parameters for the driver."""
        if self._compiled is None:
            self._compiled = self.query.compile(dialect=dialect)
        expanded = self._compiled.construct_expanded_state({"owner": owner})
        return expanded.statement, expanded.positional_parameters if dialect.positional else expanded.parameters

class PeekResult(NamedTuple):
    """The row that a query returned."""

    question: PeekQuery
    owner: str
    row: Sequence[Any]

    def has_more_than(self, other: PeekResult) -> bool:
        """Tell whether this result has earlier or more urgent work than another one."""
        queues = _FLAG_COLUMNS + 4 * len(self.question.executors)
        new, old = self.row, other.row
        at_once = any(new[fact] not in (0, old[fact]) for fact in (_TO_CANCEL, _UNBLOCKED))
        priorities = any(new[place] not in (None, old[place]) for place in range(_FLAG_COLUMNS, queues))
        earlier = any(_is_earlier(new[place], old[place]) for place in range(queues, len(new)))
        return at_once or priorities or earlier


class DueWorkReader:
    """Peeks for one store."""

    def __init__(self, tables: Tables, dialect: Dialect, server_time: bool) -> None:
        self._tables = tables
        self._now = dialect.now if server_time else None
        self._priorities: dict[str, dict[str, range]] = {"jobs": {}, "runs": {}}
        self._questions: dict[Any, PeekQuery] = {}
        self.answer: PeekResult | None = None
        """The last one: the scheduler sleeps until the time that it gave."""

    def peek(self, connection: Connection, request: FireRequest) -> DueWork:
        """Return the work for the executors of a request."""
        while True:
            question = self._question(request)
            asked_at = SYSTEM_CLOCK.monotonic()
            row = connection.execute(question.query, {"owner": request.owner}).one()
            if self._knew_all_queues(question, row):
                self.answer = PeekResult(question, request.owner, row)
                return _due_work(question, row, request, asked_at)

    def forget_cancel_requests(self) -> None:
        """Note that the cancel requests of the last peek were answered, so that the next one is news."""
        if self.answer is not None:
            row = self.answer.row
            self.answer = self.answer._replace(row=[*row[:_TO_CANCEL], 0, *row[_TO_CANCEL + 1 :]])

    def _question(self, request: FireRequest) -> PeekQuery:
        """Return the query for a request."""
        executors, tasks = tuple(sorted(request.room)), tuple(request.tasks)
        queues = [tuple(_queues_of(self._priorities[kind], executors)) for kind in ("jobs", "runs")]
        key = executors, tasks, *queues
        question = self._questions.get(key)
        if question is None:
            if len(self._questions) >= MAX_PREPARED_QUERIES:
                self._questions.clear()
            question = self._questions[key] = self._ask(executors, tasks, *queues)
        return question

    def _knew_all_queues(self, question: PeekQuery, row: Sequence[Any]) -> bool:
        """Note which priorities occur; false if the query did not ask for some of them."""
        complete = True
        found = iter(row[_FLAG_COLUMNS:])
        for kind in ("jobs", "runs"):
            for executor in question.executors:
                lowest, highest = next(found), next(found)
                occur = range(0) if lowest is None else range(lowest, highest + 1)
                known = self._priorities[kind].get(executor, range(0))
                complete = complete and set(occur) <= set(known)
                self._priorities[kind][executor] = occur
        return complete

    def _ask(
        self,
        executors: Sequence[str],
        tasks: Sequence[str],
        job_queues: Sequence[QueueKey],
        run_queues: Sequence[QueueKey],
    ) -> PeekQuery:
        jobs, runs = self._tables.jobs, self._tables.runs
        columns: list[Any] = [
            literal_column("NULL") if self._now is None else self._now,
            _checksum(runs, *to_cancel(runs, bindparam("owner"))),
            exists().where(runs.c.held.is_not(None)),
            exists().where(*unblocked(runs)),
        ]
        pending = claimable(runs)
        columns += [end for executor in executors for end in _ends(jobs, executor)]
        columns += [end for executor in executors for end in _ends(runs, executor, *pending)]
        columns += [_earliest(jobs, jobs.c.due, queue, known_task(jobs, tasks)) for queue in job_queues]
        columns += [_earliest(runs, runs.c.ready, queue, known_task(runs, tasks), *pending) for queue in run_queues]
        query = select(*[column.label(f"c{number}") for number, column in enumerate(columns)])
        return PeekQuery(query, executors, job_queues, run_queues)


def _due_work(question: PeekQuery, row: Sequence[Any], request: FireRequest, asked_at: float) -> DueWork:
    """Return what an answer says."""
    times = row[_FLAG_COLUMNS + 4 * len(question.executors) :]
    job_times, run_times = times[: len(question.jobs)], times[len(question.jobs) :]
    return DueWork(
        request.now if row[0] is None else from_micros(int(row[0]), UTC),
        asked_at,
        {queue: time for queue, time in zip(question.jobs, job_times, strict=True) if time is not None},
        {queue: time for queue, time in zip(question.runs, run_times, strict=True) if time is not None},
        *map(bool, row[1:_FLAG_COLUMNS]),
    )


def known_task(table: Table, tasks: Sequence[str]) -> Any:
    """Return the condition that a row needs no task or one that this process knows."""
    return or_(table.c.task.is_(None), table.c.task.in_(tasks)) if tasks else table.c.task.is_(None)


# These conditions say more than is needed: the redundant ones are the first columns of an index on MySQL.


def claimable(runs: Table) -> tuple[Any, ...]:
    """Return the conditions that a run can be claimed at its ``ready`` time."""
    return runs.c.owner.is_(None), runs.c.held.is_(None), runs.c.ready.is_not(None)


def unblocked(runs: Table) -> tuple[Any, ...]:
    """Return the conditions that a run has waited and may try again."""
    return runs.c.held.is_(None), runs.c.freed.is_not(None)


def to_cancel(runs: Table, owner: Any) -> tuple[Any, ...]:
    """Return the conditions that a run of an owner has a cancel request."""
    return runs.c.held.is_(None), runs.c.freed.is_(None), runs.c.cancel.is_not(None), runs.c.owner == owner


def _checksum(runs: Table, *which: Any) -> Any:
    """Return a number that changes with the runs it counts, and 0 for none."""
    number = func.coalesce(func.sum(1 + runs.c.fence % 1_000_003), 0)
    return select(number).where(*which).scalar_subquery()


def _is_earlier(time: int | None, other: int | None) -> bool:
    return time is not None and (other is None or time < other)


def _queues_of(priorities: Mapping[str, range], executors: Iterable[str]) -> list[QueueKey]:
    return [(executor, priority) for executor in executors for priority in priorities.get(executor, ())]


def _ends(table: Table, executor: str, *which: Any) -> list[Any]:
    """Return the lowest and the highest priority that occur, as an index tells them without counting."""
    query = select(table.c.priority).where(table.c.executor == executor, *which).limit(1)
    return [query.order_by(order).scalar_subquery() for order in (table.c.priority, table.c.priority.desc())]


def _earliest(table: Table, column: Any, queue: QueueKey, *which: Any) -> Any:
    executor, priority = queue
    return (
        select(column)
        .where(table.c.executor == executor, table.c.priority == priority, column.is_not(None), *which)
        .order_by(column)
        .limit(1)
        .scalar_subquery()
    )
