"""Locks in ZooKeeper: one node a name, replaced only in the version that was read, timed by the clock of the server.

The node ``/goscheduler/locks/<name>`` has token, fence and length (in milliseconds, 0 for a released lock) as JSON;
its time begins when the server last changed the node. Writing to ``/goscheduler/clock`` returns the server's time. A
node outlives the holder because of its fence, see :mod:`goscheduler.locks.base`. A node that was removed and created
again counts its versions from the beginning. So every removal also writes to ``/goscheduler/locks``, and a process
replaces a node only in the version of that node, too: it never takes a new node for the one that it has read.

The node is not ephemeral, and there is no queue of nodes as in the usual recipe: an ephemeral node ends with the
session of its client, whose length has nothing to do with that of the lock. It may end long before the lock, while the
holder goes on, and it does not end while the client lives, however long ago the lock should have ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from math import ceil
from typing import Any, NamedTuple

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import NodeExistsError, NoNodeError  # type: ignore[import-untyped]

from goscheduler._chance import CHANCE
from goscheduler._drivers.urls import DEFAULT_PATH, check_path
from goscheduler._drivers.zookeeper import Connection, answer, commit
from goscheduler.clock import Deadline
from goscheduler.errors import StoreUnavailable
from goscheduler.locks.base import (
    LONGEST_CALL,
    HeldLock,
    LockBackend,
    holder_of,
    key_listed_as,
    key_of,
    key_prefix,
    name_of,
    new_token,
)
from goscheduler.times import UTC, from_micros

#: How many nodes one sweep looks at.
NODES_PER_SWEEP = 50
#: How many nodes are read together where locks are listed.
NODES_AT_ONCE = 200
#: How often an operation is tried again because another process changed the node first.
MAX_ATTEMPTS = 20
#: How many seconds the first connection gets at least: it takes longer than a call.
MIN_CONNECT_SECONDS = 2.0
#: How many seconds a call gets even when the calls before it have used up the deadline.
MIN_CALL_SECONDS = 0.05


class _Node(NamedTuple):
    token: str
    fence: int
    length: int
    changed: int
    """When the server changed it, in milliseconds like all times here."""
    version: int | None
    """None if there is no node."""
    folder: int | None
    """The version of the folder before the node was read."""
    now: int
    """The time of the server."""

    @property
    def left(self) -> int:
        """How much is left of its time."""
        return self.changed + self.length - self.now if self.length else 0


class ZooKeeperLocks(LockBackend):
    """Keeps locks in nodes below ``path``. ``client`` is started if it is not, or it is a function that makes one."""

    def __init__(
        self, client: KazooClient | Callable[[], KazooClient] | Connection, path: str = DEFAULT_PATH, *,
        owns_connection: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(client, Connection):
            self._connection, self._owns_connection = client, owns_connection
        elif isinstance(client, KazooClient):
            self._connection, self._owns_connection = Connection(client), False
        else:
            self._connection, self._owns_connection = Connection(None, client), True
        self.root = check_path(path)
        """The node below which everything is."""

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        operation = _Operation(self, key_of(name), Deadline(self.clock, within))
        for _ in range(MAX_ATTEMPTS):
            node = operation.read()
            if node.token == token and node.length:
                fence = node.fence
            elif node.left > 0:
                return None
            else:
                fence = max(node.fence + 1, node.now * 1000)
            if operation.write(node, token, fence, ttl):
                return fence
        return None

    def release(self, name: str, token: str, within: float) -> bool:
        operation = _Operation(self, key_of(name), Deadline(self.clock, within))
        for _ in range(MAX_ATTEMPTS):
            node = operation.read()
            if node.token != token or (node.length and node.left <= 0):
                return False
            if not node.length or operation.write(node, token, node.fence, 0):
                return True
        return False

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        operation = _Operation(self, key_of(name), Deadline(self.clock, within))
        for _ in range(MAX_ATTEMPTS):
            node = operation.read()
            if node.token != token or node.left <= 0:
                return False
            if operation.write(node, token, node.fence, ttl):
                return True
        return False

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        operation = _Operation(self, "", Deadline(self.clock, within))
        first = key_prefix(prefix)
        known = operation.keys()
        keys = sorted(key for key in known if key.startswith(first))
        found: list[HeldLock] = []
        for start in range(0, len(keys), NODES_AT_ONCE):
            found += operation.held(keys[start : start + NODES_AT_ONCE])
            if len(found) >= limit:
                break
        return found[:limit]

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        operation = _Operation(self, key_listed_as(name), Deadline(self.clock, within))
        for _ in range(MAX_ATTEMPTS):
            node = operation.read()
            if node.fence != fence or node.left <= 0:
                return False
            if operation.write(node, new_token(), fence, 0):
                return True
        return False

    def sweep(self, within: float) -> None:
        deadline = Deadline(self.clock, within)
        keys = _Operation(self, "", deadline).keys()
        for key in CHANCE.sample(keys, min(len(keys), NODES_PER_SWEEP)):
            operation = _Operation(self, key, deadline)
            node = operation.read()
            ended = node.now - self.kept * 1000
            if node.changed + node.length < ended and node.fence < ended * 1000:
                operation.remove(node)

    @property
    def server(self) -> Hashable:
        return id(self._connection.given or self._connection)

    def connected(self, within: float) -> Any:
        """Return the connected client."""
        return self._connection.connected(max(within, MIN_CONNECT_SECONDS))

    def close(self) -> None:
        if self._owns_connection:
            self._connection.close()


class _Operation:
    """The calls about one lock that share one deadline."""

    def __init__(self, locks: ZooKeeperLocks, key: str, deadline: Deadline) -> None:
        self._locks = locks
        self._deadline = deadline
        self._folder = f"{locks.root}/locks"
        self._path = f"{self._folder}/{key}"
        self._clock = f"{locks.root}/clock"

    def keys(self) -> list[str]:
        """Return the keys of all locks."""
        try:
            found: list[str] = self._answer(self._connected().get_children_async(self._folder))
        except NoNodeError:
            return []
        return found

    def read(self) -> _Node:
        """Return the node and the time of the server, read with calls that are sent together."""
        client = self._connected()
        holder, asked = client.exists_async(self._folder), client.get_async(self._path)
        written = client.set_async(self._clock, b"")
        folder = self._answer(holder)
        try:
            value, status = self._answer(asked)
        except NoNodeError:
            return _Node("", 0, 0, 0, None, None, self._time(written))
        token, fence, length = json.loads(value)
        seen = None if folder is None else folder.version
        return _Node(token, fence, length, status.mtime, status.version, seen, self._time(written))

    def held(self, keys: list[str]) -> list[HeldLock]:
        """Return the locks that somebody has, of several, read with calls that are sent together."""
        client = self._connected()
        written = client.set_async(self._clock, b"")
        asked = [(key, client.get_async(f"{self._folder}/{key}")) for key in keys]
        now, found = self._time(written), []
        for key, promise in asked:
            try:
                value, status = self._answer(promise)
            except NoNodeError:
                continue
            token, fence, length = json.loads(value)
            if status.mtime + length > now and length:
                until = from_micros((status.mtime + length) * 1000, UTC)
                found.append(HeldLock(name_of(key), fence, until, holder_of(token)))
        return found

    def _time(self, written: Any) -> int:
        try:
            return int(self._answer(written).mtime)
        except NoNodeError:
            client = self._connected()
            self._answer(client.ensure_path_async(self._clock))
            return int(self._answer(client.set_async(self._clock, b"")).mtime)

    def write(self, node: _Node, token: str, fence: int, ttl: float) -> bool:
        """Replace the node; false if it has changed since it was read."""
        value = json.dumps([token, fence, ceil(ttl * 1000)]).encode()
        if node.version is None:
            return self._create(value)
        if node.folder is None:  # both were created between the two reads
            return False
        transaction = self._connected().transaction()
        transaction.check(self._folder, node.folder)
        transaction.set_data(self._path, value, node.version)
        return commit(transaction, self._deadline.left(MIN_CALL_SECONDS)) is None

    def _create(self, value: bytes) -> bool:
        try:
            self._answer(self._connected().create_async(self._path, value, makepath=True))
        except (NodeExistsError, NoNodeError):
            return False
        return True

    def remove(self, node: _Node) -> None:
        """Remove the node, unless it has changed since it was read."""
        if node.version is None or node.folder is None:
            return
        transaction = self._connected().transaction()
        transaction.set_data(self._folder, b"", node.folder)
        transaction.delete(self._path, node.version)
        commit(transaction, self._deadline.left(MIN_CALL_SECONDS))

    def _connected(self) -> Any:
        return self._locks.connected(self._deadline.left(MIN_CALL_SECONDS) or MIN_CALL_SECONDS)

    def _answer(self, promise: Any) -> Any:
        return answer(promise, self._deadline.left(MIN_CALL_SECONDS))


def of_store(store: Any) -> LockBackend:
    """Return the locks under the path of a job store, which has to be started: it connects when it is."""
    connection = store._server.connection
    if connection.client is None:
        raise StoreUnavailable("The job store is not started, and so has no connection to ZooKeeper; give its URL")
    return ZooKeeperLocks(connection, store._path)


def of_url(store: Any) -> LockBackend:
    """Return the locks under the path of a job store that was made for nothing else, and whose connection they own."""
    return ZooKeeperLocks(store._server.connection, store._path, owns_connection=True)


def of_client(client: KazooClient) -> LockBackend:
    """Return the locks under the usual path."""
    return ZooKeeperLocks(client)
