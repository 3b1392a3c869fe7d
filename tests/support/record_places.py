"""Records of jobs as somebody sees them who does not go through the store."""

from __future__ import annotations

import json

from sqlalchemy import text as sql

from goscheduler.jobstores._keyvalue.rows import JobRow, escape
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.redis.rows import JobState
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore

STORES = {
    "sqlite": SQLAlchemyJobStore, "postgresql": SQLAlchemyJobStore, "mariadb": SQLAlchemyJobStore,
    "redis": RedisJobStore, "mongodb": MongoDBJobStore, "etcd": EtcdJobStore, "zookeeper": ZooKeeperJobStore,
}  # fmt: skip


class Place:
    """Where the definitions of jobs stand, for somebody who does not go through the store."""

    def __init__(self, kind, store):
        self._kind = kind
        self._store = store

    def overwrite(self, name, definition):
        store = self._store
        if self._kind == "redis":
            store.redis.hset(store._scripts.key("jobs"), name, definition)
        elif self._kind == "mongodb":
            store._collections.jobs.update_one({"_id": name}, {"$set": {"definition": definition}})
        elif self._kind in ("etcd", "zookeeper"):
            self._put(name, self._with_head(name, definition))
        else:
            with store._database.engine.begin() as connection:
                change = "UPDATE goscheduler_jobs SET definition = :definition WHERE id = :id"
                connection.execute(sql(change), {"definition": definition, "id": name})

    def reprioritize(self, name, priority):
        """Change what stands beside the definition."""
        store = self._store
        if self._kind == "redis":
            heads = store._scripts.key("heads")
            head = json.loads(store.redis.hget(heads, name))
            lane = JobState._fields.index("lane")
            executor, _, task = json.loads(head[lane])
            head[lane] = json.dumps([executor, priority, task], separators=(",", ":"))
            store.redis.hset(heads, name, json.dumps(head, separators=(",", ":")))
        elif self._kind == "mongodb":
            places = dict.fromkeys(("lane.priority", "due.priority"), priority)
            store._collections.jobs.update_one({"_id": name}, {"$set": places})
        elif self._kind in ("etcd", "zookeeper"):
            head, _, definition = self._found(name).partition("\n")
            row = json.loads(head)
            row[JobRow._fields.index("priority")] = priority
            self._put(name, f"{json.dumps(row)}\n{definition}")
        else:
            with store._database.engine.begin() as connection:
                change = "UPDATE goscheduler_jobs SET priority = :priority WHERE id = :id"
                connection.execute(sql(change), {"priority": priority, "id": name})

    def read(self, name):
        store = self._store
        if self._kind == "redis":
            return store.redis.hget(store._scripts.key("jobs"), name).decode()
        if self._kind == "mongodb":
            return store._collections.jobs.find_one({"_id": name})["definition"]
        if self._kind in ("etcd", "zookeeper"):
            return self._found(name).partition("\n")[2]
        with store._database.engine.connect() as connection:
            query = "SELECT definition FROM goscheduler_jobs WHERE id = :id"
            return connection.execute(sql(query), {"id": name}).scalar()

    def _put(self, name, text):
        server, key = self._store._server, ("jobs", escape(name))
        if self._kind == "etcd":
            server.put(key, text)
        else:
            server._client.set(server.path(key), text.encode())

    def _with_head(self, name, definition):
        return self._found(name).partition("\n")[0] + "\n" + definition

    def _found(self, name):
        return self._store._server.read([("jobs", escape(name))])[0].value
