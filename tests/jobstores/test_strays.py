"""Jobs and runs that stores do not find any more, because somebody has damaged their lists, are put back."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from redis_lists import astray

from goscheduler.jobstores._keyvalue.server import Span, Transaction, escape
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.transitions import asked_for
from goscheduler.schedulers import _housekeeping
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, Requests, succeeded
from goscheduler.testing.contract_owners import LEASE, lost
from goscheduler.testing.scheduler import ManualScheduler

MINUTE = timedelta(minutes=1)


class DamagedRedis:
    """A Redis store, and a hand that takes things out of its lists."""

    def __init__(self, store):
        self._store = store

    def lose_job(self, job_id):
        self._take_out("zrem", "due:*", job_id)

    def lose_run(self, run_id):
        for command, lists in (("zrem", "ready:*"), ("zrem", "holds:*"), ("srem", "owned:*")):
            self._take_out(command, lists, run_id)

    def lose_lanes(self):
        scripts = self._store._scripts
        scripts.client.delete(scripts.key("due"), scripts.key("ready"))

    def _take_out(self, command, lists, member):
        scripts = self._store._scripts
        for key in scripts.client.keys(scripts.key(lists)):
            getattr(scripts.client, command)(key, member)


class DamagedKeyValue:
    """A store on etcd or ZooKeeper, and a hand that takes places away."""

    def __init__(self, store):
        self._store = store

    def lose_job(self, job_id):
        (found,) = self._store._server.read([("jobs", escape(job_id))])
        self._delete(self._store._codec.job_row(found).place)

    def lose_run(self, run_id):
        (found,) = self._store._server.read([("runs", escape(run_id))])
        self._delete(self._store._codec.run_row(found).place)

    def lose_lanes(self):
        for name in self._store._server.names([Span(("lanes",))])[0]:
            self._delete(("lanes", name))

    def _delete(self, key):
        transaction = Transaction()
        transaction.delete(key)
        assert self._store._server.commit(transaction)


KINDS = {
    "redis": (RedisJobStore, DamagedRedis),
    "etcd": (EtcdJobStore, DamagedKeyValue),
    "zookeeper": (ZooKeeperJobStore, DamagedKeyValue),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def store(kind, url_of, opened):
    return opened(KINDS[kind][0](url=url_of(kind), server_time=False))


@pytest.fixture
def hand(kind, store):
    return KINDS[kind][1](store)


@pytest.fixture
def requests():
    return Requests()


def put_back(store, limit=1000):
    """Return the ids of all that was put back while everything was looked at once."""
    ids = []
    while True:
        found = store.requeue_orphans(limit)
        ids += found.ids
        if not found.more:
            assert not store.requeue_orphans(1_000_000).ids, "once is enough"
            return ids


def test_a_job_in_no_list_is_put_back_and_fires(store, hand, make_job, requests):
    store.add_job(make_job("a"))
    store.add_job(make_job("b"))
    hand.lose_job("a")
    assert [run.job.id for run in requests.fire(store).runs] == ["b"]
    assert put_back(store) == ["a"]
    assert [run.job.id for run in requests.fire(store).runs] == ["a"]


def test_a_run_that_waits_in_no_list_is_put_back_and_claimed(store, hand, make_job, requests):
    store.add_run(asked_for(make_job("a"), "run", NOW))
    hand.lose_run("run")
    assert not requests.claim(store).runs
    assert put_back(store) == ["run"]
    assert [run.id for run in requests.claim(store).runs] == ["run"]


def test_a_run_that_was_held_and_that_nobody_would_wake_tries_again(store, hand, make_job, requests):
    few = Limit("few", concurrency=1)
    for number in range(2):
        store.add_run(asked_for(make_job(f"job-{number}", limits=few), f"run-{number}", NOW))
    (live,) = requests.claim(store).runs
    hand.lose_run("run-1")
    store.settle([succeeded(live)])
    assert not requests.claim(store).runs
    assert put_back(store) == ["run-1"]
    (claimed,) = requests.claim(store).runs
    assert claimed.id == "run-1"
    assert not store.settle([succeeded(claimed)])
    assert not requests.claim(store).more, "nothing tells that a run is held any more"


def test_a_run_that_was_held_is_held_again_while_its_limit_is_full(store, hand, make_job, requests):
    few = Limit("few", concurrency=1)
    for number in range(2):
        store.add_run(asked_for(make_job(f"job-{number}", limits=few), f"run-{number}", NOW))
    (live,) = requests.claim(store).runs
    hand.lose_run("run-1")
    assert put_back(store) == ["run-1"]
    assert not requests.claim(store).runs
    assert not store.settle([succeeded(live)])
    assert [run.id for run in requests.claim(store).runs] == ["run-1"]


def test_a_live_run_that_no_owner_has_goes_back_to_its_owner(store, hand, make_job, requests):
    store.renew_owner(Owner("owner-1"), NOW, LEASE)
    store.add_job(make_job("a", limits=Limit("few", concurrency=1)))
    (run,) = requests.fire(store).runs
    hand.lose_run(run.id)
    assert put_back(store) == [run.id]
    assert store.live_runs() == [run]
    assert not store.recover_runs(NOW, lost), "its owner lives"
    assert not store.settle([succeeded(run)])
    assert store.live_runs() == []


def test_a_live_run_that_no_owner_has_is_recovered_when_its_owner_is_lost(store, hand, make_job, requests):
    store.renew_owner(Owner("owner-1"), NOW, LEASE)
    store.add_job(make_job("a"))
    (run,) = requests.fire(store).runs
    hand.lose_run(run.id)
    assert not store.recover_runs(NOW + 2 * LEASE, lost)
    assert put_back(store) == [run.id]
    assert [settlement.attempt.run.id for settlement in store.recover_runs(NOW + 2 * LEASE, lost)] == [run.id]


def test_what_is_in_a_lane_that_nobody_looks_at_is_found(store, hand, make_job, requests):
    store.add_job(make_job("a"))
    store.add_run(asked_for(make_job("b"), "run", NOW))
    hand.lose_lanes()
    assert sorted(put_back(store)) in (["a", "run"], ["a"]), "where both have one lane, it is put back once"
    assert [run.job.id for run in requests.fire(store).runs] == ["a"]
    assert [run.id for run in requests.claim(store).runs] == ["run"]


def test_many_are_looked_at_some_at_a_time(store, hand, make_job):
    ids = [f"job-{number:03}" for number in range(600)]
    store.add_jobs([make_job(job_id) for job_id in ids])
    for job_id in ids[::60]:
        hand.lose_job(job_id)
    first = store.requeue_orphans(100)
    assert first.more
    assert len(first.ids) < 10
    assert sorted([*first.ids, *put_back(store, 100)]) == ids[::60]


class TestRedis:
    @pytest.fixture
    def kind(self):
        return "redis"

    def test_suspended_and_finished_jobs_are_listed_again(self, store, make_job, requests):
        store.add_job(make_job("a"))
        requests.fire(store, obstacles={"a": "it cannot be run"})
        scripts = store._scripts
        scripts.client.delete(scripts.key("suspended"))
        assert put_back(store) == ["a"]
        assert store.release("a")
        assert len(requests.fire(store).runs) == 1

    def test_whatever_was_lost_is_where_somebody_finds_it(self, store, hand, make_job, requests):
        few = Limit("few", concurrency=1)
        store.add_jobs([make_job(f"job-{number}", limits=few, overlap="queue") for number in range(4)])
        requests.fire(store)
        requests.claim(store)
        store._scripts.client.delete(*[store._scripts.key(name) for name in ("due", "ready", "holders", "held")])
        for number in range(4):
            hand.lose_job(f"job-{number}")
        assert astray(store)
        assert put_back(store)
        assert not astray(store)


class TestHousekeeping:
    """A scheduler looks for strays by itself, in whichever store."""

    @pytest.fixture
    def kind(self):
        return "redis"

    @pytest.fixture
    def scheduler(self, kind, url_of):
        with started(kind, url_of(kind)) as scheduler:
            yield scheduler

    @pytest.fixture
    def store(self, scheduler):
        return scheduler.engine.stores["default"]

    def test_a_job_that_was_lost_fires_again_within_minutes_and_the_log_tells_of_it_once(
        self, scheduler, hand, caplog
    ):
        jobs = [f"job-{number:02}" for number in range(12)]
        for job_id in jobs:
            scheduler.add_job(nothing, "interval", minutes=4, id=job_id)
        for job_id in jobs:
            hand.lose_job(job_id)
        scheduler.add_job(nothing, "interval", minutes=4, id="new")
        with caplog.at_level(logging.WARNING, "goscheduler"):
            scheduler.advance(_housekeeping.STRAYS_INTERVAL + 10)
        assert {record.job_id for record in scheduler.runs()} == {"new", *jobs}
        (told,) = [record.getMessage() for record in caplog.records]
        assert "12 jobs or runs that no queue listed" in told
        assert told.count("job-") == _housekeeping.NAMED
        assert told.endswith(", ...")

    def test_what_an_earlier_start_has_left_astray_is_found_soon_after_the_start(self, kind, url_of, caplog):
        url = url_of(kind)
        with started(kind, url) as scheduler:
            scheduler.add_job(nothing, "interval", minutes=1, id="a")
            KINDS[kind][1](scheduler.engine.stores["default"]).lose_job("a")
        with started(kind, url) as scheduler, caplog.at_level(logging.WARNING, "goscheduler"):
            scheduler.advance(2 * MINUTE)
            assert scheduler.runs()
        assert len([record for record in caplog.records if "queued again: 'a'" in record.getMessage()]) == 1

    def test_a_store_that_cannot_look_is_told_of_and_goes_on_firing(self, scheduler, store, monkeypatch, caplog):
        scheduler.add_job(nothing, "interval", minutes=2, id="a")
        monkeypatch.setattr(store, "requeue_orphans", broken)
        with caplog.at_level(logging.WARNING, "goscheduler"):
            scheduler.advance(_housekeeping.STRAYS_INTERVAL + 10)
        assert "could not search for orphaned jobs: it is broken" in caplog.text
        assert len(scheduler.runs()) == 2


def nothing():
    """A job."""


def broken(limit):
    raise RuntimeError("it is broken")


def started(kind, url):
    store = KINDS[kind][0](url=url, server_time=False)
    return ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store})
