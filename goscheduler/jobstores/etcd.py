"""A job store in etcd 3.4 or later, through its HTTP gateway, or through gRPC with a client that is given.

Every call is made once, with a deadline. Owners are keys on leases of the server, which end by its clock. The store
watches one key, which every process writes when it has something new for others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from goscheduler._drivers.etcd.calls import (
    Calls,
    Payload,
    decode,
    delete,
    encode,
    exists,
    has_version,
    put,
    succeeded,
)
from goscheduler._drivers.etcd.clients import connect, wire_of
from goscheduler._drivers.etcd.wire import CONNECT_SECONDS, Watch, Wire
from goscheduler._drivers.urls import DEFAULT_PATH, addresses, check_path, read_url
from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.jobstores._keyvalue.etcd_mirror import EtcdMirror
from goscheduler.jobstores._keyvalue.owners import heartbeat, with_end
from goscheduler.jobstores._keyvalue.server import (
    NOTIFY_KEY,
    Found,
    Heartbeat,
    Key,
    Mirror,
    Span,
    Transaction,
    read_all,
)
from goscheduler.jobstores._keyvalue.store import KeyValueJobStore
from goscheduler.references import maybe_ref

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["EtcdJobStore"]

ANSWER_SECONDS = 7.0
OLDEST_SERVER = (3, 4)
PORT = 2379
EXAMPLE = "etcd://localhost:2379/goscheduler"


class EtcdJobStore(KeyValueJobStore):
    """Keeps jobs, runs and history in etcd, under keys that begin with ``path`` and a slash.

    Give ``url``, or a ``client`` of etcd3gw or etcd3, which is closed at the end only with
    ``close_connection_on_exit``, or arguments for one of etcd3gw (``host``, ``port``, ``ca_cert`` …). ``serializer``
    says how arguments are written. Leases end by the clock of the server, unless ``server_time`` is false; what is due
    is judged by the clock of the scheduler, because etcd has none to ask.
    """

    lock_backend = "etcd"

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
        login = None
        if url is not None:
            place = read_url(url, ("etcd", "etcds"), EXAMPLE)
            login, path = (place.user, place.password) if place.user else None, place.path or path
            protocol = "https" if place.scheme == "etcds" else "http"
            connect_args = {"members": addresses(place.hosts, PORT), "protocol": protocol, **connect_args}
        self._path = check_path(path)
        if client is None:
            wire, closes = connect(login, **{"timeout": ANSWER_SECONDS, **connect_args}), True
        else:
            wire, closes = wire_of(maybe_ref(client)), close_connection_on_exit
        server = _Etcd(wire, f"{self._path}/", closes)
        super().__init__(server, _Leases(server), serializer, server_time)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> EtcdJobStore:
        """Return the store that a URL names: ``etcd://user:password@host:port,host:port/path``, ``etcds`` for TLS."""
        return cls(url=url, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (path={self._path})>"


class _Etcd(Calls):
    """etcd as the store needs it."""

    max_changes = 128
    max_bytes = 1_000_000

    def __init__(self, wire: Wire, prefix: str, closes: bool) -> None:
        self.wire = wire
        self._prefix = prefix
        self._closes = closes
        self._watch: Watch | None = None

    def open(self) -> None:
        version = self.wire.open(CONNECT_SECONDS)
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < OLDEST_SERVER:
            raise GoSchedulerError(f"etcd {version} at {self.wire.address} is too old; 3.4 or later is needed")

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._closes:
            self.wire.close()

    def abandon(self) -> None:
        self._watch = None
        self.wire.abandon()

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        return [_found(kvs[0]) if kvs else None for kvs in self._ranges([{"key": self._key(key)} for key in keys])]

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        found = self._ranges([self._range(span, keys_only=True) for span in spans])
        return [[_name(kv) for kv in kvs] for kvs in found]

    def mirror(self, folder: Key, values: bool) -> Mirror:
        return EtcdMirror(self, folder, values)

    def revision(self) -> int:
        """Return the number of the last change to anything on the server."""
        answer = self.post("kv/range", {"key": self._key(NOTIFY_KEY), "count_only": True})
        return int(answer["header"]["revision"])

    def written(self, span: Span, since: int) -> tuple[list[tuple[str, Found]], int]:
        """Return names and values of a span that were written by this change or later ones, and how many names there
        are in its folder."""
        # If nothing is left out, the server need not look through all that follows the last name.
        only = {"min_mod_revision": since} if since > 1 else {}
        ranges = [self._range(span, **only), self._range(Span(span.folder), count_only=True)]
        written, counted = self._answers(ranges)
        return [(_name(kv), _found(kv)) for kv in written.get("kvs", [])], int(counted.get("count", 0))

    def count(self, spans: Sequence[Span]) -> list[int]:
        """Return how many names are in spans, at most ``max_changes`` of these."""
        answers = self._answers([self._range(span, count_only=True) for span in spans])
        return [int(each.get("count", 0)) for each in answers]

    def _answers(self, ranges: Sequence[Payload]) -> list[Payload]:
        """Return the answers to some questions, all of one moment."""
        answer = self.transact([], [{"request_range": wanted} for wanted in ranges])
        return [response["response_range"] for response in answer["responses"]]

    def _range(self, span: Span, **options: Any) -> Payload:
        end = (*span.folder[:-1], f"{span.folder[-1]}0") if span.last is None else (*span.folder, span.last)
        keys = {"key": self._key((*span.folder, span.first)), "range_end": self._key(end), **options}
        return keys if span.limit is None else {**keys, "limit": span.limit}

    def _ranges(self, ranges: Sequence[Payload]) -> Iterator[list[Payload]]:
        """Yield what each range holds. One call reads many ranges, all at one moment."""
        rest = iter(ranges)
        while batch := list(islice(rest, self.max_changes)):
            for found in self._answers(batch):
                yield found.get("kvs", [])

    def commit(self, transaction: Transaction) -> bool:
        versions = {key: version for key, (_, version) in transaction.replaced.items()} | transaction.deleted
        compare = [exists(self._key(key), False) for key in transaction.created]
        compare += [exists(self._key(key)) for key in transaction.checked]
        for key, version in versions.items():
            compare.append(exists(self._key(key)) if version is None else has_version(self._key(key), version))
        success = [put(self._key(key), value) for key, value in transaction.values.items()]
        success += [delete(self._key(key)) for key in transaction.deleted]
        return succeeded(self.transact(compare, success))

    def ensure(self, key: Key) -> None:
        self.put(key, "")

    def put(self, key: Key, value: str, lease: int | None = None) -> None:
        """Write a value, whether or not the key exists."""
        self.post("kv/put", put(self._key(key), value, lease)["request_put"])

    def put_on_lease(self, key: Key, value: str, lease: int) -> bool:
        """Overwrite a value on its lease; false if the lease has ended, and the key with it."""
        return succeeded(self.transact([exists(self._key(key))], [put(self._key(key), value, lease)]))

    def listen(self, heard: Callable[[str], None]) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._watch = self.wire.watch(self._key(NOTIFY_KEY), heard)
        self._watch.start()

    def post(self, path: str, payload: Payload) -> Any:
        return self.wire.post(path, payload, (CONNECT_SECONDS, ANSWER_SECONDS))

    def _key(self, key: Key) -> str:
        return encode(f"{self._prefix}{'/'.join(key)}")


class _Leases:
    """Owners on leases of the server. A second key, without a lease, keeps the host of each owner.

    The server tells of one lease at a time when it ends. So each owner writes that down, by its own clock.
    """

    def __init__(self, server: _Etcd) -> None:
        self._server = server
        self._leases: dict[str, int] = {}

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        lease, value = self._leases.get(name), with_end(text, now, seconds)
        if lease is not None:
            return self._server.keep_alive(lease) and self._server.put_on_lease(("owners", name), value, lease)
        if known:
            return False
        lease = self._server.grant(seconds)
        self._server.put(("owners", name), value, lease)
        self._server.put(("hosts", name), text)
        self._leases[name] = lease
        return True

    def alive(self, now: datetime) -> dict[str, Heartbeat]:
        return {name: heartbeat(found.value) for name, found in read_all(self._server, ("owners",))}

    def give_up(self, now: datetime) -> dict[str, str]:
        hosts = dict(read_all(self._server, ("hosts",)))
        alive = self.alive(now) if hosts else {}
        given_up = {}
        for name in hosts.keys() - alive.keys():
            if self._server.commit(Transaction().delete(("hosts", name))):
                given_up[name] = hosts[name].value
        return given_up

    def stop(self, name: str) -> None:
        lease = self._leases.pop(name, None)
        self._server.commit(Transaction().delete(("hosts", name)))
        if lease is not None:
            self._server.revoke(lease)


def _name(kv: Payload) -> str:
    return decode(kv["key"]).rpartition("/")[2]


def _found(kv: Payload) -> Found:
    return Found(decode(kv.get("value", "")), int(kv["mod_revision"]))
