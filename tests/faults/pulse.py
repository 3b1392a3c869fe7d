"""A pulse: what a renewal of a lease has to go through, done by drivers alone, so that it tells how quick that can be.

A process whose pulse stands still for half a lease, because it, its link, its server or the machine is too slow, cannot
be blamed for a lease that was not renewed in time. Nothing of the package takes part.
"""

from __future__ import annotations

import logging
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

from jobs import LEDGER

#: A renewal is a transaction of some round trips.
ROUND_TRIPS = 4
DEADLINE = 10.0

_never = threading.Event()
_logger = logging.getLogger("pulse")


def feel(store: str, url: str, lease: float) -> None:
    """Ask the store again and again, and write down when no answer came for half a lease; does not return."""
    asking: Callable[[], Any] | None = None
    last = time.monotonic()
    while True:
        try:
            asking = asking or ASKING[store](url)
            for _ in range(ROUND_TRIPS):
                asking()
        except Exception as error:
            _logger.info("no answer: %r", error)
            asking = None
        else:
            now = time.monotonic()
            if now - last > lease / 2:
                LEDGER.write("stall", since=last, seconds=now - last, of="pulse")
            last = now
        _never.wait(lease / 4)


def _sqlite(url: str) -> Callable[[], Any]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=DEADLINE, isolation_level=None)

    def ask() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")

    return ask


def _postgresql(url: str) -> Callable[[], Any]:
    import psycopg

    connection = psycopg.connect(url.replace("+psycopg", ""), connect_timeout=5, autocommit=True)
    return lambda: connection.execute("SELECT txid_current()")


def _mariadb(url: str) -> Callable[[], Any]:
    import pymysql
    from sqlalchemy.engine import make_url

    place = make_url(url)
    connection = pymysql.connect(
        host=place.host, port=place.port or 0, user=place.username, password=place.password or "",
        connect_timeout=5, read_timeout=DEADLINE, autocommit=True,
    )  # fmt: skip
    return lambda: connection.query("SELECT 1")


def _redis(url: str) -> Callable[[], Any]:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(url, socket_timeout=DEADLINE, retry=Retry(NoBackoff(), 0)).ping


def _mongodb(url: str) -> Callable[[], Any]:
    import pymongo

    waiting = {"timeoutMS": DEADLINE * 1000, "serverSelectionTimeoutMS": 2000}
    client: pymongo.MongoClient[Any] = pymongo.MongoClient(url, **waiting)
    return lambda: client.admin.command("ping")


def _etcd(url: str) -> Callable[[], Any]:
    return lambda: _exchange(url, b"GET /health HTTP/1.0\r\n\r\n", b"true")


def _zookeeper(url: str) -> Callable[[], Any]:
    return lambda: _exchange(url, b"srvr", b"Mode")


def _exchange(url: str, question: bytes, wanted: bytes) -> None:
    """Ask in a connection of its own, which the server closes."""
    found = re.search(r"([\d.]+):(\d+)", url)
    assert found is not None
    with socket.create_connection((found[1], int(found[2])), timeout=DEADLINE) as connection:
        connection.sendall(question)
        answer = connection.makefile("rb").read()
    if wanted not in answer:
        raise ConnectionError(answer[:100])


ASKING: dict[str, Callable[[str], Callable[[], Any]]] = {
    "sqlite": _sqlite, "postgresql": _postgresql, "mariadb": _mariadb, "redis": _redis, "mongodb": _mongodb,
    "etcd": _etcd, "zookeeper": _zookeeper,
}  # fmt: skip
