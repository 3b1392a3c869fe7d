"""A job store in etcd 3.4 or later, through its HTTP gateway, or through gRPC with a client that is given.

Every call is made once, with a deadline. Owners are keys on leases of the server, which end by its clock. A key that is
written by everybody who has something new for others is watched.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from goscheduler._drivers.etcd.clients import connect, wire_of
from goscheduler._drivers.etcd.wire import CONNECT_WITHIN, Watch, Wire
from goscheduler._drivers.urls import DEFAULT_PATH, addresses, check_path, read_url
from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.jobstores._keyvalue.server import NOTIFY_KEY, Found, Key, Span, Transaction, read_all
from goscheduler.jobstores._keyvalue.store import KeyValueJobStore
from goscheduler.references import maybe_ref

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["EtcdJobStore"]

ANSWER_WITHIN = 7.0
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
            wire, closes = connect(login, **{"timeout": ANSWER_WITHIN, **connect_args}), True
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


class _Etcd:
    """etcd as the store needs it."""

    max_changes = 128
    max_bytes = 1_000_000

    def __init__(self, wire: Wire, prefix: str, closes: bool) -> None:
        self.wire = wire
        self._prefix = prefix
        self._closes = closes
        self._watch: Watch | None = None

    def open(self) -> None:
        version = self.wire.open(CONNECT_WITHIN)
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
        ranges: list[dict[str, Any]] = [{"key": self._encoded(key)} for key in keys]
        return [_found(kvs[0]) if kvs else None for kvs in self._ranges(ranges)]

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        skip = [len(self._whole((*span.folder, ""))) for span in spans]
        ranges = [self._span(span) for span in spans]
        return [
            [base64.b64decode(kv["key"])[start:].decode() for kv in kvs]
            for start, kvs in zip(skip, self._ranges(ranges), strict=True)
        ]

    def _span(self, span: Span) -> dict[str, Any]:
        end = (*span.folder[:-1], f"{span.folder[-1]}0") if span.last is None else (*span.folder, span.last)
        wanted = {"key": self._encoded((*span.folder, span.first)), "range_end": self._encoded(end), "keys_only": True}
        return wanted if span.limit is None else {**wanted, "limit": span.limit}

    def _ranges(self, ranges: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Return what is found in each range; many are asked for in one call, and seen at one moment."""
        rest = iter(ranges)
        while batch := list(islice(rest, self.max_changes)):
            answer = self.post("kv/txn", {"success": [{"request_range": wanted} for wanted in batch]})
            for response in answer["responses"]:
                yield response["response_range"].get("kvs", [])

    def commit(self, transaction: Transaction) -> bool:
        compare = [self._exists(key, False) for key in transaction.created]
        compare += [self._exists(key, True) for key in transaction.checked]
        for key, (_, version) in transaction.replaced.items():
            compare.append(self._exists(key, True) if version is None else self._is(key, version))
        for key, version in transaction.deleted.items():
            compare.append(self._exists(key, True) if version is None else self._is(key, version))
        values = {
            **transaction.created,
            **{key: value for key, (value, _) in transaction.replaced.items()},
            **transaction.put,
        }
        success = [{"request_put": {"key": self._encoded(key), "value": _text64(values[key])}} for key in values]
        success += [{"request_delete_range": {"key": self._encoded(key)}} for key in transaction.deleted]
        answer = self.post("kv/txn", {"compare": compare, "success": success})
        return bool(answer.get("succeeded", False))

    def _exists(self, key: Key, there: bool) -> dict[str, Any]:
        result = "GREATER" if there else "EQUAL"
        return {"key": self._encoded(key), "target": "CREATE", "result": result, "create_revision": 0}

    def _is(self, key: Key, version: int) -> dict[str, Any]:
        return {"key": self._encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": version}

    def ensure(self, key: Key) -> None:
        self.put(key, "")

    def put(self, key: Key, value: str, lease: int | None = None) -> None:
        """Write a value whether there was one or not."""
        wanted = {"key": self._encoded(key), "value": _text64(value)}
        self.post("kv/put", wanted if lease is None else {**wanted, "lease": lease})

    def listen(self, heard: Callable[[str], None]) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._watch = self.wire.watch(self._encoded(NOTIFY_KEY), heard)
        self._watch.start()

    def post(self, path: str, payload: dict[str, Any]) -> Any:
        """Ask the server, once."""
        return self.wire.post(path, payload, (CONNECT_WITHIN, ANSWER_WITHIN))

    def _encoded(self, key: Key) -> str:
        return base64.b64encode(self._whole(key)).decode()

    def _whole(self, key: Key) -> bytes:
        return f"{self._prefix}{'/'.join(key)}".encode()


class _Leases:
    """Owners on leases of the server. Where they are, or were, is kept beside it."""

    def __init__(self, server: _Etcd) -> None:
        self._server = server
        self._leases: dict[str, int] = {}

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Keep the lease of an owner, or take one."""
        lease = self._leases.get(name)
        if lease is not None:
            answer = self._server.post("lease/keepalive", {"ID": lease})
            return int(answer["result"].get("TTL", 0)) > 0
        if known:
            return False
        lease = int(self._server.post("lease/grant", {"TTL": math.ceil(seconds), "ID": 0})["ID"])
        self._server.put(("owners", name), text, lease)
        self._server.put(("hosts", name), text)
        self._leases[name] = lease
        return True

    def alive(self, now: datetime) -> dict[str, str]:
        """Return those whose lease has not ended."""
        return {name: found.value for name, found in read_all(self._server, ("owners",))}

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget where those were whose lease has ended."""
        hosts = dict(read_all(self._server, ("hosts",)))
        alive = self.alive(now) if hosts else {}
        given_up = {}
        for name in hosts.keys() - alive.keys():
            transaction = Transaction()
            transaction.delete(("hosts", name))
            if self._server.commit(transaction):
                given_up[name] = hosts[name].value
        return given_up

    def stop(self, name: str) -> None:
        """Give a lease back."""
        lease = self._leases.pop(name, None)
        transaction = Transaction()
        transaction.delete(("hosts", name))
        self._server.commit(transaction)
        if lease is not None:
            self._server.post("lease/revoke", {"ID": lease})


def _found(kv: dict[str, Any]) -> Found:
    value = base64.b64decode(kv.get("value", "")).decode("utf-8", "surrogateescape")
    return Found(value, int(kv["mod_revision"]))


def _text64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
