"""A job store in etcd 3.4 or later, through its HTTP gateway.

Every call is made once, with a deadline. Owners are keys on leases of the server, which end by its clock. A key that is
written by everybody who has something new for others is watched.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import requests
from etcd3gw.client import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception

from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores._kv_port import BELL, Found, Key, Span, Step, read_all
from goscheduler.jobstores._kv_store import KeyValueJobStore
from goscheduler.jobstores._kv_url import DEFAULT_PATH, check_path, one_address, read_url

if TYPE_CHECKING:
    from goscheduler.serializers import Serializer

__all__ = ["EtcdJobStore"]

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 7.0
#: How long the watch may be silent before it is begun anew, in case that nobody is there any more.
SILENCE = 300.0
OLDEST_SERVER = (3, 4)
PORT = 2379
EXAMPLE = "etcd://localhost:2379/goscheduler"
_DONE, _TOKEN_EXPIRED = 200, 401
#: Answers after which the same may work later: too many requests, or trouble in the cluster.
_LATER = frozenset({408, 429, *range(500, 600)})


class EtcdJobStore(KeyValueJobStore):
    """Keeps jobs, runs and history in etcd, under keys that begin with ``path`` and a slash.

    Give ``url``, or a ``client`` of etcd3gw, which is closed at the end only with ``close_connection_on_exit``, or
    arguments for such a client (``host``, ``port``, ``ca_cert`` …). ``serializer`` says how arguments are written.
    Leases end by the clock of the server, unless ``server_time`` is false; what is due is judged by the clock of the
    scheduler, because etcd has none to ask.
    """

    def __init__(
        self,
        path: str = DEFAULT_PATH,
        client: Etcd3Client | None = None,
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
        user = password = ""
        if url is not None:
            place = read_url(url, ("etcd", "etcds"), EXAMPLE)
            user, password, path = place.user, place.password, place.path or path
            host, port = one_address(place.hosts, PORT)
            protocol = "https" if place.scheme == "etcds" else "http"
            connect_args = {"host": host, "port": port, "protocol": protocol, **connect_args}
        self._path = check_path(path)
        owned = client is None
        client = client if client is not None else Etcd3Client(**{"timeout": ANSWER_WITHIN, **connect_args})
        server = _Etcd(client, f"{self._path}/", owned or close_connection_on_exit, user, password)
        super().__init__(server, _Leases(server), serializer, server_time)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> EtcdJobStore:
        """Return the store that a URL names: ``etcd://user:password@host:port/path``, or ``etcds`` for TLS."""
        return cls(url=url, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (path={self._path})>"


class _Etcd:
    """etcd as the store needs it."""

    most_changes = 128
    most_bytes = 1_000_000

    def __init__(self, client: Etcd3Client, prefix: str, closes: bool, user: str, password: str) -> None:
        self._client = client
        self._prefix = prefix
        self._closes = closes
        self._login = {"name": user, "password": password} if user else None
        self._watch: _Watch | None = None

    def open(self) -> None:
        address = self._client.base_url
        try:
            found = self._client.session.get(f"{address}/version", timeout=CONNECT_WITHIN)
        except requests.exceptions.SSLError as error:
            raise GoSchedulerError(f"etcd at {address} cannot be trusted, or speaks no TLS; check ca_cert") from error
        except requests.RequestException as error:
            raise StoreUnavailable(f"no etcd answers at {address}: {type(error).__name__}") from error
        try:
            version = str(found.json()["etcdserver"])
        except (ValueError, KeyError, TypeError) as error:
            raise GoSchedulerError(f"what answers at {address} is no etcd") from error
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < OLDEST_SERVER:
            raise GoSchedulerError(f"etcd {version} at {address} is too old; 3.4 or later is needed")
        if self._login is not None:
            self._authenticate()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._closes:
            self._client.session.close()

    def abandon(self) -> None:
        self._watch = None
        self._client.session.close()

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
        while batch := list(islice(rest, self.most_changes)):
            answer = self.post("kv/txn", {"success": [{"request_range": wanted} for wanted in batch]})
            for response in answer["responses"]:
                yield response["response_range"].get("kvs", [])

    def commit(self, step: Step) -> bool:
        compare = [self._exists(key, False) for key in step.created]
        compare += [self._exists(key, True) for key in step.checked]
        for key, (_, version) in step.replaced.items():
            compare.append(self._exists(key, True) if version is None else self._is(key, version))
        for key, version in step.deleted.items():
            compare.append(self._exists(key, True) if version is None else self._is(key, version))
        values = {**step.created, **{key: value for key, (value, _) in step.replaced.items()}, **step.put}
        success = [{"request_put": {"key": self._encoded(key), "value": _text64(values[key])}} for key in values]
        success += [{"request_delete_range": {"key": self._encoded(key)}} for key in step.deleted]
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
        try:
            url = self._client.get_url("watch")  # asks the server which version of its interface it has
        except (requests.RequestException, Etcd3Exception) as error:
            raise self._unanswered(error) from error
        self._watch = _Watch(self._client.session, url, self._encoded(BELL), heard)
        self._watch.start()

    def post(self, path: str, payload: dict[str, Any]) -> Any:
        """Ask the server, once. Whoever had to prove who he is does so again when that is forgotten."""
        answer = self._ask(path, payload)
        if answer.status_code == _TOKEN_EXPIRED and self._login is not None:
            self._authenticate()
            answer = self._ask(path, payload)
        if answer.status_code == _DONE:
            return answer.json()
        error = StoreUnavailable if answer.status_code in _LATER else GoSchedulerError
        raise error(f"etcd at {self._client.base_url} refused: {answer.text[:300]}")

    def _ask(self, path: str, payload: dict[str, Any]) -> Any:
        try:
            return self._client.session.post(
                self._client.get_url(path), data=json.dumps(payload), timeout=(CONNECT_WITHIN, ANSWER_WITHIN)
            )
        except (requests.RequestException, Etcd3Exception) as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"etcd at {self._client.base_url} did not answer: {type(error).__name__}")

    def _authenticate(self) -> None:
        self._client.session.headers.pop("Authorization", None)
        answer = self._ask("auth/authenticate", self._login or {})
        if answer.status_code != _DONE:
            raise GoSchedulerError(f"etcd at {self._client.base_url} does not accept this user and password")
        self._client.session.headers["Authorization"] = answer.json()["token"]

    def _encoded(self, key: Key) -> str:
        return base64.b64encode(self._whole(key)).decode()

    def _whole(self, key: Key) -> bytes:
        return f"{self._prefix}{'/'.join(key)}".encode()


class _Leases:
    """Owners on leases of the server. Where they are, or were, is kept beside it."""

    def __init__(self, server: _Etcd) -> None:
        self._server = server
        self._leases: dict[str, int] = {}

    def beat(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
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
            step = Step()
            step.delete(("hosts", name))
            if self._server.commit(step):
                given_up[name] = hosts[name].value
        return given_up

    def stop(self, name: str) -> None:
        """Give a lease back."""
        lease = self._leases.pop(name, None)
        step = Step()
        step.delete(("hosts", name))
        self._server.commit(step)
        if lease is not None:
            self._server.post("lease/revoke", {"ID": lease})


class _Watch(threading.Thread):
    """Hears the bell on a connection of its own, and takes another when that breaks."""

    def __init__(self, session: Any, url: str, key: str, heard: Callable[[str], None]) -> None:
        super().__init__(name="goscheduler-etcd-watch", daemon=True)
        self._session = session
        self._url = url
        self._request = json.dumps({"create_request": {"key": key}})
        self._heard = heard
        self._stopping = threading.Event()
        self._response: Any = None

    def run(self) -> None:
        """Listen until told to stop."""
        while not self._stopping.is_set():
            with suppress(requests.RequestException, ValueError, KeyError, AttributeError):
                self._listen()
            self._stopping.wait(1.0)

    def _listen(self) -> None:
        timeouts = CONNECT_WITHIN, SILENCE
        with self._session.post(self._url, data=self._request, stream=True, timeout=timeouts) as response:
            self._response = response
            for line in response.iter_lines():
                if self._stopping.is_set():
                    return
                self._hear(json.loads(line)["result"] if line.strip() else {})

    def _hear(self, result: dict[str, Any]) -> None:
        if result.get("created"):
            self._heard("")  # whatever was missed before
        for event in result.get("events", ()):
            self._heard(base64.b64decode(event["kv"].get("value", "")).decode("utf-8", "replace"))

    def stop(self) -> None:
        """Listen no more."""
        self._stopping.set()
        with suppress(OSError, AttributeError):
            connection = socket.socket(fileno=os.dup(self._response.raw.fileno()))
            with connection:
                connection.shutdown(socket.SHUT_RDWR)


def _found(kv: dict[str, Any]) -> Found:
    value = base64.b64decode(kv.get("value", "")).decode("utf-8", "surrogateescape")
    return Found(value, int(kv["mod_revision"]))


def _text64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
