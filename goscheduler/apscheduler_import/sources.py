"""The stores of APScheduler 3, each read by one function that yields the pickles of its jobs.

=============  ==========================================================================================
SQL            table ``apscheduler_jobs``: ``id``, ``next_run_time``, ``job_state`` (a pickle)
Redis          hash ``apscheduler.jobs``: id → pickle; the times beside it are in the pickles too
MongoDB        database ``apscheduler``, collection ``jobs``: ``_id``, ``next_run_time``, ``job_state``
ZooKeeper      children of ``/apscheduler``: pickles of ``{"next_run_time": …, "job_state": …}``
etcd           keys below ``/apscheduler/``: the same
=============  ==========================================================================================

Every name can be another one. Only reading commands are sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from goscheduler._urls import without_secrets
from goscheduler.apscheduler_import.passwords import SourceError, passwords_hidden
from goscheduler.errors import InvalidArgument, described, shown
from goscheduler.plugins import require_clear_login

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
BATCH = 1000


class StoredJob(NamedTuple):
    """A job as it lies in a store; ``pickled`` is empty where the store has no bytes for it."""

    id: str
    pickled: bytes


class Kind(NamedTuple):
    """One kind of store: its name, the extra that brings its driver, where its jobs are, and how they are read."""

    name: str
    extra: str
    places: Mapping[str, str | None]
    read: Callable[..., Iterator[StoredJob]]


def read_source(url: str, places: Mapping[str, str | None]) -> list[StoredJob]:
    """Return the jobs in the store of APScheduler 3 at ``url``.

    ``places`` says where they are, for whatever is not there where APScheduler puts it by default.

    :raises InvalidArgument: if ``url`` is none, or ``places`` do not fit this kind of store
    :raises SourceError: if it cannot be read
    """
    with passwords_hidden(url):
        kind = kind_of(url)
        require_clear_login(url, first_at=kind.read is _read_sql)
        names = {**kind.places, **_fitting(places, kind)}
        try:
            return list(kind.read(url, **names))
        except ImportError as error:
            raise SourceError(
                f"{kind.name} cannot be read, because a driver is not installed ({error}); install it with: "
                f'pip install "goscheduler[{kind.extra}]"'
            ) from error
        except (InvalidArgument, SourceError):
            raise
        except Exception as error:  # each driver has errors of its own
            text = without_secrets(described(error), url)
            raise SourceError(f"{kind.name} cannot be read: {text}") from error


def kind_of(url: str) -> Kind:
    """Return the kind of store that a URL leads to."""
    scheme, colon, _ = url.partition("://")
    if not colon or not scheme:
        raise InvalidArgument("the source must be a URL such as postgresql://user@host/database", field="url")
    base = scheme.lower().partition("+")[0]
    if base == "rethinkdb":
        raise InvalidArgument("RethinkDB is not supported; export the jobs with APScheduler instead", field="url")
    return _KINDS.get(base, _SQL)


def _fitting(places: Mapping[str, str | None], kind: Kind) -> dict[str, str]:
    given = {name: value for name, value in places.items() if value is not None}
    for name, value in given.items():
        if name not in kind.places:
            known = ", ".join(f"--{known}" for known in kind.places)
            raise InvalidArgument(f"--{name} is not for {kind.name}, which takes {known}", field=name, value=value)
        if not value:
            raise InvalidArgument(f"--{name} must not be empty", field=name, value=value)
    return given


def _read_sql(url: str, table: str, schema: str | None) -> Iterator[StoredJob]:
    from sqlalchemy import Column, LargeBinary, MetaData, Table, Unicode, create_engine, select
    from sqlalchemy.pool import NullPool

    address = _reading_url(url)
    engine = create_engine(address, poolclass=NullPool, connect_args=_deadlines(address.get_driver_name()))
    jobs = Table(table, MetaData(), Column("id", Unicode), Column("job_state", LargeBinary), schema=schema)
    with engine.connect().execution_options(yield_per=BATCH) as connection:
        for job_id, state in connection.execute(select(jobs.c.id, jobs.c.job_state).order_by(jobs.c.id)):
            yield StoredJob(str(job_id), _bytes(state))


#: The drivers that we install, for URLs that leave the choice to SQLAlchemy.
_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}


def _reading_url(url: str) -> URL:
    """Return the URL with a driver, and such that no file is made or changed by looking."""
    from sqlalchemy.engine import make_url

    address = make_url(url)
    address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
    if address.get_backend_name() != "sqlite":
        return address
    path = address.database or ""
    if path in ("", ":memory:"):
        raise InvalidArgument("a SQLite database in memory belongs to one process; give one in a file", field="url")
    if path.startswith("file:"):
        return address
    if not os.path.isfile(path):
        raise SourceError(f"there is no SQLite file {shown(path)}")
    return address.set(database=f"file:{quote(os.path.abspath(path))}").update_query_dict({"mode": "ro", "uri": "true"})


def _deadlines(driver: str) -> dict[str, Any]:
    if driver in ("psycopg", "psycopg2"):
        return {"connect_timeout": CONNECT_SECONDS}
    if driver == "pymysql":
        return {"connect_timeout": CONNECT_SECONDS, "read_timeout": ANSWER_SECONDS}
    return {}


def _read_redis(url: str, key: str) -> Iterator[StoredJob]:
    from redis import Redis

    client = Redis.from_url(url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS)
    with client:
        found = dict(client.hscan_iter(key, count=BATCH))  # a scan may show a field twice
    for job_id, state in sorted(found.items()):
        yield StoredJob(_text(job_id), _bytes(state))


def _read_mongodb(url: str, database: str, collection: str) -> Iterator[StoredJob]:
    from pymongo import MongoClient

    client: MongoClient[dict[str, Any]] = MongoClient(
        url, serverSelectionTimeoutMS=CONNECT_SECONDS * 1000, socketTimeoutMS=ANSWER_SECONDS * 1000
    )
    with client:
        for document in client[database][collection].find({}, {"job_state": 1}).sort("_id"):
            yield StoredJob(str(document["_id"]), _bytes(document.get("job_state")))


def _read_zookeeper(url: str, path: str) -> Iterator[StoredJob]:
    from kazoo.client import KazooClient  # type: ignore[import-untyped]
    from kazoo.exceptions import NoNodeError  # type: ignore[import-untyped]

    hosts = url.partition("://")[2]
    client = KazooClient(hosts, timeout=CONNECT_SECONDS, read_only=True)
    try:
        client.start(timeout=CONNECT_SECONDS)
        for name in sorted(client.get_children(path)):
            yield StoredJob(name, client.get(f"{path.rstrip('/')}/{name}")[0])
    except NoNodeError as error:
        raise SourceError(f"ZooKeeper has no node {shown(path)}, or one below it was removed just now") from error
    finally:
        client.stop()
        client.close()


def _read_etcd(url: str, path: str) -> Iterator[StoredJob]:
    import etcd3gw

    address = urlsplit(url)
    if address.username:
        raise InvalidArgument("etcd cannot be read with a user and a password", field="url")
    client = etcd3gw.client(host=address.hostname or "localhost", port=address.port or 2379, timeout=ANSWER_SECONDS)
    prefix = f"{path.rstrip('/')}/"
    try:
        found = [(_text(meta["key"]), value) for value, meta in client.get_prefix(prefix)]
    finally:
        client.session.close()
    for key, value in sorted(found):
        yield StoredJob(key.removeprefix(prefix), value)


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else b""


_SQL = Kind("the SQL database", "sqlalchemy", {"table": "apscheduler_jobs", "schema": None}, _read_sql)
_REDIS = Kind("Redis", "redis", {"key": "apscheduler.jobs"}, _read_redis)
_MONGODB = Kind("MongoDB", "mongodb", {"database": "apscheduler", "collection": "jobs"}, _read_mongodb)
_ZOOKEEPER = Kind("ZooKeeper", "zookeeper", {"path": "/apscheduler"}, _read_zookeeper)
_ETCD = Kind("etcd", "etcd", {"path": "/apscheduler"}, _read_etcd)
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("redis", "rediss", "unix"), _REDIS),
    "mongodb": _MONGODB,
    "zookeeper": _ZOOKEEPER,
    "etcd": _ETCD,
    "postgres": _SQL._replace(extra="postgresql"),
    "postgresql": _SQL._replace(extra="postgresql"),
    "mysql": _SQL._replace(extra="mysql"),
    "mariadb": _SQL._replace(extra="mysql"),
}
