"""Settling in the SQL store: how runs end, what follows them, and who is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import exists, or_, select
from sqlalchemy.engine import Connection

from goscheduler.codec import CodecError
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.claiming import free_held, is_held, put_aside
from goscheduler.jobstores.sqlalchemy.holds import Work, lock, take_rows
from goscheduler.jobstores.sqlalchemy.rows import moment, quoted
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.runs.model import NO_STATS, DeadLetter, JobStats, Run, Settlement
from goscheduler.runs.plan import keys_of
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import with_attempt
from goscheduler.times import to_micros


class Settled(NamedTuple):
    """What became of ends of runs."""

    refused: Sequence[Settlement] = ()
    left: Sequence[Settlement] = ()
    """Those that were not written, because other processes hold the row of the run or of its job."""
    more: bool = False
    """Whether there is something new to claim."""


def settle(work: Work, settlements: Sequence[Settlement]) -> Settled:
    """Write how runs ended, and wait for no row that another process holds."""
    rows, held = _taken(work, [settlement.attempt.run.id for settlement in settlements])
    held_jobs = _held_jobs(work, settlements)
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
            accepted.append(_allowed(settlement, row))
    return Settled(refused, left, bool(accepted) and _end(work, accepted))


def _end(work: Work, settlements: Sequence[Settlement]) -> bool:
    ids = [settlement.attempt.run.id for settlement in settlements]
    work.dialect.delete_rows(work.connection, work.tables.runs.c.id, ids)
    return write_ends(work, settlements)


def write_ends(work: Work, settlements: Sequence[Settlement]) -> bool:
    """Write how runs ended that have been removed; true if there is something new to claim."""
    connection, tables, dialect, rows = work
    note_ends(work, settlements)
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
    freed = is_held(work) and free_held(
        work, Counter(key for settlement in settlements for key in keys_of(settlement.attempt.run))
    )
    return freed or bool(follow_ups)


def note_ends(work: Work, settlements: Sequence[Settlement]) -> None:
    """Write how runs ended into the history and the lives of their jobs."""
    history = work.rows.history_columns([settlement.attempt for settlement in settlements])
    work.dialect.insert_rows(work.connection, work.tables.history, history, once=True)
    _write_lives(work, settlements)


def is_anything_lost(connection: Connection, tables: Tables, now: datetime) -> bool:
    """Tell whether there is a lapsed owner, or a run of an owner that nobody knows."""
    owners, runs = tables.owners, tables.runs
    lapsed = exists().where(owners.c.expires <= to_micros(now))
    unknown = exists().where(runs.c.owner.is_not(None), runs.c.owner.not_in(select(owners.c.id)))
    return bool(connection.execute(select(or_(lapsed, unknown).label("lost"))).scalar())


def recover(work: Work, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
    """Give up the owners whose lease has lapsed, and settle what they had."""
    connection, tables, dialect, rows = work
    owners, runs = tables.owners, tables.runs
    lapsed = select(owners).where(owners.c.expires <= to_micros(now))
    if dialect.skips_locked:  # somebody else gives it up, or it is just being renewed
        lapsed = lapsed.with_for_update(skip_locked=True)
    hosts = {row.id: json.loads(row.account)[0] for row in connection.execute(lapsed)}
    dialect.delete_rows(connection, owners.c.id, list(hosts))
    query = select(runs).where(runs.c.owner.is_not(None), runs.c.owner.not_in(select(owners.c.id)))
    settlements = []
    for row in take_rows(work, query):
        try:
            settlements.append(_allowed(decide(rows.run(row), hosts.get(row.owner, "")), row))
        except CodecError as error:
            put_aside(work, row.id, str(error))
    held_jobs = _held_jobs(work, settlements)  # their runs have no owner now, and are found again
    settlements = [settlement for settlement in settlements if settlement.attempt.run.job.id not in held_jobs]
    if settlements:
        _end(work, settlements)
    return settlements


def retire(work: Work, owner: str) -> bool:
    """Put back what an owner has; true if there was any. What belongs to a job that was removed is dropped."""
    connection, tables, dialect, _ = work
    owners, runs = tables.owners, tables.runs
    found = _locked(work, runs.c.owner == owner)
    dialect.update_rows(connection, runs, [
        {"id": row.id, "owner": None, "ready": row.due} for row in found if not row.revoked
    ])  # fmt: skip
    dialect.delete_rows(connection, runs.c.id, [row.id for row in found if row.revoked])
    dialect.delete_rows(connection, owners.c.id, [owner])
    keys = Counter(key for row in found for key in _keys_of_row(work, row))
    return free_held(work, keys) or bool(found)


def _keys_of_row(work: Work, row: Any) -> list[str]:
    try:
        return keys_of(work.rows.run(row))
    except CodecError:
        return []


def drop_pending(work: Work, *which: Any) -> Sequence[Any]:
    """Remove pending runs, and return their rows. Where one of them had the turn to try again, another one gets it."""
    runs = work.tables.runs
    rows = _locked(work, runs.c.owner.is_(None), *which)
    if rows:
        work.dialect.delete_rows(work.connection, runs.c.id, [row.id for row in rows])
        free_held(work, Counter(row.freed for row in rows if row.freed is not None))
    return rows


def _taken(work: Work, run_ids: Sequence[str]) -> tuple[dict[str, Any], set[str]]:
    """Lock the rows of runs. Return run id → row of the live ones, and the ids that other processes have locked."""
    runs = work.tables.runs
    query = select(runs.c.id, runs.c.fence, runs.c.revoked, runs.c.cancel, runs.c.owner)
    query = query.where(work.dialect.among(runs.c.id, run_ids))
    if work.dialect.skips_locked:
        query = query.with_for_update(skip_locked=True)
    rows = {row.id: row for row in work.connection.execute(query)}
    live = {run_id: row for run_id, row in rows.items() if row.owner is not None}
    return live, _existing(work, runs.c.id, set(run_ids) - rows.keys())


def _held_jobs(work: Work, settlements: Sequence[Settlement]) -> set[str]:
    """Lock the rows of jobs whose attempts are counted, and return the ids of those that other processes hold."""
    counted = {settlement.attempt.run.job.id for settlement in settlements if _is_counted(settlement)}
    if not work.dialect.skips_locked or not counted:
        return set()
    column = work.tables.jobs.c.id
    return _existing(work, column, counted - lock(work, column, sorted(counted)))


def _existing(work: Work, column: Any, missing: Collection[str]) -> set[str]:
    """Return the ids of rows that are there, although a query that skips locked rows did not find them."""
    if not work.dialect.skips_locked or not missing:
        return set()
    return set(work.connection.execute(select(column).where(work.dialect.among(column, sorted(missing)))).scalars())


def _locked(work: Work, *which: Any) -> Sequence[Any]:
    """Return the rows of runs in the order of their ids, which is the one in which others lock them too."""
    runs = work.tables.runs
    query = select(runs).where(*which).order_by(runs.c.id)
    if work.dialect.skips_locked:
        ids = list(work.connection.execute(select(runs.c.id).where(*which)).scalars())
        query = query.where(work.dialect.among(runs.c.id, ids)).with_for_update()
    return work.connection.execute(query).all()


def _allowed(settlement: Settlement, row: Any) -> Settlement:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    return settlement._replace(follow_up=None) if row.revoked or row.cancel is not None else settlement


def _write_lives(work: Work, settlements: Sequence[Settlement]) -> None:
    """Count the attempts on the jobs that may still be there."""
    lives: dict[str, JobStats] = {}
    for settlement in settlements:
        if _is_counted(settlement):
            job_id = settlement.attempt.run.job.id
            lives[job_id] = with_attempt(lives.get(job_id, NO_STATS), settlement.attempt)
    work.dialect.update_rows(work.connection, work.tables.jobs, [
        {
            "id": job_id,
            "run_count": life.run_count,
            "last_run": moment(life.last_run),
            "last_success": moment(life.last_success),
            "last_error": quoted(life.last_error),
            "last_outcome": None if life.last_outcome is None else life.last_outcome.value,
        }
        for job_id, life in sorted(lives.items())  # in the order in which others lock them too
        if life is not NO_STATS
    ], added=["run_count"], kept=["last_run", "last_success", "last_error", "last_outcome"])  # fmt: skip


def _is_counted(settlement: Settlement) -> bool:
    """Tell whether the attempt is counted on its job; a job that fired for the last time was removed by that."""
    job = settlement.attempt.run.job
    return job.next_run_time is not None or not job.auto_remove
