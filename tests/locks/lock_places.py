"""Places where locks can be, and processes that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy
import warm

from goscheduler.locks._find import backend_for

KINDS = ["memory", "sqlite", "postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"]
SHARED = KINDS[1:]
NODE = Path(__file__).with_name("lock_node.py")


#: The length of a lock that is renewed: a machine may be busy for two thirds of it.
RENEWED = 3.0


class Place(NamedTuple):
    kind: str
    #: What ``acquire`` takes.
    where: Any

    @property
    def short(self) -> float:
        """A time that is over soon, but long enough for a lock to be granted in time by a busy machine."""
        return 1.0


class Holder:
    """Another process that has a lock, and does what it is told."""

    def __init__(self, url: str, name: str, ttl: float, *options: str) -> None:
        command = [NODE, "hold", url, name, str(ttl), *options]
        self.process = warm.start(*command, stdin=warm.PIPE, stdout=warm.PIPE, text=True)
        self.fence = int(self._read())

    def ask(self, question: str) -> str:
        """Let it do one thing, and return what came of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return self._read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def keys_at(place: Place) -> set[str]:
    """Return the keys of all locks that the server still knows."""
    backend: Any = backend_for(place.where)
    match place.kind:
        case "memory":
            return set(backend._rows)
        case "redis":
            return {key.decode().rpartition("locks:")[2] for key in backend._client.keys(f"{backend._keys}*")}
        case "mongodb":
            return {document["_id"] for document in backend._collection.find()}
        case "etcd":
            found = backend.wire.client.get_prefix(backend._prefix)
            return {about["key"].decode().removeprefix(backend._prefix) for _, about in found}
        case "zookeeper":
            return set(backend.connected(5).get_children(f"{backend.root}/locks"))
    with backend._engine.connect() as connection:
        return set(connection.execute(sqlalchemy.select(backend._table.c.name)).scalars())
