"""Locks in Redis: one hash a name, changed by scripts, timed by the clock of the server.

The hash ``{prefix}:locks:<name>`` has ``token``, ``fence`` and ``expires`` (microseconds since 1970, 0 when it was
released). It outlives the holder for its fence; Redis forgets it when it is old, see :mod:`goscheduler.locks.base`.
The sorted set ``{prefix}:locks`` has the names of the locks that are held, by the time when they end.

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
from goscheduler.times import SECOND, UTC, from_micros

DEFAULT_PREFIX = "goscheduler"

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function held(key)
  local row = redis.call('HMGET', key, 'token', 'fence', 'expires')
  return row[1], tonumber(row[2] or '0'), tonumber(row[3] or '0')
end
"""
_ONE = f"""{_NOW}
local token, fence, expires = held(KEYS[1])
local ours = token == ARGV[1]
local function keep(kept)
  if expires > 0 then
    redis.call('ZADD', KEYS[2], expires, ARGV[3])
    local left = redis.call('PTTL', KEYS[2])
    if now / 1000 + left < expires / 1000 then
      redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', expires / 1000 + 1))
    end
  else
    redis.call('ZREM', KEYS[2], ARGV[3])
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', (math.max(now, fence, expires) + kept) / 1000))
end
"""
_ACQUIRE = f"""{_ONE}
if expires > now and not ours then return false end
if not ours or expires == 0 then fence = math.max(fence + 1, now) end
local text = string.format('%.0f', fence)
expires = now + ARGV[4]
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'fence', text, 'expires', string.format('%.0f', expires))
keep(ARGV[2])
return text
"""
_RELEASE = f"""{_ONE}
if not ours or (expires > 0 and expires <= now) then return 0 end
expires = 0
redis.call('HSET', KEYS[1], 'expires', '0')
keep(ARGV[2])
return 1
"""
_EXTEND = f"""{_ONE}
if not ours or expires <= now then return 0 end
expires = now + ARGV[4]
redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', expires))
keep(ARGV[2])
return 1
"""
_BREAK = f"""{_ONE}
if expires <= now or string.format('%.0f', fence) ~= ARGV[4] then return 0 end
expires = 0
redis.call('HSET', KEYS[1], 'expires', '0', 'token', ARGV[1])
keep(ARGV[2])
return 1
"""
_LIST = f"""{_NOW}
local names = {{}}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')) do
  if string.sub(name, 1, #ARGV[1]) == ARGV[1] then names[#names + 1] = name end
end
table.sort(names)
local found = {{}}
for _, name in ipairs(names) do
  local token, fence, expires = held(KEYS[1] .. ':' .. name)
  if #found == tonumber(ARGV[2]) then break end
  if expires > now then
    found[#found + 1] = {{name, string.format('%.0f', fence), string.format('%.0f', expires), token}}
  end
end
return found
"""
_DIGESTS = {
    script: hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    for script in (_ACQUIRE, _RELEASE, _EXTEND, _BREAK, _LIST)
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
        self._index = f"{{{check_prefix(prefix)}}}:locks"
        self._keys = f"{self._index}:"
        self._owns_client = owns_client

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        fence = self._change(_ACQUIRE, key_of(name), within, token, round(ttl * SECOND))
        return None if fence is None else int(fence)

    def release(self, name: str, token: str, within: float) -> bool:
        return bool(self._change(_RELEASE, key_of(name), within, token))

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        return bool(self._change(_EXTEND, key_of(name), within, token, round(ttl * SECOND)))

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        found = self._call(_LIST, within, [self._index], key_prefix(prefix), limit)
        texts = [[part if isinstance(part, str) else part.decode() for part in row] for row in found]
        return [
            HeldLock(name_of(key), int(fence), from_micros(int(expires), UTC), holder_of(token))
            for key, fence, expires, token in texts
        ]

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        return bool(self._change(_BREAK, key_listed_as(name), within, new_token(), str(fence)))

    @property
    def server(self) -> Hashable:
        return id(self._client)

    def close(self) -> None:
        for client in _close_connections(self._client):
            close_client(client)
        if self._owns_client:
            close_client(self._client)

    def _change(self, script: str, key: str, within: float, token: str, *arguments: object) -> Any:
        keys = [self._keys + key, self._index]
        return self._call(script, within, keys, token, round(self.kept * SECOND), key, *arguments)

    def _call(self, script: str, within: float, keys: list[str], *arguments: Any) -> Any:
        client = _with_deadline(self._client, within)
        try:
            try:
                return client.evalsha(_DIGESTS[script], len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:  # nothing was done; the server keeps the script from now on
                return client.eval(script, len(keys), *keys, *arguments)
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
