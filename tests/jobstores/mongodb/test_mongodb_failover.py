"""MongoDB as a set of three: another server becomes the primary while jobs fire."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import timedelta

import pymongo
import pytest
from key_servers import MongoDB
from pymongo.errors import AutoReconnect, PyMongoError
from server_process import HOST

from goscheduler import BackgroundScheduler
from goscheduler._drivers import mongodb as drivers
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.testing.contract import NOW, JobMaker, Requests
from goscheduler.testing.scheduler import ManualScheduler

pytestmark = pytest.mark.serial
MAX_AWAIT_MS = 60
SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}


class Member(MongoDB):
    """One of several servers of a set."""

    def settle(self):
        """Nothing: it is told about the others when all of them are there."""

    def command(self):
        return [*super().command(), "--setParameter", "enableTestCommands=1"]

    @contextmanager
    def client(self):
        with self._client() as client:
            yield client


class ReplicaSet:
    def __init__(self, members):
        self.members = members
        permits = ",".join(f"{HOST}:{member.port}" for member in members)
        self.url = f"mongodb://{permits}/{{}}?replicaSet={MongoDB._SET}"
        wanted = [{"_id": number, "host": f"{HOST}:{member.port}"} for number, member in enumerate(members)]
        with members[0].client() as client:
            configuration = {"_id": MongoDB._SET, "members": wanted, "settings": SETTINGS}
            client.admin.command("replSetInitiate", configuration)
        self.primary()

    def primary(self):
        """Return the member that is the primary, when there is one."""
        with pymongo.MongoClient(self.url.format(""), serverSelectionTimeoutMS=MAX_AWAIT_MS * 1000) as client:
            client.admin.command("ping")
            _, port = client.primary
        return next(member for member in self.members if member.port == port)

    def step_down(self):
        """Let the primary give up its place, without waiting for the others to catch up."""
        with self.primary().client() as client, suppress(AutoReconnect):
            client.admin.command("replSetStepDown", 5, force=True)

    @contextmanager
    def paused(self):
        """Let the primary be the only one that has what is written."""
        primary = self.primary()
        others = [member for member in self.members if member is not primary]
        for mode in ("alwaysOn", "off"):
            for member in others:
                with member.client() as client:
                    client.admin.command("configureFailPoint", "stopReplProducer", mode=mode)
            if mode == "alwaysOn":
                yield


@pytest.fixture(scope="module")
def replica_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    members = [Member(folder / f"member-{number}") for number in range(3)]
    try:
        for member in members:
            member.start()
        yield ReplicaSet(members)
    finally:
        for member in members:
            member.close()


def test_while_primaries_step_down_every_job_runs_once_and_nothing_is_left(replica_set):
    count, steps = 400, 2
    ran, done = Counter(), threading.Event()
    url = replica_set.url.format("stepping")
    schedulers = [BackgroundScheduler(jobstores={"default": url}, timezone="UTC") for _ in range(2)]

    def work(number):
        ran[number] += 1
        if len(ran) == count:
            done.set()

    executed = threading.Semaphore(0)
    for scheduler in schedulers:
        scheduler.register("work", work)
        scheduler.add_listener(lambda event: executed.release(), EVENT_JOB_EXECUTED)
        scheduler.start()
    first = SYSTEM_CLOCK.now()
    schedulers[0].add_jobs(
        {"func": "work", "args": [number], "trigger": "date", "run_date": first + timedelta(seconds=number / 100)}
        for number in range(count)
    )
    for _ in range(steps):
        for _ in range(count // 8):
            assert executed.acquire(timeout=MAX_AWAIT_MS)
        replica_set.step_down()
    assert done.wait(MAX_AWAIT_MS), f"{count - len(ran)} jobs did not run"
    for scheduler in schedulers:
        scheduler.shutdown()
    assert set(ran.values()) == {1}
    store = MongoDBJobStore.from_url(url)
    store.start(ManualScheduler(), "default")
    assert store.live_runs() == store.pending_runs() == store.get_all_jobs() == []
    store.shutdown()


def test_a_firing_that_the_majority_did_not_have_in_time_is_found_when_it_does(replica_set, monkeypatch):
    scheduler = ManualScheduler()
    store = MongoDBJobStore.from_url(replica_set.url.format("paused"), server_time=False)
    store.start(scheduler, "default")
    store.add_job(JobMaker(scheduler)("a", due=NOW))
    with monkeypatch.context() as patch, replica_set.paused():
        patch.setattr(drivers, "CALL_SECONDS", 0.5)
        assert isinstance(store.fire_due(Requests()._request(NOW)).error, PyMongoError)
        with pytest.raises(PyMongoError):
            store.live_runs()
    assert [run.job.id for run in store.live_runs()] == ["a"], "not known to be there is not the same as not there"
    store.shutdown()
