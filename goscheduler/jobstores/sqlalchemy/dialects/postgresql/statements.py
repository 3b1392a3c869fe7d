"""The statements of messages to PostgreSQL: each of them looks, decides by what it finds, and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.sqlalchemy.bulk import Batch, Columns, Given, named
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect, number_of
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import unless
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.dialect import OLD, given_rows
from goscheduler.jobstores.sqlalchemy.firing import Decisions
from goscheduler.jobstores.sqlalchemy.holds import Work
from goscheduler.jobstores.sqlalchemy.rows import DueJob, with_heads
from goscheduler.jobstores.sqlalchemy.settling import by_fence
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.runs.model import Settlement
from goscheduler.times import SECOND, to_micros

Statement = tuple[str, tuple[Any, ...]]

#: Texts that are given as one of JSON. To look for one of them, the server goes by an index, whatever it believes to
#: know about its tables; a join with them can make it read all of a table for each.
_TEXTS = "ARRAY(SELECT json_array_elements_text(CAST(%s AS JSON)))"


def take_turns(message: Any, tables: Tables, dialect: Dialect) -> None:
    """Let messages that fire come one after the other.

    Who comes too late then finds what was written, and not what is about to be. None of them waits for anything else,
    least of all for its sender.
    """
    dialect.begin(message, tables)
    message.add(f"SELECT pg_advisory_xact_lock({number_of(tables) + 2**32})")


def firing_of(
    connection: Connection,
    tables: Tables,
    due: Sequence[DueJob],
    jobs: Sequence[DueJob],
    decided: Decisions,
    request: FireRequest,
    now: str,
) -> Statement:
    """Return what writes plans, and gives the ids of those of the jobs for which they are right; ``now`` is SQL.

    ``jobs`` are the first of those that are ``due``. Nothing is written if another one is due for the same executors,
    or one has another rank by now, or if the plans were made by a clock that is wrong.
    """
    executors = sorted({job.executor for job in jobs})
    known = given_rows(connection, tables.jobs, Batch(_known_columns(jobs, decided)))
    begun = given_rows(connection, tables.runs, Batch.to_insert(with_heads(decided.run_columns())))
    places = json.dumps([_place(job) for job in due])
    others = (
        "job.due <= (SELECT moment FROM clock) AND CAST(json_build_array(job.executor, job.priority, job.due, job.id)"
        " AS TEXT) NOT IN (SELECT json_array_elements_text(CAST(%s AS JSON)))"
    )
    statement = _FIRING.format(
        now=now, jobs=named(connection, tables.jobs), runs=named(connection, tables.runs),
        known=_selection(known), begun=_selection(begun), columns=", ".join(begun.values),
        values=", ".join("begun.run || same.definition" if name == "run" else f"begun.{name}" for name in begun.values),
        other=_first_of_lanes(connection, tables, "job.id", others, 1), second=SECOND,
    )  # fmt: skip
    lanes = json.dumps(executors), places, json.dumps([*request.tasks])
    return statement, (*known.parameters, *begun.parameters, to_micros(decided.now), *lanes)


def _place(job: DueJob) -> str:
    """Return where a job stands, in the words of the server; what it would say in other words is not known to it."""
    return json.dumps([job.executor, job.priority, job.due, job.id], ensure_ascii=False)


_KNOWN = ("id", f"{OLD}due", f"{OLD}zone", f"{OLD}fence", f"{OLD}definition", "due", "zone", "fence")


def _known_columns(jobs: Sequence[DueJob], decided: Decisions) -> Columns:
    moved = {change["id"]: (change["due"], change["zone"], change["fence"]) for change in decided.moved}
    rows = [(job.id, job.due, job.zone, job.fence, job.definition, *moved.get(job.id, (None, "", 0))) for job in jobs]
    return dict(zip(_KNOWN, zip(*rows, strict=True), strict=True))


_FIRING = """
WITH clock AS (SELECT {now} AS moment),
known AS ({known}),
begun AS ({begun}),
there AS (
    SELECT job.id, job.due, job.zone, job.fence, job.definition FROM {jobs} AS job
    WHERE job.id = ANY (ARRAY(SELECT id FROM known)) AND job.due <= (SELECT moment FROM clock)
    AND %s <= (SELECT moment FROM clock) + {second}
    AND NOT EXISTS (SELECT 1 FROM {runs} AS run WHERE run.job_id = job.id)
    AND NOT EXISTS ({other})
    FOR UPDATE SKIP LOCKED
),
same AS (
    SELECT known.id, known.due, known.zone, known.fence, there.definition FROM there JOIN known ON known.id = there.id
    WHERE there.due = known.old_due AND there.zone = known.old_zone AND there.fence = known.old_fence
    AND there.definition = known.old_definition
),
moved AS (
    UPDATE {jobs} AS job SET due = same.due, next_run = same.due, zone = same.zone, fence = same.fence, finished = NULL
    FROM same WHERE job.id = same.id AND same.due IS NOT NULL RETURNING job.id
),
gone AS (
    DELETE FROM {jobs} AS job WHERE job.id = ANY (ARRAY(SELECT id FROM same WHERE due IS NULL)) RETURNING job.id
),
fired AS (SELECT id FROM moved UNION ALL SELECT id FROM gone),
started AS (
    INSERT INTO {runs} ({columns}) SELECT {values} FROM begun JOIN same ON same.id = begun.job_id
    WHERE same.id IN (SELECT id FROM fired)
)
SELECT id FROM fired
"""


def end_untouched(work: Work, settlements: Sequence[Settlement]) -> None:
    """Remove, by a message, runs that are as they were when they were started, all of them or none.

    The message is refused, too, if runs are held until others have ended: somebody has to let them try again.
    """
    message, tables, dialect, _ = work
    runs = named(message, tables.runs)
    dialect.begin(message, tables)
    for fence, ids in by_fence(settlements).items():
        message.exec_driver_sql(
            f"WITH ended AS (DELETE FROM {runs} AS run WHERE run.id = ANY ({_TEXTS}) AND run.fence = {fence}"
            " AND run.owner IS NOT NULL AND run.revoked = 0 AND run.cancel IS NULL RETURNING 1)"
            + unless(f"(SELECT count(*) FROM ended) = {len(ids)}"),
            (json.dumps(ids),),
        )
    message.exec_driver_sql(unless(f"NOT EXISTS (SELECT 1 FROM {runs} AS run WHERE run.held IS NOT NULL)"))


def next_jobs(connection: Connection, tables: Tables, request: FireRequest, most: int) -> Statement:
    """Return what gives the jobs that will be due next, the earliest first."""
    columns = ", ".join(f"job.{name}" for name in DueJob._fields)
    query = _first_of_lanes(connection, tables, columns, "job.due IS NOT NULL", most)
    return f"{query} ORDER BY first.due LIMIT {most}", (json.dumps([*request.room]), json.dumps([*request.tasks]))


def _first_of_lanes(connection: Connection, tables: Tables, columns: str, which: str, most: int) -> str:
    """Return the query for the first jobs of each priority, in the order of an index. Executors and tasks are given."""
    return f"""
        SELECT first.* FROM unnest({_TEXTS}) AS executor (name) CROSS JOIN generate_series(0, 9) AS priority (number)
        CROSS JOIN LATERAL (
            SELECT {columns} FROM {named(connection, tables.jobs)} AS job
            WHERE job.executor = executor.name AND job.priority = priority.number AND {which}
            AND (job.task IS NULL OR job.task = ANY ({_TEXTS}))
            ORDER BY job.due LIMIT {most}
        ) AS first
    """


def _selection(given: Given) -> str:
    """Return the query that gives rows as they were sent."""
    columns = ", ".join(f"{value} AS {name}" for name, value in given.values.items())
    return f"SELECT {columns} FROM {given.source}"
