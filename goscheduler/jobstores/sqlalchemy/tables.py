"""The tables of the SQL store; ``migrations`` makes them and brings older ones up to date.

Moments are whole microseconds since 1970. Texts are what ``_shared.records`` writes; reasons and
errors are JSON, because not every database takes every character.

===========  =====================================================================================================
``jobs``     one row a job; ``due`` is its next time while it can fire, null while it is paused, suspended or finished
``runs``     one row for each run that has not ended; ``ready`` is its due time while it can be claimed, null while it
             waits or an owner has it; ``held`` is the key of the job or limit that it waits for, ``freed`` the key
             whose turn it has to try again, ``cancel`` a cancel request
``history``  one row an attempt that has ended, ordered by (finished, run_id, fence)
``dead``     one row a dead letter
``owners``   one row for each start of a scheduler that is alive
``limits``   one row a limit, which whoever starts a run under it locks; what was started, if it has a rate
``usage``    one row for each live run and each limit under which it counts
``notes``    small texts beside the jobs, by kind and name
``inbox``    one row a request of another program; ``inbox_refused`` has those that could not be read, with the reason
``meta``     the version of the tables, and a row that serialises writers where rows cannot be skipped
===========  =====================================================================================================

The index ``jobs_queue`` has everything by which jobs are looked for, behind the columns by which they fire: a search
reads the index and no rows, and a firing writes to no further index for it. ``terms`` and ``words`` of a job are made
by ``sqlalchemy.search_terms``.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, SmallInteger, String, Table, Text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import expression
from sqlalchemy.types import UserDefinedType

from goscheduler.errors import InvalidArgument, shown

VERSION = 5
#: Databases that have every row of a table in every index of it.
MYSQL = ("mysql", "mariadb")
#: The row of ``meta`` that a writer locks where rows cannot be skipped.
TURN = "turn"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")


def check_table_name(field: str, value: Any) -> str:
    """Return a name that needs no quoting anywhere, or raise."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument(
            f"{field} must be a name of letters, digits and underscores, at most 48 characters, got {shown(value)}",
            field=field,
            value=value,
        )
    return value


def exact_collation(dialect: Any) -> str:
    """Return the collation by which a server of MySQL or MariaDB compares byte by byte, spaces at the end included."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


class _Varchar(mysql.VARCHAR):
    """A name, with the collation that the server has for it."""


class _LongText(mysql.LONGTEXT):
    """A long text, with the same collation, because those of different ones cannot be put together."""


@compiles(_Varchar, *MYSQL)
@compiles(_LongText, *MYSQL)
def _declaration(text: Any, compiler: Any, **_: Any) -> str:
    # The collation is not known before: behind a URL of MySQL there may be a server of MariaDB.
    kind = "LONGTEXT" if text.length is None else f"VARCHAR({text.length})"
    return f"{kind} CHARACTER SET utf8mb4 COLLATE {exact_collation(compiler.dialect)}"


class _Moment(UserDefinedType[Any]):
    """A moment as people read it: with a time zone on PostgreSQL, in UTC elsewhere, as ISO text on SQLite."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "TIMESTAMP WITH TIME ZONE"


@compiles(_Moment, "sqlite")
def _iso_text(moment: Any, compiler: Any, **_: Any) -> str:
    return "TEXT"


@compiles(_Moment, *MYSQL)
def _datetime(moment: Any, compiler: Any, **_: Any) -> str:
    return "DATETIME(6)"


class _Now(expression.FunctionElement[Any]):
    """The present moment, as the default of a column of that type."""

    inherit_cache = True


@compiles(_Now)
def _now(element: Any, compiler: Any, **_: Any) -> str:
    return "CURRENT_TIMESTAMP"


@compiles(_Now, "sqlite")
def _now_as_text(element: Any, compiler: Any, **_: Any) -> str:
    return "(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"


@compiles(_Now, *MYSQL)
def _now_in_utc(element: Any, compiler: Any, **_: Any) -> str:
    return "(UTC_TIMESTAMP(6))"


def _text(length: int) -> Any:
    """Return a type for names that are compared and ordered byte by byte, on every database."""
    ordered = postgresql.VARCHAR(length, collation="C")
    return String(length).with_variant(_Varchar(length), *MYSQL).with_variant(ordered, "postgresql")


def _long_text() -> Any:
    return Text().with_variant(_LongText(), *MYSQL)


ID = 255
#: Characters of what jobs are looked for by, and how many bytes they are at most.
TERMS, WORDS, WORDS_BYTES = 72, 150, 240
#: Begins the terms of a job that has more of them than there is room for, or of which they are not known.
ANY_TERM = "*"


class Tables:
    """The tables of one store."""

    def __init__(self, prefix: str, schema: str | None) -> None:
        self.metadata = MetaData(schema=schema)
        self.prefix = prefix
        self.jobs = self._table("jobs", *_jobs_columns(), sqlite_with_rowid=True)
        self.runs = self._table("runs", *_runs_columns())
        self.history = self._table("history", *_history_columns())
        self.dead = self._table("dead", *_dead_columns())
        self.owners = self._table("owners", *_owners_columns())
        self.limits = self._table("limits", *_limits_columns())
        self.notes = self._table("notes", *_notes_columns())
        self.inbox = self._table("inbox", *_inbox_columns(), sqlite_with_rowid=True, sqlite_autoincrement=True)
        self.inbox_refused = self._table("inbox_refused", *_refused_columns())
        self.usage = self._table("usage", *_usage_columns())
        self.meta = self._table("meta", Column("name", _text(64), primary_key=True), Column("value", Integer))
        self._add_indexes(prefix)

    def _table(self, name: str, *columns: Any, sqlite_with_rowid: bool = False, **options: Any) -> Table:
        """Define a table.

        On SQLite its rows stand in the order of their key, as on MySQL: one tree less to write to. But that tree has
        whole rows in its inner pages too, about seven jobs in a page, and a million of them make it deep: jobs have an
        index for their key.
        """
        return Table(f"{self.prefix}_{name}", self.metadata, *columns, sqlite_with_rowid=sqlite_with_rowid, **options)

    def _add_indexes(self, prefix: str) -> None:
        jobs, runs, history, dead = self.jobs.c, self.runs.c, self.history.c, self.dead.c
        self.jobs_queue = Index(
            f"{prefix}_jobs_queue", jobs.executor, jobs.priority, jobs.due, jobs.id, jobs.finished, jobs.last_outcome,
            jobs.is_suspended, jobs.terms, jobs.words,
        )  # fmt: skip
        """Its order is that of the jobs that fire together. Servers take no longer keys than these may be."""
        Index(f"{prefix}_runs_job", runs.job_id)
        Index(f"{prefix}_history_job", history.job_id, history.finished)
        Index(f"{prefix}_dead_finished", dead.finished)
        Index(f"{prefix}_usage_name", self.usage.c.name)
        _index_of_few(f"{prefix}_jobs_finished", jobs.finished)
        self.partial = [
            _index_of_few(f"{prefix}_jobs_suspended", jobs.id, only=jobs.suspended),
            _index_of_few(f"{prefix}_runs_ready", runs.executor, runs.priority, runs.ready, only=runs.ready),
            _index_of_few(f"{prefix}_runs_held", runs.held, runs.due, only=runs.held),
            _index_of_few(f"{prefix}_runs_freed", runs.freed),
            _index_of_few(f"{prefix}_runs_cancel", runs.owner, only=runs.cancel),
        ]
        """Indexes that are of no use where they would have all rows in them, and be written to at every firing."""
        self.complete = [
            Index(f"{prefix}_runs_pending", runs.owner, runs.held, runs.executor, runs.priority, runs.ready),
            Index(
                f"{prefix}_runs_apart", runs.held, runs.freed, runs.cancel, runs.due,
                mysql_length={"cancel": 1}, mariadb_length={"cancel": 1},
            ),
        ]  # fmt: skip
        """Their replacement on MySQL. Columns that few rows have come first: these rows stand together at the end."""
        for index in self.partial:
            index.ddl_if(callable_=_leaves_rows_out)
        for index in self.complete:
            index.ddl_if(callable_=_has_all_rows)


def _index_of_few(name: str, *columns: Any, only: Any = None) -> Index:
    """Return an index of only the rows in which ``only`` has a value, where the database has partial indexes."""
    few = (columns[0] if only is None else only).is_not(None)
    return Index(name, *columns, sqlite_where=few, postgresql_where=few)


def _leaves_rows_out(*_: Any, dialect: Any, **__: Any) -> bool:
    return dialect.name not in MYSQL


def _has_all_rows(*_: Any, dialect: Any, **__: Any) -> bool:
    return dialect.name in MYSQL


def _jobs_columns() -> list[Column[Any]]:
    return [
        Column("id", _text(ID), primary_key=True),
        Column("executor", _text(ID), nullable=False),
        Column("task", _text(ID)),
        Column("priority", SmallInteger, nullable=False),
        Column("due", BigInteger),
        Column("next_run", BigInteger),
        Column("zone", _text(ID), nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("suspended", _long_text()),
        Column("definition", _long_text(), nullable=False),
        Column("limits", _long_text(), nullable=False),
        Column("run_count", BigInteger, nullable=False),
        Column("last_run", BigInteger),
        Column("last_success", BigInteger),
        Column("last_error", _long_text()),
        Column("last_outcome", _text(16)),
        Column("paused_by", _text(ID)),
        Column("finished", BigInteger),
        Column("pause_reason", _long_text()),
        Column("pause_id", _text(ID)),
        Column("created_at", BigInteger),
        Column("created_by", _text(ID)),
        Column("name", _text(ID)),
        Column("is_suspended", SmallInteger),
        Column("terms", _text(TERMS), nullable=False, server_default=ANY_TERM),
        Column("words", _text(WORDS)),
    ]


def _runs_columns() -> list[Column[Any]]:
    return [
        Column("id", _text(64), primary_key=True),
        Column("job_id", _text(ID), nullable=False),
        Column("executor", _text(ID), nullable=False),
        Column("task", _text(ID)),
        Column("priority", SmallInteger, nullable=False),
        Column("due", BigInteger, nullable=False),
        Column("ready", BigInteger),
        Column("owner", _text(64)),
        Column("fence", BigInteger, nullable=False),
        Column("held", _text(300)),
        Column("freed", _text(300)),
        Column("cancel", _long_text()),
        Column("firing", SmallInteger, nullable=False),
        Column("revoked", SmallInteger, nullable=False),
        Column("limits", _long_text(), nullable=False),
        Column("run", _long_text(), nullable=False),
        Column("attempt", SmallInteger, nullable=False, server_default="1"),
    ]


def _history_columns() -> list[Column[Any]]:
    return [
        Column("finished", BigInteger, primary_key=True, autoincrement=False),
        Column("run_id", _text(64), primary_key=True),
        Column("fence", BigInteger, primary_key=True, autoincrement=False),
        Column("job_id", _text(ID), nullable=False),
        Column("outcome", _text(16), nullable=False),
        Column("error_type", _text(ID)),
        Column("tags", _long_text(), nullable=False),
        Column("record", _long_text(), nullable=False),
    ]


def _dead_columns() -> list[Column[Any]]:
    return [
        Column("run_id", _text(64), primary_key=True),
        Column("finished", BigInteger, nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("job_id", _text(ID), nullable=False),
        Column("outcome", _text(16), nullable=False),
        Column("error_type", _text(ID)),
        Column("tags", _long_text(), nullable=False),
        Column("record", _long_text(), nullable=False),
        Column("run", _long_text(), nullable=False),
        Column("reason", _long_text(), nullable=False),
    ]


def _owners_columns() -> list[Column[Any]]:
    return [
        Column("id", _text(64), primary_key=True),
        Column("expires", BigInteger, nullable=False),
        Column("account", _long_text(), nullable=False),
    ]


def _limits_columns() -> list[Column[Any]]:
    return [
        Column("name", _text(ID), primary_key=True),
        Column("state", _long_text(), nullable=False),
    ]


def _notes_columns() -> list[Column[Any]]:
    return [
        Column("kind", _text(64), primary_key=True),
        Column("name", _text(ID), primary_key=True),
        Column("note", _long_text(), nullable=False),
    ]


def _inbox_columns() -> list[Column[Any]]:
    return [
        Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
        Column("request", _long_text(), nullable=False),
        Column("created", _Moment(), server_default=_Now()),
    ]


def _refused_columns() -> list[Column[Any]]:
    return [
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        Column("request", _long_text(), nullable=False),
        Column("created", _Moment()),
        Column("reason", _long_text(), nullable=False),
        Column("refused", _Moment(), server_default=_Now()),
    ]


def _usage_columns() -> list[Column[Any]]:
    return [
        Column("run_id", _text(64), primary_key=True),
        Column("name", _text(ID), primary_key=True),
    ]
