"""Row locks while runs start, on servers with several writers.

No process waits for a lock that another process holds while its server waits for that process, which may be frozen or
cut off. A start skips rows that other processes have locked, and a later round starts their jobs. Until it has
committed, a start locks

- the row of its job. If the job is gone, or was added again meanwhile: all of its runs that can be claimed, the one
  the lowest id first, so that one of several processes locks all of them;
- the rows of its limits.

The end of a run locks only that run and its job. ``sqlalchemy.claiming`` says why no run waits for an ended one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select, update
from sqlalchemy.engine import Connection

from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.due_work import claimable
from goscheduler.jobstores.sqlalchemy.rows import LimitRow, RowCodec, limit_names
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.runs.limits import Ledger


class StoreContext(NamedTuple):
    """What every step of a transaction needs: connection, tables, dialect and row codec."""

    connection: Connection
    tables: Tables
    dialect: Dialect
    rows: RowCodec


def lock_jobs(context: StoreContext, job_ids: Collection[str]) -> set[str]:
    """Lock jobs; return those of which no other process starts a run before this transaction ends."""
    connection, tables, dialect, _ = context
    jobs, runs = tables.jobs, tables.runs
    ours = lock(context, jobs.c.id, job_ids)
    there = runs.outerjoin(jobs, jobs.c.id == runs.c.job_id)
    query = select(runs.c.id, runs.c.job_id, jobs.c.id).select_from(there)
    found = connection.execute(query.where(dialect.column_in(runs.c.job_id, job_ids), *claimable(runs))).all()
    first: dict[str, str] = {}
    for run_id, job_id, existing in found:
        if existing is None:
            first[job_id] = min(run_id, first.get(job_id, run_id))
    locked = lock(context, runs.c.id, list(first.values()))
    ours |= {job_id for job_id, run_id in first.items() if run_id in locked}
    left = {run_id: job_id for run_id, job_id, _ in found if job_id in ours and run_id not in locked}
    return ours - _claimed_by_others(context, left)


def being_claimed(context: StoreContext, job_ids: Collection[str]) -> set[str]:
    """Return those of our locked jobs of which another process claims a run, because they were added again just now."""
    runs = context.tables.runs
    query = select(runs.c.id, runs.c.job_id).where(context.dialect.column_in(runs.c.job_id, job_ids), *claimable(runs))
    return _claimed_by_others(context, dict(map(tuple, context.connection.execute(query))))


def _claimed_by_others(context: StoreContext, runs: dict[str, str]) -> set[str]:
    """Return the jobs of which another process has locked a run; ``runs`` are run ids → job ids."""
    locked = lock(context, context.tables.runs.c.id, list(runs))
    return {job_id for run_id, job_id in runs.items() if run_id not in locked}


def lock(context: StoreContext, column: Any, ids: Collection[str]) -> set[str]:
    """Lock rows; return the ids of those that exist and that no other process has locked."""
    if not ids:
        return set()
    query = select(column).where(context.dialect.column_in(column, ids)).with_for_update(skip_locked=True)
    return set(context.connection.execute(query).scalars())


class MissingLimitsError(Exception):
    """Limits were never used before: they have to be added, by a transaction of their own."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(names)
        self.names = names


def lock_rows(context: StoreContext, query: Select[Any]) -> Sequence[Any]:
    """Lock the rows of a query for runs, which selects ids, and return those that no other process has locked."""
    connection, tables, dialect, _ = context
    if not dialect.locks_neighbours:
        return connection.execute(query.with_for_update(skip_locked=True) if dialect.skips_locked else query).all()
    ids = lock(context, tables.runs.c.id, [row.id for row in connection.execute(query)])
    return connection.execute(query.where(dialect.column_in(tables.runs.c.id, ids))).all() if ids else ()


class Limits(NamedTuple):
    """The state of limits."""

    ledger: Ledger
    busy: Collection[str] = ()
    """``limits`` columns that name a limit which another process has locked."""


def lock_limits(context: StoreContext, texts: Iterable[str]) -> Limits:
    """Lock the limits that ``limits`` columns name, and return their state. No other process starts a run under them.

    :raises MissingLimitsError: if they have to be added first
    """
    table_name = {text: limit_names(text) for text in set(texts) if text}
    wanted = sorted({name for names in table_name.values() for name in names})
    if not wanted:
        return Limits(Ledger())
    connection, tables, dialect, _ = context
    limits, usage = tables.limits, tables.usage
    query = select(limits.c.name, limits.c.state).where(dialect.column_in(limits.c.name, wanted))
    if dialect.skips_locked:
        query = query.with_for_update(skip_locked=True)
    rates = {name: json.loads(state) for name, state in connection.execute(query)}
    if len(rates) < len(wanted):
        _require_limits(context, [name for name in wanted if name not in rates])
    counted = select(usage.c.name, func.count()).where(dialect.column_in(usage.c.name, list(rates)))
    live = dict(map(tuple, connection.execute(counted.group_by(usage.c.name)))) if rates else {}
    ledger = Ledger(live, {name: state for name, state in rates.items() if state})
    return Limits(ledger, [text for text, names in table_name.items() if not rates.keys() >= set(names)])


def _require_limits(context: StoreContext, names: Collection[str]) -> None:
    """Raise unless these limits are there, locked by other processes."""
    limits = context.tables.limits
    query = select(limits.c.name).where(context.dialect.column_in(limits.c.name, names))
    known = set(context.connection.execute(query).scalars()) if context.dialect.skips_locked else set()
    if len(known) < len(names):
        raise MissingLimitsError([name for name in names if name not in known])


def add_limits(context: StoreContext, names: Collection[str]) -> None:
    """Add limits that were never used, unless another process has added them."""
    limits = context.tables.limits
    known = set(context.connection.execute(select(limits.c.name).where(limits.c.name.in_(names))).scalars())
    rows = columns_of([LimitRow(name, "[]") for name in names if name not in known])
    context.dialect.insert_rows(context.connection, limits, rows, once=True)


def save_ledger(context: StoreContext, ledger: Ledger) -> None:
    """Write the starts under limits with a rate."""
    limits = context.tables.limits
    if ledger.changed:
        change = update(limits).where(limits.c.name == bindparam("changed")).values(state=bindparam("new_state"))
        states = [{"changed": name, "new_state": json.dumps(state)} for name, state in ledger.changed.items()]
        context.connection.execute(change, states)
