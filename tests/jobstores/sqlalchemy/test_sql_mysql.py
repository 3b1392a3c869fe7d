"""What is special to MySQL and MariaDB: their indexes, texts in statements; and older tables, on every database."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import String, create_engine, event, insert, inspect, select, text

from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy import migrations as sql_migrations
from goscheduler.jobstores.sqlalchemy.bulk import Batch, columns_of, rows_of
from goscheduler.jobstores.sqlalchemy.dialects.mysql import (
    MAX_STATEMENT_BYTES,
    _literal,
    _literal_rows,
    _literals,
    _portions,
)
from goscheduler.jobstores.sqlalchemy.rows import JobRow
from goscheduler.jobstores.sqlalchemy.tables import VERSION, Tables
from goscheduler.jobstores.sqlalchemy.views import VIEWS
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.queries import JobQuery, Note
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing.contract import NOW, Requests, failed, succeeded
from goscheduler.testing.contract_reads import ids
from goscheduler.triggers.date import DateTrigger

TABLES = Tables("goscheduler", None)
#: ``meta`` first.
ALL = [TABLES.meta, *(table for table in TABLES.metadata.tables.values() if table is not TABLES.meta)]


@pytest.fixture
def started(opened):
    return lambda url, **options: opened(SQLAlchemyJobStore(url, server_time=False, **options))


# Older tables


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request, tmp_path, fresh):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return fresh(request.getfixturevalue("shared_server")(request.param)).url


@pytest.mark.parametrize("broken_off", [False, True])
@pytest.mark.parametrize("version", range(1, VERSION))
def test_older_tables_are_brought_up_to_date_with_all_that_is_in_them(started, make_job, place, version, broken_off):
    store = started(place)
    fill(store, make_job)
    wanted, content = shape(place), rows(place)
    make_older(place, version, broken_off)
    assert store.schema_status().version == version
    assert store.upgrade_schema()
    assert store.schema_status().version == VERSION
    assert shape(place) == wanted
    assert rows(place) == content
    assert ids(store.find_jobs(JobQuery(tag="t", text="TESTING.", sort="id")).jobs) == ["a", "b", "\U0001f600" * 255]
    assert not store.upgrade_schema()
    assert [run.job.id for run in Requests().fire(started(place)).runs] == ["due"]


def test_a_step_that_was_broken_off_does_not_change_again_what_is_changed_already(started, mariadb, fresh):
    place = fresh(mariadb).url
    store = started(place)
    make_older(place, 2, broken_off=True)
    altered = []
    event.listen(store._database.engine, "before_cursor_execute", lambda *call: altered.append(call[2]))
    assert store.upgrade_schema()
    tables = [statement.split()[2] for statement in altered if "CONVERT TO" in statement]
    assert sorted(tables) == sorted(table.name for table in ALL[1:])


@pytest.mark.parametrize(
    ("name", "is_mariadb", "collation"),
    [
        ("mysql", True, "utf8mb4_nopad_bin"),
        ("mariadb", True, "utf8mb4_nopad_bin"),
        ("mysql", False, "utf8mb4_0900_bin"),
    ],
)
def test_every_text_has_the_collation_that_the_server_behind_the_url_knows(name, is_mariadb, collation):
    engine = create_engine(f"{name}+pymysql://")
    engine.dialect.is_mariadb = is_mariadb  # as it is after the first connection
    types = [column.type for table in ALL for column in table.columns if isinstance(column.type, String)]
    declared = {type_.compile(engine.dialect) for type_ in types}
    assert {declaration.partition(" ")[2] for declaration in declared} == {f"CHARACTER SET utf8mb4 COLLATE {collation}"}
    assert {"VARCHAR(255)", "VARCHAR(64)", "LONGTEXT"} <= {declaration.partition(" ")[0] for declaration in declared}


@pytest.mark.parametrize("by_hand", [False, True])
def test_behind_a_url_of_mariadb_there_are_the_same_tables(started, mariadb, fresh, by_hand):
    wanted, place = fresh(mariadb).url, fresh(mariadb).url
    started(wanted)
    store = SQLAlchemyJobStore(place.replace("mysql+", "mariadb+"))
    if by_hand:
        engine = create_engine(place)
        with engine.begin() as connection:
            for statement in store.schema_sql():
                connection.exec_driver_sql(statement)
        engine.dispose()
    assert store.upgrade_schema() is not by_hand
    assert shape(place) == shape(wanted)
    store.shutdown()


def fill(store, make_job):
    """Put something into every table."""
    store.renew_owner(Owner("owner-1", "host", 1), NOW, timedelta(seconds=30))
    store.put_note(Note("audit", "k", "v"))
    with store._database.engine.begin() as connection:
        connection.execute(insert(TABLES.inbox), [{"request": "bad"}])
        connection.execute(insert(TABLES.inbox_refused), {"id": 17, "request": "bad", "reason": "bad"})
    large = {"limits": [Limit("rated", rate="5/1m")], "retry": 1, "args": ("x" * 100_000,), "tags": ["t"]}
    store.add_jobs([make_job(job_id, **large) for job_id in ("a", "b", "\U0001f600" * 255)])
    first, second, _ = Requests().fire(store).runs
    assert not store.settle([succeeded(first), failed(second)])
    store.add_jobs([make_job("due"), make_job("space ", due=None)])


def shape(url):
    """Return the indexes of all tables, and the columns where a step changes them."""
    engine = create_engine(url)
    found = inspect(engine)
    indexes = {
        (table.name, index["name"]): index["column_names"] for table in ALL for index in found.get_indexes(table.name)
    }
    columns = set()
    if engine.dialect.name == "mysql":
        facts = "table_name, column_name, column_type, is_nullable, collation_name"
        query = text(f"SELECT {facts} FROM information_schema.columns WHERE table_schema = DATABASE()")
        with engine.connect() as connection:
            columns = {tuple(row) for row in connection.execute(query)}
    engine.dispose()
    return indexes, columns


def rows(url):
    """Return all that is in all tables but the version."""
    engine = create_engine(url)
    with engine.connect() as connection:
        content = {table.name: sorted(map(repr, connection.execute(select(table)))) for table in ALL[1:]}
    engine.dispose()
    assert all(content.values()), "there is something in every table"
    return content


def make_older(url, version, broken_off):
    """Make tables as they were in a version; or some of them, as if a step from it had broken off."""
    engine = create_engine(url)
    with engine.begin() as connection:
        if version < 4:
            remove_search(connection, broken_off)
        make_usage_older(connection, broken_off)
        if engine.dialect.name == "mysql" and version < 3:
            there = set(inspect(connection).get_table_names())
            for table in [table for table in ALL[broken_off:] if table.name in there]:
                padding = "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
                connection.execute(text(f"ALTER TABLE {table.name} {padding}"))
        if engine.dialect.name == "mysql" and version == 1:
            for index in TABLES.complete[broken_off:]:
                connection.execute(text(f"DROP INDEX {index.name} ON {index.table.name}"))
            for index in TABLES.partial[broken_off:]:
                columns = ", ".join(column.name for column in index.columns)
                connection.execute(text(f"CREATE INDEX {index.name} ON {index.table.name} ({columns})"))
        connection.execute(text(f"UPDATE goscheduler_meta SET value = {version} WHERE name = 'schema'"))
    engine.dispose()


def make_usage_older(connection, broken_off):
    """Make tables of version 4; or with some wrong rows, as if the step from it had broken off."""
    if broken_off:
        connection.execute(text("UPDATE goscheduler_usage SET run_id = 'ended'"))
    else:
        connection.execute(text("DROP TABLE goscheduler_usage"))


#: What version 4 has added to tables that were there.
ADDED = {
    "goscheduler_jobs": (
        "words", "terms", "is_suspended", "name", "created_by", "created_at", "pause_id", "pause_reason",
    ),
    "goscheduler_runs": ("attempt",),
}  # fmt: skip


def remove_search(connection, broken_off):
    """Make tables of version 3; or leave some columns, as if the step from it had broken off."""
    for view in VIEWS:
        connection.execute(text(f"DROP VIEW goscheduler_{view}"))
    on_table = " ON goscheduler_jobs" if connection.dialect.name == "mysql" else ""
    connection.execute(text(f"DROP INDEX goscheduler_jobs_queue{on_table}"))
    connection.execute(text("CREATE INDEX goscheduler_jobs_due ON goscheduler_jobs (executor, priority, due)"))
    for table, columns in ADDED.items():
        if broken_off and table == "goscheduler_jobs":
            connection.execute(text("UPDATE goscheduler_jobs SET words = NULL, terms = '*'"))
        for column in columns[2 * broken_off :]:
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))


# Who makes the tables


def test_who_does_not_get_its_turn_to_make_the_tables_says_so_and_makes_none(mariadb, fresh, scheduler, monkeypatch):
    monkeypatch.setattr(sql_migrations, "_TRY_SECONDS", 0)
    space = fresh(mariadb)
    store = SQLAlchemyJobStore(space.url, tablename="alone")
    lock = f"{space.name}.alone_meta"
    engine = create_engine(space.url)
    with engine.connect() as other:
        assert other.execute(text(f"SELECT GET_LOCK('{lock}', 0)")).scalar()
        with pytest.raises(StoreUnavailable, match=rf"Another process.*\"alone_meta\".*IS_USED_LOCK\('{lock}'\)"):
            store.start(scheduler, "default")
        assert not inspect(engine).get_table_names()
        other.execute(text(f"SELECT RELEASE_LOCK('{lock}')"))
    store.start(scheduler, "default")
    assert store.schema_status().current
    store.shutdown()
    engine.dispose()


def during(monkeypatch, step):
    """Let a step be taken by the first process that makes tables, before it makes them."""
    create = sql_migrations._create

    def interrupted(tables, connection):
        monkeypatch.setattr(sql_migrations, "_create", create)
        step(connection)
        create(tables, connection)

    monkeypatch.setattr(sql_migrations, "_create", interrupted)


def test_who_makes_tables_does_not_hold_up_those_who_make_theirs_in_another_database_of_the_server(
    started, mariadb, fresh, monkeypatch
):
    monkeypatch.setattr(sql_migrations, "_TRY_SECONDS", 0)
    one, other = fresh(mariadb).url, fresh(mariadb).url
    during(monkeypatch, lambda connection: started(other))
    assert started(one).schema_status().current
    assert SQLAlchemyJobStore(other).schema_status().current


@pytest.mark.parametrize(("database", "name"), [("jobs", "jobs.goscheduler_meta"), ("d" * 64, None)])
def test_the_lock_of_those_who_make_tables_has_a_name_that_the_server_takes(database, name):
    found = sql_migrations._lock_name(Tables("goscheduler", database), None)
    assert found == (name or found)
    assert len(found) <= 64
    assert found != sql_migrations._lock_name(Tables("goscheduler", f"{database[1:]}x"), None)


def test_a_connection_that_is_lost_while_the_tables_are_made_is_an_outage_and_they_are_made_later(
    mariadb, fresh, scheduler, monkeypatch
):
    place = fresh(mariadb).url
    store, engine = SQLAlchemyJobStore(place), create_engine(place)

    def lose(connection):
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar()
        with engine.connect() as other:
            other.execute(text(f"KILL {number}"))

    during(monkeypatch, lose)
    with pytest.raises(StoreUnavailable, match="connection to the database was lost"):
        store.start(scheduler, "default")
    store.start(scheduler, "default")
    assert store.schema_status().current
    store.shutdown()
    engine.dispose()


def test_who_comes_next_finds_the_tables_made(mariadb, fresh, scheduler):
    store, done = SQLAlchemyJobStore(fresh(mariadb).url), []
    engine = store._database.engine
    event.listen(engine, "commit", lambda _: done.append("COMMIT"))
    event.listen(engine, "before_cursor_execute", lambda *call: done.append(call[2]))
    assert store.upgrade_schema()
    written = max(number for number, what in enumerate(done) if what.startswith("INSERT INTO goscheduler_meta"))
    assert done[written + 1 :][:2] == ["COMMIT", "SELECT RELEASE_LOCK(%s)"]
    engine.dispose()


# Texts in statements

TEXTS = {
    "letters": "abc123", "nothing": "", "a quotation mark": "it's", "two of them": "''", "JSON": '{"a": [1, "b"]}',
    "a backslash": "C:\\new\\", "percent": "100 % of %s and %(x)s", "a question mark": "what? :name ?",
    "as much as there may be": "\U0001f600" * 200, "bytes that are no text": "\x00\x7f\x80\xff",
    "lines": "one\ntwo\r\nthree\x1a", "other letters": "Grüße, 日本 \U0001f600", "an end": "'); DROP TABLE x; -- ",
}  # fmt: skip
MODES = ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,PIPES_AS_CONCAT", "STRICT_ALL_TABLES"]


@pytest.mark.parametrize("mode", MODES)
def test_every_text_comes_back_as_it_was_in_every_mode_of_the_server(started, make_job, mariadb, fresh, mode):
    how = {"connect_args": {"sql_mode": mode}}
    store, requests = started(fresh(mariadb).url, engine_options=how), Requests()
    jobs = [make_job(f"{name} {printable(words)}", args=(words,)) for name, words in TEXTS.items()]
    store.add_jobs(jobs)
    runs = requests.fire(store).runs
    assert {run.job.id: run.job.args for run in runs} == {job.id: job.args for job in jobs}
    assert {run.job.id: run.job.args for run in store.live_runs()} == {job.id: job.args for job in jobs}
    assert not store.settle([succeeded(run) for run in runs])
    assert {record.job_id for record in store.history(HistoryQuery())} == {job.id for job in jobs}
    assert not store.live_runs()


def printable(words):
    return "".join(filter(str.isprintable, words))


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "1"),
        (-7, "-7"),
        ("", "''"),
        ('a "b"\n?', "'a \"b\"\n?'"),
        ("it's", "_utf8mb4 x'69742773'"),
        ("a\\", "_utf8mb4 x'615c'"),
        ("%", "_utf8mb4 x'25'"),
        ("ü", "_utf8mb4 x'c3bc'"),
    ],
)
def test_a_text_stands_in_a_statement_as_it_is_only_where_nothing_in_it_has_a_meaning(value, literal):
    assert _literal(value) == literal
    assert _literals([value, "plain"]) == [literal, "'plain'"]


def test_rows_are_sent_in_portions_that_are_not_too_long():
    rows = ["x" * (MAX_STATEMENT_BYTES // 3)] * 7
    portions = list(_portions(rows))
    assert ",".join(portions) == ",".join(rows)
    assert [portion.count(",") + 1 for portion in portions] == [3, 3, 1]
    long = "x" * (MAX_STATEMENT_BYTES + 1)
    assert list(_portions([long])) == [long], "what cannot be divided is sent as it is"


def test_rows_that_are_too_long_together_are_added_by_several_statements():
    columns = {"id": ["a", "b", "c"], "text": ["x" * (MAX_STATEMENT_BYTES // 2)] * 2 + ["y"], "number": [7] * 3}
    first, second = _literal_rows(Batch(columns))
    half = "x" * (MAX_STATEMENT_BYTES // 2)
    assert (first, second) == (f"('a','{half}',7)", f"('b','{half}',7),('c','y',7)")
    assert list(_literal_rows(Batch({"id": ["a", "b"], "number": [1, 2]}))) == ["('a',1),('b',2)"]


# Rows by column


def test_rows_come_back_from_columns_as_they_were():
    rows = [JobRow(*(f"{name} {number}" for name in JobRow._fields)) for number in range(3)]
    assert rows_of(columns_of(rows)) == [row._asdict() for row in rows]
    assert columns_of([]) == {}
    assert rows_of({}) == []


ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


@pytest.mark.parametrize("job_id", ["plain {}", 'not "plain" {}'])
def test_runs_that_are_fired_together_can_be_read_again_whatever_their_times_are(started, make_job, place, job_id):
    store, requests = started(place), Requests()
    times = [(NOW - timedelta(seconds=number // 2)).astimezone(ZoneInfo(ZONES[number % 3])) for number in range(12)]
    store.add_jobs([
        make_job(job_id.format(number), due=time, trigger=DateTrigger(time)) for number, time in enumerate(times)
    ])
    fired = {run.id: run for run in requests.fire(store).runs}
    live = {run.id: run for run in store.live_runs()}
    assert {run.job.id for run in live.values()} == {job_id.format(number) for number in range(12)}
    for run_id, run in live.items():
        again = fired[run_id]
        assert (run.scheduled_at, run.due_at, run.fence) == (again.scheduled_at, again.due_at, again.fence)
        assert str(run.scheduled_at.tzinfo) == str(again.scheduled_at.tzinfo)
        assert (run.attempt, run.source, run.coalesced) == (again.attempt, again.source, again.coalesced)
    assert {(run.scheduled_at, str(run.scheduled_at.tzinfo)) for run in live.values()} == {
        (time, str(time.tzinfo)) for time in times
    }


@pytest.mark.parametrize("words", [*TEXTS.values(), None])
def test_jobs_that_differ_in_nothing_but_their_ids_are_added_and_fire_together_with_what_defines_them(
    started, make_job, mariadb, fresh, words
):
    store, requests = started(fresh(mariadb).url), Requests()
    ids = ["a", "b", *filter(None, [printable(words or "")])]
    store.add_jobs([make_job(job_id, args=(words,)) for job_id in ids])
    assert {job.id: job.args for job in store.get_all_jobs()} == dict.fromkeys(ids, (words,))
    assert len(requests.fire(store).runs) == len(ids)
    assert {run.job.id: run.job.args for run in store.live_runs()} == dict.fromkeys(ids, (words,))


@pytest.mark.parametrize("character", ["x", "ü"])
def test_no_statement_that_adds_jobs_is_longer_than_a_server_takes(started, make_job, mariadb, fresh, character):
    store, statements = started(fresh(mariadb).url), []
    event.listen(store._database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    store.add_jobs([make_job(f"{number:05}{character * 250}") for number in range(5000)])
    assert max(map(len, statements)) < MAX_STATEMENT_BYTES + 2000
    assert store.count_waiting() == 5000


@pytest.mark.parametrize("character", ["\0", "\1", "\2"])
def test_rows_in_which_somebody_has_put_what_parts_rows_are_read_one_by_one(
    started, make_job, mariadb, fresh, character
):
    store, requests = started(fresh(mariadb).url), Requests()
    store.add_jobs([make_job("a"), make_job("b")])
    strange = f"a{character}" if character != "\2" else character
    with store._database.engine.begin() as connection:
        connection.execute(text("UPDATE goscheduler_jobs SET id = :strange WHERE id = 'a'"), {"strange": strange})
    fired = requests.fire(store).runs
    assert {run.job.id for run in fired} == {strange, "b"}
    assert {run.job.id for run in store.live_runs()} == {strange, "b"}


def test_a_pending_run_is_claimed_with_all_of_its_columns(started, make_job, mariadb, fresh):
    store, requests = started(fresh(mariadb).url), Requests()
    limit = Limit("one", concurrency=1)
    store.add_jobs([make_job(job_id, limits=[limit]) for job_id in "ab"])
    (first,) = requests.fire(store).runs
    (waiting,) = store.pending_runs()
    assert not requests.claim(store).runs
    assert not store.settle([succeeded(first)])
    (claimed,) = requests.claim(store).runs
    assert (claimed.id, claimed.job.id, claimed.due_at) == (waiting.id, waiting.job.id, waiting.due_at)
    assert claimed.owner == "owner-1"


# Indexes


def rows_read(store, step):
    """Return how many entries of indexes and tables the server passed over in a step."""
    with store._database.reading() as connection:

        def count():
            status = connection.execute(text("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'"))
            return sum(int(value) for _, value in status)

        before = count()
        step(connection)
        return count() - before


def test_a_look_passes_over_what_is_live_or_held_without_reading_it(started, make_job, mariadb, fresh):
    store, requests = started(fresh(mariadb).url), Requests()
    limit = Limit("one", concurrency=1)
    store.add_jobs([make_job(f"live-{number}") for number in range(300)])
    requests.fire(store, owner="me", room={"default": 300})
    store.add_jobs([make_job(f"held-{number}", limits=[limit]) for number in range(300)])
    requests.fire(store, owner="me", room={"default": 300})
    requests.claim(store, owner="me", room={"default": 300})
    with store._database.reading() as connection:
        for table in (TABLES.jobs, TABLES.runs):
            connection.execute(text(f"ANALYZE TABLE {table.name}")).all()
    request = requests._request(NOW, owner="me")
    assert rows_read(store, lambda connection: store._due_work_reader.peek(connection, request)) < 50
    assert len(store.live_runs()) == 301
    assert len(store.pending_runs()) == 299


def test_a_cancelled_run_that_was_put_back_and_is_held_gets_its_turn(started, make_job, place):
    store, requests = started(place), Requests()
    one = {"limits": [Limit("one", concurrency=1)]}
    store.add_job(make_job("cancelled", **one))
    (run,) = requests.fire(store, owner="gone").runs
    store.cancel_run(run.id, "not wanted", succeeded)
    store.retire_owner("gone")
    store.add_job(make_job("other", **one))
    (other,) = requests.fire(store, owner="me").runs
    assert not requests.claim(store, owner="me").runs, "the other one has taken its place"
    assert not store.settle([succeeded(other)])
    claimed = requests.claim(store, owner="me")
    assert [run.job.id for run in claimed.runs] == ["cancelled"]
    assert store.cancel_requests("cancelled") == {run.id: "not wanted"}
