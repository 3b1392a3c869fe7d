"""What differs between the stores: how their URLs look behind a proxy, and where documents are kept beside the jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from goscheduler.documents.base import DocumentStore

SQL = ("sqlite", "postgresql", "mariadb")
SERVERS = ("postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper")
STORES = ("sqlite", *SERVERS)
#: Those that documents can be kept on.
WITH_DOCUMENTS = (*SQL, "redis", "mongodb")
TABLE = "workload_documents"
PREFIX = "workload-documents:"

_COLUMNS = {
    "sqlite": "id VARCHAR(64) PRIMARY KEY, sleep_until DATETIME, seconds FLOAT",
    "postgresql": "id VARCHAR(64) PRIMARY KEY, sleep_until TIMESTAMP WITH TIME ZONE, seconds DOUBLE PRECISION",
    "mariadb": "id VARCHAR(64) PRIMARY KEY, sleep_until DATETIME(6), seconds DOUBLE",
}


def at_port(url: str, port: int) -> str:
    """Return the URL of the same place, reached by way of another port."""
    changed = re.sub(r"(?<=127\.0\.0\.1:)\d+", str(port), url, count=1)
    # A driver that asks the set for its members would find the way past the proxy.
    return re.sub(r"replicaSet=\w+", "directConnection=true", changed)


class Documents:
    """The documents of the workload, on the server of a job store."""

    def __init__(self, kind: str, url: str) -> None:
        self._kind = kind
        self._url = url

    def make(self) -> None:
        """Make the table, where one is needed."""
        if self._kind in SQL:
            with self._connection() as connection:
                connection.exec_driver_sql(f"CREATE TABLE {TABLE} ({_COLUMNS[self._kind]})")

    def add(self, document: str, sleep_until: float, seconds: float) -> None:
        """Add one."""
        due = datetime.fromtimestamp(sleep_until, timezone.utc)
        if self._kind in SQL:
            from sqlalchemy import text

            moment = due if self._kind == "postgresql" else due.replace(tzinfo=None)
            insertion = text(f"INSERT INTO {TABLE} VALUES (:id, :due, :seconds)")
            with self._connection() as connection:
                connection.execute(insertion, {"id": document, "due": moment, "seconds": seconds})
        elif self._kind == "redis":
            store = self.store()
            try:
                store.add(document, {"id": document, "sleepUntil": due, "seconds": seconds})
            finally:
                store.close()
        else:
            with self._collection() as collection:
                collection.insert_one({"_id": document, "sleepUntil": due, "seconds": seconds})

    def store(self) -> Any:
        """Return what a scheduler of documents takes."""
        if self._kind in SQL:
            from goscheduler.documents.sqlalchemy import SQLAlchemyDocumentStore

            return SQLAlchemyDocumentStore(self._url, TABLE)
        if self._kind == "redis":
            from goscheduler.documents.redis import RedisDocumentStore

            return RedisDocumentStore(self._url, PREFIX)
        return self._mongodb_store()

    def read(self) -> list[dict[str, Any]]:
        """Return id and ``sleepUntil`` of all; None for one that is done."""
        return [{"id": str(found["id"]), "sleep_until": _text(found.get("sleep_until"))} for found in self._rows()]

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        if self._kind in SQL:
            with self._connection() as connection:
                rows = connection.exec_driver_sql(f"SELECT id, sleep_until FROM {TABLE}")
                yield from [dict(row._mapping) for row in rows]
        elif self._kind == "redis":
            import redis

            with redis.Redis.from_url(self._url, decode_responses=True) as client:
                for key in client.scan_iter(f"{PREFIX}*", count=1000):
                    if client.type(key) == "hash" and "seconds" in (fields := client.hgetall(key)):
                        yield {"id": fields["id"], "sleep_until": fields.get("sleepUntil") or None}
        else:
            with self._collection() as collection:
                yield from [{"id": one["_id"], "sleep_until": one.get("sleepUntil")} for one in collection.find()]

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        waiting: dict[str, dict[str, Any]] = {
            "sqlite": {"timeout": 5}, "postgresql": {"connect_timeout": 5, "options": "-c statement_timeout=5000"},
            "mariadb": {"connect_timeout": 5, "read_timeout": 5, "write_timeout": 5},
        }  # fmt: skip
        engine = create_engine(self._url, poolclass=NullPool, connect_args=waiting[self._kind])
        with engine.begin() as connection:
            yield connection

    @contextmanager
    def _collection(self) -> Iterator[Any]:
        import pymongo

        with pymongo.MongoClient(
            self._url, tz_aware=True, timeoutMS=5000, serverSelectionTimeoutMS=3000, retryWrites=False
        ) as client:
            yield client.get_default_database()[TABLE]

    def _mongodb_store(self) -> DocumentStore:
        import pymongo

        from goscheduler.documents.mongodb import MongoDocumentStore

        client: pymongo.MongoClient[Any] = pymongo.MongoClient(self._url, tz_aware=True)
        return MongoDocumentStore(client.get_default_database()[TABLE])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
