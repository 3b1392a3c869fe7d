"""The SQL store under the contract of all stores and against the model, on real servers."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
from pathlib import Path
from uuid import uuid4

import pytest
from sql_servers import PgBouncer
from sqlalchemy import create_engine, delete, insert, inspect, select, update

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore, job_search
from goscheduler.jobstores.sqlalchemy import migrations as sql_migrations
from goscheduler.jobstores.sqlalchemy import transactions as sql_transactions
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.tables import ANY_TERM, Tables
from goscheduler.runs import queries
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.queries import Count, JobPage, JobQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.contract import MINUTE, NOW, SECOND, JobMaker, StoreContract, in_threads, succeeded
from goscheduler.testing.contract_inbox import InboxContract
from goscheduler.testing.contract_reads import ReadContract, pages
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model
from goscheduler.testing.scheduler import ManualScheduler

#: ``GOSCHEDULER_FULL=1`` tries a database in memory too.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))


TABLES = Tables("goscheduler", None)
EMPTYING = [delete(table) for table in TABLES.metadata.tables.values() if table is not TABLES.meta]


class SharedContract(ReadContract, InboxContract, StoreContract):
    """The contract, and what holds among several processes: here several stores on the same tables."""

    def make_store(self):
        return SQLAlchemyJobStore(self.url, server_time=False)

    def put_in_inbox(self, store, request):
        with store._database.engine.begin() as connection:
            connection.execute(insert(TABLES.inbox), {"request": request})

    def refused_in_inbox(self, store):
        refused = TABLES.inbox_refused.c
        with store._database.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(select(refused.request, refused.reason))]

    @pytest.fixture
    def peers(self, store, scheduler):
        peers = [self.make_store() for _ in range(3)]
        for peer in peers:
            peer.start(scheduler, "default")
        yield [store, *peers]
        for peer in peers:
            peer.shutdown()

    def test_among_several_stores_every_job_fires_once(self, peers, make_job, requests):
        peers[0].add_jobs([make_job(f"job-{number}") for number in range(60)])
        actions = [lambda peer=peer: requests.fire(peer, room={"default": 20}).runs for peer in peers * 2]
        ran = sorted(run.job.id for runs in in_threads(actions) for run in runs)
        ran += [run.job.id for run in requests.fire(peers[0]).runs]
        assert sorted(ran) == sorted(f"job-{number}" for number in range(60))

    def test_among_several_stores_no_more_runs_of_a_job_are_claimed_than_may_be_live(self, peers, make_job, requests):
        job = make_job("a", max_instances=2)
        for number in range(8):
            peers[0].add_run(asked_for(job, f"run-{number}", NOW))
        for _ in range(4):
            in_threads([lambda peer=peer: requests.claim(peer, owner="o") for peer in peers])
            live = peers[0].live_runs("a")
            assert len(live) == 2, "neither more than may be, nor left waiting in vain"
            in_threads([lambda peer=peer, run=run: peer.settle([succeeded(run)]) for peer, run in zip(peers, live)])  # noqa: B905
        assert peers[0].live_runs() + peers[0].pending_runs() == []

    def test_among_several_stores_a_limit_holds(self, peers, make_job, requests):
        jobs = [make_job(f"job-{number}", limits=[Limit("shared", concurrency=3)]) for number in range(12)]
        peers[0].add_jobs(jobs)
        done = 0
        for _ in range(12):
            in_threads([lambda peer=peer: (requests.fire(peer), requests.claim(peer)) for peer in peers])
            live = peers[0].live_runs()
            assert len(live) <= 3
            done += len(live)
            assert not peers[1].settle([succeeded(run) for run in live])
        assert done == 12

    def test_jobs_are_found_that_have_too_many_words_or_were_written_by_an_older_version(self, store, make_job):
        store.add_jobs([
            make_job("long", name="x" * 200 + "ENDÉ", tags=[f"tag-{number}" for number in range(30)]),
            make_job("short", name="Endé", tags=["tag-29"]), make_job("other", name="other", tags=["tag-9"]),
            make_job("older", name="ende\u0301 and endé", tags=["tag-29", "tag-3"]),
        ])  # fmt: skip
        with store._database.engine.begin() as connection:
            jobs = TABLES.jobs
            connection.execute(update(jobs).where(jobs.c.id == "older").values(terms=ANY_TERM, words=None, name=None))
        for query in (JobQuery(text="ENDÉ"), JobQuery(tag="tag-29"), JobQuery(tag="tag-29", text="endé", sort="id")):
            for limit in (1, 2, 3, 4):
                assert sorted(pages(store, query._replace(limit=limit))) == ["long", "older", "short"]
            assert store.count_jobs(query, 3) == Count(3)
            assert store.count_jobs(query, 2) == Count(2, exact=False)
        assert store.count_jobs(JobQuery(tag="tag-3"), 9) == Count(2)
        assert store.find_jobs(JobQuery(text="half \ud800")) == JobPage([])
        assert store.count_jobs(JobQuery(text="\0"), 9) == Count(0)

    def test_a_search_for_a_text_among_many_jobs_goes_on_where_it_has_given_up(self, store, make_job, monkeypatch):
        monkeypatch.setattr(job_search, "MANY_JOBS", 3)
        monkeypatch.setattr(job_search, "PORTION", 2)
        monkeypatch.setattr(queries, "SEARCH_SECONDS", 0.0)
        for number in range(24):
            due = None if number % 3 == 0 else NOW + number * SECOND
            name = "find me" if number % 5 == 0 else "another"
            store.add_job(make_job(f"job-{number:02}", due=due, name=name, priority=number % 2 + 4))
        assert not store.find_jobs(JobQuery(text="FIND ME")).complete
        assert pages(store, JobQuery(text="FIND ME")) == ["job-05", "job-10", "job-20", "job-00", "job-15"]
        assert pages(store, JobQuery(text="FIND ME", limit=1)) == ["job-05", "job-10", "job-20", "job-00", "job-15"]
        assert pages(store, JobQuery(text="nothing like it")) == []

    def test_jobs_of_more_executors_than_are_read_side_by_side_are_in_order(self, store, make_job, monkeypatch):
        monkeypatch.setattr(job_search, "MAX_EXECUTORS", 2)
        for number in range(9):
            due = None if number % 3 == 0 else NOW - number * SECOND
            store.add_job(make_job(f"job-{number}", due=due, executor=f"executor-{number % 4}", tags=["t"]))
        expected = ["job-8", "job-7", "job-5", "job-4", "job-2", "job-1", "job-0", "job-3", "job-6"]
        for query in (JobQuery(limit=2), JobQuery(tag="t", limit=4), JobQuery(text="job", limit=3)):
            assert pages(store, query) == expected
        assert pages(store, JobQuery(tag="t", sort="id", limit=2)) == sorted(expected)

    def test_places_under_a_limit_come_back_after_their_runs_were_deleted_by_hand(self, store, make_job, requests):
        store.add_jobs([make_job(job_id, limits=[Limit("one", concurrency=1)]) for job_id in ("a", "b")])
        (run,) = requests.fire(store).runs
        with store._database.engine.begin() as connection:
            connection.execute(delete(TABLES.runs).where(TABLES.runs.c.id == run.id))
        assert not requests.claim(store).runs
        assert store.recover_runs(NOW, pytest.fail) == []
        assert [use.live for use in store.limit_usage(NOW)] == [0] * len(store.limit_usage(NOW))
        assert len(requests.claim(store).runs) == 1

    def test_runs_that_wait_for_nothing_any_more_are_found(self, store, make_job, requests):
        one = [Limit("one", concurrency=1)]
        store.renew_owner(Owner("owner-1", "host", 1, NOW, (), ()), NOW, 60 * MINUTE)
        store.add_jobs([make_job(f"shares-{number}", limits=one) for number in range(3)])
        store.add_job(make_job("queues", max_instances=1, overlap="queue"))
        for minute in range(2):
            requests.fire(store, now=NOW + minute * MINUTE)
            requests.claim(store, now=NOW + minute * MINUTE)
        assert store.recover_runs(NOW + MINUTE, pytest.fail) == []
        assert not requests.claim(store, now=NOW + 2 * MINUTE).runs, "they wait for live runs"
        with store._database.engine.begin() as connection:
            lost = delete(TABLES.runs).where(TABLES.runs.c.owner.is_not(None))
            connection.execute(lost)
            connection.execute(delete(TABLES.usage))
        for _ in range(2):  # one that was let go has the turn of the others
            assert store.recover_runs(NOW + MINUTE, pytest.fail) == []
        claimed = requests.claim(store, now=NOW + 2 * MINUTE).runs
        assert len(claimed) == 2
        assert {run.job.id.partition("-")[0] for run in claimed} == {"shares", "queues"}

    def test_a_waiting_run_that_was_locked_when_its_turn_came_gets_it_with_the_next_recovery(
        self, store, make_job, requests
    ):
        store.renew_owner(Owner("owner-1", "host", 1, NOW, (), ()), NOW, 60 * MINUTE)
        store.add_jobs([make_job(name, limits=[Limit("one", concurrency=1)]) for name in ("first", "second")])
        (run,) = requests.fire(store).runs
        waiting = select(TABLES.runs.c.id).where(TABLES.runs.c.held.is_not(None))
        if store._dialect.skips_locked:
            with store._database.engine.begin() as elsewhere:
                assert len(elsewhere.execute(waiting.with_for_update()).all()) == 1
                store.settle([succeeded(run)])
            assert not requests.claim(store).runs, "its end has passed the locked one"
            assert store.recover_runs(NOW, pytest.fail) == []
        else:
            store.settle([succeeded(run)])
        assert [each.job.id for each in requests.claim(store).runs] == ["second"]

    def test_of_several_stores_that_make_the_tables_at_once_none_fails(self, scheduler):
        stores = [SQLAlchemyJobStore(self.url, tablename="new") for _ in range(4)]
        in_threads([lambda store=store: store.start(scheduler, "default") for store in stores])
        for store in stores:
            assert store.schema_status().current
            store.shutdown()


def test_a_look_while_others_make_the_tables_is_repeated_when_they_are_done(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SQLAlchemyJobStore(url)
    store.start(ManualScheduler(), "default")
    inspected = []

    def inspect_too_early(connection):
        """Name one table at first, as when the others were made just after it was asked."""
        inspector = inspect(connection)
        inspected.append(inspector)
        if len(inspected) == 1:
            monkeypatch.setattr(inspector, "get_table_names", lambda schema: [store._tables.meta.name])
        return inspector

    monkeypatch.setattr(sql_migrations, "inspect", inspect_too_early)
    assert not sql_migrations.bring_up_to_date(store._tables, store._database.engine)
    assert len(inspected) == 2
    store.shutdown()


class TestSQLite(SharedContract):
    """In a file with tables for each test, copied because to make them takes longer than most tests."""

    @pytest.fixture(scope="class")
    @classmethod
    def template(cls, tmp_path_factory):
        path = tmp_path_factory.mktemp("template") / "jobs.db"
        store = SQLAlchemyJobStore(f"sqlite:///{path}")
        store.start(ManualScheduler(), "default")
        store.shutdown()
        return path

    @pytest.fixture(autouse=True)
    def _place(self, template, tmp_path):
        path = shutil.copy(template, tmp_path)
        self.url = f"sqlite:///{path}"


class ServerContract(SharedContract):
    """The contract on a server, in one database for all tests: to make one takes longer than most of them."""

    kind = ""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, shared_server):
        with shared_server(cls.kind).fresh() as space:
            engine = create_engine(space.url)
            yield space.url, engine
            engine.dispose()

    @pytest.fixture(autouse=True)
    def _place(self, database):
        self.url, engine = database
        if "goscheduler_jobs" in inspect(engine).get_table_names():
            with engine.begin() as connection:
                for statement in EMPTYING:
                    connection.execute(statement)


class TestPostgreSQL(ServerContract):
    kind = "postgresql"


class TestBehindAPooler(ServerContract):
    """PostgreSQL behind PgBouncer, which has fewer connections than we."""

    kind = "postgresql"

    @pytest.fixture(scope="class")
    @classmethod
    def pooler(cls, shared_server):
        with tempfile.TemporaryDirectory(prefix="goscheduler-") as folder:
            Path(folder).chmod(0o755)
            port = str(shared_server(cls.kind).port)
            pooler = PgBouncer(Path(folder, "pgbouncer"), port, "pool_mode=transaction", "default_pool_size=2")
            try:
                pooler.start()
                yield pooler
            finally:
                pooler.close()

    @pytest.fixture(autouse=True)
    def _go_through_the_pooler(self, _place, pooler):
        self.url = pooler.in_front_of(self.url)


class TestMariaDB(ServerContract):
    kind = "mariadb"


class TestUnknownDatabase(ServerContract):
    """PostgreSQL treated as a database of which nothing is known."""

    kind = "postgresql"

    @pytest.fixture(autouse=True)
    def _know_nothing(self, monkeypatch):
        monkeypatch.setattr(sql_transactions, "dialect_of", lambda url: Dialect())


if FULL:

    class TestSQLiteInMemory(StoreContract):
        def make_store(self):
            return SQLAlchemyJobStore("sqlite://", server_time=False)


class SQLMachine(StoreMachine):
    url = ""

    def make_store(self):
        self.tablename = f"t{uuid4().hex[:12]}"
        return self.make_peer(None)

    def make_peer(self, store):
        return SQLAlchemyJobStore(self.url, tablename=self.tablename, server_time=False)


class SQLiteMachine(SQLMachine):
    def make_store(self):
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{self.folder.name}/jobs.db"
        return super().make_store()

    def teardown(self):
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


class PostgreSQLMachine(SQLMachine):
    pass


class MariaDBMachine(SQLMachine):
    pass


TestSQLiteAgainstTheModel = against_the_model(SQLiteMachine, examples=8, steps=40)


@pytest.mark.timeout(300)
class TestLimitsInSQLite(limits_against_the_model(SQLiteMachine, examples=5)):
    pass


class TestPostgreSQLAgainstTheModel(against_the_model(PostgreSQLMachine, examples=6, steps=30)):
    @pytest.fixture(autouse=True)
    def _place(self, postgresql, fresh):
        PostgreSQLMachine.url = fresh(postgresql).url


class TestMariaDBAgainstTheModel(against_the_model(MariaDBMachine, examples=3, steps=25)):
    @pytest.fixture(autouse=True)
    def _place(self, mariadb, fresh):
        MariaDBMachine.url = fresh(mariadb).url


@pytest.mark.timeout(300)
class TestLimitsInPostgreSQL(limits_against_the_model(PostgreSQLMachine, examples=4)):
    @pytest.fixture(autouse=True)
    def _place(self, postgresql, fresh):
        PostgreSQLMachine.url = fresh(postgresql).url


@pytest.mark.timeout(300)
class TestLimitsInMariaDB(limits_against_the_model(MariaDBMachine, examples=3, steps=15)):
    @pytest.fixture(autouse=True)
    def _place(self, mariadb, fresh):
        MariaDBMachine.url = fresh(mariadb).url


@pytest.mark.serial
def test_a_store_hears_of_others_again_when_postgresql_comes_back_and_says_that_it_did_not(private_server):
    server = private_server("postgresql")
    heard, told = threading.Event(), threading.Event()
    store = SQLAlchemyJobStore(server.url)
    store.start(ManualScheduler(), "default")
    warnings = []
    store._database.listen(None, heard.set, lambda words: (warnings.append(words), told.set()))
    assert store.poll_after() == math.inf
    server.kill()
    assert told.wait(60)
    assert "do not arrive" in warnings[0]
    assert store.poll_after() < math.inf
    heard.clear()
    server.restart()
    assert heard.wait(60)
    other = SQLAlchemyJobStore(server.url)
    scheduler = ManualScheduler()
    other.start(scheduler, "default")
    heard.clear()
    other.add_job(JobMaker(scheduler)("job"))
    assert heard.wait(60)
    assert len(warnings) == 1
    other.shutdown()
    store.shutdown()
