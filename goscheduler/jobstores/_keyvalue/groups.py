"""Groups of runs, and how changes to them are written, for the stores on etcd and ZooKeeper.

The runs of a job are a group, and so are the runs under a limit. A group has a **turn**, an entry that is used once:
whoever lets a run start, or holds one back because of others that are live, deletes the turn and makes another, so that
no two do so at the same time after having seen the same. Whoever ends a run lets one that is held try again, or demands
that the turn is the one it has seen: otherwise somebody may just have been held who would never be let go.

A group without members is taken away with its last run, if its job is gone or if it remembers no rate.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.rows import PLACES, RowCodec, RunRow, group_of
from goscheduler.jobstores._keyvalue.server import Key, KeyValue, Span, Transaction, new_token
from goscheduler.runs.limits import Ledger

#: How often a step is tried again after somebody else was quicker.
MAX_ATTEMPTS = 60


#: How long after it was given up a call may still be carried out by a server.
STILL_POSSIBLE = timedelta(seconds=60)
#: How many ends of runs that nobody has answered for are remembered.
MOST_ENDS = 10_000


class StoreContext(NamedTuple):
    """What the steps of a store work with."""

    server: KeyValue
    codec: RowCodec
    doubts: Doubts
    instance_id: str
    """Who rings the bell."""


class Group:
    """The runs that count under one name, as they were found and as they are going to be."""

    __slots__ = ("blocked", "found", "live", "name", "rates", "version", "waiting")

    def __init__(self, name: str, members: Iterable[str] = (), rates: Any = ()) -> None:
        self.name = name
        self.rates = rates
        self.version: str | None = None
        self.live: set[str] = set()
        self.waiting: set[str] = set()
        """Names of the entries of pending runs."""
        self.blocked: list[str] = []
        for member in members:
            self.take_in(member)
        self.found = frozenset(self.live)
        """The live runs that were there."""

    def take_in(self, member: str) -> None:
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

    @property
    def firings(self) -> int:
        return sum(name.startswith("W") for name in self.waiting)

    @property
    def empty(self) -> bool:
        return not (self.live or self.waiting or self.blocked)


class Groups:
    """The groups that a batch of changes has to do with."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server
        self._known: dict[str, Group] = {}
        self._limits: dict[str, str] = {}
        self.ledger = Ledger()

    def __getitem__(self, name: str) -> Group:
        return self._known[name]

    def load(self, names: Iterable[str]) -> None:
        """Look how some groups stand."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._known]
        if not wanted:
            return
        rates = self._rates([name for name in wanted if name.startswith("l.")])
        members = self._server.names([Span(("members", name)) for name in wanted])
        for name, found in zip(wanted, members, strict=True):
            self._known[name] = Group(name, found, rates.get(name, ()))

    def open_ledger(self, limits: Iterable[str]) -> None:
        """Make a ledger of some limits, by their names; their groups are loaded."""
        self._limits = {group_of(f"limit:{name}"): name for name in limits}
        self.load(self._limits)
        live = {name: len(self._known[group].live) for group, name in self._limits.items()}
        rates = {name: self._known[group].rates for group, name in self._limits.items() if self._known[group].rates}
        self.ledger = Ledger(live, rates)

    def _rates(self, names: Sequence[str]) -> dict[str, Any]:
        found = self._server.read([("groups", name) for name in names]) if names else []
        return {name: _read_rates(each.value) for name, each in zip(names, found, strict=True) if each is not None}

    def state_of(self, group: str) -> str | None:
        """Return what a limit is to remember, if that has changed."""
        limit = self._limits.get(group)
        state = None if limit is None else self.ledger.changed.get(limit)
        return None if state is None else json.dumps(state)


def _read_rates(text: str) -> Any:
    try:
        return json.loads(text) if text else ()
    except ValueError:
        return ()


class Change:
    """Changes that belong together; several parts may go into one step."""

    __slots__ = ("alone", "bumped", "ends", "gone", "left", "result", "runs", "transaction")

    def __init__(self, alone: bool = False) -> None:
        self.alone = alone
        """Whether it cannot share a step with others."""
        self.transaction = Transaction()
        self.bumped: set[str] = set()
        """Groups that get a live run, or hold one back."""
        self.left: set[str] = set()
        """Groups that lose a run."""
        self.gone: set[str] = set()
        """Those of them whose job is gone."""
        self.runs: list[Any] = []
        """Runs that are ours when it is written."""
        self.ends: list[tuple[str, int]] = []
        """Ids and fences of runs that have ended when it is written."""
        self.result: Any = None
        """What the caller wants to know when it is written."""

    def add_run(self, row: RunRow, groups: Groups) -> None:
        """Write a run that was not there."""
        self.transaction.create(row.key, row.text)
        self.transaction.create(row.place)
        self.enter(row, groups)

    def enter(self, row: RunRow, groups: Groups) -> None:
        """Make a run a member of its groups."""
        names = row.groups if row.owner is not None else row.groups[:1]
        for name in names:
            member = ("members", name, row.member[2])
            self.transaction.create(member)
            groups[name].take_in(member[2])
            self.bumped.add(name)

    def leave(self, row: RunRow, groups: Groups) -> None:
        """Take a run out of its groups."""
        names = row.groups if row.owner is not None else row.groups[:1]
        for name in names:
            member = row.member[2]
            self.transaction.delete(("members", name, member))
            groups[name].live.discard(member)
            groups[name].waiting.discard(member)
            self.left.add(name)


class Doubts:
    """What was asked of a server that did not answer: it may have happened, and it may still happen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, tuple[Key, Any, datetime | None]] = {}
        """Id of a run → where it would stand, the run, and when it was looked for first."""
        self._ends: dict[tuple[str, int], None] = {}

    def add(self, changes: Sequence[Change]) -> None:
        """Remember what the parts of a step would have written."""
        with self._lock:
            for change in changes:
                self._runs.update({run.id: (place, run, None) for place, run in change.runs})
        self.note(end for change in changes for end in change.ends)

    def note(self, ends: Iterable[tuple[str, int]]) -> None:
        """Remember ids and fences of runs whose ends we may have written."""
        with self._lock:
            self._ends.update(dict.fromkeys(ends))
            while len(self._ends) > MOST_ENDS:
                del self._ends[next(iter(self._ends))]

    def remove(self, changes: Iterable[Change]) -> None:
        """Forget what has turned out to be written."""
        with self._lock:
            for change in changes:
                for _, run in change.runs:
                    self._runs.pop(run.id, None)
                for end in change.ends:
                    self._ends.pop(end, None)

    def settled(self, run_id: str, fence: int) -> bool:
        """Tell, once, whether we may have written the end of a run ourselves."""
        with self._lock:
            return self._ends.pop((run_id, fence), self) is not self

    def resolve(self, server: KeyValue, now: datetime) -> list[Any]:
        """Return the runs that turn out to be ours."""
        if not self._runs:
            return []
        with self._lock:
            waiting, self._runs = self._runs, {}
        try:
            found = server.read([place for place, _, _ in waiting.values()])
        except StoreUnavailable:
            self._runs.update(waiting)
            raise
        ours = []
        for (place, run, since), there in zip(waiting.values(), found, strict=True):
            if there is not None:
                ours.append(run)
            elif since is None or now - since < STILL_POSSIBLE:
                self._runs[run.id] = (place, run, since or now)
        return ours


class Written(NamedTuple):
    """How far some parts were written."""

    changes: Sequence[Change]
    """Those that are."""
    lost: bool = False
    """Whether somebody else was quicker with one of the others: then these are to be made again from what is found."""
    error: StoreUnavailable | None = None
    """What stopped it."""


def write_all(context: StoreContext, groups: Groups, changes: Sequence[Change]) -> bool:
    """Write parts; false if somebody else was quicker with one of them, and with it all that follow it are not written.

    :raises StoreUnavailable: if the server does not answer
    """
    written = write(context, groups, changes)
    if written.error is not None:
        raise written.error
    return not written.lost


def write(context: StoreContext, groups: Groups, changes: Sequence[Change], most: int = 1000) -> Written:
    """Write parts in as few steps as the server takes, at most so many parts in one; say how far that went."""
    written: list[Change] = []
    for chunk in _chunks(context.server, changes, most):
        rest = changes[len(written) + len(chunk) :] if any(change.left for change in chunk) else ()
        transaction, versions = _transaction_of(
            chunk, groups, set().union(*(change.left | change.bumped for change in rest))
        )
        try:
            if not commit(context, transaction, chunk):
                return Written(written, lost=True)
        except StoreUnavailable as error:
            return Written(written, error=error)
        for name, version in versions.items():
            groups[name].version = version
        written += chunk
    return Written(written)


def commit(context: StoreContext, transaction: Transaction, changes: Sequence[Change] = ()) -> bool:
    """Commit a step. What becomes of one that nobody answers for is looked up, and remembered if that fails too."""
    transaction.settle()
    try:
        return context.server.commit(transaction)
    except StoreUnavailable:
        context.doubts.add(changes)
        mark = next(filter(_is_of_one_step, transaction.created), None)
        if mark is None or context.server.read([mark])[0] is None:
            raise
        context.doubts.remove(changes)
        return True


def _is_of_one_step(key: Key) -> bool:
    """Tell whether nobody else can have created a key: it names an owner and a fence, or ends in a word used once."""
    return key[0] in PLACES or key[0] == "history" or (key[0] == "members" and key[-1].startswith(("H.", "T.")))


def _chunks(server: KeyValue, changes: Sequence[Change], most: int) -> Iterator[list[Change]]:
    chunk: list[Change] = []
    count = size = 0
    for change in changes:
        cost = len(change.transaction) + 3 * len(change.bumped | change.left)
        full = count + cost > server.max_changes or size + change.transaction.bytes > server.max_bytes
        if chunk and (full or len(chunk) >= most or change.alone or chunk[-1].alone):
            yield chunk
            chunk, count, size = [], 0, 0
        chunk.append(change)
        count += cost
        size += change.transaction.bytes
    if chunk:
        yield chunk


def _transaction_of(
    changes: Sequence[Change], groups: Groups, later: set[str]
) -> tuple[Transaction, dict[str, str | None]]:
    """Return one step for all parts, and the new turns of the groups that change; ``later`` steps need some of them."""
    transaction = Transaction()
    for change in changes:
        transaction.add(change.transaction)
    versions: dict[str, str | None] = {}
    bumped = set().union(*(change.bumped for change in changes))
    gone = set().union(*(change.gone for change in changes))
    for name in sorted(bumped):
        versions[name] = _bump_version(transaction, groups[name], groups.state_of(name))
    for name in sorted(set().union(*(change.left for change in changes)) - bumped):
        group = groups[name]
        if group.version is None:
            continue
        version = ("members", name, group.version)
        forgotten = name in gone if name.startswith("j.") else not group.rates
        if group.empty and forgotten and name not in later:
            transaction.delete(version)
            transaction.delete(("groups", name))
            versions[name] = None
        else:
            transaction.check(version)
    return transaction, versions


def _bump_version(transaction: Transaction, group: Group, state: str | None) -> str:
    key: Key = ("groups", group.name)
    version = f"T.{new_token()}"
    if group.version is None:
        transaction.create(key, state or "")
    else:
        transaction.delete(("members", group.name, group.version))
        if state is not None:
            transaction.replace(key, state)
    transaction.create(("members", group.name, version))
    return version


def attempts() -> Iterator[int]:
    """Yield the number of each attempt; after some, wait a little between them, so that others get through."""
    pause = threading.Event()
    for number in range(MAX_ATTEMPTS):
        if number > 3:
            pause.wait(random.uniform(0, 0.002 * min(number, 20)))
        yield number


def lost_all_races() -> StoreUnavailable:
    """Return the error of who has made all attempts in vain."""
    return StoreUnavailable(f"others have changed the same things first, {MAX_ATTEMPTS} times in a row")
