"""Settling in the SQL store: ends of runs, their follow-ups, and lapsed owners."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import exists, or_, select
from sqlalchemy.engine import Connection

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import allowed
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.claiming import keep_unreadable
from goscheduler.jobstores.sqlalchemy.locking import StoreContext, lock, lock_rows
from goscheduler.jobstores.sqlalchemy.rows import json_text, micros_or_none
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.usage import remove_unfounded, remove_usage, unfounded
from goscheduler.jobstores.sqlalchemy.waiting import has_blocked_runs, unblock_next
from goscheduler.runs.model import NO_STATS, DeadLetter, JobStats, Run, Settlement
from goscheduler.runs.plan import keys_of
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import with_attempt
from goscheduler.times import to_micros


class Settled(NamedTuple):
    """Which ends were not written."""

    refused: Sequence[Settlement] = ()
    left: Sequence[Settlement] = ()
    """Ends whose row of the run or of its job another process has locked."""
    more: bool = False
    """Whether new work can be claimed."""


def settle(context: StoreContext, settlements: Sequence[Settlement]) -> Settled:
    """Write ends of runs without waiting for a row that another process has locked."""
    rows, held = _taken(context, [settlement.attempt.run.id for settlement in settlements])
    held_jobs = _jobs_locked_elsewhere(context, settlements)
    refused: list[Settlement] = []
    accepted: list[Settlement] = []
    left: list[Settlement] = []
    for settlement in settlements:
        run = settlement.attempt.run
        row = rows.get(run.id)
        if run.id in held:
            left.append(settlement)
        elif row is None or row.fence != run.fence:
            refused.append(settlement)
        elif run.job.id in held_jobs:
            left.append(settlement)
        else:
            accepted.append(allowed(settlement, _is_cancelled(row)))
    return Settled(refused, left, bool(accepted) and _end(context, accepted))


def _end(context: StoreContext, settlements: Sequence[Settlement]) -> bool:
    ids = [settlement.attempt.run.id for settlement in settlements]
    context.dialect.delete_rows(context.connection, context.tables.runs.c.id, ids)
    return write_ends(context, settlements)


def write_ends(context: StoreContext, settlements: Sequence[Settlement]) -> bool:
    """Write the ends of deleted runs; true if new work can be claimed."""
    connection, tables, dialect, rows = context
    remove_usage(context, limited(settlements))
    note_ends(context, settlements)
    letters = [
        DeadLetter(settlement.attempt.run, record_of(settlement.attempt), settlement.dead)
        for settlement in settlements
        if settlement.dead is not None
    ]
    if letters:
        dialect.delete_rows(connection, tables.dead.c.run_id, [letter.run.id for letter in letters])
        dialect.insert_rows(connection, tables.dead, columns_of([rows.dead_row(letter) for letter in letters]))
    follow_ups = [settlement.follow_up for settlement in settlements if settlement.follow_up is not None]
    dialect.insert_rows(connection, tables.runs, columns_of([rows.run_row(run) for run in follow_ups]))
    freed = has_blocked_runs(context) and unblock_next(
        context, Counter(key for settlement in settlements for key in keys_of(settlement.attempt.run))
    )
    return freed or bool(follow_ups)


def limited(settlements: Sequence[Settlement]) -> list[str]:
    """Return the ids of the runs that count under limits."""
    runs = (settlement.attempt.run for settlement in settlements)
    return [run.id for run in runs if run.job.options.limits]


def note_ends(context: StoreContext, settlements: Sequence[Settlement]) -> None:
    """Write ends into the history and the statistics of their jobs."""
    history = context.rows.history_columns([settlement.attempt for settlement in settlements])
    context.dialect.insert_rows(context.connection, context.tables.history, history, once=True)
    _write_stats(context, settlements)


def is_anything_lost(connection: Connection, tables: Tables, now: datetime) -> bool:
    """Tell whether an owner has lapsed, a run has an owner without a lease, or what is used of a limit has no run."""
    owners, runs = tables.owners, tables.runs
    lapsed = exists().where(owners.c.expires <= to_micros(now))
    unknown = exists().where(runs.c.owner.is_not(None), runs.c.owner.not_in(select(owners.c.id)))
    uncounted = exists().where(tables.usage.c.run_id.is_not(None), unfounded(tables))
    return bool(connection.execute(select(or_(lapsed, unknown, uncounted).label("lost"))).scalar())


def recover(context: StoreContext, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
    """Delete the owners whose lease has lapsed, and settle their runs."""
    connection, tables, dialect, rows = context
    remove_unfounded(context)
    owners, runs = tables.owners, tables.runs
    lapsed = select(owners).where(owners.c.expires <= to_micros(now))
    if dialect.skips_locked:  # another process recovers it, or it renews its lease
        lapsed = lapsed.with_for_update(skip_locked=True)
    hosts = {row.id: json.loads(row.account)[0] for row in connection.execute(lapsed)}
    dialect.delete_rows(connection, owners.c.id, list(hosts))
    query = select(runs).where(runs.c.owner.is_not(None), runs.c.owner.not_in(select(owners.c.id)))
    settlements = []
    for row in lock_rows(context, query):
        try:
            settlement = decide(rows.run(row), hosts.get(row.owner, ""))
            settlements.append(allowed(settlement, _is_cancelled(row)))
        except CodecError as error:
            keep_unreadable(context, row.id, str(error))
    # The next recovery finds their runs, whose owner is gone.
    held_jobs = _jobs_locked_elsewhere(context, settlements)
    settlements = [settlement for settlement in settlements if settlement.attempt.run.job.id not in held_jobs]
    if settlements:
        _end(context, settlements)
    return settlements


def retire(context: StoreContext, owner: str) -> bool:
    """Make the runs of an owner pending; true if there were any. Runs of removed jobs are deleted."""
    connection, tables, dialect, _ = context
    owners, runs = tables.owners, tables.runs
    found = _locked(context, runs.c.owner == owner)
    dialect.update_rows(connection, runs, [
        {"id": row.id, "owner": None, "ready": row.due} for row in found if not row.revoked
    ])  # fmt: skip
    dialect.delete_rows(connection, runs.c.id, [row.id for row in found if row.revoked])
    remove_usage(context, [row.id for row in found if row.limits])
    dialect.delete_rows(connection, owners.c.id, [owner])
    keys = Counter(key for row in found for key in _keys_of_row(context, row))
    return unblock_next(context, keys) or bool(found)


def _keys_of_row(context: StoreContext, row: Any) -> list[str]:
    try:
        return keys_of(context.rows.run(row))
    except CodecError:
        return []


def drop_pending(context: StoreContext, *which: Any) -> Sequence[Any]:
    """Delete pending runs and return their rows. For each unblocked one, unblock the next."""
    runs = context.tables.runs
    rows = _locked(context, runs.c.owner.is_(None), *which)
    if rows:
        context.dialect.delete_rows(context.connection, runs.c.id, [row.id for row in rows])
        unblock_next(context, Counter(row.freed for row in rows if row.freed is not None))
    return rows


def _taken(context: StoreContext, run_ids: Sequence[str]) -> tuple[dict[str, Any], set[str]]:
    """Lock the rows of runs. Return run id → row of the live ones, and the ids that other processes have locked."""
    runs = context.tables.runs
    query = select(runs.c.id, runs.c.fence, runs.c.revoked, runs.c.cancel, runs.c.owner)
    query = query.where(context.dialect.column_in(runs.c.id, run_ids))
    if context.dialect.skips_locked:
        query = query.with_for_update(skip_locked=True)
    rows = {row.id: row for row in context.connection.execute(query)}
    live = {run_id: row for run_id, row in rows.items() if row.owner is not None}
    return live, _existing(context, runs.c.id, set(run_ids) - rows.keys())


def _jobs_locked_elsewhere(context: StoreContext, settlements: Sequence[Settlement]) -> set[str]:
    """Lock the jobs that count their attempts; return the ids that another process has locked."""
    counted = {settlement.attempt.run.job.id for settlement in settlements if _is_counted(settlement)}
    if not context.dialect.skips_locked or not counted:
        return set()
    column = context.tables.jobs.c.id
    return _existing(context, column, counted - lock(context, column, sorted(counted)))


def _existing(context: StoreContext, column: Any, missing: Collection[str]) -> set[str]:
    """Return the ids of rows that exist although a query that skips locked rows missed them."""
    if not context.dialect.skips_locked or not missing:
        return set()
    query = select(column).where(context.dialect.column_in(column, sorted(missing)))
    return set(context.connection.execute(query).scalars())


def _locked(context: StoreContext, *which: Any) -> Sequence[Any]:
    """Lock runs in the order of their ids, as all processes do, and return their rows."""
    runs = context.tables.runs
    query = select(runs).where(*which).order_by(runs.c.id)
    if context.dialect.skips_locked:
        ids = list(context.connection.execute(select(runs.c.id).where(*which)).scalars())
        query = query.where(context.dialect.column_in(runs.c.id, ids)).with_for_update()
    return context.connection.execute(query).all()


def _is_cancelled(row: Any) -> bool:
    return bool(row.revoked) or row.cancel is not None


def _write_stats(context: StoreContext, settlements: Sequence[Settlement]) -> None:
    """Add the attempts to the statistics of jobs that may still exist."""
    stats_by_job: dict[str, JobStats] = {}
    for settlement in settlements:
        if _is_counted(settlement):
            job_id = settlement.attempt.run.job.id
            stats_by_job[job_id] = with_attempt(stats_by_job.get(job_id, NO_STATS), settlement.attempt)
    context.dialect.update_rows(context.connection, context.tables.jobs, [
        {
            "id": job_id,
            "run_count": stats.run_count,
            "last_run": micros_or_none(stats.last_run),
            "last_success": micros_or_none(stats.last_success),
            "last_error": json_text(stats.last_error),
            "last_outcome": None if stats.last_outcome is None else stats.last_outcome.value,
        }
        for job_id, stats in sorted(stats_by_job.items())  # all processes lock in this order
        if stats is not NO_STATS
    ], added=["run_count"], kept=["last_run", "last_success", "last_error", "last_outcome"])  # fmt: skip


def _is_counted(settlement: Settlement) -> bool:
    """Tell whether the job of an attempt may exist: the last firing removes a job."""
    job = settlement.attempt.run.job
    return job.next_run_time is not None or not job.auto_remove
