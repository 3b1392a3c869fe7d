"""PostgreSQL and MariaDB: wherever a process stands still between two statements, others who want nothing of what it
has hold of do not wait for a single lock."""

from __future__ import annotations

import itertools
import os
import threading
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from goscheduler._drivers.sql_watchdog import Watchdog
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy import transactions as sql_transactions
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.records import Retention
from goscheduler.runs.retry import Retry
from goscheduler.runs.transitions import asked_for, called_off, crashed
from goscheduler.testing.contract import NOW, Requests, failed, succeeded
from goscheduler.triggers.date import DateTrigger

pytestmark = pytest.mark.xdist_group("sql-frozen")

SECOND = timedelta(seconds=1)
LEASE = 30 * SECOND
PATIENCE = 30
TABLES = ("jobs", "runs", "usage", "history", "dead", "limits", "owners")
#: What makes a server end a statement that waits for a lock, as soon as it can.
WAITS_FOR_NOTHING = {"postgresql": "SET lock_timeout = '20ms'", "mariadb": "SET innodb_lock_wait_timeout = 1"}
LOCK_ERRORS = {"55P03", 1205}


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def database(request, shared_server):
    """Return one database for all tests: to make one takes longer than most of them."""
    with shared_server(request.param).fresh() as space:
        store = SQLAlchemyJobStore(space.url)
        store.upgrade_schema()
        store.shutdown()
        yield request.param, create_engine(space.url, poolclass=NullPool), space.url


@pytest.fixture
def stage(database, opened, make_job, monkeypatch):
    """Return a function that sets everything up anew."""
    monkeypatch.setattr(Dialect, "set_lease", lambda self, lease: setattr(self, "idle_seconds", 59.0))
    monkeypatch.setattr(sql_transactions, "TRIES", 1)
    monkeypatch.setattr(Watchdog, "_end_overdue", lambda self, now: None)
    kind, engine, url = database
    stores = [opened(SQLAlchemyJobStore(url, server_time=False)) for _ in range(2)]

    @event.listens_for(stores[1]._database.engine, "connect")
    def connected(connection, _record):
        with connection.cursor() as cursor:
            cursor.execute(WAITS_FOR_NOTHING[kind])
        connection.commit()

    def set_up():
        with engine.begin() as connection:
            for table in TABLES:
                connection.execute(text(f"DELETE FROM goscheduler_{table}"))
        for store in stores:
            store._database.engine.dispose()
            store._registered.clear()
        return [Process(name, store, make_job) for name, store in zip(("frozen", "other"), stores, strict=True)]

    return set_up


class Process:
    """What a process of a cluster does with jobs, runs and records that are its own business."""

    def __init__(self, name, store, make_job):
        self.name, self.store, self._make_job = name, store, make_job
        self._requests = Requests()
        numbers = itertools.count()
        self._requests._new_id = lambda: f"{name}-{next(numbers)}"
        self.live = []
        self.prepare()

    def job(self, what, due=None, **options):
        return self._make_job(f"{self.name}-{what}", due=due, executor=self.name, **options)

    def prepare(self):
        """Put there what the steps are about."""
        store, once = self.store, DateTrigger(NOW - SECOND, timezone="UTC")
        self.renews_for_the_first_time()
        once_more = Retry(max_attempts=2, backoff=1)
        live = [self.job(f"live-{number}", due=NOW - SECOND, retry=once_more) for number in range(6)]
        busy = self.job("busy", due=NOW - SECOND)
        limited = self.job("limited", due=NOW - SECOND, limits=[Limit(f"{self.name}-one", concurrency=1)])
        store.add_jobs([*live, busy, limited])
        self.live = self._requests.fire(store, owner=self.name, room={self.name: 10}).runs
        for job_id, run_id in (("busy", "held"), ("limited", "kept")):
            job = busy if job_id == "busy" else limited
            store.add_run(asked_for(job, f"{self.name}-{run_id}", NOW))
        self._requests.claim(store, owner=self.name, room={self.name: 10})
        store.renew_owner(Owner(f"{self.name}-lost", "host", 1, NOW, (), ()), NOW - 2 * LEASE, LEASE)
        store.add_jobs([self.job("crashed", due=NOW - SECOND), self.job("left", due=NOW - SECOND)])
        store.renew_owner(Owner(f"{self.name}-leaves", "host", 1, NOW, (), ()), NOW, LEASE)
        self._requests.fire(store, owner=f"{self.name}-lost", room={self.name: 1})
        self._requests.fire(store, owner=f"{self.name}-leaves", room={self.name: 1})
        store.add_jobs([self.job("removed"), self.job("edited"), self.job("finished", trigger=once)])
        for number in range(3):
            store.add_run(asked_for(self.job("removed"), f"{self.name}-removed-{number}", NOW + SECOND))
            store.add_run(asked_for(self.job("asked"), f"{self.name}-asked-{number}", NOW))
        due = [self.job(f"due-{n}", due=NOW, trigger=once if n % 2 else None) for n in range(3)]
        store.add_jobs([*due, self.job("due-limit", due=NOW, limits=[Limit(f"{self.name}-two", concurrency=1)])])

    def _run(self, number):
        return next(run for run in self.live if run.job.id == f"{self.name}-live-{number}")

    def fires(self):
        assert self._requests.fire(self.store, owner=self.name, room={self.name: 10}).runs

    def claims(self):
        assert self._requests.claim(self.store, owner=self.name, room={self.name: 10}).runs

    def settles(self):
        assert not self.store.settle([succeeded(self._run(0)), succeeded(self._run(1))])

    def settles_a_failure(self):
        assert not self.store.settle([failed(self._run(2))])

    def settles_what_was_touched(self):
        self.store.cancel_run(self._run(3).id, "enough", self._called_off)
        assert not self.store.settle([succeeded(self._run(3))])

    def settles_what_others_wait_for(self):
        waited_for = [run for run in self.live if run.job.id.endswith(("busy", "limited"))]
        assert not self.store.settle(list(map(succeeded, waited_for)))

    def renews_for_the_first_time(self):
        self.store._registered.clear()
        self.renews()

    def renews(self):
        assert self.store.renew_owner(Owner(self.name, "host", 1, NOW, (), ()), NOW, LEASE)

    def recovers(self):
        self.store.recover_runs(NOW, lambda run, host="": crashed(run, NOW, lambda: 0.5, host))

    def retires(self):
        self.store.retire_owner(f"{self.name}-leaves")

    def adds_a_job(self):
        self.store.add_jobs([self.job("new", due=NOW + SECOND)])

    def adds_a_run(self):
        self.store.add_run(asked_for(self.job("new"), f"{self.name}-new", NOW + SECOND))

    def edits_a_job(self):
        self.store.edit_job(f"{self.name}-edited", lambda job: job)

    def removes_a_job(self):
        self.store.remove_job(f"{self.name}-removed")
        self.store.forget_job(f"{self.name}-removed")

    def calls_off_a_run(self):
        assert self.store.cancel_run(f"{self.name}-held", "enough", self._called_off) is not None

    def _called_off(self, run):
        return called_off(run, "enough", NOW)

    def discards(self):
        self.store.discard_pending(f"{self.name}-asked")

    def prunes(self):
        none = Retention(succeeded=timedelta(0), succeeded_per_job=0, others=timedelta(0))
        self.store.prune_history(none, NOW + LEASE, 100)
        self.store.prune_finished_jobs(none, NOW + LEASE, 100)


STEPS = [
    "fires", "claims", "settles", "settles_a_failure", "settles_what_was_touched", "settles_what_others_wait_for",
    "renews", "renews_for_the_first_time", "recovers", "retires", "adds_a_job", "adds_a_run", "edits_a_job",
    "removes_a_job", "calls_off_a_run", "discards", "prunes",
]  # fmt: skip


class Stop:
    """Lets a store stand still after one of the statements of a step, for the length of a ``with`` block."""

    def __init__(self, process, step, number):
        self._process, self._step = process, step
        self._number = number
        self.stands, self._may_go_on = threading.Event(), threading.Event()
        self.statement = None
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        engine = self._process.store._database.engine
        event.listen(engine, "after_cursor_execute", self._executed)
        try:
            getattr(self._process, self._step)()
        finally:
            event.remove(engine, "after_cursor_execute", self._executed)
            self.stands.set()

    def _executed(self, connection, cursor, statement, *_):
        self._number -= 1
        if self._number == 0:
            self.statement = statement
            self.stands.set()
            assert self._may_go_on.wait(PATIENCE)

    def __enter__(self):
        self._thread.start()
        assert self.stands.wait(PATIENCE)
        return self

    def __exit__(self, *exc_info):
        self._may_go_on.set()
        self._thread.join()


#: Every day those in which somebody waited once; ``GOSCHEDULER_FULL=1`` stops in all of them.
EVERY_DAY = ["settles", "settles_a_failure", "renews", "recovers"]
#: What is one batch of statements, which the server gets as a whole: nobody can stand still in it.
IN_ONE_BATCH = {"postgresql": {"settles", "settles_what_others_wait_for", "adds_a_job"}}


@pytest.mark.parametrize("step", STEPS if os.environ.get("GOSCHEDULER_FULL") else EVERY_DAY)
def test_whoever_stands_still_in_a_step_keeps_nobody_waiting_who_wants_nothing_of_it(database, stage, step):
    waited = []
    number = 0
    while True:
        number += 1
        frozen, other = stage()
        with Stop(frozen, step, number) as stop:
            if stop.statement is None:
                break
            for what in STEPS:
                if (waiting := waits(getattr(other, what))) is not None:
                    waited.append(f"stopped after {brief(stop.statement)}: who {what} waits in {brief(waiting)}")
    assert (number == 1) is (step in IN_ONE_BATCH.get(database[0], ()))
    assert not waited, "\n".join(waited)


def waits(action):
    """Return the statement in which an action would have waited for a lock, else None."""
    try:
        action()
    except DBAPIError as error:
        if not {getattr(error.orig, "sqlstate", None), error.orig.args[0]} & LOCK_ERRORS:
            raise
        return error.statement or str(error)
    return None


def brief(statement):
    return " ".join(statement.split())[:160]
