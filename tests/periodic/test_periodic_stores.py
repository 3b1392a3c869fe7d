"""Schedules in stores that processes share: nothing is lost on the way, and a hundred cost no more than one."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest
from sqlalchemy.engine import make_url

from goscheduler import BackgroundScheduler, Retry
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.periodic import Schedule, ScheduleRegistry, SyncPlan, diff_schedules, list_schedules
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
        assert diff_schedules(scheduler, registry_of(**rich)).is_empty
        assert list_schedules(scheduler, registry_of(**rich))[0].state == state
        assert [each.id for each in list_schedules(scheduler, registry_of(1, **rich))] == ["s0", "s1", "s2"]
        other = registry_of(1, **{**rich, "description": "b"})
        (change,) = diff_schedules(scheduler, other, prune=False).changed
        assert [(each.field, each.before, each.after) for each in change.fields] == [("description", "ä\n", "b")]
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
    """Stands between a store and its server, and counts how often the store has to wait for an answer.

    That is what is said after the other side has spoken; a message may come in pieces.
    """

    def __init__(self):
        self.count = 0
        self._entrance = socket.create_server(("127.0.0.1", 0))
        self._server = None
        self._links = []
        threading.Thread(target=self._accept, daemon=True).start()

    def through(self, url):
        """Return a URL that leads to the same server by way of us."""
        there = make_url(url)
        self._server = there.host, there.port
        return there.set(port=self._entrance.getsockname()[1]).render_as_string(hide_password=False)

    def of(self, action):
        before = self.count
        action()
        return self.count - before

    def close(self):
        for each in (self._entrance, *self._links):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._entrance.accept()
                server = socket.create_connection(self._server)
                self._links += [client, server]
                spoken = threading.Event()  # whether the server was the last to speak
                spoken.set()
                for source, sink, turn in ((client, server, self._count_turn), (server, client, threading.Event.set)):
                    threading.Thread(target=_pass_on, args=[source, sink, partial(turn, spoken)], daemon=True).start()

    def _count_turn(self, spoken):
        if spoken.is_set():
            spoken.clear()
            self.count += 1


def _pass_on(source, sink, turn):
    with suppress(OSError):
        while said := source.recv(65536):
            turn()
            sink.sendall(said)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def between():
    """Return a function that returns a new counter; what an earlier store still has to say goes by another one."""
    counters = []
    yield lambda: counters.append(RoundTrips()) or counters[-1]
    for counter in counters:
        counter.close()


#: Round trips of a round in which nothing is due; of the firing of a batch; of noting how its runs have ended.
COSTS = {"redis": (1, 2, 1), "postgresql": (1, 8, 1)}
MAKERS = {"redis": RedisJobStore, "postgresql": SQLAlchemyJobStore}


@pytest.mark.parametrize("kind", COSTS)
def test_a_round_costs_the_same_for_a_hundred_schedules_as_for_one(kind, url_of, between):
    costs = {count: cost_of_rounds(kind, url_of(kind), count, between()) for count in (1, 100)}
    assert costs == {1: COSTS[kind], 100: COSTS[kind]}


def cost_of_rounds(kind, url, count, round_trips):
    store = MAKERS[kind](url=round_trips.through(url), server_time=False)
    with ManualScheduler(jobstores={"default": store}, lease=3600) as scheduler:
        scheduler.register("work", lambda: None)
        scheduler.sync(registry_of(count))
        assert round_trips.of(lambda: scheduler.sync(registry_of(count))) <= 5  # a page of the jobs by their tag
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


@pytest.mark.parametrize("kind", COSTS)
def test_four_instances_spend_a_few_round_trips_each_on_a_batch_and_every_firing_happens_once(kind, url_of, between):
    url = url_of(kind)
    with ExitStack() as stack:
        schedulers, calls = [], []
        for counter in [between() for _ in range(4)]:
            store = MAKERS[kind](url=counter.through(url), server_time=False)
            schedulers.append(stack.enter_context(ManualScheduler(jobstores={"default": store}, lease=3600)))
            schedulers[-1].register("work", lambda: None)
            calls.append(list_calls(store, counter))
        schedulers[0].sync(registry_of(100))
        for scheduler in schedulers:
            scheduler.run_due()
        for each in calls:
            each.clear()
        at_once(lambda scheduler: (scheduler.clock.advance(timedelta(minutes=5)), scheduler.run_due()), schedulers)
        ran = Counter((record.job_id, record.scheduled_at) for record in schedulers[0].runs(limit=1000))
    first = [each[0] for each in calls]
    assert sum(runs for runs, _ in first) == 100
    assert max(cost for _, cost in first) <= COSTS[kind][1]
    assert set(ran.values()) == {1}
    assert len(ran) == 200


def list_calls(store, counter):
    """Return a list that gets, of every call that fires, the number of runs and of round trips."""
    fire_due, calls = store.fire_due, []

    def listed(request):
        before = counter.count
        fired = fire_due(request)
        calls.append((len(fired.runs), counter.count - before))
        return fired

    store.fire_due = listed
    return calls


def at_once(action, many):
    threads = [threading.Thread(target=action, args=[each]) for each in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_first_sync_of_a_hundred_schedules_takes_a_handful_of_round_trips(url_of, between):
    round_trips = between()
    store = SQLAlchemyJobStore(url=round_trips.through(url_of("postgresql")))
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.register("work", lambda: None)
        plans = []
        assert round_trips.of(lambda: plans.append(scheduler.sync(registry_of(100)))) < 10
        assert len(plans[0].added) == 100
        assert scheduler.sync(registry_of(100)) == SyncPlan(unchanged=plans[0].added)
