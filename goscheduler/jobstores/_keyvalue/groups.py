"""Groups of runs in the stores on etcd and ZooKeeper: the runs of a job, and the runs under a limit.

Each group has a **version**, an entry whose name is used once. A process that adds a live run to a group, or blocks a
run because of the live ones, replaces the version. So of two processes that have read the same group, only one writes.
A process that ends a run unblocks the next one, or demands that the version is the one it has read. Otherwise another
process may just have blocked a run that nothing would ever unblock.

The last run that leaves a group deletes the group, if its job is gone or if it has no starts to remember.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from goscheduler.jobstores._keyvalue.rows import group_of
from goscheduler.jobstores._keyvalue.server import KeyValue, Span
from goscheduler.runs.limits import Ledger


class Group:
    """The runs that count under one name: as they were read, with the changes that were prepared since."""

    __slots__ = ("blocked", "found", "live", "name", "rates", "version", "waiting")

    def __init__(self, name: str, members: Iterable[str] = (), rates: Any = ()) -> None:
        self.name = name
        self.rates = rates
        self.version: str | None = None
        self.live: set[str] = set()
        self.waiting: set[str] = set()
        """Members for pending runs."""
        self.blocked: list[str] = []
        for member in members:
            self.add(member)
        self.found = frozenset(self.live)
        """The live runs that were read."""

    def add(self, member: str) -> None:
        """Add a member."""
        kind = member[:1]
        if kind == "T":
            self.version = member
        elif kind == "L":
            self.live.add(member)
        elif kind == "H":
            self.blocked.append(member)
        else:
            self.waiting.add(member)

    def remove(self, member: str) -> None:
        """Remove a live or pending run."""
        self.live.discard(member)
        self.waiting.discard(member)

    @property
    def firings(self) -> int:
        """How many fire times of the job are pending."""
        return sum(name.startswith("W") for name in self.waiting)

    @property
    def empty(self) -> bool:
        return not (self.live or self.waiting or self.blocked)


class Groups:
    """The groups that a batch of changes has to do with."""

    def __init__(self, server: KeyValue, names: Iterable[str] = ()) -> None:
        self._server = server
        self._known: dict[str, Group] = {}
        self._limits: dict[str, str] = {}
        self.ledger = Ledger()
        self.load(names)

    def __getitem__(self, name: str) -> Group:
        return self._known[name]

    def load(self, names: Iterable[str]) -> None:
        """Read the groups that are not loaded yet."""
        missing = [name for name in dict.fromkeys(names) if name not in self._known]
        if not missing:
            return
        rates = self._rates([name for name in missing if name.startswith("l.")])
        members = self._server.names([Span(("members", name)) for name in missing])
        for name, found in zip(missing, members, strict=True):
            self._known[name] = Group(name, found, rates.get(name, ()))

    def open_ledger(self, limits: Iterable[str]) -> None:
        """Load the groups of some limits, given by name, and make a ledger of them."""
        self._limits = {group_of(f"limit:{name}"): name for name in limits}
        self.load(self._limits)
        live = {name: len(self._known[group].live) for group, name in self._limits.items()}
        rates = {name: self._known[group].rates for group, name in self._limits.items() if self._known[group].rates}
        self.ledger = Ledger(live, rates)

    def _rates(self, names: Sequence[str]) -> dict[str, Any]:
        found = self._server.read([("groups", name) for name in names]) if names else []
        return {name: read_rates(each.value) for name, each in zip(names, found, strict=True) if each is not None}

    def state_of(self, group: str) -> str | None:
        """Return the starts that a limit has to remember, if the ledger has changed them."""
        limit = self._limits.get(group)
        state = None if limit is None else self.ledger.changed.get(limit)
        return None if state is None else json.dumps(state)


def read_rates(text: str) -> Any:
    """Return the starts that a limit remembers."""
    try:
        return json.loads(text) if text else ()
    except ValueError:
        return ()
