"""Finds the backend for a place: a job store, a client of a driver, or a URL.

Drivers are recognised by the names of their classes, so that none is imported that is not used already.
"""

from __future__ import annotations

import atexit
import os
import threading
from importlib import import_module
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.locks.base import LockBackend
from goscheduler.plugins import create_plugin

_CLIENTS = {
    "redis.client.Redis": "redis",
    "redis.cluster.RedisCluster": "redis",
    "sqlalchemy.engine.base.Engine": "sql",
    "pymongo.mongo_client.MongoClient": "mongodb",
    "pymongo.database.Database": "mongodb",
    "pymongo.collection.Collection": "mongodb",
    "pymongo.synchronous.mongo_client.MongoClient": "mongodb",
    "pymongo.synchronous.database.Database": "mongodb",
    "pymongo.synchronous.collection.Collection": "mongodb",
    "mongomock.mongo_client.MongoClient": "memory",
    "mongomock.database.Database": "memory",
    "mongomock.collection.Collection": "memory",
    "etcd3gw.client.Etcd3Client": "etcd",
    "etcd3.client.Etcd3Client": "etcd",
    "kazoo.client.KazooClient": "zookeeper",
}

_guard = threading.Lock()
_by_url: dict[str, LockBackend] = {}
"""URL → its backend, which stays connected until the process ends."""
_of_the_parent: list[Any] = []


def backend_for(place: Any) -> LockBackend:
    """Return what keeps locks there.

    :raises TypeError: if it is nothing of which that is known
    """
    if isinstance(place, LockBackend):
        return place
    if isinstance(place, str):
        return _for_url(place)
    if isinstance(place, BaseJobStore) and place.lock_backend is not None:
        return _made_by(place.lock_backend, "of_store", place)
    for cls in type(place).__mro__:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if name in _CLIENTS:
            return _made_by(_CLIENTS[name], "of_client", place)
    raise TypeError(
        "A lock needs a job store, a client (redis.Redis, an Engine of SQLAlchemy, a MongoClient, Database or "
        f"Collection, an Etcd3Client, a KazooClient), a URL or a LockBackend, got {type(place).__name__}"
    )


def close_connections() -> None:
    """Close what was opened for URLs; it is opened again when it is needed."""
    with _guard:
        backends = list(_by_url.values())
        _by_url.clear()
    for backend in backends:
        backend.close()


def _for_url(url: str) -> LockBackend:
    with _guard:
        backend = _by_url.get(url)
        if backend is None:
            backend = _by_url[url] = _connect(url)
        return backend


def _connect(url: str) -> LockBackend:
    """Return a backend for a URL. Nothing is sent yet."""
    if "://" not in url:
        raise InvalidArgument("A lock needs a URL such as redis://localhost, got other text", field="place")
    store = create_plugin("jobstore", "locks", url)
    if store.lock_backend is not None:
        return _made_by(store.lock_backend, "of_url", store)
    raise InvalidArgument(f"The job store for {shown(url)} keeps no locks", field="place")


def _made_by(kind: str, how: str, place: Any) -> LockBackend:
    made: LockBackend = getattr(import_module(f"goscheduler.locks.{kind}"), how)(place)
    return made


def _after_fork() -> None:
    global _guard, _by_url
    _of_the_parent.append(_by_url)  # closing them would end the connections of the parent
    _guard, _by_url = threading.Lock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_connections)
