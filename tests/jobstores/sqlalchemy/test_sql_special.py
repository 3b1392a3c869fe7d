"""What is special to the SQL store: URLs, tables, transactions of users, hostile rows, unknown outcomes."""

from __future__ import annotations

import json
import logging
import socket
import sqlite3
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.dialects import postgresql as postgresql_dialects
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from goscheduler._drivers.sql_watchdog import Watchdog
from goscheduler.errors import (
    ConflictingIdError,
    GoSchedulerError,
    InvalidArgument,
    JobLookupError,
    StoreUnavailable,
    UnknownOption,
)
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_LEASE_LOST
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy import migrations as sql_migrations
from goscheduler.jobstores.sqlalchemy.bulk import Batch
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.dialect import row_source
from goscheduler.jobstores.sqlalchemy.migrations import SchemaError, bring_up_to_date
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.transactions import UnknownOutcome
from goscheduler.plugins import create_plugin
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.serializers import JSONSerializer, PickleSerializer
from goscheduler.testing import EventRecorder
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, SECOND, Requests, nothing, succeeded
from goscheduler.testing.scheduler import ManualScheduler

SECRET = "a secret of some length"
#: What SQLite calls ``synchronous=FULL``.
FULL = 2


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def started(opened, url):
    return lambda place=url, **options: opened(SQLAlchemyJobStore(place, server_time=False, **options))


# URLs


@pytest.mark.parametrize("how", ["the URL alone", "type and url", "type is the URL"])
def test_a_store_is_made_from_its_url(url, how):
    value = {"the URL alone": url, "type and url": {"type": "sqlalchemy", "url": url}, "type is the URL": {"type": url}}
    scheduler = ManualScheduler(clock=ManualClock(NOW), jobstores={"default": value[how]})
    scheduler.start()
    scheduler.add_job(nothing, "interval", minutes=1, id="a")
    scheduler.shutdown()
    assert [job.id for job in kept(url)] == ["a"]


def kept(url):
    store = SQLAlchemyJobStore(url)
    store.start(ManualScheduler(), "default")
    jobs = store.get_all_jobs()
    store.shutdown()
    return jobs


def test_a_store_can_be_added_by_its_url_and_options(url, tmp_path):
    scheduler = ManualScheduler(clock=ManualClock(NOW))
    scheduler.add_jobstore(url, "other", tablename="mine")
    scheduler.start()
    scheduler.shutdown()
    names = {name for (name,) in sqlite3.connect(tmp_path / "jobs.db").execute("SELECT name FROM sqlite_master")}
    assert "mine_jobs" in names


def test_a_url_that_no_store_is_known_for_is_an_error_without_the_password():
    with pytest.raises(InvalidArgument, match=r"ftp://me:\*\*\*@host/x.*redis://") as caught:
        create_plugin("jobstore", "default", "ftp://me:secret@host/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("sqlite://jobs.db", "did you mean sqlite:///jobs.db?"),
        ("postgres://me:secret@host/x", "did you mean postgresql://?"),
        ("postgre+psycopg://me:secret@host/x", "did you mean postgresql://?"),
        ("nonsense://me:secret@host/x", "Can't load plugin"),
    ],
)
def test_a_database_url_that_is_almost_right_is_refused_with_what_was_meant(url, hint):
    with pytest.raises(InvalidArgument, match="url must be a database URL") as caught:
        SQLAlchemyJobStore(url)
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_misspelt_option_beside_a_url_is_named_without_the_password():
    with pytest.raises(UnknownOption, match="tablenam") as caught:
        ManualScheduler().add_jobstore("sqlite://me:secret@/x.db", tablenam="x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "x;drop", "", "a" * 49, '"', None, 5])
def test_a_table_name_that_would_need_quoting_is_refused(name):
    with pytest.raises(InvalidArgument, match="tablename"):
        SQLAlchemyJobStore("sqlite://", tablename=name)


def test_a_server_that_is_not_there_is_told_without_the_password(scheduler):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = SQLAlchemyJobStore(f"postgresql+psycopg://me:secret@127.0.0.1:{port}/x")
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        store.start(scheduler, "default")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(store)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_wrong_password_is_told_for_good_and_not_repeated(kind, shared_server, fresh, scheduler):
    url = fresh(shared_server(kind)).url.replace("not-secret", "wrong-word")
    with pytest.raises(GoSchedulerError, match="refuses us") as caught:
        SQLAlchemyJobStore(url).start(scheduler, "default")
    assert not isinstance(caught.value, StoreUnavailable)
    assert "wrong-word" not in str(caught.value)


# Tables


def test_tables_of_a_foreign_shape_are_refused_and_left_alone(tmp_path, scheduler):
    place = sqlite3.connect(tmp_path / "jobs.db")
    place.execute("CREATE TABLE goscheduler_jobs (id TEXT)")
    place.commit()
    with pytest.raises(SchemaError, match='"goscheduler_jobs" that goscheduler did not make'):
        SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db").start(scheduler, "default")
    assert [name for (name,) in place.execute("SELECT name FROM sqlite_master")] == ["goscheduler_jobs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE goscheduler_meta SET value = 99 WHERE name = 'schema'", "version 99, made by a newer"),
        ("ALTER TABLE goscheduler_history DROP COLUMN tags", 'has no column "tags"'),
    ],
)
def test_tables_of_a_newer_version_or_without_a_column_are_refused(started, tmp_path, scheduler, url, change, message):
    started()
    with sqlite3.connect(tmp_path / "jobs.db") as place:
        place.execute(change)
    with pytest.raises(SchemaError, match=message):
        SQLAlchemyJobStore(url).start(scheduler, "default")


def test_the_printed_sql_makes_tables_that_a_store_takes(tmp_path, scheduler):
    url = f"sqlite:///{tmp_path}/by-hand.db"
    store = SQLAlchemyJobStore(url)
    with sqlite3.connect(tmp_path / "by-hand.db") as place:
        for statement in store.schema_sql():
            place.execute(statement)
    assert store.schema_status().current
    assert not store.upgrade_schema()


# Transactions of users


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request, tmp_path, fresh):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return fresh(request.getfixturevalue("shared_server")(request.param)).url


@pytest.fixture(params=["connection", "session", "driver"])
def transaction(request, place):
    engine = create_engine(place)
    session, raw = Session(engine), engine.raw_connection()
    connection = engine.connect()
    opened = {"connection": connection, "session": session, "driver": raw.driver_connection}[request.param]
    yield opened
    raw.rollback()
    for each in (connection, session, raw):
        each.close()
    engine.dispose()


def test_a_job_that_joins_a_transaction_is_there_when_it_is_committed_and_never_was_when_not(place, transaction):
    scheduler = ManualScheduler(clock=ManualClock(NOW), jobstores={"default": SQLAlchemyJobStore(place)})
    scheduler.start()
    try:
        scheduler.add_job(nothing, "interval", minutes=1, id="undone", connection=transaction)
        transaction.rollback()
        assert scheduler.get_jobs() == []
        scheduler.add_job(nothing, "interval", minutes=1, id="done", connection=transaction)
        with pytest.raises(ConflictingIdError):  # and the transaction is as good as before
            scheduler.add_job(nothing, "interval", minutes=1, id="done", connection=transaction)
        transaction.commit()
        assert [job.id for job in scheduler.get_jobs()] == ["done"]
        with pytest.raises(ConflictingIdError):
            scheduler.add_job(nothing, "interval", minutes=1, id="done", connection=transaction)
    finally:
        scheduler.shutdown()


def test_a_connection_of_another_kind_is_refused(started, make_job):
    store = started()
    with pytest.raises(TypeError, match="connection must be"):
        store.add_job_with(object(), make_job("a"))
    assert store.get_all_jobs() == []


def test_a_store_without_transactions_says_so():
    scheduler = ManualScheduler(clock=ManualClock(NOW))
    scheduler.start()
    with pytest.raises(TypeError, match="MemoryJobStore cannot add a job to the transaction"):
        scheduler.add_job(nothing, connection=object())
    scheduler.shutdown()


# Ids


def test_a_space_at_the_end_makes_another_id(started, make_job, place):
    store, requests = started(place), Requests()
    store.add_job(make_job("a"))
    assert store.lookup_job("a ") is None
    with pytest.raises(JobLookupError):
        store.remove_job("a ")
    store.add_job(make_job("a ", args=("another",)))
    assert store.lookup_job("a ").args == ("another",)
    runs = requests.fire(store).runs
    assert {run.job.id: run.job.args for run in runs} == {"a": (), "a ": ("another",)}
    assert {job_id: [run.job.id for run in store.live_runs(job_id)] for job_id in ("a", "a ", "a  ")} == {
        "a": ["a"], "a ": ["a "], "a  ": [],
    }  # fmt: skip
    assert not store.settle([succeeded(run) for run in runs])
    assert [record.job_id for record in store.history(HistoryQuery("a "))] == ["a "]
    assert (store.lookup_job("a").run_count, store.lookup_job("a ").run_count) == (1, 1)
    store.remove_job("a ")
    assert store.lookup_job("a") is not None


# Many at once


def test_many_jobs_are_added_at_once_or_none(started, make_job):
    store = started()
    store.add_job(make_job("taken"))
    with pytest.raises(ConflictingIdError, match="taken"):
        store.add_jobs([make_job("new"), make_job("taken")])
    with pytest.raises(ConflictingIdError, match="twice"):
        store.add_jobs([make_job("twice"), make_job("twice")])
    assert [job.id for job in store.get_all_jobs()] == ["taken"]
    store.add_jobs([make_job(f"job-{number}") for number in range(7000)])
    assert len(store.get_all_jobs()) == 7001


# Hostile rows

DEFINITION = {"schema": 1, "func": "goscheduler.testing.contract:nothing", "name": "n", "args": [], "kwargs": {}}
TRIGGER = {"@type": "object", "name": "interval", "value": {}}


def hostile(**changes):
    return json.dumps({**DEFINITION, "trigger": TRIGGER, "options": {}, **changes})


HOSTILE = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "deep nesting": hostile(args=json.loads("[" * 150 + "]" * 150)),
    "a newer schema": hostile(schema=2),
    "no schema": json.dumps({"func": "os:system"}),
    "a trigger that is none": hostile(trigger=5),
    "options that make no sense": hostile(options={"max_instances": -1}),
    "an unknown option": hostile(options={"evil": 1}),
    "a broken trigger": hostile(trigger={"@type": "object", "name": "cron", "value": {"fields": 7}}),
}


@pytest.mark.parametrize("what", list(HOSTILE))
def test_a_hostile_row_is_suspended_and_kept_and_runs_nothing(started, make_job, tmp_path, what):
    store = started()
    store.add_jobs([make_job("bad"), make_job("good")])
    with sqlite3.connect(tmp_path / "jobs.db") as place:
        place.execute("UPDATE goscheduler_jobs SET definition = ? WHERE id = 'bad'", (HOSTILE[what],))
    fired = Requests().fire(store)
    assert [run.job.id for run in fired.runs] == ["good"]
    assert [suspended.job.id for suspended in fired.suspended] == ["bad"]
    assert "cannot be read" in store.suspensions()["bad"]
    (kept_text,) = sqlite3.connect(tmp_path / "jobs.db").execute(
        "SELECT definition FROM goscheduler_jobs WHERE id = 'bad'"
    ).fetchone()
    assert kept_text == HOSTILE[what]
    store.remove_job("bad")


def test_a_run_that_cannot_be_read_is_kept_and_does_not_hold_up_others(started, make_job, tmp_path, caplog):
    from goscheduler.runs.transitions import asked_for

    store = started()
    for name in ("bad", "good"):
        store.add_run(asked_for(make_job(name), f"run-{name}", NOW))
    with sqlite3.connect(tmp_path / "jobs.db") as place:
        place.execute("UPDATE goscheduler_runs SET run = '[\"x\"]' WHERE id = 'run-bad'")
    assert [run.id for run in Requests().claim(store).runs] == ["run-good"]
    assert not Requests().claim(store).runs
    assert sqlite3.connect(tmp_path / "jobs.db").execute("SELECT count(*) FROM goscheduler_runs").fetchone() == (2,)


@pytest.mark.parametrize("serializer", [JSONSerializer(SECRET), PickleSerializer(SECRET)])
def test_what_is_not_signed_by_us_is_not_believed(started, make_job, tmp_path, serializer):
    plain = started()
    plain.add_jobs([make_job("unsigned"), make_job("signed")])
    store = started(serializer=serializer)
    store.update_job(make_job("signed", args=(1, "two")))
    jobs = {job.id: job for job in store.get_all_jobs()}
    assert jobs["signed"].suspended is None
    assert jobs["signed"].args == (1, "two")
    assert "not signed" in jobs["unsigned"].suspended
    with sqlite3.connect(tmp_path / "jobs.db") as place:
        place.execute(
            "UPDATE goscheduler_jobs SET definition ="
            " (SELECT definition FROM goscheduler_jobs WHERE id = 'signed') WHERE id = 'unsigned'"
        )
    assert "signature" in store.lookup_job("unsigned").suspended, "it was signed for another job"


# What nobody was told


def breaking_commit(store, monkeypatch, *, written):
    """Let the next commit of a store fail, before or after it is done."""
    original = store._database._commit

    def commit(transaction):
        monkeypatch.setattr(store._database, "_commit", original)
        if written:
            transaction.commit()
        else:
            transaction.rollback()
        raise UnknownOutcome("the connection broke")

    monkeypatch.setattr(store._database, "_commit", commit)


@pytest.mark.parametrize("written", [True, False])
def test_a_firing_whose_answer_was_lost_is_run_once(url, monkeypatch, written):
    store = SQLAlchemyJobStore(url, server_time=False)
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}) as scheduler:
        scheduler.add_job(nothing, "date", run_date=NOW + SECOND, id="a")
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
        breaking_commit(store, monkeypatch, written=written)
        scheduler.advance(3)
        assert len(recorder.events) == 1
        scheduler.advance(60)
        assert len(recorder.events) == 1
        assert store.live_runs() == store.pending_runs() == []


@pytest.mark.parametrize("written", [True, False])
def test_an_end_whose_answer_was_lost_is_recorded_once_and_is_no_lost_lease(url, monkeypatch, written):
    store = SQLAlchemyJobStore(url, server_time=False)
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}) as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_LEASE_LOST)
        scheduler.add_job(nothing, "date", run_date=NOW + SECOND, id="a")
        settle = store.settle

        def settle_breaking(settlements):
            monkeypatch.setattr(store, "settle", settle)
            breaking_commit(store, monkeypatch, written=written)
            return settle(settlements)

        monkeypatch.setattr(store, "settle", settle_breaking)
        scheduler.advance(1)
        scheduler.advance(2)
        assert [event.code for event in recorder.events] == [EVENT_JOB_EXECUTED]
        assert [record.outcome for record in scheduler.runs("a")] == [OutcomeKind.SUCCEEDED]
        assert store.live_runs() == []


# Deadlines and news


def test_a_call_on_a_link_that_answers_nothing_is_ended():
    ours, theirs = socket.socketpair()

    class Driver:
        __module__ = "psycopg.double"

        def fileno(self):
            return ours.fileno()

    class Pooled:
        driver_connection = Driver()

    class Connection:
        connection = Pooled()

    watchdog = Watchdog()
    with watchdog.over(Connection(), 0.0):
        assert ours.recv(1) == b"", "the call came back, because the socket was shut down"
    watchdog.stop()
    ours.close()
    theirs.close()


def test_postgresql_tells_other_stores_of_a_new_job(postgresql, fresh, scheduler, make_job):
    url = fresh(postgresql).url
    stores = [SQLAlchemyJobStore(url) for _ in range(2)]
    heard = threading.Event()
    for store in stores:
        store.start(scheduler, "default")
    stores[0].subscribe(heard.set)
    assert stores[0].poll_after() == float("inf")
    heard.clear()
    stores[1].add_job(make_job("a"))
    assert heard.wait(60)
    for store in stores:
        store.shutdown()


def test_where_notify_does_not_arrive_it_is_polled_and_told(postgresql, fresh, scheduler, monkeypatch, caplog):
    from goscheduler.jobstores.sqlalchemy.dialects.postgresql import listener as sql_listener

    monkeypatch.setattr(sql_listener, "SELF_TEST_SECONDS", 0.2)
    deaf = lambda self, connection: self._stopped.wait(0.05)  # noqa: E731
    monkeypatch.setattr(sql_listener.Listener, "_wait_for_notification", deaf)
    store = SQLAlchemyJobStore(fresh(postgresql).url)
    store.start(scheduler, "default")
    with caplog.at_level(logging.WARNING):
        store.subscribe(lambda: None)
    assert "NOTIFY does not arrive" in caplog.text
    assert store.poll_after() <= 1
    store.shutdown()


def test_an_unsafe_setting_of_the_server_is_told_at_the_start(postgresql, fresh, scheduler, caplog):
    space = fresh(postgresql)
    engine = create_engine(space.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {space.name} SET synchronous_commit = off"))
    engine.dispose()
    store = SQLAlchemyJobStore(space.url)
    with caplog.at_level(logging.WARNING):
        store.start(scheduler, "default")
    assert "synchronous_commit is off" in caplog.text
    store.shutdown()


def test_an_idle_round_costs_one_query(started, make_job):
    store, requests = started(), Requests()
    store.add_job(make_job("later", due=NOW.replace(year=2030)))
    requests.fire(store)
    asked = []
    event.listen(store._database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    request = requests._request(NOW)
    store.fire_due(request)
    store.claim_runs(request)
    assert len([statement for statement in asked if not statement.startswith("BEGIN")]) == 1


def test_ends_of_many_jobs_ask_only_for_those_that_hold_something(started, make_job, place):
    """A query a job would take longer than a call may when the server is busy: then no end would be written at all."""
    store, requests, count = started(place), Requests(), 60
    store.add_jobs([make_job(f"job-{number}") for number in range(count)])
    runs = requests.fire(store, room={"default": count}).runs
    store.add_run(asked_for(make_job("job-7"), "waiting", NOW))
    assert not requests.claim(store).runs, "one of each may run at a time"
    asked = []
    event.listen(store._database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    assert not store.settle([succeeded(run) for run in runs])
    assert len(asked) < count / 2
    assert [run.id for run in requests.claim(store).runs] == ["waiting"]


def test_who_waits_long_for_its_turn_to_make_the_tables_of_postgresql_says_so_and_may_try_again(
    postgresql, fresh, scheduler
):
    engine = create_engine(fresh(postgresql).url, connect_args={"options": "-c lock_timeout=50"})
    store = SQLAlchemyJobStore(engine=engine)
    with engine.begin() as other:
        other.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": sql_migrations._LOCK})
        with pytest.raises(StoreUnavailable, match=r'Another process.*"goscheduler_meta"'):
            store.start(scheduler, "default")
    store.start(scheduler, "default")
    assert store.schema_status().current
    store.shutdown()
    engine.dispose()


def test_a_server_that_is_too_old_is_told_before_its_tables_are_changed(url, monkeypatch):
    store = SQLAlchemyJobStore(url)
    refuse = Mock(side_effect=GoSchedulerError("too old"))
    monkeypatch.setattr(store._dialect, "check_version", refuse)
    with pytest.raises(GoSchedulerError, match="too old"):
        store.upgrade_schema()
    assert store.schema_status().version is None


def test_an_engine_that_was_given_is_not_closed(url, scheduler):
    engine = create_engine(url)
    store = SQLAlchemyJobStore(engine=engine)
    store.start(scheduler, "default")
    pool = engine.pool
    store.shutdown()
    assert engine.pool is pool
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    engine.dispose()


def test_every_connection_to_a_file_syncs_each_commit(started):
    engine = started()._database.engine.execution_options(writes=False)
    with engine.connect() as one, engine.connect() as another:
        for connection in (one, another):
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == FULL


def test_tables_of_jobs_that_stand_in_the_order_of_their_key_are_used_as_they_are(url, started, make_job):
    tables = Tables("goscheduler", None)
    tables.jobs.dialect_options["sqlite"]["with_rowid"] = False  # as they were made at first
    engine = create_engine(url)
    assert bring_up_to_date(tables, engine)
    with engine.connect() as connection:
        made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'goscheduler_jobs'")).scalar()
    engine.dispose()
    assert "WITHOUT ROWID" in made
    store, requests = started(), Requests()
    store.add_jobs([make_job("a"), make_job("b")])
    (first, second) = requests.fire(store).runs
    assert not store.settle([succeeded(first), succeeded(second)])
    assert {job.id: job.stats.run_count for job in store.get_all_jobs()} == {"a": 1, "b": 1}


def test_an_engine_that_was_given_keeps_its_own_settings_but_for_what_is_unsafe(url, scheduler):
    engine = create_engine(url)
    theirs = {"cache_size": -3000, "wal_autocheckpoint": 0, "temp_store": 1}

    @event.listens_for(engine, "connect")
    def connected(connection, _record):
        for name, value in theirs.items():
            connection.execute(f"PRAGMA {name}={value}")

    store = SQLAlchemyJobStore(engine=engine)
    store.start(scheduler, "default")
    with engine.connect() as connection:
        found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in (*theirs, "synchronous")}
    assert found == {**theirs, "synchronous": FULL}
    store.shutdown()
    engine.dispose()


def test_a_locked_file_is_an_error_after_the_deadline_and_not_a_hang(started, make_job, tmp_path):
    store = started(engine_options={"connect_args": {"timeout": 0.05}})
    other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="locked"):
        store.add_job(make_job("a"))
    other.execute("ROLLBACK")
    other.close()
    store.add_job(make_job("a"))


def test_a_record_of_before_is_refused_when_all_jobs_have_a_new_key_and_the_old_one_is_given_up(url):
    def scheduler(**secrets):
        store = SQLAlchemyJobStore(url, serializer=JSONSerializer(secrets))
        return ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store})

    with scheduler(old=SECRET) as before:
        before.add_job(nothing, "interval", minutes=1, id="job")
    with create_engine(url).connect() as connection:
        definition = connection.execute(text("SELECT definition FROM goscheduler_jobs")).scalar()
    with scheduler(new=SECRET[::-1], old=SECRET) as both:
        for job in both.get_jobs():
            job.modify(name=job.name)
    with scheduler(new=SECRET[::-1]) as after:
        assert after.get_job("job").suspended is None
        with create_engine(url).begin() as connection:
            connection.execute(text("UPDATE goscheduler_jobs SET definition = :old"), {"old": definition})
        assert "has the key 'old', and only these are known here: new" in after.get_job("job").suspended


def test_postgresql_gets_a_single_row_as_it_is_and_many_as_json():
    connection = SimpleNamespace(dialect=postgresql_dialects.dialect())
    jobs = Tables("t", None).jobs
    one = row_source(connection, jobs, Batch.to_insert({"id": ["a"], "due": [1], "task": [None]}))
    assert one.source == "(VALUES (%s)) AS given (id)"
    assert one.parameters == (1, "a")
    many = row_source(connection, jobs, Batch.to_insert({"id": ["a", "b"], "due": [1, 1], "task": [None, None]}))
    assert "json_array_elements_text" in many.source
    assert many.parameters == (1, '["a","b"]')
    assert one.values == many.values
