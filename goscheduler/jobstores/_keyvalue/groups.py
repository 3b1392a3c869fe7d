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
from goscheduler.jobstores._keyvalue.rows import PLACES, Rows, RunRow, group_of
from goscheduler.jobstores._keyvalue.server import Key, KeyValue, Span, Step, unique
from goscheduler.runs.limits import Ledger

#: How often a step is tried again after somebody else was quicker.
ATTEMPTS = 60


#: How long after it was given up a call may still be carried out by a server.
STILL_POSSIBLE = timedelta(seconds=60)
#: How many ends of runs that nobody has answered for are remembered.
MOST_ENDS = 10_000


class Work(NamedTuple):
    """What the steps of a store work with."""

    server: KeyValue
    rows: Rows
    doubts: Doubts
    who: str
    """Who rings the bell."""


class Group:
    """The runs that count under one name, as they were found and as they are going to be."""

    __slots__ = ("found", "held", "live", "name", "rates", "turn", "waiting")

    def __init__(self, name: str, members: Iterable[str] = (), rates: Any = ()) -> None:
        self.name = name
        self.rates = rates
        self.turn: str | None = None
        self.live: set[str] = set()
        self.waiting: set[str] = set()
        """Names of the entries of pending runs."""
        self.held: list[str] = []
        for member in members:
            self.take_in(member)
        self.found = frozenset(self.live)
        """The live runs that were there."""

    def take_in(self, member: str) -> None:
        """Add a member."""
        kind = member[:1]
        if kind == "T":
            self.turn = member
        elif kind == "L":
            self.live.add(member)
        elif kind == "H":
            self.held.append(member)
        else:
            self.waiting.add(member)

    @property
    def firings(self) -> int:
        return sum(name.startswith("W") for name in self.waiting)

    @property
    def empty(self) -> bool:
        return not (self.live or self.waiting or self.held)


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


class Part:
    """Changes that belong together; several parts may go into one step."""

    __slots__ = ("alone", "ends", "gone", "left", "runs", "step", "told", "touched")

    def __init__(self, alone: bool = False) -> None:
        self.alone = alone
        """Whether it cannot share a step with others."""
        self.step = Step()
        self.touched: set[str] = set()
        """Groups that get a live run, or hold one back."""
        self.left: set[str] = set()
        """Groups that lose a run."""
        self.gone: set[str] = set()
        """Those of them whose job is gone."""
        self.runs: list[Any] = []
        """Runs that are ours when it is written."""
        self.ends: list[tuple[str, int]] = []
        """Ids and fences of runs that have ended when it is written."""
        self.told: Any = None
        """What the caller wants to know when it is written."""

    def add_run(self, row: RunRow, groups: Groups) -> None:
        """Write a run that was not there."""
        self.step.create(row.key, row.text)
        self.step.create(row.place)
        self.enter(row, groups)

    def enter(self, row: RunRow, groups: Groups) -> None:
        """Make a run a member of its groups."""
        names = row.groups if row.owner is not None else row.groups[:1]
        for name in names:
            member = ("members", name, row.member[2])
            self.step.create(member)
            groups[name].take_in(member[2])
            self.touched.add(name)

    def leave(self, row: RunRow, groups: Groups) -> None:
        """Take a run out of its groups."""
        names = row.groups if row.owner is not None else row.groups[:1]
        for name in names:
            member = row.member[2]
            self.step.delete(("members", name, member))
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

    def add(self, parts: Sequence[Part]) -> None:
        """Remember what the parts of a step would have written."""
        with self._lock:
            for part in parts:
                self._runs.update({run.id: (place, run, None) for place, run in part.runs})
        self.note(end for part in parts for end in part.ends)

    def note(self, ends: Iterable[tuple[str, int]]) -> None:
        """Remember ids and fences of runs whose ends we may have written."""
        with self._lock:
            self._ends.update(dict.fromkeys(ends))
            while len(self._ends) > MOST_ENDS:
                del self._ends[next(iter(self._ends))]

    def remove(self, parts: Iterable[Part]) -> None:
        """Forget what has turned out to be written."""
        with self._lock:
            for part in parts:
                for _, run in part.runs:
                    self._runs.pop(run.id, None)
                for end in part.ends:
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

    parts: Sequence[Part]
    """Those that are."""
    lost: bool = False
    """Whether somebody else was quicker with one of the others: then these are to be made again from what is found."""
    error: StoreUnavailable | None = None
    """What stopped it."""


def write_all(work: Work, groups: Groups, parts: Sequence[Part]) -> bool:
    """Write parts; false if somebody else was quicker with one of them, and with it all that follow it are not written.

    :raises StoreUnavailable: if the server does not answer
    """
    written = write(work, groups, parts)
    if written.error is not None:
        raise written.error
    return not written.lost


def write(work: Work, groups: Groups, parts: Sequence[Part], most: int = 1000) -> Written:
    """Write parts in as few steps as the server takes, at most so many parts in one; say how far that went."""
    written: list[Part] = []
    for chunk in _chunks(work.server, parts, most):
        rest = parts[len(written) + len(chunk) :] if any(part.left for part in chunk) else ()
        step, turns = _step_of(chunk, groups, set().union(*(part.left | part.touched for part in rest)))
        try:
            if not commit(work, step, chunk):
                return Written(written, lost=True)
        except StoreUnavailable as error:
            return Written(written, error=error)
        for name, turn in turns.items():
            groups[name].turn = turn
        written += chunk
    return Written(written)


def commit(work: Work, step: Step, parts: Sequence[Part] = ()) -> bool:
    """Commit a step. What becomes of one that nobody answers for is looked up, and remembered if that fails too."""
    step.settle()
    try:
        return work.server.commit(step)
    except StoreUnavailable:
        work.doubts.add(parts)
        mark = next(filter(_is_of_one_step, step.created), None)
        if mark is None or work.server.read([mark])[0] is None:
            raise
        work.doubts.remove(parts)
        return True


def _is_of_one_step(key: Key) -> bool:
    """Tell whether nobody else can have created a key: it names an owner and a fence, or ends in a word used once."""
    return key[0] in PLACES or key[0] == "history" or (key[0] == "members" and key[-1].startswith(("H.", "T.")))


def _chunks(server: KeyValue, parts: Sequence[Part], most: int) -> Iterator[list[Part]]:
    chunk: list[Part] = []
    changes = size = 0
    for part in parts:
        cost = len(part.step) + 3 * len(part.touched | part.left)
        full = changes + cost > server.most_changes or size + part.step.bytes > server.most_bytes
        if chunk and (full or len(chunk) >= most or part.alone or chunk[-1].alone):
            yield chunk
            chunk, changes, size = [], 0, 0
        chunk.append(part)
        changes += cost
        size += part.step.bytes
    if chunk:
        yield chunk


def _step_of(parts: Sequence[Part], groups: Groups, later: set[str]) -> tuple[Step, dict[str, str | None]]:
    """Return one step for all parts, and the new turns of the groups that change; ``later`` steps need some of them."""
    step = Step()
    for part in parts:
        step.add(part.step)
    turns: dict[str, str | None] = {}
    touched = set().union(*(part.touched for part in parts))
    gone = set().union(*(part.gone for part in parts))
    for name in sorted(touched):
        turns[name] = _take_turn(step, groups[name], groups.state_of(name))
    for name in sorted(set().union(*(part.left for part in parts)) - touched):
        group = groups[name]
        if group.turn is None:
            continue
        turn = ("members", name, group.turn)
        forgotten = name in gone if name.startswith("j.") else not group.rates
        if group.empty and forgotten and name not in later:
            step.delete(turn)
            step.delete(("groups", name))
            turns[name] = None
        else:
            step.check(turn)
    return step, turns


def _take_turn(step: Step, group: Group, state: str | None) -> str:
    key: Key = ("groups", group.name)
    turn = f"T.{unique()}"
    if group.turn is None:
        step.create(key, state or "")
    else:
        step.delete(("members", group.name, group.turn))
        if state is not None:
            step.replace(key, state)
    step.create(("members", group.name, turn))
    return turn


def attempts() -> Iterator[int]:
    """Yield the number of each attempt; after some, wait a little between them, so that others get through."""
    pause = threading.Event()
    for number in range(ATTEMPTS):
        if number > 3:
            pause.wait(random.uniform(0, 0.002 * min(number, 20)))
        yield number


def overtaken() -> StoreUnavailable:
    """Return the error of who has made all attempts in vain."""
    return StoreUnavailable(f"others have changed the same things first, {ATTEMPTS} times in a row")
