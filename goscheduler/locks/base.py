"""The port of locks: what a server has to do for them, and how names become keys.

**Terms.** A *token* is a secret that is made up for one acquisition; whoever shows it is the holder. A *fence* is a
number that is given to every acquisition of a name and only grows, whatever has become of the earlier holders. A lock
is *free* if it was never taken, was released, or its time is over by the clock of the server.

**What every backend promises.** Each method is one atomic step on the server. The fence outlives the holder: it is not
forgotten when a lock is released or ends. Where the server has a clock, the fence is not less than its time in
microseconds, so that it grows even after the server was put back to an older copy of its data.

**Old names.** A name is forgotten when its lock has been free for :attr:`LockBackend.kept` seconds and its fence is
that much older than the present: the next fence is then higher without it, because it is not less than the time. A
fence from a clock that was ahead keeps its name until that time has come.

**Who has a lock.** Behind its secret part a token names the machine and the process of the holder, so that a list of
locks can tell who has them. :meth:`LockBackend.break_lock` ends a lock for its holder: nobody knows the token that the
server has after that.

**Lost answers.** A call that is not answered raises :class:`~goscheduler.errors.StoreUnavailable`: what was asked may
have been done. Each method may therefore be called again with the same token: :meth:`LockBackend.try_acquire` then
gives the fence of the first time, and :meth:`LockBackend.release` says again that the lock was released, if the server
can know. A crash between any two calls leaves at most a lock that ends when its time is over.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

from goscheduler.clock import SYSTEM_CLOCK, Clock

#: How long one call may take at most, in seconds, however long the lock lasts.
LONGEST_CALL = 5.0
#: What a call is given at least, however short the lock is. On a busy machine a shorter limit would cut connections to
#: servers that are well.
LEAST_CALL = 1.0
LONGEST_KEY = 200
LONGEST_TOKEN = 64
#: For how many seconds a name is kept after its lock has ended.
KEPT = 7 * 86400.0


class HeldLock(NamedTuple):
    """A lock that somebody has."""

    name: str
    """Its name; that of a lock whose name is too long for a key is the key, which names it as well."""
    fence: int
    until: datetime
    """When it ends unless it is extended; aware."""
    holder: str
    """The machine and the process that have it, as ``host:pid``; empty if its token does not tell."""


class LockBackend(ABC):
    """Keeps locks on one server. ``within`` is how many seconds a call may take."""

    clock: Clock = SYSTEM_CLOCK
    """Measures how long a lock has been held, on this side."""
    kept: float = KEPT

    @abstractmethod
    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        """Take a lock that is free for ``ttl`` seconds, and return its fence; None if somebody else has it.

        If the token is that of the holder already, its time begins anew and the fence is the same as before.
        """

    @abstractmethod
    def release(self, name: str, token: str, within: float) -> bool:
        """Make a lock free; false, and nothing is changed, if the token is not, or is no longer, that of the holder."""

    @abstractmethod
    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        """Let a lock last ``ttl`` seconds from now on; false if the token is not, or is no longer, the holder's."""

    @abstractmethod
    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        """Return at most ``limit`` locks that somebody has and whose names begin with ``prefix``, ascending by key."""

    @abstractmethod
    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        """Make a lock free that somebody has under this fence; false, and nothing is changed, if nobody has.

        ``name`` is the name of the lock, or the one under which it was listed. The holder has lost it.
        """

    def sweep(self, within: float) -> None:  # noqa: B027 - a server that forgets names by itself has nothing to do
        """Forget some of the names whose lock ended more than :attr:`kept` seconds ago. Asked for now and then."""

    def pause(self, name: str, seconds: float) -> None:
        """Wait before a lock is tried again: for so long, or less if the backend hears that it became free."""
        threading.Event().wait(seconds)

    @property
    def server(self) -> Hashable:
        """What stands still together: locks of one server are renewed by one thread."""
        return id(self)

    def close(self) -> None:  # noqa: B027 - one that was given its client has nothing to let go of
        """Let go of connections that the backend has made itself."""


def call_seconds(ttl: float) -> float:
    """Return how long a call about a lock of this length may take: a third of it, within fixed bounds.

    For a short lock that may be more than its whole time. The holder is still safe, because it counts the time of its
    lock from before it asked.
    """
    return max(LEAST_CALL, min(LONGEST_CALL, ttl / 3))


def key_of(name: str) -> str:
    """Return a name as a key that every server takes: printable ASCII, not too long, different for different names."""
    key = key_prefix(name)
    if len(key) <= LONGEST_KEY:
        return key
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{key[: LONGEST_KEY - len(digest) - 1]}~{digest}"


def key_prefix(prefix: str) -> str:
    """Return what the keys begin with of names that begin with ``prefix``; of long names, what a key keeps counts."""
    key = quote(prefix, safe=":", errors="surrogatepass").replace("~", "%7E")
    # A path would be read as this folder, or the one above.
    return f"%2E{key[1:]}" if key.startswith(".") else key


_IS_CUT = re.compile(rf"(?=.{{{LONGEST_KEY}}}$)[^~]*~[0-9a-f]{{64}}")


def name_of(key: str) -> str:
    """Return the name that a lock is listed under: its own or, if that was too long for a key, the key."""
    return key if _IS_CUT.fullmatch(key) else unquote(key, errors="surrogatepass")


def key_listed_as(name: str) -> str:
    """Return the key of a lock by its own name, or by the name under which it was listed."""
    return name if _IS_CUT.fullmatch(name) else key_of(name)


def new_token() -> str:
    """Return a secret that nobody has, and who asked for it."""
    host = socket.gethostname().encode("ascii", "replace").decode()
    secret, process = secrets.token_hex(16), f":{os.getpid()}"
    return f"{secret}@{host[: LONGEST_TOKEN - len(secret) - len(process) - 1]}{process}"


def holder_of(token: str) -> str:
    """Return who asked for a token, without the secret."""
    return token.partition("@")[2]
