"""Schedules in stores that processes share: nothing is lost on the way, and a hundred cost no more than one."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from redis.connection import AbstractConnection
from sqlalchemy import event
from sqlalchemy.engine import Engine

from goscheduler import BackgroundScheduler, Retry
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.periodic import Schedule, ScheduleRegistry, SyncPlan
from goscheduler.testing import ManualScheduler

STORES = ["sqlite", "postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"]


def registry_of(count=3, **changes):
    registry = ScheduleRegistry()
    for number in range(count):
        registry.register(Schedule(**{"id": f"s{number}", "cron": "*/5 * * * *", "job": "work", **changes}))
    return registry


def ids(count):
    return {f"s{number}" for number in range(count)}


@pytest.mark.parametrize("kind", STORES)
def test_a_schedule_comes_back_from_the_store_as_it_was_declared(kind, url_of):
    rich = {
        "payload": {"n": 1, "at": datetime(2026, 1, 1, tzinfo=timezone.utc), "pair": (1, None), "nan": float("nan")},
        "timezone": "Europe/Berlin",
        "options": {"retry": Retry(3, backoff=2), "timeout": 1.5, "tags": ["a"], "misfire_grace_time": 60},
        "description": "ä\n",
    }
    scheduler = BackgroundScheduler(jobstores={"default": url_of(kind)}, timezone="UTC")
    scheduler.start(paused=True)
    try:
        assert set(scheduler.sync(registry_of(**rich, enabled=False)).added) == ids(3)
        assert scheduler.sync(registry_of(**rich, enabled=False)).is_empty
        assert "where it is disabled" in scheduler.schedule_state("s0").paused_by
        enabled = scheduler.sync(registry_of(**rich))
        assert set(enabled.details.values()) == {"enabled: False → True"}
        state = scheduler.schedule_state("s0")
        assert state.enabled
        assert state.paused_by is None
        again = scheduler.sync(registry_of(2, **rich))
        assert (set(again.unchanged), again.removed, again.changed) == (ids(2), ("s2",), ())
        assert scheduler.schedule_state("s0") == state
    finally:
        scheduler.shutdown()


@pytest.mark.parametrize("kind", STORES)
def test_of_schedulers_that_sync_at_once_all_succeed_and_each_schedule_is_there_once(kind, url_of):
    url = url_of(kind)
    schedulers = [BackgroundScheduler(jobstores={"default": url}, timezone="UTC") for _ in range(3)]
    for scheduler in schedulers:
        scheduler.start(paused=True)
    plans, barrier = [], threading.Barrier(3)

    def sync(scheduler):
        barrier.wait()
        plans.append(scheduler.sync(registry_of(10)))

    threads = [threading.Thread(target=sync, args=[scheduler]) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        added = Counter(one for plan in plans for one in plan.added)
        assert len(plans) == 3
        assert added.keys() == ids(10)
        assert Counter(job.id for job in schedulers[0].get_jobs()) == dict.fromkeys(ids(10), 1)
        assert all(not plan.changed and not plan.removed for plan in plans)
        assert all(len(plan.added) + len(plan.unchanged) == 10 for plan in plans)
    finally:
        for scheduler in schedulers:
            scheduler.shutdown()


class RoundTrips:
    """Counts how often a store asks its server."""

    def __init__(self, monkeypatch):
        self.count = 0
        send = AbstractConnection.send_packed_command

        def counted(connection, *args, **kwargs):
            self.count += 1
            return send(connection, *args, **kwargs)

        # A pipeline is packed and sent as one; a statement of SQL is an answer that is waited for.
        monkeypatch.setattr(AbstractConnection, "send_packed_command", counted)

    def of(self, action):
        self.count = 0
        action()
        return self.count

    def statement(self, *args):
        self.count += 1


@pytest.fixture
def round_trips(monkeypatch):
    counter = RoundTrips(monkeypatch)
    event.listen(Engine, "before_cursor_execute", counter.statement)
    yield counter
    event.remove(Engine, "before_cursor_execute", counter.statement)


#: Round trips of a round in which nothing is due; of the firing of a batch; of noting how its runs have ended.
COSTS = {"redis": (1, 1, 1), "postgresql": (1, 8, 8)}
MAKERS = {"redis": RedisJobStore, "postgresql": SQLAlchemyJobStore}


@pytest.mark.parametrize("kind", COSTS)
def test_a_round_costs_the_same_for_a_hundred_schedules_as_for_one(kind, url_of, round_trips):
    costs = {count: cost_of_rounds(kind, url_of(kind), count, round_trips) for count in (1, 100)}
    assert costs[100] == costs[1]
    assert all(cost <= most for cost, most in zip(costs[100], COSTS[kind], strict=True)), costs


def cost_of_rounds(kind, url, count, round_trips):
    store = MAKERS[kind](url=url, server_time=False)
    with ManualScheduler(jobstores={"default": store}, lease=3600) as scheduler:
        scheduler.register("work", lambda: None)
        scheduler.sync(registry_of(count))
        assert round_trips.of(lambda: scheduler.sync(registry_of(count))) <= 2
        scheduler.run_due()  # and with it the housekeeping, which has its own times
        idle = round_trips.of(scheduler.run_due)
        cost = {"fire_due": 0, "settle": 0}
        for name in cost:
            watch(store, name, cost, round_trips)
        scheduler.clock.advance(timedelta(minutes=5))
        scheduler.run_due()
        assert {record.job_id for record in scheduler.runs(limit=1000)} >= ids(count)
    return idle, cost["fire_due"], cost["settle"]


def watch(store, name, cost, round_trips):
    """Count the round trips of one method of a store, for as long as it has something to do."""
    method = getattr(store, name)

    def watched(argument):
        before = round_trips.count
        answer = method(argument)
        if getattr(answer, "runs", None) or name == "settle":
            cost[name] += round_trips.count - before
        return answer

    setattr(store, name, watched)


def test_a_first_sync_of_a_hundred_schedules_takes_a_handful_of_statements(url_of, round_trips):
    store = SQLAlchemyJobStore(url=url_of("postgresql"))
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.register("work", lambda: None)
        plans = []
        assert round_trips.of(lambda: plans.append(scheduler.sync(registry_of(100)))) < 10
        assert len(plans[0].added) == 100
        assert scheduler.sync(registry_of(100)) == SyncPlan(unchanged=plans[0].added)
