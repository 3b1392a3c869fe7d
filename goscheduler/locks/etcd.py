"""Locks in etcd: one key a name, on a lease of the server.

The key ``/goscheduler/locks/<name>`` has the token as its value; it vanishes with its lease, or when it is released.
The fence is the revision at which the key was created: etcd counts all changes of all keys with one number, so no key
has to outlive the holder. Leases last whole seconds, and at least two with etcd's usual settings: the holder of a
shorter lock loses it before others can take it.

etcd's own lock service is not used: the comparison in a transaction decides.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from goscheduler._drivers.etcd.calls import (
    Calls,
    Payload,
    decode,
    delete,
    encode,
    exists,
    get,
    has_value,
    put,
    succeeded,
)
from goscheduler._drivers.etcd.clients import wire_of
from goscheduler._drivers.urls import DEFAULT_PATH, check_path
from goscheduler.clock import Deadline
from goscheduler.errors import GoSchedulerError
from goscheduler.locks.base import (
    LONGEST_CALL,
    HeldLock,
    LockBackend,
    holder_of,
    key_listed_as,
    key_of,
    key_prefix,
    name_of,
)

#: How many seconds a call gets even when the calls before it have used up the deadline.
MIN_CALL_SECONDS = 0.05


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
        calls, key = _TimedCalls(self, within), self._key(name)
        if (found := _first(calls.post("kv/range", {"key": key}))) is None:
            lease = calls.grant(ttl)
            answer = calls.transact([exists(key, False)], [put(key, token, lease)], [get(key)])
            if succeeded(answer):
                return int(answer["header"]["revision"])
            calls.give_back(lease)
            found = _first(answer["responses"][0]["response_range"])
        if found is None or found["value"] != encode(token):
            return None
        return int(found["create_revision"]) if self._renew(calls, key, token, ttl) else None

    def release(self, name: str, token: str, within: float) -> bool:
        key = self._key(name)
        return succeeded(_TimedCalls(self, within).transact([has_value(key, token)], [delete(key)]))

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        return self._renew(_TimedCalls(self, within), self._key(name), token, ttl)

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        calls = _TimedCalls(self, within)
        first = self._prefix + key_prefix(prefix)
        end = f"{first[:-1]}{chr(ord(first[-1]) + 1)}"
        found = calls.post("kv/range", {"key": encode(first), "range_end": encode(end), "limit": limit})
        held = [(row, calls.seconds_left(int(row["lease"]))) for row in found.get("kvs", ())]
        now = self.clock.now()
        return [
            HeldLock(name_of(decode(row["key"]).removeprefix(self._prefix)), int(row["create_revision"]),
                     now + timedelta(seconds=left), holder_of(decode(row["value"])))
            for row, left in held
            if left >= 0
        ]  # fmt: skip

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        key = encode(self._prefix + key_listed_as(name))
        held = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": fence}
        return fence > 0 and succeeded(_TimedCalls(self, within).transact([held], [delete(key)]))

    def _renew(self, calls: _TimedCalls, key: str, token: str, ttl: float) -> bool:
        """Put the key on a new lease, because the old one may be of another length. The old lease ends by itself."""
        lease = calls.grant(ttl)
        if succeeded(calls.transact([has_value(key, token)], [put(key, token, lease)])):
            return True
        calls.give_back(lease)
        return False

    @property
    def server(self) -> Hashable:
        return id(self.wire.client)

    def close(self) -> None:
        if self._owns_client:
            self.wire.close()

    def _key(self, name: str) -> str:
        return encode(self._prefix + key_of(name))


class _TimedCalls(Calls):
    """Calls that share one deadline."""

    def __init__(self, locks: EtcdLocks, within: float) -> None:
        self._wire = locks.wire
        self._deadline = Deadline(locks.clock, within)

    def post(self, path: str, payload: Payload) -> Any:
        seconds = self._deadline.left(MIN_CALL_SECONDS) or MIN_CALL_SECONDS
        return self._wire.post(path, payload, (seconds, seconds))

    def seconds_left(self, lease: int) -> int:
        """Return how long a lease lasts; less than 0 if it has ended."""
        return int(self.post("lease/timetolive", {"ID": lease}).get("TTL", 0))

    def give_back(self, lease: int) -> None:
        """Revoke a lease that is not needed, unless that fails: it ends by itself."""
        with suppress(GoSchedulerError):
            self.revoke(lease)


def _first(answer: Payload) -> Payload | None:
    found = answer.get("kvs", [])
    return found[0] if found else None


def of_store(store: Any, owns_client: bool = False) -> LockBackend:
    """Return the locks under the path of a job store."""
    return EtcdLocks(store._server.wire, store._path, owns_client=owns_client)


def of_url(store: Any) -> LockBackend:
    """Return the locks under the path of a job store that was made for nothing else."""
    return of_store(store, owns_client=True)


def of_client(client: Any) -> LockBackend:
    """Return the locks under the usual path."""
    return EtcdLocks(client)
