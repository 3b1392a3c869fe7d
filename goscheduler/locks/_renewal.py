"""Renews locks in the background: one thread for each server that has such locks, which ends with the last of them.

There is a thread for each server rather than one for all, so that a server that stands still cannot cost the locks on
another one. A lock is renewed a third of its time after it was last; if the server does not answer it is tried again
until the lock cannot be trusted any more, and then it is lost.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from typing import Any

from goscheduler.clock import Clock
from goscheduler.errors import described, shown
from goscheduler.locks._lock import Lock, logger

#: The share of a lock's time after which it is renewed, and after which it is tried again when that failed.
RENEW_AFTER = 1 / 3
TRY_AGAIN_AFTER = 1 / 12


class Renewals:
    """Renews the locks of one server."""

    def __init__(self, server: Hashable) -> None:
        self._server = server
        self._changed = threading.Condition()
        self._due: dict[int, tuple[float, weakref.ref[Lock], Clock]] = {}
        """Number of a lock → when it is renewed next; the lock, unless nobody has it any more; its clock."""
        self._thread: threading.Thread | None = None

    def add(self, lock: Lock, clock: Clock) -> None:
        """Renew a lock from now on, until it is released, lost or forgotten by its holder."""
        with self._changed:
            self._due[id(lock)] = clock.monotonic() + lock.ttl * RENEW_AFTER, weakref.ref(lock), clock
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="goscheduler-locks", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify()

    def drop(self, lock: Lock) -> None:
        """Renew a lock no more."""
        with self._changed:
            self._due.pop(id(lock), None)
            self._changed.notify()

    def is_idle(self) -> bool:
        """Tell whether there is nothing to renew, and no thread."""
        with self._changed:
            return self._thread is None and not self._due

    def _run(self) -> None:
        while (number := self._next_due()) is not None:
            self._renew(number)
        _forget(self._server)

    def _next_due(self) -> int | None:
        """Wait until a lock has to be renewed, and return its number; None, and the thread ends, if there is none."""
        with self._changed:
            while True:
                self._due = {number: entry for number, entry in self._due.items() if entry[1]() is not None}
                if not self._due:
                    self._thread = None
                    return None
                number, (when, _, clock) = min(self._due.items(), key=lambda item: item[1][0])
                left = when - clock.monotonic()
                if left <= 0:
                    return number
                self._changed.wait(left)

    def _renew(self, number: int) -> None:
        with self._changed:
            entry = self._due.get(number)
        lock = None if entry is None else entry[1]()
        if entry is None or lock is None:
            return
        again = renew_once(lock)
        with self._changed:
            if self._due.get(number) is not entry:
                return  # it was released meanwhile, or extended
            if again is None:
                del self._due[number]
            else:
                self._due[number] = entry[2].monotonic() + again, entry[1], entry[2]


def renew_once(lock: Lock) -> float | None:
    """Renew a lock, and return in how many seconds to come back; None if it is ours no more."""
    try:
        if lock.extend():
            return lock.ttl * RENEW_AFTER
        _gone(lock, "somebody else may have it")
    except Exception as error:  # whatever a driver raises must not end the thread: other locks depend on it
        if not lock._ours:
            return None
        if lock.held:
            logger.warning("The lock %s could not be renewed; trying again: %s", shown(lock.name),
                           described(error))  # fmt: skip
            return lock.ttl * TRY_AGAIN_AFTER
        _gone(lock, described(error))
    return None


def _gone(lock: Lock, why: str) -> None:
    if lock._ours:  # and was not released meanwhile
        lock.lost.set()
        logger.error("The lock %s (fence %d) is lost: %s", shown(lock.name), lock.fence, why)


_guard = threading.Lock()
_all: dict[Hashable, Renewals] = {}
_of_the_parent: list[Any] = []


def keep(lock: Lock, server: Hashable, clock: Clock) -> None:
    """Renew a lock in the background for as long as it is held."""
    with _guard:
        renewals = _all.setdefault(server, Renewals(server))
        renewals.add(lock, clock)
        lock._keeper = renewals


def _forget(server: Hashable) -> None:
    with _guard:
        if server in _all and _all[server].is_idle():
            del _all[server]


def _after_fork() -> None:
    global _guard, _all
    _of_the_parent.append(_all)  # its locks may be taken, by threads that are not here
    _guard, _all = threading.Lock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
