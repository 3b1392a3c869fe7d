"""Locks in Redis: one hash a name, changed by scripts, timed by the clock of the server.

The hash ``{prefix}:locks:<name>`` has ``token``, ``fence`` and ``expires`` (microseconds since 1970, 0 when it was
released). It outlives the holder for its fence; Redis forgets it when it is old, see :mod:`goscheduler.locks.base`.

Redis writes to its replicas afterwards. A lock that was granted just before a failover may be granted again by the new
master; the fence is then still a higher one, because it is not less than the time.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

import redis

from goscheduler._drivers.redis import check_prefix, close_client, forget_connections, sibling
from goscheduler.errors import GoSchedulerError, StoreUnavailable
from goscheduler.locks.base import LockBackend, key_of
from goscheduler.times import SECOND

DEFAULT_PREFIX = "goscheduler"

_BEGIN = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local row = redis.call('HMGET', KEYS[1], 'token', 'fence', 'expires')
local ours = row[1] == ARGV[1]
local expires = tonumber(row[3] or '0')
local fence = tonumber(row[2] or '0')
local function keep(kept)
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', (math.max(now, fence, expires) + kept) / 1000))
end
"""
_ACQUIRE = f"""{_BEGIN}
if expires > now and not ours then return false end
if not ours or expires == 0 then fence = math.max(fence + 1, now) end
local text = string.format('%.0f', fence)
expires = now + ARGV[3]
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'fence', text, 'expires', string.format('%.0f', expires))
keep(ARGV[2])
return text
"""
_RELEASE = f"""{_BEGIN}
if not ours or (expires > 0 and expires <= now) then return 0 end
expires = 0
redis.call('HSET', KEYS[1], 'expires', '0')
keep(ARGV[2])
return 1
"""
_EXTEND = f"""{_BEGIN}
if not ours or expires <= now then return 0 end
expires = now + ARGV[3]
redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', expires))
keep(ARGV[2])
return 1
"""
_DIGESTS = {
    script: hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest() for script in (_ACQUIRE, _RELEASE, _EXTEND)
}
_LOST = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.MasterDownError,
)
#: The deadlines that there are connections for.
_DEADLINES = (5.0, 2.0, 1.0)


class RedisLocks(LockBackend):
    """Keeps locks under keys that begin with ``{prefix}:locks:``.

    Only the settings of ``client`` are used: locks have connections of their own, with deadlines, on which nothing is
    sent twice. A client of a cluster is used as it is.
    """

    def __init__(self, client: Any, prefix: str = DEFAULT_PREFIX, *, owns_client: bool = False) -> None:
        self._client = client
        self._keys = f"{{{check_prefix(prefix)}}}:locks:"
        self._owns_client = owns_client

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        fence = self._call(_ACQUIRE, name, within, token, round(ttl * SECOND))
        return None if fence is None else int(fence)

    def release(self, name: str, token: str, within: float) -> bool:
        return bool(self._call(_RELEASE, name, within, token))

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        return bool(self._call(_EXTEND, name, within, token, round(ttl * SECOND)))

    @property
    def server(self) -> Hashable:
        return id(self._client)

    def close(self) -> None:
        for client in _close_connections(self._client):
            close_client(client)
        if self._owns_client:
            close_client(self._client)

    def _call(self, script: str, name: str, within: float, token: str, *ttl: int) -> Any:
        client = _with_deadline(self._client, within)
        key = self._keys + key_of(name)
        arguments = token, round(self.kept * SECOND), *ttl
        try:
            try:
                return client.evalsha(_DIGESTS[script], 1, key, *arguments)
            except redis.exceptions.NoScriptError:  # nothing was done; the server keeps the script from now on
                return client.eval(script, 1, key, *arguments)
        except redis.AuthenticationError as error:
            raise GoSchedulerError(f"Redis refuses the password or user name: {error}") from None
        except _LOST as error:
            if isinstance(error, redis.ReadOnlyError):
                forget_connections(client)
            raise StoreUnavailable(f"Redis did not answer: {error}") from error


_guard = threading.Lock()
_connections: WeakKeyDictionary[Any, dict[float, Any]] = WeakKeyDictionary()


def _with_deadline(client: Any, within: float) -> Any:
    """Return a client for the same server that waits no longer, and sends nothing twice."""
    seconds = next((each for each in _DEADLINES if each <= within), _DEADLINES[-1])
    with _guard:
        clients = _connections.setdefault(client, {})
        if seconds not in clients:
            made = sibling(client, socket_timeout=seconds, socket_connect_timeout=seconds)
            if made is None:
                return client
            clients[seconds] = made
        return clients[seconds]


def _close_connections(client: Any) -> list[Any]:
    with _guard:
        return list(_connections.pop(client, {}).values())


def of_store(store: Any) -> LockBackend:
    """Return the locks under the prefix of a job store."""
    return RedisLocks(store.redis, store.prefix)


def of_url(store: Any) -> LockBackend:
    """Return the locks under the prefix of a job store that was made for nothing else."""
    return RedisLocks(store.redis, store.prefix, owns_client=True)


def of_client(client: Any) -> LockBackend:
    """Return the locks under the usual prefix."""
    return RedisLocks(client)
