"""Locks in etcd: one key a name, on a lease of the server.

The key ``/goscheduler/locks/<name>`` has the token as its value; it vanishes with its lease, or when it is released.
The fence is the revision at which it was created: etcd counts all changes of everything with one number, so it needs no
key of its own to outlive the holder. Leases last whole seconds, and at least two as etcd is usually set up: a lock of
less is free for others later than it should be, and no longer its holder's.

The lock of etcd itself is not used: what counts is the comparison in a transaction.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from goscheduler._drivers.etcd.clients import wire_of
from goscheduler._drivers.urls import DEFAULT_PATH, check_path
from goscheduler.clock import Deadline
from goscheduler.errors import GoSchedulerError
from goscheduler.locks.base import LockBackend, key_of

#: What a call is given at least, in seconds, when those before it have used up the time of a step.
_LEAST = 0.05


class EtcdLocks(LockBackend):
    """Keeps locks under keys that begin with ``path`` and ``/locks/``.

    ``login`` is a user name and a password for a client of etcd3gw; one of etcd3 has logged in by itself.
    """

    def __init__(
        self, client: Any, path: str = DEFAULT_PATH, *, login: tuple[str, str] | None = None, owns_client: bool = False
    ) -> None:
        self.wire = wire_of(client, login)
        self._prefix = f"{check_path(path)}/locks/"
        self._owns_client = owns_client

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        step = _Step(self, within)
        key = self._key(name)
        if (found := step.read(key)) is None:
            lease = step.grant(ttl)
            free = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": 0}
            put = {"request_put": {"key": key, "value": _encoded(token), "lease": lease}}
            answer = step.post("kv/txn", {"compare": [free], "success": [put], "failure": [_read(key)]})
            if answer.get("succeeded", False):
                return int(answer["header"]["revision"])
            step.revoke(lease)
            found = _first(answer["responses"][0]["response_range"])
        if found is None or found["value"] != _encoded(token):
            return None
        return int(found["create_revision"]) if self._prolong(step, key, token, ttl) else None

    def release(self, name: str, token: str, within: float) -> bool:
        key = self._key(name)
        payload = {"compare": [_is(key, token)], "success": [{"request_delete_range": {"key": key}}]}
        return bool(_Step(self, within).post("kv/txn", payload).get("succeeded", False))

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        return self._prolong(_Step(self, within), self._key(name), token, ttl)

    def _prolong(self, step: _Step, key: str, token: str, ttl: float) -> bool:
        """Put the key on a new lease: one that is there may be of another length. It ends by itself."""
        lease = step.grant(ttl)
        put = {"request_put": {"key": key, "value": _encoded(token), "lease": lease}}
        if step.post("kv/txn", {"compare": [_is(key, token)], "success": [put]}).get("succeeded", False):
            return True
        step.revoke(lease)
        return False

    @property
    def server(self) -> Hashable:
        return id(self.wire.client)

    def close(self) -> None:
        if self._owns_client:
            self.wire.close()

    def _key(self, name: str) -> str:
        return _encoded(self._prefix + key_of(name))


class _Step:
    """Calls that have one deadline together."""

    def __init__(self, locks: EtcdLocks, within: float) -> None:
        self._locks = locks
        self._deadline = Deadline(locks.clock, within)

    def post(self, path: str, payload: dict[str, Any]) -> Any:
        seconds = self._deadline.left(_LEAST) or _LEAST
        return self._locks.wire.post(path, payload, (seconds, seconds))

    def read(self, key: str) -> dict[str, Any] | None:
        return _first(self.post("kv/range", {"key": key}))

    def grant(self, ttl: float) -> int:
        return int(self.post("lease/grant", {"TTL": math.ceil(ttl), "ID": 0})["ID"])

    def revoke(self, lease: int) -> None:
        with suppress(GoSchedulerError):  # it ends by itself
            self.post("lease/revoke", {"ID": lease})


def _is(key: str, token: str) -> dict[str, Any]:
    return {"key": key, "target": "VALUE", "result": "EQUAL", "value": _encoded(token)}


def _read(key: str) -> dict[str, Any]:
    return {"request_range": {"key": key}}


def _first(answer: dict[str, Any]) -> dict[str, Any] | None:
    found = answer.get("kvs", [])
    return found[0] if found else None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def of_store(store: Any, owns_client: bool = False) -> LockBackend:
    """Return the locks under the path of a job store."""
    return EtcdLocks(store._server.wire, store._path, owns_client=owns_client)


def of_url(store: Any) -> LockBackend:
    """Return the locks under the path of a job store that was made for nothing else."""
    return of_store(store, owns_client=True)


def of_client(client: Any) -> LockBackend:
    """Return the locks under the usual path."""
    return EtcdLocks(client)
