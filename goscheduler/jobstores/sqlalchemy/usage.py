"""What is used of limits in the SQL store: a row for each live run and each limit under which it counts.

A row comes and goes in the transaction in which its run becomes live and ends. A start counts the rows of its limits,
whose rows in ``limits`` it has locked. An end removes its own rows only, so that it waits for no start.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.rows import UsageRow
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.waiting import unblock_next
from goscheduler.runs.limits import starts_within
from goscheduler.runs.model import Run
from goscheduler.runs.plan import limit_key, limit_of_key
from goscheduler.runs.queries import LimitUse


def add_usage(context: StoreContext, runs: Iterable[Run]) -> None:
    """Count runs that start under their limits."""
    rows = [UsageRow(run.id, limit.name) for run in runs for limit in run.job.options.limits]
    context.dialect.insert_rows(context.connection, context.tables.usage, columns_of(rows), once=True)


def remove_usage(context: StoreContext, run_ids: Collection[str]) -> None:
    """Count live runs no more, those that have limits."""
    context.dialect.delete_rows(context.connection, context.tables.usage.c.run_id, run_ids)


def unfounded(tables: Tables) -> Any:
    """Return the condition that a row counts no live run, as after a change of ``runs`` by hand."""
    usage, runs = tables.usage, tables.runs
    return ~select(runs.c.id).where(runs.c.id == usage.c.run_id, runs.c.owner.is_not(None)).exists()


def remove_unfounded(context: StoreContext) -> None:
    """Remove the rows that count no live run, and let as many of the runs that wait try again."""
    connection, tables, dialect, _ = context
    limits, usage = tables.limits, tables.usage
    query = select(usage.c.run_id, usage.c.name).where(unfounded(tables))
    names = sorted({row.name for row in connection.execute(query)})
    if not names:
        return
    lock = select(limits.c.name).where(dialect.column_in(limits.c.name, names))
    locked = connection.execute(lock.with_for_update(skip_locked=True) if dialect.skips_locked else lock)
    ours = list(locked.scalars())
    rows = connection.execute(query.where(dialect.column_in(usage.c.name, ours))).all()  # no run starts under them now
    dialect.delete_rows(connection, usage.c.run_id, [row.run_id for row in rows], usage.c.name.in_(ours))
    unblock_next(context, Counter(limit_key(row.name) for row in rows))


def limit_usage(connection: Connection, tables: Tables, now: datetime) -> list[LimitUse]:
    """Return what is used of every limit, ascending by name."""
    limits, usage, runs = tables.limits.c, tables.usage.c, tables.runs.c
    counted = select(usage.name, func.count()).group_by(usage.name)
    live = Counter(dict(map(tuple, connection.execute(counted))))
    held = select(runs.held, func.count()).where(runs.held.is_not(None)).group_by(runs.held)
    waiting = Counter({name: n for key, n in connection.execute(held) if (name := limit_of_key(key)) is not None})
    rated = connection.execute(select(limits.name, limits.state).where(limits.state != "[]"))
    starts = {name: starts_within(json.loads(state), now) for name, state in rated}
    names = sorted(live.keys() | waiting.keys() | starts.keys())
    return [LimitUse(name, live[name], waiting[name], starts.get(name, {})) for name in names]
