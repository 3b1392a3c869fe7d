"""A job store in ZooKeeper 3.5 or later, through kazoo.

ZooKeeper lists all children of a node or none, so no node has many: what is kept by time stands two levels deep, under
the day and the quarter of an hour, and what is kept by name, under the first digit of a digest of it. Nodes that only
hold others are made when they are needed, and those for times that have passed are taken away again.

Every call has a deadline and is made once. An owner is lost when the server has not seen him renew his lease for its
length, by the server's own clock. Ephemeral nodes would not do: they vanish with a session, which may end long before
the lease, while the process and its runs go on.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient, KazooState  # type: ignore[import-untyped]
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

from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores._kv_port import BELL, Found, Key, Span, Step
from goscheduler.jobstores._kv_store import KeyValueJobStore
from goscheduler.jobstores._kv_url import DEFAULT_PATH, check_path, read_url
from goscheduler.refs import maybe_ref

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["ZooKeeperJobStore"]

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 7.0
SESSION = 4.0
EXAMPLE = "zookeeper://localhost:2181/goscheduler"

#: Folders by how their names are spread over nodes; all others are one node each.
BY_TIME = frozenset({"due", "ready", "finished", "history"})
BY_DIGEST = frozenset({"jobs", "lives", "runs", "dead", "groups", "paused"})
BY_FIRST_WORD = frozenset({"owned"})
#: How many digits of a time name the upper node (28 hours), and how many both nodes (17 minutes).
UPPER, LOWER = 7, 9
#: How often a step is tried again because a node that should hold others was taken away meanwhile.
PATIENCE = 8
_CLOCK: Key = ("clock",)
_LOST = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)


class ZooKeeperJobStore(KeyValueJobStore):
    """Keeps jobs, runs and history in ZooKeeper, in nodes below ``path``.

    Give ``url``, or a ``client`` of kazoo, which is started if it is not, and closed at the end only with
    ``close_connection_on_exit``, or arguments for such a client (``hosts``, ``auth_data`` …). ``serializer`` says how
    arguments are written. Leases end by the clock of the server, unless ``server_time`` is false; what is due is judged
    by the clock of the scheduler, because ZooKeeper has none to ask.
    """

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

    most_changes = 400
    most_bytes = 600_000

    def __init__(self, client: Any, root: str, closes: bool, connect_args: dict[str, Any]) -> None:
        self._given = client
        self._root = root
        self._closes = closes
        self._connect_args = connect_args
        self._client: Any = None
        self._holders: set[str] = set()
        """Nodes that hold others and are there, as far as we know."""
        self._listening: list[_BellWatch] = []

    def open(self) -> None:
        self._client = self._given if self._given is not None else self._new_client()
        self._holders = set()
        if not self._client.connected:
            try:
                self._client.start(timeout=CONNECT_WITHIN)
            except KazooTimeoutError as error:
                self._stop_own()
                hosts = ", ".join(f"{host}:{port}" for host, port in self._client.hosts)
                raise StoreUnavailable(f"no ZooKeeper answers at {hosts}") from error
        try:
            for key in (BELL, _CLOCK):
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
        tops = self._answers([self._connected.get_children_async(self._folder(span.folder)) for span in spans])
        return [self._names(span, sorted(top or ())) for span, top in zip(spans, tops, strict=True)]

    def _names(self, span: Span, top: list[str]) -> list[str]:
        """Return the names of a span, whose folder holds ``top``."""
        folder = self._folder(span.folder)
        kind = span.folder[0]
        if kind in BY_TIME:
            return self._by_time(span, folder, top)
        if kind in BY_DIGEST or kind in BY_FIRST_WORD:
            if kind in BY_FIRST_WORD and span.first.endswith("."):
                top = [name for name in top if name == span.first[:-1]]
            held = self._children([f"{folder}/{name}" for name in top])
            for name in [name for name, names in zip(top, held, strict=True) if kind in BY_FIRST_WORD and not names]:
                self._sweep(f"{folder}/{name}")
            top = sorted(name for names in held for name in names)
        return [name for name in top if span.has(name)][: span.limit]

    def _by_time(self, span: Span, folder: str, uppers: list[str]) -> list[str]:
        found: list[str] = []
        for upper in [name for name in uppers if _may_hold(name, span)]:
            (lowers,) = self._children([f"{folder}/{upper}"])
            if not lowers:
                self._sweep(f"{folder}/{upper}")
            for lower in [name for name in sorted(lowers) if _may_hold(upper + name, span)]:
                (names,) = self._children([f"{folder}/{upper}/{lower}"])
                if not names:
                    self._sweep(f"{folder}/{upper}/{lower}")
                found += sorted(filter(span.has, names))
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

    def commit(self, step: Step) -> bool:
        for _ in range(PATIENCE):
            self._need_holders(step.created)
            lacking = self._commit(step)
            if not isinstance(lacking, str):
                return lacking
            self._holders.discard(lacking)
        return False

    def _commit(self, step: Step) -> bool | str:
        """Return whether it was done; or the node that should hold another and does not exist."""
        transaction = self._connected.transaction()
        paths = []
        for key in step.checked:
            transaction.check(self.path(key), -1)
            paths.append("")
        for key in sorted(step.created, key=self.path):  # a group before its members
            transaction.create(self.path(key), _bytes(step.created[key]))
            paths.append("" if key[0] == "members" else self.path(key))
        for key, (value, version) in step.replaced.items():
            transaction.set_data(self.path(key), _bytes(value), -1 if version is None else version)
        for key, value in step.put.items():
            transaction.set_data(self.path(key), _bytes(value))
        for key in sorted(step.deleted, key=self.path, reverse=True):
            version = step.deleted[key]
            transaction.delete(self.path(key), -1 if version is None else version)
        return self._judge(self._answer(transaction.commit_async()), paths)

    def _judge(self, results: Sequence[Any], created: Sequence[str]) -> bool | str:
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                if isinstance(result, NoNodeError) and index < len(created) and created[index]:
                    return created[index].rpartition("/")[0]
                if isinstance(result, _LOST):
                    return False
                raise GoSchedulerError(f"ZooKeeper refused: {type(result).__name__}") from result
        return True

    def ensure(self, key: Key) -> None:
        self._need_holders([key])
        with suppress(NodeExistsError):
            self._answer(self._connected.create_async(self.path(key), b""))

    def _need_holders(self, keys: Iterable[Key]) -> None:
        """See to it that there are nodes to hold some keys; all are asked for before the first is waited for."""
        needed = {self.path(key).rpartition("/")[0] for key in keys if key[0] != "members"} - self._holders
        for _ in range(PATIENCE):
            promises = {holder: self._connected.ensure_path_async(holder) for holder in needed}
            for holder, promise in promises.items():
                with suppress(NoNodeError):  # somebody has swept away a node above it after it was made
                    self._answer(promise)
                    self._holders.add(holder)
            needed -= self._holders
            if not needed:
                return
        raise StoreUnavailable(f"{min(needed)} is swept away by others all the time")

    def set(self, key: Key, value: str) -> int:
        """Overwrite a value, and return the server's time of that in milliseconds."""
        return int(self._answer(self._connected.set_async(self.path(key), _bytes(value))).mtime)

    # Others

    def listen(self, heard: Callable[[str], None]) -> None:
        watch = _BellWatch(self._connected, self.path(BELL), heard)
        self._listening.append(watch)
        try:
            self._answer(watch.begin())
        except BaseException:
            self._listening.remove(watch)
            watch.end()
            raise

    def path(self, key: Key) -> str:
        """Return where a key stands."""
        kind, name = key[0], key[-1]
        if kind == "members":
            return f"{self.path(('groups', key[1]))}/{name}"
        folder = self._folder(key[:-1]) if len(key) > 1 else self._root
        if kind in BY_TIME:
            return f"{folder}/{name[:UPPER]}/{name[UPPER:LOWER]}/{name}"
        first = name.partition(".")[0] if kind != "groups" else name
        if kind in BY_DIGEST:
            return f"{folder}/{hashlib.sha256(first.encode()).hexdigest()[:1]}/{name}"
        return f"{folder}/{first}/{name}" if kind in BY_FIRST_WORD else f"{folder}/{name}"

    def _folder(self, folder: Key) -> str:
        return self.path(("groups", folder[1])) if folder[0] == "members" else "/".join((self._root, *folder))

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
        for promise in promises:
            try:
                answers.append(self._answer(promise))
            except NoNodeError:
                answers.append(None)
        return answers

    def _answer(self, promise: Any) -> Any:
        try:
            return promise.get(timeout=ANSWER_WITHIN)
        except _LOST:
            raise
        except (NoAuthError, AuthFailedError) as error:
            raise GoSchedulerError("ZooKeeper does not let this user in; check user and password") from error
        except (KazooException, KazooTimeoutError) as error:
            raise StoreUnavailable(f"ZooKeeper did not answer: {type(error).__name__}") from error


class _BellWatch:
    """Watches a node, across lost connections. kazoo's own watch waits for its first answer without a deadline."""

    def __init__(self, client: Any, path: str, heard: Callable[[str], None]) -> None:
        self._client, self._path, self._heard = client, path, heard
        self._going_on = True

    def begin(self) -> Any:
        """Watch from now on; return the promise of the first answer."""
        self._client.add_listener(self._connection_changed)
        promise = self._ask()
        promise.rawlink(self._answered)
        return promise

    def end(self) -> None:
        self._going_on = False
        self._client.remove_listener(self._connection_changed)

    def _ask(self) -> Any:
        return self._client.get_async(self._path, watch=self._changed)  # which the server calls once

    def _connection_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:  # the server may have forgotten the watch
            self._changed()

    def _changed(self, _event: Any = None) -> None:
        if self._going_on:
            self._ask().rawlink(self._answered)

    def _answered(self, promise: Any) -> None:
        if self._going_on and promise.successful():
            self._heard(promise.value[0].decode("utf-8", "replace"))
        elif self._going_on and isinstance(promise.exception, NoNodeError):
            self._client.exists_async(self._path, watch=self._changed)


class _ServerClock:
    """Owners whose nodes the server has seen changed not longer ago than their leases last."""

    def __init__(self, server: _ZooKeeper) -> None:
        self._server = server

    def beat(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Change the node of an owner, or make it."""
        value = f"{int(seconds * 1000)} {text}"
        with suppress(NoNodeError):
            self._server.set(("owners", name), value)
            return True
        step = Step()
        step.create(("owners", name), value)
        return not known and self._server.commit(step)

    def alive(self, now: datetime) -> dict[str, str]:
        """Return those whose lease has not ended."""
        return {name: text for name, text, _, left in self._all() if left > 0}

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget those whose lease has ended, if they have not renewed it meanwhile."""
        given_up = {}
        for name, text, version, left in self._all():
            step = Step()
            step.delete(("owners", name), version)
            if left <= 0 and self._server.commit(step):
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
        step = Step()
        step.delete(("owners", name))
        self._server.commit(step)


def _may_hold(bucket: str, span: Span) -> bool:
    """Tell whether names that begin so can be in a span."""
    return f"{bucket}~" >= span.first and (span.last is None or bucket < span.last)


def _found(value: bytes, status: Any) -> Found:
    return Found(value.decode("utf-8", "surrogateescape"), int(status.version))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
