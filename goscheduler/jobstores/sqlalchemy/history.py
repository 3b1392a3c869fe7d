"""The history and the dead letters of the SQL store, as people ask for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, and_, bindparam, delete, func, not_, or_, select

from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.rows import tag_text
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery, Retention
from goscheduler.times import UTC, to_micros


def page(table: Table, query: HistoryQuery) -> Select[Any]:
    """Return the statement for the rows that are asked for, newest first."""
    columns = table.c
    statement = select(table)
    if query.job_id is not None:
        statement = statement.where(columns.job_id == query.job_id)
    if query.outcomes is not None:
        statement = statement.where(columns.outcome.in_([kind.value for kind in query.outcomes]))
    if query.error_type is not None:
        statement = statement.where(columns.error_type == query.error_type)
    if query.since is not None:
        statement = statement.where(columns.finished >= to_micros(query.since))
    if query.until is not None:
        statement = statement.where(columns.finished < to_micros(query.until))
    if query.tag is not None:
        statement = statement.where(columns.tags.contains(tag_text(query.tag), autoescape=True))
    if query.before is not None:
        statement = statement.where(_older_than(columns, *query.before))
    order = (columns.finished.desc(), columns.run_id.desc(), columns.fence.desc())
    return statement.order_by(*order).limit(query.limit)


def _older_than(columns: Any, finished: datetime, run_id: str, fence: int) -> Any:
    time = to_micros(finished)
    return and_(columns.finished <= time, or_(  # the first condition is the one that an index knows
        columns.finished < time, columns.run_id < run_id, and_(columns.run_id == run_id, columns.fence < fence)
    ))  # fmt: skip


def prune(context: StoreContext, retention: Retention, now: datetime, limit: int) -> int:
    """Forget records that are not to be kept, oldest first, at most ``limit``; return how many."""
    columns = context.tables.history.c
    succeeded = columns.outcome == OutcomeKind.SUCCEEDED.value
    outlived = [
        select(*_position(columns)).where(succeeded, columns.finished < _back(now, retention.succeeded)),
        select(*_position(columns)).where(not_(succeeded), columns.finished < _back(now, retention.others)),
        _beyond_the_newest(columns, succeeded, retention.succeeded_per_job),
    ]
    positions = {
        tuple(row) for query in outlived for row in context.connection.execute(query.order_by("finished").limit(limit))
    }
    oldest = sorted(positions)[:limit]
    if oldest:
        this = [column == bindparam(f"this_{column.name}") for column in _position(columns)]
        names = [f"this_{column.name}" for column in _position(columns)]
        values = [dict(zip(names, position, strict=True)) for position in oldest]
        context.connection.execute(delete(context.tables.history).where(*this), values)
    return len(oldest)


def _position(columns: Any) -> tuple[Any, ...]:
    return columns.finished, columns.run_id, columns.fence


def _beyond_the_newest(columns: Any, succeeded: Any, kept: int) -> Select[Any]:
    """Return the query for successes of which their job has more than are kept."""
    place = func.row_number().over(partition_by=columns.job_id, order_by=columns.finished.desc())
    many = select(columns.job_id).where(succeeded).group_by(columns.job_id).having(func.count() > kept)
    numbered = select(*_position(columns), place.label("place")).where(succeeded, columns.job_id.in_(many)).subquery()
    return select(*_position(numbered.c)).where(numbered.c.place > kept)


def _back(now: datetime, length: Any) -> int:
    try:
        return to_micros(now - length)
    except OverflowError:
        return to_micros(datetime.min.replace(tzinfo=UTC))
