"""Acquires a lock: tries, tries again while waiting, and asks the server when a response was lost."""

from __future__ import annotations

import math
from typing import Any

from goscheduler._chance import CHANCE
from goscheduler.clock import Deadline
from goscheduler.errors import GoSchedulerError, InvalidArgument, LockNotAcquired, StoreUnavailable, described, shown
from goscheduler.locks._find import backend_for
from goscheduler.locks._lock import Lock, check_ttl, logger
from goscheduler.locks._renewal import keep
from goscheduler.locks.base import LockBackend, call_seconds, new_token
from goscheduler.times import parse_duration

LONGEST_NAME = 255
#: Seconds before a lock that somebody else has is tried again: the first time, and at most.
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
#: In which share of all acquisitions old names are swept. It is left to chance, so that programs that acquire one lock
#: and end do their part.
SWEEPS = 0.001


def acquire(place: Any, name: str, ttl: Any = 60, *, wait: Any = None, renew: bool = False) -> Lock | None:
    """Return the lock ``name``, or None if somebody else has it.

    ``place`` is a job store, a client of a driver (``redis.Redis``, an engine of SQLAlchemy, a client, database or
    collection of PyMongo, a client of etcd3gw, etcd3 or kazoo), a URL as job stores take it, or a :class:`LockBackend`.
    The lock ends after ``ttl`` seconds unless it is extended; with ``renew`` a thread does that until it is released.
    With ``wait`` it is tried again for so many seconds; ``math.inf`` waits for ever. The holder itself is no exception:
    a lock cannot be acquired twice.

    :raises StoreUnavailable: if the server did not answer. If it got the request all the same, the lock is free again
        after ``ttl`` seconds
    :raises InvalidArgument: if name, ttl or wait make no sense
    """
    check_name(name)
    seconds = check_ttl(ttl)
    patience = _check_wait(wait)
    backend = backend_for(place)
    if CHANCE.random() < SWEEPS:
        _sweep(backend, seconds)
    found = _acquire(backend, name, seconds, patience)
    if found is not None and renew:
        try:
            keep(found, backend.server, backend.clock)
        except BaseException:  # there may be no thread to be had
            found.release()
            raise
    return found


def lock(place: Any, name: str, ttl: Any = 60, *, wait: Any = None, renew: bool = False) -> Lock:
    """Return the lock ``name``, as :func:`acquire` does, for a ``with`` statement.

    :raises LockNotAcquired: if somebody else has it, after ``wait`` seconds
    """
    found = acquire(place, name, ttl, wait=wait, renew=renew)
    if found is None:
        raise LockNotAcquired(name)
    return found


def _sweep(backend: LockBackend, ttl: float) -> None:
    try:
        backend.sweep(call_seconds(ttl))
    except GoSchedulerError as error:  # nobody waits for that; somebody else may have more luck
        logger.info("Names of locks that ended long ago could not be removed; they stay: %s", described(error))


def _acquire(backend: LockBackend, name: str, ttl: float, wait: float) -> Lock | None:
    token = new_token()
    deadline = Deadline(backend.clock, None if wait == math.inf else wait)
    pause = FIRST_PAUSE
    while True:
        found = _try(backend, name, token, ttl, deadline)
        left = deadline.left()
        if found is not None or left == 0.0:
            return found
        # Each waits for a different time, so that those who wait do not come all at once.
        backend.pause(name, min(CHANCE.uniform(pause / 2, pause), math.inf if left is None else left))
        pause = min(pause * 2, LONGEST_PAUSE)


def _try(backend: LockBackend, name: str, token: str, ttl: float, deadline: Deadline) -> Lock | None:
    """Try once; or twice, if the first answer was lost: the same token gets what it was given the first time.

    :raises StoreUnavailable: if there is no answer, and no time to wait for one
    """
    try:
        return _ask(backend, name, token, ttl)
    except StoreUnavailable:
        try:
            return _ask(backend, name, token, ttl)
        except StoreUnavailable:
            if deadline.left() == 0.0:
                raise
            return None


def _ask(backend: LockBackend, name: str, token: str, ttl: float) -> Lock | None:
    asked_at = backend.clock.monotonic()
    fence = backend.try_acquire(name, token, ttl, call_seconds(ttl))
    if fence is None:
        return None
    found = Lock(backend, name, token, fence, ttl, asked_at)
    if found.held:
        return found
    found.release()  # the answer took so long that the lock is over, or nearly
    raise StoreUnavailable(f"The lock {shown(name)} was granted too late: its time of {ttl:g} s was over")


def check_name(name: Any) -> None:
    """Raise unless this can be the name of a lock."""
    if not isinstance(name, str):
        raise TypeError(f"The name of a lock must be a string, got {type(name).__name__}")
    if not 0 < len(name) <= LONGEST_NAME:
        raise InvalidArgument(
            f"name must have 1 to {LONGEST_NAME} characters, got {len(name)}: {shown(name)}", field="name", value=name
        )


def _check_wait(value: Any) -> float:
    if value is None:
        return 0.0
    return math.inf if value == math.inf else parse_duration(value).total_seconds()
