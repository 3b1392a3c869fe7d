"""Places with documents, one for each kind of store: the tests look at what is stored without asking the store."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from uuid import uuid4

import pymongo
import redis
import sqlalchemy as sa

from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.documents.model import in_utc, look_up
from goscheduler.documents.mongodb import MongoDocumentStore
from goscheduler.documents.redis import RedisDocumentStore
from goscheduler.documents.sqlalchemy import SQLAlchemyDocumentStore

UTC = timezone.utc
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class MemoryWorld:
    """Dicts."""

    bad = "tomorrow"

    def __init__(self, **options):
        self.options = options
        self.store = MemoryDocumentStore(**options)

    def peer(self):
        return self.store

    def add(self, id, sleep_until, **fields):
        self.store.add({"_id": id, "sleepUntil": sleep_until, **fields})

    def add_bad(self, id):
        self.add(id, self.bad)

    def sleep_until(self, id):
        return next(document["sleepUntil"] for document in self.store.documents if document["_id"] == id)

    def set_sleep_until(self, id, moment):
        next(document for document in self.store.documents if document["_id"] == id)["sleepUntil"] = moment

    def ids(self):
        return {document["_id"] for document in self.store.documents}

    def delete(self, id):
        self.store.documents[:] = [document for document in self.store.documents if document["_id"] != id]

    def name_of(self, document):
        return document.content["_id"]

    def close(self):
        pass


class MongoWorld:
    """A collection whose fields lie deep; what the driver gives back has a zone or not."""

    bad = "tomorrow"
    paths = {  # noqa: RUF012
        "sleep_until": "cron.at.sleepUntil", "interval": "cron.interval", "repeat_until": "cron.repeatUntil",
        "auto_remove": "cron.autoRemove",
    }  # fmt: skip

    def __init__(self, url, tz_aware=False, make_client=pymongo.MongoClient, **options):
        self.client = make_client(url, tz_aware=tz_aware)
        self.collection = self.client.get_default_database()[f"documents_{uuid4().hex}"]
        self.options = {**self.paths, **options}
        self.store = self.peer()
        self.store.create_index()

    def peer(self):
        return MongoDocumentStore(self.collection, **self.options)

    def add(self, id, sleep_until, interval=None, repeatUntil=None, autoRemove=None, **fields):
        cron = {"at": {"sleepUntil": sleep_until}, "interval": interval, "repeatUntil": repeatUntil}
        self.collection.insert_one({"_id": id, "cron": {**cron, "autoRemove": autoRemove}, **fields})

    def add_bad(self, id):
        self.add(id, self.bad)

    def sleep_until(self, id):
        value = look_up(self.collection.find_one({"_id": id}), "cron.at.sleepUntil")
        return in_utc(value) if isinstance(value, datetime) else value

    def set_sleep_until(self, id, moment):
        self.collection.update_one({"_id": id}, {"$set": {"cron.at.sleepUntil": moment}})

    def ids(self):
        return {document["_id"] for document in self.collection.find()}

    def delete(self, id):
        self.collection.delete_one({"_id": id})

    def name_of(self, document):
        return document.content["_id"]

    def close(self):
        self.collection.drop()
        self.client.close()


class SQLWorld:
    """A table with a key of two columns."""

    bad = "tomorrow"

    def __init__(self, url, type=None, **options):
        self.engine = sa.create_engine(url)
        self.type = type or sa.DateTime(timezone=True)
        self.table = sa.Table(
            f"jobs_{uuid4().hex[:12]}", sa.MetaData(),
            sa.Column("tenant", sa.String(20), primary_key=True), sa.Column("name", sa.String(20), primary_key=True),
            sa.Column("sleep_until", self.type, index=True), sa.Column("interval", sa.String(60)),
            sa.Column("repeat_until", self.type), sa.Column("auto_remove", sa.Boolean),
            sa.Column("note", sa.String(60)),
        )  # fmt: skip
        self.table.metadata.create_all(self.engine)
        self.options = options
        self.store = self.peer()

    def peer(self):
        store = SQLAlchemyDocumentStore(self.engine, self.table.name, **self.options)
        store.open()
        return store

    def add(self, id, sleep_until, interval=None, repeatUntil=None, autoRemove=None, **fields):
        row = {"tenant": "a", "name": id, "sleep_until": self._given(sleep_until), "interval": interval, **fields}
        row |= {"repeat_until": self._given(repeatUntil), "auto_remove": autoRemove}
        self._do(self.table.insert().values(row))

    def add_bad(self, id):
        self.add(id, None)
        text = sa.text(f"UPDATE {self.table.name} SET sleep_until = :bad WHERE name = :name")
        self._do(text.bindparams(bad=self.bad, name=id))

    def sleep_until(self, id):
        with self.engine.connect() as connection:
            query = sa.select(self.table.c.sleep_until).where(self.table.c.name == id)
            value = connection.execute(query).scalar_one()
        return None if value is None else in_utc(value)

    def set_sleep_until(self, id, moment):
        change = self.table.update().where(self.table.c.name == id)
        self._do(change.values(sleep_until=self._given(moment)))

    def ids(self):
        with self.engine.connect() as connection:
            return set(connection.execute(sa.select(self.table.c.name)).scalars())

    def delete(self, id):
        self._do(self.table.delete().where(self.table.c.name == id))

    def name_of(self, document):
        return document.content["name"]

    def close(self):
        self.table.drop(self.engine)
        self.engine.dispose()

    def _given(self, moment):
        aware = getattr(self.type, "timezone", False) and self.engine.dialect.name == "postgresql"
        return moment if aware or moment is None else moment.astimezone(UTC).replace(tzinfo=None)

    def _do(self, statement):
        with self.engine.begin() as connection:
            connection.execute(statement)


class RedisWorld:
    """Hashes, some added through the store and some behind its back."""

    bad = "tomorrow"

    def __init__(self, url, decode=False, **options):
        self.client = redis.Redis.from_url(url, decode_responses=decode)
        self.options = options
        self.store = self.peer()

    def peer(self):
        return RedisDocumentStore(self.client, "user[*]:", **self.options)

    def add(self, id, sleep_until, **fields):
        self.store.add(id, {"sleepUntil": sleep_until, **fields})

    def add_bad(self, id):
        self.client.hset(f"user[*]:{id}", "sleepUntil", self.bad)
        self.store.index(id)

    def sleep_until(self, id):
        value = self.client.hget(f"user[*]:{id}", "sleepUntil") or None
        return value and datetime.fromtimestamp(float(value), UTC)

    def set_sleep_until(self, id, moment):
        self.store.add(id, {"sleepUntil": moment})

    def ids(self):
        keys = [key if isinstance(key, str) else key.decode() for key in self.client.scan_iter(_type="HASH")]
        return {key.partition(":")[2] for key in keys}

    def delete(self, id):
        self.client.delete(f"user[*]:{id}")

    def name_of(self, document):
        return document.id

    def close(self):
        self.client.flushdb()
        self.client.close()


@contextmanager
def closing(world):
    try:
        yield world
    finally:
        world.close()
