"""Settling in the SQL store: how runs end, what follows them, and who is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, not_, or_, select, update

from goscheduler.codec import CodecError
from goscheduler.jobstores._sql_firing import Work, free_held, put_aside
from goscheduler.jobstores._sql_rows import quoted
from goscheduler.runs.model import NEWBORN, DeadLetter, JobLife, OutcomeKind, Run, Settlement
from goscheduler.runs.plan import keys_of
from goscheduler.runs.records import Retention, record_of
from goscheduler.runs.transitions import lived
from goscheduler.times import instant


def settle(work: Work, settlements: Sequence[Settlement]) -> tuple[list[Settlement], bool]:
    """Write how runs ended. Return those that were refused, and whether there is something new to claim."""
    current = _current(work, [settlement.attempt.run.id for settlement in settlements])
    refused: list[Settlement] = []
    accepted: list[Settlement] = []
    for settlement in settlements:
        row = current.pop(settlement.attempt.run.id, None)
        if row is None or row.fence != settlement.attempt.run.fence:
            refused.append(settlement)
        else:
            accepted.append(_allowed(settlement, row))
    return refused, bool(accepted) and write_ends(work, accepted)


def write_ends(work: Work, settlements: Sequence[Settlement]) -> bool:
    """Write the ends of runs that are ours; true if there is something new to claim."""
    connection, tables, dialect, rows, _ = work
    records = [record_of(settlement.attempt) for settlement in settlements]
    ids = [settlement.attempt.run.id for settlement in settlements]
    connection.execute(delete(tables.runs).where(tables.runs.c.id.in_(ids)))
    dialect.insert_rows(connection, tables.history, [rows.history_row(record) for record in records])
    letters = [
        DeadLetter(settlement.attempt.run, record, settlement.dead)
        for settlement, record in zip(settlements, records, strict=True)
        if settlement.dead is not None
    ]
    if letters:
        connection.execute(delete(tables.dead).where(tables.dead.c.run_id.in_([letter.run.id for letter in letters])))
        dialect.insert_rows(connection, tables.dead, [rows.dead_row(letter) for letter in letters])
    follow_ups = [settlement.follow_up for settlement in settlements if settlement.follow_up is not None]
    dialect.insert_rows(connection, tables.runs, [rows.run_row(run) for run in follow_ups])
    _write_lives(work, settlements)
    keys = Counter(key for settlement in settlements for key in keys_of(settlement.attempt.run))
    return free_held(work, keys) or bool(follow_ups)


def recover(work: Work, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
    """Give up the owners whose lease has lapsed, and settle what they had."""
    connection, tables, dialect, rows, _ = work
    owners, runs = tables.owners, tables.runs
    alive = select(owners.c.id).where(owners.c.expires > instant(now))
    lapsed = connection.execute(select(owners).where(owners.c.expires <= instant(now))).all()
    hosts = {row.id: json.loads(row.account)[0] for row in lapsed}
    connection.execute(delete(owners).where(owners.c.expires <= instant(now)))
    query = select(runs).where(runs.c.owner.is_not(None), runs.c.owner.not_in(alive))
    if dialect.skips_locked:
        query = query.with_for_update(skip_locked=True)
    settlements = []
    for row in connection.execute(query).all():
        try:
            settlements.append(_allowed(decide(rows.run(row), hosts.get(row.owner, "")), row))
        except CodecError as error:
            put_aside(work, row.id, str(error))
    if settlements:
        write_ends(work, settlements)
    return settlements


def prune(work: Work, retention: Retention, now: datetime, limit: int) -> int:
    """Forget records that are not to be kept, oldest first, at most ``limit``; return how many."""
    history = work.tables.history
    columns = history.c
    succeeded = columns.outcome == OutcomeKind.SUCCEEDED.value
    old = or_(
        and_(succeeded, columns.finished < instant(now - retention.succeeded)),
        and_(not_(succeeded), columns.finished < instant(now - retention.others)),
    )
    place = func.row_number().over(partition_by=columns.job_id, order_by=columns.finished.desc())
    crowded = (
        select(columns.job_id).where(succeeded).group_by(columns.job_id).having(func.count() > retention.succeeded_per_job)
    )
    numbered = (
        select(columns.finished, columns.run_id, columns.fence, place.label("place"))
        .where(succeeded, columns.job_id.in_(crowded))
        .subquery()
    )
    wanted = [
        select(columns.finished, columns.run_id, columns.fence).where(old),
        select(numbered.c.finished, numbered.c.run_id, numbered.c.fence)
        .where(numbered.c.place > retention.succeeded_per_job),
    ]  # fmt: skip
    positions = {
        tuple(row) for query in wanted for row in work.connection.execute(query.order_by("finished").limit(limit))
    }
    oldest = sorted(positions)[:limit]
    if oldest:
        statement = delete(history).where(
            columns.finished == bindparam("at"), columns.run_id == bindparam("run"), columns.fence == bindparam("number")
        )
        work.connection.execute(statement, [{"at": at, "run": run, "number": number} for at, run, number in oldest])
    return len(oldest)


def _current(work: Work, run_ids: Sequence[str]) -> dict[str, Any]:
    """Return run id → row, of the runs that an owner has; their rows are locked."""
    runs = work.tables.runs
    query = select(runs.c.id, runs.c.fence, runs.c.revoked, runs.c.cancel)
    query = query.where(runs.c.id.in_(run_ids), runs.c.owner.is_not(None))
    if work.dialect.skips_locked:
        query = query.with_for_update()
    return {row.id: row for row in work.connection.execute(query)}


def _allowed(settlement: Settlement, row: Any) -> Settlement:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    return settlement._replace(follow_up=None) if row.revoked or row.cancel is not None else settlement


def _write_lives(work: Work, settlements: Sequence[Settlement]) -> None:
    """Count the attempts on the jobs that may still be there."""
    lives: dict[str, JobLife] = {}
    for settlement in settlements:
        job = settlement.attempt.run.job
        if job.next_run_time is not None or not job.auto_remove or settlement.attempt.run.attempt > 1:
            lives[job.id] = lived(lives.get(job.id, NEWBORN), settlement.attempt)
    jobs = work.tables.jobs
    for job_id, life in lives.items():
        if life is NEWBORN:
            continue
        changes: dict[str, Any] = {
            "run_count": jobs.c.run_count + life.run_count,
            "last_run": None if life.last_run is None else instant(life.last_run),
            "last_outcome": None if life.last_outcome is None else life.last_outcome.value,
        }
        if life.last_success is not None:
            changes["last_success"] = instant(life.last_success)
        if life.last_error is not None:
            changes["last_error"] = quoted(life.last_error)
        work.connection.execute(update(jobs).where(jobs.c.id == job_id).values(changes))
