"""Whatever somebody else writes into a store: it runs nothing, it is kept, and it holds nobody up."""

from __future__ import annotations

import base64
import json
import pickle

import pytest
from sqlalchemy import text as sql

from goscheduler.jobstores._kv_rows import word
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.serializers import JSONSerializer, PickleSerializer
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.testing.contract import NOW, nothing

STORES = {
    "sqlite": SQLAlchemyJobStore, "postgresql": SQLAlchemyJobStore, "mariadb": SQLAlchemyJobStore,
    "redis": RedisJobStore, "mongodb": MongoDBJobStore, "etcd": EtcdJobStore, "zookeeper": ZooKeeperJobStore,
}  # fmt: skip
SECRET = "a secret of more than thirty-two characters"
DEFINITION = {
    "schema": 1, "func": "goscheduler.testing.contract:nothing", "name": "n", "args": [], "kwargs": {},
    "trigger": {"@type": "object", "name": "interval", "value": {}}, "options": {},
}  # fmt: skip

exploded: list[str] = []


class Explosive:
    def __reduce__(self):
        return exploded.append, ("it was unpickled",)


PICKLE = base64.b64encode(pickle.dumps(Explosive())).decode("ascii")
NESTING = "nesting, as much as the server takes"

#: What stands in the place of a job's definition, and the serializer of the store that reads it.
HOSTILE = {
    "a pickle": (PICKLE, None),
    "a pickle that nobody signed": (PICKLE, PickleSerializer(secret=SECRET)),
    "a class that is not registered": (
        json.dumps({**DEFINITION, "trigger": {"@type": "object", "name": "os.system", "value": "true"}}), None,
    ),
    "JSON that nobody signed": (json.dumps(DEFINITION), JSONSerializer(secret=SECRET)),
    NESTING: ("[" * 10_000_000, None),
}  # fmt: skip


@pytest.fixture(params=list(STORES))
def kind(request):
    return request.param


@pytest.fixture
def open_scheduler(kind, tmp_path, shared_server, fresh):
    """Return a started scheduler on an empty store; it has the job "bad", whose definition can be overwritten."""
    opened = []
    url = f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else _url(kind, fresh(shared_server(kind)))

    def open_it(serializer=None, **options):
        store = STORES[kind].from_url(url, server_time=False, serializer=serializer)
        scheduler = ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, **options)
        opened.append(scheduler)
        scheduler.register("fine", nothing)
        scheduler.start()
        for name in ("bad", "good"):
            scheduler.add_job("fine", "interval", minutes=1, id=name)
        return scheduler, Place(kind, store)

    yield open_it
    for scheduler in opened:
        scheduler.shutdown()


def _url(kind, space):
    return f"{space.url}/{space.name}" if kind in ("etcd", "zookeeper") else space.url


class Place:
    """Where the definition of the job "bad" stands, for somebody who does not go through the store."""

    def __init__(self, kind, store):
        self._kind = kind
        self._store = store

    def overwrite(self, definition):
        store = self._store
        if self._kind == "redis":
            store.redis.hset(store._link.key("jobs"), "bad", definition)
        elif self._kind == "mongodb":
            store._collections.jobs.update_one({"_id": "bad"}, {"$set": {"definition": definition}})
        elif self._kind == "etcd":
            store._server.put(("jobs", word("bad")), self._with_head(definition))
        elif self._kind == "zookeeper":
            client, path = store._server._connected, store._server.path(("jobs", word("bad")))
            client.set(path, self._with_head(definition).encode())
        else:
            with store._database.engine.begin() as connection:
                change = "UPDATE goscheduler_jobs SET definition = :definition WHERE id = 'bad'"
                connection.execute(sql(change), {"definition": definition})

    def read(self):
        store = self._store
        if self._kind == "redis":
            return store.redis.hget(store._link.key("jobs"), "bad").decode()
        if self._kind == "mongodb":
            return store._collections.jobs.find_one({"_id": "bad"})["definition"]
        if self._kind in ("etcd", "zookeeper"):
            return self._found().partition("\n")[2]
        with store._database.engine.connect() as connection:
            return connection.execute(sql("SELECT definition FROM goscheduler_jobs WHERE id = 'bad'")).scalar()

    def _with_head(self, definition):
        return self._found().partition("\n")[0] + "\n" + definition

    def _found(self):
        return self._store._server.read([("jobs", word("bad"))])[0].value


@pytest.mark.parametrize("what", list(HOSTILE))
def test_a_hostile_record_runs_nothing_is_kept_and_suspended_and_the_others_go_on(open_scheduler, kind, what):
    definition, serializer = HOSTILE[what]
    if what == NESTING and kind in ("etcd", "zookeeper"):
        definition = definition[:900_000]
    scheduler, place = open_scheduler(serializer)
    place.overwrite(definition)
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    assert "cannot be read" in scheduler.get_job("bad").suspended
    assert place.read() == definition
    assert exploded == []
    scheduler.remove_job("bad")
    assert [job.id for job in scheduler.get_jobs()] == ["good"]


def test_a_function_that_is_not_registered_is_not_called_where_only_registered_ones_may(open_scheduler, tmp_path):
    scheduler, place = open_scheduler(registered_only=True)
    mark = tmp_path / "it was called"
    place.overwrite(json.dumps({**json.loads(place.read()), "func": "os:system", "args": [f"touch '{mark}'"]}))
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    assert "registered" in scheduler.get_job("bad").suspended
    assert not mark.exists()
