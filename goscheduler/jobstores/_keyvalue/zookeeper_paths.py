"""Which ZooKeeper node holds which key of a store.

ZooKeeper lists all children of a node or none, so no node may have many. Entries by time are two levels deep, under
the day and the quarter of an hour; entries by name are under the first digit of a digest of the name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

from goscheduler.jobstores._keyvalue.server import Key, Span, encode_time, encode_time_descending
from goscheduler.times import to_micros

#: Folders by how their names are spread over nodes; all others are one node each.
BY_TIME = frozenset({"due", "ready", "finished", "history"})
BY_DIGEST = frozenset({"jobs", "lives", "runs", "dead", "groups", "paused", "notes"})
BY_FIRST_WORD = frozenset({"owned"})
#: How many digits of a time name the upper node (28 hours), and how many both nodes (17 minutes).
UPPER, LOWER = 7, 9


class NodePaths:
    """The nodes of one store."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, key: Key) -> str:
        """Return the node of a key."""
        kind, name = key[0], key[-1]
        if kind == "members":
            return f"{self.path(('groups', key[1]))}/{name}"
        folder = self.folder(key[:-1]) if len(key) > 1 else self.root
        if kind in BY_TIME:
            return f"{folder}/{name[:UPPER]}/{name[UPPER:LOWER]}/{name}"
        first = name.partition(".")[0] if kind != "groups" else name
        if kind in BY_DIGEST:
            return f"{folder}/{hashlib.sha256(first.encode()).hexdigest()[:1]}/{name}"
        return f"{folder}/{first}/{name}" if kind in BY_FIRST_WORD else f"{folder}/{name}"

    def folder(self, folder: Key) -> str:
        """Return the node of a folder."""
        return self.path(("groups", folder[1])) if folder[0] == "members" else "/".join((self.root, *folder))

    def levels(self, kind: str) -> int:
        """Return how many nodes are between the folder of a kind and its names."""
        return 2 if kind in BY_TIME else 1 if kind in BY_DIGEST or kind in BY_FIRST_WORD else 0

    def above(self, path: str) -> Iterator[str]:
        """Yield the nodes between the root and a node, the lowest first."""
        while (path := path.rpartition("/")[0]) != self.root:
            yield path


def may_hold(bucket: str, span: Span) -> bool:
    """Tell whether names that begin so can be in a span."""
    return f"{bucket}~" >= span.first and (span.last is None or bucket < span.last)


def is_of_now(bucket: str, now: datetime) -> bool:
    """Tell whether a node for times is that of the present, and will hold more soon."""
    present = encode_time(to_micros(now)), encode_time_descending(to_micros(now))
    return any(encoded.startswith(bucket) for encoded in present)
