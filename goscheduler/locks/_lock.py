"""An acquired lock, and the time for which its holder may trust it.

What counts is the clock of the server; on this side the holder trusts his lock from the moment *before* the request was
sent, for its length less an allowance for clocks that run at different speeds. So a slow answer shortens the trust, and
a process that stood still has lost it when it wakes.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Protocol

from goscheduler.clock import Clock
from goscheduler.errors import InvalidArgument, LockLost, StoreUnavailable, described, shown
from goscheduler.locks.base import LockBackend, call_seconds
from goscheduler.logs import guarded_logger
from goscheduler.times import parse_duration

logger = guarded_logger("goscheduler.locks")

#: How much earlier than the server the holder takes the time to be over: a share of it, and at least so many seconds.
DRIFT = 0.01
LEAST_DRIFT = 0.005
MIN_TTL_SECONDS = 0.1
MAX_TTL_SECONDS = 366 * 86400.0


class Keeper(Protocol):
    """Who renews locks."""

    def add(self, lock: Lock, clock: Clock) -> None:
        """Renew a lock from now on, a part of its time from now for the first time."""

    def drop(self, lock: Lock) -> None:
        """Renew a lock no more."""


class Lock:
    """A lock that was acquired. As a context manager it is released at the end of the block.

    ``name``, ``fence`` (shown to whatever is written to under the lock), ``token`` (a secret) and ``ttl`` in seconds do
    not need the server. ``lost`` is a :class:`threading.Event`, set when the server says that somebody else may have
    the lock, or when it could not be renewed in time.
    """

    def __init__(self, backend: LockBackend, name: str, token: str, fence: int, ttl: float, asked_at: float) -> None:
        self.name = name
        self.token = token
        self.fence = fence
        self.ttl = ttl
        self.lost = threading.Event()
        self._backend = backend
        self._guard = threading.Lock()
        self._extending = threading.Lock()  # held over a call: the last answer must be that to the last request
        self._trusted_until = asked_at + trusted_seconds(ttl)
        self._released = False
        self._process = os.getpid()
        self._keeper: Keeper | None = None

    @property
    def held(self) -> bool:
        """Whether the lock is certainly ours at this moment, as far as clocks go; it needs no answer of the server."""
        return self._ours and not self.lost.is_set() and self._backend.clock.monotonic() < self._trusted_until

    @property
    def _ours(self) -> bool:
        # A forked child has a copy of this object, and not the lock: that is its parent's.
        return not self._released and self._process == os.getpid()

    def check(self) -> None:
        """Raise :class:`~goscheduler.errors.LockLost` unless the lock is held."""
        if not self.held:
            raise LockLost(self.name, self.fence)

    def extend(self, ttl: Any = None) -> bool:
        """Let the lock last ``ttl`` seconds from now, or as long as it was acquired for. False if it is not ours.

        :raises StoreUnavailable: if the server did not answer; the lock may last as before, or as was asked for
        """
        wanted = None if ttl is None else check_ttl(ttl)
        with self._extending:
            extended = self._ours and not self.lost.is_set() and self._extend(self.ttl if wanted is None else wanted)
        if extended and wanted is not None and self._keeper is not None:  # it may now have to be renewed sooner
            self._keeper.add(self, self._backend.clock)
        return extended

    def _extend(self, seconds: float) -> bool:
        asked_at = self._backend.clock.monotonic()
        try:
            extended = self._backend.extend(self.name, self.token, seconds, call_seconds(min(seconds, self.ttl)))
        except StoreUnavailable:
            with self._guard:  # it may have been done, and the new time may be the shorter one
                self._trusted_until = min(self._trusted_until, asked_at + trusted_seconds(seconds))
            raise
        if not extended:
            if not self._released:  # meanwhile, by another thread
                self.lost.set()
            return False
        with self._guard:
            self.ttl = seconds
            self._trusted_until = asked_at + trusted_seconds(seconds)
        return True

    def release(self) -> bool:
        """Make the lock free. False if it is not ours, because its time was over or it was released before.

        :raises StoreUnavailable: if the server did not answer, twice; the lock then ends when its time is over
        """
        with self._guard:
            if not self._ours:
                return False
            still_ours = not self.lost.is_set()
            self._released = True
        if self._keeper is not None:
            self._keeper.drop(self)
        within = call_seconds(self.ttl)
        try:
            return self._backend.release(self.name, self.token, within)
        except StoreUnavailable:
            # Who finds it gone while nobody else can have taken it has released it the first time.
            again = self._backend.release(self.name, self.token, within)
            return again or (still_ours and self._backend.clock.monotonic() < self._trusted_until)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._ours:
            return
        was_held = self.held
        try:
            released = self.release()
        except StoreUnavailable as problem:
            logger.warning("The lock %s could not be released; it expires within %g s: %s", shown(self.name), self.ttl,
                           described(problem))  # fmt: skip
            released = was_held
        if released:
            return
        if error is None:
            raise LockLost(self.name, self.fence)
        logger.warning("The lock %s was lost before the block under it ended", shown(self.name))

    def __repr__(self) -> str:
        return f"<Lock {shown(self.name)}, fence {self.fence}, {'held' if self.held else 'not held'}>"


def trusted_seconds(ttl: float) -> float:
    """Return for how long after asking for it a lock of this length can be trusted."""
    return ttl - max(ttl * DRIFT, LEAST_DRIFT)


def check_ttl(value: Any) -> float:
    """Return how long a lock lasts, in seconds, or raise."""
    seconds = parse_duration(value).total_seconds()
    if not MIN_TTL_SECONDS <= seconds <= MAX_TTL_SECONDS:
        raise InvalidArgument(
            f"ttl must be between {MIN_TTL_SECONDS:g} seconds and {MAX_TTL_SECONDS / 86400:g} days, got {shown(value)}",
            field="ttl",
            value=value,
        )
    return seconds
