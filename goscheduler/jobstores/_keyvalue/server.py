"""What the stores on etcd and ZooKeeper need of a server: ordered names, values, and steps that happen whole or not.

**Keys** are tuples of words: ``("due", queue, name)``. A folder is a key without its last word. Words are made of
letters, digits and ``%_-`` only, with dots between several in one name; what users name is turned into a word by
:func:`escape`.

**Steps.** All changes of one step are made together or not at all, and each of them says what it expects to find:
what is created must not exist, and what is deleted, replaced or checked must. No step relies on a value that may have
gone away and come back: every entry that stands for a state of something (see ``rows``) has a word in its name
that is never used twice, and whoever changes the state deletes that entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote
from uuid import uuid4

from goscheduler.errors import InvalidArgument

Key = tuple[str, ...]

#: Rung by whoever has written something that others should look at.
NOTIFY_KEY: Key = ("bell",)

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LAST_TIME = 10**18 - 1


class Found(NamedTuple):
    """A value that a server holds."""

    value: str
    version: int
    """Changes whenever the value is replaced."""


class Span(NamedTuple):
    """Some of the names in a folder, in their order."""

    folder: Key
    limit: int | None = None
    first: str = ""
    """Names from this one on."""
    last: str | None = None
    """Names before this one."""

    @classmethod
    def of_prefix(cls, folder: Key, prefix: str) -> Span:
        """Return the names that begin with a word and a dot."""
        return cls(folder, None, f"{prefix}.", f"{prefix}/")

    def has(self, name: str) -> bool:
        return self.first <= name and (self.last is None or name < self.last)


class Transaction:
    """Changes that are made together or not at all."""

    __slots__ = ("bytes", "checked", "created", "deleted", "put", "replaced")

    def __init__(self) -> None:
        self.created: dict[Key, str] = {}
        self.replaced: dict[Key, tuple[str, int | None]] = {}
        """Key → its new value, and the version that it must have had, if that matters."""
        self.deleted: dict[Key, int | None] = {}
        """Key → the version that it must have had, if that matters."""
        self.checked: set[Key] = set()
        self.put: dict[Key, str] = {}
        """Written whether it was there or not."""
        self.bytes = 0

    def create(self, key: Key, value: str = "") -> None:
        """Write what must not exist."""
        self.created[key] = value
        self.bytes += _weight(key, value)

    def replace(self, key: Key, value: str, version: int | None = None) -> None:
        """Overwrite what must exist."""
        self.replaced[key] = value, version
        self.bytes += _weight(key, value)

    def delete(self, key: Key, version: int | None = None) -> None:
        """Remove what must exist."""
        self.deleted[key] = version
        self.bytes += _weight(key, "")

    def check(self, key: Key) -> None:
        """Demand that something exists."""
        self.checked.add(key)
        self.bytes += _weight(key, "")

    def notify(self, instance_id: str) -> None:
        """Have others told that there is something new."""
        self.put[NOTIFY_KEY] = f"{instance_id} {new_token()}"

    def add(self, other: Transaction) -> None:
        """Take over the changes of another step."""
        self.created.update(other.created)
        self.replaced.update(other.replaced)
        self.deleted.update(other.deleted)
        self.checked |= other.checked
        self.put.update(other.put)
        self.bytes += other.bytes

    @property
    def values(self) -> dict[Key, str]:
        """All values that are written."""
        return {**self.created, **{key: value for key, (value, _) in self.replaced.items()}, **self.put}

    def settle(self) -> None:
        """Drop checks of what is changed by the same step: that says as much."""
        self.checked -= self.replaced.keys() | self.deleted.keys() | self.created.keys()

    def __len__(self) -> int:
        return len(self.created) + len(self.replaced) + len(self.deleted) + len(self.checked) + len(self.put)


class KeyValue(Protocol):
    """A server. Every call has a deadline, and is made once.

    One that is not answered raises :class:`~goscheduler.errors.StoreUnavailable`: what was asked may have happened.
    """

    max_changes: int
    """How many changes one step may have."""
    max_bytes: int
    """How large one step may be."""

    def open(self) -> None:
        """Connect, and make what has to be there."""

    def close(self) -> None:
        """Let go of everything that :meth:`open` took."""

    def abandon(self) -> None:
        """Forget connections that belong to the parent of this forked process."""

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        """Return the values of some keys."""

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        """Return the names in some folders, each list in ascending order."""

    def commit(self, transaction: Transaction) -> bool:
        """Make all changes of a step; false, and nothing was changed, if something was not as expected."""

    def ensure(self, key: Key) -> None:
        """Create an empty value unless there is one."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call ``heard`` with what the bell was rung with, from now on until the server is closed."""


class Heartbeats(Protocol):
    """Who is alive."""

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Note that ``name`` lives for so many seconds from now on. False if it was ``known`` and is known no more."""

    def alive(self, now: datetime) -> dict[str, str]:
        """Return name → text of those whose time is not over."""

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget those whose time is over; return name → text of those that this call has forgotten."""

    def stop(self, name: str) -> None:
        """Forget one."""


def escape(name: str) -> str:
    """Return a word for what somebody has named: of plain letters, with which no server does anything."""
    if _PLAIN.fullmatch(name):
        return name
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")


def unescape(escape: str) -> str:
    """Return the name that a word stands for."""
    return unquote(escape, errors="surrogatepass")


def new_token() -> str:
    """Return a word that was never used before."""
    return uuid4().hex[:16]


def encode_time(microseconds: int) -> str:
    """Return a moment as a word; words are in the order of the moments."""
    return f"{min(max(microseconds, 0), _LAST_TIME):018d}"


def encode_time_descending(microseconds: int) -> str:
    """Return a moment as a word; words are in the opposite order of the moments."""
    return f"{_LAST_TIME - min(max(microseconds, 0), _LAST_TIME):018d}"


def decode_time(name: str) -> int:
    """Return the moment whose word a name begins with."""
    return int(name[:18])


def read_all(server: KeyValue, folder: Key) -> Iterator[tuple[str, Found]]:
    """Yield every name in a folder with what it holds."""
    names = server.names([Span(folder)])[0]
    for start in range(0, len(names), 100):
        batch = names[start : start + 100]
        for name, found in zip(batch, server.read([(*folder, name) for name in batch]), strict=True):
            if found is not None:
                yield name, found


def check_size(what: str, value: str, most: int) -> None:
    """Raise if a value is larger than the server takes.

    :raises InvalidArgument: with both numbers
    """
    size = len(value.encode("utf-8", "surrogateescape"))
    if size > most:
        raise InvalidArgument(f"{what} takes {size} bytes, and this job store keeps at most {most}", field="job")


def _weight(key: Key, value: str) -> int:
    return 80 + sum(map(len, key)) + len(value)
