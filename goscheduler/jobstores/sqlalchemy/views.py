"""The views of the SQL store: what programs in other languages read. Columns are added to them, and none is changed.

The how-to guide about other languages says what each column means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goscheduler.jobstores.sqlalchemy.tables import MYSQL, Tables, exact_collation
from goscheduler.runs.records import Record

VIEWS = ("jobs_v1", "runs_v1", "messages_v1")
#: Where a value stands in the record of an attempt, which begins with the number of its schema.
_PLACE = {name: number for number, name in enumerate(Record._fields, start=1)}


class _PostgreSQL:
    create = "CREATE OR REPLACE VIEW"

    def moment(self, micros: str) -> str:
        return f"TIMESTAMP WITH TIME ZONE 'epoch' + {micros} * INTERVAL '1 microsecond'"

    def words(self, json: str) -> str:
        """Return the text that a column has as JSON. What the server cannot take as text stays JSON."""
        whole = rf"regexp_replace({json}, '\\ud[89ab][0-9a-f]{{2}}\\ud[c-f][0-9a-f]{{2}}', '', 'g')"
        refused = rf"{whole} ~ '\\u(0000|d[89a-f])'"
        return f"CASE WHEN {refused} THEN {json} ELSE CAST({json} AS JSON) #>> '{{}}' END"

    def element(self, json: str, place: int) -> str:
        return f"((CAST({json} AS JSON) -> {place}) #>> '{{}}')"

    def number(self, text: str) -> str:
        return f"CAST({text} AS BIGINT)"

    def name_in(self, run: str) -> str:
        start = f"strpos({run}, ']{{\"schema\"')"
        return f"CASE WHEN {start} > 0 THEN (CAST(substr({run}, {start} + 1) AS JSON) -> 'name') #>> '{{}}' END"

    def joined(self, *texts: str) -> str:
        return " || ".join(texts)


class _SQLite(_PostgreSQL):
    create = "CREATE VIEW IF NOT EXISTS"

    def moment(self, micros: str) -> str:
        second = f"strftime('%Y-%m-%dT%H:%M:%S', {micros} / 1000000, 'unixepoch')"
        return f"{second} || printf('.%06dZ', {micros} % 1000000)"

    def words(self, json: str) -> str:
        refused = rf"{json} GLOB '*\u0000*' OR {json} GLOB '*\ud[89a-f]*'"
        return f"CASE WHEN {refused} THEN {json} ELSE json_extract({json}, '$') END"

    def element(self, json: str, place: int) -> str:
        return f"json_extract({json}, '$[{place}]')"

    def name_in(self, run: str) -> str:
        start = f"instr({run}, ']{{\"schema\"')"
        return f"CASE WHEN {start} > 0 THEN json_extract(substr({run}, {start} + 1), '$.name') END"


class _MySQL(_PostgreSQL):
    def __init__(self, collation: str) -> None:
        self._collation = collation

    def moment(self, micros: str) -> str:
        return f"TIMESTAMP '1970-01-01 00:00:00.000000' + INTERVAL {micros} MICROSECOND"

    def words(self, json: str) -> str:
        return f"JSON_UNQUOTE({json}) COLLATE {self._collation}"

    def element(self, json: str, place: int) -> str:
        return self._text(f"JSON_EXTRACT({json}, '$[{place}]')")

    def number(self, text: str) -> str:
        return f"CAST({text} AS SIGNED)"

    def name_in(self, run: str) -> str:
        start = f"LOCATE(']{{\"schema\"', {run})"
        text = self._text(f"JSON_EXTRACT(SUBSTRING({run}, {start} + 1), '$.name')")
        return f"CASE WHEN {start} > 0 THEN {text} END"

    def joined(self, *texts: str) -> str:
        return f"CONCAT({', '.join(texts)})"

    def _text(self, json: str) -> str:
        return f"CASE WHEN JSON_TYPE({json}) <> 'NULL' THEN JSON_UNQUOTE({json}) COLLATE {self._collation} END"


def views(tables: Tables, dialect: Any) -> Iterator[str]:
    """Yield the statements that make the views; none for a database whose functions are not known."""
    sql: _PostgreSQL
    if dialect.name in MYSQL:
        sql = _MySQL(exact_collation(dialect))
    elif dialect.name in ("postgresql", "sqlite"):
        sql = _PostgreSQL() if dialect.name == "postgresql" else _SQLite()
    else:
        return
    schema = "" if tables.metadata.schema is None else f"{dialect.identifier_preparer.quote(tables.metadata.schema)}."
    place = f"{schema}{tables.prefix}_"
    for name, query in zip(VIEWS, (_jobs(sql, place), _runs(sql, place), _messages(sql, place)), strict=True):
        yield f"{sql.create} {place}{name} AS {query}"


def _jobs(sql: _PostgreSQL, place: str) -> str:
    live = f"FROM {place}runs r WHERE r.job_id = j.id AND r.owner IS NOT NULL"
    return f"""
SELECT j.id AS id, CASE
    WHEN EXISTS (SELECT 1 {live}) THEN 'running'
    WHEN j.suspended IS NOT NULL THEN 'suspended'
    WHEN j.next_run IS NOT NULL THEN 'scheduled'
    WHEN j.finished IS NULL THEN 'paused'
    WHEN j.last_outcome = 'succeeded' THEN 'completed'
    ELSE 'failed' END AS status,
  j.name AS name, j.task AS task, j.executor AS executor, j.priority AS priority,
  {sql.moment("j.due")} AS due, j.run_count AS attempts, (SELECT min(r.owner) {live}) AS owner,
  {sql.words("COALESCE(j.suspended, j.last_error)")} AS error, j.last_outcome AS last_outcome,
  {sql.moment("j.last_run")} AS last_run, {sql.moment("j.last_success")} AS last_success,
  {sql.moment("j.finished")} AS finished, j.paused_by AS paused_by, {sql.words("j.pause_reason")} AS pause_reason,
  {sql.moment("j.created_at")} AS created, j.created_by AS created_by
FROM {place}jobs j"""


def _runs(sql: _PostgreSQL, place: str) -> str:
    def of_record(name: str) -> str:
        return sql.element("h.record", _PLACE[name])

    due = sql.number(of_record("scheduled_at"))
    told = f"COALESCE(NULLIF({of_record('error_message')}, ''), NULLIF({of_record('reason')}, ''))"
    return f"""
SELECT r.id AS id, r.job_id AS job_id, CASE
    WHEN r.owner IS NOT NULL THEN 'claimed' WHEN r.held IS NOT NULL THEN 'blocked' ELSE 'pending' END AS status,
  r.task AS task, r.executor AS executor, {sql.moment("COALESCE(r.ready, r.due)")} AS due, r.attempt AS attempts,
  r.owner AS owner, {sql.words("r.cancel")} AS cancel_reason, NULL AS error, {sql.moment("NULL")} AS finished
FROM {place}runs r
UNION ALL
SELECT h.run_id, h.job_id, h.outcome, {of_record("task")}, {of_record("executor")}, {sql.moment(due)},
  {sql.number(of_record("attempt"))}, {of_record("owner")}, NULL, {told}, {sql.moment("h.finished")}
FROM {place}history h"""


def _messages(sql: _PostgreSQL, place: str) -> str:
    def of_record(name: str) -> str:
        return sql.element("d.record", _PLACE[name])

    def task_of(executor: str) -> str:
        return sql.joined("'goscheduler.'", executor)

    due = sql.number(of_record("scheduled_at"))
    told = f"COALESCE(NULLIF({of_record('error_message')}, ''), NULLIF({of_record('reason')}, ''))"
    return f"""
SELECT j.id AS id, 'pending' AS status, j.name AS event, j.executor AS source, {sql.moment("j.due")} AS due,
  0 AS attempts, NULL AS owner, {sql.words("j.last_error")} AS error
FROM {place}jobs j WHERE j.task = {task_of("j.executor")}
UNION ALL
SELECT r.job_id, CASE WHEN r.owner IS NOT NULL OR r.attempt = 1 THEN 'delivering' ELSE 'retrying' END,
  {sql.name_in("r.run")}, r.executor, {sql.moment("COALESCE(r.ready, r.due)")},
  CASE WHEN r.owner IS NOT NULL THEN r.attempt ELSE r.attempt - 1 END, r.owner, NULL
FROM {place}runs r WHERE r.task = {task_of("r.executor")}
UNION ALL
SELECT d.job_id, 'dead', {of_record("job_name")}, {of_record("executor")}, {sql.moment(due)},
  {sql.number(of_record("attempt"))}, NULL, {told}
FROM {place}dead d WHERE {of_record("task")} = {task_of(of_record("executor"))}"""
