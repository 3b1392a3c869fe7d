"""PostgreSQL: what others may do to a job between two rounds of a scheduler, and ends of runs in one batch."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy.bulk import columns_of
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import StatementBatch, abort_unless
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.dialect import PostgreSQL
from goscheduler.jobstores.sqlalchemy.transactions import UnknownOutcome
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.retry import Retry
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.contract import NOW, SECOND, Requests, failed, in_threads, succeeded
from goscheduler.triggers.date import DateTrigger

pytestmark = pytest.mark.xdist_group("sql-postgresql")

MINUTE = timedelta(minutes=1)
BEFORE = NOW - SECOND


@pytest.fixture(scope="module")
def database(shared_server):
    with shared_server("postgresql").fresh() as space:
        store = SQLAlchemyJobStore(space.url)
        store.upgrade_schema()
        store.shutdown()
        yield create_engine(space.url, poolclass=NullPool), space.url


@pytest.fixture
def url(database):
    engine, url = database
    with engine.begin() as connection:
        for table in ("jobs", "runs", "history", "dead", "limits"):
            connection.execute(text(f"DELETE FROM goscheduler_{table}"))
    return url


@pytest.fixture
def stores(url, opened):
    return [opened(SQLAlchemyJobStore(url, server_time=False)) for _ in range(2)]


@pytest.fixture
def requests():
    return Requests()


class Steps(list):
    """What a store does on its database, step by step."""

    def __init__(self, store, monkeypatch):
        super().__init__()
        for name in ("write_batch", "write", "reading"):
            monkeypatch.setattr(store._database, name, self._noted(name, getattr(store._database, name)))

    def _noted(self, name, step):
        return lambda *args, **options: self.append(name) or step(*args, **options)


@pytest.fixture
def steps(stores, monkeypatch):
    return Steps(stores[0], monkeypatch)


@pytest.fixture
def seen_before(stores, make_job, requests, steps):
    """Have the first store look at a job that is due at NOW before it is due."""
    stores[0].add_job(make_job("a", args=("old",)))
    assert not requests.fire(stores[0], now=BEFORE).runs
    steps.clear()


def ids(fired):
    return [run.job.id for run in fired.runs]


@pytest.mark.usefixtures("seen_before")
class TestOneJob:
    """What can have become of a job since the last round."""

    def test_it_is_fired_by_one_transaction_and_ended_by_one_batch_each_time_and_again(self, stores, requests, steps):
        for minute in range(3):
            now = NOW + minute * MINUTE
            fired = requests.fire(stores[0], now=now)
            (run,) = fired.runs
            assert (run.scheduled_at, fired.next_due) == (now, now + MINUTE)
            assert stores[1].live_runs() == [run]
            assert not stores[0].settle([succeeded(run)])
            assert steps == ["reading", "write", "reading", "write_batch"]
            steps.clear()
        assert stores[1].lookup_job("a").run_count == 3
        assert len(stores[1].history(HistoryQuery())) == 3

    def test_a_look_before_it_is_due_is_one_query(self, stores, requests, steps):
        requests.fire(stores[0], now=BEFORE)
        requests.claim(stores[0], now=BEFORE)
        assert steps == ["reading"]

    def test_one_that_was_changed_fires_as_it_is_now(self, stores, make_job, requests):
        stores[1].update_job(make_job("a", args=("new",)))
        (run,) = requests.fire(stores[0]).runs
        assert run.job.args == ("new",)

    def test_one_that_was_removed_and_added_again_fires_as_it_is_now(self, stores, make_job, requests):
        stores[1].remove_job("a")
        stores[1].add_job(make_job("a", args=("new",)))
        (run,) = requests.fire(stores[0]).runs
        assert run.job.args == ("new",)
        assert stores[1].live_runs() == [run]

    @pytest.mark.parametrize("due", [NOW + SECOND, None])
    def test_one_that_was_put_off_or_paused_does_not_fire(self, stores, make_job, requests, due):
        stores[1].update_job(make_job("a", due=due))
        assert not requests.fire(stores[0]).runs
        assert stores[0].live_runs() == []

    def test_one_that_was_removed_does_not_fire(self, stores, requests):
        stores[1].remove_job("a")
        assert not requests.fire(stores[0]).runs
        assert stores[0].live_runs() == []

    @pytest.mark.parametrize(("now", "coalesced"), [(NOW - SECOND / 2, 0), (NOW, 1)])
    def test_one_that_was_put_before_fires_for_that_time_too(self, stores, make_job, requests, now, coalesced):
        stores[1].update_job(make_job("a", due=NOW - SECOND / 2, args=("old",)))
        (run,) = requests.fire(stores[0], now=now).runs
        assert (run.scheduled_at, run.coalesced) == (now, coalesced)

    def test_one_that_was_put_into_another_zone_fires_in_that(self, stores, make_job, requests):
        stores[1].update_job(make_job("a", due=NOW.astimezone(ZoneInfo("Europe/Berlin")), args=("old",)))
        (run,) = requests.fire(stores[0]).runs
        assert run.scheduled_at.tzinfo == ZoneInfo("Europe/Berlin")

    def test_one_that_others_have_fired_and_put_back_gets_a_fence_of_its_own(self, stores, make_job, requests):
        (first,) = requests.fire(stores[1]).runs
        stores[1].settle([succeeded(first)])
        stores[1].update_job(make_job("a", args=("old",)))
        (run,) = requests.fire(stores[0]).runs
        assert run.fence > first.fence

    def test_one_that_others_have_fired_is_not_fired_again_and_costs_one_query(self, stores, requests, steps):
        assert len(requests.fire(stores[1]).runs) == 1
        fired = requests.fire(stores[0])
        assert (fired.runs, fired.next_due) == ([], NOW + MINUTE)
        assert steps == ["reading"]
        assert len(stores[0].live_runs()) == 1

    def test_of_one_that_is_still_running_the_next_firing_is_skipped(self, stores, requests):
        assert len(requests.fire(stores[0]).runs) == 1
        fired = requests.fire(stores[0], now=NOW + MINUTE)
        assert not fired.runs
        assert [record.outcome.kind for record in fired.records] == [OutcomeKind.SKIPPED]

    def test_one_that_somebody_has_hold_of_is_left_alone_and_not_waited_for(self, stores, requests):
        jobs = stores[1]._tables.jobs
        with stores[1]._database.engine.begin() as other:
            other.execute(select(jobs.c.id).with_for_update())
            assert not requests.fire(stores[0]).runs
        assert ids(requests.fire(stores[0])) == ["a"]

    def test_one_that_cannot_be_run_here_is_suspended(self, stores, requests):
        fired = requests.fire(stores[0], obstacles={"a": "no such thing"})
        assert [suspended.reason for suspended in fired.suspended] == ["no such thing"]
        assert stores[1].suspensions() == {"a": "no such thing"}

    def test_one_that_comes_far_too_late_runs_once_for_all_times(self, stores, requests):
        (run,) = requests.fire(stores[0], now=NOW + 10 * MINUTE).runs
        assert run.coalesced == 10

    def test_the_room_of_others_is_not_touched(self, stores, requests):
        assert not requests.fire(stores[0], room={"other": 5}).runs
        assert not requests.fire(stores[0], room={"default": 0}).runs
        assert ids(requests.fire(stores[0])) == ["a"]

    @pytest.mark.parametrize("claimed", [True, False])
    def test_one_of_which_somebody_claims_a_run_is_left_alone_and_then_goes_by_what_there_is(
        self, stores, make_job, requests, claimed
    ):
        fired = []

        def claim_meanwhile(work):
            work.connection.execute(select(work.tables.jobs.c.id).with_for_update())
            fired.append(requests.fire(stores[0]))
            run = asked_for(make_job("a"), "asked", BEFORE)
            run = run._replace(owner="somebody", fence=1) if claimed else run
            work.dialect.insert_rows(work.connection, work.tables.runs, columns_of([work.rows.run_row(run)]))

        stores[1]._database.write(claim_meanwhile)
        fired.append(requests.fire(stores[0]))
        assert [len(each.runs) for each in fired] == [0, 0 if claimed else 1]
        assert [len(each.records) for each in fired] == [0, 1 if claimed else 0]


class TestSeveralJobs:
    def test_a_hundred_that_are_due_at_once_fire_once_among_several_stores(
        self, url, opened, make_job, requests
    ):
        stores = [opened(SQLAlchemyJobStore(url, server_time=False)) for _ in range(4)]
        names = sorted(f"job-{number}" for number in range(100))
        stores[0].add_jobs([make_job(name) for name in names])
        for store in stores:
            requests.fire(store, now=BEFORE)
        for minute in range(5):
            now = NOW + minute * MINUTE
            fired = in_threads([lambda store=store, now=now: requests.fire(store, now=now).runs for store in stores])
            assert sorted(run.job.id for runs in fired for run in runs) == names
            ends = [(store, list(map(succeeded, runs))) for store, runs in zip(stores, fired, strict=True) if runs]
            assert not any(in_threads([lambda store=store, these=these: store.settle(these) for store, these in ends]))
        assert stores[0].live_runs() == []

    @pytest.mark.usefixtures("seen_before")
    def test_one_that_came_meanwhile_goes_before_one_of_lower_rank(self, stores, make_job, requests):
        stores[1].add_job(make_job("urgent", priority=0))
        assert ids(requests.fire(stores[0], room={"default": 1})) == ["urgent"]
        assert ids(requests.fire(stores[0])) == ["a"]

    @pytest.mark.usefixtures("seen_before")
    def test_one_that_came_meanwhile_and_has_the_same_rank_fires_in_the_same_round(self, stores, make_job, requests):
        stores[1].add_job(make_job("b"))
        assert sorted(ids(requests.fire(stores[0]))) == ["a", "b"]

    def test_where_there_is_room_for_some_only_the_rank_decides(self, stores, make_job, requests):
        stores[0].add_jobs([make_job(name, priority=number) for number, name in enumerate("abcd")])
        requests.fire(stores[0], now=BEFORE)
        fired = requests.fire(stores[0], room={"default": 2})
        assert (ids(fired), fired.more) == (["a", "b"], True)
        assert ids(requests.fire(stores[0], room={"default": 1})) == ["c"]
        assert ids(requests.fire(stores[0])) == ["d"]

    def test_one_that_was_given_another_rank_meanwhile_gets_the_only_room(self, stores, make_job, requests):
        stores[0].add_jobs([make_job("a"), make_job("b", due=NOW - SECOND / 2)])
        requests.fire(stores[0], now=BEFORE)
        stores[1].update_job(make_job("a", priority=0))
        assert ids(requests.fire(stores[0], room={"default": 1})) == ["a"]

    def test_the_more_urgent_ones_are_handed_over_first(self, stores, make_job, requests):
        stores[0].add_jobs([make_job("late", due=NOW), make_job("soon", priority=1), make_job("now", priority=0)])
        requests.fire(stores[0], now=BEFORE)
        assert ids(requests.fire(stores[0])) == ["now", "soon", "late"]

    def test_those_of_an_executor_without_room_stay(self, stores, make_job, requests):
        stores[0].add_jobs([make_job("a"), make_job("b", executor="other")])
        requests.fire(stores[0], now=BEFORE, room={"default": 5, "other": 5})
        fired = requests.fire(stores[0], room={"default": 5, "other": 0})
        assert (ids(fired), fired.more) == (["a"], True)
        assert ids(requests.fire(stores[0], room={"default": 5, "other": 5})) == ["b"]

    def test_one_under_a_limit_goes_with_the_others_and_its_limit_holds(self, stores, make_job, requests):
        limits = Limit("few", concurrency=1)
        stores[0].add_jobs([make_job("a"), *(make_job(f"limited-{n}", limits=limits) for n in range(2))])
        requests.fire(stores[0], now=BEFORE)
        fired = requests.fire(stores[0])
        assert len(fired.runs) == 2
        assert len(stores[0].pending_runs()) == 1

    def test_one_that_fires_for_the_last_time_is_gone_or_kept_as_it_wants(self, stores, make_job, requests):
        once = DateTrigger(NOW)
        stores[0].add_job(make_job("gone", trigger=once))
        requests.fire(stores[0], now=BEFORE)
        fired = requests.fire(stores[0])
        assert (ids(fired), [job.id for job in fired.finished], fired.next_due) == (["gone"], ["gone"], None)
        stores[0].add_job(make_job("kept", due=NOW + SECOND, trigger=DateTrigger(NOW + SECOND), auto_remove=False))
        requests.fire(stores[0])
        fired = requests.fire(stores[0], now=NOW + SECOND)
        assert (ids(fired), fired.finished) == (["kept"], [])
        assert [(job.id, job.next_run_time) for job in stores[1].get_all_jobs()] == [("kept", None)]


@pytest.mark.parametrize("wrong", [timedelta(minutes=10), timedelta(minutes=-10), timedelta(seconds=0.5)])
def test_a_clock_that_goes_wrong_fires_nothing_too_early_and_loses_nothing(url, opened, make_job, requests, wrong):
    store = opened(SQLAlchemyJobStore(url))
    now = SYSTEM_CLOCK.now()
    store.add_job(make_job("a", due=now + timedelta(minutes=5)))
    store.add_job(make_job("b", due=now + timedelta(seconds=0.2), trigger=DateTrigger(now)))
    fired = requests.fire(store, now=now)
    while not fired.runs:
        fired = requests.fire(store, now=SYSTEM_CLOCK.now() + wrong)
    assert ids(fired) == ["b"]
    assert SYSTEM_CLOCK.now() >= now + timedelta(seconds=0.2)


def test_what_is_due_when_our_clock_was_set_ahead_is_planned_by_the_clock_of_the_server(
    url, opened, make_job, requests
):
    store = opened(SQLAlchemyJobStore(url))
    now = SYSTEM_CLOCK.now()
    due = now + timedelta(seconds=3)
    store.add_job(make_job("a", due=due, start=due))
    assert not requests.fire(store, now=now).runs
    while (left := due - SYSTEM_CLOCK.now()) > timedelta(0):
        threading.Event().wait(left.total_seconds())
    (run,) = requests.fire(store, now=SYSTEM_CLOCK.now() + timedelta(seconds=30)).runs
    assert run.fence / 1e6 < SYSTEM_CLOCK.now().timestamp() + 1


def test_the_time_of_the_server_is_told_as_if_it_had_been_asked_when_the_round_began(url, opened, requests):
    store = opened(SQLAlchemyJobStore(url))
    wrong = timedelta(hours=1)
    for _ in range(2):
        fired = requests.fire(store, now=SYSTEM_CLOCK.now() - wrong)
        assert abs(fired.now + wrong - wrong - SYSTEM_CLOCK.now()) < wrong / 2


def test_a_server_that_is_stricter_by_default_makes_no_difference(postgresql, fresh, opened, make_job, requests):
    space = fresh(postgresql)
    with psycopg.connect(space.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {space.name} SET default_transaction_isolation = 'serializable'")
    store = opened(SQLAlchemyJobStore(space.url, server_time=False))
    sent = []
    original = StatementBatch.send

    def send(batch):
        batch.exec_driver_sql(abort_unless("current_setting('transaction_isolation') = 'read committed'"))
        original(batch)
        sent.append(batch)

    store.add_job(make_job("a"))
    (run,) = requests.fire(store).runs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StatementBatch, "send", send)
        assert not store.settle([succeeded(run)])
    assert len(sent) == 1, "the server did not abort it"


def test_only_psycopg_is_given_batches():
    assert PostgreSQL().takes_batches(create_engine("postgresql+psycopg://"))

    class Other:
        class dialect:
            driver = "pg8000"

    assert not PostgreSQL().takes_batches(Other)


@contextmanager
def broken_batch(*, written):
    """Let the connection of the next batch break, before or after it is written."""
    original = StatementBatch.send
    with pytest.MonkeyPatch.context() as patch:

        def send(batch):
            patch.undo()
            if written:
                original(batch)
            batch._driver.close()
            raise psycopg.OperationalError("the connection broke")

        patch.setattr(StatementBatch, "send", send)
        yield


@pytest.mark.parametrize("written", [True, False])
def test_an_end_whose_answer_was_lost_is_in_the_history_once(stores, make_job, requests, written):
    stores[0].add_job(make_job("a"))
    (run,) = requests.fire(stores[0]).runs
    with broken_batch(written=written), pytest.raises(UnknownOutcome):
        stores[0].settle([succeeded(run)])
    assert len(stores[0].settle([succeeded(run)])) == (1 if written else 0), "what was written before is refused"
    assert len(stores[0].history(HistoryQuery())) == 1
    assert stores[0].lookup_job("a").run_count == 1


@pytest.mark.usefixtures("seen_before")
def test_a_session_that_the_server_has_ended_costs_one_round_and_nothing_else(stores, requests):
    with stores[1]._database.engine.begin() as other:
        ours = "datname = current_database() AND pid <> pg_backend_pid()"
        other.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}"))
        removed = text(f"SELECT count(*) FROM pg_stat_activity WHERE {ours}")
        while other.execute(removed).scalar():
            other.execute(text("SELECT pg_stat_clear_snapshot()"))
    with pytest.raises(OperationalError) as error:
        requests.fire(stores[0])
    assert stores[0].is_outage(error.value)
    assert ids(requests.fire(stores[0])) == ["a"]
    assert len(stores[1].live_runs()) == 1


class TestEnds:
    @pytest.fixture
    def run(self, stores, make_job, requests, steps):
        stores[0].add_job(make_job("a"))
        (run,) = requests.fire(stores[0]).runs
        steps.clear()
        return run

    def test_an_end_that_comes_too_late_is_refused_and_writes_nothing(self, stores, run):
        late = succeeded(run._replace(fence=run.fence - 1))
        assert stores[0].settle([late]) == [late]
        assert stores[0].history(HistoryQuery()) == []
        assert stores[1].live_runs() == [run]
        assert stores[0].lookup_job("a").run_count == 0

    def test_among_ends_in_time_a_late_one_is_the_only_one_that_is_refused(self, stores, make_job, requests, run):
        stores[0].add_job(make_job("b"))
        (other,) = requests.fire(stores[0]).runs
        late = succeeded(run._replace(fence=run.fence - 1))
        assert stores[0].settle([late, succeeded(other)]) == [late]
        assert [record.job_id for record in stores[0].history(HistoryQuery())] == ["b"]

    def test_an_end_that_something_follows_is_written_in_a_transaction(self, stores, make_job, requests, steps):
        stores[0].add_job(make_job("b", retry=Retry(2)))
        (run,) = requests.fire(stores[0]).runs
        steps.clear()
        assert not stores[0].settle([failed(run)])
        assert steps == ["write"]
        assert [each.id for each in stores[1].pending_runs()] == [run.id]

    def test_nothing_at_all_is_no_end(self, stores):
        assert not stores[0].settle([])

    def test_an_end_lets_a_run_try_that_waits_for_it(self, stores, make_job, requests, run):
        stores[1].add_run(asked_for(make_job("a"), "asked", NOW))
        assert not requests.claim(stores[1]).runs, "it is held: one may run at a time"
        assert not stores[0].settle([succeeded(run)])
        assert [each.id for each in requests.claim(stores[1]).runs] == ["asked"]

    def test_a_batch_that_was_aborted_leaves_the_connection_in_order(self, stores, make_job, requests, run):
        stores[0].settle([succeeded(run._replace(fence=1))])
        assert not stores[0].settle([succeeded(run)])
        assert requests.fire(stores[0], now=NOW + MINUTE).runs
