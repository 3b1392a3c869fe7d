"""SQLite has one writer at a time: who renews a lease goes before those who write all the time."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import warm

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores import _sql_sqlite
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.runs.model import Owner
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


def test_a_renewal_looks_every_few_milliseconds_whether_it_may_write(store, path, monkeypatch):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    pauses = []

    def look_again(seconds):
        pauses.append(seconds)
        if len(pauses) == 20:
            other.execute("COMMIT")

    monkeypatch.setattr(_sql_sqlite, "look_again", look_again)
    assert store.renew_owner(US, NOW, LEASE)
    other.close()
    assert len(pauses) == 20
    assert 0 < min(pauses) <= max(pauses) < 0.01


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
            writer = warm.start(Path(__file__).with_name("sqlite_writer.py"), path, stdout=warm.PIPE)
            stack.callback(writer.stdout.close)
            stack.callback(writer.wait)
            stack.callback(writer.kill)
            assert b"writes" in writer.stdout.readline()
        seconds = []
        for _ in range(RENEWALS):
            begun = SYSTEM_CLOCK.monotonic()
            assert store.renew_owner(US, NOW, LEASE)
            seconds.append(SYSTEM_CLOCK.monotonic() - begun)
    print(f"renewed within {max(seconds):.3f} s, median {sorted(seconds)[len(seconds) // 2]:.3f} s")
    assert not FULL or max(seconds) < LEASE.total_seconds() / 10
