"""Redis, MongoDB, etcd and ZooKeeper for tests."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server_process import ANSWER_WITHIN, GLIMPSE, HOST, Server, free_port

if TYPE_CHECKING:
    import pymongo


class Redis(Server):
    """A Redis server with its append-only file on. A fresh space is a database number."""

    kind = "redis"
    programs = ("redis-server",)
    drivers = ("redis",)

    _DATABASES = 5000

    @property
    def url(self) -> str:
        return self._url(0)

    def command(self) -> list[str]:
        return [
            self.program("redis-server"),
            *("--port", str(self.port), "--bind", HOST, "--dir", str(self.folder), "--save", ""),
            *("--databases", str(self._DATABASES), "--appendonly", "yes"),
            *("--appendfsync", "always" if self.durable else "everysec"),
            *self.options,
        ]

    def ping(self) -> None:
        import redis

        # Who asks for a password serves.
        with self._client(within=GLIMPSE) as client, suppress(redis.AuthenticationError):
            client.ping()

    def make_space(self, name: str) -> str:
        with self._client() as client:
            number = 1 + client.incr("goscheduler-tests:spaces") % (self._DATABASES - 1)
            client.hset("goscheduler-tests:numbers", name, number)
        return self._url(number)

    def drop_space(self, name: str) -> None:
        with self._client() as client:
            number = int(client.hget("goscheduler-tests:numbers", name))
        with self._client(number) as client:
            client.flushdb()

    def _url(self, number: int) -> str:
        return f"redis://{HOST}:{self.port}/{number}"

    @contextmanager
    def _client(self, number: int = 0, within: float = ANSWER_WITHIN) -> Iterator[Any]:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        once = Retry(NoBackoff(), 0)
        with redis.Redis(host=HOST, port=self.port, db=number, socket_timeout=within, retry=once) as client:
            yield client


class Sentinel(Redis):
    """One of the processes that watch over a master, ``main``, whose port is the only option, and over its replicas."""

    kind = "redis-sentinel"

    def prepare(self) -> None:
        (master_port,) = self.options
        settings = [
            f"sentinel monitor main {HOST} {master_port} 2",
            "sentinel down-after-milliseconds main 500",
            "sentinel failover-timeout main 5000",
        ]
        self._config.write_text("\n".join(settings))

    def command(self) -> list[str]:
        place = ("--port", str(self.port), "--bind", HOST, "--dir", str(self.folder))
        return [self.program("redis-server"), str(self._config), "--sentinel", *place]

    @property
    def _config(self) -> Path:
        return self.folder / "sentinel.conf"


class MongoDB(Server):
    """A replica set of one node. A fresh space is a database."""

    kind = "mongodb"
    programs = ("mongod",)
    drivers = ("pymongo",)

    _SET = "goscheduler"

    @classmethod
    def find_program(cls, name: str) -> str | None:
        """Return the program of the system, or else the one that a wheel carries."""
        carrier = find_spec("fiftyone") if super().find_program(name) is None else None
        carried = [Path(place, "db", "bin", name) for place in (carrier and carrier.submodule_search_locations) or ()]
        return next((str(path) for path in carried if path.exists()), super().find_program(name))

    @property
    def url(self) -> str:
        return self._url("")

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def command(self) -> list[str]:
        return [
            self.program("mongod"),
            *("--port", str(self.port), "--bind_ip", HOST, "--dbpath", str(self.folder / "data")),
            *("--replSet", self._SET, "--nounixsocket"),
            *(() if self.durable else ("--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25")),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            *self.options,
        ]

    def ping(self) -> None:
        with self._client(within=0.5) as client:
            client.admin.command("ping")

    def settle(self) -> None:
        """Make it the primary of its set."""
        from pymongo.errors import OperationFailure

        members = [{"_id": 0, "host": f"{HOST}:{self.port}"}]
        already_initialized = 23
        with self._client() as client:
            try:
                client.admin.command("replSetInitiate", {"_id": self._SET, "members": members})
            except OperationFailure as error:
                if error.code != already_initialized:
                    raise
            self.until(lambda: _require(client.admin.command("hello")["isWritablePrimary"], "not the primary yet"))

    def make_space(self, name: str) -> str:
        return self._url(name)

    def drop_space(self, name: str) -> None:
        with self._client() as client:
            client.drop_database(name)

    def _url(self, database: str) -> str:
        return f"mongodb://{HOST}:{self.port}/{database}?replicaSet={self._SET}"

    def _client(self, within: float = ANSWER_WITHIN) -> pymongo.MongoClient[dict[str, Any]]:
        import pymongo

        return pymongo.MongoClient(HOST, self.port, directConnection=True, serverSelectionTimeoutMS=int(within * 1000))


class Standalone(MongoDB):
    """A server of MongoDB that is no replica set."""

    def command(self) -> list[str]:
        given = super().command()
        for option in ("--replSet", "--oplogSize"):
            place = given.index(option)
            del given[place : place + 2]
        return given

    def settle(self) -> None:
        """Nothing: there is no set to be the primary of."""

    def _url(self, database: str) -> str:
        return super()._url(database).partition("?")[0]


class Etcd(Server):
    """An etcd cluster of one node. A fresh space is a prefix."""

    kind = "etcd"
    programs = ("etcd",)
    drivers = ("etcd3gw",)

    def __init__(self, folder: Path, *options: str, durable: bool = False) -> None:
        super().__init__(folder, *options, durable=durable)
        self._peer_port = free_port()

    @property
    def url(self) -> str:
        return f"etcd://{HOST}:{self.port}"

    def command(self) -> list[str]:
        clients, peers = (f"http://{HOST}:{port}" for port in (self.port, self._peer_port))
        return [
            self.program("etcd"),
            *("--name", "only", "--data-dir", str(self.folder / "data"), "--log-level", "warn"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"only={peers}"),
            *self.options,
        ]

    def ping(self) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            _require(json.load(connection.getresponse())["health"] == "true", "no leader yet")
        finally:
            connection.close()

    def make_space(self, name: str) -> str:
        return self.url

    def drop_space(self, name: str) -> None:
        import etcd3gw

        client = etcd3gw.client(host=HOST, port=self.port, timeout=ANSWER_WITHIN)
        client.delete_prefix(f"{name}/")
        client.delete_prefix(f"/{name}/")
        client.session.close()


class ZooKeeper(Server):
    """A ZooKeeper server. A fresh space is a path."""

    kind = "zookeeper"
    programs = ("java", "zookeeper.jar")
    drivers = ("kazoo",)

    _JARS = Path("/usr/share/java")

    @classmethod
    def find_program(cls, name: str) -> str | None:
        jar = cls._JARS / name
        return str(jar) if jar.exists() else super().find_program(name)

    @property
    def url(self) -> str:
        return f"zookeeper://{HOST}:{self.port}"

    def prepare(self) -> None:
        self._config.write_text("".join(f"{name}={value}\n" for name, value in self.settings().items()))

    def settings(self) -> dict[str, object]:
        """Return what its configuration file says."""
        return {
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "tickTime": 200,  # how exactly sessions end; its multiples would also limit the time of a session
            "minSessionTimeout": 400,
            "maxSessionTimeout": 60_000,
        }

    def command(self) -> list[str]:
        properties = {
            "zookeeper.forceSync": "yes" if self.durable else "no",
            "zookeeper.preAllocSize": 1024,
            "org.slf4j.simpleLogger.defaultLogLevel": "warn",
        }
        return [
            self.program("java"),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *self.options,
            *("-cp", f"{self.program('zookeeper.jar')}:{self._JARS / 'slf4j-simple.jar'}"),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self._config),
        ]

    def ping(self) -> None:
        self.mode()

    def mode(self) -> str:
        """Return whether it is ``standalone``, or the ``leader`` or a ``follower`` in an ensemble."""
        with socket.create_connection((HOST, self.port), timeout=2) as connection:
            connection.sendall(b"srvr")
            _, found, rest = connection.makefile("rb").read().partition(b"Mode: ")
        _require(found, "not serving yet")
        return rest.split()[0].decode()

    def make_space(self, name: str) -> str:
        return self.url

    def drop_space(self, name: str) -> None:
        from kazoo.client import KazooClient

        client = KazooClient(f"{HOST}:{self.port}", timeout=10)
        client.start(timeout=ANSWER_WITHIN)
        try:
            client.delete(f"/{name}", recursive=True)
        finally:
            client.stop()
            client.close()

    @property
    def _config(self) -> Path:
        return self.folder / "zoo.cfg"


def _require(fulfilled: object, why_not: str) -> None:
    if not fulfilled:
        raise RuntimeError(why_not)
