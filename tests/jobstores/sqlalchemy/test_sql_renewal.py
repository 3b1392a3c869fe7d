"""SQLite has one writer at a time: each has its turn, and the renewal of a lease goes before all others."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest
import warm
from sqlalchemy.exc import OperationalError

from goscheduler import BackgroundScheduler
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import ConflictingIdError
from goscheduler.events import EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy.dialects import sqlite as sql_sqlite
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS
from goscheduler.runs.model import Owner
from goscheduler.testing import ManualClock
from goscheduler.testing.contract import NOW

#: A few renewals are enough for every day; ``GOSCHEDULER_FULL=1`` makes more of them, and holds them to a time.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
RENEWALS = 200 if FULL else 10
WRITERS = 8
LEASE = timedelta(seconds=30)
US = Owner("us")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path, opened):
    return opened(SQLAlchemyJobStore(f"sqlite:///{path}"))


def test_a_renewal_does_not_wait_for_one_of_this_process_that_waits_to_write(store):
    renewals = []
    with store._dialect.turn(writes=True, first=False):
        renewing = threading.Thread(target=lambda: renewals.append(store.renew_owner(US, NOW, LEASE)), daemon=True)
        renewing.start()
        renewing.join(30)
    assert renewals == [True]


@pytest.fixture
def pauses_of(path, monkeypatch):
    """Return the pauses that somebody makes who is let write only after the twentieth."""

    def pauses_of_writer(write):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        pauses = []

        def look_again(seconds):
            pauses.append(seconds)
            if len(pauses) == 20:
                other.execute("COMMIT")

        with monkeypatch.context() as patch:
            patch.setattr(sql_sqlite, "look_again", look_again)
            write()
        other.close()
        assert len(pauses) == 20
        return pauses

    return pauses_of_writer


def test_all_look_every_few_milliseconds_whether_they_may_write_and_a_renewal_most_often(store, pauses_of, make_job):
    of_renewal = pauses_of(lambda: store.renew_owner(US, NOW, LEASE))
    of_others = pauses_of(lambda: store.add_job(make_job("a")))
    assert 0 < min(of_renewal) <= max(of_renewal) <= min(of_others) <= max(of_others) < 0.01
    assert store.lookup_job("a") is not None


def test_who_waits_to_write_has_its_turn_in_the_first_pause_of_one_that_writes_again_and_again(
    store, path, make_job, monkeypatch
):
    other = sqlite3.connect(path, isolation_level=None)
    turns = []

    def write_again(_seconds):
        if other.in_transaction:
            other.execute("COMMIT")
        else:
            turns.append("other")
            other.execute("BEGIN IMMEDIATE")

    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sql_sqlite, "look_again", write_again)
    for number in range(5):
        store.add_job(make_job(str(number)))
        turns.append("we")
        write_again(0)
    other.close()
    assert turns == ["we", "other"] * 5


def pauses_for_others(monkeypatch, writes, of_seconds, rest=0.0):
    """Return the pauses that a process makes which writes so often, for so long, and rests for so long in between."""
    clock, pauses, turn = ManualClock(), [], sql_sqlite.WriteTurn()

    def look_again(seconds):
        pauses.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr(sql_sqlite, "look_again", look_again)
    monkeypatch.setattr(sql_sqlite, "SYSTEM_CLOCK", clock)
    for _ in range(writes):
        with turn.taken():
            turn.let_others_go_first()
            clock.advance(of_seconds)
        clock.advance(rest)
    return pauses


def test_who_writes_again_and_again_makes_pauses_in_which_everybody_else_looks_again(monkeypatch):
    pauses = pauses_for_others(monkeypatch, writes=100, of_seconds=0.02)
    assert 8 <= len(pauses) <= 10, "one each fifth of a second"
    assert min(pauses) > max(sql_sqlite.PAUSE_SECONDS)


def test_who_writes_for_long_each_time_makes_a_pause_after_each(monkeypatch):
    assert len(pauses_for_others(monkeypatch, writes=10, of_seconds=3)) == 9


def test_who_rests_between_writes_makes_no_other_pauses(monkeypatch):
    assert pauses_for_others(monkeypatch, writes=100, of_seconds=0.02, rest=0.006) == []


def test_a_file_that_others_do_not_let_go_of_is_an_outage_and_a_call_waits_for_it_as_long_as_for_a_server(
    path, opened, make_job
):
    store = opened(SQLAlchemyJobStore(f"sqlite:///{path}", engine_options={"connect_args": {"timeout": 0.05}}))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="locked") as raised:
            store.add_job(make_job("a"))
    assert store.is_outage(raised.value)
    store.add_job(make_job("a"))
    with pytest.raises(ConflictingIdError) as raised:
        store.add_job(make_job("a"))
    assert not store.is_outage(raised.value)
    assert SQLAlchemyJobStore("sqlite://")._dialect.connect_args()["timeout"] == CALL_SECONDS


def test_a_start_waits_for_a_file_that_is_locked(store, path):
    options = {"type": "sqlalchemy", "url": f"sqlite:///{path}", "engine_options": {"connect_args": {"timeout": 0.05}}}
    scheduler = BackgroundScheduler(jobstores={"default": options})
    heard = []

    def let_go(event):
        heard.append(event.code)
        if len(heard) == 1:
            other.execute("COMMIT")

    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        scheduler.add_listener(let_go, EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED)
        scheduler.start()
        scheduler.shutdown()
    assert heard == [EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED]


def test_an_error_that_does_not_pass_is_not_waited_for(store, monkeypatch):
    monkeypatch.setattr(sql_sqlite, "look_again", lambda _seconds: pytest.fail("it is waited for"))
    with store._database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        driver.execute("PRAGMA query_only = 1")
        with pytest.raises(OperationalError, match="readonly"):
            connection.begin()
        driver.execute("PRAGMA query_only = 0")


def test_after_a_renewal_a_connection_waits_for_others_as_before(path, opened):
    store = opened(SQLAlchemyJobStore(f"sqlite:///{path}", engine_options={"connect_args": {"timeout": 0.25}}))
    store.renew_owner(US, NOW, LEASE)
    with store._database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 250


@pytest.mark.serial
@pytest.mark.timeout(300)
def test_among_eight_processes_that_write_all_the_time_no_renewal_fails(store, path):
    with ExitStack() as stack:
        for _ in range(WRITERS):
            writer = warm.start(Path(__file__).parents[2] / "support" / "sqlite_writer.py", path, stdout=warm.PIPE)
            stack.callback(writer.stdout.close)
            stack.callback(writer.wait)
            stack.callback(writer.kill)
            assert b"writes" in writer.stdout.readline()
        seconds = []
        for _ in range(RENEWALS):
            new_runs = SYSTEM_CLOCK.monotonic()
            assert store.renew_owner(US, NOW, LEASE)
            seconds.append(SYSTEM_CLOCK.monotonic() - new_runs)
    print(f"renewed within {max(seconds):.3f} s, median {sorted(seconds)[len(seconds) // 2]:.3f} s")
    assert not FULL or max(seconds) < LEASE.total_seconds() / 10
