"""What locks can be kept in, what is refused, and what is never shown."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta

import etcd3gw
import mongomock
import pymongo
import pytest
import redis
import sqlalchemy
from kazoo.client import KazooClient
from lock_places import SHARED, keys_at

from goscheduler.clock import Deadline
from goscheduler.errors import GoSchedulerError, InvalidArgument, LockLost, StoreUnavailable
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.locks import acquire, break_lock, held_locks, lock, zookeeper
from goscheduler.locks._find import backend_for, close_connections
from goscheduler.locks.base import LONGEST_TOKEN, holder_of, new_token
from goscheduler.locks.etcd import EtcdLocks
from goscheduler.locks.memory import MemoryLocks
from goscheduler.locks.sql import SQLLocks
from goscheduler.locks.zookeeper import ZooKeeperLocks
from goscheduler.plugins import create_plugin
from goscheduler.testing import ManualScheduler


@pytest.mark.parametrize("place", SHARED, indirect=True)
def test_a_store_and_a_client_on_the_same_place_have_the_same_locks(place):
    held = acquire(place.where, "report", 30)
    client, close = client_of(place)
    store = create_plugin("jobstore", "default", place.where)
    scheduler = ManualScheduler(jobstores={"default": store})
    scheduler.start()
    try:
        assert acquire(store, "report", 30) is None
        assert acquire(client, "report", 30) is None
        assert held.release()
        assert acquire(store, "report", 30).release()
        with lock(client, "report", 30) as other:
            assert acquire(place.where, "report", 30) is None
        assert other.fence > held.fence
    finally:
        scheduler.shutdown()
        close()


def client_of(place):
    """Return a client that somebody may have, or the backend for it where the place is not the usual one."""
    url = place.where
    if place.kind == "redis":
        client = redis.Redis.from_url(url, decode_responses=True)
        return client, client.close
    if place.kind == "mongodb":
        client = pymongo.MongoClient(url)
        return client.get_default_database(), client.close
    server, _, path = url.partition("://")[2].partition("/")
    host, _, port = server.partition(":")
    if place.kind == "etcd":
        client = etcd3gw.client(host=host, port=int(port))
        return EtcdLocks(client, path), client.session.close
    if place.kind == "zookeeper":
        client = KazooClient(server)
        return ZooKeeperLocks(client, path), lambda: (client.stop(), client.close())
    url = url.replace("postgresql:", "postgresql+psycopg:").replace("mariadb:", "mariadb+pymysql:")
    engine = sqlalchemy.create_engine(url)
    return engine, engine.dispose


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: redis.Redis(), "RedisLocks"),
        (lambda: RedisJobStore(), "RedisLocks"),
        (lambda: sqlalchemy.create_engine("sqlite://"), "SQLLocks"),
        (lambda: SQLAlchemyJobStore("sqlite://"), "SQLLocks"),
        (lambda: pymongo.MongoClient(connect=False), "MongoDBLocks"),
        (lambda: pymongo.MongoClient(connect=False)["db"], "MongoDBLocks"),
        (lambda: pymongo.MongoClient(connect=False)["db"]["locks"], "MongoDBLocks"),
        (lambda: MongoDBJobStore(), "MongoDBLocks"),
        (lambda: etcd3gw.client(), "EtcdLocks"),
        (lambda: EtcdJobStore(), "EtcdLocks"),
        (lambda: KazooClient(), "ZooKeeperLocks"),
        (lambda: ZooKeeperJobStore(client=KazooClient()), "ZooKeeperLocks"),
        (lambda: MemoryJobStore(), "MemoryLocks"),
        (lambda: MemoryLocks(), "MemoryLocks"),
    ],
)
def test_everything_that_can_keep_locks_is_recognised(make, kind):
    assert type(backend_for(make())).__name__ == kind


@pytest.mark.parametrize("place", [None, 5, b"redis://localhost", object(), redis.Redis, pymongo, ["redis://localhost"]])
def test_nothing_else_can_keep_locks(place):
    with pytest.raises(TypeError, match="A lock needs a job store"):
        acquire(place, "a")


def test_a_memory_store_has_locks_of_its_own():
    one, other = MemoryJobStore(), MemoryJobStore()
    assert acquire(one, "a").held
    assert acquire(one, "a") is None
    assert acquire(other, "a").held


def test_a_client_of_mongomock_its_databases_and_collections_have_the_same_locks():
    client = mongomock.MongoClient()
    held = acquire(client, "a")
    assert [acquire(place, "a") for place in (client, client["db"], client["db"]["locks"])] == [None, None, None]
    assert acquire(mongomock.MongoClient(), "a").held
    assert held.release()
    assert acquire(client["db"], "a").fence > held.fence


def test_a_zookeeper_store_that_was_not_started_says_what_to_do():
    with pytest.raises(StoreUnavailable, match="not started"):
        acquire(ZooKeeperJobStore(), "a")


@pytest.mark.parametrize("kind", SHARED)
def test_there_is_nothing_to_sweep_where_no_lock_has_ever_been(kind, url_of):
    backend = backend_for(url_of(kind))
    backend.sweep(5)
    close_connections()


def test_a_node_that_was_swept_and_made_again_is_not_taken_for_the_one_that_was_read(place_of, monkeypatch):
    place = place_of("zookeeper")
    backend = backend_for(place.where)
    assert acquire(backend, "a", 30).release()
    late = zookeeper._Operation(backend, "a", Deadline(backend.clock, 60))
    seen = late.read()
    monkeypatch.setattr(backend, "kept", 0.0)
    while "a" in keys_at(place):
        backend.sweep(5)
    held = acquire(backend, "a", 30)
    assert held.extend()  # so that the new node has the version of the old one
    assert late.read().version == seen.version
    assert late.write(seen, "another", held.fence + 1, 30) is False
    assert held.extend()


def test_two_prefixes_on_one_server_have_different_locks(redis_server, fresh):
    url = fresh(redis_server).url
    stores = [RedisJobStore(url=url, prefix=prefix) for prefix in ("one", "two")]
    assert all(acquire(store, "a").held for store in stores)
    assert [acquire(store, "a") for store in stores] == [None, None]
    for store in stores:
        store.redis.close()


def test_a_store_with_tables_of_another_name_has_its_locks_beside_them(tmp_path):
    store = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db", tablename="shop")
    assert acquire(store, "a").held
    engine = store._database.engine
    assert sqlalchemy.inspect(engine).get_table_names() == ["shop_locks"]
    engine.dispose()


def test_the_engine_of_somebody_else_is_not_changed(tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/theirs.db")
    with lock(engine, "a"), engine.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    engine.dispose()


def test_the_name_of_a_table_is_checked():
    engine = sqlalchemy.create_engine("sqlite://")
    for name in ("", "a b", "a;b", 'a"b', "x" * 60, None):
        with pytest.raises(InvalidArgument):
            SQLLocks(engine, name)


def test_a_database_in_memory_has_locks_for_all_threads_of_its_engine():
    store = SQLAlchemyJobStore("sqlite://")
    with lock(store, "a"):
        found = []
        thread = threading.Thread(target=lambda: found.append(acquire(store, "a")))
        thread.start()
        thread.join(60)
        assert found == [None]
    store._database.engine.dispose()


def test_a_client_of_redis_may_decode_and_try_again_as_it_likes(redis_server):
    client = redis.Redis(port=redis_server.port, decode_responses=True, socket_timeout=None)
    with lock(client, "of a client"):
        assert acquire(client, "of a client") is None
    client.delete("{goscheduler}:locks:of%20a%20client")
    backend_for(client).close()
    client.close()


@pytest.mark.serial
def test_a_server_that_asks_who_we_are_is_told_so(private_server, place_of):
    server = private_server("etcd")
    client = etcd3gw.client(host="127.0.0.1", port=server.port)
    for path, payload in [
        ("auth/user/add", {"name": "root", "password": "right"}),
        ("auth/role/add", {"name": "root"}),
        ("auth/user/grant", {"user": "root", "role": "root"}),
        ("auth/enable", {}),
    ]:
        client.post(client.get_url(path), json=payload)
    client.session.close()
    with lock(f"etcd://root:right@127.0.0.1:{server.port}", "a") as held:
        assert held.held
    with pytest.raises(GoSchedulerError, match="does not accept this user and password") as caught:
        acquire(f"etcd://root:secret-word@127.0.0.1:{server.port}", "a")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_name_that_is_too_short_or_too_long_is_refused(name):
    with pytest.raises(InvalidArgument, match="name must have 1 to 255 characters") as caught:
        acquire(MemoryLocks(), name)
    assert caught.value.field == "name"


@pytest.mark.parametrize("name", [None, 5, b"report", ["a"], {"$ne": None}])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(TypeError, match="name of a lock must be a string"):
        acquire(MemoryLocks(), name)


@pytest.mark.parametrize("ttl", [0, -1, 0.01, float("nan"), float("inf"), 1e18, timedelta(0), timedelta(days=400), "?"])
def test_a_time_that_makes_no_sense_is_refused(ttl):
    server = MemoryLocks()
    with pytest.raises(InvalidArgument):
        acquire(server, "a", ttl)
    held = acquire(server, "a", 10)
    with pytest.raises(InvalidArgument):
        held.extend(ttl)
    assert held.held


@pytest.mark.parametrize("ttl", [None, True, [5], b"5"])
def test_a_time_of_another_type_is_refused(ttl):
    with pytest.raises(TypeError):
        acquire(MemoryLocks(), "a", ttl)


@pytest.mark.parametrize("ttl", [timedelta(minutes=1), "1m", 60, 60.0])
def test_a_time_can_be_given_in_every_usual_manner(ttl):
    assert acquire(MemoryLocks(), "a", ttl, wait=ttl).ttl == 60


@pytest.mark.parametrize("wait", [-1, float("nan"), "-1s", timedelta(-1)])
def test_a_wait_that_makes_no_sense_is_refused(wait):
    with pytest.raises(InvalidArgument):
        acquire(MemoryLocks(), "a", wait=wait)


NOWHERE = [
    "redis://ada:secret-word@127.0.0.1:1/0",
    "postgresql://ada:secret-word@127.0.0.1:1/x",
    "mariadb://ada:secret-word@127.0.0.1:1/x",
    "mongodb://ada:secret-word@127.0.0.1:1/x?serverSelectionTimeoutMS=100",
    "etcd://ada:secret-word@127.0.0.1:1",
    "zookeeper://ada:secret-word@127.0.0.1:1",
]


@pytest.mark.parametrize("url", NOWHERE, ids=lambda url: url.partition(":")[0])
def test_a_server_that_is_not_there_is_an_error_that_tells_no_password(url, place_of, caplog):
    with pytest.raises(StoreUnavailable) as caught:
        acquire(url, "a", 1.5)
    assert "secret-word" not in f"{caught.value!r} {caught.value} {caught.value.__cause__} {caplog.text}"


@pytest.mark.parametrize("url", ["nonsense", "nonsense://ada:secret-word@x", "ada:secret-word@host"])
def test_a_url_that_leads_nowhere_is_refused_without_its_password(url):
    with pytest.raises(InvalidArgument) as caught:
        acquire(url, "a")
    assert "secret-word" not in str(caught.value)


def test_a_lock_shows_its_name_and_fence_and_not_its_token():
    held = acquire(MemoryLocks(), "a\nb", 10)
    assert repr(held) == f"<Lock 'a\\nb', fence {held.fence}, held>"
    held.release()
    assert repr(held).endswith("not held>")
    assert len(held.token) >= 32
    assert held.token not in repr(held)
    assert str(LockLost("a\nb", 5)) == "The lock 'a\\nb' with the fence 5 is not held any more"


def test_a_table_that_may_not_be_made_is_an_error_that_says_so(tmp_path):
    file = tmp_path / "readonly.db"
    sqlalchemy.create_engine(f"sqlite:///{file}").connect().close()
    engine = sqlalchemy.create_engine(f"sqlite:///file:{file}?mode=ro&uri=true")
    with pytest.raises(GoSchedulerError, match=r"readonly|unable to open"):
        acquire(engine, "a")
    engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_list_makes_no_table_and_needs_none(url_of, kind):
    engine = sqlalchemy.create_engine(url_of(kind))
    assert held_locks(engine) == []
    assert break_lock(engine, "report", 1) is False
    assert not sqlalchemy.inspect(engine).has_table("goscheduler_locks")
    engine.dispose()


def test_a_client_of_redis_that_gives_text_lists_locks_too(url_of):
    client = redis.Redis.from_url(url_of("redis"), decode_responses=True)
    held = acquire(client, "report", 30)
    assert [(each.name, each.fence) for each in held_locks(client)] == [("report", held.fence)]
    client.close()


def test_redis_forgets_which_locks_were_held_when_the_last_of_them_is_over(url_of):
    client = redis.Redis.from_url(url_of("redis"))
    assert acquire(client, "long", 7200)
    acquire(client, "short", 1)
    assert 7_000_000 < client.pttl("{goscheduler}:locks") <= 7_201_000
    witness = acquire(client, "witness", 1)
    assert acquire(client, "witness", 30, wait=60).fence > witness.fence
    assert client.zrange("{goscheduler}:locks", 0, -1) == [b"witness", b"long"]
    client.close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"prefix": None}, TypeError), ({"prefix": "x" * 256}, InvalidArgument), ({"limit": 0}, InvalidArgument),
        ({"limit": True}, InvalidArgument), ({"limit": 10_001}, InvalidArgument),
    ],
)  # fmt: skip
def test_a_list_that_makes_no_sense_is_refused(arguments, error):
    with pytest.raises(error):
        held_locks(MemoryLocks(), **arguments)


@pytest.mark.parametrize("fence", [None, True, "1", -1, 1 << 63])
def test_a_fence_that_is_none_is_refused(fence):
    with pytest.raises(InvalidArgument, match="fence"):
        break_lock(MemoryLocks(), "report", fence)


def test_a_token_tells_who_asked_for_it_and_fits_whatever_the_machine_is_called(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "ä" + "x" * 300)
    token = new_token()
    assert len(token) == LONGEST_TOKEN
    assert token.isascii()
    assert holder_of(token).startswith("?xxx")
    assert holder_of(token).endswith(f":{os.getpid()}")
    assert holder_of("0123456789abcdef0123456789abcdef") == "", "one of an older version"
