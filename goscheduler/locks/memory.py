"""Locks among the threads of one process: for tests, also with mongomock, and for programs with one process."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.locks.base import (
    LONGEST_CALL,
    HeldLock,
    LockBackend,
    holder_of,
    key_listed_as,
    key_of,
    name_of,
    new_token,
)
from goscheduler.times import SECOND, UTC, from_micros, to_micros


class _Row(NamedTuple):
    token: str
    fence: int
    expires: float
    """0 if it was released."""


_FREE = _Row("", 0, 0.0)


class MemoryLocks(LockBackend):
    """Keeps locks in this object."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._freed = threading.Condition()
        self._rows: dict[str, _Row] = {}

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        now = self.clock.monotonic()
        with self._freed:
            row = self._rows.get(name, _FREE)
            if row.token == token and row.expires:
                fence = row.fence
            elif row.expires > now:
                return None
            else:
                fence = max(row.fence + 1, to_micros(self.clock.now()))
            self._rows[name] = _Row(token, fence, now + ttl)
            return fence

    def release(self, name: str, token: str, within: float) -> bool:
        with self._freed:
            row = self._rows.get(name, _FREE)
            if row.token != token or 0 < row.expires <= self.clock.monotonic():
                return False
            self._rows[name] = row._replace(expires=0.0)
            self._freed.notify_all()
            return True

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        now = self.clock.monotonic()
        with self._freed:
            row = self._rows.get(name, _FREE)
            if row.token != token or row.expires <= now:
                return False
            self._rows[name] = row._replace(expires=now + ttl)
            return True

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        monotonic, now = self.clock.monotonic(), to_micros(self.clock.now())
        with self._freed:
            held = [(key_of(name), row) for name, row in self._rows.items()
                    if row.expires > monotonic and name.startswith(prefix)]  # fmt: skip
        return [
            HeldLock(name_of(key), row.fence, from_micros(now + round((row.expires - monotonic) * SECOND), UTC),
                     holder_of(row.token))
            for key, row in sorted(held)[:limit]
        ]  # fmt: skip

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        key = key_listed_as(name)
        with self._freed:
            for each, row in self._rows.items():
                if key_of(each) == key and row.fence == fence and row.expires > self.clock.monotonic():
                    self._rows[each] = _Row(new_token(), fence, 0.0)
                    self._freed.notify_all()
                    return True
        return False

    def sweep(self, within: float) -> None:
        ended, fenced = self.clock.monotonic() - self.kept, to_micros(self.clock.now()) - self.kept * SECOND
        with self._freed:
            for name, row in list(self._rows.items()):
                if (not row.expires or row.expires < ended) and row.fence < fenced:
                    del self._rows[name]

    def pause(self, name: str, seconds: float) -> None:
        with self._freed:
            self._freed.wait(seconds)


_guard = threading.Lock()
_of_stores: WeakKeyDictionary[Any, MemoryLocks] = WeakKeyDictionary()


def of_client(client: Any) -> LockBackend:
    """Return the locks of a client of mongomock, also by its database or collection: their data is in this process."""
    kind = type(client).__name__  # any attribute of a database is a collection
    if kind == "Collection":
        client = client.database
    return of_store((client if kind == "MongoClient" else client.client)._store)


def of_store(store: Any) -> LockBackend:
    """Return the locks that belong to a store, and live as long as it does."""
    with _guard:
        locks = _of_stores.get(store)
        if locks is None:
            locks = _of_stores[store] = MemoryLocks()
        return locks
