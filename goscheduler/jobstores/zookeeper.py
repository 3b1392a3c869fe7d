"""A job store in ZooKeeper 3.5 or later, through kazoo.

``_keyvalue.zookeeper_paths`` says which node holds which key. Nodes that only hold others are made when they are
needed; those for times other than the present are deleted when they are empty.

Every call has a deadline and is made once. An owner is lost when the server has not seen it renew its lease for the
length of the lease, by the server's own clock. Ephemeral nodes would not do: they vanish with a session, which may end
long before the lease, while the process and its runs go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NodeExistsError, NoNodeError  # type: ignore[import-untyped]
from kazoo.protocol.states import Callback  # type: ignore[import-untyped]
from kazoo.security import make_digest_acl  # type: ignore[import-untyped]

from goscheduler._chance import CHANCE
from goscheduler._drivers.urls import DEFAULT_PATH, check_path, read_url
from goscheduler._drivers.zookeeper import Connection, NotifyWatch, answer, answers, commit, new_client
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores._keyvalue.server import NOTIFY_KEY, Found, Heartbeat, Key, Mirror, Span, Transaction
from goscheduler.jobstores._keyvalue.store import KeyValueJobStore
from goscheduler.jobstores._keyvalue.zookeeper_mirror import ZooKeeperMirror
from goscheduler.jobstores._keyvalue.zookeeper_paths import (
    BY_DIGEST,
    BY_FIRST_WORD,
    BY_TIME,
    NodePaths,
    is_of_now,
    may_hold,
)
from goscheduler.references import maybe_ref

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["ZooKeeperJobStore"]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 7.0
EXAMPLE = "zookeeper://localhost:2181/goscheduler"

#: How many nodes are listed along with a folder because the last walk led to them.
MAX_PREFETCHED_NODES = 4
#: How often a transaction is tried again because another process deleted a node that should hold others.
MAX_COMMIT_ATTEMPTS = 8
_CLOCK: Key = ("clock",)


class ZooKeeperJobStore(KeyValueJobStore):
    """Keeps jobs, runs and history in ZooKeeper, in nodes below ``path``.

    Give ``url``, or a ``client`` of kazoo, which is started if it is not, and closed at the end only with
    ``close_connection_on_exit``, or arguments for such a client (``hosts``, ``auth_data`` …). ``serializer`` says how
    arguments are written. Leases end by the clock of the server, unless ``server_time`` is false; what is due is judged
    by the clock of the scheduler, because ZooKeeper has none to ask.
    """

    lock_backend = "zookeeper"

    def __init__(
        self,
        path: str = DEFAULT_PATH,
        client: Any = None,
        close_connection_on_exit: bool = False,
        pickle_protocol: int | None = None,
        *,
        url: str | None = None,
        serializer: Serializer | None = None,
        server_time: bool = True,
        **connect_args: Any,
    ) -> None:
        if client is not None and (url is not None or connect_args):
            raise InvalidArgument("Give a client, or a url, or arguments to connect with; not several", field="client")
        if url is not None:
            place = read_url(url, ("zookeeper", "zk"), EXAMPLE)
            path = place.path or path
            connect_args = {"hosts": place.hosts or "localhost:2181", **connect_args}
            if place.user:
                connect_args.setdefault("auth_data", [("digest", f"{place.user}:{place.password}")])
                connect_args.setdefault("default_acl", [make_digest_acl(place.user, place.password, all=True)])
        self._path = check_path(path)
        server = _ZooKeeper(maybe_ref(client), self._path, close_connection_on_exit, connect_args)
        super().__init__(server, _ServerClock(server), serializer, server_time)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> ZooKeeperJobStore:
        """Return the store that a URL names: ``zookeeper://user:password@host:port,host:port/path``."""
        return cls(url=url, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (path={self._path})>"


class _ZooKeeper:
    """ZooKeeper as the store needs it."""

    max_changes = 400
    max_bytes = 600_000

    def __init__(self, client: Any, root: str, close_given: bool, connect_args: dict[str, Any]) -> None:
        self.connection = Connection(client, partial(new_client, **connect_args), close_given)
        self._paths = NodePaths(root)
        self.path = self._paths.path
        self._is_closed = False
        self._holders: set[str] = set()
        """Nodes that hold others and that exist, as far as we know."""
        self._walks: dict[str, Sequence[str]] = {}
        """Folder of entries by time → the nodes below it that the last walk listed first."""
        self._watches: list[NotifyWatch] = []

    def open(self) -> None:
        self._is_closed = False
        self._holders, self._walks = set(), {}
        try:
            self._answer(self._client.ensure_path_async(self._paths.root))
            for key in (NOTIFY_KEY, _CLOCK):
                self.ensure(key)
        except GoSchedulerError:
            if self.connection.given is None:
                self.connection.close()
            raise

    def close(self) -> None:
        self._is_closed = True
        for watch in self._watches:
            watch.end()
        self._watches = []
        self.connection.close()

    def abandon(self) -> None:
        self._watches = []
        self.connection.abandon()

    @property
    def _client(self) -> Any:
        """The connected client."""
        if self._is_closed:
            raise StoreUnavailable("the job store is shut down")
        return self.connection.connected(CONNECT_SECONDS)

    def _answer(self, promise: Any) -> Any:
        return answer(promise, ANSWER_SECONDS)

    # Reading

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        return [None if got is None else _found(*got) for got in self.get([self.path(key) for key in keys])]

    def get(self, paths: Sequence[str]) -> list[Any]:
        """Return (value, status) of nodes, or None where there is none."""
        client = self._client
        return answers([client.get_async(path) for path in paths], ANSWER_SECONDS)

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        # Most walks lead where the last one led: all nodes on the way are listed at once, not one after another.
        folders = [self._paths.folder(span.folder) for span in spans]
        paths = dict.fromkeys([*folders, *(path for folder in folders for path in self._walks.get(folder, ()))])
        listed = dict(zip(paths, self._children(list(paths)), strict=True))
        walks: dict[str, dict[str, None]] = {}
        names = [
            self._by_time(span, folder, listed, walks.setdefault(folder, {}))
            if span.folder[0] in BY_TIME
            else self._by_name(span, folder, sorted(listed[folder]))
            for span, folder in zip(spans, folders, strict=True)
        ]
        self._walks.update({folder: list(walk)[:MAX_PREFETCHED_NODES] for folder, walk in walks.items()})
        return names

    def _by_name(self, span: Span, folder: str, top: list[str]) -> list[str]:
        """Return the names of a span, whose folder holds ``top``."""
        kind = span.folder[0]
        if kind in BY_DIGEST or kind in BY_FIRST_WORD:
            if kind in BY_FIRST_WORD and span.first.endswith("."):
                top = [name for name in top if name == span.first[:-1]]
            held = self._children([f"{folder}/{name}" for name in top])
            for name in [name for name, names in zip(top, held, strict=True) if kind in BY_FIRST_WORD and not names]:
                self._delete_empty(f"{folder}/{name}")
            top = sorted(name for names in held for name in names)
        return [name for name in top if span.has(name)][: span.limit]

    def _by_time(self, span: Span, folder: str, listed: dict[str, list[str]], walk: dict[str, None]) -> list[str]:
        """Return the names of a span; ``listed`` nodes are not asked for, and the ``walk`` gets those that were met."""
        found: list[str] = []

        def held_by(bucket: str, path: str) -> list[str]:
            walk[path] = None
            if path not in listed:
                (listed[path],) = self._children([path])
            if not listed[path] and not is_of_now(bucket, SYSTEM_CLOCK.now()):
                self._delete_empty(path)
            return sorted(listed[path])

        for upper in [name for name in sorted(listed[folder]) if may_hold(name, span)]:
            for lower in [name for name in held_by(upper, f"{folder}/{upper}") if may_hold(upper + name, span)]:
                found += filter(span.has, held_by(upper + lower, f"{folder}/{upper}/{lower}"))
                if span.limit is not None and len(found) >= span.limit:
                    return found[: span.limit]
        return found

    def _children(self, paths: Sequence[str]) -> list[list[str]]:
        client = self._client
        return [names or [] for names in answers([client.get_children_async(path) for path in paths], ANSWER_SECONDS)]

    # Watching

    def mirror(self, folder: Key, values: bool) -> Mirror:
        return ZooKeeperMirror(self, self._paths, folder, values)

    def catch_up(self) -> None:
        """Wait until this process has been told of all changes of watched nodes up to now."""
        handler = self._client.handler
        self._answer(self._client.sync_async(self._paths.root))
        told = handler.event_object()
        handler.dispatch_callback(Callback("watch", told.set, ()))  # one after the other, behind what was heard
        if not told.wait(ANSWER_SECONDS):
            raise StoreUnavailable(f"ZooKeeper was not heard for {ANSWER_SECONDS:g} seconds: a watch hangs")

    def watch_children(self, paths: Sequence[str], heard: Callable[[Any], None]) -> list[list[str] | None]:
        """Return the children of nodes, None where there is no node, and watch those that there are."""
        client = self._client
        return answers([client.get_children_async(path, watch=heard) for path in paths], ANSWER_SECONDS)

    def watch_values(self, paths: Sequence[str], heard: Callable[[Any], None]) -> list[Found | None]:
        """Return the values of nodes, None where there is no node, and watch those that there are."""
        client = self._client
        promises = [client.get_async(path, watch=heard) for path in paths]
        return [None if got is None else _found(*got) for got in answers(promises, ANSWER_SECONDS)]

    def _delete_empty(self, path: str) -> None:
        """Delete a node that holds nothing, without waiting for the answer; a later write makes it again."""
        self._holders.discard(path)
        self._client.delete_async(path)

    # Writing

    def commit(self, transaction: Transaction) -> bool:
        missing = ""
        for _ in range(MAX_COMMIT_ATTEMPTS):
            made = self._make_holders(transaction.created)
            committed, missing = self._commit(transaction)
            if committed:
                self._holders.update(made)
            if not missing:
                return committed
            self._forget_holder(missing, made.values())
        raise StoreUnavailable(f"other processes delete {missing} again and again")

    def _make_holders(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Ask for the nodes that hold some keys; return them with promises.

        Nothing waits for these promises: the server serves one client in the order of its requests.
        """
        needed: set[str] = set()
        for key in keys:
            if key[0] != "members":  # which their group holds
                needed.update(self._paths.above(self.path(key)))
        return {holder: self._client.create_async(holder) for holder in sorted(needed - self._holders)}

    def _forget_holder(self, missing: str, promises: Iterable[Any]) -> None:
        """Forget that a node exists, and all nodes above it, which may be gone too."""
        self._holders.difference_update([missing, *self._paths.above(missing)])
        for promise in promises:
            with suppress(NodeExistsError, NoNodeError):
                self._answer(promise)  # raises if the server refuses to make the node
        self._answer(self._client.ensure_path_async(self._paths.root))

    def _commit(self, transaction: Transaction) -> tuple[bool, str]:
        """Return whether the changes were made, and a node that should hold another and does not exist, if any."""
        request = self._client.transaction()
        created = sorted(transaction.created, key=self.path)  # a group before its members
        for key in created:
            request.create(self.path(key), _bytes(transaction.created[key]))
        for key in transaction.checked:
            request.check(self.path(key), -1)
        for key, (value, version) in transaction.replaced.items():
            request.set_data(self.path(key), _bytes(value), -1 if version is None else version)
        for key, value in transaction.put.items():
            request.set_data(self.path(key), _bytes(value))
        for key in sorted(transaction.deleted, key=self.path, reverse=True):
            version = transaction.deleted[key]
            request.delete(self.path(key), -1 if version is None else version)
        conflict = commit(request, ANSWER_SECONDS)
        if conflict is None:
            return True, ""
        index, error = conflict
        if isinstance(error, NoNodeError) and index < len(created) and created[index][0] != "members":
            return False, self.path(created[index]).rpartition("/")[0]
        return False, ""

    def ensure(self, key: Key) -> None:
        self.commit(Transaction().create(key))  # which is refused if the key exists

    def set(self, key: Key, value: str) -> int:
        """Overwrite a value, and return the server's time of that in milliseconds."""
        return int(self._answer(self._client.set_async(self.path(key), _bytes(value))).mtime)

    def listen(self, heard: Callable[[str], None]) -> None:
        watch = NotifyWatch(self._client, self.path(NOTIFY_KEY), heard)
        self._watches.append(watch)
        try:
            self._answer(watch.begin())
        except BaseException:
            self._watches.remove(watch)
            watch.end()
            raise


class _ServerClock:
    """Leases by the clock of the server: an owner lives if its node was changed within the length of its lease."""

    def __init__(self, server: _ZooKeeper) -> None:
        self._server = server

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        value = f"{int(seconds * 1000)} {text}"
        with suppress(NoNodeError):
            self._server.set(("owners", name), value)
            return True
        return not known and self._server.commit(Transaction().create(("owners", name), value))

    def alive(self, now: datetime) -> dict[str, Heartbeat]:
        return {name: found for name, found, _, lasts in self._all() if lasts}

    def give_up(self, now: datetime) -> dict[str, str]:
        given_up = {}
        for name, found, version, lasts in self._all():
            if not lasts and self._server.commit(Transaction().delete(("owners", name), version)):
                given_up[name] = found.text
        return given_up

    def _all(self) -> Iterator[tuple[str, Heartbeat, int, bool]]:
        """Yield what is known of each owner, the version of that, and whether its lease lasts."""
        names = self._server.names([Span(("owners",))])[0]
        found = self._server.get([self._server.path(("owners", name)) for name in names])
        time = self._server.set(_CLOCK, str(CHANCE.random())) if names else 0
        for name, got in zip(names, found, strict=True):
            if got is not None:
                length, _, text = got[0].decode("utf-8", "replace").partition(" ")
                until = int(got[1].mtime) + (int(length) if length.isdecimal() else 0)
                yield name, Heartbeat(text, until * 1000), got[1].version, until > time

    def stop(self, name: str) -> None:
        self._server.commit(Transaction().delete(("owners", name)))


def _found(value: bytes, status: Any) -> Found:
    return Found(value.decode("utf-8", "surrogateescape"), int(status.version))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
