"""A job store in ZooKeeper 3.5 or later, through kazoo.

What stands where is told in ``zookeeper_places``. Nodes that only hold others are made when they are needed, and those
for times other than the present are taken away when they are empty.

Every call has a deadline and is made once. An owner is lost when the server has not seen him renew his lease for its
length, by the server's own clock. Ephemeral nodes would not do: they vanish with a session, which may end long before
the lease, while the process and its runs go on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import (  # type: ignore[import-untyped]
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]
from kazoo.security import make_digest_acl  # type: ignore[import-untyped]

from goscheduler._drivers.urls import DEFAULT_PATH, check_path, read_url
from goscheduler._drivers.zookeeper import BellWatch
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores._keyvalue.server import NOTIFY_KEY, Found, Key, Span, Transaction
from goscheduler.jobstores._keyvalue.store import KeyValueJobStore
from goscheduler.jobstores._keyvalue.zookeeper_places import (
    BY_DIGEST,
    BY_FIRST_WORD,
    BY_TIME,
    Places,
    is_of_now,
    may_hold,
)
from goscheduler.references import maybe_ref

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["ZooKeeperJobStore"]

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 7.0
SESSION = 4.0
EXAMPLE = "zookeeper://localhost:2181/goscheduler"

#: How many nodes are listed along with a folder, because the last walk led to them.
AHEAD = 4
#: How often a step is tried again because a node that should hold others was taken away meanwhile.
PATIENCE = 8
_CLOCK: Key = ("clock",)
_NOT_LET_IN = "ZooKeeper does not let this user in; check user and password"
_LOST = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)


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

    def __init__(self, client: Any, root: str, closes: bool, connect_args: dict[str, Any]) -> None:
        self._given = client
        self._places = Places(root)
        self.path = self._places.path
        self._closes = closes
        self._connect_args = connect_args
        self._client: Any = None
        self._holders: set[str] = set()
        """Nodes that hold others and are there, as far as we know."""
        self._walks: dict[str, Sequence[str]] = {}
        """Folder of what is kept by time → the nodes below it that were listed first the last time."""
        self._listening: list[BellWatch] = []

    def open(self) -> None:
        self._client = self._given if self._given is not None else self._new_client()
        self._holders, self._walks = set(), {}
        if not self._client.connected:
            try:
                self._client.start(timeout=CONNECT_WITHIN)
            except KazooTimeoutError as error:
                self._stop_own()
                hosts = ", ".join(f"{host}:{port}" for host, port in self._client.hosts)
                raise StoreUnavailable(f"no ZooKeeper answers at {hosts}") from error
        try:
            self._answer(self._client.ensure_path_async(self._places.root))
            for key in (NOTIFY_KEY, _CLOCK):
                self.ensure(key)
        except GoSchedulerError:
            self._stop_own()
            raise

    def _new_client(self) -> Any:
        # kazoo would wait for up to a minute before it tries to connect again, and for the length of a session for who
        # has taken the connection and says nothing. Nothing here depends on a session.
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0)
        return KazooClient(**{"connection_retry": retry, "timeout": SESSION, **self._connect_args})

    def _stop_own(self) -> None:
        if self._given is None:
            self._client.stop()
            self._client.close()

    def close(self) -> None:
        for watch in self._listening:
            watch.end()
        self._listening = []
        if self._given is None or self._closes:
            self._client.stop()
            self._client.close()

    def abandon(self) -> None:
        self._listening = []
        if self._given is not None:
            raise GoSchedulerError("a kazoo client does not survive a fork; give the job store a url instead of it")
        self._client = None

    # Reading

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        return [None if got is None else _found(*got) for got in self.get([self.path(key) for key in keys])]

    def get(self, paths: Sequence[str]) -> list[Any]:
        """Return (value, status) of nodes, or None where there is none."""
        return self._answers([self._connected.get_async(path) for path in paths])

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        # Most walks lead where the last one led: all nodes on the way are listed at once, not one after another.
        folders = [self._places.folder(span.folder) for span in spans]
        paths = dict.fromkeys([*folders, *(path for folder in folders for path in self._walks.get(folder, ()))])
        listed = dict(zip(paths, self._children(list(paths)), strict=True))
        walks: dict[str, dict[str, None]] = {}
        names = [
            self._by_time(span, folder, listed, walks.setdefault(folder, {}))
            if span.folder[0] in BY_TIME
            else self._by_name(span, folder, sorted(listed[folder]))
            for span, folder in zip(spans, folders, strict=True)
        ]
        self._walks.update({folder: list(walk)[:AHEAD] for folder, walk in walks.items()})
        return names

    def _by_name(self, span: Span, folder: str, top: list[str]) -> list[str]:
        """Return the names of a span, whose folder holds ``top``."""
        kind = span.folder[0]
        if kind in BY_DIGEST or kind in BY_FIRST_WORD:
            if kind in BY_FIRST_WORD and span.first.endswith("."):
                top = [name for name in top if name == span.first[:-1]]
            held = self._children([f"{folder}/{name}" for name in top])
            for name in [name for name, names in zip(top, held, strict=True) if kind in BY_FIRST_WORD and not names]:
                self._sweep(f"{folder}/{name}")
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
                self._sweep(path)
            return sorted(listed[path])

        for upper in [name for name in sorted(listed[folder]) if may_hold(name, span)]:
            for lower in [name for name in held_by(upper, f"{folder}/{upper}") if may_hold(upper + name, span)]:
                found += filter(span.has, held_by(upper + lower, f"{folder}/{upper}/{lower}"))
                if span.limit is not None and len(found) >= span.limit:
                    return found[: span.limit]
        return found

    def _children(self, paths: Sequence[str]) -> list[list[str]]:
        return [names or [] for names in self._answers([self._connected.get_children_async(path) for path in paths])]

    def _sweep(self, path: str) -> None:
        """Take away a node that holds nothing; who wanted to put something into it makes it again.

        Nobody waits until the server has written that: what is due was seen, and goes on.
        """
        self._holders.discard(path)
        self._connected.delete_async(path)

    # Writing

    def commit(self, transaction: Transaction) -> bool:
        lacking = ""
        for _ in range(PATIENCE):
            made = self._make_holders(transaction.created)
            done = self._commit(transaction)
            if done is True:
                self._holders.update(made)
            if not isinstance(done, str):
                return done
            lacking = done
            self._prepare_again(lacking, made.values())
        raise StoreUnavailable(f"{lacking} is swept away by others all the time")

    def _make_holders(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Ask for nodes to hold some keys; return them with promises.

        Nobody waits for these: the server does what one client asks in the order in which it is asked.
        """
        needed: set[str] = set()
        for key in keys:
            if key[0] != "members":  # which their group holds
                needed.update(self._places.above(self.path(key)))
        return {holder: self._connected.create_async(holder) for holder in sorted(needed - self._holders)}

    def _prepare_again(self, lacking: str, promises: Iterable[Any]) -> None:
        """Forget that a node is there, and all above it, which may be gone too."""
        self._holders.difference_update([lacking, *self._places.above(lacking)])
        for promise in promises:
            with suppress(NodeExistsError, NoNodeError):
                self._answer(promise)  # or nobody would hear that it was refused
        self._answer(self._connected.ensure_path_async(self._places.root))

    def _commit(self, transaction: Transaction) -> bool | str:
        """Return whether it was done; or the node that should hold another and does not exist."""
        request = self._connected.transaction()
        paths = []
        for key in transaction.checked:
            request.check(self.path(key), -1)
            paths.append("")
        for key in sorted(transaction.created, key=self.path):  # a group before its members
            request.create(self.path(key), _bytes(transaction.created[key]))
            paths.append("" if key[0] == "members" else self.path(key))
        for key, (value, version) in transaction.replaced.items():
            request.set_data(self.path(key), _bytes(value), -1 if version is None else version)
        for key, value in transaction.put.items():
            request.set_data(self.path(key), _bytes(value))
        for key in sorted(transaction.deleted, key=self.path, reverse=True):
            version = transaction.deleted[key]
            request.delete(self.path(key), -1 if version is None else version)
        return self._judge(self._answer(request.commit_async()), paths)

    def _judge(self, results: Sequence[Any], created: Sequence[str]) -> bool | str:
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                if isinstance(result, NoNodeError) and index < len(created) and created[index]:
                    return created[index].rpartition("/")[0]
                if isinstance(result, _LOST):
                    return False
                if isinstance(result, NoAuthError):
                    raise GoSchedulerError(_NOT_LET_IN) from result
                raise GoSchedulerError(f"ZooKeeper refused: {type(result).__name__}") from result
        return True

    def ensure(self, key: Key) -> None:
        transaction = Transaction()
        transaction.create(key)
        self.commit(transaction)  # which is refused if it is there

    def set(self, key: Key, value: str) -> int:
        """Overwrite a value, and return the server's time of that in milliseconds."""
        return int(self._answer(self._connected.set_async(self.path(key), _bytes(value))).mtime)

    # Others

    def listen(self, heard: Callable[[str], None]) -> None:
        watch = BellWatch(self._connected, self.path(NOTIFY_KEY), heard)
        self._listening.append(watch)
        try:
            self._answer(watch.begin())
        except BaseException:
            self._listening.remove(watch)
            watch.end()
            raise

    @property
    def _connected(self) -> Any:
        """The client. Without a connection kazoo would keep what it is asked, and do it later, when nobody waits."""
        if self._client is None:
            self.open()
        if not self._client.connected:
            raise StoreUnavailable("there is no connection to ZooKeeper")
        return self._client

    def _answers(self, promises: Sequence[Any]) -> list[Any]:
        """Return all answers; None for a node that does not exist."""
        answers = []
        for promise in reversed(promises):  # who waits for the last of them is woken once
            try:
                answers.append(self._answer(promise))
            except NoNodeError:
                answers.append(None)
        return answers[::-1]

    def _answer(self, promise: Any) -> Any:
        try:
            return promise.get(timeout=ANSWER_WITHIN)
        except _LOST:
            raise
        except (NoAuthError, AuthFailedError) as error:
            raise GoSchedulerError(_NOT_LET_IN) from error
        except (KazooException, KazooTimeoutError) as error:
            raise StoreUnavailable(f"ZooKeeper did not answer: {type(error).__name__}") from error


class _ServerClock:
    """Owners whose nodes the server has seen changed not longer ago than their leases last."""

    def __init__(self, server: _ZooKeeper) -> None:
        self._server = server

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Change the node of an owner, or make it."""
        value = f"{int(seconds * 1000)} {text}"
        with suppress(NoNodeError):
            self._server.set(("owners", name), value)
            return True
        transaction = Transaction()
        transaction.create(("owners", name), value)
        return not known and self._server.commit(transaction)

    def alive(self, now: datetime) -> dict[str, str]:
        """Return those whose lease has not ended."""
        return {name: text for name, text, _, left in self._all() if left > 0}

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget those whose lease has ended, if they have not renewed it meanwhile."""
        given_up = {}
        for name, text, version, left in self._all():
            transaction = Transaction()
            transaction.delete(("owners", name), version)
            if left <= 0 and self._server.commit(transaction):
                given_up[name] = text
        return given_up

    def _all(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield name, text, version, and how many milliseconds are left."""
        names = self._server.names([Span(("owners",))])[0]
        found = self._server.get([self._server.path(("owners", name)) for name in names])
        time = self._server.set(_CLOCK, str(random.random())) if names else 0
        for name, got in zip(names, found, strict=True):
            if got is not None:
                length, _, text = got[0].decode("utf-8", "replace").partition(" ")
                left = int(got[1].mtime) + (int(length) if length.isdecimal() else 0) - time
                yield name, text, got[1].version, left

    def stop(self, name: str) -> None:
        """Forget one."""
        transaction = Transaction()
        transaction.delete(("owners", name))
        self._server.commit(transaction)


def _found(value: bytes, status: Any) -> Found:
    return Found(value.decode("utf-8", "surrogateescape"), int(status.version))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
