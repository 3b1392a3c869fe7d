"""Faults of what keeps the jobs: servers that die, stand still, have no room or take no one, and a locked file."""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from contextlib import suppress
from typing import Any

from fault import Fault
from places import SERVERS
from scene import until


class ServerKill(Fault):
    """The server is killed, and started again with its files."""

    name = "server_kill"
    stores = SERVERS
    leases = (0.2, 0.8)

    def begin(self) -> None:
        assert self.scene.server is not None
        self.note("begin")
        self.scene.server.kill()

    def end(self) -> None:
        self.scene.start_server()
        self.note("end")


class LongOutage(ServerKill):
    """The server is away for longer than a lease, and comes back."""

    name = "server_away"
    leases = (1.3, 1.8)


class StartWithoutServer(ServerKill):
    """The server is killed; processes are killed and started while it is away, and must come up when it is back."""

    name = "start_without_server"
    leases = (0.5, 1.0)

    def begin(self) -> None:
        super().begin()
        self.nodes = self.luck.sample(self.scene.living(), 2)
        for node in self.nodes:
            self._record.write("kill", "begin", node)
            node.kill()
            self._record.write("kill", "end", node)
            node.start()


class ServerFreeze(Fault):
    """The server stands still; connections stay open and nothing is answered."""

    name = "server_freeze"
    stores = SERVERS
    leases = (0.4, 1.5)

    def begin(self) -> None:
        assert self.scene.server is not None
        self.note("begin")
        self.scene.server.freeze()

    def end(self) -> None:
        assert self.scene.server is not None
        self.scene.server.thaw()
        self.note("end")


class DiskFull(Fault):
    """The disk of the store has no room; a server that ends because of it is started again when there is."""

    name = "disk_full"
    leases = (1.0, 1.4)

    def possible(self) -> bool:
        return self.scene.disk is not None and self.scene.disk.mounted

    def begin(self) -> None:
        assert self.scene.disk is not None
        self.note("begin")
        self.scene.disk.fill()

    def end(self) -> None:
        assert self.scene.disk is not None
        self.scene.disk.free()
        ended = self.scene.server is not None and not self._serves()
        if ended:
            self._begin_anew()
        self.note("end", detail={"server_ended": ended})

    def _serves(self) -> bool:
        """Tell whether the server goes on; one that gives up takes its time to do so, or stays without serving."""
        server = self.scene.server
        assert server is not None
        if until(lambda: not server.running, self.scene.lease / 2):
            return False
        return until(self._answers, 3 * self.scene.lease)

    def _answers(self) -> bool:
        with suppress(Exception):  # whatever a driver raises, it is no answer
            assert self.scene.server is not None
            self.scene.server.ping()
            return True
        return False

    def _begin_anew(self) -> None:
        assert self.scene.server is not None
        if self.scene.server.running:
            self.scene.server.kill()
        self.scene.start_server()


class Connections(Fault):
    """Somebody else has all connections of the server, and ours are reset."""

    name = "connections"
    stores = ("postgresql", "mariadb", "redis", "mongodb")
    leases = (1.0, 1.4)

    def begin(self) -> None:
        assert self.scene.server is not None
        assert self.scene.proxy is not None
        self.note("begin")
        self.taken: list[Any] = []
        self._take_all()
        for name in self.scene.proxy.links:
            self.scene.proxy.reset(name)
        self._take_all()
        self.note("aimed", detail={"taken": len(self.taken)})

    def _take_all(self) -> None:
        deadline = time.monotonic() + self.scene.lease
        with suppress(Exception):  # the one that is refused
            while time.monotonic() < deadline:
                self.taken.append(_connect(self.scene.store, self.scene.url))

    def end(self) -> None:
        for connection in self.taken:
            connection.close()
        self.note("end")


class ForeignWriter(Fault):
    """Another program has the file of SQLite locked for writing."""

    name = "foreign_writer"
    stores = ("sqlite",)
    leases = (0.6, 1.5)

    def begin(self) -> None:
        self.note("begin")
        path = self.scene.url.removeprefix("sqlite:///")
        self._other = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._other.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        self._other.execute("ROLLBACK")
        self._other.close()
        self.note("end")


class Failover(Fault):
    """The server that leads is killed for good, and another one takes its place."""

    name = "failover"
    stores = ("postgresql", "redis", "mongodb", "etcd", "zookeeper")

    def possible(self) -> bool:
        return self.scene.topology is not None

    def begin(self) -> None:
        assert self.scene.topology is not None
        self.note("begin", detail={"keeps_confirmed": self.scene.topology.keeps_confirmed})
        self.scene.topology.fail_over()

    def end(self) -> None:
        assert self.scene.topology is not None
        self.note("end")
        self.scene.topology.rejoin()


def _connect(store: str, url: str) -> Any:
    """Return one more connection to the server."""
    if store == "postgresql":
        import psycopg

        return psycopg.connect(url.replace("+psycopg", ""), connect_timeout=2)
    if store == "mariadb":
        import pymysql
        from sqlalchemy.engine import make_url

        place = make_url(url)
        return pymysql.connect(
            host=place.host, port=place.port or 0, user=place.username, password=place.password or "", connect_timeout=2
        )
    found = re.search(r"127\.0\.0\.1:(\d+)", url)
    assert found is not None
    connection = socket.create_connection(("127.0.0.1", int(found[1])), timeout=0.05)
    with suppress(TimeoutError):  # who is refused is told so, or is closed
        connection.recv(100)
        raise ConnectionRefusedError
    return connection
