"""What the stores on etcd and ZooKeeper need of a server: ordered names, values, and transactions.

**Keys** are tuples of names: ``("due", queue, name)``. A folder is a key without its last name. Names consist of
letters, digits and ``%_-``, with dots between the parts of one name; :func:`escape` turns any text into such a part.

**Transactions.** All changes of one transaction are made, or none. Each change says what it expects: a key that is
created must not exist; a key that is deleted, replaced or checked must. No transaction relies on a value that may have
gone and come back: every entry that stands for a state (see ``rows``) has a token in its name that is used once, and a
process that changes the state deletes that entry.
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

#: Written by a process that has written something other processes should read.
NOTIFY_KEY: Key = ("bell",)

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LAST_TIME = 10**18 - 1
#: Ends a text in hexadecimal digits, and sorts behind them.
_END = "x"


class Found(NamedTuple):
    """A value that a server holds."""

    value: str
    version: int
    """Changes whenever the value is replaced."""


class Span(NamedTuple):
    """A range of the names in a folder."""

    folder: Key
    limit: int | None = None
    first: str = ""
    """The names start here."""
    last: str | None = None
    """The names end before this one."""

    @classmethod
    def of_prefix(cls, folder: Key, prefix: str) -> Span:
        """Return the span of names that begin with a prefix and a dot."""
        return cls(folder, None, f"{prefix}.", f"{prefix}/")

    def has(self, name: str) -> bool:
        return self.first <= name and (self.last is None or name < self.last)


class Transaction:
    """Changes that the server makes together or not at all."""

    __slots__ = ("bytes", "checked", "created", "deleted", "put", "replaced")

    def __init__(self) -> None:
        self.created: dict[Key, str] = {}
        self.replaced: dict[Key, tuple[str, int | None]] = {}
        """Key → its new value, and the version that the key must have, if any."""
        self.deleted: dict[Key, int | None] = {}
        """Key → the version that the key must have, if any."""
        self.checked: set[Key] = set()
        self.put: dict[Key, str] = {}
        """Written whether or not the key exists."""
        self.bytes = 0

    def create(self, key: Key, value: str = "") -> Transaction:
        """Write a key that must not exist."""
        self.created[key] = value
        self.bytes += _weight(key, value)
        return self

    def replace(self, key: Key, value: str, version: int | None = None) -> Transaction:
        """Overwrite a key that must exist."""
        self.replaced[key] = value, version
        self.bytes += _weight(key, value)
        return self

    def delete(self, key: Key, version: int | None = None) -> Transaction:
        """Delete a key that must exist."""
        self.deleted[key] = version
        self.bytes += _weight(key, "")
        return self

    def check(self, key: Key) -> Transaction:
        """Demand that a key exists."""
        self.checked.add(key)
        self.bytes += _weight(key, "")
        return self

    def notify(self, instance_id: str) -> None:
        """Tell other processes that there is something new."""
        self.put[NOTIFY_KEY] = f"{instance_id} {new_token()}"

    def add(self, other: Transaction) -> None:
        """Take over the changes of another transaction."""
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

    def drop_implied_checks(self) -> None:
        """Drop the checks of keys that the same transaction changes: a change implies the check."""
        self.checked -= self.replaced.keys() | self.deleted.keys() | self.created.keys()

    def __len__(self) -> int:
        return len(self.created) + len(self.replaced) + len(self.deleted) + len(self.checked) + len(self.put)


class Mirror(Protocol):
    """A copy of a folder in this process, for those who read all of it again and again. One thread at a time uses it.

    If a refresh raises an error, the copy is of no use any more.
    """

    held: dict[str, Found | None]
    """Name → its value, or None if only names are held."""

    def refresh(self) -> set[str]:
        """Take over what has changed on the server; return the names whose values are new, or that are gone."""


class KeyValue(Protocol):
    """A server. Every call has a deadline, and is made once.

    A call without an answer raises :class:`~goscheduler.errors.StoreUnavailable`: the server may still have done it.
    """

    max_changes: int
    """How many changes one transaction may have."""
    max_bytes: int
    """How large one transaction may be."""

    def open(self) -> None:
        """Connect, and create the keys that must exist."""

    def close(self) -> None:
        """Release everything that :meth:`open` took."""

    def abandon(self) -> None:
        """Forget connections that belong to the parent of this forked process."""

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        """Return the values of some keys."""

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        """Return the names in some folders, each list in ascending order."""

    def commit(self, transaction: Transaction) -> bool:
        """Make all changes; false, and nothing is changed, if a key is not as the transaction expects."""

    def ensure(self, key: Key) -> None:
        """Create a key with an empty value unless it exists."""

    def mirror(self, folder: Key, values: bool) -> Mirror:
        """Return a copy of a folder in this process, of its names or of the values too. Nothing is read yet."""

    def listen(self, heard: Callable[[str], None]) -> None:
        """Call ``heard`` with the value of each notification, from now on until the server is closed."""


class Heartbeat(NamedTuple):
    """What is known of an owner whose lease lasts."""

    text: str
    until: int
    """When its lease ends, in microseconds."""


class Heartbeats(Protocol):
    """Knows which owners are alive."""

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Renew the lease of an owner for so many seconds. False if it was ``known`` and is no longer."""

    def alive(self, now: datetime) -> dict[str, Heartbeat]:
        """Return name → what is known, of the owners whose lease lasts."""

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget owners whose lease has ended; return name → text of those that this call has forgotten."""

    def stop(self, name: str) -> None:
        """Forget an owner."""


def escape(text: str) -> str:
    """Return ``text`` as part of a name, percent-encoded so that no character is special to the server."""
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")


def unescape(escaped: str) -> str:
    """Return the text that :func:`escape` was given."""
    return unquote(escaped, errors="surrogatepass")


def new_token() -> str:
    """Return a token that was never used before."""
    return uuid4().hex[:16]


def encode_time(microseconds: int) -> str:
    """Return a time as part of a name; names sort by time."""
    return f"{min(max(microseconds, 0), _LAST_TIME):018d}"


def encode_time_descending(microseconds: int) -> str:
    """Return a time as part of a name; names sort by time, the latest first."""
    return f"{_LAST_TIME - min(max(microseconds, 0), _LAST_TIME):018d}"


def encode_text_descending(text: str) -> str:
    """Return any text as a name; names sort by text, the last first, as Python sorts text."""
    return bytes(255 - byte for byte in text.encode("utf-8", "surrogatepass")).hex() + _END


def decode_text_descending(name: str) -> str:
    """Return the text that :func:`encode_text_descending` was given."""
    return bytes(255 - byte for byte in bytes.fromhex(name.removesuffix(_END))).decode("utf-8", "surrogatepass")


def decode_time(name: str) -> int:
    """Return the time with which a name begins."""
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
