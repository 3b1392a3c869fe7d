"""What is due, in the stores on etcd and ZooKeeper: a look at the first names of some lanes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from goscheduler.jobstores._keyvalue.server import Key, KeyValue, Span, Step, name_of, time_of, time_word, word
from goscheduler.jobstores.base import FireRequest
from goscheduler.runs.plan import PRIORITY_STEP_US
from goscheduler.times import to_micros

#: Who has lost a race takes his pick among so many times what he has room for.
SPREAD = 8
#: How many due jobs of a lane a look brings: where there are no more of them, they fire without being looked for again.
AT_HAND = 16
#: Entries that call for another look when we have written them.
_NEWS = frozenset({"ready", "held", "freed", "ending"})


class QueueKey(NamedTuple):
    """Jobs and runs of one executor, one priority and one task."""

    name: str
    executor: str
    """As a word."""
    priority: int
    task: str
    """As a word, or nothing."""

    @classmethod
    def of(cls, name: str) -> QueueKey:
        executor, priority, task = name.split(".")
        return cls(name, executor, int(priority), task)

    def has(self, room: Mapping[str, int]) -> bool:
        """Tell whether its executor has room."""
        return room.get(name_of(self.executor), 0) > 0


class Entry(NamedTuple):
    """A name in a lane."""

    lane: QueueKey
    name: str

    @property
    def subject(self) -> str:
        """The word of the job or run."""
        return self.name.split(".")[1]

    @property
    def rank(self) -> tuple[int, int]:
        due = time_of(self.name)
        return due + self.lane.priority * PRIORITY_STEP_US, due


class Seen(NamedTuple):
    """What there is to do, in the lanes of who has asked."""

    end: str
    """Names of what is due come before this."""
    due: Mapping[QueueKey, Sequence[str]]
    """Lane → the first names of jobs that are due, at most ``AT_HAND``."""
    later: Mapping[QueueKey, Sequence[str]]
    """Lane → the name of the first job that is not due yet, if there is one."""
    ready: Mapping[QueueKey, Sequence[str]]
    """The same of the first pending run, whether it is due or not."""
    to_cancel: Sequence[str]
    """Words of the runs that are to be ended."""
    held: bool
    """Whether runs wait for others to end."""
    freed: bool
    """Whether runs were let try again, and have not been claimed yet."""

    def job_due(self, room: Mapping[str, int]) -> int | None:
        """Return when the first job is due for which there is room."""
        return min((time_of(name) for lane, name in self._jobs() if lane.has(room)), default=None)

    def run_due(self, room: Mapping[str, int]) -> int | None:
        """Return when the first pending run is due for which there is room."""
        return min((time_of(name) for lane, name in self._runs() if lane.has(room)), default=None)

    def has_due_jobs(self, room: Mapping[str, int]) -> bool:
        """Tell whether a job is due for which there is room."""
        return any(name < self.end for lane, name in self._jobs() if lane.has(room))

    def has_due_runs(self, room: Mapping[str, int]) -> bool:
        """Tell whether a pending run is due for which there is room."""
        return any(name < self.end for lane, name in self._runs() if lane.has(room))

    def crowded(self, room: Mapping[str, int]) -> bool:
        """Tell whether something is due for which there is no room."""
        return any(name < self.end for lane, name in (*self._jobs(), *self._runs()) if not lane.has(room))

    def stuck(self, room: Mapping[str, int]) -> bool:
        """Tell whether runs that wait could try, but for others that were let try and have no room."""
        crowded = any(name < self.end for lane, name in self._runs() if not lane.has(room))
        return self.held and self.freed and crowded

    def at_hand(self, room: Mapping[str, int]) -> list[Entry] | None:
        """Return the jobs that are due, as ``pick`` would; None if not enough of them were seen."""
        found: list[Entry] = []
        for executor, count in room.items():
            lanes = [lane for lane in self.due if lane.executor == word(executor)]
            names = [self.due[lane] for lane in lanes]
            if any(AT_HAND <= len(some) < count for some in names):
                return None
            found += sorted(_entries(lanes, names), key=lambda entry: entry.rank)[: max(0, count)]
        return sorted(found, key=lambda entry: entry.rank)

    def after(self, steps: Iterable[Step]) -> Seen | None:
        """Return what there is to do when steps of ours are written; None if that has to be looked for."""
        deleted: set[Key] = set()
        created: dict[str, list[str]] = {lane.name: [] for lane in self.due}
        for step in steps:
            deleted.update(step.deleted)
            for kind, *place in step.created:
                if kind in _NEWS or (kind == "due" and place[0] not in created):
                    return None
                if kind == "due":
                    created[place[0]].append(place[1])
        if any(len(names) >= AT_HAND for names in self.due.values()):
            return None
        due, later = {}, {}
        for lane in self.due:
            names = sorted([*self.due[lane], *self.later[lane], *created[lane.name]])
            names = [name for name in names if ("due", lane.name, name) not in deleted]
            due[lane] = [name for name in names if name < self.end]
            later[lane] = names[len(due[lane]) :][:1]
        return self._replace(due=due, later=later)

    def _jobs(self) -> Iterator[tuple[QueueKey, str]]:
        """Yield the first job of each lane."""
        for lane, names in self.due.items():
            for name in (*names, *self.later[lane])[:1]:
                yield lane, name

    def _runs(self) -> Iterator[tuple[QueueKey, str]]:
        for lane, names in self.ready.items():
            for name in names:
                yield lane, name


class Looking:
    """Looks for one store; it remembers which lanes there are."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server
        self._lanes: list[QueueKey] = []
        self._ensured: set[str] = set()
        self.contended = False
        """Whether somebody else was quicker the last time that something was due."""

    def need(self, lane: str) -> None:
        """See to it that a lane is known to everybody."""
        if lane not in self._ensured:
            self._server.ensure(("lanes", lane))
            self._ensured.add(lane)

    def forget(self) -> None:
        """Know nothing any more."""
        self._lanes, self._ensured = [], set()

    def look(self, request: FireRequest) -> Seen:
        """Return what there is to do: one call, unless there are lanes that are not known yet."""
        owner = word(request.owner)
        end = time_word(to_micros(request.now) + 1)
        while True:
            lanes = [lane for lane in self._lanes if _concerns(lane, request)]
            spans = [Span(("lanes",)), Span.of_prefix(("ending",), owner), Span(("held",), 1), Span(("freed",), 1)]
            spans += [Span(("due", lane.name), AT_HAND, "", end) for lane in lanes]
            spans += [Span(("due", lane.name), 1, end) for lane in lanes]
            spans += [Span(("ready", lane.name), 1) for lane in lanes]
            known, ending, held, freed, *heads = self._server.names(spans)
            if known == [lane.name for lane in self._lanes]:
                break
            self._lanes = [QueueKey.of(name) for name in known]
        count = len(lanes)
        due, later, ready = (dict(zip(lanes, heads[at : at + count], strict=True)) for at in (0, count, 2 * count))
        to_cancel = [name.partition(".")[2] for name in ending]
        return Seen(end, due, later, ready, to_cancel, bool(held), bool(freed))

    def pick(self, kind: str, request: FireRequest, room: Mapping[str, int], luck: bool) -> list[Entry]:
        """Return what is due, the lowest rank first, no more than there is room for.

        ``luck`` says to pick by chance among more than that, because others pick at the same time.
        """
        found: list[Entry] = []
        end = time_word(to_micros(request.now) + 1)
        for executor, count in room.items():
            if count <= 0:
                continue
            lanes = [lane for lane in self._lanes if lane.executor == word(executor) and _concerns(lane, request)]
            limit = count * SPREAD if luck else count
            names = self._server.names([Span((kind, lane.name), limit, "", end) for lane in lanes])
            entries = sorted(_entries(lanes, names), key=lambda entry: entry.rank)[:limit]
            found += random.sample(entries, min(count, len(entries))) if luck else entries
        return sorted(found, key=lambda entry: entry.rank)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        known = set(map(word, executors))
        there = self._server.names([Span(("lanes",))])[0]
        lanes = [lane for lane in map(QueueKey.of, there) if lane.executor not in known]
        end = time_word(to_micros(until) + 1)
        names = self._server.names([Span(("due", lane.name), None, "", end) for lane in lanes])
        return Counter(name_of(entry.lane.executor) for entry in _entries(lanes, names))

    def everything(self, kind: str, last: str | None = None, limit: int | None = None) -> list[str]:
        """Return the names in all lanes, whoever can run what is there."""
        lanes = self._server.names([Span(("lanes",))])[0]
        found = self._server.names([Span((kind, lane), limit, "", last) for lane in lanes])
        return [name for names in found for name in names]


def _concerns(lane: QueueKey, request: FireRequest) -> bool:
    """Tell whether who asks can run what is in a lane."""
    known = not lane.task or lane.task in map(word, request.tasks)
    return known and any(lane.executor == word(executor) for executor in request.room)


def _entries(lanes: Sequence[QueueKey], names: Sequence[Iterable[str]]) -> list[Entry]:
    return [Entry(lane, name) for lane, found in zip(lanes, names, strict=True) for name in found]
