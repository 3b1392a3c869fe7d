"""A copy of a folder of a store on ZooKeeper, kept up to date by watches.

Each node that was read is watched. The server calls a watch once, in the order of its answers: so when a call is
answered, this process has been told of all changes that the answer could show. A refresh reads what has changed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from goscheduler.jobstores._keyvalue.server import Found, Key
from goscheduler.jobstores._keyvalue.zookeeper_paths import NodePaths

Heard = Callable[[Any], None]

#: How many nodes one call asks for.
NODES_PER_READ = 1000


class WatchedNodes(Protocol):
    """What the copy needs of the server."""

    def catch_up(self) -> None:
        """Wait until this process has been told of all changes of watched nodes up to now."""

    def watch_children(self, paths: Sequence[str], heard: Heard) -> list[list[str] | None]:
        """Return the children of nodes, None where there is no node, and watch those that there are."""

    def watch_values(self, paths: Sequence[str], heard: Heard) -> list[Found | None]:
        """Return the values of nodes, None where there is no node, and watch those that there are."""


class ZooKeeperMirror:
    """A copy of one folder."""

    def __init__(self, server: WatchedNodes, paths: NodePaths, folder: Key, values: bool) -> None:
        self.held: dict[str, Found | None] = {}
        self._server = server
        self._paths = paths
        self._folder = folder
        self._values = values
        self._children: dict[str, frozenset[str]] = {}
        """Node that holds others → what it holds; it is watched."""
        self._unread: set[str] = set()
        """Names whose values are to be read."""
        self._heard: deque[str | None] = deque()
        """Nodes that have changed; None if the connection was lost, and all watches with it."""

    def refresh(self) -> set[str]:
        self._server.catch_up()
        dirty = set(self._news())
        lost = None in dirty
        changed = self._list(dirty, lost)
        if not self._values:
            return changed
        self._unread.update(self.held if lost else ())
        for path in dirty - {None}:
            name = (path or "").rpartition("/")[2]
            if name in self.held and self._path(name) == path:
                self._unread.add(name)
        return changed | self._read()

    def _news(self) -> Iterator[str | None]:
        while self._heard:
            yield self._heard.popleft()

    def _hear(self, event: Any) -> None:
        self._heard.append(event.path)

    def _path(self, name: str) -> str:
        return self._paths.path((*self._folder, name))

    def _list(self, dirty: set[str | None], lost: bool) -> set[str]:
        """List the nodes that have changed; return the names that are new or gone."""
        changed: set[str] = set()
        holders = [self._paths.folder(self._folder)]
        for levels in range(self._paths.levels(self._folder[0]), -1, -1):
            stale = [path for path in holders if lost or path in dirty or path not in self._children]
            for start in range(0, len(stale), NODES_PER_READ):
                batch = stale[start : start + NODES_PER_READ]
                listed = self._server.watch_children(batch, self._hear)
                for path, names in zip(batch, listed, strict=True):
                    self._take(path, names, levels, changed)
            if levels:
                holders = [f"{path}/{name}" for path in holders for name in self._children.get(path, ())]
        return changed

    def _take(self, path: str, names: list[str] | None, levels: int, changed: set[str]) -> None:
        """Take over what a node holds, that is so many levels above the names of the folder."""
        before, after = self._children.pop(path, frozenset()), frozenset(names or ())
        if names is not None:
            self._children[path] = after
        for gone in before - after:
            if levels:
                self._take(f"{path}/{gone}", None, levels - 1, changed)
            else:
                self.held.pop(gone, None)
                self._unread.discard(gone)
                changed.add(gone)
        if not levels:
            changed |= after - before
            self.held.update(dict.fromkeys(after - before))
            self._unread |= after - before

    def _read(self) -> set[str]:
        """Read values; return their names. One that is gone is looked for until the node above it is listed again."""
        names = sorted(self._unread)
        for start in range(0, len(names), NODES_PER_READ):
            batch = names[start : start + NODES_PER_READ]
            found = self._server.watch_values([self._path(name) for name in batch], self._hear)
            for name, each in zip(batch, found, strict=True):
                self.held[name] = each
                if each is not None:
                    self._unread.discard(name)
        return set(names)
