"""What a round of the SQL store asks before it does anything: one query, and for most rounds the only one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Table, exists, func, null, or_, select
from sqlalchemy.engine import Connection

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores._sql_dialects import Dialect
from goscheduler.jobstores._sql_tables import Tables
from goscheduler.jobstores.base import FireRequest
from goscheduler.times import UTC, from_instant, instant

#: How long, in seconds, it is believed which priorities occur.
PRIORITIES_HOLD = 1.0


class Seen(NamedTuple):
    """What there is to do, for executors that have room."""

    now: datetime
    job_due: int | None
    run_due: int | None
    crowded: bool
    """Whether something is due for an executor that has no room."""
    to_end: bool
    """Whether a run of ours is to be ended."""


class Looking:
    """Asks for one store."""

    def __init__(self, tables: Tables, dialect: Dialect, server_time: bool) -> None:
        self._tables = tables
        self._server_now = dialect.now if server_time else None
        self._priorities: dict[tuple[str, str], tuple[float, Sequence[int]]] = {}

    def look(self, connection: Connection, request: FireRequest) -> Seen:
        """Return what there is to do."""
        jobs, runs = self._tables.jobs, self._tables.runs
        columns: list[Any] = [
            (null() if self._server_now is None else self._server_now).label("now"),
            exists().where(runs.c.owner == request.owner, runs.c.cancel.is_not(None)).label("to_end"),
        ]
        asked: list[tuple[Table, int]] = []
        for table, column in ((jobs, jobs.c.due), (runs, runs.c.ready)):
            for executor, room in request.room.items():
                for priority in self.priorities(connection, table, executor):
                    asked.append((table, room))
                    columns.append(_earliest(table, column, executor, priority, request))
        row = connection.execute(select(*columns)).one()
        now = request.now if row[0] is None else from_instant(int(row[0]), UTC)
        found = [(table, room, time) for (table, room), time in zip(asked, row[2:], strict=True) if time is not None]
        return Seen(
            now,
            min((time for table, room, time in found if table is jobs and room > 0), default=None),
            min((time for table, room, time in found if table is runs and room > 0), default=None),
            any(room <= 0 and time <= instant(now) for _, room, time in found),
            bool(row[1]),
        )

    def priorities(self, connection: Connection, table: Table, executor: str) -> Sequence[int]:
        """Return which priorities occur, as far as an index can tell quickly: all between the lowest and the highest."""
        asked_at, known = self._priorities.get((table.name, executor), (0.0, ()))
        now = SYSTEM_CLOCK.monotonic()
        if known and now - asked_at < PRIORITIES_HOLD:
            return known
        query = select(func.min(table.c.priority), func.max(table.c.priority)).where(table.c.executor == executor)
        lowest, highest = connection.execute(query).one()
        known = () if lowest is None else range(lowest, highest + 1)
        self._priorities[table.name, executor] = now, known
        return known

    def forget(self) -> None:
        """Ask anew which priorities occur: we have changed something."""
        self._priorities.clear()


def known_task(table: Table, request: FireRequest) -> Any:
    """Return the condition that a row needs no task, or one that is known here."""
    return or_(table.c.task.is_(None), table.c.task.in_(request.tasks)) if request.tasks else table.c.task.is_(None)


def _earliest(table: Table, column: Any, executor: str, priority: int, request: FireRequest) -> Any:
    return (
        select(column)
        .where(table.c.executor == executor, table.c.priority == priority, column.is_not(None))
        .where(known_task(table, request))
        .order_by(column)
        .limit(1)
        .scalar_subquery()
    )
