"""Several processes on one collection, table or keyspace: each document once; after kills, each at least once.

A tenth of the documents in fewer processes is enough for every day; ``GOSCHEDULER_FULL=1`` runs all, on all stores.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pymongo
import pytest
import redis
import sqlalchemy as sa
from cluster import Cluster, Node
from document_node import PREFIX, TABLE, store_of

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.documents.mongodb import MongoDocumentStore

FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
PROCESSES = 8 if FULL else 3
DOCUMENTS = 10_000 if FULL else 600
KILLED_DOCUMENTS = 2000 if FULL else 250
KILLS = 24 if FULL else 4
KINDS = ["mongodb", "postgresql", "mariadb", "redis"]
NODE = Path(__file__).parent / "document_node.py"


class Crowd(Cluster):
    """Processes that handle the documents of one store."""

    def __init__(self, kind: str, url: str) -> None:
        super().__init__(url)
        self.kind = kind

    def start(self, *options: str) -> Node:
        return self.launch(NODE, self.kind, self.url, "--pipe", str(self._writing), *options)


def fill(kind, url, names):
    """Add due documents; one in ten of them is removed afterwards, the others stay."""
    now = datetime.now(timezone.utc) - timedelta(seconds=1)
    if kind == "mongodb":
        with pymongo.MongoClient(url) as client:
            collection = client.get_default_database()["crowd"]
            collection.insert_many([
                {"_id": name, "sleepUntil": now, "autoRemove": number % 10 == 0} for number, name in enumerate(names)
            ])  # fmt: skip
            MongoDocumentStore(collection).create_index()
    elif kind == "redis":
        with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
            for number, name in enumerate(names):
                fields = {"sleepUntil": now.timestamp(), "autoRemove": int(number % 10 == 0), "name": name}
                pipe.hset(f"{PREFIX}{name}", mapping=fields)
            pipe.execute()
        store = store_of(kind, url)
        assert store.rebuild() == len(names)
        store.close()
    else:
        table = sa.Table(
            TABLE, sa.MetaData(), sa.Column("name", sa.String(20), primary_key=True),
            sa.Column("sleep_until", sa.DateTime(timezone=True), index=True), sa.Column("auto_remove", sa.Boolean),
        )  # fmt: skip
        engine = sa.create_engine(url)
        table.metadata.create_all(engine)
        rows = [{"name": name, "sleep_until": now, "auto_remove": n % 10 == 0} for n, name in enumerate(names)]
        with engine.begin() as connection:
            connection.execute(table.insert(), rows)
        engine.dispose()


def left(kind, url):
    """Return how many documents there are, and how many of them still have a time."""
    if kind == "mongodb":
        with pymongo.MongoClient(url) as client:
            collection = client.get_default_database()["crowd"]
            return collection.count_documents({}), collection.count_documents({"sleepUntil": {"$ne": None}})
    if kind == "redis":
        with redis.Redis.from_url(url) as client:
            keys = list(client.scan_iter(f"{PREFIX}*", count=1000, _type="HASH"))
            return len(keys), sum(bool(client.hget(key, "sleepUntil")) for key in keys)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        counts = connection.execute(sa.text(f"SELECT count(*), count(sleep_until) FROM {TABLE}")).one()
    engine.dispose()
    return tuple(counts)


def until(done, seconds):
    """Look again and again until something is so."""
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    while not done():
        assert SYSTEM_CLOCK.monotonic() < deadline
        threading.Event().wait(0.1)


@pytest.fixture
def crowd(request, shared_server, fresh):
    crowd = Crowd(request.param, fresh(shared_server(request.param)).url)
    yield crowd
    crowd.close()


@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("crowd", KINDS if FULL else ["mongodb"], indirect=True)
def test_processes_handle_every_document_once(crowd):
    names = [f"job-{number}" for number in range(DOCUMENTS)]
    fill(crowd.kind, crowd.url, names)
    for _ in range(PROCESSES):
        crowd.start("--lock", "60")
    crowd.wait_until("ran", DOCUMENTS, 500)
    for node in crowd.nodes:
        node.stop()
    ran = crowd.said("ran")
    assert Counter(line[1] for line in ran) == Counter(names)
    assert not FULL or len({line[2] for line in ran}) > 1, "one process did everything; that proves little"
    assert crowd.said("error") == []
    assert left(crowd.kind, crowd.url) == (DOCUMENTS - DOCUMENTS // 10, 0)


@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("crowd", KINDS if FULL else ["postgresql"], indirect=True)
def test_when_processes_are_killed_every_document_is_handled_and_none_is_stuck(crowd):
    names = [f"job-{number}" for number in range(KILLED_DOCUMENTS)]
    fill(crowd.kind, crowd.url, names)
    options = ("--lock", "6", "--slow")  # a machine may be busy for two thirds of it
    for _ in range(PROCESSES):
        crowd.start(*options)
    crowd.wait_until("ready", PROCESSES)
    chance = random.Random(5)
    for number in range(1, KILLS + 1):
        crowd.wait_until("began", number * KILLED_DOCUMENTS // (KILLS + 2))
        victim = chance.choice([node for node in crowd.nodes if node.process.poll() is None])
        victim.kill()
        crowd.start(*options)
    crowd.wait_for(lambda lines: {line[1] for line in lines if line[0] == "ran"} == set(names), 200)
    until(lambda: left(crowd.kind, crowd.url)[1] == 0, 200)
    for node in crowd.nodes:
        if node.process.poll() is None:
            node.stop()
    began, ran = (Counter(line[1] for line in crowd.said(word)) for word in ("began", "ran"))
    assert set(ran) == set(names)
    again = sum(began.values()) - len(names)
    assert again <= 2 * KILLS, "each of the two that a killed process had in hand is begun once more, and no other"
    assert left(crowd.kind, crowd.url)[1] == 0
